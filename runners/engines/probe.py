"""What the arm's Python would load: asked of that Python itself, in the folder and environment of its server.

Finds a package without importing it: importing an engine takes seconds and may touch a GPU.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfguard.protocol import installed
from runners import origin

LIMIT_S = 60.0
# Code, tables of tuned kernels, and sources that are compiled as the engine runs.
SOURCES = (".py", ".json", ".cu", ".cuh", ".h", ".hpp", ".cpp", ".cc")
# Runs in the arm's Python, whatever its version. `-c` puts the current folder in front of the path, as `-m` does.
QUESTION = """
import importlib.util, json, platform, sys
found = {}
for name in sys.argv[1:]:
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.origin:
        found = {"module": name, "path": spec.origin}
        break
about = {"python": platform.python_implementation() + " " + platform.python_version()}
print(json.dumps({**found, **about, "executable": sys.executable, "sys_path": sys.path}))
"""
# Where a package says its own version, newest habit first. Read, not run.
VERSION_FILES = ("_version.py", "version.py", "__init__.py")
VERSION_NAMES = ("__version__", "version")


@dataclass(frozen=True, kw_only=True)
class Found:
    """`folder` of the package, None where there is none of these names; `version` "" where nothing told it."""

    module: str = ""
    folder: Path | None = None
    version: str = ""
    python: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


def probe(
    python: str, modules: Sequence[str], distributions: Sequence[str], *, env: Mapping[str, str], cwd: Path
) -> Found:
    """Never raises for what the arm's Python does: `error` says it."""
    told = _ask(python, modules, env, cwd)
    if isinstance(told, str):
        return Found(error=told)
    packages = installed([entry or str(cwd) for entry in told["sys_path"]])
    if "path" not in told:
        error = f"{python} finds no package {' or '.join(modules)}"
        return Found(python=told["python"], packages=packages, error=error)
    folder = Path(os.path.realpath(told["path"])).parent
    return Found(
        module=told["module"],
        folder=folder,
        version=version_of(folder) or _installed_version(folder, packages, distributions),
        python=told["python"],
        packages=packages,
    )


def version_of(folder: Path) -> str:
    """The version that a package's own files state as plain text, "" if none does."""
    for name in VERSION_FILES:
        try:
            text = (folder / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        for line in text.splitlines():
            names, sign, value = line.partition("=")
            if sign and {part.strip() for part in names.split(":")[0].split("=")} & set(VERSION_NAMES):
                value = value.rpartition("=")[2].strip()
                if value[:1] in "'\"" and value[:1] == value[-1:] and len(value) > 2:
                    return value[1:-1]
    return ""


def package_files(found: Found, checkout: Path) -> dict[str, dict[str, str]]:
    """{module, or place of another file: {"path", "sha256"}} of the package, as the harness's proof of origin takes it:
    code, and the tables and kernel sources that are read as the engine runs. Binaries are those that were loaded.

    A file outside of the checkout that equals the one the checkout has at the same place below the package is given
    with that one's path in `same_as`: an installed copy of this very commit.
    """
    if found.folder is None:
        return {}
    own = _package_in(checkout, found.module)
    return dict(_files(found.module, found.folder, own))


def _files(module: str, folder: Path, own: Path | None) -> Any:
    for path in sorted(path for path in folder.rglob("*") if path.suffix in SOURCES):
        place = path.relative_to(folder)
        parts = [module, *place.with_suffix("").parts]
        dotted = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        name = dotted if path.suffix == ".py" else str(Path(module) / place)
        file = {"path": str(path), "sha256": origin.sha256(path)}
        twin = None if own is None or own == folder else own / place
        if twin is not None and twin.is_file() and origin.sha256(twin) == file["sha256"]:
            file["same_as"] = str(twin)
        yield name, file


def _package_in(checkout: Path, module: str) -> Path | None:
    """The package's folder in a checkout: at its top, or below a source folder."""
    for source in ("", "python", "src"):
        folder = checkout / source / module
        if (folder / "__init__.py").is_file():
            return Path(os.path.realpath(folder))
    return None


def _installed_version(folder: Path, packages: Mapping[str, str], distributions: Sequence[str]) -> str:
    """What was installed says which version this is, where the package lies among the installed."""
    if not {"site-packages", "dist-packages"} & set(folder.parts):
        return ""
    return next((packages[name] for name in distributions if name in packages), "")


def _ask(python: str, modules: Sequence[str], env: Mapping[str, str], cwd: Path) -> Any:
    """What it answered, or a text that says why it did not."""
    try:
        done = subprocess.run(
            [python, "-c", QUESTION, *modules],
            env=dict(env),
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            stdin=subprocess.DEVNULL,
        )
        return json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{python} cannot be asked: {error}"
    except (ValueError, IndexError):
        return f"{python} gave no answer: {done.stderr.strip()[-500:]}"
