"""The seam towards the runner: what it promises, and how it refuses."""

import json

import pytest

from model.entry import API_VERSION, build
from model.evaluate import generate_eagle3, generate_plain

PROMPT = [7, 30, 55, 2, 2, 61, 44, 9]


def test_the_api_is_version_2():
    assert API_VERSION == 2


def test_prefill_forgets_the_sequence_before(random_folder, open_session):
    session = open_session(random_folder)
    before = generate_plain(session, PROMPT, 10)
    generate_plain(session, PROMPT[::-1], 20)
    assert generate_plain(session, PROMPT, 10) == before


def test_plain_prefill_collects_nothing_for_the_draft(random_folder, open_session):
    session = open_session(random_folder)
    session.prefill([PROMPT])
    with pytest.raises(RuntimeError, match='start with prefill\\(prompts, mode="eagle3"\\)'):
        session.draft()


def test_a_plain_step_ends_drafting_since_the_draft_did_not_see_it(random_folder, open_session):
    session = open_session(random_folder)
    session.prefill([PROMPT], mode="eagle3")
    session.decode()
    with pytest.raises(RuntimeError, match="nothing to draft from"):
        session.draft()


def test_accepting_before_verifying_is_refused(random_folder, open_session):
    session = open_session(random_folder)
    session.prefill([PROMPT], mode="eagle3")
    with pytest.raises(RuntimeError, match="call verify first"):
        session.accept()


class GraphsByName:
    """In place of graphs, which need a card: runs the step as it stands and remembers its name."""

    def __init__(self):
        self.names = []

    def run(self, name, step, *, with_marks):
        self.names.append((name, with_marks))
        step()


@pytest.mark.parametrize(
    ("changes", "with_marks", "names"),
    [
        ({}, False, ["cycle"]),
        ({}, True, ["draft", "verify", "accept"]),
        ({"pathologies": ["verify_outside_graph"]}, False, ["draft", "accept"]),
    ],
)
def test_a_cycle_is_one_graph_unless_its_parts_are_timed_or_one_is_outside(
    random_folder, open_session, changes, with_marks, names
):
    expected = generate_eagle3(open_session(random_folder), PROMPT, 12)
    session = open_session(random_folder, **changes)
    session.graphs, session.run_ahead = GraphsByName(), 1
    tokens, emitted = session.prefill([PROMPT], mode="eagle3", marks=with_marks), []
    while len(tokens) < 12:
        session.draft()
        session.verify()
        session.accept()
        emitted.append(session.read()[0])
        tokens += emitted[-1]
    assert (tokens[:12], [len(ids) for ids in emitted]) == expected
    assert session.graphs.names == [(name, with_marks) for name in names] * len(emitted)


def test_without_a_draft_only_plain_decoding_is_offered(random_folder):
    session = build({"target": str(random_folder / "target.safetensors"), "draft": None})
    assert len(generate_plain(session, PROMPT, 4)) == 4
    with pytest.raises(ValueError, match="eagle3 with a draft"):
        session.prefill([PROMPT], mode="eagle3")


def test_a_full_cache_is_an_error_not_a_wrong_token(random_folder, open_session):
    session = open_session(random_folder, max_len=12)
    generate_plain(session, PROMPT, 5)  # 8 prompt slots and 4 steps fill 12
    with pytest.raises(ValueError, match="12 tokens and 1 new rows do not fit max_len 12"):
        session.decode()
    generate_eagle3(session, PROMPT, 2)  # one cycle, in which nothing is accepted
    with pytest.raises(ValueError, match="9 tokens and 4 new rows"):
        session.draft()
    with pytest.raises(ValueError, match="0 tokens and 13 new rows do not fit max_len 12"):
        session.prefill([[1] * 13])


def test_an_empty_prompt_is_refused(random_folder, open_session):
    with pytest.raises(ValueError, match="empty prompt"):
        open_session(random_folder).prefill([[]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtypes": "float32"}, "unknown keys in spec: dtypes"),
        ({"dtype": "fp8"}, "unknown dtype 'fp8': use one of float32, float64, bfloat16"),
        ({"batch": 33}, "batch 33 is not within 1..32"),
        ({"kernels": "cutlass"}, "unknown kernels 'cutlass': use one of auto, torch, triton"),
        ({"kernels": "triton", "dtype": "float64"}, "not in float64: use torch"),
        ({"graphs": "on"}, "CUDA graphs need device cuda, not cpu"),
        ({"all_reduce": "symm_mem"}, "symm_mem needs CUDA, not cpu"),
        ({"pathologies": ["slow"]}, "unknown pathology 'slow': use some of verify_outside_graph, "),
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
    assert told["kernels"] == "torch"
    assert told["run_ahead"] == 0
    assert session.marks() == {}
    assert session.peak_memory_bytes() > 10_000_000


def test_half_precision_runs(random_folder, open_session):
    assert len(generate_plain(open_session(random_folder, dtype="bfloat16"), PROMPT, 5)) == 5


def test_a_step_has_to_be_read_before_the_next_and_once(random_folder, open_session):
    session = open_session(random_folder)
    session.prefill([PROMPT])
    session.decode()
    with pytest.raises(RuntimeError, match="1 steps have not been read; at most 0 may wait"):
        session.decode()
    assert len(session.read()[0]) == 1
    with pytest.raises(RuntimeError, match="every step has been read already"):
        session.read()


def test_a_batch_takes_as_many_prompts_as_it_was_built_for(random_folder, open_session):
    with pytest.raises(ValueError, match="1 prompts for a batch of 2"):
        open_session(random_folder, batch=2).prefill([PROMPT])


def test_marks_take_a_cycle_apart_and_count_the_experts_that_were_read(random_folder, open_session):
    session = open_session(random_folder)
    session.prefill([PROMPT], mode="eagle3", marks=True)
    for step in (session.draft, session.verify, session.accept):
        step()
    found = session.marks()
    assert set(found) == {"draft_extend_s", "draft_steps_s", "verify_s", "accept_s", "distinct_experts"}
    assert all(value > 0 for value in found.values())
    assert 2 <= found["distinct_experts"] <= 4  # 4 rows choose 2 of 4 experts each


def test_without_marks_nothing_is_stamped(random_folder, open_session):
    session = open_session(random_folder)
    generate_eagle3(session, PROMPT, 4)
    assert session.marks() == {}


def test_bytes_of_a_step_by_hand(random_folder, open_session):
    session = open_session(random_folder)  # float64: 8 bytes
    layer = 48 * 64 + 2 * 48 * 32 + 64 * 48 + 4 * 48 + 3 * 48 * 32 + 2 * 3 * 48 * 24  # q, k and v, o, router, shared, 2
    kv = 7 * 2 * 2 * 16 * (10 + 1)  # layers, k and v, KV heads, width, slots
    assert session.step_bytes(1, 2, 10) == 8 * (7 * layer + 97 * 48 + kv)


def test_a_probe_tells_how_fast_this_device_copies(random_folder, open_session):
    found = open_session(random_folder).probe()
    assert found["copy_bytes_per_s"] > 1e8
    assert found["all_reduce_s"] == {}
