"""Training: text, schedule, losses, resuming, and one whole run in miniature."""

import hashlib
import json
import math
import sys

import pytest
import torch

from model import train
from model.config import DraftConfig, TargetConfig
from model.decoder import Decoder
from model.eagle3 import Draft
from model.layers import build_rope
from model.losses import balance_loss, target_loss
from model.text import generate, prompts

CPU = torch.device("cpu")
SHORT = train.Recipe(text_bytes=20_000, batch=2, length=24, unroll=3, target_steps=6, draft_steps=4, warmup_steps=2)


def test_the_text_of_a_seed_never_changes():
    digest = hashlib.sha256(generate(1, 100_000)).hexdigest()
    assert digest == "1d2a2aa9c118930cbdded46d32565da7dc7b0fb15757c934690dd329cc09baf9"
    assert generate(1, 1000) != generate(2, 1000)


def test_prompts_start_a_line_and_are_64_bytes_long():
    text = generate(2, 4096 * 33)
    for prompt in prompts(2, 32):
        assert len(prompt) == 64
        assert b"\n" + bytes(prompt) in text


def test_the_learning_rate_warms_up_then_falls_to_a_twentieth():
    rates = [train.learning_rate(step, 110, 1.0, 10) for step in range(110)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == pytest.approx(1.0)
    assert rates[60] == pytest.approx(0.05 + 0.95 / 2)
    assert rates[109] == pytest.approx(0.05, abs=1e-3)


def test_balance_is_1_for_even_experts_and_higher_for_a_favourite():
    # Two experts of four, always the same, certain of them: 4 * (1/2 * 1/2 + 1/2 * 1/2) = 2.
    favourite = torch.tensor([[[50.0, 50.0, 0.0, 0.0]] * 6])
    assert balance_loss(favourite, 2).item() == pytest.approx(2.0)
    even = torch.tensor([[[50.0, 50.0, 0.0, 0.0], [0.0, 0.0, 50.0, 50.0]]])
    assert balance_loss(even, 2).item() == pytest.approx(1.0)


def test_an_untrained_target_knows_no_more_than_its_logits_say(small_target):
    silent = Decoder(small_target.config)
    train.initialise(silent, 0)
    torch.nn.init.zeros_(silent.lm_head.weight)
    rope = build_rope(num_positions=16, head_dim=16, theta=1e4, dtype=torch.float32, device=CPU)
    loss, _ = target_loss(silent, torch.randint(97, (2, 16)), rope)
    assert loss.item() == pytest.approx(math.log(97), rel=1e-6)


def test_each_step_draws_its_own_windows_and_always_the_same():
    text = train.as_tensor(generate(1, 20_000), CPU)
    first, again, next_ = (train.batch_at(text, step, SHORT, 24) for step in (7, 7, 8))
    assert first.shape == (2, 24)
    assert torch.equal(first, again)
    assert not torch.equal(first, next_)
    assert bytes(first[0].tolist()) in generate(1, 20_000)


def phases(folder):
    """The two phases of the short recipe with checkpoints in `folder`."""
    folder.mkdir()
    (folder / "checkpoints").mkdir()
    text = train.as_tensor(generate(1, SHORT.text_bytes), CPU)
    rope = train.build_training_rope(SHORT, TargetConfig(), CPU)
    target = train.initialise(Decoder(TargetConfig()), 1)
    teacher = train.initialise(Decoder(TargetConfig()), 1).requires_grad_(False)
    draft = train.initialise(Draft(DraftConfig()), 2)
    return (
        train.target_phase(SHORT, target, text, rope, folder),
        train.draft_phase(SHORT, teacher, draft, text, rope, folder),
    )


def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(tmp_path):
    for whole, first, second in zip(*(phases(tmp_path / name) for name in ("whole", "cut", "again")), strict=True):
        train.fit(whole, SHORT)
        train.fit(first, SHORT, stop_at=2)
        second.checkpoint.write_bytes(first.checkpoint.read_bytes())
        train.fit(second, SHORT)
        for a, b in zip(whole.module.parameters(), second.module.parameters(), strict=True):
            assert torch.equal(a, b)
        assert not torch.equal(next(first.module.parameters()), next(whole.module.parameters()))


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path):
    phase, _ = phases(tmp_path / "run")
    train.fit(phase, SHORT, stop_at=1)
    with pytest.raises(ValueError, match=r"target\.pt was made with .*'seed': 1"):
        train.fit(phase, train.Recipe(seed=9))


def test_training_from_the_command_line_writes_weights_prompts_and_facts(tmp_path, monkeypatch):
    monkeypatch.setattr("model.train.NUM_PROMPTS", 1)
    monkeypatch.setattr("model.evaluate.NUM_NEW_TOKENS", 8)
    arguments = "--target-steps 3 --draft-steps 2 --batch 2 --length 192 --text-bytes 20000 --warmup-steps 1"
    monkeypatch.setattr(sys, "argv", ["train", "--out", str(tmp_path), *arguments.split()])
    train.main()
    document = json.loads((tmp_path / "prompts.json").read_text())
    assert [len(prompt) for prompt in document["prompts"]] == [64]
    facts = document["training"]
    assert facts["recipe"]["target_steps"] == 3
    assert facts["draft_loss_by_step"].keys() == {"2"}
    assert facts["accept_length"].keys() == {"1", "2", "3", "4"}
    assert all(1 <= length <= int(k) + 1 for k, length in facts["accept_length"].items())
    assert (tmp_path / "target.safetensors").stat().st_size + (tmp_path / "draft.safetensors").stat().st_size < 8e6
