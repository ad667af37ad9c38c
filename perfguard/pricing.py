"""What a comparison will cost, before anything runs: from this machine's history, else from stated assumptions."""

from collections.abc import Sequence
from statistics import median

from perfguard.policy import Policy, stored_policy
from perfguard.records import Campaign
from perfguard.stats.prices import LaunchCost, price_lines, price_list
from perfguard.store import Store, TrialCosts

# Without history; said aloud wherever they are used.
ASSUMED_S = 5.0
ASSUMED_NOISE = 0.01


def price_lines_of(campaign: Campaign, store: Store, policy: Policy | None = None) -> tuple[str, ...]:
    """The price list of a planned campaign as lines for people; the first says where its numbers come from.

    `policy` of an extension instead of the campaign's own.
    """
    history = store.trial_costs(campaign.workload.name, campaign.machine)
    primaries = [m for m in campaign.workload.metrics if m.primary]
    noise = _noise(history, [m.name for m in primaries])
    if history:
        load_s, measured_s = median(h.load_s for h in history), median(h.measured_s for h in history)
        basis = f"from {sum(h.num_trials for h in history)} trials of this workload on this machine"
    else:
        load_s, measured_s = ASSUMED_S, ASSUMED_S
        basis = "assumed, nothing is stored yet: 5 s to load, 5 s measured"
    spread = f"launch noise {100 * (noise or ASSUMED_NOISE):.2g} %{'' if noise else ' (assumed)'}"
    policy = policy or stored_policy(campaign.policy)
    sd = noise or ASSUMED_NOISE
    cost = _cost(policy, load_s, measured_s)
    listed = price_list(policy, max(1, len(primaries)), cost, sd=sd, slow_rate=policy.slow_rate)
    return (f"prices {basis}; {spread}", *price_lines(listed))


def _cost(policy: Policy, load_s: float, measured_s: float) -> LaunchCost:
    """With the unmeasured first runs: one of each side at the start, one of each fresh build before confirmation.

    Most confirmations take three blocks, each with a pair of builds a side while there are enough of them.
    """
    launch_s = load_s + measured_s
    num_fresh = 2 * min(policy.confirm_builds, 6)
    return LaunchCost(load_s=load_s, measured_s=measured_s, setup_s=2 * launch_s, rebuild_s=num_fresh * launch_s)


def _noise(history: Sequence[TrialCosts], names: Sequence[str]) -> float | None:
    """The noisiest primary metric decides when a comparison ends."""
    noisiest = [max((h.noise[name] for name in names if name in h.noise), default=0.0) for h in history]
    return median(noisiest) if any(noisiest) else None
