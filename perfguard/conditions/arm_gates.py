"""Were both arms measured under the same limits? Compares what the machine did to each arm. Pure.

A limit that meets both arms alike is part of the conditions and voids nothing. One that meets one arm only is named,
with its size; what it does to the verdict is in `effects.py`.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

from perfguard.conditions.events import KINDS, event_share
from perfguard.conditions.findings import Finding, finding
from perfguard.conditions.host_gates import PRESSURE, pressure_share, steal_share
from perfguard.conditions.readings import GpuRecord, Recorded
from perfguard.gate_policy import GatePolicy
from perfguard.records import Side
from perfguard.stats.rank_test import rank_sum_p

# Fewer trials an arm than two blocks give cannot reach `one_sided_alpha`.
MIN_TRIALS = 4
SIDES: tuple[Side, Side] = ("base", "head")
# A card at its limit in both arms, a little more in one of them, is not limited in one arm: twice as much is asked.
TIMES = 2.0


def counted(trials: Sequence[Recorded]) -> list[Recorded]:
    """Measured trials that count, with the cards that they used."""
    found = [one for one in trials if one.trial.stage > 0 and one.trial.status == "ok"]
    return [replace(one, gpus=tuple(gpu for gpu in one.gpus if gpu.is_used)) for one in found]


def arm_findings(gates: GatePolicy, trials: Sequence[Recorded]) -> list[Finding]:
    """`trials` of the campaign with their conditions read; only those that count are compared."""
    seen = counted(trials)
    clock = _clock_loss(seen)
    found = [*_one_sided_limits(gates, seen, clock), *_one_sided_clocks(gates, seen), *_one_sided_host(gates, seen)]
    return [*found, *_start_temperature(gates, seen)]


def _one_sided_limits(gates: GatePolicy, seen: Sequence[Recorded], clock: Mapping[Side, float]) -> Iterator[Finding]:
    """The card that was longest at a limit speaks for a trial: ranks wait for the slowest."""
    words = {"thermal": "at a thermal limit", "power_cap": "at the power limit", "power_brake": "under a power brake"}
    for kind in KINDS:
        shares = _by_side(seen, partial(_worst_share, kind))
        side = _higher(gates, shares, gates.event_share, times=TIMES)
        if side is not None:
            text = f"{words[kind]} for {_percents(shares)} of the loaded time: {side} only"
            yield _one_sided(gates, kind, text, side, clock.get(side))


def _one_sided_clocks(gates: GatePolicy, seen: Sequence[Recorded]) -> Iterator[Finding]:
    for name, words in (("sm_clock_mhz", "SM clock"), ("memory_clock_mhz", "memory clock")):
        logs = _by_side(seen, partial(_slowest, name))
        side = _higher(gates, logs, gates.clock_differs_share)
        if side is not None:
            base, head = (math.exp(-fmean(logs[s])) for s in SIDES)
            text = f"{words} under load {base:.0f} MHz in base, {head:.0f} MHz in head"
            lost = abs(fmean(logs["head"]) - fmean(logs["base"]))
            yield _one_sided(gates, "clock" if name == "sm_clock_mhz" else "memory_clock", text, side, lost)


def _one_sided_host(gates: GatePolicy, seen: Sequence[Recorded]) -> Iterator[Finding]:
    """What the hypervisor takes is nobody's code. Waiting may be the arm's own doing, so it is only said."""
    stolen = _by_side(seen, lambda one: steal_share(one.conditions))
    side = _higher(gates, stolen, gates.steal_share)
    if side is not None:
        lost = abs(fmean(stolen["head"]) - fmean(stolen["base"]))
        text = f"the hypervisor took {_percents(stolen)} of processor time"
        yield _one_sided(gates, "steal", text, side, lost)
    for what, words in PRESSURE.items():
        waited = _by_side(seen, partial(_waited, what))
        side = _higher(gates, waited, gates.pressure_share, times=TIMES)
        if side is not None:
            text = f"processes waited for {words} for {_percents(waited)} of the time: more in {side}"
            yield replace(finding(gates, "pressure", text, code="ONE_SIDED_PRESSURE"), limited=side)


def _start_temperature(gates: GatePolicy, seen: Sequence[Recorded]) -> Iterator[Finding]:
    starts = _by_side(seen, lambda one: _largest(gpu.number("before", "temperature_c") for gpu in one.gpus))
    side = _higher(gates, starts, gates.start_temperature_c)
    if side is not None:
        base, head = (fmean(starts[s]) for s in SIDES)
        text = f"trials began at {base:.0f} °C in base and {head:.0f} °C in head: {side} hotter"
        yield replace(finding(gates, "start_temperature", text), limited=side)


def _one_sided(gates: GatePolicy, kind: str, text: str, side: Side, explains: float | None) -> Finding:
    said = finding(gates, "one_sided", text, code=f"ONE_SIDED_{kind.upper()}")
    return replace(said, limited=side, explains=explains)


def _clock_loss(seen: Sequence[Recorded]) -> dict[Side, float]:
    """By side: the log share of SM clock it lost against the other one, where both are known; at least 0."""
    logs = _by_side(seen, partial(_slowest, "sm_clock_mhz"))
    if not all(logs[side] for side in SIDES):
        return {}
    lost = fmean(logs["head"]) - fmean(logs["base"])
    return {"head": max(0.0, lost), "base": max(0.0, -lost)}


def _worst_share(kind: str, one: Recorded) -> float | None:
    return _largest(event_share(gpu, kind) for gpu in one.gpus)


def _slowest(clock: str, one: Recorded) -> float | None:
    """Ranks wait for the slowest card."""
    return _largest(_slowness(gpu, clock) for gpu in one.gpus)


def _waited(what: str, one: Recorded) -> float | None:
    return pressure_share(one.conditions, what)


def _slowness(gpu: GpuRecord, name: str) -> float | None:
    mean = gpu.loaded_mean(name)
    return -math.log(mean) if mean else None


def _largest(values: Iterator[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _by_side(seen: Sequence[Recorded], read: Callable[[Recorded], float | None]) -> dict[Side, list[float]]:
    read_out = [(one.trial.side, read(one)) for one in seen]
    return {side: [value for s, value in read_out if s == side and value is not None] for side in SIDES}


def _higher(gates: GatePolicy, values: Mapping[Side, Sequence[float]], least: float, times: float = 1.0) -> Side | None:
    """The side that is higher by more than `least`, at least `times` the other, and beyond luck; else None."""
    base, head = (values[side] for side in SIDES)
    if min(len(base), len(head)) < MIN_TRIALS:
        return None
    low, high = sorted((fmean(base), fmean(head)))
    is_apart = high - low > least and (times == 1.0 or high >= times * low)
    if not is_apart or rank_sum_p(base, head) > gates.one_sided_alpha:
        return None
    return "head" if fmean(head) > fmean(base) else "base"


def _percents(shares: Mapping[Side, Sequence[float]]) -> str:
    base, head = (100 * fmean(shares[side]) for side in SIDES)
    return f"{base:.0f} % (base) and {head:.0f} % (head)"
