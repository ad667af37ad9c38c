"""How long reading takes when results.db holds 100,000 trials. Prints medians in seconds; writes nothing else.

The views are read as Datasette shows a page of them: the first hundred rows.

Usage: python benchmarks/store/measure.py [--trials 100000] [--folder DIR]
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from perfguard import pruning
from perfguard.records import Arm, Campaign, Metric, Reason, Revision, Trial, Workload
from perfguard.store import Store, campaigns, open_store, trials
from perfguard.store.view_descriptions import VIEWS

TRIALS_A_CAMPAIGN = 40
SHARED = {"environment": {f"VARIABLE_{k}": "x" * 40 for k in range(60)}, "versions": {"torch": "2.13.0"}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "results.db"
        print(f"add_trial, one by one          {write_one_by_one(Path(folder) / 'small.db'):.4f}")
        fill(path, options.trials)
        print(f"{options.trials} trials, {path.stat().st_size / 1e6:.0f} MB")
        for name, read in readings():
            print(f"{name:30s} {measured(path, read):.4f}")


def measured(path: Path, read: Callable[[Store], Any], repeats: int = 5) -> float:
    """Median seconds of opening the file, reading and closing."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        with open_store(path, read_only=True) as store:
            read(store)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def readings() -> Iterator[tuple[str, Callable[[Store], Any]]]:
    yield "open and close", lambda store: None
    yield "campaigns()", lambda store: store.campaigns()
    yield "campaigns(100,000)", lambda store: store.campaigns(100_000)
    yield "campaign('latest')", lambda store: store.campaign("latest")
    yield "campaign(prefix)", lambda store: store.campaign("c-000012")
    yield "trials(one campaign)", lambda store: store.trials("c-000012")
    yield "trials(one), no record", lambda store: store.trials("c-000012", with_record=False)
    yield "trial_costs()", lambda store: store.trial_costs("moe", {"gpu": "H200"})
    yield "prune --dry-run", lambda store: pruning.plan(store, pruning.Keep(age_s=90 * 86_400), datetime.now(UTC))
    for view in VIEWS:
        yield f"view {view}", partial(first_page, view)


def first_page(view: str, store: Store) -> None:
    store.db.execute(f"SELECT * FROM {view} LIMIT 101").fetchall()


def write_one_by_one(path: Path, num_trials: int = 50) -> float:
    """Median seconds of one durable trial."""
    seconds = []
    with open_store(path) as store:
        store.add_campaign(campaign(0))
        for number in range(num_trials):
            start = time.perf_counter()
            store.add_trial("c-000000", trial(number))
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def fill(path: Path, num_trials: int) -> None:
    """In one transaction: a hundred thousand times waiting for the disk is not what is measured here."""
    with open_store(path) as store, store.writing(""):
        for number in range(num_trials):
            campaign_number, slot = divmod(number, TRIALS_A_CAMPAIGN)
            id = f"c-{campaign_number:06d}"
            if slot == 0:
                campaigns.insert(store.db, campaign(campaign_number))
                campaigns.insert_verdict(store.db, id, verdict(campaign_number))
            trials.insert(store.db, id, trial(slot) if number % 50 else failed(slot))


def verdict(number: int) -> dict[str, Any]:
    """As long as a real one; every third says nothing."""
    outcome = "INCONCLUSIVE" if number % 3 == 0 else "EQUIVALENT"
    filler = [{"code": "ODDS", "text": "x" * 100}] * 50
    return {"outcome": outcome, "sentence": "No change beyond 2 %.", "filler": filler}


def failed(slot: int) -> Trial:
    reason = Reason(code="crashed", text="exit code 1")
    return replace(trial(slot), status="crashed", values={}, reasons=(reason,), record={"log_tail": "x" * 2000})


def campaign(number: int) -> Campaign:
    revision = Revision(name="HEAD", commit="a" * 40, tree="b" * 40, patch=b"+" * 2000)
    return Campaign(
        id=f"c-{number:06d}",
        kind="compare",
        created_at=f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}+00:00",
        workload=Workload(name="moe", runner="fake", metrics=(Metric(name="tpot", unit="s", better="lower"),)),
        arms=(Arm(side="base", revision=revision), Arm(side="head", revision=revision)),
        policy={},
        seed=number,
        repository="/srv/repo",
        machine={"gpu": "H200"},
    )


def trial(slot: int) -> Trial:
    samples = {mode: [1e-3 + 1e-7 * k * (slot + 1) for k in range(200)] for mode in ("plain", "eagle3")}
    return Trial(
        id=f"t{slot:03d}",
        stage=1,
        block=slot // 4,
        slot=slot % 4,
        side="base" if slot % 4 in (0, 3) else "head",
        build=1,
        attempt=1,
        status="ok",
        started_at="2026-01-01T00:00:00+00:00",
        wall_s=30.0,
        measured_s=10.0,
        values={"tpot": 1e-3 + 1e-6 * slot},
        digests={"plain": "d" * 64},
        record={"ranks": [{**SHARED, "samples": samples}]},
    )


if __name__ == "__main__":
    main()
