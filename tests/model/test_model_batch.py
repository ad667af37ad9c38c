"""Several sequences at once: each has its own length and its own acceptance, and none changes another's tokens."""

import json

import pytest

from model.evaluate import generate, generate_plain

# Lengths 1 to 13: shorter and longer than the 4 rows of a verify pass.
PROMPTS = [[7, 30, 55, 2, 2, 61, 44, 9, 3, 12, 5, 80, 1], [5], [88, 3, 41], [60, 2, 90, 11, 7, 19]]


def alone(session, prompts, num_tokens):
    return [generate_plain(session, prompt, num_tokens) for prompt in prompts]


def trained_prompts(folder):
    whole = json.loads((folder / "prompts.json").read_text())["prompts"][:4]
    return [prompt[:length] for prompt, length in zip(whole, (64, 30, 51, 3), strict=True)]


@pytest.mark.parametrize("mode", ["plain", "eagle3"])
def test_sequences_of_a_batch_get_the_tokens_they_get_alone(random_folder, open_session, mode):
    together, _ = generate(open_session(random_folder, batch=4), PROMPTS, 16, mode)
    assert together == alone(open_session(random_folder), PROMPTS, 16)


@pytest.mark.parametrize(("num_draft_tokens", "dtype"), [(2, "float64"), (3, "float32"), (4, "float64")])
def test_trained_sequences_speculate_apart(trained_folder, open_session, num_draft_tokens, dtype):
    prompts = trained_prompts(trained_folder)
    session = open_session(trained_folder, batch=4, num_draft_tokens=num_draft_tokens, dtype=dtype)
    together, emitted = generate(session, prompts, 24, "eagle3")
    assert together == alone(open_session(trained_folder, dtype=dtype), prompts, 24)
    assert any(len(set(counts)) > 1 for counts in emitted)  # else nothing would be shown about own acceptance


@pytest.mark.parametrize("mode", ["plain", "eagle3"])
def test_a_full_sequence_stands_still_while_the_others_go_on(random_folder, open_session, mode):
    session = open_session(random_folder, batch=2, max_len=24, num_draft_tokens=2)
    prompts = [PROMPTS[0], PROMPTS[1]]
    together, emitted = generate_until_full(session, prompts, mode)
    assert emitted[-1][0] == 0
    assert emitted[-1][1] > 0
    for mine, theirs in zip(together, alone(open_session(random_folder), prompts, 24), strict=True):
        assert mine == theirs[: len(mine)]
    assert 21 <= len(prompts[0]) + len(together[0]) <= 25  # the newest token needs no slot yet


def generate_until_full(session, prompts, mode):
    """Steps until the second, shorter sequence is full as well."""
    tokens = [[token] for token in session.prefill(prompts, mode=mode)]
    emitted = []
    while True:
        try:
            session.decode() if mode == "plain" else (session.draft(), session.verify(), session.accept())
        except ValueError:
            return tokens, emitted
        new = session.read()
        emitted.append([len(ids) for ids in new])
        for mine, ids in zip(tokens, new, strict=True):
            mine.extend(ids)
