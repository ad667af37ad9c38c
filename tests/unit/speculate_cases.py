"""A comparison of two modes as records: numbers of a launch as the runner gives them, under the names both share."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from campaign_cases import CHECKOUTS, SHORT, campaign, plans_of, side_of, trial

from perfguard.judging import verdict_json
from perfguard.modes import OUTPUT, SIDES, of_modes
from perfguard.policy import Policy
from perfguard.records import Arm, Campaign, Revision, Trial, Workload
from perfguard.workloads import BUILT_IN, find

COMMIT = "a" * 40
FAKE = find("fake", {w.name: w for w in BUILT_IN})
# 1000 cycles; of 3 drafted tokens 600, 300 and 150 were accepted: 2.05 tokens a cycle.
ACCEPTED = (600, 300, 150)


def moded(policy: Policy = SHORT, workload: Workload = FAKE, **changes: Any) -> Campaign:
    revision = Revision(name="HEAD", commit=COMMIT, tree="c" * 40, subject="one")
    arms = tuple(Arm(side=side, revision=revision, mode=mode) for side, mode in SIDES.items())
    method = {"changed_files": [], "repo_modules": {}}
    return replace(
        campaign(policy), workload=of_modes(workload), arms=arms, scope="in-process", method=method, **changes
    )


def counts(accepted: Sequence[int] = ACCEPTED, cycles: int = 1000, **more: Any) -> dict[str, Any]:
    return {"cycles": cycles, "emitted": cycles + sum(accepted), "accepted_by_position": list(accepted), **more}


def record(side: str, speculative: dict[str, Any] | None = None, *, only_cycle: bool = False) -> dict[str, Any]:
    """Plain steps of 10 ms; cycles of 25 ms: draft 5, verify 18, accept 2. `only_cycle`: parts are not timed apart."""
    about = {"checkout": CHECKOUTS["base"], "origin": {}, "warmup": {}}
    if side == "base":
        return {**about, "samples": {"plain_token_s": [0.010] * 5}, "counts": {"plain": {"steps": 5}}}
    samples = {"cycle": 0.025, "draft": 0.005, "verify": 0.018, "accept": 0.002}
    samples = {"cycle": samples["cycle"]} if only_cycle else samples
    timed = {f"eagle3_{name}_s": [seconds] * 5 for name, seconds in samples.items()}
    return {**about, "samples": timed, "counts": {"eagle3": counts() if speculative is None else speculative}}


def block(plan: Any, rate: Callable[[str], float], **changes: Any) -> list[Trial]:
    """Four trials of a block. `changes`: of records (`speculative`) and digests (`outputs`, by side)."""
    outputs = changes.get("outputs", {"base": "same", "head": "same"})
    sides = [side_of(plan, slot) for slot in range(4)]
    return [
        trial(
            plan.stage, plan.index, slot, side, 1.0,
            values={"throughput": rate(side)},
            digests={SIDES[side] if changes.get("by_mode") else OUTPUT: outputs[side]} if outputs[side] else {},
            record=record(side, changes.get("speculative"), only_cycle=changes.get("only_cycle", False)),
        )
        for slot, side in enumerate(sides)
    ]  # fmt: skip


def judged(
    rate: Callable[[str], float], of: Campaign | None = None, num_twos: int = 2, **changes: Any
) -> dict[str, Any]:
    """The JSON after two blocks, and `num_twos` of confirmation."""
    of = of or moded()
    plans = [*plans_of(of)[:2], *plans_of(of, 2)[:num_twos]]
    trials = [one for plan in plans for one in block(plan, rate, **changes)]
    return verdict_json(of, [*plans_of(of), *plans_of(of, 2)], trials)


def speculation_is(factor: float) -> Callable[[str], float]:
    """Eagle3 so many times as fast as 100 token/s of plain decoding."""
    return lambda side: 100.0 * (factor if side == "head" else 1.0)
