"""Tallies of simulated searches -> docs/calibration-bisect.md. Counts nothing itself."""

from collections.abc import Mapping

import numpy as np

from benchmarks.bisect.cells import OURS, Cell, Tally
from benchmarks.bisect.peers import TOOLS
from benchmarks.verdicts.scenarios import GUARANTEED

Tallies = Mapping[str, Tally]
NUMS = (16, 64, 256, 1024)
EFFECTS = (0.02, 0.03, 0.05, 0.10)
PEER_CASES = (
    ("iid", 0.0),
    ("drift", 0.0),
    ("sticky clocks", 0.0),
    ("iid", 0.03),
    ("iid", 0.05),
    ("drift", 0.05),
    ("sticky clocks", 0.05),
    ("iid", 0.10),
)
ERROR = 0.01


def bound(num: int, effect: float, sd: float) -> float:
    """Fewest trials that anchored readings can need: 2 [(1 - e)(log2 N + 1) / C + ln(1/e) / (snr / 2)], e = 1 %.

    Burnashev; C is the mutual information of a fair coin with a reading, snr = effect^2 / (2 sd^2).
    """
    snr = float(np.log1p(effect)) ** 2 / (2 * sd**2)
    grid = np.linspace(-12.0, 12.0 + np.sqrt(snr), 100_001)
    both = (_normal(grid) + _normal(grid - np.sqrt(snr))) / 2
    entropy = -float(np.trapezoid(both * np.log2(np.maximum(both, 1e-300)), grid))
    capacity = entropy - 0.5 * np.log2(2 * np.pi * np.e)
    return float(2 * ((1 - ERROR) * (np.log2(num) + 1) / capacity + np.log(1 / ERROR) / (snr / 2)))


def _normal(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi))


def rate(tally: Tally, what: str) -> str:
    percent = tally.percent(what)
    return f"{percent:.3g}" if percent else f"0 (< {300 / tally.num:.2g})"


def truth(effect: float) -> str:
    return f"{100 * effect:g} % slower" if effect else "nothing changed"


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def phantoms(tallies: Tallies) -> list[str]:
    rows = []
    for scenario in (*GUARANTEED, "per-build luck"):
        tally = tallies.get(Cell(num=64, effect=0.0, scenario=scenario).key)
        if tally:
            shares = [rate(tally, what) for what in ("right", "named_wrong", "false")]
            rows.append([scenario, f"{tally.num:,}", *shares, f"{tally.mean('trials'):.1f}"])
    return table(["machine", "searches", "PHANTOM %", "somebody suspected %", "CULPRIT %", "trials"], rows)


def culprits(tallies: Tallies) -> list[str]:
    rows = []
    cells = [Cell(num=64, effect=effect, scenario=s) for s in GUARANTEED for effect in (0.03, 0.05)]
    cells += [Cell(num=64, effect=effect, sd=0.02, assumed_sd=0.02) for effect in (0.03, 0.05, 0.10)]
    for cell in cells:
        tally = tallies.get(cell.key)
        if tally:
            shares = [rate(tally, what) for what in ("right", "false", "in_range")]
            means = [f"{tally.mean(what):.1f}" for what in ("before", "trials", "builds")]
            rows.append([cell.scenario, f"{100 * cell.sd:g} %", truth(cell.effect), f"{tally.num:,}", *shares, *means])
    head = ["machine", "launch sd", "truth", "searches", "right %", "false %", "in the range %"]
    return table([*head, "trials before", "in all", "commits read"], rows)


def sizes(tallies: Tallies) -> list[str]:
    rows = []
    for num in NUMS:
        for effect in EFFECTS:
            tally = tallies.get(Cell(num=num, effect=effect).key)
            if tally:
                least = bound(num, effect, 0.01)
                means = [f"{tally.mean(what):.1f}" for what in ("before", "trials", "builds")]
                numbers = [rate(tally, "right"), rate(tally, "false"), *means]
                ratio = f"{tally.mean('before') / least:.2f}"
                rows.append([str(num), truth(effect), f"{tally.num:,}", *numbers, f"{least:.1f}", ratio])
    head = ["commits", "truth", "searches", "right %", "false %", "trials before", "in all", "commits read"]
    return table([*head, "bound", "before / bound"], rows)


def peers(tallies: Tallies) -> list[str]:
    rows = []
    for tool in (*TOOLS, OURS):
        found = [tallies.get(Cell(num=64, effect=e, scenario=s, tool=tool).key) for s, e in PEER_CASES]
        if any(found):
            name = f"**{tool}**" if tool == OURS else tool
            rows.append([name, *(_entry(tally) for tally in found)])
    return table(["tool", *(f"{s}, {truth(e)}" for s, e in PEER_CASES)], rows)


def _entry(tally: Tally | None) -> str:
    if tally is None:
        return "-"
    undecided = 100 - tally.percent("right") - tally.percent("false")
    shares = " / ".join(f"{x:.1f}" for x in (tally.percent("right"), tally.percent("false"), max(0.0, undecided)))
    return f"{shares} ({tally.mean('trials'):.0f}, {tally.mean('builds'):.0f})"


def wrong_noise(tallies: Tallies) -> list[str]:
    rows = []
    for scenario in ("iid", "sticky clocks"):
        for effect in (0.0, 0.05):
            for sd in (0.005, 0.01, 0.02):
                tally = tallies.get(Cell(num=64, effect=effect, scenario=scenario, assumed_sd=sd).key)
                if tally:
                    numbers = [rate(tally, "right"), rate(tally, "false"), f"{tally.mean('before'):.1f}"]
                    rows.append([scenario, truth(effect), f"{100 * sd:g} %", f"{tally.num:,}", *numbers])
    return table(["machine", "truth", "expected sd", "searches", "right %", "false %", "trials before"], rows)


def shapes(tallies: Tallies) -> list[str]:
    cases = [
        ("the same small step in each of 64 commits, 6 % in all", Cell(num=64, effect=0.06, kind="ramp")),
        ("eight steps of 1 % among 64 commits", Cell(num=64, effect=0.08, kind="stairs")),
        ("a quarter of the launches 8 % slower from one commit on", Cell(num=64, effect=0.08, kind="lottery")),
    ]
    rows = []
    for name, cell in cases:
        tally = tallies.get(cell.key)
        if tally:
            shares = [f"{tally.percent(what):.1f}" for what in ("gradual", "phantom", "in_range")]
            blamed = tally.right + tally.false - tally.phantom if cell.kind != "lottery" else tally.right
            rows.append([name, f"{tally.num:,}", *shares, str(blamed), str(tally.false), f"{tally.mean('trials'):.0f}"])
    head = ["truth", "searches", "gradual %", "PHANTOM %", "true commit in the range %", "blamed", "blamed wrongly"]
    return table([*head, "trials"], rows)


def page(tallies: Tallies) -> str:
    lines = [
        "# Calibration of the search for a culprit",
        "",
        "Written by `python -m benchmarks.bisect.simulate`; do not edit. Simulated machines, not measurements,",
        "as in [calibration](calibration.md), where the sizes of their noises are stated. Launch sd 1 % and 64 commits",
        "unless said; the culprit is drawn anew in each search. Every search runs through the code that decides real",
        "ones, and every culprit is confirmed by the verdict procedure with fresh builds on a machine of its own.",
        "0 (< x): none, and x % would still be likely luck. A reading is two trials: a commit, and GOOD beside it.",
        "",
    ]
    parts = [
        ("Nothing changed", phantoms(tallies)),
        ("One culprit", culprits(tallies)),
        ("Against the fewest trials possible, iid", sizes(tallies)),
        ("Beside other tools: right / false / undecided % (trials, commits built)", peers(tallies)),
        ("The launch noise is not what was expected", wrong_noise(tallies)),
        ("Other shapes of change", shapes(tallies)),
    ]
    picture = ["![Share of searches by their end, for each tool](pictures/bisect.svg)", ""]
    sections = [line for heading, rows in parts for line in (f"## {heading}", "", *rows, "")]
    return "\n".join([*lines, *picture, *sections, NOTES])


NOTES = """## How to read it

- *Suspected*: the search wanted to confirm a commit that is not to blame; the verdict procedure acquits it and the
  search goes on. *In the range*: the true commit lies among those the answer shows, also where the confirmation
  stayed open and nobody is blamed.
- *Trials before*: without confirmation. *Commits read*: GOOD included; the fresh builds of the confirmation are
  twelve more in most cases.
- Per-build luck lies outside the guarantee: a build that is slow by itself stays so in all readings of the search.
  Only the fresh builds of the confirmation see through it.
- *Bound*: Burnashev's for a known size, known noise and 1 % error. It is not reached: size and noise are learnt on
  the way.
- Other tools are given their rule for "which way" and nothing else of theirs, one launch of each end to set a
  threshold where they need one; git-bayesect is its own code, stopped at 95 % or after 300 launches. Pinpoint is
  right if it names the culprit and nobody else.
"""
