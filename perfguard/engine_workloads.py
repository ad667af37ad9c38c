"""The workloads that measure engines: SGLang, vLLM, transformers serve, any OpenAI-compatible server. A table; pure.

One launch of a server is one trial. Where a workload has modes, each mode is a server of its own, started one after
the other, and the first mode is what is measured unless somebody asks for both: a large model loads for minutes.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from perfguard.records import Metric, Workload

# Every parameter with what it is unless somebody says otherwise; docs/workloads.md describes them.
PARAMS: Mapping[str, Any] = {
    "engine": "openai",
    "model": "",
    "draft": "",
    "served_model": "",
    "tp": 1,
    "python": "",
    "command": "",
    "args": "",
    "speculative_args": "",
    "workdir": "",
    "version": "",
    "host": "127.0.0.1",
    "port": 0,
    "url": "",
    "wire": "",
    "requests": 16,
    "tokens": 128,
    "prompt_tokens": 0,
    "text_prompts": False,
    "prompt_file": "",
    "concurrency": 1,
    "rate_per_s": 0.0,
    "prefix_cache": "",
    "request_timeout_s": 120.0,
    "warmup_requests": 4,
    "warmup_rounds": 5,
    "stop_grace_s": 10.0,
    "synthetic_accept_length": 0.0,
    "ignore_eos": True,
    "realtime": False,
    "max_wait_share": 0.03,
}
# Load of weights, compilation and capture of graphs; a model of 1T parameters takes up to twenty minutes.
READY_S, LARGE_READY_S = 900.0, 2400.0
# From ready to the end, the end of the server included.
MEASURED_S = 1800.0

_RATES = (
    Metric(name="output_throughput", unit="token/s", better="higher"),
    Metric(name="ttft_s", unit="s", better="lower", primary=False),
    Metric(name="tpot_s", unit="s", better="lower", primary=False),
    Metric(name="e2e_s", unit="s", better="lower", primary=False),
)
_ACCEPTED = (Metric(name="accept_length", unit="token", better="higher", primary=False, exact=True),)

# The engines' own words; {draft} is filled in with the parameter.
_SGLANG_EAGLE3 = (
    "--speculative-algorithm EAGLE3 --speculative-draft-model-path {draft} --speculative-num-steps 3"
    " --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
)
_KIMI_EAGLE3 = (
    "--speculative-algorithm EAGLE3 --speculative-draft-model-path {draft} --speculative-num-steps 2"
    " --speculative-eagle-topk 1 --speculative-num-draft-tokens 3"
)
_VLLM_EAGLE3 = (
    "--speculative-config"
    """ '{"method": "eagle3", "model": "{draft}", "num_speculative_tokens": 3, "draft_tensor_parallel_size": 1}'"""
)
_VLLM_NGRAM = (
    "--speculative-config"
    """ '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}'"""
)


def _metrics(mode: str) -> tuple[Metric, ...]:
    own = _RATES if mode in ("", "plain") else _RATES + _ACCEPTED
    return tuple(replace(metric, name=f"{mode}_{metric.name}") for metric in own) if mode else own


def _engine(name: str, modes: tuple[str, ...] = (), ready_timeout_s: float = READY_S, **params: Any) -> Workload:
    return Workload(
        name=name,
        runner="engine",
        modes=modes,
        metrics=tuple(metric for mode in modes or ("",) for metric in _metrics(mode)),
        params={**PARAMS, **params},
        # The second mode's server loads after the first has been measured.
        timeout_s=MEASURED_S + (ready_timeout_s if len(modes) > 1 else 0.0),
        ready_timeout_s=ready_timeout_s,
    )


ENGINES = (
    _engine("openai"),
    _engine("transformers", engine="transformers"),
    _engine("sglang", engine="sglang", args="--enable-metrics"),
    _engine(
        "sglang-eagle3",
        ("eagle3", "plain"),
        engine="sglang",
        args="--enable-metrics",
        speculative_args=_SGLANG_EAGLE3,
        text_prompts=True,
    ),
    _engine(
        "sglang-kimi-eagle3",
        ("eagle3", "plain"),
        LARGE_READY_S,
        engine="sglang",
        model="moonshotai/Kimi-K2.5",
        draft="lightseekorg/kimi-k2.5-eagle3",
        tp=8,
        args="--enable-metrics --trust-remote-code",
        speculative_args=_KIMI_EAGLE3,
        text_prompts=True,
    ),
    _engine("vllm", engine="vllm"),
    _engine(
        "vllm-eagle3", ("eagle3", "plain"), engine="vllm", speculative_args=_VLLM_EAGLE3, text_prompts=True
    ),
    _engine("vllm-ngram", ("ngram", "plain"), engine="vllm", speculative_args=_VLLM_NGRAM, text_prompts=True),
)
