"""A second, short pass of each mode with time stamps of the device: where a step's time goes.

The numbers that are compared come from the pass without stamps. Must not change what that pass does.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from runners.contract import Session
from runners.timing import clock

# Enough for medians; less than the measured pass takes.
TOKENS = 32
# The first steps capture graphs, compile or allocate.
UNCOUNTED = 3
# What is no time on the device.
NOT_SECONDS = ("distinct_experts",)


def measure(session: Session, mode: str, prompts: Sequence[list[int]], tokens: int) -> list[dict[str, float]]:
    """One row a step: seconds by part as the subject stamped them, and `wall_s` by the clock of the runner."""
    session.synchronize()
    lengths = [1 for _ in session.prefill(prompts, mode=mode, marks=True)]
    rows = []
    session.synchronize()
    while min(lengths) < min(tokens, TOKENS):
        begin = clock()
        enqueue(session, mode)
        emitted = session.read()
        rows.append({"wall_s": clock() - begin, **session.marks()})
        lengths = [length + len(new) for length, new in zip(lengths, emitted, strict=True)]
    return rows[UNCOUNTED:] or rows


def enqueue(session: Session, mode: str) -> None:
    if mode == "plain":
        session.decode()
        return
    session.draft()
    session.verify()
    session.accept()


def summarise(rows: Sequence[Mapping[str, float]], measured_s: float) -> dict[str, float]:
    """Medians over the steps. `host_gap_s`: of a step's wall time, what the stamped parts leave over.

    `measured_s` is the median step of the pass without stamps. `stamps_cost`: how much longer a stamped step is, as a
    share of it: for the stamps, and for not running ahead where the measured step does.
    """
    if not rows:
        return {}
    found = {name: median(row[name] for row in rows) for name in rows[0]}
    parts = [name for name in found if name not in ("wall_s", "all_reduce_s", *NOT_SECONDS)]
    if not parts:
        return {}
    found["host_gap_s"] = median(row["wall_s"] - sum(row[part] for part in parts) for row in rows)
    found["stamps_cost"] = found["wall_s"] / measured_s - 1
    return found


def roofline(
    session: Session, found: Mapping[str, float], *, rows: int, context: int, copy_bytes_per_s: float
) -> dict[str, Any]:
    """Least bytes of one target forward, and the rate they were moved at as a share of a plain copy's."""
    seconds = found.get("verify_s") or found.get("decode_s")
    if not seconds or not copy_bytes_per_s or "distinct_experts" not in found:
        return {}
    num_bytes = session.step_bytes(rows, found["distinct_experts"], context)
    return {
        "bytes": num_bytes,
        "floor_s": num_bytes / copy_bytes_per_s,
        "times_floor": seconds * copy_bytes_per_s / num_bytes,
        "copy_bytes_per_s": copy_bytes_per_s,
    }
