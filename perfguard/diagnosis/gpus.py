"""Findings about one card: can it be read, is it well, is it alone, what holds it back. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from perfguard.diagnosis.records import Finding, MachineState, Severity, known, why_unknown
from perfguard.machine.event_reasons import CLOCKS_SETTING, HW_POWER_BRAKE, HW_SLOWDOWN, THERMAL, event_names
from perfguard.machine.neighbours import neighbours
from perfguard.machine.reading import Reading
from perfguard.policy import Fitness

# Without these nothing can be said about the conditions of a trial.
WATCHED = {
    "sm_clock_mhz": "clocks",
    "temperature_c": "temperature",
    "power_average_w": "power",
    "event_reasons": "throttling",
    "pcie_width": "PCIe link",
    "utilisation_percent": "utilisation",
    "processes": "processes",
}
LIMITS = Fitness()


@dataclass(frozen=True, kw_only=True)
class Card:
    label: str
    uuid: str
    read: Mapping[str, Reading]


Check = Callable[[Card, MachineState], Finding]


def is_readable(card: Card, state: MachineState) -> Finding:
    lacking = [word for name, word in WATCHED.items() if known(card.read, name) is None]
    if not lacking:
        return _ok("gpu_readable", card, "all that a trial is judged by can be read")
    reasons = sorted({why_unknown(card.read, name) for name in WATCHED if known(card.read, name) is None})
    parent = state.parents.get(card.uuid)
    if parent:
        text = f"a MIG slice of {parent}: {', '.join(lacking)} cannot be read of a slice"
        return _finding("gpu_readable", card, "unknown", text, "compare slices with slices of this size only")
    where = " (WSL: the driver answers only in part)" if known(state.host, "is_wsl") else ""
    text = f"not watched: {', '.join(lacking)} ({'; '.join(reasons)}){where}"
    return _finding("gpu_readable", card, "unknown", text, "verdicts will say that these were not watched")


def clocks(card: Card, state: MachineState) -> Finding:
    now, highest = known(card.read, "sm_clock_mhz"), known(card.read, "sm_clock_max_mhz")
    if now is None:
        return _unknown("gpu_clocks", card, "sm_clock_mhz")
    target, default = (known(card.read, f"sm_clock_application_{end}") for end in ("mhz", "default_mhz"))
    if target is not None and default is not None and target != default:
        text = f"application clock set to {target} MHz, {default} MHz by default"
        return _finding(
            "gpu_clocks", card, "warn", text, "nvidia-smi -rac undoes it; or keep it for all that you compare"
        )
    if (known(card.read, "event_reasons") or 0) & CLOCKS_SETTING:
        text = f"a setting holds the SM clock at {now} MHz of {highest or '?'} MHz: somebody locked it"
        return _finding(
            "gpu_clocks", card, "warn", text, "nvidia-smi -rgc undoes it; or keep it for all that you compare"
        )
    return _ok("gpu_clocks", card, f"SM clock {now} MHz of {highest or '?'} MHz, no setting holds it down")


def brakes(card: Card, state: MachineState) -> Finding:
    mask = known(card.read, "event_reasons")
    if mask is None:
        return _unknown("gpu_brakes", card, "event_reasons")
    named = f"{', '.join(event_names(mask)) or 'none'} (mask {mask:#x})"
    if mask & HW_POWER_BRAKE:
        text = f"external power brake: {named}; clocks are halved or worse"
        return _finding(
            "gpu_brakes", card, "fail", text, "check power supplies and the server's power cap; do not compare"
        )
    if mask & (THERMAL | HW_SLOWDOWN):
        return _finding("gpu_brakes", card, "warn", f"slowed down now: {named}", "let it cool down; check fans and air")
    return _ok("gpu_brakes", card, f"what holds the clocks now: {named}")


def temperature(card: Card, state: MachineState) -> Finding:
    now = known(card.read, "temperature_c")
    if now is None:
        return _unknown("gpu_temperature", card, "temperature_c")
    margin = known(card.read, "temperature_margin_c")
    slowdown = known(card.read, "slowdown_temperature_c")
    left = margin if margin is not None else None if slowdown is None else slowdown - now
    if left is not None and left <= LIMITS.hot_margin_c:
        text = f"{now} °C, {left} °C below the limit"
        return _finding("gpu_temperature", card, "warn", text, "let it cool down; check fans and air")
    return _ok("gpu_temperature", card, f"{now} °C" + ("" if left is None else f", {left} °C below the limit"))


def power_limit(card: Card, state: MachineState) -> Finding:
    limit, default = known(card.read, "power_limit_w"), known(card.read, "power_limit_default_w")
    if limit is None:
        return _unknown("gpu_power_limit", card, "power_limit_w")
    if default is not None and limit < default:
        text = f"power limit {limit:g} W, {default:g} W by default"
        return _finding("gpu_power_limit", card, "warn", text, f"nvidia-smi -pl {default:g}, or keep it for all")
    return _ok("gpu_power_limit", card, f"power limit {limit:g} W")


def link(card: Card, state: MachineState) -> Finding:
    """The generation falls back when idle and is judged under load only; lanes do not come back by themselves."""
    width, generation = known(card.read, "pcie_width"), known(card.read, "pcie_generation")
    if width is None or generation is None:
        return _unknown("gpu_link", card, "pcie_width" if width is None else "pcie_generation")
    most, highest = known(card.read, "pcie_width_max"), known(card.read, "pcie_generation_max")
    now = f"PCIe {generation} x{width} (card and slot: {highest or '?'} x{most or '?'})"
    if most is not None and width < most:
        return _finding("gpu_link", card, "warn", f"narrow link: {now}", "check riser, slot and shared lanes")
    pstate = known(card.read, "pstate")
    is_busy = pstate is not None and pstate <= LIMITS.busy_pstate
    if is_busy and highest is not None and generation < highest:
        return _finding("gpu_link", card, "warn", f"slow link under load (P{pstate}): {now}", "check riser and BIOS")
    idle = "" if is_busy or generation == highest else "; an idle card falls back, trials are judged under load"
    return _ok("gpu_link", card, now + idle)


def memory_health(card: Card, state: MachineState) -> Finding:
    if known(card.read, "remap_has_failed") or known(card.read, "remap_is_pending"):
        what = "failed" if known(card.read, "remap_has_failed") else "is pending"
        text = f"replacing rows of broken memory {what}: do not trust this card"
        return _finding("gpu_memory", card, "fail", text, "reset the card (nvidia-smi -r), then have it checked")
    errors = known(card.read, "ecc_uncorrected_count")
    if errors:
        text = f"{errors} uncorrected memory errors since the driver was loaded"
        return _finding("gpu_memory", card, "fail", text, "reset the card (nvidia-smi -r), then have it checked")
    if errors is None and known(card.read, "remap_is_pending") is None:
        return _unknown("gpu_memory", card, "ecc_uncorrected_count")
    corrected = known(card.read, "ecc_corrected_count")
    return _ok("gpu_memory", card, f"no uncorrected errors, {corrected or 0} corrected; nothing waits to be replaced")


def xids(card: Card, state: MachineState) -> Finding:
    told = known(state.host, "gpu_xids")
    if told is None:
        return _finding("gpu_xid", card, "unknown", why_unknown(state.host, "gpu_xids"), "as root: dmesg | grep Xid")
    bus = str(known(card.read, "pci_bus_id") or "").lower()[4:].partition(".")[0]
    codes = sorted({code for where, code in told if bus and str(where).startswith(bus)})
    if codes:
        text = f"the driver reported Xid {', '.join(map(str, codes))} since boot"
        return _finding("gpu_xid", card, "warn", text, "dmesg | grep Xid; the same card again and again is broken")
    return _ok("gpu_xid", card, "no Xid in the kernel log")


def users(card: Card, state: MachineState) -> Finding:
    """Processes first; utilisation without process or memory may be a wrong number and only warns."""
    busy = known(card.read, "utilisation_percent")
    memory = known(card.read, "memory_used_bytes") or 0
    listed = known(card.read, "processes")
    is_complete = known(state.host, "pids_are_global") is True
    found = neighbours(listed or [], state.own_pids, pids_are_global=is_complete)
    load = "unknown" if busy is None else f"{busy} %"
    if found.foreign or found.num_unnamed:
        pids = ", ".join(str(pid) for pid, _ in found.foreign) or "pids are those of the host"
        count = len(found.foreign) + found.num_unnamed
        text = f"{count} foreign process(es) ({pids}), utilisation {load}"
        return _finding("gpu_users", card, "fail", text, "wait for them or take another card: nvidia-smi")
    hidden = memory > LIMITS.memory_allowance_bytes
    if (busy or 0) >= LIMITS.busy_percent or hidden:
        text = f"no process is listed, but utilisation is {load} and {memory / 2**20:,.0f} MiB are in use"
        worst: Severity = "fail" if hidden and (busy or 0) >= LIMITS.busy_percent else "warn"
        return _finding(
            "gpu_users", card, worst, text, "somebody outside of this container? ask on the host: nvidia-smi"
        )
    if listed is None:
        return _unknown("gpu_users", card, "processes")
    drawing = known(card.read, "graphics_processes")
    if drawing:
        text = f"{len(drawing)} process(es) draw on it, utilisation {load}"
        return _finding(
            "gpu_users", card, "warn", text, "a desktop or a video costs time in bursts: use a card without"
        )
    if not is_complete:
        text = f"processes of others cannot be seen here; utilisation {load}"
        return _finding("gpu_users", card, "unknown", text, "start the container with --pid=host to see them")
    return _ok("gpu_users", card, f"no foreign process, utilisation {load}, {memory / 2**20:,.0f} MiB in use")


def modes(card: Card, state: MachineState) -> Finding:
    if known(card.read, "compute_mode") == "prohibited":
        text = "compute mode is prohibited: no process may use it"
        return _finding("gpu_modes", card, "fail", text, "as root: nvidia-smi -c DEFAULT")
    if known(card.read, "mig_is_on") and card.uuid not in state.parents:
        text = "cut into MIG slices"
        return _finding(
            "gpu_modes", card, "warn", text, "measure one slice by its UUID; never compare it with whole cards"
        )
    if known(card.read, "persistence_is_on") is False:
        text = "persistence is off: the driver loads anew with every first process, in seconds"
        return _finding("gpu_modes", card, "warn", text, "as root: nvidia-smi -pm 1, or start nvidia-persistenced")
    return _ok("gpu_modes", card, f"compute mode {known(card.read, 'compute_mode') or 'not told'}")


CHECKS: tuple[Check, ...] = (
    is_readable,
    users,
    clocks,
    brakes,
    temperature,
    power_limit,
    link,
    memory_health,
    xids,
    modes,
)
# A slice has no clocks, temperature, power or link of its own.
SLICE_CHECKS: tuple[Check, ...] = (is_readable, users, modes)


def _finding(code: str, card: Card, severity: Severity, text: str, advice: str) -> Finding:
    return Finding(code=code, about=card.label, severity=severity, text=text, advice=advice)


def _ok(code: str, card: Card, text: str) -> Finding:
    return Finding(code=code, about=card.label, severity="ok", text=text)


def _unknown(code: str, card: Card, name: str) -> Finding:
    text = why_unknown(card.read, name)
    return Finding(code=code, about=card.label, severity="unknown", text=text, advice="not watched here")
