"""How long to wait before a launch, so that each trial finds its cards as earlier ones did. Pure.

Waiting cools and never warms: a card that is colder than before is left to the trial's own warm-up, and a difference
that remains between the arms is a finding (`start_temperature`).
"""

from collections.abc import Mapping, Sequence
from statistics import median

from perfguard.gate_policy import GatePolicy

# Cards lose a degree in about a second when they begin to idle.
STEP_S = 2.0


def cooldown_s(
    gates: GatePolicy, now: Mapping[str, float], starts: Sequence[Mapping[str, float]], waited_s: float
) -> float:
    """Seconds to wait before looking again; 0 to go on.

    `now`: uuid -> degrees C. `starts`: the same at the start of earlier measured trials, of both arms alike, so that
    the wait cannot favour one. The wanted temperature is their median plus the allowance of the policy.
    """
    left_s = gates.cooldown_max_s - waited_s
    if left_s <= 0 or not any(_is_hot(gates, uuid, degrees, starts) for uuid, degrees in now.items()):
        return 0.0
    return min(STEP_S, left_s)


def _is_hot(gates: GatePolicy, uuid: str, degrees: float, starts: Sequence[Mapping[str, float]]) -> bool:
    known = [start[uuid] for start in starts if uuid in start]
    return bool(known) and degrees > median(known) + gates.start_temperature_c
