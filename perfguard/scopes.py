"""What a narrower scope asks for and what its verdict may say. Pure: requests and decisions in, words out.

Scope in-process: blocks that can suspect are measured by one launch each, both sides as instances in one process. A
suspicion is confirmed by ordinary launches, so that no REGRESSION rests on a shared process.
"""

from collections.abc import Sequence
from dataclasses import replace

from perfguard.errors import UsageError
from perfguard.policy import Policy
from perfguard.records import Arm, BlockPlan, Campaign, Decision, Outcome, Reason, Scope, Workload
from perfguard.stats.extension import is_suspicion

IN_PROCESS: Scope = "in-process"
SHARED = "Shared process: import state, allocator and clocks are common to both sides"
# Said of launches, where in this scope a launch holds four instances.
OF_LAUNCHES = frozenset({"LOTTERY", "LOTTERY_OPEN", "EXACT_EQUAL"})


def scope_of(text: str) -> Scope:
    """full (also where nothing was said) or in-process. Raises UsageError."""
    match text:
        case "" | "full":
            return "full"
        case "in-process":
            return IN_PROCESS
    raise UsageError(f"--scope {text!r} is neither full nor in-process", "--scope full")


def check_scope(scope: Scope, workload: Workload, arms: Sequence[Arm], policy: Policy) -> None:
    """Raises UsageError for what one process for both sides cannot give."""
    if scope != IN_PROCESS:
        return
    if workload.runner == "command":
        raise UsageError("--scope in-process: a command of your own is a process of its own", "--scope full")
    for name in ("env", "params", "python"):
        if len({repr(getattr(arm, name)) for arm in arms}) > 1:
            raise UsageError(f"the sides differ in {name}: one process cannot have both", "--scope full")
    if policy.slow_rate:
        raise UsageError("--slow-rate counts launches, and in one launch both sides share their luck", "--scope full")


def is_one_launch(campaign: Campaign, plan: BlockPlan) -> bool:
    """Whether this block is measured by one launch."""
    return campaign.scope == IN_PROCESS and is_suspicion(plan.stage)


def scoped_decision(decision: Decision, scope: Scope) -> Decision:
    """Reasons in the words of the scope: what was counted are instances, and no rate of slow launches follows."""
    if scope != IN_PROCESS:
        return decision
    metrics = tuple(replace(result, reasons=_scoped(result.reasons)) for result in decision.metrics)
    return replace(decision, metrics=metrics, reasons=_scoped(decision.reasons))


def _scoped(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    return tuple(_reason(reason) for reason in reasons)


def _reason(reason: Reason) -> Reason:
    if reason.code in OF_LAUNCHES:
        return replace(reason, text=reason.text.replace("launches", "instances"))
    if reason.code == "SLOW_RATE":
        text = "luck of a launch is common to both sides here: no rate of slow launches is excluded"
        return Reason(code="SHARED_PROCESS", text=text)
    return reason


def scoped_sentence(text: str, decision: Decision, scope: Scope) -> str:
    """The verdict's sentence with the scope in it."""
    if scope != IN_PROCESS:
        return text
    is_confirmed = decision.outcome in (Outcome.REGRESSION, Outcome.IMPROVEMENT)
    how = "scope in-process, confirmed by fresh launches" if is_confirmed else "scope in-process"
    return f"{text.removesuffix('.')} ({how})."


def scope_note(decision: Decision, scope: Scope) -> str:
    """What can be concluded in this scope, behind what the outcome says; empty for a full one."""
    if scope != IN_PROCESS or decision.outcome is Outcome.INVALID:
        return ""
    if decision.outcome in (Outcome.REGRESSION, Outcome.IMPROVEMENT):
        return f"{SHARED} where it was suspected; confirmed by fresh launches."
    return f"{SHARED}; only fresh launches show what a commit does to its process as a whole."
