"""What the machine was like, as lines: clock, temperature and power by trial, the table of gates, coverage. Pure.

Arms are told apart by letters, A for base and B for head, as in the orders of blocks.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from perfguard.report.bars import bars

GATE_COLUMNS = ("gate", "base", "head", "action", "what happened")
# Trials in one line of the plot; with label and range it stays below 100 columns.
TRACK = 56
PLOTTED = (
    ("sm_clock_mhz", "SM clock", "MHz"),
    ("temperature_c", "temperature", "°C"),
    ("power_average_w", "power", "W"),
)
MOVED = "MACHINE MOVED"
LETTERS = {"base": "A", "head": "B"}


def facts(machine: Mapping[str, Any]) -> list[str]:
    """What a person has to know of a stored fingerprint; [] where nothing was recorded."""
    host, gpu = machine.get("host") or {}, machine.get("gpu") or {}
    lines = [f"{key}: {host[key]}" for key in ("cpu_model", "num_threads", "kernel", "python") if host.get(key)]
    names = [str(card.get("name")) for card in gpu.get("gpus", [])]
    if names:
        lines.append(f"GPU: {len(names)} × {names[0]}" if len(set(names)) == 1 else f"GPUs: {', '.join(names)}")
    return lines + [f"{key}: {gpu[key]}" for key in ("driver", "cuda_driver") if gpu.get(key)]


def plot_lines(comparison: Mapping[str, Any]) -> list[str]:
    """One column a trial, in the order they ran; [] where nothing was read from a GPU under load."""
    trials = _of(comparison, "trials")
    shown = [plot for plot in PLOTTED if any(t.get(plot[0]) is not None for t in trials)]
    if not shown:
        return []
    lines = ["Machine under load, one column a trial in the order they ran (A base, B head, lower case: not counted)"]
    for start in range(0, len(trials), TRACK):
        part = trials[start : start + TRACK]
        lines += [
            f"{words:>11} │{_bars(name, part, trials)}│ {_range(name, trials, unit)}" for name, words, unit in shown
        ]
        lines.append(f"{'arm':>11} │{''.join(map(_letter, part))}│")
    return [*lines, ""]


def _letter(trial: Mapping[str, Any]) -> str:
    letter = LETTERS[trial["side"]]
    return letter if trial["status"] == "ok" else letter.lower()


def _bars(name: str, part: Sequence[Mapping[str, Any]], trials: Sequence[Mapping[str, Any]]) -> str:
    """One scale for the whole campaign; a trial without a reading is a gap, never the lowest bar."""
    known = [t[name] for t in trials if t.get(name) is not None]
    return bars([t.get(name) for t in part], min(known), max(known))


def _range(name: str, trials: Sequence[Mapping[str, Any]], unit: str) -> str:
    known = [t[name] for t in trials if t.get(name) is not None]
    low, high = f"{min(known):,.0f}", f"{max(known):,.0f}"
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"


def gate_rows(comparison: Mapping[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """The gates that saw something; the first two things each, and how many more."""
    return [
        (row["gate"], _share(row["base"]), _share(row["head"]), row["action"], _happened(row["found"]))
        for row in _of(comparison, "gates")
        if row["found"]
    ]


def _share(count: Mapping[str, int]) -> str:
    return f"{count['trials']} of {count['of']}"


def _happened(found: Sequence[str]) -> str:
    more = f" (and {len(found) - 2} more)" if len(found) > 2 else ""
    return "; ".join(found[:2]) + more


def lines(comparison: Mapping[str, Any]) -> list[str]:
    """How much could be seen, which gates were quiet, and settings that somebody may have forgotten."""
    return list(_lines(comparison)) if comparison.get("conditions") else []


def _lines(comparison: Mapping[str, Any]) -> Iterator[str]:
    quiet = sum(not row["found"] for row in _of(comparison, "gates"))
    of_gates = f"; {quiet} of {len(_of(comparison, 'gates'))} gates saw nothing" if _of(comparison, "gates") else ""
    yield f"Machine: {comparison['conditions']['coverage']['text']}{of_gates}."
    for setting in _of(comparison, "settings"):
        yield f"Setting: {setting}. Unset it unless it is meant."


def notices(comparison: Mapping[str, Any]) -> list[str]:
    return [marked(notice["text"]) for notice in comparison.get("machine_moved") or ()]


def marked(text: str) -> str:
    """A notice of a machine, told so that nobody takes it for one of the code."""
    return text if text.startswith(MOVED) else f"{MOVED}: {text}"


def _of(comparison: Mapping[str, Any], name: str) -> Sequence[Any]:
    found: Sequence[Any] = (comparison.get("conditions") or {}).get(name) or ()
    return found
