"""False verdicts and power of the comparison, and of other tools, on simulated machines: docs/calibration.md.

    python -m benchmarks.verdicts.simulate

Runs until every cell holds its number of comparisons, writes the page and draws its pictures; it may be stopped and
started again at any time.
"""

import argparse
import multiprocessing
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.verdicts.cells import EMPTY, ROOT, PeerCell, Results, Tally, add, chunk, load, save
from benchmarks.verdicts.grid import Task, tasks
from benchmarks.verdicts.page import page
from benchmarks.verdicts.plots import draw, require_matplotlib
from benchmarks.verdicts.speed import COMPARISONS, measure

SAVE_EVERY = 20
# Threads of a matrix library beside two busy processes only cost.
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run(results: Results, work: list[Task], path: Path, jobs: int) -> None:
    """All tasks, each added to the results as it ends, in their order; saved now and then and at the end."""
    done = 0
    try:
        for (cell, _, num), tally in _computed(work, jobs):
            tallies = results.peers if isinstance(cell, PeerCell) else results.ours
            tallies[cell.key] = add(tallies.get(cell.key, EMPTY), tally)
            done += 1
            if done % SAVE_EVERY == 0:
                save(path, results)
                print(f"{done} of {len(work)}: {cell.key}, {num} more", flush=True)
    finally:
        save(path, results)


def _computed(work: list[Task], jobs: int) -> Iterable[tuple[Task, Tally]]:
    if jobs == 1:
        yield from ((task, chunk(*task)) for task in work)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            yield from zip(work, pool.map(chunk, *zip(*work, strict=True)), strict=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Simulate the verdict and other tools' rules; write the page.")
    parser.add_argument("--count", type=int, default=2000, help="comparisons a cell")
    parser.add_argument("--false-count", type=int, default=20_000, help="comparisons a cell of false reports")
    parser.add_argument("--peer-count", type=int, default=2000, help="comparisons a cell of another tool")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--cells", type=Path, default=ROOT / "benchmarks/verdicts/cells.json")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/calibration.md")
    parser.add_argument("--pictures", type=Path, default=ROOT / "docs/pictures", help="folder of the pictures")
    parser.add_argument("--no-pictures", action="store_true", help="leave them as they are (needs no matplotlib)")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    options = parsed(arguments)
    if not options.no_pictures:
        require_matplotlib()
    for name in ONE_THREAD:
        os.environ.setdefault(name, "1")
    results = load(options.cells)
    counts = {"count": options.count, "false_count": options.false_count, "peer_count": options.peer_count}
    work = list(tasks(results, **counts))
    if work:
        run(results, work, options.cells, options.jobs)
    if work or not results.speed:
        results.speed.update(measure(min(COMPARISONS, options.count)))
        save(options.cells, results)
    options.out.write_text(page(results), encoding="utf-8")
    print(f"written: {options.out}")
    for picture in () if options.no_pictures else draw(results, options.pictures):
        print(f"drawn: {picture}")


if __name__ == "__main__":
    main()
