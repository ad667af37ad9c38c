"""What a gate found, and the names of all gates. A record and a table only."""

from collections.abc import Iterable
from dataclasses import dataclass

from perfguard.gate_policy import ACTIONS, Action, GatePolicy
from perfguard.records import Reason, Side

# Gate -> what it looks at, in the order of reports. Keys are fields of GatePolicy.
GATES = {
    "clock": "clocks under load below the locked ones",
    "thermal": "time at a thermal limit",
    "power_cap": "time at the power limit",
    "power_brake": "time under an external power brake",
    "link": "PCIe link under load against earlier trials",
    "link_history": "PCIe link under load against earlier campaigns",
    "replays": "repeated PCIe packets, NVLink errors",
    "memory_errors": "uncorrectable memory, remapped rows, Xid",
    "gpu_health": "a card that wants a reset or is lost",
    "foreign": "others computing on our GPUs",
    "utilisation": "utilisation or memory that nobody accounts for",
    "steal": "processor time taken by the hypervisor",
    "swap": "memory read from or written to swap",
    "pressure": "waiting for processor, memory or disk",
    "identity": "driver, cards and topology as at the first trial",
    "time": "wall clock set, machine asleep",
    "telemetry": "the telemetry process",
    "one_sided": "a limit that meets one arm and not the other",
    "start_temperature": "temperature at the start, by arm",
}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something a gate saw. `limited`: the arm that it can have slowed, where the gate compares arms.

    `explains`: the log slowdown that it can account for; None where its size is unknown.
    """

    gate: str
    action: Action
    code: str
    text: str
    limited: Side | None = None
    explains: float | None = None

    @property
    def reason(self) -> Reason:
        return Reason(code=self.code, text=self.text)


def finding(gates: GatePolicy, gate: str, text: str, *, code: str = "") -> Finding:
    """With the action that the policy asks for."""
    return Finding(gate=gate, action=getattr(gates, gate), code=code or gate.upper(), text=text)


def is_at_least(action: Action, wanted: Action) -> bool:
    return ACTIONS.index(action) >= ACTIONS.index(wanted)


def worst(actions: Iterable[Action]) -> Action:
    return max(actions, key=ACTIONS.index, default="record")
