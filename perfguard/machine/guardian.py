"""The guardian: a process that alone changes clocks, and puts them back when perfguard is done or gone.

Started by locking.py, speaks JSON lines, in a session of its own: it outlives Ctrl-C, a closed terminal and kill -9 of
perfguard. It inherits the descriptor of the machine's lock, so nobody measures here before the clocks are back.

    at its start     {"ready": true}, or {"none": why} where there is no NVML
    {"do": "lock", "uuids": [...], "sm_mhz": 0 | MHz}    -> {"got", "why", "gpus", "notes"}
    {"do": "keep"}                                       -> {"kept": [...]}: what was locked stays
    {"do": "restore"}                                    -> {"restored": [...], "failed": {...}}
    {"do": "restore_left", "kept": bool}                 -> the same, of what others left on disk
    {"do": "show"}                                       -> {uuid: {field: value}}
    the end of its input                                    everything that it locked and did not keep is restored

Must not measure anything, nor trust what it finds unlocked to be its own.
"""

import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from perfguard.machine.child import answer, ignore_signals_of_the_terminal, listen
from perfguard.machine.clock_state import load_states
from perfguard.machine.clocks import keep, lock_all, restore_all
from perfguard.machine.nvml import Nvml, open_nvml
from perfguard.machine.reading import readings_to_json

# Alone with a driver that hangs: give the machine free. The state stays on disk for the next start.
LAST_LIMIT_S = 60
SHOWN = (
    "name", "sm_clock_mhz", "sm_clock_max_mhz", "memory_clock_mhz", "memory_clock_max_mhz",
    "sm_clock_application_mhz", "memory_clock_application_mhz", "event_reasons",
)  # fmt: skip


@dataclass(kw_only=True)
class Guardian:
    """`pid`, `command`: of the perfguard it guards, for the state on disk."""

    nvml: Nvml
    folder: Path
    pid: int
    command: str
    locked: list[str] = field(default_factory=list)

    def do(self, words: Mapping[str, Any]) -> Any:
        match words["do"]:
            case "lock":
                return self.lock(words["uuids"], words["sm_mhz"])
            case "keep":
                keep(self.locked, self.folder)
                kept, self.locked = self.locked, []
                return {"kept": kept}
            case "restore":
                return self.restore(self.own())
            case "restore_left":
                return self.restore_left(words["kept"])
            case "show":
                return {uuid: self.show(uuid) for uuid in self.nvml.uuids()}
        raise ValueError(f"{words!r} is nothing a guardian does")

    def lock(self, uuids: Sequence[str], sm_mhz: int) -> Any:
        self.locked = list(uuids)
        try:
            done = lock_all(self.nvml, uuids, sm_mhz, folder=self.folder, command=self.command, pid=self.pid)
        except OSError as error:
            self.restore(self.own())
            return {"got": "error", "why": f"no state can be written: {error}", "gpus": {}, "notes": {}}
        return asdict(done)

    def own(self) -> list[str]:
        """What we may have changed: a state on disk says so, and that it is of the perfguard we guard."""
        states = load_states(self.folder)
        return [uuid for uuid in self.locked if uuid in states and states[uuid].pid == self.pid]

    def restore(self, uuids: Sequence[str]) -> Any:
        done = restore_all(self.nvml, uuids, self.folder)
        self.locked = [uuid for uuid in self.locked if uuid in done.failed]
        return asdict(done)

    def restore_left(self, kept: bool) -> Any:
        """What lies on a lock that was kept goes first: it is put back to that lock, which then goes too."""
        told = self.restore([state.uuid for state in load_states(self.folder).values() if not state.is_kept])
        if not kept:
            return told
        below = self.restore(list(load_states(self.folder)))
        restored = dict.fromkeys([*told["restored"], *below["restored"]])
        return {"restored": list(restored), "failed": {**told["failed"], **below["failed"]}}

    def show(self, uuid: str) -> dict[str, Any]:
        return readings_to_json(self.nvml.read(uuid, SHOWN))


def main() -> None:
    ignore_signals_of_the_terminal()
    folder, pid, command = sys.argv[1:4]
    with open_nvml() as nvml:
        if nvml.reason:
            answer({"none": nvml.reason})
        else:
            guard(Guardian(nvml=nvml, folder=Path(folder), pid=int(pid), command=command))


def guard(guardian: Guardian) -> None:
    answer({"ready": True})
    try:
        while (asked := listen(None)) is not None:
            for words in asked:
                answer(guardian.do(words))
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LAST_LIMIT_S)
        guardian.restore(guardian.own())
