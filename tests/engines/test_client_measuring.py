"""The client against a server in another process. No test says how long anything takes: the machine may be busy."""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from client_cases import a_load, emitting

from runners.engines.limits import MIN_OPEN_REQUESTS
from runners.engines.measuring import measure
from runners.engines.prompts import make_unique, shipped
from runners.engines.records import Endpoint, Prompt
from runners.engines.validity import kind_of


@pytest.fixture(scope="module")
def emitter():
    with emitting() as running:
        yield running


def codes(observation):
    """Reasons but those of a busy machine."""
    return [reason.code for reason in observation.reasons if reason.code != "client_starved"]


@pytest.mark.parametrize("wire", ["completions", "chat", "generate", "openai"])
def test_every_token_is_seen_after_it_was_sent(emitter, wire):
    emitter.play(gap_s=0.001, per_event=2)
    observation = measure(emitter.endpoint, wire, a_load(num_requests=2, num_tokens=9))
    assert codes(observation) == []
    for answer, record in zip(observation.answers, emitter.report(), strict=True):
        assert answer.num_tokens == 9
        assert answer.started_ns <= record["received_ns"] <= record["sent"][0][0] <= answer.first_ns
        assert answer.last_ns >= record["sent"][-1][0]
        seen = [one.at_ns for one in answer.arrivals]
        assert len(seen) == 5
        assert all(at_ns >= sent_ns for at_ns, (sent_ns, _) in zip(seen, record["sent"], strict=True))


def test_what_was_asked_arrives_as_asked(emitter):
    emitter.play()
    prompts = make_unique(shipped(as_text=False, num_prompt_tokens=4), num=6, seed=3)
    observation = measure(emitter.endpoint, "completions", a_load(prompts=prompts, num_requests=6, concurrency=3))
    bodies = [record["body"] for record in emitter.report()]
    assert sorted(body["prompt"] for body in bodies) == sorted(list(prompt.ids) for prompt in prompts)
    assert observation.counts["num_output_tokens"] == 6 * 8
    assert observation.counts["num_prompt_tokens"] == 6 * 3
    assert observation.counts["loop"] == "closed"
    assert len(observation.samples["ttft_s"]) == 6


def test_an_event_that_never_ends_is_given_up_and_fails_its_request(emitter):
    """200 MB without a newline, behind two good tokens: 16 MiB and a little are kept, the rest stays behind."""
    emitter.play(ending="endless", ends_after=2, fail_from=1)
    observation = measure(emitter.endpoint, "completions", a_load(num_requests=2))
    assert [kind_of(answer) for answer in observation.answers] == ["", "cut"]
    assert observation.answers[1].error.startswith("cut: given up after more than 1681203")
    assert codes(observation) == ["requests_failed"]
    assert emitter.report()[1]["endless_bytes"] < 100 * 2**20


def test_prompts_are_taken_in_turn(emitter):
    emitter.play()
    measure(emitter.endpoint, "openai", a_load(prompts=(Prompt(text="a"), Prompt(text="b")), num_requests=3))
    assert [record["body"]["prompt"] for record in emitter.report()] == ["a", "b", "a"]


def test_missing_usage_and_done_are_no_failure_where_ids_are_there(emitter):
    emitter.play(usage=False, done=False)
    assert codes(measure(emitter.endpoint, "completions", a_load())) == []


def test_missing_usage_and_ids_make_the_trial_invalid(emitter):
    emitter.play(usage=False, ids=False)
    observation = measure(emitter.endpoint, "completions", a_load())
    assert codes(observation) == ["tokens_uncounted"]
    assert observation.values == {}


@pytest.mark.parametrize(
    ("ending", "kind"), [("cut", "cut"), ("reset", "cut"), ("error", "stream"), ("hang", "timeout")]
)
def test_an_engine_that_dies_in_mid_stream_makes_the_trial_invalid(emitter, ending, kind):
    emitter.play(ending=ending, ends_after=3, fail_from=2)
    timeout_s = 1.0 if ending == "hang" else 30.0
    observation = measure(emitter.endpoint, "completions", a_load(timeout_s=timeout_s))
    assert codes(observation) == ["requests_failed"]
    assert kind in observation.counts["errors"]
    assert observation.counts["num_answered"] == 2


def test_another_status_makes_the_trial_invalid(emitter):
    emitter.play(status=503)
    observation = measure(emitter.endpoint, "completions", a_load())
    assert observation.counts["errors"] == {"http": 4}
    assert "status 503" in observation.reasons[0].text


def test_a_short_answer_makes_the_trial_invalid(emitter):
    emitter.play(num_tokens=7)
    assert codes(measure(emitter.endpoint, "completions", a_load())) == ["short_answers"]
    assert codes(measure(emitter.endpoint, "completions", a_load(ignore_eos=False))) == []


def test_a_refused_connection_ends_the_load_at_once():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = Endpoint(host="127.0.0.1", port=unused.getsockname()[1], model="none")
        observation = measure(nobody, "completions", a_load(num_requests=50))
    assert observation.counts["errors"] == {"connection": 1, "unsent": 49}
    assert codes(observation) == ["requests_failed"]


def test_a_connection_that_is_reset_before_the_answer_is_a_failure():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def reset():
            connection, _ = server.accept()
            connection.recv(65536)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

        thread = threading.Thread(target=reset)
        thread.start()
        here = Endpoint(host="127.0.0.1", port=server.getsockname()[1], model="none")
        observation = measure(here, "completions", a_load(num_requests=1))
        thread.join()
    assert kind_of(observation.answers[0]) == "connection"
    assert "ConnectionResetError" in observation.answers[0].error


def test_answers_held_back_to_their_end_mean_a_starved_client(emitter):
    emitter.play(first_s=0.2, held_back=True)
    observation = measure(emitter.endpoint, "completions", a_load(num_tokens=40, num_requests=2))
    assert [reason.code for reason in observation.reasons if "came whole" in reason.text] == ["client_starved"]


def test_an_open_loop_that_outruns_the_server_is_saturated(emitter):
    emitter.play(first_s=0.01, gap_s=0.002, serial=True)  # at least 24 ms each, one after the other
    load = a_load(num_requests=24, rate_per_s=400.0)
    observation = measure(emitter.endpoint, "completions", load)
    assert codes(observation) == ["saturated"]
    assert observation.counts["loop"] == "open"


def test_a_client_that_is_kept_from_the_processor_voids_its_numbers(emitter):
    emitter.play(first_s=0.01, gap_s=0.002)
    command = [sys.executable, str(Path(__file__).with_name("starved.py")), str(emitter.endpoint.port)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    said = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=120)
    seen = json.loads(said.stdout)
    waited = [one["code"] for one in seen["reasons"] if "waited for a processor" in one["text"]]
    assert waited == ["client_starved"]
    assert seen["client"]["mean_late_s"] > 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"prompts": ()}, "at least one prompt"),
        ({"num_requests": 0}, "num_requests is 0"),
        ({"num_tokens": -3}, "num_tokens is -3"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"timeout_s": 0.0}, "timeout_s is 0.0"),
        ({"rate_per_s": -1.0}, "rate_per_s is -1.0"),
        ({"rate_per_s": 5.0, "num_requests": MIN_OPEN_REQUESTS - 1}, "an open loop of fewer than 9 requests"),
    ],
)
def test_a_load_that_makes_no_sense_is_refused_by_name(change, named):
    with pytest.raises(ValueError, match=named):
        measure(Endpoint(host="127.0.0.1", port=9, model="m"), "completions", a_load(**change))


def test_a_host_without_an_address_is_named():
    with pytest.raises(ValueError, match=r"no address for nowhere\.invalid:9"):
        measure(Endpoint(host="nowhere.invalid", port=9, model="m"), "completions", a_load())
