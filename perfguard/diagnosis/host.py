"""Findings about the host: frequency, load, pressure, neighbours on the same hardware, time, container. Pure."""

from collections.abc import Callable

from perfguard.diagnosis.records import Finding, MachineState, Severity, known, why_unknown
from perfguard.machine.time_jump import time_jump
from perfguard.policy import Fitness

LIMITS = Fitness()
STEADY_CLOCKS = ("tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page")

Check = Callable[[MachineState], Finding]


def frequency(state: MachineState) -> Finding:
    name = known(state.host, "governor")
    turbo = {True: ", turbo on", False: ", turbo off"}.get(known(state.host, "turbo_is_on"), "")
    if name is None:
        return _say("host_frequency", "unknown", f"governor {why_unknown(state.host, 'governor')}{turbo}")
    if name != "performance":
        return _say(
            "host_frequency", "warn", f"governor {name}{turbo}", "as root: cpupower frequency-set -g performance"
        )
    return _say("host_frequency", "ok", f"governor performance{turbo}")


def load(state: MachineState) -> Finding:
    """Load averages lag and pressure is exact; either may show that others work here."""
    threads = known(state.host, "num_threads") or 1
    average = known(state.host, "load_1min")
    waits = known(state.host, "pressure_cpu_percent")
    if average is None and waits is None:
        return _say("host_load", "unknown", why_unknown(state.host, "load_1min"))
    parts = [f"load {average:.1f} on {threads} threads"] if average is not None else []
    parts += [f"tasks wait for a processor {waits:g} % of the time"] if waits is not None else []
    is_high = (average or 0) > LIMITS.load_share * threads or (waits or 0) > LIMITS.pressure_percent
    advice = "end what runs here, or measure at another hour" if is_high else ""
    return _say("host_load", "warn" if is_high else "ok", ", ".join(parts), advice)


def memory(state: MachineState) -> Finding:
    """Pages that were swapped out long ago cost nothing; those that move now do."""
    waits = [known(state.host, f"pressure_{kind}_percent") for kind in ("memory", "io")]
    moved = [_difference(state, name) for name in ("swap_in_bytes", "swap_out_bytes")]
    if any(moved):
        return _say("host_memory", "warn", "the machine swaps now", "end what needs so much memory")
    if any((wait or 0) > LIMITS.pressure_percent for wait in waits):
        text = f"tasks wait for memory {waits[0] or 0:g} %, for disks {waits[1] or 0:g} % of the time"
        return _say("host_memory", "warn", text, "end what works on memory and disks here")
    if None in moved and None in waits:
        return _say("host_memory", "unknown", why_unknown(state.host, "pressure_memory_percent"))
    return _say("host_memory", "ok", "nothing is swapped, nothing waits for memory or disks")


def steal(state: MachineState) -> Finding:
    taken, passed = _difference(state, "steal_s"), _difference(state, "monotonic_s")
    if taken is None or not passed:
        return _say("host_steal", "unknown", why_unknown(state.host, "steal_s"))
    share = taken / passed / (known(state.host, "num_threads") or 1)
    if share > LIMITS.steal_share:
        text = f"other machines on this hardware take {share:.0%} of its processors"
        return _say("host_steal", "warn", text, "take a dedicated machine, or more blocks")
    return _say("host_steal", "ok", f"other machines on this hardware take {share:.1%} of its processors")


def clock(state: MachineState) -> Finding:
    source = known(state.host, "clock_source")
    jump = time_jump(state.host_before, state.host)
    if jump is not None and max(abs(jump.wall_s), jump.slept_s) > LIMITS.jump_s:
        text = f"the wall clock moved by {jump.wall_s:+.1f} s, the machine slept {jump.slept_s:.1f} s while we looked"
        return _say("host_clock", "warn", text, "let the time service settle; keep the machine awake")
    if source is None:
        return _say("host_clock", "unknown", why_unknown(state.host, "clock_source"))
    if source not in STEADY_CLOCKS:
        text = f"the kernel counts time by {source}: slow to read"
        return _say("host_clock", "warn", text, "boot with clocksource=tsc tsc=reliable if the processor allows")
    return _say("host_clock", "ok", f"clock source {source}, no jumps")


def container(state: MachineState) -> Finding:
    name = known(state.host, "container")
    if known(state.host, "is_wsl"):
        text = "WSL: clocks cannot be set, processes and parts of the GPU's state cannot be read"
        return _say("host_container", "unknown", text, "verdicts will say what was not watched")
    if name and known(state.host, "pids_are_global") is not True:
        text = f"container ({name}) with pids of its own: the GPU driver's list of processes names nobody here"
        return _say("host_container", "unknown", text, "start it with --pid=host to see neighbours")
    limit = known(state.host, "cpu_limit")
    if isinstance(limit, float | int):
        text = f"the container may use {limit:g} processors: it is stopped for part of each period when it wants more"
        return _say("host_container", "warn", text, "use --cpuset-cpus instead of --cpus")
    return _say("host_container", "ok", f"container ({name}), pids are the host's" if name else "not in a container")


CHECKS: tuple[Check, ...] = (frequency, load, memory, steal, clock, container)


def _difference(state: MachineState, name: str) -> float | None:
    early, late = known(state.host_before, name), known(state.host, name)
    return None if early is None or late is None else float(late) - float(early)


def _say(code: str, severity: Severity, text: str, advice: str = "") -> Finding:
    return Finding(code=code, about="host", severity=severity, text=text, advice=advice)
