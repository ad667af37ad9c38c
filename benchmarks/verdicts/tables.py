"""Tables of docs/calibration.md from simulated tallies. Pure: numbers in, lines of Markdown out."""

from collections.abc import Sequence

from benchmarks.verdicts.catalogue import EFFECTS, NOISES, SCENARIOS, TRUE_CHANGES, USUAL_SD
from benchmarks.verdicts.cells import CHANGED, NAMED, REPORTS, Cell, LotteryCell, PeerCell, Results, Tally
from benchmarks.verdicts.limits import rate, trials
from benchmarks.verdicts.peers import PEERS, Peer, fresh_launches
from perfguard.records import Outcome

GRID_OUTCOMES = (Outcome.REGRESSION, Outcome.EQUIVALENT, Outcome.SUSPECT, Outcome.INCONCLUSIVE)
POWER_EFFECTS = (0.03, 0.05, 0.10)


def effect_words(effect: float) -> str:
    return "no change" if effect == 0 else f"{100 * effect:g} % slower"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows)]


def scenario_table(results: Results, cells: Sequence[Cell]) -> list[str]:
    heads = ["scenario", "truth", "launch sd", "primaries", "reported %"]
    heads += ["EQUIVALENT %", "SUSPECT %", "INCONCLUSIVE %", "trials"]
    return table(heads, [_scenario_row(cell, results.ours[cell.key]) for cell in cells])


def _scenario_row(cell: Cell, tally: Tally) -> list[str]:
    others = (Outcome.EQUIVALENT, Outcome.SUSPECT, Outcome.INCONCLUSIVE)
    shares = [f"{tally.percent(outcome):.1f}" for outcome in others]
    case = [cell.scenario, effect_words(cell.effect), f"{100 * cell.sd:g} %", str(cell.primaries)]
    return [*case, rate(tally, *REPORTS), *shares, f"{tally.mean_trials:.1f}"]


def grid_table(results: Results, primaries: int) -> list[str]:
    rows = []
    for sd in NOISES:
        cells = (Cell(scenario="iid", effect=effect, sd=sd, primaries=primaries) for effect in EFFECTS)
        rows.append([f"{100 * sd:g} %", *(_grid_entry(results.ours[cell.key]) for cell in cells)])
    return table(["launch sd", *map(effect_words, EFFECTS)], rows)


def _grid_entry(tally: Tally) -> str:
    return " / ".join(f"{tally.percent(outcome):.1f}" for outcome in GRID_OUTCOMES) + f" ({tally.mean_trials:.1f})"


def peers_false_table(results: Results) -> list[str]:
    """How often each rule says "changed" where nothing has, in percent, with the limits of the largest rate."""
    names = [name for name in SCENARIOS if name not in TRUE_CHANGES]
    rows = []
    for peer in PEERS:
        tallies = [results.peers[_peer_cell(peer, name, 0.0).key] for name in names]
        rows.append([peer, *(_short(tally, CHANGED) for tally in tallies)])
    own = [results.ours[Cell(scenario=name, effect=0.0, sd=USUAL_SD).key] for name in names]
    rows.append(["**perfguard**", *(_short(tally, *REPORTS) for tally in own)])
    return table(["rule", *names], rows)


def peers_power_table(results: Results) -> list[str]:
    """What each rule costs and finds on a quiet machine, and its false alarms there."""
    rows = []
    for name, peer in PEERS.items():
        tallies = [results.peers[_peer_cell(name, "iid", effect).key] for effect in (0.0, *POWER_EFFECTS)]
        rows.append([name, how_it_measures(peer), str(fresh_launches(peer)), *(rate(t, CHANGED) for t in tallies)])
    own = [results.ours[Cell(scenario="iid", effect=effect, sd=USUAL_SD).key] for effect in (0.0, *POWER_EFFECTS)]
    launches = " to ".join(f"{cost(own):.1f}" for cost in (_least, _most))
    rows.append(["**perfguard**", "blocks until it knows", launches, *(rate(t, *REPORTS) for t in own)])
    heads = ["rule", "measures", "launches", "no change", *map(effect_words, POWER_EFFECTS)]
    return table(heads, rows)


def _least(tallies: Sequence[Tally]) -> float:
    return min(tally.mean_trials for tally in tallies)


def _most(tallies: Sequence[Tally]) -> float:
    return max(tally.mean_trials for tally in tallies)


def how_it_measures(peer: Peer) -> str:
    if peer.is_history:
        return f"{peer.base} stored values, then {peer.head}"
    sides = f"{peer.base} + {peer.head} launches" + (f" x {peer.repeats} values" if peer.repeats > 1 else "")
    return sides + (" in turn" if peer.is_interleaved else "")


def lottery_table(results: Results, cells: Sequence[LotteryCell]) -> list[str]:
    rows = []
    for cell in cells:
        tally, case = results.ours[cell.key], cell.case
        share = f"{100 * case.rate:g} % of launches {100 * case.size:g} % slow"
        asked = [share, f"{100 * case.sd:g} %", "held to 40 trials" if cell.is_held else "as people run it"]
        rows.append([*asked, rate(tally, Outcome.EQUIVALENT), rate(tally, NAMED), trials(tally)])
    return table(["head", "launch sd", "run", "EQUIVALENT %", "modes or a change named %", "trials"], rows)


def real_table(results: Results, cells: Sequence[Cell]) -> list[str]:
    rows = []
    for cell in cells:
        tally = results.ours[cell.key]
        case = [effect_words(cell.effect), rate(tally, *REPORTS), rate(tally, Outcome.EQUIVALENT), trials(tally)]
        rows.append(case)
    return table(["truth", "reported %", "EQUIVALENT %", "trials"], rows)


def _peer_cell(peer: str, scenario: str, effect: float) -> PeerCell:
    return PeerCell(peer=peer, scenario=scenario, effect=effect, sd=USUAL_SD)


def _short(tally: Tally, *outcomes: str) -> str:
    return f"{tally.percent(*outcomes):.3g}" if tally.count(*outcomes) else rate(tally, *outcomes)
