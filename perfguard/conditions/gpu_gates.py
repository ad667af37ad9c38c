"""Gates on one card in one trial: its limits, link, errors and company. Pure, and blind to what the trial measured."""

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

from perfguard.conditions.events import event_share
from perfguard.conditions.findings import Finding, finding
from perfguard.conditions.readings import GpuRecord, When, is_lost, number, unknowns
from perfguard.gate_policy import GatePolicy

MIB = 2.0**20
WHEN: tuple[When, When] = ("before", "after")
EVENTS = {
    "thermal": "was at a thermal limit",
    "power_cap": "was at its power limit",
    "power_brake": "was under a power brake from outside (a supply failed, or the firmware counts supplies)",
}
# A counter of utilisation covers up to a second, and one launch may follow another within a fifth of it. In this
# window, counted from the reading before a launch, that is over, and a process that has to import torch not there yet.
LAG_S = (0.9, 1.2)
# Counters whose increments are faults; what counts as one, and how many.
FAULTS = {
    "ecc_uncorrected_count": "uncorrected memory errors",
    "remapped_rows_uncorrected": "memory rows replaced after uncorrected errors",
    "remapped_rows_corrected": "memory rows replaced after corrected errors",
}
REPEATED = {
    "pcie_replay_count": "repeated PCIe packets",
    "nvlink_replay_errors": "repeated NVLink packets",
    "nvlink_recovery_errors": "recoveries of NVLink",
    "nvlink_crc_errors": "damaged NVLink packets",
}


def gpu_findings(
    gates: GatePolicy,
    gpu: GpuRecord,
    *,
    earlier: Sequence[GpuRecord],
    link: Mapping[str, float],
    target_mhz: float | None,
) -> Iterator[Finding]:
    """`earlier`: the same card in trials before this one. `link`: its best generation and width under load, known
    from earlier campaigns. `target_mhz`: the SM clock that was locked, None where clocks are only observed.
    """
    yield from _limits(gates, gpu)
    yield from _clock(gates, gpu, target_mhz)
    yield from _link(gates, gpu, earlier, link)
    yield from _errors(gates, gpu)
    yield from _health(gates, gpu)
    yield from _company(gates, gpu, earlier)


def name_of(gpu: GpuRecord) -> str:
    return f"GPU {gpu.uuid.removeprefix('GPU-')[:8]}"


def _limits(gates: GatePolicy, gpu: GpuRecord) -> Iterator[Finding]:
    for kind, words in EVENTS.items():
        share = event_share(gpu, kind)
        if share is not None and share > gates.event_share:
            yield finding(gates, kind, f"{name_of(gpu)} {words} for {100 * share:.0f} % of the loaded time")


def _clock(gates: GatePolicy, gpu: GpuRecord, target_mhz: float | None) -> Iterator[Finding]:
    mean_mhz = gpu.loaded_mean("sm_clock_mhz")
    if target_mhz and mean_mhz is not None and mean_mhz < target_mhz * (1 - gates.clock_share):
        text = f"{name_of(gpu)} ran at {mean_mhz:.0f} MHz under load, locked were {target_mhz:.0f} MHz: lock not held"
        yield finding(gates, "clock", text, code="LOCK_NOT_HELD")


def _link(
    gates: GatePolicy, gpu: GpuRecord, earlier: Sequence[GpuRecord], known: Mapping[str, float]
) -> Iterator[Finding]:
    """Against earlier trials, else against earlier campaigns; the card's own maximum is no measure of a slot."""
    for part, value in gpu.link.items():
        best = max((one.link[part] for one in earlier if part in one.link), default=None)
        words = f"{name_of(gpu)}: PCIe {_link_words(part, value)} under load"
        if best is not None and value < best:
            yield finding(gates, "link", f"{words}, earlier in this campaign it was {_link_words(part, best)}")
        elif value < known.get(part, 0.0):
            text = f"{words}, on this machine it was {_link_words(part, known[part])}"
            yield finding(gates, "link_history", text)
        elif best is None and part == "generation" and value == 1 and (gpu.either("pcie_generation_max") or 1) > 2:
            yield Finding(gate="link", action="warn", code="LINK", text=f"{words}, and nothing is known of better days")


def _link_words(part: str, value: float) -> str:
    return f"x{value:g}" if part == "width" else f"generation {value:g}"


def _errors(gates: GatePolicy, gpu: GpuRecord) -> Iterator[Finding]:
    for gate, counters, least in (("memory_errors", FAULTS, 1.0), ("replays", REPEATED, gates.replay_count)):
        for name, words in counters.items():
            count = gpu.increment(name)
            if count is not None and count >= max(1.0, least):
                yield finding(gates, gate, f"{name_of(gpu)}: {count:.0f} {words} during the trial")


def _health(gates: GatePolicy, gpu: GpuRecord) -> Iterator[Finding]:
    if is_lost(gpu):
        why = next(why for _, _, why in unknowns(gpu) if "lost" in why.lower() or "bus" in why.lower())
        text = f"{name_of(gpu)} is lost ({why}): the hardware failed, nothing can be said of the code"
        yield finding(gates, "gpu_health", text, code="GPU_LOST")
    for name, words in (("remap_is_pending", "waits for"), ("remap_has_failed", "failed at")):
        if any(gpu.at(when, name) in (1, True) for when in WHEN):
            text = f"{name_of(gpu)} {words} a remap of memory rows: not to be trusted before a reset"
            yield finding(gates, "gpu_health", text)


def _company(gates: GatePolicy, gpu: GpuRecord, earlier: Sequence[GpuRecord]) -> Iterator[Finding]:
    """Before the launch nothing of ours is on the card, and after it nothing any more."""
    for when in WHEN:
        if others := _processes(gpu.at(when, "processes"), gates):
            text = f"{name_of(gpu)}: {_listed(others)} there {when} the launch"
            yield finding(gates, "foreign", text, code="FOREIGN_PROCESS")
            return
    busy = gpu.number("before", "utilisation_percent")
    memory = (gpu.number("before", "memory_used_bytes") or 0.0) / MIB
    if busy is None or busy < gates.utilisation_percent or _is_lag(gates, gpu):
        if memory >= gates.foreign_memory_mib:
            text = f"{name_of(gpu)}: {memory:.0f} MiB in use before the launch, by nobody that can be seen"
            yield finding(gates, "utilisation", text, code="FOREIGN_MEMORY")
        return
    power, idle = gpu.number("before", "power_average_w"), _usual_power(earlier)
    evidence = [f"{memory:.0f} MiB in use"] * (memory >= gates.foreign_memory_mib)
    if power is not None and power > idle + gates.foreign_power_w:
        evidence.append(f"{power:.0f} W where {idle:.0f} W are usual")
    shown = " and ".join(evidence) or "with nothing to show for it"
    text = f"{name_of(gpu)}: {busy:.0f} % busy before the launch, {shown}"
    if evidence:
        yield finding(gates, "foreign", f"{text}: somebody who cannot be seen computes there", code="FOREIGN_LOAD")
    else:
        yield finding(gates, "utilisation", text)


def _is_lag(gates: GatePolicy, gpu: GpuRecord) -> bool:
    """Whether what was busy had ended: our own launch before this one, as a rule. Unknown is no."""
    later = gpu.seen_early("utilisation_percent", *LAG_S)
    return later is not None and later < gates.utilisation_percent


def _usual_power(earlier: Sequence[GpuRecord]) -> float:
    """What the card drew before earlier launches, a lag after our own load included; nothing known is no evidence.

    The lower quartile, since a neighbour may have been there in every second one.
    """
    found = sorted(power for gpu in earlier if (power := gpu.number("before", "power_average_w")) is not None)
    return found[len(found) // 4] if len(found) > 1 else inf


def _processes(listed: Any, gates: GatePolicy) -> list[tuple[Any, float | None]]:
    """(pid, MiB) of those that hold more than a trifle; one whose memory is unknown counts."""
    pairs = [one for one in listed if len(one) == 2] if isinstance(listed, (list, tuple)) else []
    sizes = [(pid, number(held)) for pid, held in pairs]
    found = [(pid, None if held is None else held / MIB) for pid, held in sizes]
    return [(pid, mib) for pid, mib in found if mib is None or mib >= gates.foreign_memory_mib]


def _listed(others: Sequence[tuple[Any, float | None]]) -> str:
    shown = [f"pid {pid}" + ("" if mib is None else f" with {mib:.0f} MiB") for pid, mib in others[:3]]
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return f"{', '.join(shown)}{more} {'was' if len(others) == 1 else 'were'}"
