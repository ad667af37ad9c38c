"""Rejection sampling against the distribution it has to keep, and synthetic acceptance against what was wanted."""

import math

import pytest
import torch
from scipy import stats

from model.hashing import key_of, uniforms
from model.sampling import (
    PREFILL,
    accept_sampled,
    accept_synthetic,
    check_rates,
    coins,
    even_coins,
    probabilities,
    sample,
)

SEED = 20261130
NUM_RUNS = 100_000
VOCAB = 5


def tables(seed):
    """P, Q: the next token's distribution after each token, of target and draft; some entries are zero."""
    generator = torch.Generator().manual_seed(seed)
    p, q = (torch.rand(VOCAB, VOCAB, generator=generator) ** 3 for _ in range(2))
    p[0, 1] = q[1, 2] = q[0, 4] = p[3, 3] = 0
    return p / p.sum(-1, keepdim=True), q / q.sum(-1, keepdim=True)


def speculated(p, q, num_draft_tokens, num_tokens, decide=accept_sampled, seed=SEED):
    """tokens_BN of many runs from token 0: whole cycles, what is too much is cut off."""
    cycle, runs = 0, torch.zeros(NUM_RUNS, num_tokens + num_draft_tokens + 2, dtype=torch.int64)
    filled, newest = torch.zeros(NUM_RUNS, dtype=torch.int64), torch.zeros(NUM_RUNS, dtype=torch.int64)
    while filled.min() < num_tokens:
        u = uniforms(torch.arange(NUM_RUNS * (2 * num_draft_tokens + 1)), key_of(seed, cycle)).view(NUM_RUNS, -1)
        rows = [newest]
        for k in range(num_draft_tokens):
            rows.append(sample(q[rows[-1]], u[:, k]))
        drafted = torch.stack(rows[1:], dim=1)
        q_rows, p_rows = (torch.stack([table[x] for x in some], dim=1) for table, some in ((q, rows[:-1]), (p, rows)))
        accepted, last = decide(drafted, q_rows, p_rows, u[:, num_draft_tokens:-1], u[:, -1])
        for k in range(num_draft_tokens + 1):
            token = torch.where(accepted > k, drafted[:, min(k, num_draft_tokens - 1)], last)
            place = (filled + k).clamp_max(runs.shape[1] - 1)
            is_emitted = (k <= accepted) & (filled < num_tokens)
            runs[is_emitted, place[is_emitted]] = token[is_emitted]
        filled, newest, cycle = filled + accepted + 1, last, cycle + 1
    return runs[:, :num_tokens]


def p_value(runs, p):
    """Chi-square of the runs' frequencies against the product of the target's own probabilities."""
    expected = torch.zeros([VOCAB] * runs.shape[1], dtype=torch.float64)
    for place in range(VOCAB ** runs.shape[1]):
        tokens = [place // VOCAB**k % VOCAB for k in range(runs.shape[1])]
        expected[tuple(tokens)] = math.prod(p[a, b].item() for a, b in zip([0, *tokens], tokens, strict=False))
    code = sum(runs[:, k] * VOCAB**k for k in range(runs.shape[1]))
    counts = torch.bincount(code, minlength=expected.numel())
    by_code = expected.permute(*reversed(range(expected.dim()))).flatten() * len(runs)
    assert counts[by_code == 0].sum() == 0  # a token that the target never says
    rare = (by_code > 0) & (by_code < 10)
    grouped = [(counts[by_code >= 10], by_code[by_code >= 10]), (counts[rare].sum()[None], by_code[rare].sum()[None])]
    seen, wanted = (torch.cat([group[i].double() for group in grouped if group[1].sum() > 0]) for i in (0, 1))
    return stats.chisquare(seen.numpy(), (wanted * seen.sum() / wanted.sum()).numpy()).pvalue


@pytest.mark.parametrize("num_draft_tokens", [1, 2, 4])
def test_runs_of_four_tokens_are_distributed_as_the_target_alone(num_draft_tokens):
    p, q = tables(SEED)
    value = p_value(speculated(p, q, num_draft_tokens, num_tokens=4), p)
    print(f"seed {SEED}: p value {value}")
    assert value > 1e-3


def always(drafted, _q, p, _u, u_last):
    accepted = torch.full((len(drafted),), drafted.shape[1])
    return accepted, sample(p[:, -1], u_last)


def without_residual(drafted, q, p, u, u_last):
    accepted, _ = accept_sampled(drafted, q, p, u, u_last)
    return accepted, sample(p[torch.arange(len(p)), accepted], u_last)


def too_generous(drafted, q, p, u, u_last):
    return accept_sampled(drafted, q, p, u * 0.97, u_last)


@pytest.mark.parametrize("wrong", [always, without_residual, too_generous])
def test_a_rule_that_is_a_little_wrong_would_be_seen(wrong):
    p, q = tables(SEED)
    p = (p + 0.01) / (p + 0.01).sum(-1, keepdim=True)  # no zeros: only the frequencies tell
    assert p_value(speculated(p, q, 2, num_tokens=3, decide=wrong), p) < 1e-6


def test_a_draft_that_is_the_target_is_always_believed():
    p, _ = tables(SEED)
    rows = torch.zeros(1000, 3, dtype=torch.int64)
    u = uniforms(torch.arange(4000), 5).view(1000, 4)
    drafted = torch.stack([sample(p[0].expand(1000, -1), u[:, k]) for k in range(2)], dim=1)
    accepted, last = accept_sampled(drafted, p[rows[:, :2]], p[rows], u[:, 1:3], u[:, 3])
    assert accepted.min() == 2
    assert set(last.tolist()) == set(p[0].nonzero().flatten().tolist())


def test_a_token_the_target_never_says_is_never_accepted_and_the_rest_is_renormalised():
    q, p = torch.tensor([[[0.0, 1, 0]]]), torch.tensor([[[0.25, 0, 0.75], [1, 0, 0]]])
    for u_last, token in ((0.0, 0), (0.2499, 0), (0.2501, 2), (0.9999, 2)):
        accepted, last = accept_sampled(torch.tensor([[1]]), q, p, torch.tensor([[0.0]]), torch.tensor([u_last]))
        assert (accepted.tolist(), last.tolist()) == ([0], [token])


def test_a_coin_finds_the_token_at_which_the_sum_passes_it():
    weights = torch.tensor([0.0, 2, 0, 1, 1, 0])  # sums to 4, not to 1
    u = torch.tensor([0.0, 0.4999, 0.5, 0.7499, 0.75, 1 - 2**-24])
    assert sample(weights.expand(6, -1), u).tolist() == [1, 1, 3, 3, 4, 4]


def test_rare_tokens_of_a_large_vocabulary_are_not_lost():
    """In fp32 a running sum near one swallows 2e-9 whole: the last half of this vocabulary would vanish."""
    weights = torch.full((1, 150_000), 2e-9)
    weights[0, 0] = 1.0
    threshold = (1 + 75_000 * 2e-9) / (1 + 149_999 * 2e-9)
    u = torch.tensor([threshold], dtype=torch.float64)
    assert sample(weights, u).item() == pytest.approx(75_000, abs=2)


def test_temperature_sharpens_by_powers():
    logits = torch.tensor([0.0, math.log(2), math.log(4)])
    torch.testing.assert_close(probabilities(logits, 1.0), torch.tensor([1, 2, 4]) / 7)
    torch.testing.assert_close(probabilities(logits, 0.5), torch.tensor([1, 4, 16]) / 21)
    assert probabilities(logits.bfloat16(), 1.0).dtype == torch.float32


@pytest.mark.parametrize("num_sequences", [1, 4])
@pytest.mark.parametrize("rates", [[0.6, 0, 0], [0.9, 0.55, 0.1], [1, 0.37, 0.37]])
def test_wanted_rates_are_met_within_a_percent_over_prompts_of_a_few_cycles(rates, num_sequences):
    clocks = [prefill * PREFILL + cycle for prefill in range(8) for cycle in range(40 // num_sequences)]
    accepted = torch.cat(
        [accept_synthetic(torch.tensor(rates), even_coins(torch.tensor(clock), num_sequences)) for clock in clocks]
    )
    for position, rate in enumerate(rates):
        assert abs((accepted > position).sum().item() - rate * len(accepted)) < 5
    assert 1 + accepted.double().mean().item() == pytest.approx(1 + sum(rates), rel=0.01)


@pytest.mark.parametrize("rates", [[0.5, 0.6], [1.1, 0.5], [0.5, -0.1], [0.5]])
def test_rates_that_cannot_be_are_refused(rates):
    with pytest.raises(ValueError, match="accept rates"):
        check_rates(rates, 2)
    check_rates([0.7, 0.7], 2)


def test_coins_differ_by_cycle_sequence_purpose_and_are_the_same_again():
    first = coins(torch.tensor(0), 3, 4, key=1)
    assert first.shape == (3, 4)
    several = torch.cat([coins(torch.tensor(cycle), 3, 4, key) for cycle in (0, 1) for key in (1, 2)])
    assert len(several.unique()) == 48
    assert torch.equal(first, coins(torch.tensor(0), 3, 4, key=1))
