"""Where greedy speculative and plain decoding part: is it a near tie that rounding decides, or a fault? After the fact.

Asks the subject for the logits of its plain forward over the tokens that both modes share. Must not measure, and must
not be called before everything that is measured was read.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from runners.contract import Session

# Unit roundoff: half the spacing of the numbers just above one. bfloat16 has 8 significant bits, so 2^-8.
ROUNDOFF = {"bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
# Products of bfloat16 are added up in float32; these are added up in their own precision.
SUMMED_IN_OWN = ("float32", "float64")


@dataclass(frozen=True, kw_only=True)
class Parting:
    """Of one prompt: all tokens before the first that differs, then the choice of plain decoding and the other one."""

    before: list[int]
    ids: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Gap:
    """`size`: how far the plain forward prefers its likeliest token to the less likely of the two choices."""

    size: float
    bound: float

    @property
    def is_explained(self) -> bool:
        return self.size <= self.bound  # not so where a logit is no number

    @property
    def times_bound(self) -> float:
        return self.size / self.bound if math.isfinite(self.size) and self.bound else math.inf


def partings(
    prompts: Sequence[list[int]], plain: Sequence[Sequence[int]], speculative: Sequence[Sequence[int]]
) -> list[Parting]:
    """One for each prompt whose tokens differ, in the order of the prompts."""
    found = []
    for prompt, one, other in zip(prompts, plain, speculative, strict=True):
        place = next((i for i, ids in enumerate(zip(one, other, strict=True)) if ids[0] != ids[1]), None)
        if place is not None:
            found.append(Parting(before=[*prompt, *one[:place]], ids=(one[place], other[place])))
    return found


def rounding_bound(dtype: str, logit: float, num_layers: int, hidden_size: int) -> float:
    """Gap of two logits, the larger of size `logit`, up to which the order of rounding may decide between them.

    Every rounding errs by at most the unit roundoff. n in a row err by n of them at worst, by sqrt(n) as a rule
    (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed. 2002, section 2.8). Here n counts the
    additions to the residual stream behind the last hidden state, two a layer; where sums round in their own
    precision, each is behind a sum of `hidden_size` terms. Twice that, since two logits err.
    """
    num_roundings = 2 * num_layers * (hidden_size if dtype in SUMMED_IN_OWN else 1)
    return 2 * ROUNDOFF[dtype] * math.sqrt(num_roundings) * abs(logit)


def explain(
    session: Session,
    prompts: Sequence[list[int]],
    plain: Sequence[Sequence[int]],
    speculative: Sequence[Sequence[int]],
    dtype: str,
) -> dict[str, Any]:
    """For the counts of mode eagle3; {} where the subject cannot tell. All ranks call this together.

    One forward pass over at most a prompt and its tokens for each prompt that differs.
    """
    next_logits = getattr(session, "next_logits", None)
    if next_logits is None or dtype not in ROUNDOFF:
        return {}
    target = session.describe()["target"]
    gaps = [
        gap_of(parting, next_logits, dtype, num_layers=target["num_layers"], hidden_size=target["hidden_size"])
        for parting in partings(prompts, plain, speculative)
    ]
    return summarise(gaps)


def gap_of(parting: Parting, next_logits: Callable[..., list[float]], dtype: str, **widths: int) -> Gap:
    one, other, best = next_logits(parting.before, parting.ids)
    largest = max(abs(one), abs(other), abs(best))
    return Gap(size=best - min(one, other), bound=rounding_bound(dtype, largest, **widths))


def summarise(gaps: Sequence[Gap]) -> dict[str, Any]:
    """`first_difference_explained`: no prompt differs for another reason than rounding. `worst_gap`: the largest
    against its bound, `worst_bound`; None where no prompt differs, or where a logit is no number.
    """
    worst = max(gaps, key=lambda gap: gap.times_bound, default=None)
    is_known = worst is not None and math.isfinite(worst.size)
    return {
        "first_difference_explained": all(gap.is_explained for gap in gaps),
        "first_differences": {
            "num_differing": len(gaps),
            "num_explained": sum(gap.is_explained for gap in gaps),
            "worst_gap": worst.size if worst and is_known else None,
            "worst_bound": worst.bound if worst and is_known else None,
        },
    }
