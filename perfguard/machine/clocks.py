"""Lock the clocks of GPUs and put them back: each state on disk before the change, each undone in any order.

Called in the guardian's process only, which outlives perfguard. What to lock is clock_rules.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from perfguard.errors import ClockError
from perfguard.machine.clock_rules import cautious_clock, nearest_supported
from perfguard.machine.clock_state import ClockState, Setting, forget, load_states, save
from perfguard.machine.event_reasons import CLOCKS_SETTING
from perfguard.machine.nvml import Nvml

# What has no lock has nothing to reset; what cannot be reset for another reason stays on disk as not restored.
NOTHING_THERE = ("not_supported",)


@dataclass(frozen=True, kw_only=True)
class Locked:
    """What came of a wish to lock. `got`: "locked" or why not, for scripts; `why`: the same for people.

    `gpus`: what each card was asked for, with a note where that is less than wished.
    """

    got: str
    why: str = ""
    gpus: Mapping[str, Setting] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Restored:
    """UUIDs put back, and why the others could not be."""

    restored: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)


def lock_all(nvml: Nvml, uuids: Sequence[str], asked_mhz: int, *, folder: Path, command: str, pid: int) -> Locked:
    """All of these cards at one SM clock (0: by the cautious rule) and their highest memory clock, or none of them.

    Where one refuses, those locked before it are restored. Raises OSError if the state cannot be written.
    """
    gpus: dict[str, Setting] = {}
    notes: dict[str, str] = {}
    known = load_states(folder)
    for uuid in uuids:
        try:
            state = _planned(nvml, uuid, asked_mhz, known.get(uuid), command=command, pid=pid)
            found = "" if uuid in known else _held_by_somebody(nvml, uuid)
            save(state, folder)
            gpus[uuid], note = _apply(nvml, state, folder)
            notes[uuid] = "; ".join(filter(None, (note, found)))
        except ClockError as error:
            undone = restore_all(nvml, tuple(dict.fromkeys([*gpus, uuid])), folder)
            left = "".join(f"; {other} could not be restored: {why}" for other, why in undone.failed.items())
            return Locked(got=error.status, why=f"{uuid}: {error}{left}")
    return Locked(got="locked", gpus=gpus, notes={uuid: note for uuid, note in notes.items() if note})


def restore_all(nvml: Nvml, uuids: Sequence[str], folder: Path) -> Restored:
    """Put back what was found on these cards, as far as a state of them is on disk; one that fails stops no other."""
    restored: list[str] = []
    failed: dict[str, str] = {}
    states = load_states(folder)
    for uuid in sorted(states.keys() & set(uuids)):
        try:
            _put_back(nvml, states[uuid])
            _settle(states[uuid], folder)
            restored.append(uuid)
        except (ClockError, OSError) as error:
            failed[uuid] = str(error)
    return Restored(restored=tuple(restored), failed=failed)


def keep(uuids: Sequence[str], folder: Path) -> None:
    """These locks shall outlive the process that made them. A lock kept before is replaced: what is put back one day
    is what was there before the first. Raises OSError.
    """
    for uuid, state in load_states(folder).items():
        if uuid in uuids:
            first = state.earlier or state
            changes = tuple(dict.fromkeys([*first.changes, *state.changes]))
            kept = replace(state, is_kept=True, earlier=None, application=first.application, changes=changes)
            save(kept, folder)


def _planned(nvml: Nvml, uuid: str, asked_mhz: int, known: ClockState | None, *, command: str, pid: int) -> ClockState:
    """What will be changed and what is there now. A change that was not undone keeps what was found before it."""
    memory = nvml.supported_memory_clocks(uuid)
    supported = nvml.supported_sm_clocks(uuid, max(memory)) if memory else []
    sm_mhz = nearest_supported(supported, asked_mhz) if asked_mhz else cautious_clock(supported)
    if sm_mhz is None:
        raise ClockError("it lists no supported clocks", status="not_supported")
    asked = Setting(sm_mhz=sm_mhz, memory_mhz=max(memory))
    if known is not None and not known.is_kept:
        return replace(known, asked=asked, command=command, pid=pid)
    return ClockState(
        uuid=uuid,
        asked=asked,
        changes=("sm_lock", "memory_lock"),
        application=_application_found(nvml, uuid),
        earlier=known,
        command=command,
        pid=pid,
    )


def _application_found(nvml: Nvml, uuid: str) -> Setting | None:
    """Application clocks that somebody set: those that differ from the default."""
    names = ("sm_clock_application_mhz", "memory_clock_application_mhz")
    defaults = ("sm_clock_application_default_mhz", "memory_clock_application_default_mhz")
    read = {name: reading.value for name, reading in nvml.read(uuid, (*names, *defaults)).items()}
    found, default = [read[name] for name in names], [read[name] for name in defaults]
    sm_mhz, memory_mhz = found
    if not isinstance(sm_mhz, int) or not isinstance(memory_mhz, int) or found == default:
        return None
    return Setting(sm_mhz=sm_mhz, memory_mhz=memory_mhz, by="application")


def _held_by_somebody(nvml: Nvml, uuid: str) -> str:
    """A lock that is not ours shows in the event mask alone, and only while it holds the clocks down."""
    mask = nvml.read(uuid, ("event_reasons",))["event_reasons"].value
    if not isinstance(mask, int) or not mask & CLOCKS_SETTING:
        return ""
    return "its clocks were held by a setting that is not perfguard's; a lock cannot be read and ends as none"


def _apply(nvml: Nvml, state: ClockState, folder: Path) -> tuple[Setting, str]:
    """What was set, and a note where the memory clock or the lock itself is not to be had."""
    uuid, asked = state.uuid, state.asked
    sm_mhz, memory_mhz = asked.sm_mhz or 0, asked.memory_mhz or 0  # `_planned` sets both
    try:
        nvml.lock_sm_clocks(uuid, sm_mhz, sm_mhz)
    except ClockError as error:
        if error.status != "not_supported":
            raise
        asked = replace(asked, by="application")
        save(replace(state, asked=asked, changes=("application",)), folder)
        nvml.set_application_clocks(uuid, memory_mhz=memory_mhz, sm_mhz=sm_mhz)
        return asked, "this driver locks no clocks: application clocks were set instead"
    try:
        nvml.lock_memory_clocks(uuid, memory_mhz, memory_mhz)
    except ClockError as error:
        if error.status != "not_supported":
            raise
        return replace(asked, memory_mhz=None), "the memory clock of this card cannot be locked: the SM clock only"
    return asked, ""


def _put_back(nvml: Nvml, state: ClockState) -> None:
    """To what was found. A lock that was found and is not ours cannot be read through NVML: it ends as a reset."""
    before = state.earlier.asked if state.earlier is not None else Setting()
    by_lock = before.by == "lock"
    _put_back_sm(nvml, state, before.sm_mhz if by_lock else None)
    _put_back_memory(nvml, state, before.memory_mhz if by_lock else None)
    if "application" in state.changes:
        found = before if not by_lock else state.application
        if found is not None and found.sm_mhz is not None and found.memory_mhz is not None:
            nvml.set_application_clocks(state.uuid, memory_mhz=found.memory_mhz, sm_mhz=found.sm_mhz)
        else:
            nvml.reset_application_clocks(state.uuid)


def _put_back_sm(nvml: Nvml, state: ClockState, mhz: int | None) -> None:
    try:
        if mhz is not None:
            nvml.lock_sm_clocks(state.uuid, mhz, mhz)
        else:
            nvml.reset_sm_clocks(state.uuid)
    except ClockError as error:
        if error.status not in NOTHING_THERE:
            raise


def _put_back_memory(nvml: Nvml, state: ClockState, mhz: int | None) -> None:
    try:
        if mhz is not None:
            nvml.lock_memory_clocks(state.uuid, mhz, mhz)
        else:
            nvml.reset_memory_clocks(state.uuid)
    except ClockError as error:
        if error.status not in NOTHING_THERE:
            raise


def _settle(state: ClockState, folder: Path) -> None:
    """On disk what is true now: the lock kept before ours, or nothing."""
    if state.earlier is not None and state.earlier.is_kept:
        save(state.earlier, folder)
    else:
        forget(state.uuid, folder)
