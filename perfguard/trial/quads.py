"""Four trials from one launch: both sides' subjects as instances in one process a rank (scope in-process).

Each slot is concluded from its own part of the ranks' answers, by the rules of a launch of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfguard.errors import BuildError
from perfguard.protocol import SLOT_FIELDS, Result, Spec
from perfguard.records import Trial
from perfguard.trial.outcome import UNBUILDABLE, Observed
from perfguard.trial.ranks import now, spec_of, start_ranks, trial_of
from perfguard.trial.request import TrialRequest

APART = f"{UNBUILDABLE} in-process:"


def run_quad(launch_id: str, requests: Sequence[TrialRequest], *, bundle: Path) -> tuple[Trial, ...]:
    """One trial a slot, `requests` in slot order; they share arms' environment, caches, folder and launch.

    Each carries its part of the wall time, and in its record the launch's id and its checkout. Raises BuildError if
    these subjects cannot live in one process or not be measured at all, HarnessError if the supervisor dies.
    """
    started_at = now()
    lead = replace(requests[0], id=launch_id)
    spec = replace(spec_of(lead), slots=tuple(str(request.checkout) for request in requests))
    spec = _with_modes(spec, requests)
    observed = start_ranks(lead, spec, bundle=bundle)
    _refuse_apart(observed, requests)
    share = 1 / len(requests)
    slots = [_slot(observed, request, place, len(requests)) for place, request in enumerate(requests)]
    trials = (trial_of(slot, started_at=started_at, share=share) for slot in slots)
    return tuple(replace(trial, record=_record(trial, launch_id, r)) for trial, r in zip(trials, requests, strict=True))


def _with_modes(spec: Spec, requests: Sequence[TrialRequest]) -> Spec:
    """Where the sides run a mode each: all of them for the launch, and one for each slot."""
    own = [request.workload.modes for request in requests]
    if len(set(own)) == 1:
        return spec
    together = tuple(dict.fromkeys(mode for modes in own for mode in modes))
    return replace(spec, modes=together, slot_modes=tuple(mode for (mode,) in own))


def _record(trial: Trial, launch_id: str, request: TrialRequest) -> dict[str, Any]:
    return {**trial.record, "launch": launch_id, "checkout": str(request.checkout)}


def _refuse_apart(observed: Observed, requests: Sequence[TrialRequest]) -> None:
    for answer in observed.answers:
        if answer.error.startswith(APART):
            why = answer.error.removeprefix(APART).strip().splitlines()[0]
            names = dict.fromkeys(f"{r.side} {r.arm.revision.name}" for r in requests)
            raise BuildError(
                f"{' and '.join(names)} cannot share a process: {why}", "the same comparison with --scope full"
            )


def _slot(observed: Observed, request: TrialRequest, place: int, num_slots: int) -> Observed:
    results = tuple(of_slot(result, observed.request.id, request.id, place, num_slots) for result in observed.results)
    return Observed(request=request, launched=observed.launched, results=results, logs=observed.logs)


def of_slot(result: Result | str, launch_id: str, trial_id: str, place: int, num_slots: int) -> Result | str:
    """What one rank says of one slot, as if it had been a launch of its own; a text says why it is no answer."""
    if isinstance(result, str):
        return result
    named = replace(result, trial=trial_id) if result.trial == launch_id else result
    if result.status != "ok":
        return named
    if len(result.slots) != num_slots or not all(isinstance(slot, Mapping) for slot in result.slots):
        return f"its result holds {len(result.slots)} slots instead of {num_slots}"
    own = {name: result.slots[place][name] for name in SLOT_FIELDS if name in result.slots[place]}
    return replace(named, slots=(), load_s=result.load_s / num_slots, **own)
