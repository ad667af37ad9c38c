"""Speculation changes the speed and never the tokens: acceptance, rollback, re-extension, equality with plain."""

import itertools
import json

import pytest
import torch

from model.attention import Window
from model.evaluate import generate_eagle3, generate_plain
from model.sequences import accept, new_sequences, num_agreed

CPU = torch.device("cpu")
PROMPT = [7, 30, 55, 2, 2, 61, 44, 9]


def one_sequence(drafted, verified, length=20):
    """A sequence of 20 tokens that has drafted and verified."""
    sequences = new_sequences(batch=1, num_draft_tokens=len(drafted), taps_size=1, dtype=torch.float64, device=CPU)
    sequences.drafted_BK[0] = torch.tensor(drafted)
    sequences.verified_BT[0] = torch.tensor(verified)
    sequences.length_B.fill_(length)
    return sequences


@pytest.mark.parametrize(
    ("drafted", "verified", "emitted"),
    [
        ([5, 6, 7], [5, 6, 7, 8], [5, 6, 7, 8]),
        ([5, 6, 7], [5, 6, 9, 8], [5, 6, 9]),
        ([5, 6, 7], [4, 6, 7, 8], [4]),
        ([5, 6, 7], [5, 1, 7, 8], [5, 1]),
        ([5], [5, 3], [5, 3]),
        ([5], [2, 3], [2]),
    ],
)
def test_drafted_tokens_count_up_to_the_first_disagreement_and_one_comes_free(drafted, verified, emitted):
    sequences = one_sequence(drafted, verified)
    accept(sequences, num_agreed(sequences.drafted_BK, sequences.verified_BT), max_len=99)
    count = sequences.outcome_BX[0, -1].item()
    assert sequences.outcome_BX[0, :count].tolist() == emitted
    assert sequences.length_B.item() == 20 + len(emitted)
    assert sequences.newest_B.item() == emitted[-1]
    assert (sequences.ext_start_B.item(), sequences.read_row_B.item()) == (20, len(emitted) - 1)


def test_what_is_accepted_against_the_target_is_emitted_as_it_was_drafted():
    sequences = one_sequence([5, 6, 7], [1, 2, 3, 4])
    accept(sequences, torch.tensor([2]), max_len=99)  # as synthetic acceptance does
    assert sequences.outcome_BX.tolist() == [[5, 6, 3, 4, 3]]
    assert sequences.newest_B.item() == 3


def test_a_sequence_without_room_for_a_whole_cycle_stands_still():
    sequences = one_sequence([5, 6], [5, 6, 7])
    accept(sequences, torch.tensor([2]), max_len=22)
    assert sequences.outcome_BX[0, -1].item() == 0
    assert (sequences.length_B.item(), sequences.newest_B.item()) == (20, 0)


def trained_prompts(folder, count):
    return json.loads((folder / "prompts.json").read_text())["prompts"][:count]


@pytest.mark.parametrize("num_draft_tokens", [1, 2, 3, 4])
def test_trained_speculation_emits_the_tokens_of_plain_decoding(trained_folder, open_session, num_draft_tokens):
    session = open_session(trained_folder, num_draft_tokens=num_draft_tokens)
    for prompt in trained_prompts(trained_folder, 2):
        tokens, emitted = generate_eagle3(session, prompt, 40)
        assert tokens == generate_plain(session, prompt, 40)
        assert max(emitted) == num_draft_tokens + 1


@pytest.mark.parametrize("num_draft_tokens", [1, 2, 3, 4])
def test_a_draft_that_knows_nothing_costs_cycles_but_no_token(random_folder, open_session, num_draft_tokens):
    session = open_session(random_folder, num_draft_tokens=num_draft_tokens)
    tokens, emitted = generate_eagle3(session, PROMPT, 24)
    assert tokens == generate_plain(session, PROMPT, 24)
    assert emitted.count(1) > len(emitted) / 2


def cycle(session, drafted):
    """A cycle in which these tokens take the place of the drafted ones. What drafting wrote must not matter."""
    session.draft()
    session.sequences.drafted_BK[0] = torch.tensor(drafted)
    session.verify()
    session.accept()
    return session.read()[0]


@pytest.mark.parametrize("rights", [[4], [0, 1, 2, 3, 4], [4, 0], [1, 3, 0, 0, 2]], ids=str)
@pytest.mark.parametrize("num_draft_tokens", [1, 2, 3, 4])
def test_any_run_of_accepted_and_rejected_tokens_ends_in_plain_output(
    random_folder, open_session, num_draft_tokens, rights
):
    """Cycle by cycle, the first `right` drafted tokens are those of plain decoding and the others are wrong."""
    session = open_session(random_folder, num_draft_tokens=num_draft_tokens)
    plain = generate_plain(session, PROMPT, 26)
    tokens = session.prefill([PROMPT], mode="eagle3")
    for right in itertools.islice(itertools.cycle(rights), 5):
        coming = plain[len(tokens) : len(tokens) + num_draft_tokens]
        emitted = cycle(session, [token if i < right else (token + 1) % 97 for i, token in enumerate(coming)])
        assert len(emitted) == min(right, num_draft_tokens) + 1
        tokens += emitted
    assert tokens == plain[: len(tokens)]


def test_in_fp32_the_first_difference_is_a_near_tie(trained_folder, open_session):
    session = open_session(trained_folder, dtype="float32")
    gaps = []
    for prompt in trained_prompts(trained_folder, 4):
        plain, (speculative, _) = generate_plain(session, prompt, 64), generate_eagle3(session, prompt, 64)
        first = next((i for i in range(64) if plain[i] != speculative[i]), None)
        if first is not None:
            session.prefill([prompt + plain[:first]])
            best = next_logits(session, plain[first - 1], session.lengths[0] - 1).topk(2).values
            gaps.append((best[0] - best[1]).item())
    print(f"{len(gaps)} of 4 prompts differ, logit gaps {gaps}")
    assert all(gap < 1e-4 for gap in gaps)


def next_logits(session, token, slot):
    """Logits after `token` at `slot`, on the caches as they are."""
    window = Window(start=slot, rope=session.rope, mask=None)
    with torch.inference_mode():
        return session.target.logits(session.target(torch.tensor([[token]]), window, session.caches))[0, -1]


@pytest.mark.parametrize("num_right", [0, 1, 2, 3])
def test_after_a_rollback_the_target_is_as_if_freshly_prefilled(random_folder, open_session, num_right):
    session, fresh = (open_session(random_folder, num_draft_tokens=3) for _ in range(2))
    plain = generate_plain(session, PROMPT, 5)
    first = session.prefill([PROMPT], mode="eagle3")
    emitted = cycle(session, [token if i < num_right else (token + 1) % 97 for i, token in enumerate(plain[1:4])])
    assert emitted == plain[1 : num_right + 2]
    assert session.lengths == [len(PROMPT) + 1 + num_right]
    fresh.prefill([[*PROMPT, *first, *emitted[:-1]]])
    ours, theirs = (next_logits(s, emitted[-1], s.lengths[0]) for s in (session, fresh))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("num_right", [0, 1, 3])
def test_the_draft_takes_accepted_rows_in_with_target_features(random_folder, open_session, num_right):
    session, fresh = (open_session(random_folder, num_draft_tokens=3) for _ in range(2))
    plain = generate_plain(session, PROMPT, 5)
    first = session.prefill([PROMPT], mode="eagle3")
    # Drafting writes guessed KV at the slots that the accepted rows must overwrite.
    emitted = cycle(session, [token if i < num_right else (token + 1) % 97 for i, token in enumerate(plain[1:4])])
    fresh.prefill([[*PROMPT, *first, *emitted[:-1]]], mode="eagle3")
    session.draft()
    fresh.draft()
    assert torch.equal(session.sequences.drafted_BK, fresh.sequences.drafted_BK)
    ours, theirs = (s.drafter.cache for s in (session, fresh))
    used = session.lengths[0] + 2  # accepted slots, then K - 1 drafting steps
    torch.testing.assert_close(ours.k_BGPD[:, :, :used], theirs.k_BGPD[:, :, :used], rtol=0, atol=1e-12)
    torch.testing.assert_close(ours.v_BGPD[:, :, :used], theirs.v_BGPD[:, :, :used], rtol=0, atol=1e-12)
