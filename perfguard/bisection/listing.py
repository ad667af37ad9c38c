"""What a bisect tells of each commit and of each reading, as plain JSON data. Pure."""

from collections.abc import Sequence
from math import exp
from typing import Any

from perfguard.bisection.state import Stored, failing, readings, values_of
from perfguard.records import Candidate


def posterior_list(stored: Stored, probabilities: Sequence[float]) -> list[dict[str, Any]]:
    """One entry a candidate, oldest first."""
    counts: dict[int, int] = {}
    for reading in readings(stored):
        counts[reading.position] = counts.get(reading.position, 0) + 1
    broken = why_unbuildable(stored)
    return [
        {
            "commit": candidate.revision.commit,
            "subject": candidate.revision.subject,
            "probability": probability,
            "readings": counts.get(place, 0),
            "status": "beside" if not candidate.is_whole else "unbuildable" if place in broken else "ok",
        }
        for place, (candidate, probability) in enumerate(_zip(stored.search.candidates, probabilities), start=1)
    ]


def _zip(candidates: Sequence[Candidate], probabilities: Sequence[float]) -> list[tuple[Candidate, float]]:
    return list(zip(candidates, probabilities, strict=True)) if probabilities else []


def readings_list(stored: Stored) -> list[dict[str, Any]]:
    """Every reading, those without a value too."""
    logs = iter(readings(stored))
    found = []
    for pair in stored.pairs:
        values = values_of(stored, pair)
        found.append(
            {
                "number": pair.number,
                "commit": sha(stored, pair.position),
                "position": pair.position,
                "order": pair.order,
                "good": None if values is None else values[0],
                "value": None if values is None else values[1],
                "slowdown": None if values is None else exp(next(logs).log_slowdown),
            }
        )
    return found


def why_unbuildable(stored: Stored) -> dict[int, str]:
    """Position -> why it cannot be measured: it was not built, or its launches fail."""
    found = {
        build.position: "; ".join(reason.text for reason in build.reasons)
        for build in stored.builds
        if build.status == "unbuildable"
    }
    launches = {place: "; ".join(r.text for r in trial.reasons) for place, trial in failing(stored).items()}
    return {**launches, **found}


def commits(stored: Stored, places: Sequence[int]) -> list[str]:
    return [sha(stored, place) for place in places]


def sha(stored: Stored, position: int) -> str:
    return stored.search.candidates[position - 1].revision.commit
