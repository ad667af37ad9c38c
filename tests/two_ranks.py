"""Two ranks of the built-in runner as the harness starts them; also of a subject of which one rank stops for ever."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

from perfguard.records import Arm, Revision, Trial
from perfguard.trial.ranks import run_ranks
from perfguard.trial.request import TrialRequest
from perfguard.workloads import BUILT_IN, find

ROOT = Path(__file__).resolve().parents[1]
# Ranks inherit no such variable: what keeps NVLink multicast off on shared hosts has to be asked for again.
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}


def run_two(
    folder, *, owner="two-ranks", checkout=ROOT, modes=("plain", "eagle3"), limits=None, caches=None, **params
) -> Trial:
    """One trial of `checkout`/model. Logs and results lie in `folder`. `caches`: compiled kernels, kept for others."""
    built_in = find("moe-eagle3", {w.name: w for w in BUILT_IN})
    # Also what the runner knows and this workload does not offer, as the kind of all-reduce.
    asked = {**built_in.params, "tp": 2, **params}
    workload = replace(built_in, params=asked, world_size=2, modes=modes, **(limits or {}))
    site = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    arm = Arm(side="base", revision=Revision(name="HEAD", commit="c" * 40, tree="t" * 40), env=NO_MULTICAST | site)
    request = TrialRequest(
        id="t", stage=1, block=0, slot=0, side="base", build=1, attempt=0, workload=workload, arm=arm,
        checkout=Path(checkout), caches=caches or folder / "caches", folder=folder, strays=folder / "strays",
        owner=owner, seed=1,
    )  # fmt: skip
    return run_ranks(request, bundle=ROOT)


def run_hanging(folder, file, line, *, owner, limit_s, **params) -> tuple[Trial, list[str]]:
    """A trial of today's model in which rank 1, once it is ready, sleeps before `line` of `file`; and both logs."""
    checkout, run = folder / "subject", folder / "run"
    shutil.copytree(ROOT / "model", checkout / "model", ignore=shutil.ignore_patterns("__pycache__"))
    path = checkout / "model" / file
    text = path.read_text()
    assert text.count(f"{line}\n") == 1
    is_stopped = f"_os.environ['RANK'] == '1' and _os.path.exists({str(run / 'ready-1')!r})"
    stop = f"import os as _os, time as _time; {is_stopped} and _time.sleep(600)"
    indent = next(at for at in text.splitlines() if at.strip() == line).removesuffix(line)
    path.write_text(text.replace(f"{indent}{line}\n", f"{indent}{stop}\n{indent}{line}\n"))
    limits = {"timeout_s": limit_s, "ready_timeout_s": 180.0}
    trial = run_two(run, owner=owner, checkout=checkout, modes=("plain",), limits=limits, **params)
    return trial, [(run / f"rank-{rank}.log").read_text() for rank in range(2)]


def left_over(owner) -> list[str]:
    """Processes that still carry the mark of their owner."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is not ours
            continue
        if f"PERFGUARD_OWNER={owner}".encode() in environment:
            found.append(process.name)
    return found
