"""A calibration for a terminal: how noisy this machine is, and what that means for comparisons on it."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from perfguard.report import outcomes, terminal, units

COLUMNS = ("metric", "noise a launch", "with drift", "an iteration", "lag 1", "slow launches", "iterations", "warm-up")


def render_calibration(calibration: Mapping[str, Any], console: Console) -> None:
    """`calibration` follows perfguard/calibration@1."""
    terminal.render_facts(_head(calibration), console)
    if calibration["metrics"]:
        console.print()
        terminal.render_rows(COLUMNS, [_cells(metric) for metric in calibration["metrics"]], console)
        console.print()
        terminal.render_facts(_costs(calibration), console)
    if calibration["next"]:
        console.print()
        terminal.render_next(calibration["next"], console)


def _head(calibration: Mapping[str, Any]) -> dict[str, object]:
    revision, aa = calibration["base"], calibration["aa"]
    return {
        "result": f"{outcomes.signed(calibration['outcome'])}  {calibration['sentence']}",
        **_reasons(calibration["reasons"]),
        "A/A": f"{aa['outcome']} at a margin of {units.share(calibration['margin'])}: {aa['sentence']}",
        "control": _control(calibration["control"]),
        "revision": f"{revision['revision']}  {revision['commit'][:12]}  {revision['subject']}",
        "stored as": calibration["id"],
    }


def _reasons(reasons: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """One line a code, its texts behind each other: two metrics often have the same to say."""
    texts: dict[str, list[str]] = {}
    for reason in reasons:
        texts.setdefault(reason["code"], []).append(reason["text"])
    return {code: "; ".join(found) for code, found in texts.items()}


def _control(control: Mapping[str, Any] | None) -> str:
    if control is None:
        return units.MISSING
    planted = f"planted {units.slowdown(control['planted'])}"
    if control["is_found"] is None:
        return f"{planted}, not tried: {control['how']}"
    seen = ", ".join(f"{name} {units.slowdown(ratio)}" for name, ratio in control["slowdowns"].items())
    word = "found" if control["is_found"] else "NOT FOUND"
    return f"{planted}, {word}: {seen} in {control['num_launches']} launches ({control['how']})"


def _costs(calibration: Mapping[str, Any]) -> dict[str, object]:
    prices, mde = calibration["prices"], calibration["mde"]
    likely = prices["likely_equivalent"]
    launch = f"{units.duration(calibration['load_s'])} to load, {units.duration(calibration['measured_s'])} measured"
    found = "none within the default number of blocks" if mde["slowdown"] is None else units.slowdown(mde["slowdown"])
    verdicts = [f"{m['outcome']} after {units.duration(m['wall_s'])}" for m in prices["earliest"]]
    usual_s = None if likely is None else likely * prices["block_s"]
    unchanged = "" if usual_s is None else f"; an unchanged head takes about {units.duration(usual_s)}"
    return {
        "a launch": launch,
        "a verdict": f"earliest {', '.join(verdicts)}{unchanged}",
        "margin": f"{units.share(calibration['recommended']['margin'])} or more",
        "found in 9 of 10": f"{found} at a margin of {units.share(mde['margin'])}",
    }


def _cells(metric: Mapping[str, Any]) -> tuple[str, ...]:
    noise, modes, levels, warmup = (metric[key] for key in ("noise", "modes", "levels", "warmup"))
    lag = units.MISSING if metric["lag_one"] is None else f"{metric['lag_one']:+.2f}"
    rate = metric["slow_rate_not_excluded"]
    slow = f"none (up to {_share(rate)} possible)" if modes is None else _modes(modes)
    return (
        str(metric["name"]),
        f"{_share(noise['sd'])} ({_share(noise['low'])} to {_share(noise['high'])})",
        _share(noise["overall"]),
        units.MISSING if levels is None else _share(levels["within"]),
        lag,
        slow,
        units.MISSING if levels is None else _iterations(levels, metric["optimal_iterations"]),
        units.MISSING if warmup is None else f"{warmup['discarded']} (at most {warmup['most_discarded']})",
    )


def _modes(modes: Mapping[str, Any]) -> str:
    return f"{modes['num_slow']} of {modes['num_launches']}"


def _iterations(levels: Mapping[str, Any], optimal: int | None) -> str:
    best = "more always pay" if optimal is None else f"cheapest near {units.number(float(optimal), 2)}"
    return f"{levels['num_iterations']}, {best}"


def _share(ratio: float) -> str:
    """Two significant digits: a spread of a dozen launches is not known better."""
    return units.share(float(f"{ratio:.2g}"))
