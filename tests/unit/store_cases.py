"""Records for the tests of the store: small, complete, and different wherever a mix-up could hide."""

import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfguard.records import Arm, BlockPlan, Campaign, Metric, Reason, Revision, Trial, Workload
from perfguard.store import Store, open_store

DECODE = Metric(name="decode_throughput", unit="token/s", better="higher")
TOKENS = Metric(name="tokens", unit="1", better="higher", primary=False, exact=True)
MACHINE = {"gpu": {"gpus": [{"name": "NVIDIA H200"}] * 2, "driver": "580.1"}}


def campaign(campaign_id: str = "c-0001", created_at: str = "2026-01-02T03:04:05+00:00", **changes: Any) -> Campaign:
    base = Revision(name="HEAD~1", commit="a" * 40, tree="b" * 40, subject="Faster [bold]router[/bold]")
    head = Revision(name="WORKTREE", commit="c" * 40, tree="d" * 40, patch=b"--- a\n+++ b\n\x00\xff\xfe")
    whole = Campaign(
        id=campaign_id,
        kind="compare",
        created_at=created_at,
        workload=Workload(name="moe", runner="fake", metrics=(DECODE, TOKENS), modes=("plain", "eagle3")),
        arms=(
            Arm(side="base", revision=base, env={"NCCL_PROTO": "LL"}),
            Arm(side="head", revision=head, params={"layers": 12}),
        ),
        policy={"margin": 0.02, "alpha": 0.001},
        seed=7,
        repository="/srv/repo",
        machine=MACHINE,
        method={"runner": "fake", "sha256": "e" * 64},
    )
    return replace(whole, **changes)


def block(index: int = 0, stage: int = 1) -> BlockPlan:
    return BlockPlan(stage=stage, index=index, order="ABBA", builds="1111", pauses=(0.1, 0.25, 1 / 3, 0.0))


def trial(number: int = 0, **changes: Any) -> Trial:
    block_index, slot = divmod(number, 4)
    whole = Trial(
        id=f"t{number:05d}",
        stage=1,
        block=block_index,
        slot=slot,
        side="base" if slot in (0, 3) else "head",
        build=1,
        attempt=1,
        status="ok",
        started_at="2026-01-02T03:04:06+00:00",
        wall_s=5.5,
        measured_s=1.5,
        values={"decode_throughput": 80.0 + number},
        digests={"plain": "f" * 64},
        record=record(number),
    )
    return replace(whole, **changes)


def record(number: int) -> dict[str, Any]:
    """Much of it is the same in every trial; the samples are not."""
    return {
        "ranks": [
            {
                "rank": rank,
                "environment": {"PATH": "/usr/bin", "NCCL_PROTO": "LL", "filler": "x" * 400},
                "versions": {"torch": "2.13.0", "nccl": [2, 27, 3]},
                "origin": {"model.layers": {"path": "/w/model/layers.py", "sha256": "0" * 64}},
                "samples": {"plain": [0.001 * (1 + number + k / 100) for k in range(100)]},
            }
            for rank in range(2)
        ]
    }


FAILED = {
    "status": "crashed",
    "values": {},
    "digests": {},
    "reasons": (Reason(code="oom", text="CUDA out of memory: [tp=8]"),),
    "record": {"log": "tail\x00\udcff"},
}


def filled(path: Path, num_trials: int = 2) -> Path:
    with open_store(path) as store:
        store.add_campaign(campaign())
        for number in range(num_trials):
            store.add_trial("c-0001", trial(number))
    return path


def python(code: str, *arguments: object, **options: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        **options,  # type: ignore[call-overload]
    )


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """What another program sees in the file."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def reading_names(store: Store, machine: str) -> list[str]:
    """What the history of a machine holds, in alphabetical order."""
    rows = store.db.execute("SELECT DISTINCT name FROM machine_readings WHERE machine = ? ORDER BY name", (machine,))
    return [row[0] for row in rows]
