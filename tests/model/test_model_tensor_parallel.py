"""Two gloo ranks against one, everything in one launch."""

import fcntl
import json
import os

import pytest
import torch
from tp_launch import launch
from tp_worker import NUM_TOKENS

from model.evaluate import generate_plain
from model.symmetric import SymmetricBuffer

RANDOM_PROMPT = [7, 30, 55, 2, 2, 61, 44, 9]
FOLDERS = ["random", "trained"]


def test_memory_that_all_ranks_read_takes_small_messages_of_the_two_types_its_kernel_adds_up():
    # 512 KiB: 131,072 numbers of four bytes.
    held = [SymmetricBuffer.holds(torch.zeros(size, dtype=torch.float32)) for size in (131_072, 131_073)]
    assert held == [True, False]
    assert SymmetricBuffer.holds(torch.zeros(8, dtype=torch.bfloat16))
    assert not any(SymmetricBuffer.holds(torch.zeros(8, dtype=dtype)) for dtype in (torch.float64, torch.int64))


@pytest.fixture(scope="session")
def prompt_of(trained_folder):
    trained = json.loads((trained_folder / "prompts.json").read_text())["prompts"][0][:40]
    return {"random": RANDOM_PROMPT, "trained": trained}


@pytest.fixture(scope="session")
def ranks(tmp_path_factory, random_folder, trained_folder, prompt_of):
    """What both ranks found, by kind of weights. Parallel test workers share the one launch."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # the folder of this run, above those of its workers
    with open(shared / "tensor_parallel.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stored = shared / "tensor_parallel.json"
        if not stored.exists():
            jobs = [(random_folder, prompt_of["random"]), (trained_folder, prompt_of["trained"])]
            stored.write_text(json.dumps(launch("cpu", tmp_path_factory.mktemp("ranks"), jobs)))
        results = json.loads(stored.read_text())
    return [dict(zip(FOLDERS, rank, strict=True)) for rank in results]


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize(("dtype", "limit"), [("float32", 1e-5), ("float64", 1e-10)])
def test_two_ranks_compute_the_logits_of_one(ranks, folder, dtype, limit):
    error = ranks[0][folder]["logits"][dtype]["error"]
    assert error < limit
    # Two ranks add in another order; equality to the last bit would mean that nothing was split.
    assert error > 0


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_ranks_see_the_same_logits_to_the_last_bit(ranks, folder, dtype):
    first, second = (rank[folder]["logits"][dtype]["digest"] for rank in ranks)
    assert first == second


@pytest.mark.parametrize("folder", FOLDERS)
def test_all_ranks_emit_the_same_tokens(ranks, folder):
    assert ranks[0][folder]["plain"] == ranks[1][folder]["plain"]
    assert ranks[0][folder]["eagle3"] == ranks[1][folder]["eagle3"]


@pytest.mark.parametrize("num_draft_tokens", ["1", "2", "3", "4"])
@pytest.mark.parametrize("folder", FOLDERS)
def test_two_ranks_speculate_the_tokens_of_plain_decoding(ranks, folder, num_draft_tokens):
    assert ranks[0][folder]["eagle3"][num_draft_tokens] == ranks[0][folder]["plain"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_two_ranks_emit_the_tokens_of_one(ranks, folder, request, open_session, prompt_of):
    session = open_session(request.getfixturevalue(f"{folder}_folder"))
    assert ranks[0][folder]["plain"] == generate_plain(session, prompt_of[folder], NUM_TOKENS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_step_over_operations_adds_the_ranks_up_as_the_modules_do(ranks, folder):
    assert all(rank[folder]["fused"] < 1e-10 for rank in ranks)


def test_the_share_of_all_reduces_in_a_step_is_stamped(ranks):
    found = ranks[0]["random"]["marks"]
    assert 0 < found["all_reduce_s"] < found["decode_s"]


def test_all_reduces_are_probed_at_the_sizes_of_a_step_and_of_a_verify_pass(ranks):
    hidden = 48
    sizes = {str(2 * rows * hidden) for rows in (1, 5)}  # bf16, the last session of the worker drafts 4
    assert set(ranks[0]["random"]["probe"]["all_reduce_s"]) == sizes
    assert all(0 < value < 1 for value in ranks[0]["random"]["probe"]["all_reduce_s"].values())
