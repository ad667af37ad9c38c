"""`python -m benchmarks.search.simulate`: simulated searches and sweeps -> docs/calibration-search.md."""

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from benchmarks.search.oracle import KINDS, draw_case, each_alone, search
from benchmarks.search.sweeps import NOISES, TRUTHS, sweep
from benchmarks.verdicts.scenarios import SCENARIOS
from perfguard.policy import Policy
from perfguard.stats.search import MAX_SET

ROOT = Path(__file__).resolve().parents[2]
SEED = 20_260_704


@dataclass(frozen=True, kw_only=True)
class SearchCell:
    num: int
    kind: str
    effects: tuple[float, float] = (0.05, 0.10)
    sd: float = 0.01
    noise: str = "iid"


PROMISED = tuple(SearchCell(num=num, kind=kind) for num in (3, 12) for kind in KINDS)
# What is not promised is counted less often.
BEYOND_SHARE = 4
# So is what takes long; what is short, and where a rate near the promise shows, more often.
SWEEPS_AS_MANY = {"2 equal": 5.0, "12 equal": 0.25}
BEYOND = (
    *(SearchCell(num=12, kind=kind, effects=(0.025, 0.04)) for kind in ("one", "two, fast only together")),
    *(SearchCell(num=12, kind=kind, sd=0.02) for kind in ("none", "one", "two, slow only together")),
    *(SearchCell(num=12, kind="one", noise=noise) for noise in ("drift", "sticky clocks", "AR(1)")),
    *(SearchCell(num=12, kind="none", noise=noise) for noise in ("sticky clocks", "AR(1)")),
)


def search_row(cell: SearchCell, count: int) -> str:
    rng = np.random.default_rng([SEED, PROMISED.index(cell) if cell in PROMISED else 100 + BEYOND.index(cell)])
    ends, trials, alone_trials, alone_right = Counter[str](), list[int](), list[int](), 0
    for _ in range(count):
        case = draw_case(cell.kind, cell.num, cell.effects, rng)
        found = search(case, Policy(), SCENARIOS[cell.noise], cell.sd, rng)
        ends[_end(found.end.outcome, found.end.found, case.right)] += 1
        trials.append(found.trials)
        alone = each_alone(case, Policy(), SCENARIOS[cell.noise], cell.sd, rng)
        alone_trials.append(alone.trials)
        alone_right += alone.end.found == case.right
    shares = " | ".join(f"{100 * ends[name] / count:.1f}" for name in ("right", "wrong", "undecided"))
    effects = "–" if cell.kind == "none" else f"{100 * cell.effects[0]:g} to {100 * cell.effects[1]:g} %"
    print(cell, dict(ends), flush=True)
    return (
        f"| {cell.num} | {cell.kind} | {effects} | {100 * cell.sd:g} % | {cell.noise} | {shares} | {fmean(trials):.0f} "
        f"| {fmean(alone_trials):.0f} | {100 * alone_right / count:.0f} |"
    )


def _end(outcome: str, found: tuple[int, ...], right: tuple[int, ...]) -> str:
    if outcome == "INCONCLUSIVE":
        return "undecided"
    named = found if outcome == "EXPLAINED" else ()
    return "right" if named == right else "wrong"


def sweep_row(truth: str, noise: str, sd: float, usual_count: int) -> str:
    count = round(usual_count * SWEEPS_AS_MANY.get(truth, 1.0))
    rng = np.random.default_rng([SEED, list(TRUTHS).index(truth), list(NOISES).index(noise), round(1000 * sd)])
    policy, effects = Policy(), TRUTHS[truth]
    found = [sweep(effects, policy, NOISES[noise], sd, rng) for _ in range(count)]
    print(truth, noise, sd, sum(one.is_wrong for one in found), flush=True)
    return (
        f"| {truth} | {noise} | {100 * sd:g} % | {count} | {100 * fmean(one.is_wrong for one in found):.2f} "
        f"| {100 * fmean(one.is_settled for one in found):.0f} | {fmean(one.group for one in found):.2f} "
        f"| {fmean(one.launches for one in found):.0f} | {policy.max_rounds * len(effects)} |"
    )


SEARCH_HEAD = [
    "| factors | that matter | effect | launch sd | machine | right % | wrong % | undecided % | trials "
    "| each alone: trials | each alone: right % |",
    "|---" * 11 + "|",
]
SWEEP_HEAD = [
    "| settings | machine | launch sd | sweeps | a best one dropped % | settled % | left in the best group | launches "
    "| launches without dropping |",
    "|---" * 9 + "|",
]


def page(count: int, sweep_count: int) -> str:
    policy = Policy()
    sweeps = [(truth, "iid", sd) for truth in TRUTHS for sd in (0.01, 0.03) if (truth, sd) != ("12 equal", 0.03)]
    sweeps += [(truth, noise, 0.01) for truth in ("6 equal", "2, one 5 % slower") for noise in NOISES if noise != "iid"]
    lines = [
        "# Calibration of search and sweep",
        "",
        "Written by `python -m benchmarks.search.simulate`; do not edit. Simulated launches, not measurements, through",
        f"the code that decides real searches and sweeps. {count} searches a row.",
        "",
        "## Search by experiment",
        "",
        f"Margin {100 * policy.margin:g} %, at most {policy.max_blocks} blocks a comparison before checks get half",
        f"as many more, at most {100 * policy.search_alpha:g} % wrong sets, of at most {MAX_SET} factors. Places and",
        "sizes of effects are drawn for each search. *Right*: exactly the factors that matter (none:",
        "NOT_REPRODUCIBLE). *Each alone*: A against B, then every factor alone as in B against A, decided like a",
        "check, and named where that ends REGRESSION; one that stays undecided is not named. It cannot find",
        "factors that are slow only together, and does not notice that it has not. Machines are described in",
        "[calibration](calibration.md).",
        "",
        *SEARCH_HEAD,
        *(search_row(cell, count) for cell in PROMISED),
        "",
        f"Beyond what is promised, {count // BEYOND_SHARE} searches a row: effects near the margin, twice the noise,",
        "restless machines.",
        "",
        *SEARCH_HEAD,
        *(search_row(cell, count // BEYOND_SHARE) for cell in BEYOND),
        "",
        "## Sweep",
        "",
        f"At most {policy.max_rounds} rounds, family-wise error {100 * policy.sweep_alpha:g} %. *A best one dropped*:",
        "any setting that is as fast as the fastest was called slower. *Settled*: one is left, or all that are left",
        f"are equal within {100 * policy.margin:g} %.",
        "",
        *SWEEP_HEAD,
        *(sweep_row(*one, sweep_count) for one in sweeps),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=400, help="searches a row")
    parser.add_argument("--sweep-count", type=int, default=400, help="sweeps a row")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/calibration-search.md")
    options = parser.parse_args()
    options.out.write_text(page(options.count, options.sweep_count), encoding="utf-8")
    print(f"written: {options.out}")


if __name__ == "__main__":
    main()
