"""SGLang as its clients see it: /generate with cumulative events, /server_info, /flush_cache, names of 0.5.23 or older.

`python -m sglang.launch_server` of a test's checkout ends here.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

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

NUM_DRAFT_TOKENS = 4


def main(version: str) -> None:
    parser = argparse.ArgumentParser()
    for name in ("--model-path", "--host", "--port", "--tp", "--speculative-algorithm"):
        parser.add_argument(name)
    parser.add_argument("--enable-memory-saver", action="store_true")
    asked, flags = parser.parse_known_args()
    script = read_script()
    misbehave_at_start(script)
    state = State(script, speculates=asked.speculative_algorithm is not None, accept=accept(script), profiler={})
    told = {**vars(asked), "version": script.version or version, "model_path": script.model or asked.model_path}
    told |= resolved(script, flags)
    serve(state, routes(told), asked.host, int(asked.port))


def resolved(script: Script, flags: list[str]) -> Json:
    """Arguments of this version: its defaults, and flags of the command line on top ("--some-name value")."""
    given = {name[2:].replace("-", "_"): value for name, value in pairwise(flags) if name[:2] == "--"}
    return {**script.arguments, **{name: value for name, value in given.items() if name in script.arguments}}


def accept(script: Script) -> tuple[float, ...]:
    simulated = os.environ.get("SGLANG_SIMULATE_ACC_LEN")
    return script.accept if simulated is None or script.unsynthetic else (float(simulated),)


def routes(told: Json) -> dict[str, Route]:
    def info(state: State, _: Json) -> Answer:
        return as_json({**told, "status": "ready", "internal_states": [{}]})

    def model_info(state: State, _: Json) -> Answer:
        return as_json({"model_path": told["model_path"]})

    def models(state: State, _: Json) -> Answer:
        return as_json({"object": "list", "data": [{"id": told["model_path"], "object": "model"}]})

    def occupy(change: Callable[[State], None]) -> Route:
        """Without the saver it answers as if it had; a question without a body is none."""

        def answer(state: State, _: Json) -> Answer:
            if not state.body_bytes:
                return as_json({"detail": [{"type": "missing", "loc": ["body"]}]}, 422)
            if state.busy_until_s > time.monotonic():
                os._exit(6)  # an assertion of the scheduler
            if told["enable_memory_saver"]:
                change(state)
            return as_text("")

        return answer

    def ready(state: State, _: Json) -> Answer:
        return as_text("", 200 if state.is_ready else 503)

    return {
        "/ready": ready,
        "/server_info": info,
        "/get_server_info": info,
        "/model_info": model_info,
        "/get_model_info": model_info,
        "/v1/models": models,
        "/flush_cache": flush,
        "/release_memory_occupation": occupy(fall_asleep),
        "/resume_memory_occupation": occupy(wake_up),
        "/start_profile": start_profile,
        "/metrics": metrics,
        "/generate": generate,
    }


def start_profile(state: State, body: Json) -> Answer:
    """Writes at once what it is scripted to have seen, prefills apart; without a script it has no profiler."""
    if not state.script.trace:
        return as_text("Not Found", 404)
    import gzip

    prefill = [{**event, "dur": 1e9} for event in state.script.trace]
    for stage, events in {"EXTEND": prefill, "DECODE": list(state.script.trace)}.items():
        with gzip.open(os.path.join(body["output_dir"], f"1-TP-0-{stage}.trace.json.gz"), "wt") as stream:
            json.dump({"traceEvents": events}, stream)
    return as_text("Start profiling.\n")


def flush(state: State, _: Json) -> Answer:
    is_busy = state.running or state.busy_until_s > time.monotonic()
    return as_text("Flush cache failed.\n", 400) if is_busy else as_text("Cache flushed.\n")


def metrics(state: State, _: Json) -> Answer:
    """Counters move when a request has ended."""
    made = state.generated + state.script.extra_tokens * state.num_requests
    label = '{engine_type="unified",is_streaming="True",model_name="m"}'
    times = "\n".join([*histograms("sglang", state), ""])
    return as_text(
        f"{times}# HELP sglang:generation_tokens_total Number of generation tokens processed.\n"
        "# TYPE sglang:generation_tokens_total counter\n"
        f"sglang:generation_tokens_total{label} {made}\n"
    )


def generate(state: State, body: Json) -> Answer | Stream:
    if state.asleep:
        return as_text("CUDA error: an illegal memory access was encountered", 500)
    if is_refused(state):
        count_request(state)
        return as_json({"error": {"message": "too many requests"}}, 500)
    return events(state, body)


def events(state: State, body: Json) -> Iterator[bytes]:
    prompt = body.get("input_ids") or body.get("text")
    try:
        for event in tokens(state, prompt, body["sampling_params"]["max_new_tokens"]):
            text = " ".join(map(str, event.ids))
            ids = {"output_ids": event.ids} if state.script.ids else {}
            yield sse({"text": text, **ids, "meta_info": meta(state, event, prompt)})
    except RuntimeError as error:
        yield sse({"error": {"message": str(error), "type": "invalid_request_error", "code": 400}})
    yield sse("[DONE]")


def meta(state: State, event: Event, prompt: object) -> Json:
    script = state.script
    found: Json = {"id": "1", "prompt_tokens": len(prompt) if isinstance(prompt, list) else 8, "finish_reason": None}
    if script.usage:
        found["completion_tokens"] = len(event.ids)
    if not event.is_last:
        return found
    found["finish_reason"] = {"type": "length", "length": len(event.ids)}
    if event.cycles and script.names != "none":
        found |= speculation(script, event)
    elif script.names == "older":
        found["spec_verify_ct"] = 0
    return found


def speculation(script: Script, event: Event) -> Json:
    """Of the last message of a request. The first token is that of prefill."""
    accepted = len(event.ids) - 1 - event.cycles
    drafted = event.cycles * (NUM_DRAFT_TOKENS - 1)
    common = {"spec_verify_ct": event.cycles, "spec_accept_length": len(event.ids) / event.cycles}
    if script.names == "new":
        return {**common, "spec_num_correct_drafts": accepted, "spec_num_proposed_drafts": drafted}
    return {**common, "spec_accept_token_num": accepted, "spec_draft_token_num": drafted}
