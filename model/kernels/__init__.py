"""The operations of a decode step at few rows: each as PyTorch (plain.py) and as a Triton kernel beside it.

`ops.py` says what an operation is given and gives. Only files that hold kernels import triton, and they are
imported where kernels are asked for: nothing here is needed on a machine without a GPU.
"""
