"""What more blocks would buy: chance of a verdict, blocks still needed, smallest slowdown found. Normal theory.

These are forecasts for stopping early and for price lists; no change is ever declared by them. Units: logs.
"""

from collections.abc import Mapping
from math import ceil, inf, isfinite, sqrt

from perfguard.stats.design import Rules
from perfguard.stats.effects import Estimate
from perfguard.stats.equivalence import t_quantile, z_quantile

# A smallest detectable slowdown is found in nine cases of ten.
MISS = 0.1


def chance_of_verdict(
    rules: Rules, estimate: Estimate, num_blocks: int, *, every: Estimate | None = None, num_earlier: int = 0
) -> float:
    """Chance that stage one ends EQUIVALENT or in a change at max_blocks, if nothing is known but the estimate.

    In an extension `every` is the estimate that counts the `num_earlier` suspicion blocks before it too. The final
    estimate is taken as N(effect, se^2 (1 - q/q_max)), its standard error as se sqrt(q/q_max).
    """
    most = num_earlier + rules.max_blocks
    equivalent = _chance_of_equivalence(rules, every or estimate, num_earlier + num_blocks, most)
    return equivalent + _chance_of_change(rules, estimate, num_blocks)


def _chance_of_equivalence(rules: Rules, estimate: Estimate, num_blocks: int, most_blocks: int) -> float:
    final_se, sd = _at_the_end(estimate, num_blocks / most_blocks)
    inside = rules.margin - t_quantile(rules.tost_alpha, 3 * most_blocks - 1) * final_se
    return max(0.0, _below(inside, estimate.effect, sd) - _below(-inside, estimate.effect, sd))


def _chance_of_change(rules: Rules, estimate: Estimate, num_blocks: int) -> float:
    """In either direction."""
    final_se, sd = _at_the_end(estimate, num_blocks / rules.max_blocks)
    beyond = _limit_of_change(rules, final_se, _last_alpha(rules.design.looks))
    return _below(-beyond, estimate.effect, sd) + 1.0 - _below(beyond, estimate.effect, sd)


def _at_the_end(estimate: Estimate, left: float) -> tuple[float, float]:
    """Standard error of the final estimate, and its standard deviation around the one so far."""
    return estimate.se * sqrt(left), estimate.se * sqrt(1.0 - left)


def chance_of_confirmation(rules: Rules, estimate: Estimate, num_blocks: int, direction: int) -> float:
    """The same for stage two, in the direction of the suspicion only."""
    final_se, sd = _at_the_end(estimate, num_blocks / rules.max_confirm_blocks)
    beyond = _limit_of_change(rules, final_se, _last_alpha(rules.design.confirm_looks))
    return 1.0 - _below(beyond, direction * estimate.effect, sd)


def _limit_of_change(rules: Rules, se: float, alpha: float) -> float:
    """The smallest estimate that is both beyond the margin and beyond luck."""
    return max(rules.margin, rules.floor + z_quantile(alpha) * se) if alpha > 0 else inf


def _last_alpha(looks: Mapping[int, float]) -> float:
    return looks[max(looks)] if looks else 0.0


def _below(limit: float, mean: float, sd: float) -> float:
    if sd == 0:
        return float(limit >= mean)
    from scipy import special  # here: most commands need no forecast, and it takes 0.2 s

    return float(special.ndtr((limit - mean) / sd))


def blocks_still_needed(rules: Rules, estimate: Estimate, num_blocks: int) -> int | None:
    """Further blocks until a verdict if the estimate is right; None where no number would do.

    Equivalence needs (t s / (margin - |effect|))^2 blocks, a change (z s / (|effect| - floor))^2 and then its
    confirmation.
    """
    size = abs(estimate.effect)
    if size <= rules.margin:
        distance, quantile, extra = rules.margin - size, t_quantile(rules.tost_alpha, 3 * rules.max_blocks - 1), 0
    elif rules.design.looks:
        distance, quantile = size - rules.floor, z_quantile(_last_alpha(rules.design.looks))
        extra = min(rules.design.confirm_looks) if rules.is_confirmed else 0
    else:
        return None
    total = (quantile * estimate.sd / distance) ** 2 if distance > 0 else inf
    return max(1, ceil(total) - num_blocks) + extra if isfinite(total) else None


def smallest_detectable(rules: Rules, sd: float, num_blocks: int) -> float | None:
    """Slowdown (log) that the last stage-one look within so many blocks tells from luck in nine cases of ten; None
    before the first look. `sd` is the standard deviation of one trial in logs. Says what the noise allows: to be
    accused, a slowdown must also be beyond the margin.
    """
    reached = [look for look in rules.design.looks if look <= num_blocks]
    if not reached:
        return None
    return rules.floor + _beyond_luck(sd, num_blocks, rules.design.looks[max(reached)], MISS)


def smallest_reported(rules: Rules, sd: float, num_blocks: int) -> float | None:
    """Slowdown (log) reported in nine cases of ten within so many blocks of both stages; None if they do not suffice.

    Both stages must find it beyond luck and beyond the margin, each missing one case in twenty. Optimistic where only
    the first looks fit (5 blocks: eight cases of ten, simulated), close from 8 blocks on.
    """
    if not rules.design.looks:
        return None
    first, first_confirm = min(rules.design.looks), min(rules.design.confirm_looks)
    if num_blocks < first + first_confirm:
        return None
    confirm = min(rules.max_confirm_blocks, max(first_confirm, num_blocks // 2))
    one = min(rules.max_blocks, max(first, num_blocks - confirm))
    stages = ((one, rules.design.looks), (confirm, rules.design.confirm_looks))
    return max(_found_in(rules, sd, blocks, looks) for blocks, looks in stages)


def _found_in(rules: Rules, sd: float, num_blocks: int, looks: Mapping[int, float]) -> float:
    alpha = looks[max(look for look in looks if look <= num_blocks)]
    beyond_margin = rules.margin + t_quantile(MISS / 2, 3 * num_blocks - 1) * sd / sqrt(num_blocks)
    return max(beyond_margin, rules.floor + _beyond_luck(sd, num_blocks, alpha, MISS / 2))


def _beyond_luck(sd: float, num_blocks: int, alpha: float, miss: float) -> float:
    """(t_alpha + t_miss) sd / sqrt(q) with 3 q - 1 degrees of freedom.

    t rather than z comes close to the exact test, which needs clean separation at the first look.
    """
    df = 3 * num_blocks - 1
    return (t_quantile(alpha, df) + t_quantile(miss, df)) * sd / sqrt(num_blocks)
