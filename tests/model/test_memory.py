"""What a model needs, by hand, and the words that say it does not fit."""

import re
from pathlib import Path

import pytest
import torch

from model import weights
from model.config import DraftConfig, TargetConfig
from model.decoder import Decoder
from model.eagle3 import Draft
from model.entry import build
from model.memory import RESERVE_BYTES, MemoryNeed, check, free_bytes, need_of
from model.parallel import SINGLE, Group
from model.presets import preset_of

TARGET = TargetConfig(
    vocab_size=100, num_layers=7, hidden_size=32, num_heads=4, num_kv_heads=2, head_dim=8, num_experts=4, expert_size=16
)
DRAFT = DraftConfig(
    vocab_size=100, target_hidden_size=32, hidden_size=32, num_heads=2, num_kv_heads=2, head_dim=8, inner_size=64,
    draft_vocab_size=50,
)  # fmt: skip
SIZES = {"num_slots": 10, "num_sequences": 1, "uses_kernels": False, "num_distributions": 0}


def need(group=SINGLE, dtype=torch.bfloat16, **sizes):
    with torch.device("meta"):
        target, draft = Decoder(TARGET, group), Draft(DRAFT)
    return need_of(target, draft, dtype=dtype, device_type="cpu", **SIZES | sizes)


def test_weights_and_caches_are_counted_exactly():
    # A layer: two norms, q k v, o, router, four experts of three matrices.
    layer = 2 * 32 + (4 + 2 + 2) * 8 * 32 + 32 * 32 + 4 * 32 + 4 * 3 * 16 * 32
    found = need()
    assert found.weights_bytes == 2 * (7 * layer + 2 * 100 * 32 + 32)
    assert found.kv_bytes == 2 * 7 * 2 * 2 * 8 * 10  # bytes, layers, k and v, heads, width, slots
    draft = 96 * 32 + 6 * 8 * 64 + 16 * 32 + 3 * 64 * 32 + 4 * 32 + 50 * 32
    assert found.draft_bytes == 2 * draft + 8 * 50 + 2 * 2 * 2 * 8 * 10  # d2t is int64
    assert found.layer_bytes == 2 * layer + found.kv_bytes // 7
    experts, logits = 10 * 4 * 3 * 16 * 2, 160 * 100 * (2 + 4)
    assert found.workspace_bytes == experts + logits + RESERVE_BYTES["cpu"]
    assert need(num_slots=100).workspace_bytes == 10 * experts + logits + RESERVE_BYTES["cpu"]


def test_kernels_cost_a_prefill_the_copy_of_one_layers_down_beside_its_experts():
    down = 32 * 4 * 16 * 2  # width, experts, inner width, bytes
    assert need(uses_kernels=True).workspace_bytes == need().workspace_bytes + down
    assert need(uses_kernels=True, num_slots=100).workspace_bytes == need(num_slots=100).workspace_bytes + down


def test_what_sampling_keeps_is_counted_and_allocated_alike(random_folder, open_session):
    # Two sequences, three drafted tokens and four verified rows of each, fp32.
    greedy, sampled = (open_session(random_folder, batch=2, temperature=t) for t in (0.0, 0.7))
    vocab_size = sampled.target.config.vocab_size
    assert sampled.memory.workspace_bytes - greedy.memory.workspace_bytes == 2 * (3 + 4) * vocab_size * 4
    kept = [sampled.steps.choices.q_BKV, sampled.steps.choices.p_BTV]
    assert sum(x.nbytes for x in kept) == 2 * (3 + 4) * vocab_size * 4
    assert greedy.steps.choices.q_BKV is None


def test_a_rank_of_two_holds_half_the_heads_and_experts_and_all_of_the_rest():
    layer = 2 * 32 + (4 + 2 + 2) * 8 * 16 + 32 * 16 + 4 * 32 + 4 * 3 * 8 * 32
    found = need(Group(rank=1, world_size=2))
    assert found.weights_bytes == 2 * (7 * layer + 2 * 100 * 32 + 32)
    assert (found.kv_bytes, found.draft_bytes) == (need().kv_bytes // 2, need().draft_bytes)


def test_sequences_multiply_caches_and_nothing_else():
    one, four = need(), need(num_sequences=4)
    assert (four.kv_bytes, four.weights_bytes) == (4 * one.kv_bytes, one.weights_bytes)


def test_what_does_not_fit_is_said_with_numbers_and_what_to_lower():
    found = MemoryNeed(
        weights_bytes=61_000_000_000, kv_bytes=2_000_000_000, draft_bytes=500_000_000, workspace_bytes=1_500_000_000,
        layer_bytes=1_250_000_000,
    )  # fmt: skip
    check(found, 65_000_000_000, where="cuda:0", num_layers=48, world_size=1)
    with pytest.raises(ValueError, match="does not fit") as caught:
        check(found, 40_000_000_000, where="cuda:0", num_layers=48, world_size=1)
    # 65 GB without its 48 layers of 1.25 GB are 5 GB; 35 GB hold 28 layers.
    assert str(caught.value) == (
        "the model does not fit: a rank needs 65.0 GB (weights 61.0, KV cache 2.0, draft 0.5, workspace 1.5), "
        "cuda:0 has 40.0 GB free; 28 of 48 layers fit at tp=1: lower layers, or raise tp"
    )


def test_it_is_checked_before_anything_is_allocated(monkeypatch):
    monkeypatch.setattr(weights, "free_bytes", lambda _device, _group: 200_000_000)
    monkeypatch.setattr(weights, "_fill", lambda *_: pytest.fail("allocated first"))
    with pytest.raises(ValueError, match=r"needs 47\d\.\d GB .* cpu has 0\.2 GB free; 0 of 94 layers fit at tp=1"):
        build({"target": "preset:qwen3-235b-a22b", "dtype": "bfloat16"})


def test_ranks_of_one_host_share_its_memory(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    alone, shared = (free_bytes(torch.device("cpu"), Group(world_size=n)) for n in (1, 4))
    assert shared == pytest.approx(alone / 4, rel=0.2)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    assert free_bytes(torch.device("cpu"), Group(world_size=4)) == pytest.approx(alone, rel=0.2)


@pytest.mark.parametrize("name", ["qwen3-30b-a3b", "qwen3-235b-a22b", "mixtral-8x7b"])
def test_the_page_on_workloads_states_these_numbers(name):
    page = (Path(__file__).resolve().parents[2] / "docs/workloads.md").read_text()
    (row,) = re.findall(rf"^\| {name} \(\d+\) \|(.*)\|$", page, re.MULTILINE)
    found = []
    for layers, tp in ((12, 1), (12, 2), (0, 1), (0, 4)):
        preset = preset_of(name, layers)
        with torch.device("meta"), weights.WithoutInit():
            target, draft = Decoder(preset.target, Group(world_size=tp)), Draft(preset.draft)
        sizes = SIZES | {"num_slots": 64 + 64 + 3, "device_type": "cuda", "uses_kernels": True}
        found.append(need_of(target, draft, dtype=torch.bfloat16, **sizes).total_bytes / 1e9)
    assert [float(cell) for cell in row.split("|")] == pytest.approx(found, abs=0.051)
