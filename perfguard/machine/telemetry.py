"""Telemetry of one campaign: a sampler process that is told when a launch begins and ends, and may hang or die.

Nothing that NVML does reaches a trial: every answer has a limit, a sampler that is late or gone is ended and started
again for the next trial, and after several losses it stays off. Must not judge what was seen.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from perfguard.machine.child import Child, ChildGone, start_child

SAMPLER = "perfguard.machine.sampler"
# Above what opening NVML may take on a machine with sleeping cards; an answer afterwards takes a fraction of a second.
START_LIMIT_S = 75.0
ANSWER_LIMIT_S = 5.0
# Of that limit, what a call of NVML may take: so that the sampler can still tell what it saw before one hung.
READ_SHARE = 0.6
# The sampler ends by itself when its input closes.
END_LIMIT_S = 0.5
# Whatever took it three times takes it a fourth.
MAX_LOSSES = 3

Status = Literal["ok", "none", "died", "hung"]


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What was seen of the GPUs of one launch, by UUID; times on the monotonic clock, in seconds.

    `before`, `after`: field -> value or {"unknown", "why"}. `during`: see `sampler.Watch`. All empty where status is
    not "ok", `before` excepted.
    """

    status: Status
    why: str = ""
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    during: Mapping[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class Telemetry:
    """The sampler of one campaign. `has_gpu` False: there is nothing to sample and no process is ever started.

    `interval_s` is what the first sampler found cheap enough; a restarted one keeps it, so that no arm is watched
    more closely than the other. `off`: why it stays off; `say` hears that once.
    """

    has_gpu: bool = False
    say: Callable[[str], None] = lambda text: None
    start_limit_s: float = START_LIMIT_S
    answer_limit_s: float = ANSWER_LIMIT_S
    interval_s: float = 0.0
    num_losses: int = 0
    off: Recording | None = None
    child: Child | None = None
    current: Recording = field(default_factory=lambda: Recording(status="none", why="nothing was begun"))

    def begin(self, uuids: Sequence[str]) -> None:
        """A launch on these cards begins now. Returns when what was before it has been read, or has not been."""
        if not self.has_gpu or not uuids:
            why = "no GPU is visible to the trial" if self.has_gpu else "this machine has no GPU that NVML knows"
            self.current = Recording(status="none", why=why)
        elif self.off is not None:
            self.current = self.off
        else:
            self.current = self._attempt(lambda child: self._begin(child, uuids))

    def end(self) -> Recording:
        """The launch has ended: what was seen. Whatever went wrong is in its status."""
        if self.current.status == "ok":
            begun = self.current
            self.current = self._attempt(lambda child: self._end(child, begun))
        return self.current

    def look(self, uuids: Sequence[str], names: Sequence[str]) -> Mapping[str, Any]:
        """{uuid: {field: value}} now, between launches. Empty where nothing can be read."""
        if not self.has_gpu or not uuids or self.off is not None:
            return {}
        words = {"do": "look", "uuids": list(uuids), "names": list(names)}
        seen = self._attempt(lambda child: Recording(status="ok", before=child.ask(words, self.answer_limit_s)))
        return seen.before if seen.status == "ok" else {}

    def close(self) -> None:
        if self.child is not None:
            self.child.close(END_LIMIT_S)
            self.child = None

    def _attempt(self, ask: Callable[[Child], Recording]) -> Recording:
        try:
            if self.child is None:
                self.child = start_child(SAMPLER, [repr(self.interval_s), repr(READ_SHARE * self.answer_limit_s)])
                hello = self.child.hear(self.start_limit_s)
                if "none" in hello:
                    return self._switch_off(Recording(status="none", why=hello["none"]))
                self.interval_s = hello["interval_s"]
            return ask(self.child)
        except TimeoutError as error:
            return self._lose(Recording(status="hung", why=f"NVML: {error}", before=self.current.before))
        except (ChildGone, OSError) as error:
            return self._lose(Recording(status="died", why=f"NVML: {error}", before=self.current.before))

    def _begin(self, child: Child, uuids: Sequence[str]) -> Recording:
        return Recording(status="ok", before=child.ask({"do": "begin", "uuids": list(uuids)}, self.answer_limit_s))

    def _end(self, child: Child, begun: Recording) -> Recording:
        told = child.ask({"do": "end"}, self.answer_limit_s)
        seen = Recording(status="ok", before=begun.before, after=told["after"], during=told["during"])
        return self._lose(replace(seen, status="hung", why=told["hung"])) if told["hung"] else seen

    def _lose(self, lost: Recording) -> Recording:
        """End what is left of the sampler. One that SIGKILL does not end is left alone, and no other is started."""
        self.num_losses += 1
        child, self.child = self.child, None
        is_gone = child is None or child.close(0.0)
        if not is_gone:
            self._switch_off(Recording(status=lost.status, why=f"{lost.why}; its process cannot be ended"))
        elif self.num_losses >= MAX_LOSSES:
            self._switch_off(Recording(status=lost.status, why=f"{lost.why}; given up after {MAX_LOSSES} times"))
        return lost

    def _switch_off(self, why: Recording) -> Recording:
        self.off = why
        self.say(f"from here on without GPU telemetry: {why.why}")
        self.close()
        return why


@contextmanager
def open_telemetry(*, has_gpu: bool, say: Callable[[str], None]) -> Iterator[Telemetry]:
    """Telemetry for the `with` block; its process ends with the block, and with perfguard however that ends."""
    telemetry = Telemetry(has_gpu=has_gpu, say=say)
    try:
        yield telemetry
    finally:
        telemetry.close()
