"""Sessions that sample, and sessions that accept as many as wanted: many short runs through the whole cycle."""

import itertools
from dataclasses import fields

import pytest
import torch
from scipy import stats

from model.attention import Window
from model.config import DraftConfig, TargetConfig
from model.decoder import Decoder
from model.eagle3 import Draft
from model.entry import build
from model.evaluate import generate, step
from model.layers import causal_mask
from model.parallel import SINGLE
from model.presets import generate as fill_random
from model.weights import save

VOCAB, BATCH, PROMPT, FIRST, TEMPERATURE, SEED = 5, 32, [1, 4, 2], 0, 0.8, 5
TARGET = TargetConfig(
    vocab_size=VOCAB, num_layers=7, hidden_size=16, num_heads=2, num_kv_heads=2, head_dim=8, num_experts=2, top_k=1,
    expert_size=8,
)  # fmt: skip
# The draft knows three of the five tokens, so that what it cannot say has to come from the residual.
DRAFT = DraftConfig(
    vocab_size=VOCAB, target_hidden_size=16, hidden_size=16, num_heads=2, num_kv_heads=2, head_dim=8, inner_size=16,
    draft_vocab_size=3,
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sampled")
    for name, module in (("target", Decoder(TARGET)), ("draft", Draft(DRAFT))):
        fill_random(module.requires_grad_(False), module, module.config, SEED, SINGLE)
        save(module, folder / f"{name}.safetensors", torch.float32)
    return folder


def open_session(folder, **spec):
    files = {name: str(folder / f"{name}.safetensors") for name in ("target", "draft")}
    return build(files | {"max_len": 16, "batch": BATCH, "num_draft_tokens": 2} | spec)


def exact(session, num_tokens):
    """Probability of each continuation of PROMPT and FIRST: the target's logits over all of them in one forward."""
    begun = [*PROMPT, FIRST]
    runs = torch.tensor(list(itertools.product(range(VOCAB), repeat=num_tokens)))
    tokens = torch.cat((torch.tensor(begun).expand(len(runs), -1), runs), dim=1)
    window = Window(start=0, rope=session.rope, mask=causal_mask(tokens.shape[1], 0, session.device))
    with torch.inference_mode():
        logits = session.target.logits(session.target(tokens, window))
    chances = (logits.double() / TEMPERATURE).softmax(-1)[:, len(begun) - 1 : -1]
    return chances.gather(-1, runs.unsqueeze(-1)).squeeze(-1).prod(-1)


def frequencies(session, mode, num_tokens, num_batches):
    """How often each continuation was said. One prefill serves all runs: only the clock of the coins goes on."""
    session.prefill([PROMPT] * BATCH, mode=mode)
    s = session.sequences
    s.newest_B.fill_(FIRST)
    s.next_tokens_BT[:, len(PROMPT) - 1] = FIRST
    begun = {item.name: getattr(s, item.name).clone() for item in fields(s) if item.name != "clock"}
    counts = torch.zeros(VOCAB**num_tokens, dtype=torch.float64)
    powers = VOCAB ** torch.arange(num_tokens - 1, -1, -1)
    for _ in range(num_batches):
        session.lengths = [len(PROMPT)] * BATCH
        for name, x in begun.items():
            getattr(s, name).copy_(x)
        said = [[] for _ in range(BATCH)]
        while min(map(len, said)) < num_tokens:
            step(session, mode)
            for mine, new in zip(said, session.read(), strict=True):
                mine.extend(new)
        counts += torch.bincount(torch.tensor([mine[:num_tokens] for mine in said]) @ powers, minlength=len(counts))
    return counts


def p_value(counts, chances):
    """Chi-square; continuations that are expected less than five times are one class."""
    expected = chances * counts.sum()
    often = expected >= 5
    seen, wanted = (torch.cat((x[often], x[~often].sum()[None])) for x in (counts, expected))
    return stats.chisquare(seen.numpy(), wanted.numpy() * (seen.sum() / wanted.sum()).item()).pvalue


@pytest.mark.parametrize("mode", ["plain", "eagle3"])
def test_sampled_tokens_are_distributed_as_the_target_says(folder, mode):
    session = open_session(folder, temperature=TEMPERATURE, sampling_seed=SEED)
    chances = exact(session, 3)
    assert chances.sum().item() == pytest.approx(1)
    counts = frequencies(session, mode, 3, num_batches=150)
    value = p_value(counts, chances)
    print(f"seed {SEED}, {int(counts.sum())} runs: p value {value}")
    assert value > 1e-3
    # The test can fail: against another temperature the same frequencies do not hold.
    assert p_value(counts, chances**1.2 / (chances**1.2).sum()) < 1e-3


def test_drafted_tokens_are_sampled_and_some_of_them_accepted(folder):
    session = open_session(folder, temperature=TEMPERATURE, sampling_seed=SEED)
    assert len(set(session.prefill([PROMPT] * BATCH, mode="eagle3"))) > 2
    session.draft()
    assert len(session.sequences.drafted_BK.unique(dim=0)) > 3  # one prompt, many continuations
    assert set(session.sequences.drafted_BK.unique().tolist()) <= {0, 1, 2}
    session.verify()
    session.accept()
    assert {1, 2, 3} == {len(tokens) for tokens in session.read()}


def test_the_same_seed_gives_the_same_tokens_and_another_gives_others(folder):
    runs = [
        generate(open_session(folder, temperature=1.0, sampling_seed=seed), [PROMPT] * BATCH, 6, "eagle3")[0]
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1] != runs[2]


def test_tokens_depend_neither_on_the_order_of_modes_nor_on_steps_beyond_what_was_asked_for(folder):
    prompts = [PROMPT] * BATCH

    def first_two(session, mode, more=0):
        runs = [generate(session, prompts, 5, mode)[0] for _ in range(2) if more == 0]
        while len(runs) < 2:
            runs.append([mine[:5] for mine in generate(session, prompts, 5 + more, mode)[0]])
        return runs

    spec = {"temperature": 1.0, "sampling_seed": 1}
    plain_first, eagle3_first, longer = (open_session(folder, **spec) for _ in range(3))
    plain, eagle3 = first_two(plain_first, "plain"), first_two(plain_first, "eagle3")
    assert (first_two(eagle3_first, "eagle3"), first_two(eagle3_first, "plain")) == (eagle3, plain)
    assert first_two(longer, "eagle3", more=4) == eagle3
    assert eagle3[0] != eagle3[1]


@pytest.mark.parametrize(("rates", "length"), [([1.0, 0.0], 2.0), ([0.7, 0.25], 1.95)])
def test_as_many_are_accepted_as_wanted_whatever_the_logits_say(folder, rates, length):
    session = open_session(folder, accept_rates=rates, max_len=64)
    emitted = [count for row in generate(session, [PROMPT] * BATCH, 12, "eagle3")[1] for count in row]
    assert sum(emitted) / len(emitted) == pytest.approx(length, rel=0.01)


def test_what_excludes_each_other_or_cannot_be_is_refused(folder):
    for spec, message in (
        ({"accept_rates": [1.0, 0.5], "temperature": 0.5}, "temperature 0.5 and accept_rates exclude each other"),
        ({"accept_rates": [1.0]}, "1 accept rates for 2 drafted tokens"),
        ({"temperature": -1.0}, "temperature -1.0 is not a number of at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            open_session(folder, **spec)
