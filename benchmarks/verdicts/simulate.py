"""False verdicts and power of the comparison on simulated machines, as tables in docs/calibration.md.

    python -m benchmarks.verdicts.simulate

About half an hour on one core. Runs until every cell holds its number of comparisons; it may be stopped and started
again at any time.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

from benchmarks.verdicts.cells import EMPTY, ROOT, Cell, Tally, add_chunk, load, save
from benchmarks.verdicts.peers import RULES, changed_share
from benchmarks.verdicts.scenarios import ARM_DEPENDENT, GUARANTEED, SCENARIOS
from perfguard.policy import Policy
from perfguard.records import Outcome
from perfguard.stats.design import false_report_bound, rules_of

FLOOR = 0.005
NOISES = (0.003, 0.005, 0.01, 0.02, 0.03)
EFFECTS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.10)
PEER_COUNT = 20_000
PEER_SEED = 7
REPORTS = (Outcome.REGRESSION, Outcome.IMPROVEMENT)

FALSE_CELLS = [Cell(scenario=s, effect=e, sd=0.01) for s in GUARANTEED for e in (0.0, FLOOR)]
APART_CELLS = [Cell(scenario=s, effect=e, sd=0.01) for s in ARM_DEPENDENT for e in (0.0, FLOOR)]
APART_CELLS += [Cell(scenario="head lottery", effect=0.0, sd=0.003)]
GRID_CELLS = [Cell(scenario="iid", effect=e, sd=sd, primaries=k) for k in (1, 2) for sd in NOISES for e in EFFECTS]
POWER_CELLS = [Cell(scenario=s, effect=e, sd=0.01) for s in GUARANTEED for e in (0.03, 0.05)]
ALL_CELLS = list(dict.fromkeys([*FALSE_CELLS, *APART_CELLS, *GRID_CELLS, *POWER_CELLS]))

Tallies = Mapping[str, Tally]


def rate(tally: Tally, *outcomes: Outcome) -> str:
    """A rate in percent; for no case at all the rate that 95 % of such luck would still allow."""
    percent = tally.percent(*outcomes)
    return f"{percent:.3g}" if percent else f"0 (< {300 / tally.num:.2g})"


def grid_table(tallies: Tallies, primaries: int) -> list[str]:
    lines = ["| launch sd | " + " | ".join(_effect(e) for e in EFFECTS) + " |", "|---" * (len(EFFECTS) + 1) + "|"]
    for sd in NOISES:
        cells = (tallies[Cell(scenario="iid", effect=e, sd=sd, primaries=primaries).key] for e in EFFECTS)
        lines.append(f"| {100 * sd:g} % | " + " | ".join(_grid_entry(tally) for tally in cells) + " |")
    return lines


def _grid_entry(tally: Tally) -> str:
    shares = (Outcome.REGRESSION, Outcome.EQUIVALENT, Outcome.SUSPECT, Outcome.INCONCLUSIVE)
    return " / ".join(f"{tally.percent(outcome):.1f}" for outcome in shares) + f" ({tally.mean_trials:.1f})"


def _effect(effect: float) -> str:
    return "no change" if effect == 0 else f"{100 * effect:g} % slower"


def scenario_table(tallies: Tallies, cells: list[Cell]) -> list[str]:
    head = "| scenario | truth | launch sd | reported % | EQUIVALENT % | SUSPECT % | INCONCLUSIVE % | trials |"
    lines = [head, "|---" * 8 + "|"]
    for cell in cells:
        tally = tallies[cell.key]
        others = (Outcome.EQUIVALENT, Outcome.SUSPECT, Outcome.INCONCLUSIVE)
        shares = " | ".join(f"{tally.percent(outcome):.1f}" for outcome in others)
        lines.append(
            f"| {cell.scenario} | {_effect(cell.effect)} | {100 * cell.sd:g} % | {rate(tally, *REPORTS)} | {shares} "
            f"| {tally.mean_trials:.1f} |"
        )
    return lines


def peers_table(tallies: Tallies) -> list[str]:
    """How often each rule says "changed", in percent: nothing changed on every machine, then true slowdowns."""
    cases = [(name, 0.0) for name in SCENARIOS if name != "head lottery"] + [("iid", 0.03), ("iid", 0.05)]
    lines = ["| rule | " + " | ".join(_case(*case) for case in cases) + " |", "|---" * (len(cases) + 1) + "|"]
    for name, rule in RULES.items():
        found = (
            changed_share(rule, SCENARIOS[scenario], effect=effect, sd=0.01, num=PEER_COUNT, seed=PEER_SEED)
            for scenario, effect in cases
        )
        lines.append(f"| {name} | " + " | ".join(f"{100 * x:.3g}" for x in found) + " |")
    own = (tallies[Cell(scenario=scenario, effect=effect, sd=0.01).key] for scenario, effect in cases)
    return [*lines, "| **perfguard** | " + " | ".join(rate(tally, *REPORTS) for tally in own) + " |"]


def _case(scenario: str, effect: float) -> str:
    return f"{scenario}, {_effect(effect)}" if effect else scenario


def sizes() -> list[str]:
    return [f"- **{name}**: {(noise.__doc__ or '').strip()}" for name, noise in SCENARIOS.items()]


def page(tallies: Tallies) -> str:
    policy, count = Policy(), min(tally.num for tally in tallies.values())
    bounds = [100 * false_report_bound(rules_of(policy, k).design, k) for k in (1, 2)]
    kept = 100 * policy.alpha * policy.extension_share
    title = [
        "# Calibration of the verdict",
        "",
        "Written by `python -m benchmarks.verdicts.simulate`; do not edit. Simulated machines, not measurements: the",
        f"sizes of the noises are stated below. {count:,} comparisons a cell and more where false reports are counted",
        f"(0 (< x): none, and x % would still be likely luck), margin {100 * policy.margin:g} %, alpha",
        f"{policy.alpha:g}, at most {policy.max_blocks} blocks and {policy.max_confirm_blocks} more to confirm,",
        "through the code that decides real comparisons. Confirmation with fresh builds is included in all trials.",
        "",
        f"By construction a false report has a chance of at most {bounds[0]:.3g} % with one primary metric and",
        f"{bounds[1]:.3g} % with two, on every machine whose noise does not depend on the side or on our order.",
        f"All extensions that may follow together add at most {kept:.2g} %.",
        "",
    ]
    parts = [
        ("False reports where the guarantee holds", scenario_table(tallies, FALSE_CELLS)),
        ("What depends on the side: outside the guarantee", scenario_table(tallies, APART_CELLS)),
        (
            "REGRESSION / EQUIVALENT / SUSPECT / INCONCLUSIVE % (mean trials), one primary metric",
            grid_table(tallies, 1),
        ),
        ("The same with the looks of two primary metrics", grid_table(tallies, 2)),
        ("Power on restless machines", scenario_table(tallies, POWER_CELLS)),
        (
            "Other tools' rules, 10 trials of base, then 10 of head, launch sd 1 %: changed, they say, in %",
            peers_table(tallies),
        ),
        ("Scenarios", sizes()),
    ]
    sections = [line for heading, lines in parts for line in (f"## {heading}", "", *lines, "")]
    return "\n".join([*title, *sections])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=2000, help="comparisons a cell")
    parser.add_argument("--false-count", type=int, default=20_000, help="comparisons a cell of false reports")
    parser.add_argument("--cells", type=Path, default=ROOT / "benchmarks/verdicts/cells.json")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/calibration.md")
    options = parser.parse_args()
    tallies = load(options.cells)
    for cell in ALL_CELLS:
        count = options.false_count if cell in FALSE_CELLS + APART_CELLS else options.count
        while (tally := tallies.get(cell.key, EMPTY)).num < count:
            tallies[cell.key] = add_chunk(cell, tally)
            save(options.cells, tallies)
        print(f"{cell.key}: {dict(tallies[cell.key].outcomes)}", flush=True)
    options.out.write_text(page(tallies), encoding="utf-8")
    print(f"written: {options.out}")


if __name__ == "__main__":
    main()
