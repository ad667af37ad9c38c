"""Metrics and digests that are the same in every launch: compared by equality, never by a test.

Any difference inside an arm makes one ordinary ("unstable"). Says what differs; `verdict.py` says what follows.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from perfguard.records import BlockValues, Metric, Reason, Side

Equality = Literal["equal", "changed", "unstable"]
# What a digest may be taken over, where its producer says so in front of it: "ids:9f86…". Docs: docs/protocol.md.
KINDS = ("ids", "text")


def compare_exactly(base: Sequence[object], head: Sequence[object]) -> Equality:
    """Equality over all launches; both sides hold at least one value."""
    if any(value != base[0] for value in base) or any(value != head[0] for value in head):
        return "unstable"
    return "equal" if base[0] == head[0] else "changed"


def metric_equality(metric: Metric, blocks: Sequence[BlockValues]) -> Equality:
    """The same for one metric over blocks (at least one)."""
    by_arm: dict[str, list[object]] = {"A": [], "B": []}
    for block in blocks:
        for arm, value in zip(block.order, block.values[metric.name], strict=True):
            by_arm[arm].append(value)
    return compare_exactly(by_arm["A"], by_arm["B"])


def digest_kind(digest: str) -> str:
    """What it is taken over; "" where it does not say. Digests of two kinds say nothing of each other."""
    kind, sign, _ = digest.partition(":")
    return kind if sign and kind in KINDS else ""


def digest_reasons(digests: Sequence[tuple[Side, Mapping[str, str]]]) -> tuple[Reason, ...]:
    """OUTPUT_CHANGED, OUTPUT_UNKNOWN and OUTPUT_UNSTABLE for every output (tokens of a mode) that launches of both
    sides report.
    """
    names = sorted({name for _, found in digests for name in found})
    reasons = (_digest_reason(name, digests) for name in names)
    return tuple(sorted((r for r in reasons if r is not None), key=lambda r: r.code))


def _digest_reason(name: str, digests: Sequence[tuple[Side, Mapping[str, str]]]) -> Reason | None:
    base = [found[name] for side, found in digests if side == "base" and name in found]
    head = [found[name] for side, found in digests if side == "head" and name in found]
    if not base or not head:
        return None
    kinds = sorted({digest_kind(digest) or "no named kind" for digest in [*base, *head]})
    if len(kinds) > 1:
        told = f"{name}: {', '.join(kinds)}"
        text = f"launches tell their output in different ways ({told}): whether it changed is unknown"
        return Reason(code="OUTPUT_UNKNOWN", text=text)
    match compare_exactly(base, head):
        case "changed":
            return Reason(code="OUTPUT_CHANGED", text=f"head produces other output than base ({name})")
        case "unstable":
            text = f"launches of one side differ in their output ({name}): it cannot tell base from head"
            return Reason(code="OUTPUT_UNSTABLE", text=text)
    return None


def changed_reason(metric: Metric, blocks: Sequence[BlockValues]) -> Reason:
    """For a metric whose equality is "changed": the two values, the same in all launches of a side."""
    block = blocks[0]
    values = block.values[metric.name]
    base, head = values[block.order.index("A")], values[block.order.index("B")]
    text = f"{metric.name} is {base:g} in every base launch and {head:g} in every head launch"
    return Reason(code="EXACT_CHANGED", text=text)
