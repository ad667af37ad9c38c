"""Some cycles under the engine's own profiler, outside of any measured window; what its trace says.

Must not be used where something is still to be measured on the same server: a profiler slows it down.
"""

import gzip
import http.client
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runners.contract import ParamsError
from runners.engines.dialect import Dialect, Profiler, Start
from runners.engines.params import EngineParams
from runners.engines.records import Observation
from runners.engines.server import Server
from runners.engines.traces import num_steps, summed

CYCLES = 20
# Writing a trace of a large server takes a while after it was stopped.
WAIT_S, LOOK_S, ASK_S = 120.0, 0.5, 120.0
# What traces of other ranks may take behind a whole one that holds nothing: an engine on a processor has no kernel.
OTHERS_S = 5.0
UNKNOWN = "a server of kind {} has no profiler that is known"


def num_skipped(concurrency: int) -> int:
    """Steps in front of those that are profiled: the prefills of all requests, one a step at worst, and one more."""
    return concurrency + 1


def num_needed(concurrency: int) -> int:
    """Steps that a load has to have: those that are skipped, those that are profiled, and one that shows their end."""
    return num_skipped(concurrency) + CYCLES + 1


def refuse_short(params: EngineParams) -> None:
    """Raises ParamsError where even one token a step would make too few steps, or the server outlives the trial."""
    if params.trace and params.url:
        raise ParamsError("params: trace slows down a server of which more is measured: leave out trace, or url")
    needed = num_needed(params.concurrency)
    if params.trace and params.tokens < needed:
        text = (
            f"requests of tokens={params.tokens} at concurrency={params.concurrency} have fewer steps than the {needed}"
        )
        raise ParamsError(f"params: trace profiles {CYCLES} cycles behind the prefills, and {text} that this takes")


def profiled_start(start: Start, dialect: Dialect, folder: Path, concurrency: int) -> Start:
    if dialect.profiler is None or dialect.profiler.start is None:
        return start
    return dialect.profiler.start(start, folder, CYCLES, num_skipped(concurrency))


def profile(
    server: Server, dialect: Dialect, folder: Path, concurrency: int, drive: Callable[[], Observation]
) -> dict[str, Any]:
    """{"cycles", "seconds": a cycle, "file"}, or {"error"}: a trace that does not come costs no trial.

    `drive` sends the requests whose cycles are traced, `concurrency` at a time.
    """
    profiler = dialect.profiler
    if profiler is None:
        return {"error": UNKNOWN.format(dialect.name)}
    folder.mkdir(parents=True, exist_ok=True)
    status, said = _post(server, "/start_profile", profiler.body(folder, CYCLES))
    if status != 200:
        return {"error": f"/start_profile answered {status}: {said[:200]}"}
    seen = drive()
    if profiler.is_stopped:
        _post(server, "/stop_profile", {})
    short = too_short(seen, concurrency)
    return {"error": short} if short else read_trace(folder, profiler)


def too_short(seen: Observation, concurrency: int) -> str:
    """Why fewer cycles may have run than were to be profiled; "" if they certainly ran.

    An event of an answer is one step at least, whatever it brings, and all tokens of a step come in one event.
    """
    ran, needed = max((len(answer.arrivals) for answer in seen.answers), default=0), num_needed(concurrency)
    if ran >= needed:
        return ""
    failed = next((f" ({answer.error})" for answer in seen.answers if answer.error), "")
    return (
        f"the longest answer came in {ran} events{failed}, and {CYCLES} cycles take {needed}: longer answers (tokens)"
    )


def read_trace(folder: Path, profiler: Profiler) -> dict[str, Any]:
    """The trace of the first rank, once it is whole."""
    until_s = time.monotonic() + WAIT_S
    problem = "no trace was written"
    while time.monotonic() < until_s:
        for path in sorted(folder.rglob("*.json*")):
            if profiler.other_files is not None and profiler.other_files.search(path.name):
                continue
            try:
                trace = json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
            except (OSError, EOFError, ValueError) as error:
                problem = f"{path.name}: {error}"
                continue
            cycles = num_steps(trace) or CYCLES
            seconds = summed(trace, cycles)
            if seconds:
                return {"cycles": cycles, "seconds": seconds, "file": path.name}
            problem = f"{path.name} holds no kernel of a device"
            until_s = min(until_s, time.monotonic() + OTHERS_S)
        time.sleep(LOOK_S)
    return {"error": problem}


def _post(server: Server, path: str, body: Mapping[str, Any]) -> tuple[int, str]:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=ASK_S)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8", errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return 0, f"{type(error).__name__}: {error}"
    finally:
        connection.close()
