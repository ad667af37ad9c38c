"""Is the slowdown within the margin? Two one-sided t tests on the weighted and on the unweighted estimate.

A wrong EQUIVALENT is merely costly, so this may rest on a t distribution; a change never does. Margins are logs.
"""

from perfguard.stats.effects import Estimate, Series, estimate, weighted_estimate

MIN_BLOCKS = 2


def t_quantile(alpha: float, df: int) -> float:
    """Upper quantile of the t distribution: P(T > t) = alpha."""
    from scipy import special  # here: most commands need no quantile, and it takes 0.2 s

    return float(special.stdtrit(df, 1.0 - alpha))


def z_quantile(alpha: float) -> float:
    """Upper quantile of the standard normal distribution."""
    from scipy import special

    return float(-special.ndtri(alpha))


def largest_slowdown(estimate: Estimate, alpha: float) -> float:
    """|effect| + t se: the largest change in either direction not excluded at alpha, one-sided."""
    return abs(estimate.effect) + t_quantile(alpha, estimate.df) * estimate.se


def is_equivalent(series: Series, margin: float, alpha: float) -> bool:
    """Both bounds lie within the margin (log).

    The unweighted bound keeps rare slow trials in sight, which the weights would bury. Never from one block: its spread
    is that of two launches a side.
    """
    if len(series.effects) < MIN_BLOCKS:
        return False
    bounds = (largest_slowdown(e, alpha) for e in (weighted_estimate(series), estimate(series)))
    return all(bound <= margin for bound in bounds)
