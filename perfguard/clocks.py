"""The stories of `perfguard clocks`: show, lock until further notice, restore. JSON of schema perfguard/clocks@1."""

import sys
from typing import Any

from perfguard.errors import EXIT_FAILURE, EXIT_OK, HarnessError, NotComparableError, UsageError
from perfguard.machine.clock_state import load_states, state_folder, states_of_others
from perfguard.machine.hold import hold_machine
from perfguard.machine.locking import clocks_now, lock_and_keep, next_step, restore_left

SCHEMA = "perfguard/clocks@1"
DOCTOR = "perfguard doctor"


def show() -> dict[str, Any]:
    """Every card's clocks now, and what perfguard changed of them. Needs no rights and holds nothing."""
    told = clocks_now()
    states = load_states(state_folder())
    locked = {
        uuid: {
            "sm_mhz": state.asked.sm_mhz,
            "memory_mhz": state.asked.memory_mhz,
            "is_kept": state.is_kept,
            "command": state.command,
            "at": state.at,
        }
        for uuid, state in states.items()
    }
    others = list(states_of_others(state_folder()))
    return _result("show", gpus=told["gpus"], why=told["why"], locked=locked, users=others)


def lock(uuids: tuple[str, ...], sm_mhz: int) -> dict[str, Any]:
    """Lock these cards (all where none is named) until `clocks restore`. Raises NotComparableError if not possible."""
    now = clocks_now()
    known = list(now["gpus"])
    strangers = [uuid for uuid in uuids if uuid not in known]
    if strangers:
        raise UsageError(f"no GPU {strangers[0]} here", "perfguard clocks show")
    command = f"perfguard {' '.join(sys.argv[1:])}".strip()
    with hold_machine(command) as machine:
        restore_left(machine, command, kept=False)
        told = lock_and_keep(uuids or known, sm_mhz, machine=machine, command=command, why=now["why"])
    if told["got"] != "locked":
        raise NotComparableError(
            f"clocks are not locked ({told['got']}): {told['why']}",
            next_step(told["got"], "the same as root (sudo perfguard clocks lock)", DOCTOR),
        )
    return _result("lock", locked=told["gpus"], notes=told["notes"])


def restore() -> dict[str, Any]:
    """Put back everything that perfguard changed here and that is ours to put back."""
    command = "perfguard clocks restore"
    with hold_machine(command) as machine:
        told = restore_left(machine, command, kept=True)
    result = _result("restore", restored=told["restored"], failed=told["failed"])
    if told["failed"] and not told["restored"]:
        why = "; ".join(f"{uuid} {text}".strip() for uuid, text in told["failed"].items())
        refused = "error" if "lost" in told else "no_permission"  # a guardian that answered was refused by the driver
        advice = next_step(refused, "the same as root (sudo perfguard clocks restore)", DOCTOR)
        raise HarnessError(f"clocks could not be restored: {why}", advice)
    return result | {"exit_code": EXIT_FAILURE if told["failed"] else EXIT_OK}


def _result(action: str, **more: Any) -> dict[str, Any]:
    return {"schema": SCHEMA, "action": action, "exit_code": EXIT_OK, **more}
