"""Which files a Python command loads and what its processes see: a sitecustomize of ours, and what they wrote.

For the unmeasured first run of a build only. Must never make a command fail.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfguard.protocol import ENVIRONMENT_PREFIXES, installed

SITE = Path(__file__).with_name("probe_site")
PROBE_VARIABLE = "PERFGUARD_PROBE"

# Different reports that are kept of one run; more are helpers started by the hundred.
MAX_PROCESSES = 64
ANSWER_S = 20.0

Loaded = Mapping[str, Mapping[str, str]]


def probed(environment: Mapping[str, str], folder: Path, asked: Mapping[str, str] | None = None) -> dict[str, str]:
    """`environment` with the probe in front; each Python process then leaves two files in `folder` at its end.

    Variables in `asked` are reported whatever they are called.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {"prefixes": ENVIRONMENT_PREFIXES, "names": list(asked or ())}
    (folder / "wanted").write_text(json.dumps(wanted), encoding="utf-8")
    path = environment.get("PYTHONPATH", "")
    # An empty entry means the current folder to Python: it must not appear where none was.
    joined = os.pathsep.join([str(SITE), path]) if path else str(SITE)
    return {**environment, "PYTHONPATH": joined, PROBE_VARIABLE: str(folder)}


def read_probe(folder: Path) -> dict[str, dict[str, str]] | None:
    """{module, or path of a shared object: {"path", "sha256"}} of all processes; None if no Python process answered.

    Two processes that loaded one module from different files both appear, the later as "module (2)".
    """
    answers = [_read(file) for file in sorted(folder.glob("*.json"))]
    if not any(answers):
        return None
    merged: dict[str, dict[str, str]] = {}
    for answer in answers:
        for name, file in answer.items():
            others = [key for key in merged if key == name or key.startswith(f"{name} (")]
            if not any(merged[key] == file for key in others):
                merged[name if not others else f"{name} ({len(others) + 1})"] = file
    return merged


def read_processes(folder: Path) -> list[dict[str, Any]]:
    """What each Python process of the run saw, equal ones counted (`num_processes`): {"program", "rank",
    "environment", "software", "num_processes"} with `exec:` and `start:` as in a rank's report.
    """
    counted: dict[str, dict[str, Any]] = {}
    for file in sorted(folder.glob("*.seen")):
        try:
            seen = _process(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, LookupError, TypeError):
            continue  # ended while it wrote
        known = counted.setdefault(json.dumps(seen, sort_keys=True), {**seen, "num_processes": 0})
        known["num_processes"] += 1
    return sorted(counted.values(), key=lambda one: -int(one["num_processes"]))[:MAX_PROCESSES]


def python_now(executable: str) -> dict[str, Any] | None:
    """{"python": version, "packages"} of an interpreter as it would start here now; None where it does not answer."""
    told = "import json, os, sys; print(json.dumps([sys.version.split()[0], [*map(os.path.abspath, sys.path[1:])]]))"
    try:
        done = subprocess.run([executable, "-c", told], capture_output=True, text=True, timeout=ANSWER_S, check=True)
        version, folders = json.loads(done.stdout.splitlines()[-1])
    except (OSError, ValueError, LookupError, subprocess.SubprocessError):
        return None
    return {"python": version, "packages": installed(folders)}


def _process(told: Mapping[str, Any]) -> dict[str, Any]:
    now, begun, started = (_without_probe(environ) for environ in told["environment"])
    moved = {name for name in {*now, *begun} if now.get(name) != begun.get(name)}
    early = {name for name in {*started, *begun} if started.get(name) != begun.get(name)}
    at = {f"exec:{name}": begun.get(name, "") for name in sorted(moved | early)}
    startup = {name: {"path": path} for name, path in told["startup"].items()}
    software = {"python": told["python"], "packages": installed(told["path"]), "startup": startup}
    return {
        "program": told["program"],
        "rank": told["rank"],
        "executable": told["executable"],
        "environment": dict(sorted(now.items())) | at | {f"start:{name}": started.get(name, "") for name in early},
        "software": software,
    }


def _without_probe(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables as they would be without us."""
    kept = {name: value for name, value in environ.items() if name != PROBE_VARIABLE}
    entries = [entry for entry in kept.get("PYTHONPATH", "").split(os.pathsep) if entry != str(SITE)]
    if "PYTHONPATH" in kept:
        kept["PYTHONPATH"] = os.pathsep.join(entries)
    if not kept.get("PYTHONPATH"):
        kept.pop("PYTHONPATH", None)
    return kept


def _read(file: Path) -> dict[str, dict[str, str]]:
    try:
        answer = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # ended while it wrote
    return answer if isinstance(answer, dict) else {}
