"""Some cycles under the engine's own profiler, outside of any measured window; what its trace says.

Must not be used where something is still to be measured on the same server: a profiler slows it down.
"""

import gzip
import http.client
import json
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from runners.engines.dialect import Start
from runners.engines.server import Server
from runners.engines.traces import summed

CYCLES = 20
# Writing a trace of a large server takes a while after it was stopped.
WAIT_S, LOOK_S, ASK_S = 120.0, 0.5, 120.0
ENGINES = ("sglang", "vllm")


def profiled_start(start: Start, engine: str, folder: Path) -> Start:
    """vLLM serves its profiler only if it was started for it."""
    if engine != "vllm":
        return start
    config = {"profiler": "torch", "torch_profiler_dir": str(folder), "torch_profiler_with_stack": False}
    return replace(start, argv=(*start.argv, *shlex.split(f"--profiler-config '{json.dumps(config)}'")))


def profile(server: Server, engine: str, folder: Path, drive: Callable[[], object]) -> dict[str, Any]:
    """{"cycles", "seconds": …, "file"}, or {"error"}: a trace that does not come costs no trial.

    `drive` sends the requests whose cycles are traced.
    """
    if engine not in ENGINES:
        return {"error": f"a server of kind {engine} has no profiler that is known"}
    bodies: dict[str, dict[str, Any]] = {
        "sglang": {"output_dir": str(folder), "num_steps": CYCLES, "activities": ["CPU", "GPU"]},
        "vllm": {"max_iterations": CYCLES},
    }
    folder.mkdir(parents=True, exist_ok=True)
    status, said = _post(server, "/start_profile", bodies[engine])
    if status != 200:
        return {"error": f"/start_profile answered {status}: {said[:200]}"}
    drive()
    if engine == "vllm":
        _post(server, "/stop_profile", {})
    return _read(folder)


def _read(folder: Path) -> dict[str, Any]:
    """The trace of the first rank, once it is whole."""
    until_s = time.monotonic() + WAIT_S
    problem = "no trace was written"
    while time.monotonic() < until_s:
        for path in sorted(folder.rglob("*.json*")):
            try:
                trace = json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
            except (OSError, EOFError, ValueError) as error:
                problem = f"{path.name}: {error}"
                continue
            seconds = summed(trace, CYCLES) if isinstance(trace, Mapping) else {}
            if seconds:
                return {"cycles": CYCLES, "seconds": seconds, "file": path.name}
            problem = f"{path.name} holds no kernel of a device"
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
