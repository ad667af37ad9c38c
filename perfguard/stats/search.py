"""Which of the factors that differ make the difference? Next comparison out, its outcome in. Pure, without I/O.

Delta debugging (Zeller and Hildebrandt 2002) with a verdict as its oracle, which may be wrong or undecided. Steps
only find candidates and may be wrong: they cost trials, never truth. What is reported rests on checks alone.

A configuration is the set of positions that are set as in A, the fast side; all others are as in B, the slow one.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from perfguard.policy import Policy
from perfguard.records import Outcome

Configuration = frozenset[int]
SearchOutcome = Literal["EXPLAINED", "NOT_REPRODUCIBLE", "INCONCLUSIVE"]

# More factors that only together make the difference are not told from a machine that moves.
MAX_SET = 3
# A against B, then recovery and loss for each nonempty subset of at most MAX_SET found factors.
NUM_CHECKS = 1 + 2 * (2**MAX_SET - 1)
# A factor left out shows in one comparison that has to be called EQUIVALENT: a tenth of the ordinary error rate.
CHECK_TOST_SHARE = 0.1
# That takes more blocks than an ordinary comparison; 2 % to 5 % of searches would end undecided for want of them.
CHECK_LENGTH = 1.5
LONGEST = 40


@dataclass(frozen=True, kw_only=True)
class Question:
    """Is `head` another speed than `base`? A check is decided at its share of alpha and confirmed; a step is not."""

    base: Configuration
    head: Configuration
    is_check: bool


@dataclass(frozen=True, kw_only=True)
class End:
    """What the search ends with. `found`: positions of the smallest set that reproduces the difference; where it is
    INCONCLUSIVE, what was found so far. `unsettled`: the question that nothing could be concluded from."""

    outcome: SearchOutcome
    why: str
    found: tuple[int, ...] = ()
    unsettled: Question | None = None


Asking = Generator[Question, Outcome, "End"]
Checked = Literal["right", "loses_less", "recovers_less", "unknown"]


def next_step(num_factors: int, answers: Mapping[Question, Outcome]) -> Question | End:
    """The next comparison to measure, or the end. `num_factors` at least 1; `answers`: outcomes known so far.

    Equal answers give an equal next step, so that a stored search goes on where it was.
    """
    asking = _search(frozenset(range(num_factors)))
    try:
        question = next(asking)
        while (outcome := known(question, answers)) is not None:
            question = asking.send(outcome)
    except StopIteration as stop:
        end: End = stop.value
        return end
    return question


def known(question: Question, answers: Mapping[Question, Outcome]) -> Outcome | None:
    """The outcome of a question; a check between the same sides answers a step too."""
    if question in answers:
        return answers[question]
    return None if question.is_check else answers.get(replace(question, is_check=True))


def check_policy(policy: Policy) -> Policy:
    """Policy of a check: its share of the search's alpha, and a tenth of the ordinary alpha of EQUIVALENT."""
    return replace(
        policy,
        alpha=policy.search_alpha / NUM_CHECKS,
        max_blocks=min(LONGEST, round(CHECK_LENGTH * policy.max_blocks)),
        tost_alpha=policy.tost_alpha * CHECK_TOST_SHARE,
        extension_share=0.0,
        is_confirmed=True,
    )


def step_policy(policy: Policy) -> Policy:
    """Policy of a step: as a check, but neither confirmed nor at the strict alpha of EQUIVALENT."""
    return replace(check_policy(policy), tost_alpha=policy.tost_alpha, is_confirmed=False)


def _search(everything: Configuration) -> Asking:
    first = Question(base=everything, head=frozenset(), is_check=True)
    outcome = yield first
    if outcome is Outcome.EQUIVALENT:
        return End(outcome="NOT_REPRODUCIBLE", why="A and B are equally fast when both are measured now")
    if outcome is Outcome.IMPROVEMENT:
        return End(outcome="NOT_REPRODUCIBLE", why="measured now, B is the faster one")
    if outcome is not Outcome.REGRESSION:
        return _undecided((), first, f"A against B ended {outcome}")
    found: Configuration = frozenset()
    while len(found) <= MAX_SET:
        verdict, question = yield from _check(everything, found)
        if verdict == "right":
            return (yield from _smallest(everything, found))
        if verdict == "unknown":
            return _undecided(found, question, "a check of what was found was not decided")
        fast, slow = (everything - found, frozenset[int]()) if verdict == "loses_less" else (everything, found)
        where, question = yield from _narrow(fast, slow)
        if where is None:
            return _undecided(found, question, "neither half of what is left could be told")
        found |= {where}
    return _undecided(found, None, f"more than {MAX_SET} factors together")


def _undecided(found: Configuration | tuple[int, ...], question: Question | None, why: str) -> End:
    return End(outcome="INCONCLUSIVE", why=why, found=tuple(sorted(found)), unsettled=question)


def _check(
    everything: Configuration, found: Configuration
) -> Generator[Question, Outcome, tuple[Checked, Question | None]]:
    """Right if A with `found` as in B is as slow as B, and B with `found` as in A is as fast as A."""
    sides: tuple[tuple[Checked, Configuration, Configuration], ...] = (
        ("loses_less", everything - found, frozenset()),
        ("recovers_less", everything, found),
    )
    for failing, base, head in sides:
        if base == head:
            continue
        question = Question(base=base, head=head, is_check=True)
        outcome = yield question
        if outcome in (Outcome.REGRESSION, Outcome.IMPROVEMENT):
            return failing, question
        if outcome is not Outcome.EQUIVALENT:
            return "unknown", question
    return "right", None


def _narrow(
    fast: Configuration, slow: Configuration
) -> Generator[Question, Outcome, tuple[int | None, Question | None]]:
    """One factor that matters between two configurations that differ in speed; `slow` is part of `fast`.

    Where one half cannot be told (undecided, or its settings do not run together), the other one is tried.
    """
    while len(rest := sorted(fast - slow)) > 1:
        halves = (frozenset(rest[: len(rest) // 2]), frozenset(rest[len(rest) // 2 :]))
        for half in halves:
            question = Question(base=fast, head=fast - half, is_check=False)
            outcome = yield question
            if outcome in (Outcome.REGRESSION, Outcome.IMPROVEMENT, Outcome.SUSPECT):
                slow = fast - half
                break
            if outcome is Outcome.EQUIVALENT:
                fast -= half
                break
        else:
            return None, question
    return rest[0], None


def _smallest(everything: Configuration, found: Configuration) -> Asking:
    """A factor that a wrong step brought in is left out again: the rest is right without it."""
    for position in sorted(found) if len(found) > 1 else ():
        verdict, question = yield from _check(everything, found - {position})
        if verdict == "right":
            return (yield from _smallest(everything, found - {position}))
        if verdict == "unknown":
            return _undecided(found, question, "whether fewer would do was not decided")
    why = "set as in B they make A as slow as B, set as in A they make B as fast as A, and no fewer do"
    return End(outcome="EXPLAINED", why=why, found=tuple(sorted(found)))


def most_comparisons(num_factors: int) -> int:
    """Comparisons of a search that finds one factor and meets nothing undecided: A against B, halves, two checks."""
    return 1 + (num_factors - 1).bit_length() + (2 if num_factors > 1 else 0)
