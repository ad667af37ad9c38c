"""What `speculate` found beyond the verdict, as lines and tables for every output. Pure; takes the JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from perfguard.report import units

Rows = list[tuple[str, ...]]
MARKS = {"passed": "✓", "failed": "✗", "unknown": "?", "set": "·"}
NAMES = {"accept_length": "accept length", "verify_s": "verify time", "draft_s": "draft time"}
PREDICTED = ("drafted", "accept length", "cycle", "gain (predicted)")


def lines(comparison: Mapping[str, Any]) -> list[str]:
    """The gate first; then break-even, parts of a cycle, what is read, all-reduces, levers. None for other kinds."""
    told = comparison.get("speculate") or {}
    if not told.get("gate"):
        return []
    found = [f"{MARKS[c['state']]} gate, {c['name']} {c['state']}: {c['text']}" for c in told["gate"]["checks"]]
    found += [*_break_even(told), *_times(told), *_reading(told), *_all_reduce(told)]
    if told["advice"] is None:
        why = "what the gate asks is not shown" if not told["gate"]["passed"] else "the runner does not tell enough"
        return [*found, f"No advice: {why}."]
    return [*found, *_levers(told["advice"]), *_best(told["advice"])]


def _break_even(told: Mapping[str, Any]) -> list[str]:
    even = told["break_even"]
    if even is None:
        return ["break-even accept length: unknown, the runner gives no times of steps and cycles"]
    within = "" if even["ci_low"] is None else f" (95 % interval {even['ci_low']:.3g} to {even['ci_high']:.3g})"
    here = "unknown" if told["accept_length"] is None else f"{told['accept_length']:.3g}"
    return [f"break-even accept length {even['accept_length']:.3g}{within}; here {here} tokens a cycle"]


def _times(told: Mapping[str, Any]) -> list[str]:
    times = told["times"]
    if times is None:
        return []
    parts = [("draft", times["draft_s"]), ("verify", times["verify_s"])]
    shown = [f"{name} {'unknown' if seconds is None else units.value(seconds, 's')}" for name, seconds in parts]
    cycle, plain = units.value(times["cycle_s"], "s"), units.value(times["plain_s"], "s")
    return [f"cycle {cycle} ({', '.join(shown)}); plain step {plain}"]


def _reading(told: Mapping[str, Any]) -> list[str]:
    reading = told["reading"]
    found = []
    for kind in ("expected", "measured"):
        plain, eagle3 = (reading[f"experts_{kind}"][mode] for mode in ("plain", "eagle3"))
        if plain is not None and eagle3 is not None:
            found.append(f"distinct experts {kind}: plain {plain:.3g}, verify {eagle3:.3g}")
    if reading["time_ratio"] is not None:
        ratio = reading["bytes_ratio"]
        weights = "bytes unknown" if ratio is None else f"for {ratio:.3g} times the weight bytes"
        found.append(f"a verify pass takes {reading['time_ratio']:.3g} times a plain step, {weights}")
    return found


def _all_reduce(told: Mapping[str, Any]) -> list[str]:
    shares = told["all_reduce_share"]
    if set(shares.values()) == {0.0}:
        return ["all-reduce share: none, on one rank"]
    shown = [f"{mode} {'unknown' if share is None else f'{100 * share:.0f} %'}" for mode, share in shares.items()]
    return [f"all-reduce share: {', '.join(shown)}"]


def _levers(advice: Mapping[str, Any]) -> list[str]:
    return [f"lever {_lever(lever)} (by the times measured here)" for lever in advice["levers"]]


def _lever(lever: Mapping[str, Any]) -> str:
    is_time = lever["name"].endswith("_s")
    now, then = (units.value(lever[key], "s") if is_time else f"{lever[key]:.3g}" for key in ("now", "then"))
    return f"{NAMES[lever['name']]} {now} -> {then}: {gain(lever['gain'])}"


def _best(advice: Mapping[str, Any]) -> list[str]:
    best = advice["best"]
    if best is None:
        return []
    assumed = ", with an accept rate that was assumed" if best["is_extended"] else ""
    how = f"; measure it: {best['command']}" if best["command"] else ""
    return [f"best number of drafted tokens, predicted: {best['num_drafted']}, {gain(best['gain'])}{assumed}{how}"]


def gain(share: float) -> str:
    return f"{100 * share:+.0f} %"


def gain_rows(comparison: Mapping[str, Any]) -> tuple[tuple[str, ...], Rows]:
    """Columns and rows of gain over plain decoding by accept length and verify time; no rows without advice."""
    advice = (comparison.get("speculate") or {}).get("advice")
    if not advice:
        return (), []
    table = advice["gain_table"]
    columns = ("accept length", *(f"verify x {factor:g}" for factor in table["verify_factors"]))
    return columns, [(f"{row['accept_length']:g}", *map(gain, row["gains"])) for row in table["rows"]]


def predicted_rows(comparison: Mapping[str, Any]) -> Rows:
    advice = (comparison.get("speculate") or {}).get("advice")
    return [_predicted(one) for one in advice["predicted"]] if advice else []


def _predicted(one: Mapping[str, Any]) -> tuple[str, ...]:
    assumed = " (rate assumed)" if one["is_extended"] else ""
    length, cycle = f"{one['accept_length']:.3g}", units.value(one["cycle_s"], "s")
    return f"{one['num_drafted']}{assumed}", length, cycle, gain(one["gain"])


def tables(comparison: Mapping[str, Any]) -> list[tuple[Sequence[str], Rows]]:
    """Every table that has rows, with its columns."""
    columns, rows = gain_rows(comparison)
    found: list[tuple[Sequence[str], Rows]] = [(columns, rows), (PREDICTED, predicted_rows(comparison))]
    return [(names, cells) for names, cells in found if cells]
