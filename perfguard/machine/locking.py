"""Clocks for one campaign: asked for, held by the guardian, put back however perfguard ends. Perfguard's own side.

Must not call NVML: the guardian does, within limits. Whether a lock was held under load is judged elsewhere.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from perfguard.errors import NotComparableError
from perfguard.machine.child import Child, ChildGone, start_child
from perfguard.machine.clock_state import load_states, state_folder, states_of_others
from perfguard.machine.visible import Visible

GUARDIAN = "perfguard.machine.guardian"
# Above what opening NVML may take on a machine with sleeping cards.
START_LIMIT_S = 75.0
ANSWER_LIMIT_S = 30.0
# As long as an answer: at the end of its input a guardian may have clocks to put back, and none is killed over that.
END_LIMIT_S = 30.0

Wish = Literal["observe", "lock", "require"]
# Answers that are none: the guardian did not give them.
LOST = ("hung", "died")
RESTORE = "perfguard clocks restore"


def wish_of(text: str) -> Wish:
    """The wish of a policy, which has been checked."""
    return "require" if text == "require" else "lock" if text == "lock" else "observe"


@dataclass(kw_only=True)
class Clocks:
    """What was wished and what came of it. `told` is the guardian's answer: got, why, gpus, notes.

    `machine`: the descriptor of the machine's lock; `command`: whose clocks they are.
    """

    wish: Wish = "observe"
    told: Mapping[str, Any] = field(default_factory=lambda: {"got": "observe", "why": "", "gpus": {}, "notes": {}})
    uuids: Sequence[str] = ()
    machine: int | None = None
    command: str = ""
    child: Child | None = None

    @property
    def are_locked(self) -> bool:
        return bool(self.told["got"] == "locked")

    def as_json(self) -> dict[str, Any]:
        """As a trial's record holds it: {"wish", "got", "why", "gpus": {uuid: {target_mhz, …}}, "notes"}.

        `target_mhz` is the SM clock that was asked for; the gates hold it against what was seen under load.
        """
        gpus = {uuid: {**setting, "target_mhz": setting["sm_mhz"]} for uuid, setting in self.told["gpus"].items()}
        return {"wish": self.wish, **self.told, "gpus": gpus}

    def lock(self, sm_mhz: int) -> None:
        """Another SM clock, for a search; 0: the cautious rule. Does nothing where nothing can be locked."""
        if self.child is None:
            return
        self.told = _asked(self.child, {"do": "lock", "uuids": list(self.uuids), "sm_mhz": sm_mhz}, _not_locked)
        if self.told["got"] in LOST and self.end():
            # What counts as not locked must not be locked while it is measured.
            restore_left(self.machine, self.command, kept=False)

    def end(self) -> bool:
        """End the guardian: the end of its input makes it put back what it locked. False if not even a kill ended it.

        One that was late is ended before anything else is asked: its late answer would be taken for the next one.
        """
        child, self.child = self.child, None
        return child is None or child.close(END_LIMIT_S)


@contextmanager
def hold_clocks(
    wish: Wish, cards: Visible, sm_mhz: int, *, machine: int, command: str, say: Callable[[str], None]
) -> Iterator[Clocks]:
    """The clocks of `cards` as wished for the `with` block. `machine`: the descriptor of the machine's lock, held.

    sm_mhz 0: the cautious rule. Raises NotComparableError where a lock is required and not to be had.
    """
    if wish == "observe":
        yield Clocks(told=_kept(cards.uuids or ()))
        return
    clocks = Clocks(wish=wish, uuids=cards.uuids or (), machine=machine, command=command)
    try:
        _start(clocks, cards.why)
        clocks.lock(sm_mhz)
        _tell(clocks, say)
        yield clocks
    finally:
        _finish(clocks, say)


def _kept(uuids: Sequence[str]) -> Mapping[str, Any]:
    """Where nothing is asked for now: what `perfguard clocks lock` was asked for earlier and still holds."""
    kept = {uuid: asdict(state.asked) for uuid, state in load_states(state_folder()).items() if uuid in uuids}
    return {"got": "kept" if kept else "observe", "why": "", "gpus": kept, "notes": {}}


def _start(clocks: Clocks, why: str = "") -> None:
    """A guardian, or the reason why there is none in `clocks.told`. `why`: no card is known, and that is why."""
    if not clocks.uuids:
        clocks.told = _not_locked("not_supported", why or "no GPU is visible to the trials")
        return
    try:
        clocks.child = start_guardian(clocks.machine, clocks.command)
    except ChildGone as error:
        clocks.told = _not_locked("error", str(error))


def start_guardian(machine: int | None, command: str) -> Child:
    """A guardian that is ready. `machine`: descriptor of the machine's lock, which it holds on to. Raises ChildGone."""
    arguments = [str(state_folder()), str(os.getpid()), command]
    try:
        child = start_child(GUARDIAN, arguments, keep_open=() if machine is None else (machine,))
    except OSError as error:
        raise ChildGone(f"the guardian of the clocks cannot be started: {error}") from error
    try:
        hello = child.hear(START_LIMIT_S)
    except (TimeoutError, ChildGone) as error:
        child.close(0.0)
        raise ChildGone(f"the guardian of the clocks: {error}") from error
    if "none" in hello:
        child.close(END_LIMIT_S)
        raise ChildGone(hello["none"])
    return child


def _tell(clocks: Clocks, say: Callable[[str], None]) -> None:
    """What came of it, once. Raises NotComparableError where it was required."""
    if clocks.are_locked:
        say(f"clocks locked: {in_words(clocks.told['gpus'])}")
        for uuid, note in clocks.told["notes"].items():
            say(f"{uuid}: {note}")
        return
    why = f"clocks are not locked ({clocks.told['got']}): {clocks.told['why']}"
    if clocks.wish == "require":
        observe = "with --clocks observe"
        raise NotComparableError(why, next_step(clocks.told["got"], f"the same as root, or {observe}", observe))
    say(f"{why}; measuring with clocks as they are")


def next_step(got: str, as_root: str, otherwise: str) -> str:
    """What to do about clocks that are not locked: only a permission that was refused is had by being root."""
    return as_root if got == "no_permission" and os.geteuid() != 0 else otherwise


def in_words(gpus: Mapping[str, Mapping[str, Any]]) -> str:
    """ "2 GPUs at SM 1485 MHz, memory 3201 MHz"."""
    alike: dict[str, int] = {}
    for gpu in gpus.values():
        memory = "" if gpu["memory_mhz"] is None else f", memory {gpu['memory_mhz']} MHz"
        words = f"SM {gpu['sm_mhz']} MHz{memory}"
        alike[words] = alike.get(words, 0) + 1
    return "; ".join(f"{count} GPU{'s' if count > 1 else ''} at {words}" for words, count in alike.items())


def _finish(clocks: Clocks, say: Callable[[str], None]) -> None:
    """Put everything back; what could not be is said. A guardian that was lost is replaced for that."""
    told: Mapping[str, Any] = {"restored": [], "failed": {}}
    if clocks.child is not None:
        told = _asked(clocks.child, {"do": "restore"}, _not_restored)
    if "lost" in told:
        say(f"the guardian of the clocks was lost ({told['failed']['']}); restoring without it")
    # It ends only now, and with it its hold on the machine. After one that cannot be ended, another would hang too.
    if clocks.end():
        told = {**told, **restore_left(clocks.machine, clocks.command, kept=False)}
    failed = {**dict.fromkeys(_left(), "they may still be locked"), **told["failed"]}
    for uuid, why in failed.items():
        say(f"the clocks of {uuid or 'the GPUs'} could not be restored: {why}; next: {RESTORE}")


def _left() -> list[str]:
    """Cards whose state on disk says that they were changed and not put back; what was kept on purpose is not meant."""
    return [uuid for uuid, state in load_states(state_folder()).items() if not state.is_kept]


def restore_left(machine: int | None, command: str, *, kept: bool) -> Mapping[str, Any]:
    """Restore what earlier perfguards left changed, and with `kept` what they were asked to leave so.

    {"restored": [uuid], "failed": {uuid: why}}; the machine must be held, then no other guardian lives.
    """
    states = load_states(state_folder())
    if not any(kept or not state.is_kept for state in states.values()):
        return {"restored": [], "failed": {}}
    try:
        child = start_guardian(machine, command)
    except ChildGone as error:
        return _not_restored("error", str(error))
    told = _asked(child, {"do": "restore_left", "kept": kept}, _not_restored)
    child.close(END_LIMIT_S)
    return told


def lock_and_keep(uuids: Sequence[str], sm_mhz: int, *, machine: int, command: str, why: str = "") -> Mapping[str, Any]:
    """All of these cards locked for longer than this process lives, or none: {"got", "why", "gpus", "notes"}.

    `why`: no card is known, and that is why.
    """
    clocks = Clocks(wish="require", uuids=uuids, machine=machine, command=command)
    _start(clocks, why)
    clocks.lock(sm_mhz)
    if clocks.child is None:
        return clocks.told
    kept = _asked(clocks.child, {"do": "keep"}, _not_locked) if clocks.are_locked else {}
    clocks.end()  # what was not kept it restores
    if not clocks.are_locked or _are_kept(uuids):
        return clocks.told
    restore_left(machine, command, kept=False)
    return _not_locked(kept.get("got", "error"), kept.get("why", "the lock could not be kept"))


def _are_kept(uuids: Sequence[str]) -> bool:
    """Whether all of these are kept by this process: its own answer may be late, what is on disk is not."""
    states = load_states(state_folder())
    return all(uuid in states and states[uuid].is_kept and states[uuid].pid == os.getpid() for uuid in uuids)


def clocks_now() -> Mapping[str, Any]:
    """{"gpus": {uuid: {field: value}}, "why": "" or why there are none}."""
    try:
        child = start_guardian(None, "perfguard clocks show")
    except ChildGone as error:
        return {"gpus": {}, "why": str(error)}
    told = _asked(child, {"do": "show"}, lambda got, why: {"": {"unknown": got, "why": why}})
    child.close(END_LIMIT_S)
    return {"gpus": {}, "why": told[""]["why"]} if "" in told else {"gpus": told, "why": ""}


def say_what_was_left(machine: int, command: str, say: Callable[[str], None]) -> None:
    """Before anything is measured: clocks that a killed perfguard left locked are put back, and that is said."""
    told = restore_left(machine, command, kept=False)
    if told["restored"]:
        say(f"restored the clocks that an earlier run left locked: {', '.join(told['restored'])}")
    for uuid, why in told["failed"].items():
        say(f"clocks that an earlier run left locked could not be restored: {uuid} {why}; next: {RESTORE}")
    for uuid, state in load_states(state_folder()).items():
        if state.is_kept:
            say(f"{uuid} is locked by `{state.command}` since {state.at}, until `{RESTORE}`")
    for user in states_of_others(state_folder()):
        say(f"user {user} left clocks locked; they or root can run `{RESTORE}`")


def _asked(child: Child, words: Mapping[str, Any], failed: Callable[[str, str], dict[str, Any]]) -> Mapping[str, Any]:
    try:
        told: Mapping[str, Any] = child.ask(words, ANSWER_LIMIT_S)
        return told
    except TimeoutError as error:
        return failed("hung", f"NVML: {error}")
    except ChildGone as error:
        return failed("died", str(error))


def _not_locked(got: str, why: str) -> dict[str, Any]:
    return {"got": got, "why": why, "gpus": {}, "notes": {}}


def _not_restored(got: str, why: str) -> dict[str, Any]:
    return {"restored": [], "failed": {"": why}, "lost": got}
