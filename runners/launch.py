"""One rank from spec to result: read, swap the paths, run the runner, write the result atomically.

Must not measure anything itself, and must not let an exception end without a result where one can be written.
"""

import contextlib
import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from perfguard import protocol
from runners import observe, origin
from runners.contract import InvalidError, Launch, Measurement, ParamsError, PlainError, TogetherError, UnbuildableError

RUNNERS = {"tp_moe": "runners.tp_moe", "fake": "runners.fake", "engine": "runners.engines.trial"}
# Measure a program from outside: they load none of the subject's code, and it must not lie on their path.
OUTSIDE = ("engine",)
IN_PROCESS = {"tp_moe": "runners.in_process", "fake": "runners.fake_in_process"}
TRACEBACK_LINES = 30
# The first that fits: an error of living together is one of not being buildable.
PREFIXES = {
    ParamsError: "usage: ",
    origin.OriginError: "origin: ",
    TogetherError: "unbuildable: in-process: ",
    UnbuildableError: "unbuildable: ",
    InvalidError: "invalid: ",
}


def main(
    arguments: Sequence[str],
    *,
    harness: Sequence[Path],
    started_s: float,
    started_env: Mapping[str, str] | None = None,
) -> int:
    """Exit code: 0 a result was written, 1 the run failed (the result says why), 2 no usable spec."""
    if len(arguments) != 1:
        return _complain("usage: python -P runners/__main__.py SPEC.json", code=2)
    try:
        launch = read_launch(protocol.read_spec(arguments[0]), os.environ, started_s=started_s)
        launch = replace(launch, started_env=started_env)
    except ValueError as error:  # ProtocolError is one
        return _complain(str(error), code=2)
    try:
        result = succeeded(launch, run(launch, harness))
    except (Exception, SystemExit) as error:
        result = failed(launch, error)
        print(result.error, file=sys.stderr)
    return write(launch, result)


def read_launch(spec: protocol.Spec, environ: Mapping[str, str], *, started_s: float) -> Launch:
    """The torchrun environment contract; alone, rank 0 of 1. Raises ValueError on a rank outside the world."""
    rank, world_size = int(environ.get("RANK", "0")), int(environ.get("WORLD_SIZE", "1"))
    if not 0 <= rank < world_size:
        raise ValueError(f"RANK={rank} does not lie in a world of WORLD_SIZE={world_size}")
    root = Path(os.path.abspath(spec.subject_root))
    return Launch(spec=spec, rank=rank, world_size=world_size, subject_root=root, started_s=started_s)


def run(launch: Launch, harness: Sequence[Path]) -> Measurement:
    """Import the runner while the path is the harness's, then give the path to the subject, then measure."""
    if launch.spec.runner not in RUNNERS:
        raise ValueError(f"runner {launch.spec.runner!r} is not known; there are {', '.join(RUNNERS)}")
    for root in (launch.subject_root, *map(Path, launch.spec.slots)):
        if not root.is_dir():
            raise UnbuildableError(f"subject_root {root} is not a folder")
    runner = importlib.import_module((IN_PROCESS if launch.spec.slots else RUNNERS)[launch.spec.runner])
    if launch.spec.runner not in OUTSIDE:
        sys.path[:] = origin.swap_roots(sys.path, harness=harness, subject_root=launch.subject_root)
        importlib.invalidate_caches()
    measurement: Measurement = runner.run(launch)
    return measurement


def succeeded(launch: Launch, measurement: Measurement) -> protocol.Result:
    observed = {item.name: getattr(measurement, item.name) for item in fields(measurement)}
    observed["versions"] = {**observe.versions(), **measurement.versions}
    about = _about(launch)
    observed["software"] = observed["software"] or about["software"]
    return protocol.Result(**{**about, **observed})


def failed(launch: Launch, error: BaseException) -> protocol.Result:
    prefix = next((text for kind, text in PREFIXES.items() if isinstance(error, kind)), "")
    tail = "".join(traceback.format_exception(error)).splitlines()[-TRACEBACK_LINES:]
    traced = "\n".join([f"{type(error).__name__}: {error}", *tail])
    text = f"{prefix}{error if isinstance(error, PlainError) else traced}"
    versions = observe.versions()
    return protocol.Result(**_about(launch), status="failed", error=text, versions=versions)


def write(launch: Launch, result: protocol.Result) -> int:
    path = launch.spec.result.replace("{rank}", str(launch.rank))
    try:
        protocol.write(path, result)
    except OSError as error:
        return _complain(f"result {path} cannot be written: {error}", code=protocol.UNWRITTEN)
    except (TypeError, ValueError) as error:
        return _complain(f"result {path} cannot be written: {type(error).__name__}: {error}", code=1)
    return 0 if result.status == "ok" else 1


def _about(launch: Launch) -> dict[str, Any]:
    """The fields that every result carries, failed or not."""
    others = origin.other_models(sys.path, subject_root=launch.subject_root)
    return {
        "trial": launch.spec.trial,
        "rank": launch.rank,
        "world_size": launch.world_size,
        "environment": observe.own_environment(launch.started_env),
        "software": observe.software(),
        "process": {**observe.process(), "other_models": others},
    }


def _complain(text: str, *, code: int) -> int:
    with contextlib.suppress(OSError):  # the log may be on the same full disk
        print(f"runner: {text}", file=sys.stderr, flush=True)
    return code
