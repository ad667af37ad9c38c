"""Which files a Python command loads: a sitecustomize of ours on PYTHONPATH, and what its processes wrote.

For the unmeasured first run of a build only. Must never make a command fail.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

SITE = Path(__file__).with_name("probe_site")
PROBE_VARIABLE = "PERFGUARD_PROBE"

Loaded = Mapping[str, Mapping[str, str]]


def probed(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """`environment` with the probe in front; each Python process then leaves a file in `folder` at its end."""
    folder.mkdir(parents=True, exist_ok=True)
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


def _read(file: Path) -> dict[str, dict[str, str]]:
    try:
        answer = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # ended while it wrote
    return answer if isinstance(answer, dict) else {}
