"""docs/calibration.md: the tables in their order, and plain words around them. Every number in them is computed."""

from benchmarks.verdicts.catalogue import (
    EFFECTS,
    FIRST_GROUP,
    REAL_SD,
    SCENARIOS,
    SECOND_GROUP,
    TRUE_CHANGES,
    USUAL_SD,
)
from benchmarks.verdicts.cells import CHANGED, REPORTS, Cell, PeerCell, Results
from benchmarks.verdicts.grid import APART_CELLS, FALSE_CELLS, REAL_CELLS, RESTLESS_CELLS
from benchmarks.verdicts.limits import clopper_pearson
from benchmarks.verdicts.peers import PEERS, WITHIN, fresh_launches
from benchmarks.verdicts.resampled import measured_sd
from benchmarks.verdicts.tables import grid_table, peers_false_table, peers_power_table, real_table, scenario_table
from benchmarks.verdicts.targets import rows, targets_table
from benchmarks.verdicts.validate_peers import agreement_table
from benchmarks.verdicts.validate_peers import load as load_answers
from perfguard.policy import Policy
from perfguard.records import Outcome
from perfguard.stats.design import false_report_bound, rules_of


def page(results: Results) -> str:
    parts = [
        ("What was wanted, and what came out", [*_targets_words(), *targets_table(rows(results))]),
        ("False alarms, ours and others'", _false_alarms(results)),
        ("What a true change takes to be seen", _power(results)),
        ("What the promise costs", _costs(results)),
        ("False reports where the guarantee holds", scenario_table(results, FALSE_CELLS)),
        ("What depends on the side: outside the guarantee", scenario_table(results, APART_CELLS)),
        (f"{_grid_head()}, one primary metric", [*_grid_words(results), *grid_table(results, 1)]),
        ("The same with two primary metrics", grid_table(results, 2)),
        ("Power on restless machines", scenario_table(results, RESTLESS_CELLS)),
        ("Launches that were measured, resampled", _real(results)),
        ("The rules of other tools against their code", _agreement()),
        ("Scenarios", [f"- **{name}**: {_first_paragraph(noise.__doc__)}" for name, noise in SCENARIOS.items()]),
    ]
    sections = [line for heading, lines in parts for line in (f"## {heading}", "", *lines, "")]
    return "\n".join([*_title(results), *sections])


def _title(results: Results) -> list[str]:
    policy = Policy()
    bounds = [100 * false_report_bound(rules_of(policy, k).design, k) for k in (1, 2)]
    counts = [tally.num for tally in results.ours.values()]
    return [
        "# Calibration of the verdict",
        "",
        "Written by `make bench` (`python -m benchmarks.verdicts.simulate`); do not edit. Simulated machines, not",
        "measurements: the sizes of the noises are stated below, and one of them is drawn from launches that were",
        f"measured. {max(counts):,} comparisons a cell where false reports are counted, {min(counts):,} elsewhere and for",
        "other tools; in brackets the 95 % limits after Clopper and Pearson (0 (< x): none seen, x % would still be likely",
        f"luck). Margin {100 * policy.margin:g} %, alpha {policy.alpha:g}, at most {policy.max_blocks} blocks and",
        f"{policy.max_confirm_blocks} more to confirm, through the code that decides real comparisons. Confirmation with",
        "fresh builds is included in all trials; a trial is one launch.",
        "",
        f"By construction a false report has a chance of at most {bounds[0]:.3g} % with one primary metric and",
        f"{bounds[1]:.3g} % with two, on every machine whose noise does not depend on the side or on our order.",
        f"All extensions that may follow together add at most {100 * policy.alpha * policy.extension_share:.2g} %.",
        "",
    ]


def _targets_words() -> list[str]:
    return [
        "`holds`: the simulated number meets the target, and so does the end of its 95 % interval on the bad side.",
        "Speed is that of the machine that wrote this page. First group of scenarios: " + ", ".join(FIRST_GROUP) + ".",
        "Second group, which breaks the condition of the guarantee: "
        + ", ".join(name for name in SECOND_GROUP if name not in TRUE_CHANGES)
        + ".",
        "",
    ]


def _false_alarms(results: Results) -> list[str]:
    worst = max(
        results.ours[Cell(scenario=name, effect=0.0, sd=USUAL_SD).key].percent(*REPORTS) for name in FIRST_GROUP
    )
    return [
        "![False alarms by scenario, perfguard and other tools](pictures/calibration_false_alarms.svg)",
        "",
        "Nothing changed in any of these comparisons, so every mark is an error. Each row is a machine, each mark a rule;",
        "the scale is logarithmic, and a hollow mark means that none was seen (it stands at the upper limit). perfguard",
        f"stays left of its promise of {100 * Policy().alpha:g} % on every machine of the first group (largest seen:",
        f"{worst:.2g} %). Rules that compare launches run side after side are right about quiet machines and take drift,",
        "sticky clocks or build luck for a change. Rules that measure one process a side are wrong on every machine: what",
        "differs between two launches of the same code is a change to them. Rules with a large threshold are quiet",
        "everywhere because they see little. In percent, launch sd 1 %:",
        "",
        *peers_false_table(results),
        "",
        "The tools' noise is that of our own comparisons, from the same seeds; only the order differs. A rule that takes",
        f"several values from one process gets values that differ by {WITHIN:g} of the launch noise. *session offset*: a",
        "tool's two sides are two sessions, each value of a stored history is one of its own; ours changes between our two",
        "stages.",
    ]


def _power(results: Results) -> list[str]:
    return [
        "![Share of comparisons reported against the true change](pictures/calibration_power.svg)",
        "",
        "Left a quiet machine, right one with sticky clocks, launch sd 1 %. At zero on the horizontal axis a curve shows",
        "false alarms; a rule is good when it starts at the bottom and rises early. On the quiet machine most rules do; on",
        "the restless one those that start high say as little about a change as about none.",
        "",
        "![Trials to a verdict against the true change](pictures/calibration_trials.svg)",
        "",
        "Launches until perfguard answers, whatever the answer. It stops early when the answer is easy (no change, or a large",
        "one) and spends most near the margin. Lines across: what other tools spend on every comparison.",
        "",
        "On the quiet machine, in percent with 95 % limits:",
        "",
        *peers_power_table(results),
    ]


def _costs(results: Results) -> list[str]:
    own = {effect: results.ours[Cell(scenario="iid", effect=effect, sd=USUAL_SD).key] for effect in EFFECTS}

    def found(peer: str, effect: float, scenario: str = "iid") -> str:
        cell = PeerCell(peer=peer, scenario=scenario, effect=effect, sd=USUAL_SD)
        return f"{results.peers[cell.key].percent(CHANGED):.3g} %"

    few, bars = "Welch's t, 5 a side", "hyperfine bars"
    noisy = results.ours[Cell(scenario="iid", effect=0.05, sd=0.05).key]
    return [
        "Other tools are cheaper, and on a quiet machine several are good enough:",
        "",
        f"- A change of 3 % costs perfguard {own[0.03].mean_trials:.1f} launches on average. {few} finds it in",
        f"  {found(few, 0.03)} of cases with {fresh_launches(PEERS[few])}, and cries wolf in {found(few, 0.0)} of",
        "  comparisons even where launches are independent.",
        f"- Reading {bars} takes {fresh_launches(PEERS[bars])} launches, finds 3 % in {found(bars, 0.03)} and is wrong in",
        f"  {found(bars, 0.0)} on the quiet machine: where nothing drifts, that is as good as perfguard and simpler. With",
        f"  drift it is wrong in {found(bars, 0.0, 'drift')}, with sticky clocks in {found(bars, 0.0, 'sticky clocks')}.",
        f"- bencher and conbench ask for one new launch. They find 5 % in {found('bencher t', 0.05)} and",
        f"  {found('conbench z', 0.05)}, and blame the commit when the machine has moved.",
        "- asv and github-action-benchmark are almost never wrong, and see 5 % in "
        f"{found('asv continuous', 0.05)} and {found('github-action-benchmark, 200 %', 0.05)} of cases.",
        f"- Where launches vary by 5 %, perfguard says INCONCLUSIVE or SUSPECT to a change of 5 % in",
        f"  {noisy.percent(Outcome.INCONCLUSIVE, Outcome.SUSPECT):.3g} % of cases after {noisy.mean_trials:.1f} launches. A t",
        "  test always answers.",
        "",
        "perfguard's launches buy three things: the false alarm rate does not rest on the machine being quiet, two builds",
        "of one commit do not count as a change, and \"no change\" is a finding with a margin rather than the absence of one.",
    ]


def _grid_head() -> str:
    return "REGRESSION / EQUIVALENT / SUSPECT / INCONCLUSIVE % (mean trials)"


def _grid_words(results: Results) -> list[str]:
    num = min(tally.num for tally in results.ours.values())
    low, high = clopper_pearson(num // 2, num)
    return [f"Independent launches. 95 % limits are within {50 * (high - low):.1f} points of each share.", ""]


def _real(results: Results) -> list[str]:
    return [
        f"22 launches of a two-way parallel decode graph on two H200s vary by {100 * measured_sd():.2g} % within one setting",
        f"(`benchmarks/verdicts/tp2_launches.csv`). Comparisons of launches drawn from them, in runs of four as they were",
        f"measured, launch sd {100 * REAL_SD:g} %, one primary metric:",
        "",
        *real_table(results, REAL_CELLS),
    ]


def _agreement() -> list[str]:
    return [
        "The rules are our own, written from the tools' sources and documentation. Where a tool installs, its own code was",
        "asked about 200 cases on either side of its limit (`python -m benchmarks.verdicts.validate_peers`):",
        "",
        *agreement_table(load_answers()),
        "",
        "Not held against real code: criterion (Rust), bencher (Rust, a server), benchstat (Go; the U test agrees with",
        "scipy's), github-action-benchmark (one comparison). criterion's bootstrap draws 2,000 resamples here, not 100,000.",
        "conbench sees 79 stored values, not up to 100; its statistics ran without its server. asv's rule for fewer than",
        "five values a side, and bencher's other models, are not here. nvbench-compare-robust is given one clock for all.",
    ]


def _first_paragraph(text: str | None) -> str:
    return " ".join((text or "").strip().split("\n\n")[0].split())
