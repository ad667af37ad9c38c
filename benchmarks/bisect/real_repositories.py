"""Real bisects: temporary git repositories with a planted slow commit that computes, on this machine's CPU.

    python -m benchmarks.bisect.real_repositories FOLDER [--seeds 10] [--effects 5,10] [--shapes line,merge]

Runs the installed `perfguard bisect` as a person does, one process a search, and stores every launch in
FOLDER/results.db. Prints a line a search and a table; the same as FOLDER/results.json. A folder that was begun is gone
on with: searches that are there are not run again. Shapes: a plain line, a merge whose branch holds the culprit,
commits that do not start around it, a benchmark that old commits lack, and a line in which nothing is slow.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

PERFGUARD = Path(sys.executable).with_name("perfguard")
NUM_COMMITS = 32
# A loop of this many rounds takes about a quarter of a millisecond.
ROUNDS = 5_000
ENGINE = """\
def work(rounds={rounds}):
    total = 0
    for number in range(rounds):
        total += number * number % 7
    return total
"""
# Fit for a machine that is shared: processor time instead of time on the clock, in pieces so short that few are cut
# in two, each beside a yardstick of the same kind of work that meets the same neighbours, with rests that spread them
# over most of a second.
BENCH = """\
import json, statistics, sys, time
sys.path.insert(0, ".")
from engine import work
def yardstick():
    total = 0
    for number in range(5_000):
        total += number * number % 7
    return total
def seconds(piece):
    started = time.process_time()
    piece()
    return time.process_time() - started
def ratio():
    time.sleep(0.005)
    before, own, after = seconds(yardstick), seconds(work), seconds(yardstick)
    return 2 * own / (before + after)
print(json.dumps({"yardsticks": statistics.median(ratio() for _ in range(100))}))
"""


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A repository and what is true of it: `slow` is "" where nothing is, `merge` brought it in. `options` for
    perfguard.
    """

    good: str
    slow: str
    merge: str = ""
    options: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Searched:
    """What one search came to. `effect` in percent; `is_right`: the planted commit, or PHANTOM where none is;
    `is_false`: another commit (the merge that
    brought it in is not wrong, and counts as undecided); `is_missed`: PHANTOM though one is slow.
    """

    shape: str
    effect: float
    seed: int
    outcome: str
    is_right: bool
    is_false: bool
    is_missed: bool
    trials: int
    search_trials: int
    builds: int
    slowdown: float | None
    wall_s: float
    # Load average of the last minute when it ended: how busy the machine was beside it.
    load: float
    id: str


@dataclass(kw_only=True)
class Repo:
    """A repository that is being written."""

    folder: Path

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "commit.gpgSign=false")
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.folder, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, message: str, **files: str) -> str:
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def notes(self, first: int, last: int) -> None:
        """Commits that change a file that nothing loads."""
        for number in range(first, last):
            self.commit(f"note {number}", notes=f"NUMBER = {number}\n")


def engine(effect: float = 0.0) -> str:
    return ENGINE.format(rounds=round(ROUNDS * (1 + effect / 100)))


def begin(folder: Path, **files: str) -> tuple[Repo, str]:
    folder.mkdir(parents=True)
    repo = Repo(folder=folder)
    repo.git("init", "--quiet", "--initial-branch=main")
    return repo, repo.commit("start", **files)


def line(folder: Path, effect: float, place: int) -> Planted:
    repo, good = begin(folder, engine=engine(), bench=BENCH)
    repo.notes(1, place)
    slow = repo.commit("slow", engine=engine(effect))
    repo.notes(place + 1, NUM_COMMITS + 1)
    return Planted(good=good, slow=slow)


def phantom(folder: Path, effect: float, place: int) -> Planted:
    repo, good = begin(folder, engine=engine(), bench=BENCH)
    repo.notes(1, NUM_COMMITS + 1)
    return Planted(good=good, slow="")


def merge(folder: Path, effect: float, place: int) -> Planted:
    """The culprit is the middle of five commits of a branch."""
    repo, good = begin(folder, engine=engine(), bench=BENCH)
    repo.notes(1, place)
    repo.git("checkout", "--quiet", "-b", "side")
    for number in (1, 2):
        repo.commit(f"side {number}", side=f"NUMBER = {number}\n")
    slow = repo.commit("slow", engine=engine(effect))
    for number in (3, 4):
        repo.commit(f"side {number}", side=f"NUMBER = {number}\n")
    repo.git("checkout", "--quiet", "main")
    repo.notes(place, place + 2)
    repo.git("merge", "--quiet", "--no-ff", "--message", "merge", "side")
    brought = repo.git("rev-parse", "HEAD")
    repo.notes(place + 2, NUM_COMMITS + 1)
    return Planted(good=good, slow=slow, merge=brought)


def broken(folder: Path, effect: float, place: int) -> Planted:
    """Three commits that do not start, mended two commits before the culprit, and two more behind it."""
    repo, good = begin(folder, engine=engine(), bench=BENCH)
    repo.notes(1, place)
    repo.commit("break", bench="import nothing_of_this_name\n")
    repo.notes(place, place + 2)
    repo.commit("mend", bench=BENCH)
    repo.notes(place + 2, place + 3)
    slow = repo.commit("slow", engine=engine(effect))
    repo.notes(place + 3, place + 4)
    repo.commit("break again", bench="import nothing_of_this_name\n")
    repo.commit("mend again", bench=BENCH)
    repo.notes(place + 4, NUM_COMMITS + 1)
    return Planted(good=good, slow=slow)


def late(folder: Path, effect: float, place: int) -> Planted:
    """The benchmark is younger than the culprit."""
    repo, good = begin(folder, engine=engine())
    repo.notes(1, place)
    slow = repo.commit("slow", engine=engine(effect))
    repo.notes(place + 1, NUM_COMMITS)
    repo.commit("measure", bench=BENCH)
    return Planted(good=good, slow=slow, options=("--bench-from", "HEAD:bench.py"))


SHAPES: Mapping[str, Callable[[Path, float, int], Planted]] = {
    "line": line,
    "merge": merge,
    "broken": broken,
    "late": late,
    "phantom": phantom,
}


def search(root: Path, shape: str, effect: float, seed: int) -> Searched:
    """One repository, one bisect. The place of the culprit is drawn from the seed."""
    folder = root / "repositories" / f"{shape}-{effect:g}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)  # of a search that was ended
    place = random.Random(f"{shape} {effect} {seed}").randrange(4, NUM_COMMITS - 8)
    planted = SHAPES[shape](folder, effect, place)
    command = [
        str(PERFGUARD), "bisect", planted.good, "HEAD", "--repo", str(folder), "--db", str(root / "results.db"),
        "--metric", "yardsticks", "--better", "lower", "--unit", "1", "--seed", str(seed), "--json", "-", "--quiet",
        *planted.options, "--", sys.executable, "bench.py",
    ]  # fmt: skip
    started_s = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}") from None
    is_right = found["culprit"] == planted.slow if planted.slow else found["outcome"] == "PHANTOM"
    return Searched(
        shape=shape,
        effect=effect,
        seed=seed,
        outcome=found["outcome"],
        is_right=is_right,
        is_false=found["outcome"] == "CULPRIT" and found["culprit"] not in (planted.slow, planted.merge),
        is_missed=found["outcome"] == "PHANTOM" and not is_right,
        trials=found["trials"],
        search_trials=found["trials_by"]["search"],
        builds=found["builds"],
        slowdown=found["slowdown"],
        wall_s=time.monotonic() - started_s,
        load=os.getloadavg()[0],
        id=found["id"],
    )


def cells(shapes: Sequence[str], effects: Sequence[str], num_seeds: int) -> list[tuple[str, float, int]]:
    """Seed by seed, so that a campaign that is ended early has about as many searches of each kind."""
    kinds = [(shape, float(effect)) for shape in shapes for effect in (["0"] if shape == "phantom" else effects)]
    return [(*kind, seed) for seed in range(num_seeds) for kind in kinds]


def table(results: list[Searched]) -> list[str]:
    """One line a shape and effect."""
    lines = ["shape     effect  searches  right  false  missed  undecided  trials (search)  builds  minutes  load"]
    for shape, effect in dict.fromkeys((found.shape, found.effect) for found in results):
        same = [found for found in results if (found.shape, found.effect) == (shape, effect)]
        right, false, missed = (
            sum(getattr(found, name) for found in same) for name in ("is_right", "is_false", "is_missed")
        )
        trials = f"{median(f.trials for f in same):g} ({median(f.search_trials for f in same):g})"
        lines.append(
            f"{shape:<9} {effect:>4g} %  {len(same):>8}  {right:>5}  {false:>5}  {missed:>6}  "
            f"{len(same) - right - false - missed:>9}  "
            f"{trials:>15}  {median(f.builds for f in same):>6g}  {median(f.wall_s for f in same) / 60:>7.1f}  "
            f"{median(f.load for f in same):>4.1f}"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--effects", default="5,10")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    stored = asked.folder / "results.json"
    results = [Searched(**one) for one in json.loads(stored.read_text())] if stored.exists() else []
    known = {(found.shape, found.effect, found.seed) for found in results}
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {NUM_COMMITS} commits, {PERFGUARD}")
    for shape, effect, seed in cells(asked.shapes.split(","), asked.effects.split(","), asked.seeds):
        if (shape, effect, seed) in known:
            continue
        results.append(search(asked.folder, shape, effect, seed))
        stored.write_text(json.dumps([asdict(found) for found in results], indent=1))
        print(results[-1], flush=True)
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
