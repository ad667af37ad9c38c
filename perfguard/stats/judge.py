"""Trials measured elsewhere -> blocks and a decision. Pure: rows of a table in, records out.

Never claims that orders were drawn at random: it can only say whether they look so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb, isfinite

from perfguard.errors import UsageError
from perfguard.policy import Policy
from perfguard.records import Better, BlockValues, Decision, Metric, Outcome, Reason
from perfguard.stats.sequential import decide

COLUMNS = ("block", "slot", "arm", "metric", "value")
ARMS = {"base": "A", "head": "B"}
CHANGES = (Outcome.REGRESSION, Outcome.IMPROVEMENT)
NEXT_STEP = "write one row per trial and metric: block,slot,arm,metric,value; slots 1-4, two base and two head"
# Fewer distinct orders than drawn ones would show with this probability: the orders were not drawn.
UNLIKELY = 0.01


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One row: the value of one metric in one slot. `line` counts from 1 as an editor does."""

    line: int
    block: str
    slot: int
    arm: str
    metric: Metric
    value: float


def judge_rows(
    policy: Policy, rows: Sequence[Mapping[str, str | None]], *, better: Better = "lower", first_line: int = 2
) -> tuple[Decision, tuple[BlockValues, ...]]:
    """Decision on rows of a CSV file, and the blocks it rests on.

    Blocks are taken in the order of the file. What comes after a suspicion serves as its confirmation. `better`
    holds for metrics whose rows do not say it. Raises UsageError naming the line of a malformed row.
    """
    metrics, blocks = blocks_of(rows, better=better, first_line=first_line)
    # All blocks exist already, so a longer file is a longer comparison, planned as such.
    longer = replace(policy, max_blocks=max(policy.max_blocks, len(blocks)))
    staged = with_stages(longer, metrics, blocks)
    decision = decide(longer, metrics, staged)
    if decision.state == "done":
        staged = staged[: max(result.decided_at or 0 for result in decision.metrics)]
    of_orders = order_reasons([block.order for block in blocks])
    reasons = (*of_orders, *_unused_reasons(len(blocks) - len(staged)), *decision.reasons)
    if any(reason.code == "NOT_RANDOMISED" for reason in of_orders):
        decision = _suspect_at_most(decision)
    return replace(decision, reasons=reasons), staged


def _suspect_at_most(decision: Decision) -> Decision:
    """No order test holds for orders that nobody drew: drift alone can separate the sides."""
    metrics = tuple(replace(result, outcome=_at_most(result.outcome)) for result in decision.metrics)
    return replace(decision, outcome=_at_most(decision.outcome), metrics=metrics)


def _at_most(outcome: Outcome) -> Outcome:
    return Outcome.SUSPECT if outcome in CHANGES else outcome


def _unused_reasons(num_unused: int) -> tuple[Reason, ...]:
    if num_unused == 0:
        return ()
    return (Reason(code="UNUSED_BLOCKS", text=f"decided before the last {num_unused} blocks, which are not used"),)


def blocks_of(
    rows: Sequence[Mapping[str, str | None]], *, better: Better, first_line: int
) -> tuple[tuple[Metric, ...], tuple[BlockValues, ...]]:
    cells = [_cell(row, line, better) for line, row in enumerate(rows, start=first_line)]
    if not cells:
        raise UsageError("the file holds no rows", NEXT_STEP)
    metrics: dict[str, Metric] = {}
    by_block: dict[str, list[Cell]] = {}
    for cell in cells:
        if metrics.setdefault(cell.metric.name, cell.metric) != cell.metric:
            raise _wrong(cell.line, f"metric {cell.metric.name} changes its unit or direction")
        by_block.setdefault(cell.block, []).append(cell)
    blocks = tuple(_block(index, of_block, metrics) for index, of_block in enumerate(by_block.values()))
    return tuple(metrics.values()), blocks


def _cell(row: Mapping[str, str | None], line: int, better: Better) -> Cell:
    missing = [column for column in COLUMNS if not row.get(column)]
    if missing:
        raise _wrong(line, f"no {', '.join(missing)}")
    slot, arm = str(row["slot"]).strip(), str(row["arm"]).strip()
    if slot not in ("1", "2", "3", "4"):
        raise _wrong(line, f"slot is {slot!r}, not 1 to 4")
    if arm not in ARMS:
        raise _wrong(line, f"arm is {arm!r}, not base or head")
    metric = Metric(name=str(row["metric"]).strip(), unit=row.get("unit") or "", better=_better(row, line, better))
    value = _value(str(row["value"]), line)
    return Cell(line=line, block=str(row["block"]).strip(), slot=int(slot), arm=ARMS[arm], metric=metric, value=value)


def _better(row: Mapping[str, str | None], line: int, default: Better) -> Better:
    match (row.get("better") or default).strip():
        case "lower":
            return "lower"
        case "higher":
            return "higher"
        case other:
            raise _wrong(line, f"better is {other!r}, not lower or higher")


def _value(text: str, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        raise _wrong(line, f"value is {text!r}, not a number") from None
    if not isfinite(value) or value <= 0:
        raise _wrong(line, f"value is {text.strip()}: a positive finite number is needed")
    return value


def _block(index: int, cells: Sequence[Cell], metrics: Mapping[str, Metric]) -> BlockValues:
    order: dict[int, str] = {}
    values: dict[str, dict[int, float]] = {name: {} for name in metrics}
    for cell in cells:
        if order.setdefault(cell.slot, cell.arm) != cell.arm:
            raise _wrong(cell.line, f"slot {cell.slot} of block {cell.block} is base and head at once")
        if cell.slot in values[cell.metric.name]:
            raise _wrong(cell.line, f"slot {cell.slot} of block {cell.block} has {cell.metric.name} twice")
        values[cell.metric.name][cell.slot] = cell.value
    arms = "".join(order.get(slot, "") for slot in (1, 2, 3, 4))
    if sorted(arms) != ["A", "A", "B", "B"]:
        raise _wrong(cells[0].line, f"block {cells[0].block} does not hold four slots, two base and two head")
    lacking = [name for name, by_slot in values.items() if len(by_slot) < 4]
    if lacking:
        raise _wrong(cells[0].line, f"block {cells[0].block} lacks values of {', '.join(lacking)}")
    in_order = {name: (v[1], v[2], v[3], v[4]) for name, v in values.items()}
    return BlockValues(stage=1, index=index, order=arms, builds="1111", values=in_order)


def _wrong(line: int, what: str) -> UsageError:
    return UsageError(f"line {line}: {what}", NEXT_STEP)


def with_stages(policy: Policy, metrics: Sequence[Metric], blocks: Sequence[BlockValues]) -> tuple[BlockValues, ...]:
    """The blocks as a campaign would have used them: those after the end of stage one confirm, if it suspects."""
    one = decide(replace(policy, is_confirmed=False), metrics, blocks)
    if one.state != "done":
        return tuple(blocks)
    num_ones = max(result.decided_at or 0 for result in one.metrics if result.metric.primary)
    ones, rest = blocks[:num_ones], blocks[num_ones:]
    is_suspect = any(result.outcome is Outcome.SUSPECT for result in one.metrics if result.metric.primary)
    if not is_suspect or not policy.is_confirmed:
        return tuple(ones)
    return (*ones, *(replace(block, stage=2) for block in rest[: policy.max_confirm_blocks]))


def order_reasons(orders: Sequence[str]) -> tuple[Reason, ...]:
    """What can be said about orders nobody here drew."""
    if looks_randomised(orders):
        text = "the orders look random but were not drawn here: the guarantee holds if a coin drew them in advance"
        return (Reason(code="ORDERS_NOT_OURS", text=text),)
    text = "the orders were not drawn at random: drift or a periodic neighbour can look like a change, whatever p says"
    return (Reason(code="NOT_RANDOMISED", text=text),)


def looks_randomised(orders: Sequence[str]) -> bool:
    """False if so few different orders would show up with probability below 1 % had each been drawn out of six."""
    num_distinct, num_blocks = len(set(orders)), len(orders)
    return chance_of_distinct(num_distinct, num_blocks) >= UNLIKELY


def chance_of_distinct(at_most: int, num_blocks: int) -> float:
    """P(at most so many different orders among num_blocks uniform draws out of six), by inclusion and exclusion."""
    ways = sum(comb(6, k) * _surjections(num_blocks, k) for k in range(min(at_most, 6) + 1))
    return float(ways / 6**num_blocks)


def _surjections(num_blocks: int, num_orders: int) -> int:
    return sum((-1) ** j * comb(num_orders, j) * (num_orders - j) ** num_blocks for j in range(num_orders + 1))
