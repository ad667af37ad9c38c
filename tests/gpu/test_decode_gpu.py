"""The decode path on CUDA: kernels against PyTorch, graphs against steps as they stand, reading behind, time stamps."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.decode.kernels import LIMIT, checks
from benchmarks.decode.widths import WIDTHS, random_inputs
from model.entry import build
from model.evaluate import generate
from runners import eagle3_decode, tp_moe_decode

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]
TRAINED = ROOT / "runners" / "assets" / "tiny"


@pytest.fixture(scope="module", autouse=True)
def device():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device is visible")
    return torch.device("cuda")


@pytest.fixture(scope="module")
def prompts():
    return json.loads((TRAINED / "prompts.json").read_text())["prompts"]


def open_session(**changes):
    files = {name: str(TRAINED / f"{name}.safetensors") for name in ("target", "draft")}
    return build(files | {"device": "cuda", "num_draft_tokens": 3, "max_len": 160} | changes)


@pytest.mark.parametrize("num_rows", [1, 3, 4, 16, 96])
def test_a_kernel_at_real_widths_computes_what_pytorch_computes(device, num_rows):
    torch.manual_seed(1)
    widths = WIDTHS["qwen3-30b-a3b"]
    found = checks(random_inputs(widths, num_rows, device), widths, device, num_rows)
    assert len(found) == 14
    assert all(check["difference"] <= LIMIT for check in found), found


def test_kernels_at_small_widths_leave_nothing_unwritten_and_read_nothing_stale(tmp_path):
    command = [sys.executable, str(ROOT / "tests/model/kernels_worker.py"), "cuda"]
    command += [str(tmp_path / "found.json"), str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stdout + result.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    limits = {"float32": 1e-5, "bfloat16": LIMIT}
    differences = found["differences"].items()
    wrong = {case: value for case, value in differences if not value <= limits.get(case.split("-")[1], 0.0)}
    assert wrong == {}


@pytest.mark.parametrize("kernels", ["torch", "triton"])
@pytest.mark.parametrize("mode", ["plain", "eagle3"])
def test_graphs_emit_what_the_same_steps_emit_without(prompts, mode, kernels):
    some = [prompt[:length] for prompt, length in zip(prompts[:4], (64, 30, 51, 3), strict=True)]
    found = [
        generate(open_session(graphs=graphs, kernels=kernels, batch=4), some, 40, mode) for graphs in ("on", "off")
    ]
    assert found[0] == found[1]


def test_kernels_and_graphs_speculate_what_they_decode_plainly(prompts):
    session = open_session(batch=2)
    assert session.describe()["kernels"] == "triton"
    plain, speculative = (generate(session, prompts[:2], 64, mode)[0] for mode in ("plain", "eagle3"))
    differing = [i for mine, other in zip(plain, speculative, strict=True) for i in range(64) if mine[i] != other[i]]
    print(f"first differences at {differing[:1]}")  # fp32: only a near tie may part them
    assert differing == []


def test_reading_a_cycle_behind_changes_no_token(prompts):
    session = open_session()
    assert session.run_ahead == 1
    behind = eagle3_decode.measure(session, prompts[:2], 40)
    plain = tp_moe_decode.measure(session, prompts[:2], 40)
    session.run_ahead = 0
    waited = eagle3_decode.measure(session, prompts[:2], 40)
    assert behind.tokens == waited.tokens == plain.tokens
    assert behind.counts == waited.counts


def test_waiting_for_every_step_leaves_nothing_to_run_ahead(prompts):
    assert open_session().run_ahead == 1
    session = open_session(pathologies=["sync_every_step"])
    assert session.run_ahead == 0
    assert generate(session, prompts[:1], 40, "eagle3") == generate(open_session(), prompts[:1], 40, "eagle3")


def test_verify_outside_its_graph_leaves_drafting_and_accepting_in_theirs_and_tokens_what_they_are(prompts):
    well, sick = open_session(), open_session(pathologies=["verify_outside_graph"])
    assert generate(sick, prompts[:1], 40, "eagle3") == generate(well, prompts[:1], 40, "eagle3")
    captured = [{name for name, _with_marks in session.graphs.captured} for session in (well, sick)]
    assert captured == [{"cycle"}, {"draft", "accept"}]


def test_stamps_inside_graphs_are_those_of_the_last_replay(prompts):
    session = open_session()
    session.prefill(prompts[:1], mode="eagle3", marks=True)
    for _ in range(3):
        session.draft()
        session.verify()
        session.accept()
        session.read()
        found = session.marks()
        assert {"draft_extend_s", "draft_steps_s", "verify_s", "accept_s", "distinct_experts"} == set(found)
        assert all(0 < value < 0.1 for name, value in found.items() if name.endswith("_s"))
        assert 2 <= found["distinct_experts"] <= 8


def test_a_sequence_at_its_end_touches_no_memory_but_its_own(prompts):
    session = open_session(batch=2, max_len=80)
    generated, emitted = [], 0
    session.prefill([prompts[0], prompts[1][:40]], mode="eagle3")
    while session.lengths[1] + 4 <= 80:
        session.draft()
        session.verify()
        session.accept()
        generated.append(session.read())
        emitted += len(generated[-1][1])
    torch.cuda.synchronize()
    assert generated[-1][0] == []
    assert emitted > 30


@pytest.mark.parametrize("all_reduce", ["nccl", "symm_mem"])
def test_two_ranks_reduce_inside_graphs(tmp_path, all_reduce):
    if torch.cuda.device_count() < 2:
        pytest.skip(f"needs 2 CUDA devices, {torch.cuda.device_count()} visible")
    spec = {
        "schema": "perfguard/spec@1", "trial": "t", "runner": "tp_moe", "modes": ["plain", "eagle3"], "seed": 1,
        "params": {"device": "cuda", "prompts": 2, "tp": 2, "all_reduce": all_reduce}, "subject_root": str(ROOT),
        "result": str(tmp_path / "result-{rank}"), "ready": str(tmp_path / "ready-{rank}"),
    }  # fmt: skip
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [str(ROOT / "runners" / "__main__.py"), str(tmp_path / "spec.json")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stdout + result.stderr
    first, second = (json.loads((tmp_path / f"result-{rank}").read_text()) for rank in (0, 1))
    assert first["digests"] == second["digests"]
    assert first["digests"]["plain"] == first["digests"]["eagle3"]
    assert 0 < first["counts"]["plain"]["marks"]["all_reduce_s"] < first["counts"]["plain"]["marks"]["decode_s"]
