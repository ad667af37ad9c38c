"""What a comparison will cost, before anything runs: from this machine's history, else from stated assumptions."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from perfguard.policy import Policy
from perfguard.records import Campaign
from perfguard.stats.design import rules_of
from perfguard.stats.prices import LaunchCost, price_lines, price_list
from perfguard.store import Store, TrialCosts

# Without history; said aloud wherever they are used.
ASSUMED = LaunchCost(load_s=5.0, measured_s=5.0)
ASSUMED_NOISE = 0.01
SHARED_LINE = "scope in-process: a block is one launch of four instances, each counted with a quarter of its load"


def price_lines_of(campaign: Campaign, store: Store) -> tuple[str, ...]:
    """The price list of a planned campaign as lines for people; the first says where its numbers come from."""
    history = store.trial_costs(campaign.workload.name, campaign.machine)
    shared = store.trial_costs(campaign.workload.name, campaign.machine, scope="in-process")
    is_shared = campaign.scope == "in-process"
    used = shared if is_shared else history
    primaries = [m for m in campaign.workload.metrics if m.primary]
    noise = _noise(used, [m.name for m in primaries])
    if used or history:
        basis = f"from {sum(h.num_trials for h in used or history)} trials of this workload on this machine"
    else:
        basis = "assumed, nothing is stored yet: 5 s to load, 5 s measured"
    what = "instance noise within a launch" if is_shared else "launch noise"
    spread = f"{what} {100 * (noise or ASSUMED_NOISE):.2g} %{'' if noise else ' (assumed)'}"
    policy = Policy(**campaign.policy)
    cost = _shared_cost(_cost(history), shared, policy, max(1, len(primaries))) if is_shared else _cost(history)
    listed = price_list(policy, max(1, len(primaries)), cost, sd=noise or ASSUMED_NOISE, slow_rate=policy.slow_rate)
    scope = (SHARED_LINE,) if is_shared else ()
    return (f"prices {basis}; {spread}", *scope, *price_lines(listed))


def _cost(history: Sequence[TrialCosts]) -> LaunchCost:
    if not history:
        return ASSUMED
    return LaunchCost(load_s=median(h.load_s for h in history), measured_s=median(h.measured_s for h in history))


def _shared_cost(full: LaunchCost, shared: Sequence[TrialCosts], policy: Policy, num_primaries: int) -> LaunchCost:
    """A quarter of a launch that holds a block; what confirming launches cost beyond that comes with the rebuild."""
    quarter = _cost(shared) if shared else LaunchCost(load_s=full.load_s / 4, measured_s=full.measured_s)
    beyond_s = 4 * (full.load_s + full.measured_s - quarter.load_s - quarter.measured_s)
    num_confirming = min(rules_of(policy, num_primaries).design.confirm_looks, default=0)
    return replace(quarter, rebuild_s=max(0.0, num_confirming * beyond_s))


def _noise(history: Sequence[TrialCosts], names: Sequence[str]) -> float | None:
    """The noisiest primary metric decides when a comparison ends."""
    noisiest = [max((h.noise[name] for name in names if name in h.noise), default=0.0) for h in history]
    return median(noisiest) if any(noisiest) else None
