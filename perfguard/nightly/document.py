"""The JSON of a night (perfguard/nightly@1), from what became of its parts. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from perfguard.errors import EXIT_CODES, EXIT_OK
from perfguard.nightly.plan import worst
from perfguard.records import Revision
from perfguard.store import Ack, Pin, StoredNight, Suspicion

SCHEMA = "perfguard/nightly@1"


def measured_entry(workload: str, pin: Pin, comparison: Mapping[str, Any], ack: Ack | None) -> dict[str, Any]:
    """A workload that was measured; an accepted regression is not red."""
    is_accepted = ack is not None and comparison["outcome"] == "REGRESSION"
    return {
        "name": workload,
        "state": "measured",
        "pin": _pin(pin),
        "outcome": comparison["outcome"],
        "exit_code": EXIT_OK if is_accepted else comparison["exit_code"],
        "sentence": comparison["sentence"],
        "campaign": comparison["id"],
        "acked": asdict(ack) if ack is not None and is_accepted else None,
        "metrics": [
            {name: m[name] for name in ("name", "unit", "primary", "outcome", "slowdown", "ci_low", "ci_high")}
            for m in comparison["metrics"]
        ],
    }


def other_entry(workload: str, pin: Pin, state: str, text: str, exit_code: int) -> dict[str, Any]:
    """A workload without a comparison tonight: unchanged, failed or not measured."""
    return {
        "name": workload,
        "state": state,
        "pin": _pin(pin),
        "outcome": None,
        "exit_code": exit_code,
        "sentence": text,
        "campaign": None,
        "acked": None,
        "metrics": [],
    }


def _pin(pin: Pin) -> dict[str, str]:
    return {"commit": pin.commit_sha, "revision": pin.revision, "pinned_at": pin.pinned_at}


def search_entry(suspicion: Suspicion, bisect: Mapping[str, Any], *, is_accepted: bool) -> dict[str, Any]:
    """What a search of tonight came to. It reddens a night only by naming a commit that nobody has accepted."""
    is_red = bisect["outcome"] == "CULPRIT" and not is_accepted
    return {
        "workload": suspicion.workload,
        "metric": suspicion.metric,
        "cause": suspicion.cause,
        "good": suspicion.good,
        "bad": suspicion.bad,
        "bisect": bisect["id"],
        "outcome": bisect["outcome"],
        "culprit": bisect["culprit"],
        "sentence": bisect["sentence"],
        "stopped": bisect["stopped"],
        "exit_code": EXIT_CODES["CULPRIT"] if is_red else EXIT_OK,
    }


def night_json(
    night: StoredNight,
    head: Revision,
    workloads: Sequence[Mapping[str, Any]],
    searches: Sequence[Mapping[str, Any]],
    waiting: Sequence[Suspicion],
    notices: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """`waiting`: suspicions that no search has answered yet."""
    exit_code = worst([entry["exit_code"] for entry in (*workloads, *searches)])
    return {
        "schema": SCHEMA,
        "id": night.id,
        "started_at": night.started_at,
        "head": {"revision": head.name, "commit": head.commit, "subject": head.subject},
        "exit_code": exit_code,
        "sentence": _sentence(workloads, exit_code),
        "workloads": list(workloads),
        "searches": list(searches),
        "waiting": [asdict(one) for one in waiting],
        "notices": list(notices),
    }


def _sentence(workloads: Sequence[Mapping[str, Any]], exit_code: int) -> str:
    if workloads and all(entry["state"] == "unchanged" for entry in workloads):
        return "Nothing changed since last night: nothing was measured."
    states = [entry["outcome"] or entry["state"] for entry in workloads]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    accepted = sum(entry["acked"] is not None for entry in workloads)
    more = f"; {accepted} REGRESSION accepted" if accepted else ""
    return f"{len(workloads)} workload{'s' if len(workloads) != 1 else ''}: {counted}{more}; exit code {exit_code}."
