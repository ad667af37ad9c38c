"""The seam towards the runner: what it promises, and how it refuses."""

import json

import pytest

from model.entry import API_VERSION, build
from model.evaluate import generate_plain

PROMPT = [7, 30, 55, 2, 2, 61, 44, 9]


def test_the_api_is_version_1():
    assert API_VERSION == 1


def test_prefill_forgets_the_sequence_before(random_folder, open_session):
    session = open_session(random_folder)
    before = generate_plain(session, PROMPT, 10)
    generate_plain(session, PROMPT[::-1], 20)
    assert generate_plain(session, PROMPT, 10) == before


def test_plain_prefill_collects_nothing_for_the_draft(random_folder, open_session):
    session = open_session(random_folder)
    session.prefill(PROMPT)
    with pytest.raises(RuntimeError, match='start with prefill\\(prompt, mode="eagle3"\\)'):
        session.draft()


def test_a_plain_step_ends_drafting_since_the_draft_did_not_see_it(random_folder, open_session):
    session = open_session(random_folder)
    session.decode(session.prefill(PROMPT, mode="eagle3"))
    with pytest.raises(RuntimeError, match="nothing to draft from"):
        session.draft()


def test_accepting_before_verifying_is_refused(random_folder, open_session):
    session = open_session(random_folder)
    session.prefill(PROMPT, mode="eagle3")
    with pytest.raises(RuntimeError, match="call verify first"):
        session.accept([1, 2, 3], [1, 2, 3, 4])


def test_without_a_draft_only_plain_decoding_is_offered(random_folder):
    session = build({"target": str(random_folder / "target.safetensors"), "draft": None})
    assert len(generate_plain(session, PROMPT, 4)) == 4
    with pytest.raises(ValueError, match="eagle3 with a draft"):
        session.prefill(PROMPT, mode="eagle3")


def test_a_full_cache_is_an_error_not_a_wrong_token(random_folder, open_session):
    session = open_session(random_folder, max_len=12)
    tokens = generate_plain(session, PROMPT, 5)  # 8 prompt slots and 4 steps fill 12
    with pytest.raises(ValueError, match="12 tokens and 1 new rows do not fit max_len 12"):
        session.decode(tokens[-1])
    session.prefill(PROMPT, mode="eagle3")
    session.accept([96, 96, 96], session.verify([96, 96, 96]))
    with pytest.raises(ValueError, match="9 tokens and 4 new rows"):
        session.draft()


def test_an_empty_prompt_is_refused(random_folder, open_session):
    with pytest.raises(ValueError, match="empty prompt"):
        open_session(random_folder).prefill([])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtypes": "float32"}, "unknown keys in spec: dtypes"),
        ({"dtype": "fp8"}, "unknown dtype 'fp8': use one of float32, float64, bfloat16"),
        ({"num_draft_tokens": 5}, "num_draft_tokens 5 is not within 1..4"),
        ({"device": "tpu"}, "unknown device 'tpu': use cpu or cuda"),
    ],
)
def test_a_wrong_spec_is_refused_with_its_value(random_folder, change, message):
    with pytest.raises(ValueError, match=message):
        build({"target": str(random_folder / "target.safetensors")} | change)


def test_the_description_is_json_and_names_what_decides_speed(random_folder, open_session):
    session = open_session(random_folder)
    told = json.loads(json.dumps(session.describe()))
    assert told["world_size"] == 1
    assert told["num_threads"] == 1
    assert told["tap_layers"] == [2, 3, 4]
    assert told["target"]["num_experts"] == 4
    assert set(told["versions"]) == {"python", "torch", "cuda", "nccl"}
    assert session.marks() == {}
    assert session.peak_memory_bytes() > 10_000_000


def test_half_precision_runs(random_folder, open_session):
    assert len(generate_plain(open_session(random_folder, dtype="bfloat16"), PROMPT, 5)) == 5
