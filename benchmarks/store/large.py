"""What a person waits for when results.db holds 100,000 trials and 2,000 judged campaigns of nights.

Runs the commands themselves, start of Python included, and the update of a site after one more campaign. Prints
seconds; writes nothing else.

Usage: python benchmarks/store/large.py [--trials 100000] [--campaigns 2000] [--folder DIR]
"""

import argparse
import math
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from perfguard.experiment import planned_blocks
from perfguard.judging import verdict_json
from perfguard.policy import Policy
from perfguard.records import Campaign, Trial
from perfguard.site import write_site
from perfguard.store import NightRun, NightValue, StoredNight, campaigns, open_store, trials
from perfguard.store import nights as night_rows
from perfguard.store.results import Store

sys.path.insert(0, str(Path(__file__).parent))
from measure import campaign, trial

PERFGUARD = Path(sys.executable).with_name("perfguard")
FIRST = datetime(2021, 1, 1, 2, tzinfo=UTC)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--campaigns", type=int, default=2000)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "results.db"
        fill(path, options.campaigns, options.trials // options.campaigns)
        size = f"{path.stat().st_size / 1e6:.0f} MB"
        print(f"{options.campaigns} campaigns of {options.trials // options.campaigns} trials, {size}")
        for words in (
            ["--version"],
            ["runs"],
            ["show", "latest"],
            ["history"],
            ["history", "-w", "moe", "--json", "-"],
        ):
            print(f"perfguard {' '.join(words):28s} {command_s(path, words)}")
        sites(path, Path(folder) / "site", options.campaigns)


def command_s(path: Path, words: list[str], repeats: int = 5) -> str:
    """The least of several: what others do on this machine only ever adds."""
    database = [] if words == ["--version"] else ["--db", str(path)]
    wall_s, cpu_s = [], []
    for _ in range(repeats):
        before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([PERFGUARD, *words, *database], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall_s.append(time.perf_counter() - began_s)
        cpu_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return f"{min(wall_s):.2f} ({min(cpu_s):.2f} of a processor)"


def sites(path: Path, folder: Path, num_campaigns: int) -> None:
    """The whole site, nothing new, one more campaign."""
    site_s(path, folder, "site, from nothing")
    site_s(path, folder, "site, nothing new")
    with open_store(path) as store, store.writing(""):
        add_night(store, num_campaigns, 40)
    site_s(path, folder, "site, one more campaign")


def site_s(path: Path, folder: Path, what: str) -> None:
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    with open_store(path, read_only=True) as store:
        written = write_site(store, folder)
    spent_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    print(f"{what:38s} {spent_s:.2f} ({cpu_s:.2f} of a processor), {written.num_written} of {written.num_pages} pages")


def fill(path: Path, num_campaigns: int, trials_each: int) -> None:
    with open_store(path) as store, store.writing(""):
        for number in range(num_campaigns):
            add_night(store, number, trials_each)


def add_night(store: Store, number: int, trials_each: int) -> None:
    """A judged comparison of one night, with a slow wave so that no two nights are alike."""
    night = FIRST + timedelta(days=number)
    whole = made(number, night)
    ran = [replace(one, id=f"t{k:03d}") for k, one in enumerate(launches(whole, number, trials_each))]
    campaigns.insert(store.db, whole)
    campaigns.insert_blocks(store.db, whole.id, planned_blocks(whole))
    for one in ran:
        trials.insert(store.db, whole.id, one)
    verdict = verdict_json(whole, planned_blocks(whole), ran[:8])
    campaigns.insert_verdict(store.db, whole.id, verdict)
    run = NightRun(
        campaign=whole.id,
        night=f"n-{number}",
        started_at=night.isoformat(),
        workload="moe",
        commit_sha=f"{number:040x}",
        pin="a" * 40,
        is_link=False,
        code="k",
        machine="m",
    )
    ratio = 1 + 0.001 * math.sin(number * 1.7)
    night_rows.insert_row(store.db, "night_runs", run, without=("outcome",))
    value = NightValue(metric="tpot", unit="s", better="lower", value=ratio * 1e-3, reference=1e-3)
    night_rows.insert_values(store.db, whole.id, str(verdict["outcome"]), [value])
    stored = StoredNight(id=run.night, started_at=run.started_at, status="finished", commit_sha=run.commit_sha)
    night_rows.put_night(store.db, stored)


def made(number: int, night: datetime) -> Campaign:
    method = {"changed_files": [], "repo_modules": {}, "perfguard": "0", "runner_sha256": "0"}
    policy = asdict(Policy())
    return replace(campaign(number), created_at=night.isoformat(), policy=policy, method=method)


def launches(whole: Campaign, number: int, count: int) -> list[Trial]:
    """In the planned orders, blocks of four."""
    plans = [plan for plan in planned_blocks(whole) if plan.stage == 1]
    found = []
    for index in range(count):
        plan, slot = plans[index // 4 % len(plans)], index % 4
        side = "base" if plan.order[slot] == "A" else "head"
        made_up = trial(index % 40)
        values = {"tpot": 1e-3 * (1 + 1e-4 * ((number * 7 + index * 3) % 11))}
        found.append(replace(made_up, stage=1, block=plan.index, slot=slot, side=side, values=values))
    return found


if __name__ == "__main__":
    main()
