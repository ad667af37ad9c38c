"""`-- CMD`: one run of a person's own command in a checkout -> Trial.

Must not look at which side it measures beyond writing it into the record.
"""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perfguard.records import Reason, Trial, TrialStatus
from perfguard.trial.environment import command_environment, lost_on_the_way
from perfguard.trial.launch import Launch, Launched, Process, describe_exit, log_head, run_launch, tail
from perfguard.trial.outcome import words_of
from perfguard.trial.probe import probed, read_probe, read_processes
from perfguard.trial.readings import Readings, read_values
from perfguard.trial.request import TrialRequest, check_still_there
from perfguard.trial.secrets import redact, scrubbed

# A number is looked for in the end of what was printed; nobody reads a metric out of gigabytes.
MAX_OUTPUT_BYTES = 4 * 2**20


def run_command(request: TrialRequest, *, probe: bool = False) -> Trial:
    """Run the workload's command once. `probe` lists what Python code it loads: for the unmeasured first run only.

    Raises HarnessError if the supervisor dies, StorageError where its folders went away; KeyboardInterrupt ends the
    command and goes on.
    """
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    request.folder.mkdir(parents=True, exist_ok=True)
    env = command_environment(
        os.environ, request.arm.env, request.caches, trial=request.id, commit=request.arm.revision.commit
    )
    place = request.folder / "probe"
    launched = run_launch(_launch(request, probed(env, place, request.arm.env) if probe else env))
    check_still_there(request)
    readings = _readings(request, launched)
    processes = read_processes(place) if probe else []
    failure = failure_of(request, launched)
    lost = lost_on_the_way(request.arm.env, processes)
    trial = Trial(
        id=request.id,
        stage=request.stage,
        block=request.block,
        slot=request.slot,
        side=request.side,
        build=request.build,
        attempt=request.attempt,
        status=_status(launched, (*readings.reasons, *lost)),
        started_at=started_at,
        wall_s=launched.wall_s[0],
        measured_s=launched.wall_s[0],
        values=readings.values if failure is None else {},
        reasons=(*readings.reasons, *lost) if failure is None else (failure,),
        record=_record(request, launched, env) | (_probed(place, processes) if probe else {}),
    )
    return scrubbed(trial, env)


def _probed(place: Path, processes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    seen = [{**process, "environment": redact(process["environment"])} for process in processes]
    return {"origin": read_probe(place), "processes": seen}


def _launch(request: TrialRequest, env: dict[str, str]) -> Launch:
    process = Process(
        argv=request.workload.command,
        env=env,
        cwd=str(request.checkout),
        stdout=str(_stdout(request)),
        stderr=str(_stderr(request)),
    )
    return Launch(processes=(process,), timeout_s=request.workload.timeout_s, owner=request.owner)


def _stdout(request: TrialRequest) -> Path:
    return request.folder / "stdout.log"


def _stderr(request: TrialRequest) -> Path:
    return request.folder / "stderr.log"


def _readings(request: TrialRequest, launched: Launched) -> Readings:
    workload = request.workload
    with open(_stdout(request), "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - MAX_OUTPUT_BYTES))
        stdout = stream.read().decode("utf-8", errors="replace")
    return read_values(workload.read, workload.metrics, stdout=stdout, wall_s=launched.wall_s[0])


def failure_of(request: TrialRequest, launched: Launched) -> Reason | None:
    """Why the run gives no value at all, with the end of its log."""
    command = " ".join(request.workload.command)
    (code,) = launched.returncodes
    said = tail(_stderr(request)) or tail(_stdout(request)) or "(no output)"
    if launched.status == "timed_out":
        limit_s = request.workload.timeout_s
        return Reason(code="timed_out", text=f"{command!r} did not end within {limit_s:g} s\n{said}")
    if launched.status == "crashed":
        return Reason(code="command_failed", text=f"{command!r} {describe_exit(code)}\n{said}")
    return None


def _status(launched: Launched, reasons: Sequence[Reason]) -> TrialStatus:
    if launched.status != "ok":
        return launched.status
    return "invalid" if reasons else "ok"


def _record(request: TrialRequest, launched: Launched, env: dict[str, str]) -> dict[str, Any]:
    record: dict[str, Any] = {
        "command": list(request.workload.command),
        "returncode": launched.returncodes[0],
        "environment": redact(env),
        # A command is measured from its start on: it cannot have died before.
        "before_ready": False,
        "num_leftover": launched.num_leftover,
        "unkillable": list(launched.unkillable),
        "log": str(request.folder),
        "caches": dict(request.cache_state),
    }
    record |= words_of((log_head(_stdout(request)) + log_head(_stderr(request)),))
    if launched.status != "ok":
        record |= {"stdout_tail": tail(_stdout(request)), "stderr_tail": tail(_stderr(request))}
    return record
