"""Which cells are simulated, and how often each."""

from collections.abc import Iterator

from benchmarks.verdicts.catalogue import (
    EFFECTS,
    FIRST_GROUP,
    FLOOR,
    NOISES,
    POWER_SCENARIOS,
    REAL,
    REAL_SD,
    SCENARIOS,
    SECOND_GROUP,
    TRUE_CHANGES,
    USUAL_SD,
)
from benchmarks.verdicts.cells import CHUNK, EMPTY, AnyCell, Cell, LotteryCell, PeerCell, Results
from benchmarks.verdicts.lotteries import CASES
from benchmarks.verdicts.peers import PEERS

FALSE_CELLS = [
    Cell(scenario=s, effect=e, sd=USUAL_SD, primaries=k) for k in (1, 2) for s in FIRST_GROUP for e in (0.0, FLOOR)
]
FALSE_CELLS += [Cell(scenario=REAL, effect=0.0, sd=REAL_SD, primaries=k) for k in (1, 2)]
APART_CELLS = [Cell(scenario=s, effect=e, sd=USUAL_SD) for s in SECOND_GROUP for e in (0.0, FLOOR)]
APART_CELLS += [Cell(scenario=s, effect=0.0, sd=USUAL_SD, primaries=2) for s in SECOND_GROUP if s not in TRUE_CHANGES]
APART_CELLS += [Cell(scenario="head lottery", effect=0.0, sd=0.003)]
GRID_CELLS = [Cell(scenario="iid", effect=e, sd=sd, primaries=k) for k in (1, 2) for sd in NOISES for e in EFFECTS]
RESTLESS_CELLS = [Cell(scenario=s, effect=e, sd=USUAL_SD) for s in FIRST_GROUP for e in (0.03, 0.05)]
REAL_CELLS = [Cell(scenario=REAL, effect=e, sd=REAL_SD) for e in (0.0, 0.01, 0.02, 0.03, 0.05)]
CURVE_CELLS = [Cell(scenario=s, effect=e, sd=USUAL_SD) for s in POWER_SCENARIOS for e in EFFECTS]
LOTTERY_CELLS = [LotteryCell(case=case, is_held=held) for held in (False, True) for case in CASES]
MANY = [*FALSE_CELLS, *APART_CELLS]
OUR_CELLS = list(dict.fromkeys([*MANY, *GRID_CELLS, *RESTLESS_CELLS, *REAL_CELLS, *CURVE_CELLS, *LOTTERY_CELLS]))

PEER_CASES = list(
    dict.fromkeys(
        [(s, 0.0, USUAL_SD) for s in SCENARIOS]
        + [(s, e, USUAL_SD) for s in POWER_SCENARIOS for e in EFFECTS]
        + [("session offset", 0.05, USUAL_SD)]
        + [(REAL, e, REAL_SD) for e in (0.0, 0.03)]
    )
)
PEER_CELLS = [PeerCell(peer=p, scenario=s, effect=e, sd=sd) for s, e, sd in PEER_CASES for p in PEERS]

Task = tuple[AnyCell, int, int]


def tasks(results: Results, *, count: int, false_count: int, peer_count: int) -> Iterator[Task]:
    """(cell, comparisons it holds, comparisons to add) until every cell holds its number."""
    for cell in OUR_CELLS:
        yield from _chunks(cell, results.ours.get(cell.key, EMPTY).num, false_count if cell in MANY else count)
    for peer_cell in PEER_CELLS:
        yield from _chunks(peer_cell, results.peers.get(peer_cell.key, EMPTY).num, peer_count)


def _chunks(cell: AnyCell, held: int, count: int) -> Iterator[Task]:
    for start in range(held, count, CHUNK):
        yield cell, start, min(CHUNK, count - start)
