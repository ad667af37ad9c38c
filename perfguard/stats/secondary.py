"""Metrics that do not steer the outcome: described always, tested together at planned looks only.

A secondary metric can end SUSPECT or EQUIVALENT, never REGRESSION or IMPROVEMENT: it is not confirmed.
"""

from collections.abc import Sequence

from perfguard.records import BlockValues, Metric, MetricResult, Outcome, Reason
from perfguard.stats.design import Rules
from perfguard.stats.effects import series, weighted_estimate
from perfguard.stats.equivalence import is_equivalent
from perfguard.stats.exact import changed_reason, metric_equality
from perfguard.stats.multiplicity import adjusted_p
from perfguard.stats.results import describe
from perfguard.stats.stage_one import ROUNDING


def secondary_results(
    rules: Rules, metrics: Sequence[Metric], blocks: Sequence[BlockValues], seed: int, *, is_done: bool
) -> tuple[MetricResult, ...]:
    """One result for each metric that is not primary, from the blocks of stage one that all carry it."""
    secondary = [metric for metric in metrics if not metric.primary]
    covered = [m for m in secondary if blocks and all(m.name in block.values for block in blocks)]
    exact = {m.name: r for m in covered if m.exact and (r := _exact_result(rules, m, blocks, seed)) is not None}
    tested = [m for m in covered if m.name not in exact and _has_logs(m, blocks)]
    results = exact | {r.metric.name: r for r in _tested_results(rules, tested, blocks, seed, is_done=is_done)}
    return tuple(results.get(m.name, MetricResult(metric=m, outcome=Outcome.INCONCLUSIVE)) for m in secondary)


def _exact_result(rules: Rules, metric: Metric, blocks: Sequence[BlockValues], seed: int) -> MetricResult | None:
    """None where launches of one side differ: the metric is then an ordinary one."""
    equality = metric_equality(metric, blocks)
    if equality == "unstable":
        return None
    found = (changed_reason(metric, blocks),) if equality == "changed" else ()
    if not _has_logs(metric, blocks):
        outcome = Outcome.SUSPECT if found else Outcome.EQUIVALENT
        return MetricResult(metric=metric, outcome=outcome, reasons=found)
    is_small = abs(weighted_estimate(series(metric, blocks)).effect) <= rules.margin
    outcome = Outcome.EQUIVALENT if is_small else Outcome.SUSPECT
    return describe(rules, metric, blocks, seed, outcome=outcome, reasons=found)


def _has_logs(metric: Metric, blocks: Sequence[BlockValues]) -> bool:
    """A count may be zero, and then there is no ratio."""
    return all(value > 0 for block in blocks for value in block.values[metric.name])


def _tested_results(
    rules: Rules, metrics: Sequence[Metric], blocks: Sequence[BlockValues], seed: int, *, is_done: bool
) -> list[MetricResult]:
    look = max((q for q in rules.design.looks if q <= len(blocks)), default=0) if is_done else 0
    tested = [series(metric, blocks[:look]) for metric in metrics] if look else []
    found = adjusted_p(tested, seed) if look else ((1.0, 0),) * len(metrics)
    return [
        _tested_result(rules, metric, blocks, seed, p=p, look=look, num_together=len(metrics))
        for metric, (p, _) in zip(metrics, found, strict=True)
    ]


def _tested_result(
    rules: Rules, metric: Metric, blocks: Sequence[BlockValues], seed: int, *, p: float, look: int, num_together: int
) -> MetricResult:
    over = series(metric, blocks)
    is_beyond_margin = abs(weighted_estimate(over).effect) >= rules.margin
    if is_beyond_margin and p <= 2 * rules.design.looks.get(look, 0.0) * (1 + ROUNDING):
        text = f"p = {p:.2g} after {look} blocks among {num_together} secondary metrics together, not confirmed"
        reason = Reason(code="SECONDARY", text=text)
        return describe(rules, metric, blocks, seed, outcome=Outcome.SUSPECT, reasons=(reason,))
    is_same = len(blocks) >= rules.min_blocks and is_equivalent(over, rules.margin, rules.tost_alpha)
    return describe(rules, metric, blocks, seed, outcome=Outcome.EQUIVALENT if is_same else Outcome.INCONCLUSIVE)
