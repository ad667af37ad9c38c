"""Some cycles under the engine's own profiler, outside of any measured window; what its trace says.

Must not be used where something is still to be measured on the same server: a profiler slows it down.
"""

import gzip
import http.client
import json
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from perfguard.protocol import TRACE_LIMIT_S
from runners.contract import ParamsError
from runners.engines.dialect import Dialect, Profiler, Start
from runners.engines.params import EngineParams
from runners.engines.records import Observation
from runners.engines.server import Server, exit_code
from runners.engines.traces import num_steps, summed

CYCLES = 20
LOOK_S = 0.5
# What traces of other ranks may take behind a whole one that holds nothing: an engine on a processor has no kernel.
OTHERS_S = 5.0
# Read as a whole it takes several times as much memory.
MOST_BYTES = 2**30
UNKNOWN = "a server of kind {} has no profiler that is known"


def num_skipped(concurrency: int) -> int:
    """Steps in front of those that are profiled: the prefills of all requests, one a step at worst, and one more."""
    return concurrency + 1


def num_needed(concurrency: int) -> int:
    """Steps that a load has to have: those that are skipped, those that are profiled, and one that shows their end."""
    return num_skipped(concurrency) + CYCLES + 1


def refuse_short(params: EngineParams) -> None:
    """Raises ParamsError where even one token a step would make too few steps."""
    needed = num_needed(params.concurrency)
    if params.trace and params.tokens < needed:
        text = (
            f"requests of tokens={params.tokens} at concurrency={params.concurrency} have fewer steps than the {needed}"
        )
        raise ParamsError(f"params: trace profiles {CYCLES} cycles behind the prefills, and {text} that this takes")


def profiled_start(start: Start, dialect: Dialect, folder: Path, concurrency: int, package: Path | None) -> Start:
    """As it was where this version has no such words: then it is started all the same, and has no profiler."""
    profiler = dialect.profiler
    if profiler is None or profiler.start is None or not _knows(profiler, package):
        return start
    return profiler.start(start, folder, CYCLES, num_skipped(concurrency))


def _knows(profiler: Profiler, package: Path | None) -> bool:
    """True as well where the file cannot be read: the package is laid out otherwise."""
    if profiler.known_by is None or package is None:
        return True
    name, words = profiler.known_by
    try:
        return words in (package / name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True


def profile(
    server: Server, dialect: Dialect, folder: Path, concurrency: int, drive: Callable[[], Observation]
) -> dict[str, Any]:
    """{"cycles", "seconds": a cycle, "file"}, or {"error"}: whatever goes wrong with a trace, it costs no trial.

    `drive` sends the requests whose cycles are traced, `concurrency` at a time. Takes TRACE_LIMIT_S at most.
    """
    profiler = dialect.profiler
    if profiler is None:
        return {"error": UNKNOWN.format(dialect.name)}
    known = profiler  # for the closure
    return _within(TRACE_LIMIT_S, lambda: _profile(server, known, folder, concurrency, drive))


def _within(limit_s: float, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `work` gives, or why it gives nothing. One that is late goes on until the server that it asks has ended."""
    found: list[dict[str, Any]] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:  # a damaged trace fails in as many ways as there are parsers
            found.append({"error": f"{type(error).__name__}: {error}"[:200]})

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit_s)
    return found[0] if found else {"error": f"no trace within {limit_s:g} s"}


def _profile(
    server: Server, profiler: Profiler, folder: Path, concurrency: int, drive: Callable[[], Observation]
) -> dict[str, Any]:
    until_s = time.monotonic() + TRACE_LIMIT_S - OTHERS_S
    folder.mkdir(parents=True, exist_ok=True)
    status, said = _post(server, "/start_profile", profiler.body(folder, CYCLES))
    if status != 200:
        return {"error": f"/start_profile answered {status}: {said[:200]}"}
    seen = drive()
    if profiler.is_stopped:
        _post(server, "/stop_profile", {})
    short = too_short(seen, concurrency)
    return {"error": short} if short else read_trace(folder, profiler, until_s, lambda: exit_code(server) is not None)


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


def read_trace(folder: Path, profiler: Profiler, until_s: float, is_gone: Callable[[], bool]) -> dict[str, Any]:
    """The trace of rank 0, once it is whole. `until_s`: of the monotonic clock. `is_gone`: nobody writes any more."""
    problem, seen_s = "no trace was written", float("inf")
    while time.monotonic() < until_s:
        is_last = is_gone()
        files = traces_in(folder, profiler)
        seen_s = min(seen_s, time.monotonic()) if files else seen_s
        firsts = [path for path in files if profiler.first_rank.search(path.name)]
        # Of any rank only if rank 0 is late for good: another one waits for it, and that looks like work.
        path = next(iter(firsts or (files if time.monotonic() - seen_s > OTHERS_S or is_last else [])), None)
        if path is not None:
            try:
                found = sums_of(path)
            except (OSError, EOFError, ValueError, zlib.error) as error:  # not whole yet, or never
                found = {"error": f"{path.name}: {error}"}
            else:
                until_s = min(until_s, time.monotonic() + OTHERS_S)
            if "seconds" in found:
                return found
            problem = found["error"]
        if is_last:
            return {"error": f"{problem}, and the server has ended"}
        time.sleep(LOOK_S)
    return {"error": problem}


def traces_in(folder: Path, profiler: Profiler) -> list[Path]:
    """Those that may hold decoding, by name."""
    other = profiler.other_files
    return [path for path in sorted(folder.rglob("*.json*")) if other is None or not other.search(path.name)]


def sums_of(path: Path) -> dict[str, Any]:
    """Raises OSError, EOFError, ValueError and zlib.error for a file that is not whole."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        text = stream.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        return {"error": f"{path.name} is larger than {MOST_BYTES >> 20} MiB: fewer layers or ranks (--thin)"}
    trace = json.loads(text)
    cycles = num_steps(trace) or CYCLES
    seconds = summed(trace, cycles)
    if not seconds:
        return {"error": f"{path.name} holds no kernel of a device"}
    return {"cycles": cycles, "seconds": seconds, "file": path.name}


def _post(server: Server, path: str, body: Mapping[str, Any]) -> tuple[int, str]:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=TRACE_LIMIT_S)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8", errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return 0, f"{type(error).__name__}: {error}"
    finally:
        connection.close()
