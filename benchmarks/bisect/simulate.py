"""Right and false culprits of the search on simulated histories, beside other tools, as docs/calibration-bisect.md.

    python -m benchmarks.bisect.simulate

About a quarter of an hour on one core. Runs until every cell holds its number of searches; it may be stopped and
started again at any time. git-bayesect takes part if it is installed, the picture needs matplotlib.
"""

import argparse
from importlib.util import find_spec
from pathlib import Path

from benchmarks.bisect.cells import ROOT, Cell, Tally, add_chunk, load, save
from benchmarks.bisect.page import page
from benchmarks.bisect.peers import TOOLS
from benchmarks.bisect.picture import draw
from benchmarks.verdicts.scenarios import GUARANTEED

PHANTOMS = [Cell(num=64, effect=0.0, scenario=scenario) for scenario in GUARANTEED]
APART = [Cell(num=64, effect=0.0, scenario="per-build luck")]
WRONG_SDS = [
    Cell(num=64, effect=effect, assumed_sd=sd, scenario=scenario)
    for effect in (0.0, 0.05)
    for sd in (0.005, 0.02)
    for scenario in ("iid", "sticky clocks")
]
CULPRITS = [Cell(num=64, effect=effect, scenario=s) for s in GUARANTEED for effect in (0.03, 0.05)]
SIZES = [Cell(num=num, effect=effect) for num in (16, 64, 256, 1024) for effect in (0.02, 0.03, 0.05, 0.10)]
NOISY = [Cell(num=64, effect=effect, sd=0.02, assumed_sd=0.02) for effect in (0.0, 0.03, 0.05, 0.10)]
SHAPES = [
    Cell(num=64, effect=0.06, kind="ramp"),
    Cell(num=64, effect=0.08, kind="stairs"),
    Cell(num=64, effect=0.08, kind="lottery"),
]
PEERS = [
    Cell(num=64, effect=effect, scenario=scenario, tool=tool)
    for tool in TOOLS
    for scenario, effect in (
        ("iid", 0.0),
        ("drift", 0.0),
        ("sticky clocks", 0.0),
        ("iid", 0.03),
        ("iid", 0.05),
        ("drift", 0.05),
        ("sticky clocks", 0.05),
        ("iid", 0.10),
    )
]
EXTRA = [Cell(num=64, effect=0.05, scenario="drift"), Cell(num=64, effect=0.10)]


def wanted(options: argparse.Namespace) -> dict[Cell, int]:
    """How many searches each cell is to hold."""
    counts = dict.fromkeys(PHANTOMS, options.false_count)
    for cell in [*EXTRA, *CULPRITS]:
        counts[cell] = options.count
    for cell in [*SIZES, *APART, *SHAPES, *NOISY, *WRONG_SDS]:
        counts.setdefault(cell, options.count // 2)
    has_bayesect = find_spec("git_bayesect") is not None
    for cell in PEERS:
        if cell.tool != "git-bayesect" or has_bayesect:
            counts[cell] = options.peer_count
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=1000, help="searches a cell")
    parser.add_argument("--false-count", type=int, default=3000, help="searches a cell of phantoms")
    parser.add_argument("--peer-count", type=int, default=500, help="searches a cell of other tools")
    parser.add_argument("--cells", type=Path, default=ROOT / "benchmarks/bisect/cells.json")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/calibration-bisect.md")
    parser.add_argument("--page-only", action="store_true", help="write the page of what is there, simulate nothing")
    options = parser.parse_args()
    tallies = load(options.cells)
    if options.page_only:
        return write(tallies, options.out)
    for cell, count in wanted(options).items():
        while (tally := tallies.get(cell.key, Tally())).num < count:
            tallies[cell.key] = add_chunk(cell, tally)
            save(options.cells, tallies)
        print(f"{cell.key}: {tallies[cell.key]}", flush=True)
    return write(tallies, options.out)


def write(tallies: dict[str, Tally], out: Path) -> None:
    out.write_text(page(tallies), encoding="utf-8")
    print(f"written: {out}")
    if find_spec("matplotlib") is not None:
        draw(tallies, out.parent / "pictures/bisect.svg")


if __name__ == "__main__":
    main()
