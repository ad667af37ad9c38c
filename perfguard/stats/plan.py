"""Orders of trials, drawn before they run: the coin tosses every verdict rests on. Knows nothing of values.

Words come from SHA-512 of (seed, stage, index), so a block can be drawn on its own, in any Python version, and
two blocks never share a toss.
"""

import hashlib
from collections.abc import Sequence
from itertools import combinations
from string import ascii_letters

from perfguard.records import BlockPlan

# Slots of the two head trials, and the same as text: the six arrangements of two base and two head trials.
HEAD_SLOTS: tuple[tuple[int, int], ...] = tuple(combinations(range(4), 2))
ORDERS: tuple[str, ...] = tuple("".join("B" if j in head else "A" for j in range(4)) for head in HEAD_SLOTS)
# Names of the settings of a sweep, by position.
LETTERS = ascii_letters
# Build 1 in every slot, as a plan names it.
FIRST_BUILDS = "1111"


def plan_block(seed: int, stage: int, index: int, confirm_builds: int) -> BlockPlan:
    """Draws one block: its order uniform over six, its pauses uniform in [0, 1).

    Stage 1 uses build 1 of each arm. From stage 2 on each arm runs a pair of fresh builds once each, in random order:
    2 and 3 in the first block, 4 and 5 in the next, and from the start again after `confirm_builds` of them (an even
    number). Any integers are accepted; equal arguments give an equal plan for ever.
    """
    words = _words(f"perfguard block {seed} {stage} {index}")
    order = ORDERS[words[0] % 6]
    builds = _builds(order, words[1], index % (confirm_builds // 2)) if stage > 1 else FIRST_BUILDS
    pauses = (_fraction(words[2]), _fraction(words[3]), _fraction(words[4]), _fraction(words[5]))
    return BlockPlan(stage=stage, index=index, order=order, builds=builds, pauses=pauses)


def builds_text(numbers: Sequence[int]) -> str:
    """Builds by slot as plans are stored: a digit each ("2323"), spaces between where one has more ("10 11 11 10")."""
    return ("" if max(numbers) < 10 else " ").join(map(str, numbers))


def builds_of(text: str) -> tuple[int, ...]:
    """The builds by slot that `builds_text` wrote."""
    return tuple(map(int, text.split() if " " in text else text))


def build_order(seed: int, stage: int, numbers: Sequence[int]) -> tuple[tuple[str, int], ...]:
    """(A or B, number) of fresh builds in the order in which they are made and first run, uniform as slots are.

    `numbers`: one or two, of each arm. What goes by this order (age of a disk, slots given out in turn) must not go by
    the arm.
    """
    (word, *_) = _words(f"perfguard builds {seed} {stage} {' '.join(map(str, numbers))}")
    order = ORDERS[word % 6] if len(numbers) > 1 else ("AB", "BA")[word % 2]
    left = {"A": iter(numbers), "B": iter(numbers)}
    return tuple((letter, next(left[letter])) for letter in order)


def plan_round(seed: int, index: int, num_settings: int) -> BlockPlan:
    """A round of a sweep: every setting once, in an order uniform over all permutations, as letters of LETTERS.

    When some have left, the order of those that stay is still uniform. At most 52 settings.
    """
    letters = LETTERS[:num_settings]
    order = sorted(letters, key=lambda letter: _words(f"perfguard round {seed} {index} {letter}"))
    pauses = tuple(_fraction(_words(f"perfguard round pause {seed} {index} {letter}")[0]) for letter in order)
    return BlockPlan(stage=1, index=index, order="".join(order), builds="1" * num_settings, pauses=pauses)


def order_of_modes(seed: int, trial_key: str, modes: Sequence[str]) -> tuple[str, ...]:
    """A random permutation of the modes for one trial, uniform, the same for equal arguments."""

    def draw(mode: str) -> tuple[int, ...]:
        return _words(f"perfguard modes {seed} {trial_key} {mode}")

    return tuple(sorted(modes, key=draw))


def _words(key: str) -> tuple[int, ...]:
    """Eight independent 64-bit words. Taking one modulo 6 favours an order by less than 1e-18."""
    digest = hashlib.sha512(key.encode()).digest()
    return tuple(int.from_bytes(digest[i : i + 8], "big") for i in range(0, 64, 8))


def _builds(order: str, word: int, pair: int) -> str:
    """Two bits: which of the two slots of base, and of head, gets the pair's first build."""
    one, other = 2 + 2 * pair, 3 + 2 * pair
    builds = {"A": (one, other) if word & 1 else (other, one), "B": (one, other) if word & 2 else (other, one)}
    return builds_text([builds[arm][order[:slot].count(arm)] for slot, arm in enumerate(order)])


def _fraction(word: int) -> float:
    return (word >> 11) / float(1 << 53)
