"""SGLang: /generate, accept lengths by request, /flush_cache. Field names of 0.5.x and of what came before it."""

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from runners.engines import facts_sglang, thin
from runners.engines.control import Ask, first_known
from runners.engines.dialect import Dialect, Profiler, RequestNames, Sleep, Start, openai_models
from runners.engines.params import EngineParams

# A server says no while the last request is being put away.
FLUSH_TRIES, FLUSH_PAUSE_S = 40, 0.25
INFO = ("/server_info", "/get_server_info")
WHAT = {"activities": ["CPU", "GPU"], "with_stack": False}


def version(ask: Ask) -> str:
    return str(first_known(ask, INFO).fields.get("version", ""))


def models(ask: Ask) -> tuple[str, ...]:
    """The names of /v1/models, which older servers lack while they still tell the model's path."""
    path = first_known(ask, ("/model_info", "/get_model_info")).fields.get("model_path")
    return tuple(dict.fromkeys([*openai_models(ask), *([str(path)] if path else [])]))


def flush(ask: Ask) -> str:
    """Waits until the server is idle: it refuses while a request runs. Its totals of speculation start anew too."""
    reply = ask("POST", "/flush_cache")
    for _ in range(FLUSH_TRIES):
        if reply.status != 400:
            break
        time.sleep(FLUSH_PAUSE_S)
        reply = ask("POST", "/flush_cache")
    return "" if reply.status == 200 else f"/flush_cache answered {reply.status}: {reply.text.strip()[:200]}"


def synthetic(start: Start, params: EngineParams) -> Start:
    """Drafts and verifies in full; only what is accepted is decided by a coin whose mean is the length asked for.

    The length counts the bonus token. The engine's other method (a rounded normal draw) has another mean.
    """
    own = {
        "SGLANG_SIMULATE_ACC_LEN": f"{params.synthetic_accept_length:g}",
        "SGLANG_SIMULATE_ACC_METHOD": "match-expected",
    }
    return replace(start, env={**start.env, **own})


def profile_body(folder: Path, cycles: int) -> dict[str, Any]:
    """By stage: so many decode batches in a trace of their own, without the prefills in front of them."""
    # Stacks, which are usual there, would slow the host down and fill the trace.
    return {"output_dir": str(folder), "num_steps": cycles, "profile_by_stage": True, **WHAT}


SGLANG = Dialect(
    name="sglang",
    wire="generate",
    command="{python} -m sglang.launch_server --model-path {model} --host {host} --port {port} --tp {tp}",
    modules=("sglang",),
    distributions=("sglang",),
    kernels=("sgl_kernel", "sglang_kernel", "flashinfer", "deep_gemm"),
    # Never /health or /health_generate: they generate a token and take a second.
    ready=("/ready", "/model_info", "/get_model_info"),
    version=version,
    models=models,
    info=INFO,
    facts=facts_sglang.facts,
    flush=flush,
    prefix_cache="flush",
    synthetic=synthetic,
    thin=thin.sglang,
    # The stage stands behind the rank: by its number in the engine's enumeration, or by one of two names.
    profiler=Profiler(
        body=profile_body,
        first_rank=re.compile(r"TP-0(?!\d)"),
        other_files=re.compile(r"-(1|EXTEND|prefill)\.trace\.json"),
    ),
    # Without the flag both paths answer 200 and nothing is released.
    sleep=Sleep(flags=("--enable-memory-saver",), sleep="/release_memory_occupation", wake="/resume_memory_occupation"),
    by_request=RequestNames(
        cycles=("spec_verify_ct",),
        accepted=("spec_num_correct_drafts", "spec_accept_token_num"),
        drafted=("spec_num_proposed_drafts", "spec_draft_token_num"),
    ),
    generated_tokens="sglang:generation_tokens_total",
)
