"""One thread for calls that may never return. Knows nothing of what is called."""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Worker:
    """The thread that makes every call. Once a call has outlived its limit, nothing is asked any more."""

    limit_s: float
    tasks: "queue.SimpleQueue[Callable[[], None] | None]" = field(default_factory=queue.SimpleQueue)
    is_stuck: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        threading.Thread(target=self._work, daemon=True, name="nvml").start()

    def _work(self) -> None:
        while (task := self.tasks.get()) is not None:
            task()

    def run(self, task: Callable[[], None], limit_s: float | None = None) -> bool:
        """Whether `task` ended within the limit. `task` must catch what it raises."""
        if self.is_stuck.is_set():
            return False
        done = threading.Event()

        def work() -> None:
            task()
            done.set()

        self.tasks.put(work)
        if done.wait(self.limit_s if limit_s is None else limit_s):
            return True
        self.is_stuck.set()
        return False
