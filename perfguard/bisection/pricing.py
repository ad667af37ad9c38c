"""What a bisect will cost, before it runs: lines for people, from what launches took before."""

from math import ceil, log1p, log2

from perfguard.bisection.plan import PlannedBisect
from perfguard.policy import stored_policy
from perfguard.pricing import basis_of
from perfguard.report.units import counted, duration, share
from perfguard.stats.culprit_prices import CONFIRMING, phantom_trials, search_trials
from perfguard.store import Store

# Sizes of a change, in margins.
SIZES = (1.5, 2.5, 5.0)
# Unmeasured first runs of a confirmation: one of each of its builds.
CONFIRMING_BUILDS = 14
# Launches of the shortest search, a phantom.
LEAST = 6


def price_lines(planned: PlannedBisect, store: Store) -> tuple[str, ...]:
    """How many launches, builds and minutes a phantom and changes of some sizes take."""
    policy = stored_policy(planned.campaign.policy)
    basis = basis_of(planned.campaign, policy, store)
    num, sd = len(planned.search.candidates), planned.search.launch_sd
    about = f"{counted(planned.search.num_commits, 'commit')} between GOOD and BAD, {num} of them with other code"
    if not num:
        return (f"{about}: nothing to measure",)
    launch_s = basis.cost.load_s + basis.cost.measured_s
    trials = phantom_trials(log1p(policy.margin), sd)
    lines = [about, *basis.lines, _line("nothing changed", trials, 2, launch_s, "")]
    for size in SIZES:
        change = size * policy.margin
        trials = search_trials(num, log1p(change), sd)
        builds = min(num, ceil(log2(num)) + 3) + 1
        confirmed = f", {CONFIRMING} more to confirm with {CONFIRMING_BUILDS} builds"
        total_s = _seconds(trials + CONFIRMING, builds + CONFIRMING_BUILDS, launch_s)
        lines.append(_line(f"a change of {share(change)}", trials, builds, launch_s, confirmed, total_s))
    if policy.budget_s and _seconds(LEAST, 2, launch_s) > policy.budget_s:
        lines.append(f"this budget ({duration(policy.budget_s)}) cannot reach any answer")
    return tuple(lines)


def _line(what: str, trials: int, builds: int, launch_s: float, more: str, total_s: float | None = None) -> str:
    seconds = _seconds(trials, builds, launch_s) if total_s is None else total_s
    return f"{what}: about {trials} launches and {builds} builds{more}, {duration(seconds)}"


def _seconds(trials: int, builds: int, launch_s: float) -> float:
    """Every build runs once unmeasured."""
    return (trials + builds) * launch_s
