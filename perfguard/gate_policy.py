"""What each gate on the machine does and from where on, with units and reasons. Defaults only; decides nothing.

Part of the policy (`[gates]` of perfguard.toml); a module of its own because it is long. docs/machine-gates.md is
its page.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Action = Literal["record", "warn", "void", "stop"]
# Each includes what stands before it: kept in the table of gates, said beside the verdict, the trial does not count,
# the campaign ends INVALID.
ACTIONS: tuple[Action, ...] = ("record", "warn", "void", "stop")


@dataclass(frozen=True, kw_only=True)
class GatePolicy:
    """Actions first, then thresholds. Gates of one trial look at its own record and never at what it measured."""

    # SM or memory clock under load below the clock that was locked: a lock is a request, and one that both arms miss
    # alike leaves them comparable.
    clock: Action = "warn"
    # Hot or at the power limit: both arms alike in most cases, so it voids no trial; `one_sided` looks at the rest.
    thermal: Action = "record"
    power_cap: Action = "record"
    # An external brake (a supply failed) halves clocks, and is never of the code's making.
    power_brake: Action = "void"
    # PCIe link narrower or slower under load than in an earlier trial of the campaign.
    link: Action = "void"
    # The same against earlier campaigns on this machine: both arms share it, so it is news of the machine.
    link_history: Action = "warn"
    # Repeated PCIe packets and NVLink errors: repaired, and paid for in time.
    replays: Action = "warn"
    # Memory that had to be corrected for good, uncorrectable errors, errors the driver reports (Xid).
    memory_errors: Action = "void"
    # A card that asks for a reset (row remap pending or failed) or that fell off the bus.
    gpu_health: Action = "stop"
    # Somebody else computing on a GPU of ours, shown by a process, by memory or by power.
    foreign: Action = "void"
    # Utilisation before the launch and nothing else to show for it: the counter lags behind by up to a second.
    utilisation: Action = "warn"
    # The hypervisor took processor time, or the host read memory back from disk.
    steal: Action = "warn"
    swap: Action = "warn"
    # Processes waited for a processor, memory or the disk. Our own count too, so it only speaks by comparison.
    pressure: Action = "record"
    # Driver, cards or topology other than at the first trial.
    identity: Action = "stop"
    # The wall clock was set, or the machine slept.
    time: Action = "void"
    # The telemetry process died or hung: what it would have seen is unknown.
    telemetry: Action = "warn"
    # One arm limited and the other not. "void": a verdict that the limit can have made is INVALID, any other carries
    # the finding; "stop": INVALID at once.
    one_sided: Action = "void"
    # A card that starts hotter in one arm, in spite of the wait between trials.
    start_temperature: Action = "warn"

    # Share below the locked clock. GPU clocks step by 15 MHz, about 1 %; two steps are no failure.
    clock_share: float = 0.03
    # Share of the loaded time at a limit. Entering and leaving load shows 1 % on healthy cards.
    event_share: float = 0.02
    # Share by which clocks under load of the arms must differ. 0.5 % is a quarter of the usual margin.
    clock_differs_share: float = 0.005
    # Repeated packets or link errors per trial. A healthy link has a handful, a failing one tens of thousands.
    replay_count: float = 1000.0
    # GPU utilisation in percent before the launch; a desktop that draws a cursor shows less.
    utilisation_percent: float = 10.0
    # Memory in MiB held by others before the launch; an idle card reports up to some 20, a CUDA context over 250.
    foreign_memory_mib: float = 128.0
    # Watts above the same card's idle power before the launch.
    foreign_power_w: float = 40.0
    # Share of processor time.
    steal_share: float = 0.02
    # MiB read from or written to swap during a trial.
    swap_mib: float = 16.0
    # Share of time in which some process waited.
    pressure_share: float = 0.2
    # Seconds by which the wall clock left the monotonic one; NTP slews less than this within an hour.
    clock_jump_s: float = 0.5
    # Degrees by which the arms' start temperatures may differ.
    start_temperature_c: float = 3.0
    # Wait before a launch until cards are no hotter than earlier trials found them plus the allowance above, for at
    # most so many seconds; 0 waits for nothing.
    cooldown_max_s: float = 30.0
    # Two-sided rank test of a quantity by arm. The least that four trials against four can show is 2/70 = 0.029.
    one_sided_alpha: float = 0.03


def stored_gates(values: Mapping[str, Any]) -> GatePolicy:
    """The gates of a stored campaign; one that knew fewer gates has the others by default."""
    return GatePolicy(**values)
