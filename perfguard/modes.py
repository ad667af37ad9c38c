"""A comparison whose sides are two modes of one commit and build: plain decoding against EAGLE-3. Pure.

Both sides give one metric, `throughput`, and one output, `tokens`, so that everything that judges two commits judges
two modes. Names, words and what a side measures are settled here; no number is judged.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from perfguard.errors import UsageError
from perfguard.records import BlockPlan, Campaign, Decision, Metric, Outcome, Reason, Side, Trial, Workload

SIDES: dict[Side, str] = {"base": "plain", "head": "eagle3"}
THROUGHPUT = Metric(name="throughput", unit="token/s", better="higher")
OUTPUT = "tokens"
# Below this precision ties and rounding part the two modes without any fault; elsewhere greedy tokens are equal.
EXACT_DTYPES = ("float32", "float64")
RESULTS = {Outcome.IMPROVEMENT: "win", Outcome.EQUIVALENT: "tie", Outcome.REGRESSION: "loss"}
OF_BUILD = "of this build, on this machine"
CAN = {
    Outcome.REGRESSION: f"EAGLE-3 is slower than plain decoding {OF_BUILD}; seen twice, the second time in launches "
    "that measure one mode each.",
    Outcome.IMPROVEMENT: f"EAGLE-3 is faster than plain decoding {OF_BUILD}; seen twice, the second time in launches "
    "that measure one mode each.",
    Outcome.EQUIVALENT: f"any difference between the modes, {OF_BUILD}, is smaller than the margin, where one process "
    "runs both.",
}
CANNOT = (
    "whether another build, machine, batch or text would show it: what is accepted depends on the text, and what a "
    "rebuild does to either mode was not measured."
)
NO_BUILDS = f"confirmed {OF_BUILD}: what a rebuild does to either mode is not known"


def are_compared(campaign: Campaign) -> bool:
    """Whether the sides are modes."""
    return any(arm.mode for arm in campaign.arms)


def of_modes(workload: Workload) -> Workload:
    """The workload with the one metric that its two modes share. Raises UsageError where it lacks one of them."""
    names = {metric.name for metric in workload.metrics}
    missing = [m for m in SIDES.values() if m not in workload.modes or f"{m}_{THROUGHPUT.name}" not in names]
    if missing:
        has = ", ".join(workload.modes) or "no modes"
        text = f"{workload.name} measures no {missing[0]} decoding (it has {has}): there are no two modes to compare"
        raise UsageError(text, "perfguard workloads")
    return replace(workload, modes=tuple(SIDES.values()), metrics=(THROUGHPUT,))


def of_mode(workload: Workload, mode: str) -> Workload:
    """What a launch of one mode measures, by the names of the runner."""
    metrics = tuple(replace(metric, name=f"{mode}_{metric.name}") for metric in workload.metrics)
    return replace(workload, modes=(mode,), metrics=metrics)


def shared(trial: Trial, mode: str, workload: Workload) -> Trial:
    """A trial under the names that both sides share. Its output only where both modes have to produce the same."""
    names = {f"{mode}_{THROUGHPUT.name}": THROUGHPUT.name}
    values = {names.get(name, name): value for name, value in trial.values.items()}
    digests = {OUTPUT: trial.digests[mode]} if mode in trial.digests and must_agree(workload) else trial.digests
    return replace(trial, values=values, digests=digests)


def must_agree(workload: Workload) -> bool:
    """Whether greedy decoding has to give the same tokens in both modes, to the last bit."""
    return not is_accept_length_set(workload) and not is_sampled(workload) and is_exact(workload)


def is_accept_length_set(workload: Workload) -> bool:
    """Acceptance by coin, whatever the logits say: tokens mean nothing then."""
    params = workload.params
    return workload.runner == "tp_moe" and bool(params.get("accept_length") or params.get("accept_rates"))


def is_sampled(workload: Workload) -> bool:
    return bool(workload.params.get("temperature"))


def is_exact(workload: Workload) -> bool:
    return workload.params.get("dtype", EXACT_DTYPES[0]) in EXACT_DTYPES


def with_one_build(campaign: Campaign, plans: Sequence[BlockPlan]) -> list[BlockPlan]:
    """Where the sides are modes the question is about one build, so that confirmation makes no other."""
    return [replace(plan, builds="1111") if are_compared(campaign) else plan for plan in plans]


def moded_decision(decision: Decision) -> Decision:
    """Reasons of the statistics in words of modes. Those of launches that failed are left as they are."""
    metrics = tuple(replace(result, reasons=_moded(result.reasons)) for result in decision.metrics)
    return replace(decision, metrics=metrics, reasons=_moded(decision.reasons))


def _moded(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    return tuple(_reason(reason) if reason.code.isupper() else reason for reason in reasons)


def _reason(reason: Reason) -> Reason:
    if reason.code == "BUILDS_UNKNOWN":
        return replace(reason, text=NO_BUILDS)
    text = reason.text.replace("fresh blocks with fresh builds", "blocks of fresh launches")
    return replace(reason, text=in_modes(text.replace("confirmation with fresh builds", "confirmation by launches")))


def in_modes(text: str) -> str:
    """Sides by the names of their modes."""
    for side, mode in SIDES.items():
        text = re.sub(rf"\b{side}\b", mode, text)
    return text


def moded_sentence(text: str, decision: Decision, warnings: Sequence[str] = ()) -> str:
    """The verdict's sentence: what stands in its way first, then win, tie or loss."""
    said = in_modes(text[:1].lower() + text[1:]).removesuffix(".").replace("fresh blocks", "fresh launches")
    result = RESULTS.get(decision.outcome)
    body = f"A {result}: {said}" if result else f"No win, tie or loss: {said}"
    return "".join(f"{warning[:1].upper()}{warning[1:]}. " for warning in warnings) + f"{body} ({OF_BUILD})."


def moded_conclusions(decision: Decision, otherwise: dict[str, str]) -> dict[str, str]:
    """{"can": …, "cannot": …}; `otherwise` where nothing was found out about the modes."""
    if decision.outcome not in CAN:
        return {name: in_modes(text) for name, text in otherwise.items()}
    return {"can": CAN[decision.outcome], "cannot": CANNOT}
