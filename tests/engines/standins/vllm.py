"""vLLM as its clients see it: /v1/completions, /version, /metrics with its counters and their `_created` twins.

`python -m vllm.entrypoints.openai.api_server` of a test's checkout ends here.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator

from standins.script import Script, misbehave_at_start, read_script
from standins.serving import (
    Answer,
    Event,
    Json,
    Route,
    State,
    Stream,
    as_json,
    as_text,
    count_request,
    fall_asleep,
    histograms,
    is_refused,
    serve,
    sse,
    tokens,
    wake_up,
)


def main(version: str) -> None:
    parser = argparse.ArgumentParser()
    for name in ("--model", "--host", "--port", "--tensor-parallel-size", "--speculative-config", "--profiler-config"):
        parser.add_argument(name)
    parser.add_argument("--enable-sleep-mode", action="store_true")
    asked, _ = parser.parse_known_args()
    script = read_script()
    misbehave_at_start(script)
    config = json.loads(asked.speculative_config or "{}")
    profiler = json.loads(asked.profiler_config or "{}")
    state = State(script, speculates=bool(config), accept=accept(script, config), profiler=profiler)
    paths = routes(script.version or version, script.model or asked.model, bool(profiler))
    paths |= dev_routes() if os.environ.get("VLLM_SERVER_DEV_MODE") == "1" else {}
    paths |= sleep_routes() if asked.enable_sleep_mode and "/reset_prefix_cache" in paths else {}
    serve(state, paths, asked.host, int(asked.port))


def dev_routes() -> dict[str, Route]:
    return {"/reset_prefix_cache": lambda state, _: as_text("")}


def sleep_routes() -> dict[str, Route]:
    def sleep(state: State, _: Json) -> Answer:
        fall_asleep(state)
        return as_text("")

    def wake(state: State, _: Json) -> Answer:
        wake_up(state)
        return as_text("")

    def is_sleeping(state: State, _: Json) -> Answer:
        return as_json({"is_sleeping": state.asleep})

    return {"/sleep": sleep, "/wake_up": wake, "/is_sleeping": is_sleeping}


def accept(script: Script, config: Json) -> tuple[float, ...]:
    if config.get("rejection_sample_method") == "synthetic" and not script.unsynthetic:
        return (float(config["synthetic_acceptance_length"]),)
    return tuple(min(one, config.get("num_speculative_tokens", 3) + 1) for one in script.accept)


def routes(version: str, model: str, profiled: bool) -> dict[str, Route]:
    def health(state: State, _: Json) -> Answer:
        return as_text("", 200 if state.is_ready else 503)

    def told(state: State, _: Json) -> Answer:
        return as_json({"version": version})

    def models(state: State, _: Json) -> Answer:
        if state.script.unread_models:
            return as_json([[], 3, None])
        return as_json({"object": "list", "data": [{"id": model, "root": model, "max_model_len": 1024}]})

    def complete(state: State, body: Json) -> Answer | Stream:
        if state.asleep:
            return as_json({"error": {"message": "The model is sleeping.", "code": 503}}, 503)
        if is_refused(state):
            count_request(state)
            return as_json({"error": {"message": "EngineCore encountered an issue.", "code": 500}}, 500)
        return events(state, body, model)

    return {
        "/health": health,
        "/version": told,
        "/v1/models": models,
        "/metrics": metrics,
        "/v1/completions": complete,
        **({"/start_profile": start_profile, "/stop_profile": stop_profile} if profiled else {}),
    }


def num_steps(state: State) -> int:
    """One request at a time: a step is a prefill, and then a cycle or a token."""
    return state.completed + state.cycles if state.speculates else state.generated


def start_profile(state: State, _: Json) -> Answer:
    state.profiled_from = num_steps(state)
    return as_text("")


def stop_profile(state: State, _: Json) -> Answer:
    """Each traced step is marked and holds the events of the script."""
    ran, asked = num_steps(state) - state.profiled_from, state.profiler
    mark = {"ph": "X", "cat": "user_annotation", "name": "execute_context_0(0)_generation_1(1)", "ts": 0, "dur": 9}
    traced = max(0, min(asked["max_iterations"] or ran, ran - asked["delay_iterations"]))
    events = [{**one, "ts": 1e4 * step} for step in range(traced) for one in (mark, *state.script.trace)]
    os.makedirs(asked["torch_profiler_dir"], exist_ok=True)
    import gzip

    with gzip.open(os.path.join(asked["torch_profiler_dir"], "rank0.1.pt.trace.json.gz"), "wt") as stream:
        json.dump({"traceEvents": events}, stream)
    return as_text("")


def metrics(state: State, _: Json) -> Answer:
    lines = counter("vllm:generation_tokens", state.generated + state.script.extra_tokens * state.num_requests)
    lines += histograms("vllm", state)
    if state.speculates:
        accepted = state.generated - state.completed - state.cycles
        lines += counter("vllm:spec_decode_num_drafts", state.cycles)
        lines += counter("vllm:spec_decode_num_draft_tokens", 3 * state.cycles)
        lines += counter("vllm:spec_decode_num_accepted_tokens", accepted)
        lines += counter("vllm:spec_decode_num_accepted_tokens_per_pos", accepted, ',position="0"')
    return as_text("\n".join(lines) + "\n")


def counter(name: str, value: float, more: str = "") -> list[str]:
    label = f'{{engine="0",model_name="m"{more}}}'
    return [
        f"# HELP {name}_total Total.",
        f"# TYPE {name}_total counter",
        f"{name}_total{label} {float(value)}",
        f"# HELP {name}_created Total.",
        f"# TYPE {name}_created gauge",
        f"{name}_created{label} {time.time()}",
    ]


def events(state: State, body: Json, model: str) -> Iterator[bytes]:
    count = 0
    try:
        for event in tokens(state, body["prompt"], body["max_tokens"]):
            yield sse(chunk(model, event, event.ids[count:], has_ids=state.script.ids))
            count = len(event.ids)
    except RuntimeError as error:
        yield sse({"error": {"message": str(error), "type": "InternalServerError", "param": None, "code": 500}})
    else:
        if state.script.usage:
            usage = {"prompt_tokens": 8, "completion_tokens": count, "total_tokens": count + 8}
            yield sse({"id": "cmpl-1", "object": "text_completion", "model": model, "choices": [], "usage": usage})
    yield sse("[DONE]")


def chunk(model: str, event: Event, ids: list[int], *, has_ids: bool) -> Json:
    choice = {
        "index": 0,
        "text": " ".join(map(str, ids)),
        "logprobs": None,
        "finish_reason": "length" if event.is_last else None,
        **({"token_ids": ids} if has_ids else {}),
    }
    return {"id": "cmpl-1", "object": "text_completion", "model": model, "choices": [choice]}
