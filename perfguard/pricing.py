"""What a comparison will cost, before anything runs: from a calibration, else this machine's history, else assumed."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from statistics import median
from typing import Any

from perfguard.calibration import SCHEMA, percent
from perfguard.commands import what_words
from perfguard.policy import Policy, stored_policy
from perfguard.records import Campaign, Workload
from perfguard.stats.design import rules_of
from perfguard.stats.prices import TRIALS_A_BLOCK, LaunchCost, duration, price_lines, price_list
from perfguard.store import Store, TrialCosts
from perfguard.withheld import are_same

# Without history; said aloud wherever they are used.
ASSUMED_S = 5.0
# Sixteen answers of 128 tokens, their warm-up, and the end of the server.
ENGINE_ASSUMED_S = 60.0
# Weights come back from the memory of the host, and the first requests warm up.
WAKE_ASSUMED_S = 30.0
SHARED_LINE = "scope in-process: a block is one launch of four instances, each counted with a quarter of its load"
# An extension says so in words of its own.
TOO_SHORT = "so few blocks cannot report any change at this alpha, nor suspect one: give more --max-blocks"
SAME = "both sides are the same commit with the same settings: this measures the noise, and reports no change"
# Calibrations of this workload looked at, newest first, for one of these parameters.
MOST_CALIBRATIONS = 50
AGES_S = {"day": 86400.0, "hour": 3600.0, "minute": 60.0}


@dataclass(frozen=True, kw_only=True)
class Basis:
    """Where prices come from: what a launch costs, its noise (None: assumed), and the lines that say so."""

    cost: LaunchCost
    noise: float | None
    lines: tuple[str, ...]


def price_lines_of(campaign: Campaign, store: Store, policy: Policy | None = None) -> tuple[str, ...]:
    """The price list of a planned campaign as lines for people; the first says where its numbers come from, the last
    what stands in the way of a report, if anything does.

    `policy` of an extension instead of the campaign's own.
    """
    is_extension = policy is not None
    policy = policy or stored_policy(campaign.policy)
    primaries = [metric.name for metric in campaign.workload.metrics if metric.primary]
    basis = basis_of(campaign, policy, store)
    listed = price_list(policy, max(1, len(primaries)), basis.cost, sd=basis.noise, slow_rate=policy.slow_rate)
    is_short = not is_extension and not rules_of(policy, max(1, len(primaries))).design.looks
    notes = [*([TOO_SHORT] if is_short else []), *([SAME] if are_same(campaign) else [])]
    return (*basis.lines, *price_lines(listed), *notes)


def basis_of(campaign: Campaign, policy: Policy, store: Store) -> Basis:
    """What prices rest on: the newest calibration, else history, else assumptions."""
    found = _basis(campaign, policy, store)
    if not campaign.method.get("pinned_args"):
        return found
    # Head has a second first run, with base's arguments.
    more_s = found.cost.load_s + found.cost.measured_s
    return replace(found, cost=replace(found.cost, setup_s=found.cost.setup_s + more_s))


def _basis(campaign: Campaign, policy: Policy, store: Store) -> Basis:
    primaries = [metric.name for metric in campaign.workload.metrics if metric.primary]
    if campaign.scope == "in-process":
        return _from_shared(campaign, policy, store, primaries)
    if campaign.scope == "resident":
        return _from_residents(campaign, policy, store, primaries)
    found = newest_calibration(campaign, store)
    if found is not None:
        return _from_calibration(found, policy, primaries, datetime.now(UTC))
    # A slice loads in a fraction of the time, and a running server not at all: each is priced by its own kind.
    workload = campaign.workload
    if campaign.scope == "attached":
        workload = replace(workload, ready_timeout_s=0.0)
    history = store.trial_costs(workload.name, campaign.machine, scope=campaign.scope)
    return _from_history(workload, policy, history, primaries)


def newest_calibration(campaign: Campaign, store: Store) -> Mapping[str, Any] | None:
    """The newest valid calibration (perfguard/calibration@1) of this machine, workload and size; None if never."""
    workload = campaign.workload
    for row in store.campaigns(MOST_CALIBRATIONS, workload=workload.name, kind="calibrate"):
        stored = store.campaign(row.id)
        if stored.machine != campaign.machine or not _same_size(stored.workload, workload):
            continue
        document = store.latest_verdict(row.id)
        if document is not None and document.get("schema") == SCHEMA and _covers(document, workload):
            return document
    return None


def launch_noise(campaign: Campaign, metric: str, store: Store) -> float | None:
    """Standard deviation of ln(value) between launches here: from the calibration, else from history, else None."""
    found = newest_calibration(campaign, store)
    for known in found["metrics"] if found is not None else ():
        if known["name"] == metric:
            return float(known["noise"]["sd"])
    return _noise(store.trial_costs(campaign.workload.name, campaign.machine), [metric])


def calibrated_clock_mhz(campaign: Campaign, store: Store) -> int:
    """The SM clock that a calibration of this workload found to hold here; 0 if none has searched."""
    found = newest_calibration(campaign, store)
    clocks = None if found is None else found.get("clocks")
    return 0 if clocks is None else int(clocks["sm_mhz"])


def _same_size(one: Workload, other: Workload) -> bool:
    return (one.params, one.command, one.world_size) == (other.params, other.command, other.world_size)


def _covers(calibration: Mapping[str, Any], workload: Workload) -> bool:
    """Valid, and it says something of every noisy primary metric."""
    known = {metric["name"] for metric in calibration["metrics"]}
    wanted = {metric.name for metric in workload.metrics if metric.primary and not metric.exact}
    return calibration["outcome"] != "INVALID" and wanted <= known


def _from_calibration(found: Mapping[str, Any], policy: Policy, names: Sequence[str], now: datetime) -> Basis:
    noise = max(float(m["noise"]["sd"]) for m in found["metrics"] if m["name"] in names)
    age_s = (now - datetime.fromisoformat(found["created_at"])).total_seconds()
    ended = "" if found["outcome"] == "CALIBRATED" else f", it ended {found['outcome']}"
    lines = [f"calibrated {age(age_s)} ago ({found['id']}{ended}): launch noise {percent(noise)}"]
    advised = float(found["recommended"]["margin"])
    if policy.margin < advised:
        lines.append(f"the margin of {percent(policy.margin)} is small for this machine; advised is {percent(advised)}")
    cost = _cost(policy, len(names), float(found["load_s"]), float(found["measured_s"]))
    return Basis(cost=cost, noise=noise, lines=tuple(lines))


def _from_history(workload: Workload, policy: Policy, history: Sequence[TrialCosts], names: Sequence[str]) -> Basis:
    noise = _noise(history, names)
    if history:
        load_s, measured_s = median(h.load_s for h in history), median(h.measured_s for h in history)
        basis = f"from {sum(h.num_trials for h in history)} trials of this workload on this machine"
    else:
        load_s, measured_s = assumed_s(workload)
        basis = f"assumed, nothing is stored yet: {load_s:g} s to load, {measured_s:g} s measured"
    spread = f"launch noise {percent(noise) if noise else 'unknown'}"
    asked = _words_of(workload)
    never = f"never calibrated here: perfguard calibrate {asked}"
    age_s = float(workload.params.get("age_s") or 0.0)
    aged = (f"each launch is loaded for {age(age_s)} before it is measured (--age)",) if age_s else ()
    # Launches that were not aged tell of the load alone.
    cost = _cost(policy, len(names), load_s if load_s >= age_s else load_s + age_s, measured_s)
    return Basis(cost=cost, noise=noise, lines=(never, f"prices {basis}; {spread}", *aged))


def assumed_s(workload: Workload) -> tuple[float, float]:
    """Load and measured part of a launch that nobody has seen here. An engine takes minutes: a third of what it may."""
    if workload.runner != "engine":
        return ASSUMED_S, ASSUMED_S
    start_s = max(0.0, workload.ready_timeout_s - float(workload.params.get("age_s") or 0.0))
    return start_s / 3, ENGINE_ASSUMED_S


def _from_shared(campaign: Campaign, policy: Policy, store: Store, names: Sequence[str]) -> Basis:
    """Scope in-process: noise of instances, not of launches, which a calibration or other comparisons tell of.

    A block costs a launch; what confirming launches cost beyond that comes with the fresh builds.
    """
    shared = store.trial_costs(campaign.workload.name, campaign.machine, scope=campaign.scope)
    history = store.trial_costs(campaign.workload.name, campaign.machine)
    full = _from_history(campaign.workload, policy, history, names).cost
    load_s = median(h.load_s for h in shared) if shared else full.load_s / TRIALS_A_BLOCK
    measured_s = median(h.measured_s for h in shared) if shared else full.measured_s
    beyond_s = TRIALS_A_BLOCK * (full.load_s + full.measured_s - load_s - measured_s)
    rebuild_s = full.rebuild_s + max(0.0, _fewest_confirming(policy, len(names)) * beyond_s)
    noise = _noise(shared, names)
    basis = f"{sum(h.num_trials for h in shared)} instances of this workload here" if shared else "no history"
    spread = f"noise within a launch {percent(noise) if noise else 'unknown'}"
    lines = (f"prices from {basis}; {spread}", SHARED_LINE)
    cost = LaunchCost(load_s=load_s, measured_s=measured_s, setup_s=full.setup_s, rebuild_s=rebuild_s)
    return Basis(cost=cost, noise=noise, lines=lines)


def _from_residents(campaign: Campaign, policy: Policy, store: Store, names: Sequence[str]) -> Basis:
    """Scope resident: each side loads once, and a launch is a window of a server that wakes."""
    seen = store.trial_costs(campaign.workload.name, campaign.machine, scope=campaign.scope)
    history = store.trial_costs(campaign.workload.name, campaign.machine)
    full = _from_history(campaign.workload, policy, history, names).cost
    load_s = median(h.load_s for h in seen) if seen else WAKE_ASSUMED_S
    measured_s = median(h.measured_s for h in seen) if seen else full.measured_s
    noise = _noise(seen, names)
    basis = f"from {sum(h.num_trials for h in seen)} windows here" if seen else f"assumed, {load_s:g} s to wake"
    spread = f"noise within a launch {percent(noise) if noise else 'unknown'}"
    once = f"scope resident: two servers load once, {duration(full.load_s)} each; a launch below is a window of one"
    setup_s = 2 * (full.load_s + load_s + measured_s)
    cost = LaunchCost(load_s=load_s, measured_s=measured_s, setup_s=setup_s)
    return Basis(cost=cost, noise=noise, lines=(f"prices {basis}; {spread}", once))


def _words_of(workload: Workload) -> str:
    """The options that name the same workload again. A command with several metrics comes from perfguard.toml."""
    if workload.runner != "command" or len(workload.metrics) != 1:
        return f"-w {shlex.quote(workload.name)}"
    about = {"command": workload.command, "read": workload.read, "setup": workload.setup}
    return shlex.join(what_words(about, [asdict(metric) for metric in workload.metrics]))


def _fewest_confirming(policy: Policy, num_primaries: int) -> int:
    """Blocks of the shortest confirmation, which most of them are; 0 where nothing can be confirmed."""
    return min(rules_of(policy, max(1, num_primaries)).design.confirm_looks, default=0)


def _cost(policy: Policy, num_primaries: int, load_s: float, measured_s: float) -> LaunchCost:
    """With the unmeasured first runs: one of each side at the start, and before it confirms one of each fresh build, a
    pair of each side for every block while there are enough of them."""
    launch_s = load_s + measured_s
    num_fresh = 2 * min(policy.confirm_builds, 2 * _fewest_confirming(policy, num_primaries))
    return LaunchCost(load_s=load_s, measured_s=measured_s, setup_s=2 * launch_s, rebuild_s=num_fresh * launch_s)


def _noise(history: Sequence[TrialCosts], names: Sequence[str]) -> float | None:
    """The noisiest primary metric decides when a comparison ends."""
    noisiest = [max((h.noise[name] for name in names if name in h.noise), default=0.0) for h in history]
    return median(noisiest) if any(noisiest) else None


def age(seconds: float) -> str:
    """3 days, 1 hour, 20 minutes; less than a minute."""
    for unit, size_s in AGES_S.items():
        number = int(seconds // size_s)
        if number >= 1:
            return f"{number} {unit}{'s' if number > 1 else ''}"
    return "less than a minute"
