"""The model on CUDA: speculation against plain decoding, and two NCCL ranks against one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from model.attention import Window
from model.entry import build
from model.evaluate import generate_eagle3, generate_plain

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]
TRAINED = ROOT / "runners" / "assets" / "tiny"


@pytest.fixture(scope="module")
def prompts():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device is visible")
    return json.loads((TRAINED / "prompts.json").read_text())["prompts"]


def open_session(dtype, num_draft_tokens):
    files = {name: str(TRAINED / f"{name}.safetensors") for name in ("target", "draft")}
    spec = {"dtype": dtype, "device": "cuda", "num_draft_tokens": num_draft_tokens, "max_len": 256}
    return build(files | spec)


@pytest.mark.parametrize("num_draft_tokens", [1, 2, 3, 4])
def test_in_fp64_speculation_emits_the_tokens_of_plain_decoding(prompts, num_draft_tokens):
    session = open_session("float64", num_draft_tokens)
    for prompt in prompts[:2]:
        tokens, emitted = generate_eagle3(session, prompt, 40)
        assert tokens == generate_plain(session, prompt, 40)
        assert max(emitted) == num_draft_tokens + 1


def test_in_fp32_the_first_difference_is_a_near_tie(prompts):
    session = open_session("float32", 3)
    gaps = []
    for prompt in prompts[:8]:
        plain, (speculative, _) = generate_plain(session, prompt, 64), generate_eagle3(session, prompt, 64)
        first = next((i for i in range(64) if plain[i] != speculative[i]), None)
        if first is not None:
            gaps.append(logit_gap(session, prompt + plain[:first]))
    print(f"{len(gaps)} of 8 prompts differ, logit gaps {gaps}")
    assert all(gap < 1e-4 for gap in gaps)


def logit_gap(session, tokens):
    """How far the target prefers its first choice after `tokens` over its second."""
    session.prefill([tokens])
    window = Window(start=session.lengths[0] - 1, rope=session.rope, mask=None)
    last_11 = torch.tensor([tokens[-1:]], device=session.device)
    with torch.inference_mode():
        logits = session.target.logits(session.target(last_11, window, session.caches))
    best = logits[0, -1].topk(2).values
    return (best[0] - best[1]).item()


def test_two_nccl_ranks_agree_with_one(prompts, tmp_path):
    if torch.cuda.device_count() < 2:
        pytest.skip(f"needs 2 CUDA devices, {torch.cuda.device_count()} visible")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [str(ROOT / "tests/model/tp_worker.py"), "cuda", str(tmp_path)]
    command += [json.dumps([prompts[0][:40]]), str(TRAINED)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stdout + result.stderr
    (first,), (second,) = (json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in (0, 1))
    assert 0 < first["logits"]["float32"]["error"] < 1e-5
    assert 0 < first["logits"]["float64"]["error"] < 1e-10
    assert first["logits"]["float64"]["digest"] == second["logits"]["float64"]["digest"]
    assert first["eagle3"] == second["eagle3"]
    assert all(tokens == first["plain"] for tokens in first["eagle3"].values())
