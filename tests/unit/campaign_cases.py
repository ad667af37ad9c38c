"""A small comparison as records: what was asked for, what was planned, and trials as they would have come out."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from perfguard.experiment import planned_blocks
from perfguard.policy import Policy
from perfguard.records import Arm, BlockPlan, Campaign, Metric, Reason, Revision, Trial, Workload
from perfguard.stats.plan import builds_of

SECONDS = Metric(name="seconds", unit="s", better="lower")
# Two blocks of stage one, two of confirmation: the shortest comparison that can report a change.
SHORT = Policy(margin=0.05, alpha=0.05, max_blocks=2, max_confirm_blocks=2, confirm_builds=2)
BASE, HEAD = "a" * 40, "b" * 40
CHECKOUTS = {"base": "/cache/x/tree", "head": "/cache/y/tree"}


def campaign(policy: Policy = SHORT, metrics: Sequence[Metric] = (SECONDS,), **changes: Any) -> Campaign:
    arms = (
        Arm(side="base", revision=Revision(name="HEAD~1", commit=BASE, tree="c" * 40, subject="one")),
        Arm(side="head", revision=Revision(name="HEAD", commit=HEAD, tree="d" * 40, subject="two")),
    )
    whole: dict[str, Any] = {
        "id": "c-1",
        "kind": "compare",
        "created_at": "2026-01-02T03:04:05+00:00",
        "workload": Workload(name="bench", runner="command", metrics=tuple(metrics), command=("sh", "bench.sh")),
        "arms": arms,
        "policy": asdict(policy),
        "seed": 7,
        "repository": "/srv/repo",
        "machine": {"host": "here"},
        "method": {"changed_files": ["engine.py"], "repo_modules": {"engine": "engine.py"}},
    }
    return Campaign(**whole | changes)


def first_run(side: str, *, build: int = 1, loaded: str | None = None, **changes: Any) -> Trial:
    """The unmeasured first run of a build; by default it loaded this side's own engine.py."""
    checkout = CHECKOUTS[side]
    origin = {"engine": {"path": f"{checkout}/engine.py", "sha256": loaded or side}}
    slot = 0 if side == "base" else 1
    record = {"checkout": checkout, "origin": origin}
    return trial(0, build, slot, side, 1.0, id=f"first-{side}-{build}", build=build, record=record, **changes)


def trial(stage: int, block: int, slot: int, side: str, seconds: float, **changes: Any) -> Trial:
    whole: dict[str, Any] = {
        "id": f"{stage}.{block}.{slot}.{changes.get('attempt', 0)}",
        "stage": stage,
        "block": block,
        "slot": slot,
        "side": side,
        "build": 1,
        "attempt": 0,
        "status": "ok",
        "started_at": "2026-01-02T03:04:06+00:00",
        "wall_s": 1.5,
        "measured_s": seconds,
        "values": {"seconds": seconds},
    }
    return Trial(**whole | changes)


def failed(plan: BlockPlan, slot: int, status: str = "invalid", code: str = "not_positive", **changes: Any) -> Trial:
    reasons = (Reason(code=code, text=f"seen in {plan.index}.{slot}"),)
    return trial(plan.stage, plan.index, slot, side_of(plan, slot), 9.0, status=status, reasons=reasons, **changes)


def side_of(plan: BlockPlan, slot: int) -> str:
    return "base" if plan.order[slot] == "A" else "head"


def whole_block(plan: BlockPlan, seconds: Callable[[str], float]) -> list[Trial]:
    """Four good trials; `seconds` gives the value by side."""
    sides = [side_of(plan, slot) for slot in range(4)]
    return [
        trial(plan.stage, plan.index, slot, side, seconds(side), build=builds_of(plan.builds)[slot])
        for slot, side in enumerate(sides)
    ]


def plans_of(of: Campaign, stage: int = 1) -> list[BlockPlan]:
    return [plan for plan in planned_blocks(of) if plan.stage == stage]


def measured(of: Campaign, seconds: Callable[[str], float], *, num_ones: int = 2, num_twos: int = 0) -> list[Trial]:
    """Whole blocks of both stages, each after the first runs of the builds that it is the first to need."""
    trials = [first_run("base"), first_run("head")]
    ready = {1}
    for plan in (*plans_of(of)[:num_ones], *plans_of(of, 2)[:num_twos]):
        for build in sorted(set(builds_of(plan.builds)) - ready):
            trials += [first_run("base", build=build), first_run("head", build=build)]
            ready.add(build)
        trials += whole_block(plan, seconds)
    return trials


def slower_head(side: str) -> float:
    return 1.3 if side == "head" else 1.0


def same(side: str) -> float:
    return 1.0
