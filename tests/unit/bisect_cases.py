"""Searches for tests: what is stored of a bisect after some readings, without a launch."""

from dataclasses import replace
from typing import Any

import store_cases as cases

from perfguard.bisection.state import Stored
from perfguard.records import Bisect, Candidate, CandidateBuild, Metric, PairPlan, Reason, Revision, Trial, Workload

SECONDS = Metric(name="seconds", unit="s", better="lower")


def candidate(number: int, **changes: Any) -> Candidate:
    sha = f"{number:040x}"
    revision = Revision(name=sha[:12], commit=sha, tree=sha, subject=f"step {number}")
    return replace(Candidate(revision=revision, code=sha, parents=(f"{number - 1:040x}",)), **changes)


def stored(num_candidates: int = 8, **changes: Any) -> Stored:
    """Nothing measured yet."""
    campaign = cases.campaign(
        kind="bisect",
        workload=Workload(name="bench", runner="command", command=("sh", "bench.sh"), metrics=(SECONDS,)),
        method={"repo_modules": {}},
    )
    candidates = tuple(candidate(number) for number in range(1, num_candidates + 1))
    search = Bisect(candidates=candidates, num_commits=num_candidates + 2, metric="seconds")
    return replace(Stored(campaign=campaign, search=search), **changes)


def launch(pair: PairPlan, slot: int, value: float | None) -> Trial:
    side = "base" if pair.order[slot] == "A" else "head"
    return cases.trial(
        id=f"p{pair.number}s{slot}",
        stage=1,
        block=pair.number,
        slot=slot,
        side=side,
        status="ok" if value is not None else "crashed",
        attempt=0,
        values={} if value is None else {"seconds": value},
        reasons=() if value is not None else (Reason(code="command_failed", text="exit code 1"),),
        record={},
    )


def with_reading(before: Stored, position: int, good: float | None, value: float | None, order: str = "AB") -> Stored:
    """One more pair; None: that launch failed, and what would follow it did not run."""
    pair = PairPlan(number=len(before.pairs), position=position, order=order, pauses=(0.0, 0.0))
    launches = []
    for slot, letter in enumerate(order):
        launches.append(launch(pair, slot, good if letter == "A" else value))
        if launches[-1].status != "ok":
            break
    return replace(before, pairs=(*before.pairs, pair), trials=(*before.trials, *launches))


def with_build(before: Stored, position: int, status: str = "ok", text: str = "", **changes: Any) -> Stored:
    reasons = (Reason(code="unbuildable" if status == "unbuildable" else "same_code", text=text),) if text else ()
    build = CandidateBuild(position=position, status=status, reasons=reasons, **changes)  # type: ignore[arg-type]
    return replace(before, builds=(*before.builds, build))


def until_done(before: Stored, slow_from: int, factor: float = 1.2) -> Stored:
    """Readings without noise where the search asks for them, until it asks for none: +-0.1 % in turn, so that a spread
    is seen."""
    from perfguard.bisection.state import standing

    now = before
    while (at := standing(now)).state == "measure":
        assert at.decision is not None
        assert at.decision.position is not None
        spread = 1 + 0.001 * (-1) ** len(now.pairs)
        now = with_reading(
            now, at.decision.position, 1.0, (factor if at.decision.position >= slow_from else 1.0) * spread
        )
    return now


def comparison(outcome: str, slowdown: float = 1.2, **changes: Any) -> dict[str, Any]:
    """A finished confirmation, as far as a bisect reads it."""
    metric = {"name": "seconds", "slowdown": slowdown, "ci_low": slowdown / 1.02, "ci_high": slowdown * 1.02}
    return {
        "id": "c-0002",
        "outcome": outcome,
        "metrics": [metric],
        "trials": {"ok": 20},
        "reasons": [{"code": "same_code", "text": "one code twice"}],
        "builds": 14,
        "launches_s": 100.0,
        "base": {"commit": "b" * 40},
        "head": {"commit": "c" * 40},
        **changes,
    }
