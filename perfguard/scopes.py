"""What a narrower scope asks for and what its verdict may say. Pure: requests and decisions in, words out.

Scope in-process: blocks that can suspect are measured by one launch each, both sides as instances in one process. A
suspicion is confirmed by ordinary launches, so that no REGRESSION rests on a shared process.

Scope slice: an engine was started with few layers and weights drawn at random (--thin). What it finds is real for what
it ran; it says nothing of what depends on weights or on size.

Scope attached: servers that somebody else started were asked. Nobody asks for it by name: it follows from the
parameter `url`. Nothing can be started afresh there, so that it ends with a suspicion at most.

Scope resident: perfguard starts each side's engine once and lets one sleep while the other is measured. It saves loads
and promises what attached does: one launch a side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from perfguard.errors import UsageError
from perfguard.policy import Policy
from perfguard.records import Arm, BlockPlan, Campaign, Decision, Outcome, Reason, Scope, Trial, Workload
from perfguard.stats.extension import is_suspicion

IN_PROCESS: Scope = "in-process"
ATTACHED: Scope = "attached"
SLICE: Scope = "slice"
RESIDENT: Scope = "resident"
# Each side is one launch, so that nothing confirms and the luck of that launch is in every value.
ONE_LAUNCH = (ATTACHED, RESIDENT)
THIN = "Few layers with weights drawn at random; kernels, collectives and the number of GPUs are real"
NOT_ACQUITTED = "accept length, the skew of routing to experts, and memory at full size are not acquitted by it"
RUNNING = "Running servers: each side is one launch that somebody else made"
CANNOT_BE_SHARED: Mapping[Scope, str] = {
    ATTACHED: "a running server is neither started nor shared",
    SLICE: "an engine with few layers has a scope of its own",
}
ONE_SIDED: Mapping[Scope, str] = {
    ATTACHED: "is a running server: one side would be fresh, one not (--base-set url=…, --head-set url=…)",
    SLICE: "has few layers with random weights (thin_layers): another model is no other commit",
}
RESIDENTS = "Resident servers: each side was launched once, and slept while the other was measured"
RESIDENT_PROMISE = (
    "each side's server was started once and slept while the other was measured: the luck of that one launch is in"
    " every window of its side, so that a change is suspected at most; strangers on the GPUs are not looked for"
)
SHARED = "Shared process: import state, allocator and clocks are common to both sides"
# Said of launches, where in this scope a launch holds four instances.
OF_LAUNCHES = frozenset({"LOTTERY", "LOTTERY_OPEN", "EXACT_EQUAL"})
# What is counted in place of launches, and what is said in place of a rate of slow ones.
WORDS: Mapping[Scope, tuple[str, Reason]] = {
    IN_PROCESS: (
        "instances",
        Reason(
            code="SHARED_PROCESS",
            text="luck of a launch is common to both sides here: no rate of slow launches is excluded",
        ),
    ),
    ATTACHED: (
        "loads",
        Reason(code="NO_LAUNCHES", text="each side is one launch of somebody else: no rate of slow ones is excluded"),
    ),
    RESIDENT: (
        "windows",
        Reason(code="NO_LAUNCHES", text="each side is one launch: no rate of slow ones is excluded"),
    ),
}
ENGINES_THAT_SLEEP = ("sglang", "vllm")
# Parameters of a launch that a resident, which is launched once, has no use for.
OF_A_LAUNCH: Mapping[str, str] = {"age_s": "--age", "trace": "--trace", "port": "a fixed port"}
# Parameters of a server that is started for the campaign.
OF_A_START: Mapping[str, str] = {"age_s": "--age", "trace": "--trace", "thin_layers": "--thin"}
# Codes of trials after which no further window of a resident means anything.
RESIDENT_ENDS = frozenset({"engine_died", "not_asleep", "not_awake", "engine_left_behind"})


def scope_of(text: str) -> Scope:
    """full (also where nothing was said) or in-process. Raises UsageError."""
    match text:
        case "" | "full":
            return "full"
        case "in-process":
            return IN_PROCESS
        case "resident":
            return RESIDENT
    raise UsageError(f"--scope {text!r} is neither full, in-process nor resident", "--scope full")


def check_scope(scope: Scope, workload: Workload, arms: Sequence[Arm], policy: Policy) -> None:
    """Raises UsageError for what one process for both sides, or one launch a side, cannot give."""
    if scope == RESIDENT:
        _check_residents(workload, arms)
    if scope != IN_PROCESS:
        return
    if workload.runner in ("command", "engine"):
        what = "a command of your own" if workload.runner == "command" else "an engine"
        raise UsageError(f"--scope in-process: {what} is a process of its own", "--scope full")
    for name in ("env", "params", "python"):
        if len({repr(getattr(arm, name)) for arm in arms}) > 1:
            raise UsageError(f"the sides differ in {name}: one process cannot have both", "--scope full")
    if policy.slow_rate:
        raise UsageError("--slow-rate counts launches, and in one launch both sides share their luck", "--scope full")


def _check_residents(workload: Workload, arms: Sequence[Arm]) -> None:
    engines = {str(_engine_param(workload, arm, "engine") or "") for arm in arms}
    if not engines <= set(ENGINES_THAT_SLEEP):
        what = " and ".join(sorted(filter(None, engines))) or workload.name
        raise UsageError(f"--scope resident: {what} cannot be put to sleep", "a workload of sglang or vllm")
    if len(workload.modes) > 1:
        text = f"--scope resident: one server a side, and modes {', '.join(workload.modes)} are a server each"
        raise UsageError(text, f"--modes {workload.modes[0]}")
    for name, option in OF_A_LAUNCH.items():
        if any(_engine_param(workload, arm, name) for arm in arms):
            raise UsageError(
                f"--scope resident: {option} is of a launch, and servers are launched once", "--scope full"
            )


def refuse_of_a_start(workload: Workload, arms: Sequence[Arm], pin_args: str) -> None:
    """Raises UsageError for what is done to a server of our own: one that runs is asked, and nothing else."""
    given = [option for name, option in OF_A_START.items() if any(_engine_param(workload, arm, name) for arm in arms)]
    for option in [*given, *(["--pin-args"] if pin_args else [])]:
        raise UsageError(f"{option} is about a server that is started, and a url is one that runs", "leave it out")


def effective_scope(asked: Scope, workload: Workload, arms: Sequence[Arm]) -> Scope:
    """`attached` where the sides are running servers, `slice` where their engines have few layers, however that was
    asked for. Raises UsageError where only one side is such, or another scope was asked for.
    """
    for scope, given in ((ATTACHED, url_of), (SLICE, layers_of)):
        found = [given(workload, arm) for arm in arms]
        if not any(found):
            continue
        if asked != "full":
            raise UsageError(f"--scope {asked}: {CANNOT_BE_SHARED[scope]}", "leave --scope out")
        if not all(found):
            odd = next(arm.side for arm, value in zip(arms, found, strict=True) if value)
            raise UsageError(f"only {odd} {ONE_SIDED[scope]}", "give both sides the same, or neither")
        return scope
    return asked


def url_of(workload: Workload, arm: Arm) -> str:
    """The running server that an arm measures, "" if it starts its own."""
    return str(_engine_param(workload, arm, "url") or "")


def layers_of(workload: Workload, arm: Arm) -> int:
    """How many layers with random weights an arm's engine is cut to; 0: the whole model."""
    return int(_engine_param(workload, arm, "thin_layers") or 0)


def _engine_param(workload: Workload, arm: Arm, name: str) -> Any:
    return arm.params.get(name, workload.params.get(name)) if workload.runner == "engine" else None


def scoped_policy(policy: Policy, scope: Scope) -> Policy:
    """A confirmation rests on fresh builds, and a running server has none. Raises UsageError."""
    if scope not in ONE_LAUNCH:
        return policy
    if policy.slow_rate:
        raise UsageError("--slow-rate counts launches, and a running server is not launched again", "leave it out")
    if scope == ATTACHED:
        return replace(policy, is_confirmed=False)
    # Between trials the sleepers are on the cards, and no list of processes tells ours from a stranger's everywhere.
    gates = replace(policy.gates, foreign="record", utilisation="record")
    return replace(policy, is_confirmed=False, gates=gates)


def promise_reasons(campaign: Campaign) -> tuple[Reason, ...]:
    """The weaker promise, said with every verdict on running servers."""
    if campaign.scope == RESIDENT:
        return (Reason(code="RESIDENT", text=RESIDENT_PROMISE),)
    if campaign.scope != ATTACHED:
        return ()
    urls = [url_of(campaign.workload, arm) for arm in campaign.arms]
    one = f"; both sides asked one and the same server, {urls[0]}" if len(set(urls)) == 1 else ""
    text = (
        "running servers were measured: nothing was started afresh, the luck of one launch is in every trial of a side,"
        f" and which code answered is not proven{one}"
    )
    return (Reason(code="ATTACHED", text=text),)


def resident_reasons(scope: Scope, trials: Sequence[Trial]) -> tuple[Reason, ...]:
    """Why no further window means anything: a resident died, or one did not sleep while the other was measured."""
    if scope != RESIDENT:
        return ()
    found = [(t.side, reason) for t in trials for reason in t.reasons if reason.code in RESIDENT_ENDS]
    return tuple(replace(reason, text=f"resident server of {side}: {reason.text}") for side, reason in found[:1])


def is_one_launch(campaign: Campaign, plan: BlockPlan) -> bool:
    """Whether this block is measured by one launch."""
    return campaign.scope == IN_PROCESS and is_suspicion(plan.stage)


def scoped_decision(decision: Decision, scope: Scope) -> Decision:
    """Reasons in the words of the scope: what was counted are instances, and no rate of slow launches follows."""
    if scope not in WORDS:
        return decision
    metrics = tuple(replace(result, reasons=_scoped(result.reasons, scope)) for result in decision.metrics)
    return replace(decision, metrics=metrics, reasons=_scoped(decision.reasons, scope))


def _scoped(reasons: Sequence[Reason], scope: Scope) -> tuple[Reason, ...]:
    return tuple(_reason(reason, *WORDS[scope]) for reason in reasons)


def _reason(reason: Reason, counted: str, slow: Reason) -> Reason:
    if reason.code in OF_LAUNCHES:
        return replace(reason, text=reason.text.replace("launches", counted))
    return slow if reason.code == "SLOW_RATE" else reason


def scoped_sentence(text: str, decision: Decision, scope: Scope) -> str:
    """The verdict's sentence with the scope in it."""
    if scope == ATTACHED:
        return f"{text.removesuffix('.')} (scope attached: servers that were running already)."
    if scope == RESIDENT:
        return f"{text.removesuffix('.')} (scope resident: one launch of each side, awake in turn)."
    if scope == SLICE:
        return f"{text.removesuffix('.')} (scope slice: few layers, weights drawn at random)."
    if scope != IN_PROCESS:
        return text
    is_confirmed = decision.outcome in (Outcome.REGRESSION, Outcome.IMPROVEMENT)
    how = "scope in-process, confirmed by fresh launches" if is_confirmed else "scope in-process"
    return f"{text.removesuffix('.')} ({how})."


def scope_note(decision: Decision, scope: Scope) -> str:
    """What can be concluded in this scope, behind what the outcome says; empty for a full one."""
    if decision.outcome is Outcome.INVALID:
        return ""
    if scope == ATTACHED:
        return f"{RUNNING}; only launches of our own, started in turn, say what a commit does."
    if scope == RESIDENT:
        return f"{RESIDENTS}; only launches of their own, started in turn, say what a commit does."
    if scope == SLICE:
        return f"{THIN}; {NOT_ACQUITTED}."
    if scope != IN_PROCESS:
        return ""
    if decision.outcome in (Outcome.REGRESSION, Outcome.IMPROVEMENT):
        return f"{SHARED} where it was suspected; confirmed by fresh launches."
    return f"{SHARED}; only fresh launches show what a commit does to its process as a whole."
