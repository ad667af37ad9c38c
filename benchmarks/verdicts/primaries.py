"""Two primary metrics simulated together through the real controller: false reports, and what a second one costs.

    python -m benchmarks.verdicts.primaries

A few minutes on one core. Noise of the metrics is shared to the given correlation; see `engine.simulate_several`.
"""

import argparse
from dataclasses import dataclass

from benchmarks.verdicts.engine import mean_trials, share, simulate_several
from benchmarks.verdicts.scenarios import SCENARIOS
from perfguard.policy import Policy
from perfguard.records import Outcome
from perfguard.stats.design import rules_of

SD = 0.01
SEED = 100
CHUNK = 2_000
REPORTED = (Outcome.REGRESSION, Outcome.IMPROVEMENT)


@dataclass(frozen=True, kw_only=True)
class Case:
    """Slowdowns of head in both metrics; `chunks` of CHUNK comparisons."""

    scenario: str
    effects: tuple[float, float]
    correlation: float
    chunks: int = 1


CORRELATIONS = (0.0, 0.9)
FALSE = [
    Case(scenario=scenario, effects=(effect, effect), correlation=correlation, chunks=10)
    for scenario, effect in (("iid", 0.0), ("iid", 0.005), ("outliers", 0.0), ("periodic neighbour", 0.0))
    for correlation in CORRELATIONS
]
TRUE = [
    Case(scenario="iid", effects=effects, correlation=correlation)
    for effects in ((0.03, 0.03), (0.03, 0.0), (0.05, 0.05), (0.05, 0.0))
    for correlation in CORRELATIONS
]


def row(case: Case, chunks: int) -> str:
    rules = rules_of(Policy(), len(case.effects))
    ends = [
        end
        for chunk in range(chunks)
        for end in simulate_several(
            rules,
            SCENARIOS[case.scenario],
            effects=case.effects,
            correlation=case.correlation,
            sd=SD,
            num=CHUNK,
            seed=SEED + chunk,
        )
    ]
    truth = " and ".join(f"{100 * effect:g} %" for effect in case.effects)
    kinds = ((Outcome.EQUIVALENT,), (Outcome.SUSPECT,), (Outcome.INCONCLUSIVE,))
    others = " | ".join(f"{100 * share(ends, *kind):.1f}" for kind in kinds)
    reported = f"{100 * share(ends, *REPORTED):.3g} of {len(ends):,}"
    return f"| {case.scenario}, {truth} | {case.correlation:g} | {reported} | {others} | {mean_trials(ends):.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{CHUNK:,} comparisons in every case")
    quick = parser.parse_args().quick
    print("| machine, head slower by | correlation | reported % | EQUIVALENT % | SUSPECT % | INCONCLUSIVE % | trials |")
    print("|---" * 7 + "|")
    for case in [*TRUE, *FALSE]:
        print(row(case, 1 if quick else case.chunks), flush=True)


if __name__ == "__main__":
    main()
