"""Gates on the host in one trial: time taken by the hypervisor, swap, pressure, a clock that jumped. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from perfguard.conditions.findings import Finding, finding
from perfguard.conditions.readings import When, host_increment, host_of, number
from perfguard.gate_policy import GatePolicy

MIB = 2.0**20
WHEN: tuple[When, When] = ("before", "after")
PRESSURE = {"cpu": "a processor", "memory": "memory", "io": "the disk"}


def host_findings(gates: GatePolicy, conditions: Mapping[str, Any]) -> Iterator[Finding]:
    steal = steal_share(conditions)
    if steal is not None and steal > gates.steal_share:
        text = f"the hypervisor took {100 * steal:.0f} % of processor time during the trial"
        yield finding(gates, "steal", text)
    swapped = swapped_mib(conditions)
    if swapped is not None and swapped > gates.swap_mib:
        yield finding(gates, "swap", f"{swapped:.0f} MiB went to or came from swap during the trial")
    for what, words in PRESSURE.items():
        share = pressure_share(conditions, what)
        if share is not None and share > gates.pressure_share:
            yield finding(gates, "pressure", f"processes waited for {words} for {100 * share:.0f} % of the trial")
    yield from _xids(gates, conditions)
    yield from _time(gates, conditions)


def steal_share(conditions: Mapping[str, Any]) -> float | None:
    """Share of all processor time; the counter adds up over processors."""
    stolen_s, passed_s = host_increment(conditions, "steal_s"), host_increment(conditions, "monotonic_s")
    num_threads = number(host_of(conditions, "before", "num_threads"))
    return stolen_s / passed_s / num_threads if stolen_s is not None and passed_s and num_threads else None


def swapped_mib(conditions: Mapping[str, Any]) -> float | None:
    found = [host_increment(conditions, name) for name in ("swap_in_bytes", "swap_out_bytes")]
    known = [one for one in found if one is not None]
    return sum(known) / MIB if known else None


def pressure_share(conditions: Mapping[str, Any], what: str) -> float | None:
    """Share of the launch in which at least one process waited (PSI "some"), from the kernel's own counter."""
    waited_s, passed_s = host_increment(conditions, f"waited_{what}_s"), host_increment(conditions, "monotonic_s")
    return waited_s / passed_s if waited_s is not None and passed_s else None


def clock_jump_s(conditions: Mapping[str, Any]) -> float | None:
    """How far the wall clock left the monotonic one; sleep moves it too, see `slept_s`."""
    wall_s, passed_s = _signed(conditions, "wall_s"), host_increment(conditions, "monotonic_s")
    return None if wall_s is None or passed_s is None else wall_s - passed_s - (slept_s(conditions) or 0.0)


def slept_s(conditions: Mapping[str, Any]) -> float | None:
    """The clock since boot goes on while the machine sleeps, the monotonic one stands."""
    since_boot_s, passed_s = host_increment(conditions, "boottime_s"), host_increment(conditions, "monotonic_s")
    return None if since_boot_s is None or passed_s is None else since_boot_s - passed_s


def _xids(gates: GatePolicy, conditions: Mapping[str, Any]) -> Iterator[Finding]:
    """Messages of the driver that the kernel's log did not hold before; of whichever card, since it may be ours."""
    before, after = (_messages(host_of(conditions, when, "gpu_xids")) for when in WHEN)
    if before is None or after is None:
        return
    for bus, code in sorted((after - before).elements()):
        text = f"the driver reported an error of the card at {bus} during the trial (Xid {code})"
        yield finding(gates, "memory_errors", text, code="XID")


def _messages(listed: Any) -> Counter[tuple[str, int]] | None:
    return Counter((str(bus), int(code)) for bus, code in listed) if isinstance(listed, (list, tuple)) else None


def _signed(conditions: Mapping[str, Any], name: str) -> float | None:
    """Difference of a reading that may go back."""
    first, last = (number(host_of(conditions, when, name)) for when in WHEN)
    return None if first is None or last is None else last - first


def _time(gates: GatePolicy, conditions: Mapping[str, Any]) -> Iterator[Finding]:
    slept, jumped = slept_s(conditions), clock_jump_s(conditions)
    if slept is not None and slept > gates.clock_jump_s:
        yield finding(gates, "time", f"the machine slept for {slept:.1f} s during the trial", code="MACHINE_SLEPT")
    if jumped is not None and abs(jumped) > gates.clock_jump_s:
        yield finding(gates, "time", f"the wall clock jumped by {jumped:+.1f} s during the trial", code="CLOCK_JUMPED")
