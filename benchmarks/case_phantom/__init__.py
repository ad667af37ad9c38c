"""The case of docs/case-phantom.md: a decode-like loop whose speed hangs on NCCL's environment, on two GPUs."""
