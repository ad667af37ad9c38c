"""Where the time of a step or cycle went on either side, by the time stamps of the device. Pure; judges nothing.

What is judged comes from passes without stamps, and a stamped step is a little longer: the parts tell where to look.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean

from perfguard.cycles import stamped
from perfguard.records import Side, Trial

# As runners stamp them. Together they are the step.
PARTS = {
    "decode_s": "decode",
    "draft_extend_s": "draft extension",
    "draft_steps_s": "draft steps",
    "verify_s": "verify",
    "accept_s": "accept",
    "host_gap_s": "host",
}
# Inside the forward pass of the target.
ALL_REDUCE = "all-reduce"
FORWARDS = ("decode", "verify")


@dataclass(frozen=True, kw_only=True)
class Part:
    """Seconds of one step, means over launches. `is_inside`: of another part."""

    name: str
    base_s: float
    head_s: float
    is_inside: bool = False

    @property
    def change_s(self) -> float:
        return self.head_s - self.base_s


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """`lies_in`: the part that makes up most of the change, "" where none does."""

    mode: str
    parts: tuple[Part, ...]
    lies_in: str


def step_times(modes: Sequence[str], trials: Sequence[Trial]) -> tuple[StepTimes, ...]:
    """Of the modes whose steps every launch stamped."""
    found = []
    for mode in modes:
        parts = [part for key, name in PARTS.items() if (part := _part(trials, mode, key, name)) is not None]
        inside = _part(trials, mode, "all_reduce_s", ALL_REDUCE, is_inside=True)
        if parts:
            all_parts = (*parts, inside) if inside is not None else tuple(parts)
            found.append(StepTimes(mode=mode, parts=all_parts, lies_in=lies_in(all_parts)))
    return tuple(found)


def _part(trials: Sequence[Trial], mode: str, key: str, name: str, *, is_inside: bool = False) -> Part | None:
    """None where a launch lacks it: launches are alike, and half an answer is none."""
    base_s, head_s = (_mean(trials, side, mode, key) for side in ("base", "head"))
    if base_s is None or head_s is None:
        return None
    return Part(name=name, base_s=base_s, head_s=head_s, is_inside=is_inside)


def _mean(trials: Sequence[Trial], side: Side, mode: str, key: str) -> float | None:
    values = [stamped(trial, key, mode) for trial in trials if trial.side == side]
    known = [value for value in values if value is not None and isfinite(value)]
    return fmean(known) if known and len(known) == len(values) else None


def lies_in(parts: Sequence[Part]) -> str:
    """The part with at least half of the whole change; the all-reduce inside it, if that has half of the part's."""
    outer = [part for part in parts if not part.is_inside]
    total_s = sum(part.change_s for part in outer)
    most = max(outer, key=lambda part: part.change_s if total_s > 0 else -part.change_s)
    if not total_s or most.change_s / total_s < 0.5:
        return ""
    inside = [part for part in parts if part.is_inside and most.name in FORWARDS]
    return next((part.name for part in inside if part.change_s / most.change_s >= 0.5), most.name)
