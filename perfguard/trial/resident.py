"""The server of one side kept for a whole campaign (scope resident): a launch of the runner that outlives trials.

It runs in a thread under a warden of its own and ends when it is told to. Must not judge what trials make of it.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from perfguard.records import Side, Trial
from perfguard.trial.outcome import Observed
from perfguard.trial.ranks import now, spec_of, start_ranks, trial_of
from perfguard.trial.request import TrialRequest

# The runner's own words, runners/engines/residence.py.
FILE, KEEPS = "residence", "keeps"
# A keeper has no limit of its own: a campaign may take days.
KEPT_S = 30 * 86400.0
LOOK_S = 0.05
# Beyond what a server may take to follow SIGTERM: the kernel takes a killed one's GPU memory down. What is left then is
# ended with the workspace, by its mark.
STOP_SLACK_S = 150.0


@dataclass(kw_only=True)
class Resident:
    """`ended` holds what became of it once it is over: how, or the error."""

    file: Path
    request: TrialRequest
    started_at: str
    thread: threading.Thread = field(default_factory=threading.Thread)
    ended: list[Observed | BaseException] = field(default_factory=list)


def start_resident(request: TrialRequest, folder: Path, *, bundle: Path) -> Resident:
    """Start the server of `request`'s side; `folder` is common to both sides, whose visitors look for each other."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{request.side}-{request.attempt}.json"
    for old in folder.glob(f"{request.side}-*"):  # of a start that failed
        old.unlink()
    asked = replace(request, workload=replace(request.workload, timeout_s=KEPT_S))
    spec = replace(spec_of(asked), params={**spec_of(asked).params, FILE: str(file), KEEPS: True})
    resident = Resident(file=file, request=request, started_at=now())

    def run() -> None:
        try:
            resident.ended.append(start_ranks(asked, spec, bundle=bundle))
        except BaseException as error:
            resident.ended.append(error)

    resident.thread = threading.Thread(target=run, name=f"resident {request.side}")
    resident.thread.start()
    return resident


def wait_up(resident: Resident) -> Trial | None:
    """None once it is up and asleep; else the trial that stands for its failed start. Raises what the start raised."""
    while resident.thread.is_alive():
        if resident.file.exists():
            return None
        time.sleep(LOOK_S)
    (ended,) = resident.ended
    if isinstance(ended, BaseException):
        raise ended
    return trial_of(ended, started_at=resident.started_at)


def visited(request: TrialRequest, resident: Resident) -> TrialRequest:
    """A trial of a server that is kept."""
    params = {**request.workload.params, FILE: str(resident.file)}
    return replace(request, workload=replace(request.workload, params=params))


def end_residents(residents: Mapping[Side, Resident]) -> None:
    """All are told first, then waited for."""
    for resident in residents.values():
        resident.file.with_suffix(".end").touch()
    for resident in residents.values():
        grace_s = float(resident.request.workload.params.get("stop_grace_s", 0.0))
        resident.thread.join(grace_s + STOP_SLACK_S)
