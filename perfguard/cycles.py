"""Times and counts of a decode cycle out of stored trials of one mode each. Pure; judges nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from perfguard.modes import SIDES
from perfguard.records import Trial
from perfguard.stats.acceptance import Rate, rates_by_position

PLAIN, SPECULATIVE = SIDES["base"], SIDES["head"]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Seconds of a plain step and of a speculative cycle with its parts; None where the runner does not tell them.
    Draft and verify together are at most the cycle, see `fitting`.

    `extend_s`: the draft's first pass, a part of `draft_s`. `rest_s`: accepting, and whatever else the cycle takes.
    """

    plain_s: float
    cycle_s: float
    draft_s: float | None = None
    verify_s: float | None = None
    extend_s: float | None = None

    @property
    def rest_s(self) -> float:
        return max(0.0, self.cycle_s - (self.draft_s or 0.0) - (self.verify_s or 0.0))


def parts_by_block(trials: Sequence[Trial]) -> dict[tuple[int, int], Parts]:
    """(stage, block) -> the means of its trials, where both modes gave their times."""
    blocks: dict[tuple[int, int], list[Trial]] = {}
    for trial in trials:
        blocks.setdefault((trial.stage, trial.block), []).append(trial)
    found = {key: _parts(of_block) for key, of_block in blocks.items()}
    return {key: parts for key, parts in found.items() if parts is not None}


def _parts(trials: Sequence[Trial]) -> Parts | None:
    plain_s = _mean([step_s(t, PLAIN, "token") for t in trials if t.side == "base"])
    heads = [trial for trial in trials if trial.side == "head"]
    cycle_s = _mean([step_s(trial, SPECULATIVE, "cycle") for trial in heads])
    if not plain_s or not cycle_s:
        return None
    parts = {
        "draft_s": _mean([draft_s(trial) for trial in heads]),
        "verify_s": _mean([step_s(trial, SPECULATIVE, "verify") or stamped(trial, "verify_s") for trial in heads]),
        "extend_s": _mean([stamped(trial, "draft_extend_s") for trial in heads]),
    }
    share = fitting(cycle_s, parts["draft_s"], parts["verify_s"])
    scaled = {name: None if seconds is None else share * seconds for name, seconds in parts.items()}
    return Parts(plain_s=plain_s, cycle_s=cycle_s, **scaled)


def fitting(cycle_s: float, draft_s: float | None, verify_s: float | None) -> float:
    """What stamped parts are multiplied by: min(1, cycle / (draft + verify)).

    Stamps take time, and a stamped cycle does not run ahead: parts that are longer together than the cycle that was
    measured without stamps keep their proportions and fill it. Gains would else be those of a cycle nobody measured.
    """
    stamped_s = (draft_s or 0.0) + (verify_s or 0.0)
    return min(1.0, cycle_s / stamped_s) if stamped_s else 1.0


def mean_parts(blocks: Sequence[Parts]) -> Parts | None:
    if not blocks:
        return None
    names = ("draft_s", "verify_s", "extend_s")
    means = {name: _mean([getattr(one, name) for one in blocks]) for name in names}
    plain_s, cycle_s = fmean(one.plain_s for one in blocks), fmean(one.cycle_s for one in blocks)
    return Parts(plain_s=plain_s, cycle_s=cycle_s, **means)


def _mean(values: Sequence[float | None]) -> float | None:
    """None if a single one is missing: launches are alike, so that half an answer is none."""
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def step_s(trial: Trial, mode: str, name: str) -> float | None:
    """Median seconds of a mode's `name` by the runner's clock, warm-up left out."""
    series = trial.record.get("samples", {}).get(f"{mode}_{name}_s")
    if not series:
        return None
    start = int(trial.record.get("warmup", {}).get(mode, {}).get("discarded", 0))
    return float(median(series[start:] or series))


def draft_s(trial: Trial) -> float | None:
    measured = step_s(trial, SPECULATIVE, "draft")
    if measured is not None:
        return measured
    parts = (stamped(trial, "draft_extend_s"), stamped(trial, "draft_steps_s"))
    return None if None in parts else sum(part for part in parts if part is not None)


def stamped(trial: Trial, name: str, mode: str = SPECULATIVE) -> float | None:
    """What the device's own time stamps say, where the runner takes them."""
    value = counts_of(trial, mode).get("marks", {}).get(name)
    return float(value) if isinstance(value, int | float) else None


def counts_of(trial: Trial, mode: str = SPECULATIVE) -> Mapping[str, Any]:
    counts: Mapping[str, Any] = trial.record.get("counts", {}).get(mode, {})
    return counts


def rates_of(heads: Sequence[Trial]) -> tuple[Rate, ...]:
    """Accept rates by position; () where not every launch counts them. Launches that counted the same count once:
    greedy decoding says the same every time, and a repetition is no further cycle.
    """
    distinct: dict[tuple[int, ...], None] = {}
    for trial in heads:
        cycles, accepted = counts_of(trial).get("cycles"), counts_of(trial).get("accepted_by_position")
        if not isinstance(cycles, int) or not isinstance(accepted, list) or not accepted:
            return ()
        if not all(isinstance(count, int) for count in accepted):
            return ()
        distinct[cycles, *accepted] = None
    if len({len(counts) for counts in distinct}) != 1:
        return ()
    total, *by_position = (sum(column) for column in zip(*distinct, strict=True))
    try:
        return rates_by_position(total, by_position)
    except ValueError:  # counts that cannot be: unknown, and no advice rests on them
        return ()
