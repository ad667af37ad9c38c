"""What the ranks of one launch came to: status, reasons and the record that is stored. Pure.

An answer of a runner says more than how its process ended, so it is looked at first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfguard.errors import BuildError, UsageError
from perfguard.protocol import UNWRITTEN, Result
from perfguard.records import Reason, TrialStatus
from perfguard.trial.environment import changes, undelivered, unlike
from perfguard.trial.launch import Launched, describe_exit
from perfguard.trial.nccl_words import contradictions, moe_words, nccl_words
from perfguard.trial.readings import Readings, judge_values
from perfguard.trial.request import TrialRequest
from perfguard.trial.secrets import redact

UNBUILDABLE = "unbuildable:"
ORIGIN = "origin:"
NOT_AS_ASKED = "invalid:"
USAGE = "usage:"


@dataclass(frozen=True, kw_only=True)
class Observed:
    """`results` holds, by rank, the result or the reason why there is none; `logs` the beginning of each rank's log."""

    request: TrialRequest
    launched: Launched
    results: tuple[Result | str, ...]
    logs: tuple[str, ...] = ()

    @property
    def answers(self) -> tuple[Result, ...]:
        return tuple(result for result in self.results if isinstance(result, Result))

    @property
    def readings(self) -> Readings:
        """What rank 0 measured, as far as it is a number."""
        first = self.results[0]
        values: Mapping[str, Any] = first.values if isinstance(first, Result) else {}
        return judge_values(self.request.workload.metrics, values, seen="")

    def record(self) -> dict[str, Any]:
        """Everything observed, secrets redacted; what rank 0 says of the run stands at the top."""
        launched = self.launched
        record: dict[str, Any] = {
            "before_ready": launched.before_ready,
            "returncodes": list(launched.returncodes),
            "ready_s": launched.ready_s,
            "num_leftover": launched.num_leftover,
            "unkillable": list(launched.unkillable),
            "log": str(self.request.folder),
            "log_tail": launched.log_tail,
            "origin": merge_origin(self.answers)[0],
            "ranks": [_of_rank(answer) for answer in self.answers],
            "caches": dict(self.request.cache_state),
        }
        record |= words_of(self.logs)
        if self.answers:
            first = self.answers[0]
            record |= {name: getattr(first, name) for name in ("samples", "counts", "warmup", "versions", "load_s")}
            record["environment"] = redact(first.environment)
            record |= {"engine": dict(first.engine)} if first.engine else {}
            record["peak_memory_bytes"] = max(answer.peak_memory_bytes for answer in self.answers)
        return record


def conclude(observed: Observed) -> tuple[TrialStatus, tuple[Reason, ...]]:
    """Status and reasons. Raises BuildError if a rank says that the subject cannot be measured at this commit, and
    UsageError if it cannot be asked for what it was asked for.
    """
    failed = [answer for answer in observed.answers if answer.status != "ok"]
    for answer in failed:
        if answer.error.startswith(USAGE):
            raise UsageError(answer.error.removeprefix(USAGE).strip(), "perfguard workloads")
        if answer.error.startswith(UNBUILDABLE):
            raise _unbuildable(observed, answer)
    wrong_origin = [answer for answer in failed if answer.error.startswith(ORIGIN)]
    if wrong_origin:
        return "invalid", tuple(Reason(code="same_code", text=_words(answer)) for answer in wrong_origin)
    not_as_asked = [answer for answer in failed if answer.error.startswith(NOT_AS_ASKED)]
    if not_as_asked:
        return "invalid", tuple(Reason(code="not_as_asked", text=_words(answer)) for answer in not_as_asked)
    launched = observed.launched
    if launched.status == "timed_out":
        return "timed_out", (_timed_out(observed),)
    if failed:
        return "crashed", tuple(Reason(code="runner_failed", text=_words(answer)) for answer in failed)
    if launched.status == "crashed":
        return "crashed", (_crashed(observed),)
    reasons = _contract(observed) or _of_answers(observed)
    return ("invalid" if reasons else "ok"), reasons


def merge_origin(answers: tuple[Result, ...]) -> tuple[dict[str, Mapping[str, str]], tuple[Reason, ...]]:
    """The files loaded by all ranks, and a reason for each that two ranks loaded differently."""
    merged: dict[str, Mapping[str, str]] = {}
    reasons = []
    for answer in answers:
        for name, file in answer.origin.items():
            known = merged.setdefault(name, file)
            if known != file:
                places = f"{file.get('path')}, another rank from {known.get('path')}"
                reasons.append(Reason(code="same_code", text=f"rank {answer.rank} loaded {name} from {places}"))
    return merged, tuple(reasons)


def _of_answers(observed: Observed) -> tuple[Reason, ...]:
    seen = [answer.environment for answer in observed.answers]
    asked = observed.request.arm.env
    told = _told(observed.answers)
    arrived = undelivered(asked, seen, [_startup(answer) for answer in observed.answers])
    said = contradictions(asked, [nccl_words(log) for log in observed.logs])
    other = unlike([answer.software for answer in observed.answers if answer.software])
    loaded = merge_origin(observed.answers)[1]
    # Where the runner itself says why nothing counts, a missing value is no news.
    values = () if told else observed.readings.reasons
    return told + arrived + said + other + loaded + _ranks_disagree(observed) + values


def _told(answers: Sequence[Result]) -> tuple[Reason, ...]:
    """Why a runner says that what it measured must not count."""
    said = [reason for answer in answers for reason in answer.reasons]
    return tuple(Reason(code=str(one.get("code", "runner")), text=str(one.get("text", ""))) for one in said)


def words_of(logs: Sequence[str]) -> dict[str, Any]:
    """What NCCL (by rank) and the engine's MoE kernels say of themselves; nothing where they say nothing."""
    nccl = [nccl_words(log) for log in logs]
    moe = next((found for log in logs if (found := moe_words(log))), "")
    return ({"nccl": nccl} if any(nccl) else {}) | ({"moe_configuration": moe} if moe else {})


def _startup(answer: Result) -> str:
    files = answer.software.get("startup", {})
    return " or ".join(str(file.get("path")) for file in files.values())


def _ranks_disagree(observed: Observed) -> tuple[Reason, ...]:
    """Ranks of one model that produced other tokens did not run one model."""
    first = observed.answers[0].digests if observed.answers else {}
    return tuple(
        Reason(code="ranks_disagree", text=f"rank {answer.rank} and rank 0 produced different output ({mode})")
        for answer in observed.answers
        for mode in first.keys() & answer.digests.keys()
        if answer.digests[mode] != first[mode]
    )


def _contract(observed: Observed) -> tuple[Reason, ...]:
    """What breaks the protocol: a rank without result, or a result of another trial, rank or world."""
    world_size = observed.request.workload.world_size
    texts = []
    for rank, result in enumerate(observed.results):
        if isinstance(result, str):
            texts.append(f"rank {rank} ended well, but: {result}")
        elif (result.trial, result.rank, result.world_size) != (observed.request.id, rank, world_size):
            found = f"trial {result.trial}, rank {result.rank} of {result.world_size}"
            texts.append(f"the result of rank {rank} of {world_size} says it is of {found}")
    return tuple(Reason(code="protocol", text=text) for text in texts)


def _unbuildable(observed: Observed, answer: Result) -> BuildError:
    revision, workload = observed.request.arm.revision, observed.request.workload
    what = f"{revision.name} ({revision.commit[:12]}) cannot be measured"
    next_step = f"git log -1 -p {revision.commit[:12]}"
    if workload.runner == "engine" and not workload.setup:  # mostly no fault of the commit
        next_step = f"name the Python that has it with --set python=PATH, or {next_step}"
    return BuildError(f"{what}: {answer.error.removeprefix(UNBUILDABLE).strip()}", next_step)


def _timed_out(observed: Observed) -> Reason:
    workload, launched = observed.request.workload, observed.launched
    if launched.before_ready:
        what = f"not ready within {workload.ready_timeout_s:g} s (--ready-timeout)"
    else:
        what = f"did not end within {workload.timeout_s:g} s after it was ready (--timeout)"
    return Reason(code="timed_out", text=f"{what}\n{launched.log_tail}")


def _crashed(observed: Observed) -> Reason:
    launched = observed.launched
    ends = [f"rank {rank} {describe_exit(code)}" for rank, code in enumerate(launched.returncodes) if code != 0]
    text = "; ".join(ends)
    if UNWRITTEN in launched.returncodes:
        where = observed.request.folder
        return Reason(code="crashed", text=f"{text}: its result could not be written to {where}; is the disk full?")
    return Reason(code="crashed", text=f"{text}\n{launched.log_tail}")


def _words(answer: Result) -> str:
    return f"rank {answer.rank}: {answer.error or 'failed without a word'}"


def _of_rank(answer: Result) -> dict[str, Any]:
    return {
        "rank": answer.rank,
        "process": dict(answer.process),
        "environment": redact(answer.environment),
        "environment_changes": changes(answer.environment, _startup(answer)),
        "software": dict(answer.software),
        "load_s": answer.load_s,
        "measured_s": answer.measured_s,
        "peak_memory_bytes": answer.peak_memory_bytes,
    }
