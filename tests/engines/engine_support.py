"""Repositories whose engine is a stand-in, and trials of them: through the whole command line, or one launch alone."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "e2e"))
from cli_support import Project, codes, is_alive, rows, texts, wait_for  # noqa: F401 (handed on to the tests)

ROOT = Path(__file__).resolve().parents[2]
STANDINS = Path(__file__).resolve().parent / "standins"
VERSION = "0.5.6"
# What the package does lies beside the tests, where Python compiles it once and not in each checkout.
MAIN = """\
import sys

sys.path.append({folder!r})
{code}

if __name__ == "__main__":
    main({version!r})
"""
# Little, so that a trial takes a second: what is tested is who is asked and what is made of the answers.
SMALL = {
    "requests": 3,
    "tokens": 7,  # of fewer than eight nobody says that they came at once, however long we were not running
    "warmup_requests": 1,
    "warmup_rounds": 1,
    "model": "models/tiny",
    "max_wait_share": 1000.0,  # machines that run tests are busy
}
# Said of a trial where tests run beside it.
OF_BUSY_MACHINES = {"client_starved", "server_disagrees"}
PACKAGES = {
    "sglang": {"sglang/launch_server.py": "from standins.sglang import main"},
    "vllm": {
        "vllm/entrypoints/__init__.py": "",
        "vllm/entrypoints/openai/__init__.py": "",
        "vllm/entrypoints/openai/api_server.py": "from standins.vllm import main",
    },
}


def engine_files(engine: str, **script: Any) -> dict[str, Any]:
    """A repository of that engine whose servers do what `script` says (standins/script.py)."""
    own = {}
    for name, code in PACKAGES[engine].items():
        own[name] = MAIN.format(folder=str(STANDINS.parent), code=code, version=VERSION) if code else ""
    package = {f"{engine}/__init__.py": "", f"{engine}/version.py": f'__version__ = "{VERSION}"\n'}
    return {**own, **package, **plan(**script)}


def plan(**script: Any) -> dict[str, Any]:
    return {"standin.json": script}


def sets(**params: Any) -> list[str]:
    """Options for a small trial."""
    given = {**SMALL, **params}
    return [word for name, value in given.items() for word in ("--set", f"{name}={as_set(value)}")]


def as_set(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def engine_project(folder: Path, engine: str, **script: Any) -> Project:
    """A repository with one commit."""
    project = Project(folder=folder)
    project.commit(engine_files(engine, **script))
    return project


def prepare(folder: Path, standin: str, script: dict[str, Any], modes: tuple[str, ...] = (), **params: Any) -> None:
    """The checkout and the specification of one launch."""
    checkout = folder / "checkout"
    for name, content in engine_files(standin, **script).items():
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    spec = {
        "schema": "perfguard/spec@1",
        "trial": "t",
        "runner": "engine",
        "modes": modes,
        "params": {**SMALL, "engine": standin, "python": sys.executable, **params},
        "subject_root": str(checkout),
        "seed": 7,
        "result": str(folder / "result-{rank}.json"),
        "ready": str(folder / "ready-{rank}"),
    }
    (folder / "spec.json").write_text(json.dumps(spec))


def runner_of(folder: Path) -> list[str]:
    return [sys.executable, "-P", str(ROOT / "runners" / "__main__.py"), str(folder / "spec.json")]


def launch(
    folder: Path, standin: str, script: dict[str, Any], modes: tuple[str, ...] = (), **params: Any
) -> dict[str, Any]:
    """The result of one launch of the runner, started as the harness starts it; {"log"} is what it wrote.

    One that is void only because the machine was busy with other tests is made again, twice at most.
    """
    prepare(folder, standin, script, modes, **params)
    for _ in range(3):
        result = launch_once(folder)
        told = {reason["code"] for reason in result["reasons"]}
        if not told or not told <= OF_BUSY_MACHINES:
            break
    return result


def launch_once(folder: Path) -> dict[str, Any]:
    log = folder / "log"
    with open(log, "wb") as stream:
        done = subprocess.run(
            runner_of(folder),
            env={"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"},
            cwd=folder,
            stdout=stream,
            stderr=subprocess.STDOUT,
            timeout=60,
        )
    result = json.loads((folder / "result-0.json").read_text())
    return {**result, "code": done.returncode, "log": log.read_text(), "is_ready": (folder / "ready-0").exists()}


def codes_of(result: dict[str, Any]) -> list[str]:
    """Without those that are the machine's and not the engine's."""
    return [reason["code"] for reason in result["reasons"] if reason["code"] not in OF_BUSY_MACHINES]


def compared(project: Project, *arguments: str, is_void: bool = False, **env: str) -> dict[str, Any]:
    """A short comparison that is void or not, as expected. A machine busy with other tests may void it as well: then it
    is made again, twice at most.
    """
    for _ in range(3):
        comparison = project.compare(*arguments, code=(0, 1, 3, 4), **env)
        told = [reason["code"] for reason in comparison["reasons"]]
        if comparison["outcome"] != "INVALID" or OF_BUSY_MACHINES.isdisjoint(told):
            assert (comparison["outcome"] == "INVALID") == is_void, told
            return comparison
    raise AssertionError(f"void three times: {told}")
