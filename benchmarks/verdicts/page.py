"""docs/calibration.md: tables, pictures and words in their order. Pure, but for the stored answers of real tools."""

from benchmarks.verdicts import words
from benchmarks.verdicts.catalogue import REAL_SD, SCENARIOS
from benchmarks.verdicts.cells import Results
from benchmarks.verdicts.grid import APART_CELLS, FALSE_CELLS, LOTTERY_CELLS, REAL_CELLS, RESTLESS_CELLS
from benchmarks.verdicts.limits import clopper_pearson
from benchmarks.verdicts.resampled import measured_sd
from benchmarks.verdicts.tables import (
    grid_table,
    lottery_table,
    peers_false_table,
    peers_power_table,
    real_table,
    scenario_table,
)
from benchmarks.verdicts.targets import rows, targets_table
from benchmarks.verdicts.validate_peers import agreement_table
from benchmarks.verdicts.validate_peers import load as load_answers

PICTURE = "pictures/calibration_{}.svg"


def page(results: Results) -> str:
    grid = "REGRESSION / EQUIVALENT / SUSPECT / INCONCLUSIVE % (mean trials)"
    parts = [
        ("What was wanted, and what came out", [*words.about_targets(), *targets_table(rows(results))]),
        ("False alarms, ours and others'", _false_alarms(results)),
        ("What it takes to see a change", _power(results)),
        ("What the promise costs", words.costs(results)),
        ("False reports, first group", scenario_table(results, FALSE_CELLS)),
        ("False reports, second group: noise that depends on the side", scenario_table(results, APART_CELLS)),
        (f"{grid}, one primary metric", [*_grid_words(results), *grid_table(results, 1)]),
        ("The same with two primary metrics", [*words.about_two_primaries(), *grid_table(results, 2)]),
        ("Power on restless machines", scenario_table(results, RESTLESS_CELLS)),
        ("Launches that are sometimes slow", _lotteries(results)),
        ("Launches that were measured, resampled", _real(results)),
        ("The rules of other tools against their code", _agreement()),
        ("Scenarios", words.bullets(f"**{name}**: {_sizes(noise.__doc__)}" for name, noise in SCENARIOS.items())),
    ]
    sections = [line for heading, lines in parts for line in (f"## {heading}", "", *lines, "")]
    text = "\n".join(["# Calibration of the verdict", "", *words.introduction(results), *sections])
    return text.replace("\n\n\n", "\n\n")


def _false_alarms(results: Results) -> list[str]:
    picture = f"![False alarms by scenario, perfguard and other tools]({PICTURE.format('false_alarms')})"
    table = [*words.about_false_alarms(results), *peers_false_table(results), ""]
    return [picture, "", *table, *words.about_the_same_trials()]


def _power(results: Results) -> list[str]:
    return [
        f"![Share of comparisons called changed, against the true change]({PICTURE.format('power')})",
        "",
        *words.about_power(),
        f"![Launches to a verdict, against the true change]({PICTURE.format('trials')})",
        "",
        *words.about_trials(),
        "On the quiet machine, in percent:",
        "",
        *peers_power_table(results),
    ]


def _grid_words(results: Results) -> list[str]:
    num = min(tally.num for tally in results.ours.values())
    low, high = clopper_pearson(num // 2, num)
    return words.paragraph(
        f"Independent launches. 95 % limits are within {50 * (high - low):.1f} points of each share."
    )


def _lotteries(results: Results) -> list[str]:
    told = """Base has no slow launches. A comparison that ends after two blocks may have met none of head's; held to 40
        trials it nearly always has. *Named*: the modes are reported, or a change is. One primary metric:"""
    return [*words.paragraph(told), *lottery_table(results, LOTTERY_CELLS)]


def _real(results: Results) -> list[str]:
    told = f"""22 launches of a decode graph on two H200s, two-way tensor parallel, vary by {100 * measured_sd():.2g} %
        within one setting (`benchmarks/verdicts/tp2_launches.csv`). Comparisons of launches drawn from them in runs of
        four, as they were measured, launch sd {100 * REAL_SD:g} %, one primary metric:"""
    return [*words.paragraph(told), *real_table(results, REAL_CELLS)]


def _agreement() -> list[str]:
    told = """The rules are our own, written from the tools' sources and documentation. Where a tool installs, its own
        code was asked about 200 cases on either side of its limit (`python -m benchmarks.verdicts.validate_peers`):"""
    return [*words.paragraph(told), *agreement_table(load_answers()), "", *words.about_agreement()]


def _sizes(text: str | None) -> str:
    return (text or "").strip().split("\n\n")[0]
