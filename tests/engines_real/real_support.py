"""Comparisons of real engines through the whole command line, and what is left of their processes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

from perfguard.judging import verdict_json
from perfguard.store import open_store

sys.path.append(str(Path(__file__).resolve().parents[1] / "e2e"))
from cli_support import PERFGUARD, Project, is_alive, rows, wait_for  # noqa: F401 (handed on)

# Few tokens: a launch is nearly all start. The client goes before the engine where that is allowed; where it is not, a
# busy machine would void every trial, and what is held here are counts.
SMALL = {"requests": 8, "tokens": 64, "warmup_rounds": 2, "realtime": True, "max_wait_share": 1.0}
# Nothing is compiled, and the cache of a tiny model needs no more.
VLLM_ARGS = "--enforce-eager --kv-cache-memory-bytes 67108864 --max-model-len 1024"
VLLM_ENV = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_OMP_THREADS_BIND": "0"}
POLICY = "[policy]\npause_share = 0\nconfirm_builds = 2\n"
# A start takes half a minute here, and six times that where the machine is busy.
LIMIT_S = 3000
TRIALS = "SELECT side, status, metrics, digests, reasons, record FROM trials WHERE stage > 0 ORDER BY rowid"


def engine_project(folder: Path, based_on: str, **params: Any) -> Project:
    """A repository whose workload `tiny` is a small one of that kind; a value may be text, a number or a truth."""
    given = {**SMALL, **params}
    lines = [
        POLICY,
        "[workload.tiny]",
        f'based_on = "{based_on}"',
        "ready_timeout_s = 900",
        "timeout_s = 600",
        "[workload.tiny.params]",
        *(f"{name} = {json.dumps(value)}" for name, value in given.items()),
    ]
    project = Project(folder=folder)
    project.commit({"perfguard.toml": "\n".join(lines) + "\n"})
    return project


def vllm_project(folder: Path, python: Path, models: Path, based_on: str = "vllm-ngram", **params: Any) -> Project:
    own = {"python": str(python), "model": str(models / "target"), "args": VLLM_ARGS, **params}
    return engine_project(folder, based_on, **own)


def ngram(num_draft_tokens: int) -> str:
    """Drafts are what followed the same tokens before, up to three of them."""
    config = {"method": "ngram", "num_speculative_tokens": num_draft_tokens, "prompt_lookup_max": 3}
    return f"speculative_args=--speculative-config '{json.dumps({**config, 'prompt_lookup_min': 1})}'"


def run(project: Project, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """One command line, with the time that engines need."""
    command = [str(PERFGUARD), *arguments]
    return subprocess.run(command, cwd=project.repo, env=project.env(), capture_output=True, text=True, timeout=LIMIT_S)


def compare(project: Project, *arguments: str, env: Mapping[str, str] = VLLM_ENV) -> dict[str, Any]:
    """Two blocks of the workload at one commit; its JSON."""
    small = ("--max-blocks", "2", "--seed", "1", "--quiet", "--json", "-")
    done = run(project, "compare", "HEAD", "HEAD", "-w", "tiny", *small, *variables(env), *arguments)
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure(project: Project, *arguments: str, env: Mapping[str, str] = VLLM_ENV) -> dict[str, Any]:
    """One trial of the workload, which must count."""
    done = run(project, "run", "HEAD", "-w", "tiny", "--trials", "1", *variables(env), *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return trials(project)[-1]


def variables(env: Mapping[str, str]) -> list[str]:
    return [word for name, value in env.items() for word in ("--env", f"{name}={value}")]


def trials(project: Project) -> list[dict[str, Any]]:
    """Those that count, in their order; one that failed is shown with its reasons."""
    names = ("side", "status", "metrics", "digests", "reasons", "record")
    found = [dict(zip(names, row, strict=True)) for row in rows(project.db, TRIALS)]
    for trial in found:
        trial.update({name: json.loads(trial[name]) for name in names[2:]})
    bad = [(trial["status"], trial["reasons"]) for trial in found if trial["status"] != "ok"]
    assert found, "no trial was stored"
    assert bad == [], bad
    return found


def reasons_after_one_block(project: Project, comparison: Mapping[str, Any]) -> dict[str, str]:
    """Code and text of what the verdict says when only the first block of the stored trials is looked at."""
    store = open_store(project.db, read_only=True)
    campaign, plans = store.campaign(comparison["id"]), store.blocks(comparison["id"])
    first = [trial for trial in store.trials(campaign.id) if trial.stage == 0 or trial.block == 0]
    verdict = verdict_json(campaign, plans, first, stopped="budget")
    assert verdict["blocks"]["used"] == 1
    return {reason["code"]: reason["text"] for reason in verdict["reasons"]}


def counts(trial: Mapping[str, Any]) -> dict[str, Any]:
    """Of its only mode."""
    (found,) = trial["record"]["counts"].values()
    return dict(found)


def drafting(trial: Mapping[str, Any]) -> tuple[int, int, int]:
    """Cycles, drafted, accepted."""
    found = counts(trial)
    return found["cycles"], found["drafted"], found["accepted"]


def below(pid: int) -> dict[int, str]:
    """Every process below `pid` and the command that started it; renamed ones are there with their new name."""
    return {child.pid: " ".join(child.cmdline()) for child in psutil.Process(pid).children(recursive=True)}


def shared_names(pids: Iterable[int]) -> set[str]:
    """Names of shared memory that these processes have mapped."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    return {line.split("/dev/shm/")[1] for line in lines if "/dev/shm/psm_" in line}


def sockets(pids: Iterable[int]) -> set[str]:
    """Paths of the sockets that these processes listen on."""
    found = (connection.laddr for pid in pids for connection in psutil.Process(pid).net_connections("unix"))
    return {path for path in found if path.startswith("/")}


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # who lost the one before may have ended by itself
            os.kill(pid, signal.SIGKILL)


def names_left(names: Iterable[str]) -> list[str]:
    """Of names in /dev/shm and of whole paths."""
    return sorted(name for name in names if Path("/dev/shm", name).exists())
