"""What the verdict must reach, beside what was simulated. Every row is computed; what misses its target says so."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.verdicts.catalogue import FIRST_GROUP, SECOND_GROUP, TRUE_CHANGES, USUAL_SD
from benchmarks.verdicts.cells import NAMED, REPORTS, Cell, LotteryCell, Results, Tally
from benchmarks.verdicts.limits import NORMAL, limits
from benchmarks.verdicts.lotteries import Case
from perfguard.records import Outcome

MOST_FALSE, MOST_FALSE_APART = 0.1, 0.2
QUIET_SD = 0.003
LOTTERY = Case(rate=0.25, size=0.2, sd=QUIET_SD)


@dataclass(frozen=True, kw_only=True)
class Row:
    """`measured` against `bound` (None: nothing was asked); `limit` is the end of the 95 % interval on the bad side."""

    what: str
    bound: float | None
    is_at_most: bool
    measured: float
    limit: float
    unit: str
    note: str = ""

    @property
    def verdict(self) -> str:
        """Missed by what was measured, held by the limit too, or held by the measured number alone."""
        if self.bound is None:
            return ""
        is_within = _within(self.measured, self.bound, self.is_at_most)
        if not is_within:
            return "**missed**"
        return "holds" if _within(self.limit, self.bound, self.is_at_most) else "holds, its limit does not"


def _within(value: float, bound: float, is_at_most: bool) -> bool:
    return value <= bound if is_at_most else value >= bound


def rows(results: Results) -> list[Row]:
    return [
        *_false_rows(results),
        *_cost_rows(results),
        *_noisy_rows(results),
        *_lottery_rows(results),
        *_speed_rows(results),
    ]


def _false_rows(results: Results) -> list[Row]:
    apart = [name for name in SECOND_GROUP if name not in TRUE_CHANGES]
    groups = ((FIRST_GROUP, MOST_FALSE, "first group"), (apart, MOST_FALSE_APART, "second group"))
    return [_worst(results, list(names), bound, group) for names, bound, group in groups]


def _worst(results: Results, names: Sequence[str], bound: float, group: str) -> Row:
    """The scenario with most false reports; of equals the one simulated least."""
    tallies = {name: results.ours[_cell(name, 0.0, USUAL_SD, 2).key] for name in names}
    name = max(names, key=lambda name: (tallies[name].percent(*REPORTS), -tallies[name].num))
    what = f"false reports, two primaries, every scenario of the {group}"
    note = f"worst: {name}" if tallies[name].count(*REPORTS) else "none in any"
    return _rate(what, tallies[name], REPORTS, bound, is_at_most=True, note=note)


def _cost_rows(results: Results) -> list[Row]:
    cases = [
        (0.03, USUAL_SD, (Outcome.REGRESSION,), 26.0),
        (0.05, USUAL_SD, (Outcome.REGRESSION,), 21.0),
        (0.0, USUAL_SD, (Outcome.EQUIVALENT,), 14.5),
        (0.03, QUIET_SD, (Outcome.REGRESSION,), 20.0),
        (0.0, QUIET_SD, (Outcome.EQUIVALENT,), 8.0),
    ]
    found = []
    for effect, sd, outcomes, most_trials in cases:
        for primaries, least, most in ((1, 99.0, most_trials), (2, None, None)):
            tally = results.ours[_cell("iid", effect, sd, primaries).key]
            what = f"{_truth(effect)} at sd {100 * sd:g} %, {primaries} {'primary' if primaries == 1 else 'primaries'}"
            found.append(_rate(f"{what}: {outcomes[0]}", tally, outcomes, least, is_at_most=False))
            found.append(_trials(f"{what}: mean trials", tally, most))
    return found


def _noisy_rows(results: Results) -> list[Row]:
    cases = [("sticky clocks", 0.05, USUAL_SD), ("outliers", 0.05, USUAL_SD), ("iid", 0.10, 0.03)]
    return [
        _rate(
            f"{_truth(effect)}, {scenario}, sd {100 * sd:g} %: REGRESSION",
            results.ours[_cell(scenario, effect, sd, 1).key],
            (Outcome.REGRESSION,),
            90.0,
            is_at_most=False,
        )
        for scenario, effect, sd in cases
    ]


def _lottery_rows(results: Results) -> list[Row]:
    tally = results.ours[LotteryCell(case=LOTTERY, is_held=True).key]
    share = f"{100 * LOTTERY.rate:g} % of head's launches {100 * LOTTERY.size:g} % slow, sd {100 * LOTTERY.sd:g} %"
    return [
        _rate(f"{share}, 40 trials: EQUIVALENT", tally, (Outcome.EQUIVALENT,), 5.0, is_at_most=True),
        _rate(f"{share}, 40 trials: modes or a change named", tally, (NAMED,), 90.0, is_at_most=False),
    ]


def _speed_rows(results: Results) -> list[Row]:
    """Measured where the benchmark ran, on one core; no interval."""
    bounds = {
        "comparisons_s": ("1,000 simulated comparisons, slowest case", 2.0, "s"),
        "order_test_ms": ("order test of 10 blocks", 5.0, "ms"),
        "order_test_mb": ("its memory", 100.0, "MB"),
    }
    return [
        Row(what=what, bound=bound, is_at_most=True, measured=speed, limit=speed, unit=unit)
        for key, (what, bound, unit) in bounds.items()
        if (speed := results.speed.get(key)) is not None
    ]


def _cell(scenario: str, effect: float, sd: float, primaries: int) -> Cell:
    return Cell(scenario=scenario, effect=effect, sd=sd, primaries=primaries)


def _truth(effect: float) -> str:
    return "no change" if effect == 0 else f"{100 * effect:g} % slower"


def _rate(
    what: str, tally: Tally, outcomes: Sequence[str], bound: float | None, *, is_at_most: bool, note: str = ""
) -> Row:
    low, high = limits(tally, *outcomes)
    return Row(
        what=what,
        bound=bound,
        is_at_most=is_at_most,
        measured=tally.percent(*outcomes),
        limit=high if is_at_most else low,
        unit="%",
        note=note,
    )


def _trials(what: str, tally: Tally, bound: float | None) -> Row:
    mean, error = tally.mean_trials, tally.trials_error
    return Row(what=what, bound=bound, is_at_most=True, measured=mean, limit=mean + NORMAL * error, unit="trials")


def targets_table(found: Sequence[Row]) -> list[str]:
    lines = ["| target | wanted | simulated | 95 % limit | |", "|---|---|---|---|---|"]
    for row in found:
        what = f"{row.what} ({row.note})" if row.note else row.what
        sign = "≤" if row.is_at_most else "≥"
        wanted = "not asked" if row.bound is None else f"{sign} {_shown(row.bound, row.unit)}"
        ends = f"{_shown(row.measured, row.unit)} | {_shown(row.limit, row.unit)} | {row.verdict}"
        lines.append(f"| {what} | {wanted} | {ends} |")
    return lines


def _shown(value: float, unit: str) -> str:
    return f"{value:.4g} {unit}"
