"""Triton kernels against PyTorch, on the CPU: Triton's interpreter runs them as they stand."""

import fcntl
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tp_launch import run_ranks

from model.config import DraftConfig, TargetConfig
from model.decoder import Decoder
from model.eagle3 import Draft
from model.entry import build
from model.train import initialise
from model.weights import save

pytest.importorskip("triton")
ROOT = Path(__file__).resolve().parents[2]
# Sums of up to 128 products in another order; and two units in the last place of bfloat16, of the largest value:
# the interpreter cuts off where a card rounds.
LIMITS = {"float32": 3e-6, "bfloat16": 2**-6}


@pytest.fixture(scope="session")
def found(tmp_path_factory):
    """One interpreter for all cases; parallel test workers share it."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    with open(shared / "kernels.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stored = shared / "kernels.json"
        if not stored.exists():
            interpret(tmp_path_factory.mktemp("kernels"), stored)
        return json.loads(stored.read_text())


def interpret(folder, stored):
    command = [sys.executable, str(Path(__file__).with_name("kernels_worker.py")), "cpu", str(stored), str(folder)]
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("width", "said"),
    [
        ({"hidden_size": 72}, "hidden_size is 72 a rank"),
        ({"head_dim": 6}, r"query heads \* head_dim is 12 a rank"),
        ({"expert_size": 48}, "expert_size is 24 a rank"),
        ({"shared_size": 16}, "shared_size is 8 a rank"),
    ],
)
def test_a_width_whose_share_the_kernels_cannot_take_is_refused_by_name(width, said):
    from model.kernels.triton_ops import check_widths

    fitting = TargetConfig(shared_size=32)
    check_widths(fitting, world_size=2)
    with pytest.raises(ValueError, match=said):
        check_widths(replace(fitting, **width), world_size=2)


@pytest.mark.parametrize(
    ("width", "said"),
    [
        ({"hidden_size": 72, "has_own_embedding": True}, "draft's hidden_size is 72,"),
        ({"target_hidden_size": 72, "has_own_embedding": True}, "draft's target_hidden_size is 72,"),
        ({"head_dim": 6}, r"draft's query heads \* head_dim is 24,"),
        ({"inner_size": 200}, "draft's inner_size is 200,"),
    ],
)
def test_a_draft_whose_width_the_kernels_cannot_take_is_refused_by_name(width, said):
    from model.kernels.triton_ops import check_draft_widths

    fitting = DraftConfig()
    check_draft_widths(fitting)
    with pytest.raises(ValueError, match=said):
        check_draft_widths(replace(fitting, **width))


def test_a_session_asks_for_the_widths_of_its_draft(tmp_path):
    target, draft = TargetConfig(), replace(DraftConfig(), inner_size=200)
    for name, network in (("target", Decoder(target)), ("draft", Draft(draft))):
        save(initialise(network, 1), tmp_path / f"{name}.safetensors", torch.float32)
    files = {name: str(tmp_path / f"{name}.safetensors") for name in ("target", "draft")}
    with pytest.raises(ValueError, match="draft's inner_size is 200"):
        build(files | {"kernels": "triton"})


OPERATIONS = (
    "norm_linear", "norm_by_squares", "linear", "add_linear", "route", "gate_up", "down", "add_down",
    "embed", "add", "join", "gated_linear", "best",
)  # fmt: skip
ROWS = {"float32": (1, 3, 20), "bfloat16": (1,)}
CASES = [f"{operation}-{dtype}-{n}" for dtype, rows in ROWS.items() for n in rows for operation in OPERATIONS]
ATTENDED = [f"attend-{dtype}-{shape}" for dtype in LIMITS for shape in ("1x1", "3x3", "2x1")]


ENDS = ["ends-1x1", "ends-3x2", "ends-32x4"]


def test_every_case_was_run_and_no_other(found):
    assert sorted(found["differences"]) == sorted(CASES + ATTENDED + ENDS)


@pytest.mark.parametrize("case", CASES + ATTENDED)
def test_a_kernel_computes_what_pytorch_computes(found, case):
    assert found["differences"][case] <= LIMITS[case.split("-")[1]]


@pytest.mark.parametrize("case", ENDS)
def test_steps_end_on_the_device_as_they_do_in_pytorch(found, case):
    assert found["differences"][case] == 0


@pytest.mark.parametrize("mode", ["plain", "eagle3"])
def test_sequences_decoded_by_kernels_get_the_tokens_of_the_modules(found, mode):
    tokens = found["tokens"]
    assert tokens[f"{mode}-triton"] == tokens[f"{mode}-torch"]
    assert all(len(ids) == 3 for ids in tokens[f"{mode}-triton"])


def test_two_ranks_that_decode_by_kernels_emit_what_one_rank_of_modules_emits(tmp_path):
    """What ranks add up, of `o` and of the experts, is a product of its own, and the stream follows after the sum."""
    from kernels_ranks import MODES, NUM_TOKENS, PROMPTS, generate, open_session
    from kernels_worker import write_small_models

    write_small_models(tmp_path)
    command = [sys.executable, str(Path(__file__).with_name("kernels_ranks.py")), str(tmp_path)]
    run_ranks(command, 2, TRITON_INTERPRET="1", PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1")
    session = open_session(tmp_path, "torch", "cpu")
    wanted = {mode: generate(session, PROMPTS, NUM_TOKENS, mode)[0] for mode in MODES}
    assert [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in (0, 1)] == [wanted, wanted]


def test_kernels_draft_what_the_modules_draft(found):
    ours, theirs = (found["tokens"][f"drafted-{kernels}"] for kernels in ("triton", "torch"))
    assert ours == theirs
    assert len({token for cycle in theirs for asked in cycle for token in asked}) > 4


def test_speculation_over_kernels_emits_what_plain_decoding_over_kernels_emits(found):
    assert found["tokens"]["eagle3-triton"] == found["tokens"]["plain-triton"]
