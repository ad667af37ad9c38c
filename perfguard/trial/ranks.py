"""One launch of a built-in runner: spec out, one process a rank under the torchrun contract, results in -> Trial.

Must not judge values beyond "a number that can be compared"; whether the machine was fit is decided elsewhere.
"""

import os
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perfguard import protocol, strays
from perfguard.errors import writing
from perfguard.records import Trial
from perfguard.trial.environment import runner_environment
from perfguard.trial.launch import Launch, Process, log_head, run_launch
from perfguard.trial.outcome import Observed, conclude
from perfguard.trial.request import TrialRequest, check_still_there
from perfguard.trial.secrets import scrubbed

LOOPBACK = "127.0.0.1"


def run_ranks(request: TrialRequest, *, bundle: Path) -> Trial:
    """Run one trial with the runner in `bundle`/runners.

    Raises BuildError if the subject cannot be measured at this commit, HarnessError if the supervisor dies;
    KeyboardInterrupt ends all ranks and goes on.
    """
    started_at = now()
    return trial_of(start_ranks(request, spec_of(request), bundle=bundle), started_at=started_at)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def start_ranks(request: TrialRequest, spec: protocol.Spec, *, bundle: Path) -> Observed:
    """Start one process a rank on this spec and wait for all of them. Raises StorageError where there is no room, or
    where its folders went away.
    """
    ranks = range(request.workload.world_size)
    record = request.strays / f"{request.id}.json"
    temporary = _prepare(request, spec, ranks, record)
    try:
        launched = run_launch(_launch(request, spec, ranks, bundle=bundle, temporary=temporary))
    finally:
        strays.clear(record)  # also after a time-out or Ctrl-C; after worse, the workspace or the next start does it
    check_still_there(request)
    results = tuple(_read(_of_rank(spec.result, rank)) for rank in ranks)
    logs = tuple(log_head(_log(request, rank)) for rank in ranks)
    return Observed(request=request, launched=launched, results=results, logs=logs)


def trial_of(observed: Observed, *, started_at: str, share: float = 1.0) -> Trial:
    """The trial as it is stored; `share`: how much of the launch's wall time is its own. Raises BuildError."""
    request, launched = observed.request, observed.launched
    status, reasons = conclude(observed)
    first = observed.results[0]
    trial = Trial(
        id=request.id,
        stage=request.stage,
        block=request.block,
        slot=request.slot,
        side=request.side,
        build=request.build,
        attempt=request.attempt,
        status=status,
        started_at=started_at,
        wall_s=share * max(launched.wall_s),
        measured_s=first.measured_s if isinstance(first, protocol.Result) else launched.measured_s,
        values=observed.readings.values if status == "ok" else {},
        digests=dict(first.digests) if isinstance(first, protocol.Result) else {},
        reasons=reasons,
        record=observed.record(),
    )
    return scrubbed(trial, {**os.environ, **request.arm.env})


def spec_of(request: TrialRequest) -> protocol.Spec:
    return protocol.Spec(
        trial=request.id,
        runner=request.workload.runner,
        modes=request.workload.modes,
        params=_params(request),
        subject_root=str(request.checkout),
        seed=request.seed,
        place=request.place,
        result=str(request.folder / "result-{rank}.json"),
        ready=str(request.folder / "ready-{rank}"),
    )


def _params(request: TrialRequest) -> dict[str, Any]:
    """Those of the workload; what is started in an arm's own Python is told which."""
    own = {"python": request.arm.python} if _is_client(request) and request.arm.python else {}
    return {**request.workload.params, **own}


def _is_client(request: TrialRequest) -> bool:
    """The runner of an engine is the client, the same for both arms: the arm's Python is for the server."""
    return request.workload.runner == "engine"


def _spec_file(request: TrialRequest) -> Path:
    return request.folder / "spec.json"


def _argv(request: TrialRequest, bundle: Path) -> tuple[str, ...]:
    python = sys.executable if _is_client(request) else request.arm.python or sys.executable
    # -P: the folder of the script is not put on the path, where its neighbours could win over the subject.
    return (python, "-P", str(bundle / "runners" / "__main__.py"), str(_spec_file(request)))


def _prepare(request: TrialRequest, spec: protocol.Spec, ranks: range, record: Path) -> Path:
    """Write the specification; returns a new folder for temporary files, which `record` knows of."""
    with writing(request.folder, "PERFGUARD_CACHE=DIR"):
        request.folder.mkdir(parents=True, exist_ok=True)
        _remove_old(spec, ranks)
        protocol.write(_spec_file(request), spec)
        temporary = strays.remember(record)
    with writing(temporary, "TMPDIR=DIR"):
        temporary.mkdir(mode=0o700)
    return temporary


def _launch(
    request: TrialRequest, spec: protocol.Spec, ranks: range, *, bundle: Path, temporary: Path
) -> Launch:
    inherited = {**os.environ, "TMPDIR": str(temporary)}
    common = runner_environment(inherited, request.arm.env, request.caches)
    argv = _argv(request, bundle)
    port = _free_port()
    processes = tuple(
        Process(
            argv=argv,
            env=common | _rank_variables(rank, len(ranks), port),
            cwd=str(request.folder),
            stdout=str(_log(request, rank)),
        )
        for rank in ranks
    )
    return Launch(
        processes=processes,
        ready=tuple(_of_rank(spec.ready, rank) for rank in ranks),
        timeout_s=request.workload.timeout_s,
        ready_timeout_s=request.workload.ready_timeout_s,
        answers_stacks=True,
        owner=request.owner,
    )


def _log(request: TrialRequest, rank: int) -> Path:
    return request.folder / f"rank-{rank}.log"


def _rank_variables(rank: int, world_size: int, port: int) -> dict[str, str]:
    """The environment contract of torchrun, so that the same runner starts under it on several hosts."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": str(port),
    }


def _free_port() -> int:
    """A port nobody listens on now. Another may take it before rank 0 does: then the launch dies before it is ready
    and is started again, with another port.
    """
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        return int(listener.getsockname()[1])


def _of_rank(template: str, rank: int) -> str:
    return template.replace("{rank}", str(rank))


def _remove_old(spec: protocol.Spec, ranks: range) -> None:
    """A file of an earlier attempt in this folder must not be taken for an answer."""
    for rank in ranks:
        for template in (spec.result, spec.ready):
            Path(_of_rank(template, rank)).unlink(missing_ok=True)


def _read(path: str) -> protocol.Result | str:
    """The result, or why there is none."""
    if not os.path.exists(path):
        return "no result was written"
    try:
        return protocol.read_result(path)
    except protocol.ProtocolError as error:
        return str(error)
