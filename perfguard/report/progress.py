"""What a person sees while trials run: one line a block, and on a terminal one that says what is going on.

Nothing here runs by itself: no spinner and no thread that could disturb what is being measured. Lines change
only between trials.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from perfguard.records import BlockPlan, Decision, Trial
from perfguard.report import bisect, foreign, units

TRIALS_A_BLOCK = 4
CAUSE_LENGTH = 300  # of an engine's last words, which are told in full in the end


@dataclass(frozen=True, kw_only=True)
class Progress:
    """`costs_s` collects what trials took, pauses included: the time that is left is counted in them."""

    console: Console
    is_quiet: bool = False
    live: Live | None = None
    costs_s: list[float] = field(default_factory=list)

    def note(self, text: str) -> None:
        """What is going on now, "building head" for example. Shown on a terminal only, until the next one."""
        if self.live is not None:
            self.live.update(Text(foreign.one_line(text)), refresh=True)

    def say(self, text: str) -> None:
        """A line that stays."""
        if not self.is_quiet:
            self.console.print(Text(foreign.one_line(text)))

    def trial_ended(self, trial: Trial, cost_s: float) -> None:
        """`cost_s`: wall time of the trial with its pause, also of one that failed."""
        self.costs_s.append(cost_s)
        text = f"{place_of(trial)}: {trial.status.replace('_', ' ')}"
        self.note(text)
        if trial.status != "ok" and trial.reasons:  # now, since the same may fail three times before a verdict says so
            self.say(f"{text}, try {trial.attempt + 1}: {trial.reasons[0].text[:CAUSE_LENGTH]}")

    def block_ended(
        self, plan: BlockPlan, trials: Sequence[Trial], decision: Decision, least_blocks: int, most_blocks: int
    ) -> None:
        """`least_blocks`, `most_blocks`: how many more blocks this campaign can take."""
        left = remaining_range(self.costs_s, least_blocks, most_blocks)
        self.say(f"{block_line(plan, trials, decision)}{remaining_text(left, least_blocks, most_blocks)}")

    def reading_ended(self, reading: Mapping[str, Any]) -> None:
        """A reading of a bisect: what it was, and on a terminal where the probability lies now, oldest commit left."""
        self.say(bisect.reading_line(reading))
        self.note(f"probability by commit |{bisect.spark(reading['posterior'])}|")


@contextlib.contextmanager
def progress(console: Console, *, is_quiet: bool = False) -> Iterator[Progress]:
    """`console` is that of standard error, so that standard output holds the result alone."""
    if is_quiet or not console.is_terminal or console.is_dumb_terminal:
        yield Progress(console=console, is_quiet=is_quiet)
        return
    with Live(Text(""), console=console, auto_refresh=False, transient=True) as live:
        yield Progress(console=console, live=live)


def place_of(trial: Trial) -> str:
    if trial.stage == 0:
        return f"first run of {trial.side}, build {trial.build}"
    return f"block {trial.stage}.{trial.block} slot {trial.slot} {trial.side}"


def remaining_range(costs_s: Sequence[float], least_blocks: int, most_blocks: int) -> tuple[float, float] | None:
    """Seconds: the fewest blocks at the cheapest trial so far, the most blocks at the dearest.

    None before the first trial: there is nothing to promise from.
    """
    if not costs_s:
        return None
    return least_blocks * TRIALS_A_BLOCK * min(costs_s), most_blocks * TRIALS_A_BLOCK * max(costs_s)


def remaining_text(left: tuple[float, float] | None, least_blocks: int, most_blocks: int) -> str:
    """; left: 1 to 8 blocks, 40 s to 6 min. Empty when nothing is left."""
    if left is None or most_blocks == 0:
        return ""
    blocks = units.counted(most_blocks, "block")
    blocks = blocks if least_blocks == most_blocks else f"{least_blocks} to {blocks}"
    return f"; left: {blocks}, {units.duration(left[0])} to {units.duration(left[1])}"


def block_line(plan: BlockPlan, trials: Sequence[Trial], decision: Decision) -> str:
    """block 1.3 ABBA: 4 ok; tpot +2.9 % (+1.1 to +4.8 %); so far INCONCLUSIVE."""
    statuses = Counter(trial.status for trial in trials)
    ended = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in statuses.items())
    found = [
        f"; {r.metric.name} {units.slowdown(r.slowdown)} ({units.interval(r.ci_low, r.ci_high)})"
        for r in decision.metrics
        if r.metric.primary and r.slowdown is not None and not r.metric.exact
    ]
    state = "" if decision.state == "done" else "so far "
    return f"block {plan.stage}.{plan.index} {plan.order}: {ended}{''.join(found)}; {state}{decision.outcome}"
