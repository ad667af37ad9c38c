"""What stands for an outcome in every output: a sign beside the word, so that colour is never the only signal."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from perfguard.report import speculate, units

MOST_PARTS = 3  # of a step, that are named
_SIGNS = {
    "REGRESSION": "✗",
    "IMPROVEMENT": "✓",
    "EQUIVALENT": "=",
    "INCONCLUSIVE": "?",
    "SUSPECT": "!",
    "INVALID": "⊘",
    "REPRODUCED": "=",
    "NOT_REPRODUCED": "≠",
    "CULPRIT": "✗",
    "PHANTOM": "=",
    "RANKED": "✓",
    "EXPLAINED": "✓",
    "NOT_REPRODUCIBLE": "≠",
}
_STYLES = {
    "REGRESSION": "bold red",
    "IMPROVEMENT": "bold green",
    "EQUIVALENT": "green",
    "REPRODUCED": "green",
    "NOT_REPRODUCED": "yellow",
    "CULPRIT": "bold red",
    "PHANTOM": "green",
    "RANKED": "green",
    "EXPLAINED": "green",
    "NOT_REPRODUCIBLE": "yellow",
    "INCONCLUSIVE": "yellow",
    "SUSPECT": "yellow",
    "INVALID": "magenta",
}


def signed(outcome: str) -> str:
    """The word with its sign in front: ✗ REGRESSION."""
    return f"{_SIGNS.get(outcome, ' ')} {outcome}".strip()


def style(outcome: str) -> str:
    """A style of rich; none for a word that is no outcome."""
    return _STYLES.get(outcome, "")


def headline(comparison: Mapping[str, Any]) -> str:
    """The verdict in one sentence, with the outcome and its sign in front exactly once."""
    outcome, sentence = str(comparison["outcome"]), str(comparison.get("sentence", ""))
    rest = sentence.removeprefix(outcome).lstrip(" :.–-") if sentence.startswith(outcome) else sentence
    return f"{signed(outcome)}: {rest}" if rest else signed(outcome)


def scope(comparison: Mapping[str, Any]) -> str:
    """full, slice, in-process or attached; with the campaign that belongs to a slice, or that a block belongs to."""
    word, method = str(comparison.get("scope", "full")), comparison.get("method") or {}
    if "full_size" in method:
        return f"{word}; one block at full size: {method['full_size']}"
    return f"{word}; one block after slice {method['after_slice']}" if "after_slice" in method else word


def engine(comparison: Mapping[str, Any]) -> list[str]:
    """What the engines of both sides said of themselves; the first line stands above the verdict."""
    return [f"Engine: {line}" for line in (comparison.get("engine") or {}).get("lines", ())]


def metric_cells(metric: Mapping[str, Any], margin: float | None) -> tuple[str, ...]:
    """Name, base, head, slowdown, interval, margin, p, outcome. Base and head share one scale."""
    medians = (metric.get("base_median"), metric.get("head_median"))
    is_exact = bool(metric.get("exact", False))
    largest = max(abs(amount or 0.0) for amount in medians)
    chosen = units.scale(str(metric["unit"]), 1.0 if is_exact else largest)
    unit = f" ({chosen.symbol})" if chosen.symbol else ""
    return (
        f"{metric['name']}{unit}{'' if metric.get('primary', True) else ', secondary'}",
        *(units.told_apart(*medians) if is_exact else (_scaled(m, chosen) for m in medians)),
        units.slowdown(metric.get("slowdown")),
        units.interval(metric.get("ci_low"), metric.get("ci_high")),
        "exact" if is_exact else units.share(margin),
        units.probability(metric.get("p_order")),
        signed(str(metric["outcome"])),
    )


def _scaled(amount: float | None, chosen: units.Scale) -> str:
    return units.MISSING if amount is None else units.number(amount / chosen.divisor)


# Variables that both sides have alike and that are still spelled out.
FEW_VARIABLES = 5
COLUMNS = ("metric", "base", "head", "slowdown", "95 % interval", "margin", "p", "outcome")


def counts(comparison: Mapping[str, Any]) -> str:
    """Trials by status and blocks: what was measured and what of it does not count."""
    trials, blocks = comparison["trials"], comparison["blocks"]
    if not any(trials.values()):
        return "Trials: none measured; the unmeasured first runs of the sides are not among them."
    by_status = ", ".join(f"{number} {status.replace('_', ' ')}" for status, number in trials.items())
    needed = f", {blocks['needed']} more needed" if blocks.get("needed") else ""
    return f"Trials: {by_status}. Blocks: {blocks['used']} used, {blocks['void']} void{needed}."


def cached_builds(comparison: Mapping[str, Any]) -> str:
    """Which first builds come from the cache, "" if none does."""
    found = [
        f"{build['side']} built {build['built_at'][:16].replace('T', ' ')} UTC"
        for build in comparison.get("cached_builds", [])
    ]
    return f"From the cache of builds: {', '.join(found)}." if found else ""


def reasons(comparison: Mapping[str, Any]) -> list[str]:
    """Those of the whole, then what metrics say beyond them: code and sentence."""
    own = [(reason["code"], reason["text"]) for reason in comparison.get("reasons", [])]
    of_metrics = [
        (reason["code"], f"{metric['name']}: {reason['text']}")
        for metric in comparison["metrics"]
        for reason in metric.get("reasons", [])
        if (reason["code"], reason["text"]) not in own
    ]
    return [f"{code}: {text}" for code, text in dict.fromkeys([*own, *of_metrics])]


def speculation(comparison: Mapping[str, Any]) -> list[str]:
    """Two lines a speculative mode: accept length first, since another one is a change of function, then what part of
    the slowdown is whose. None in comparisons stored before modes were taken apart. Where the modes themselves are
    compared: the gate and what speculation costs. Then the parts of a step of every mode that changed."""
    lines = speculate.lines(comparison)
    for found in comparison.get("speculation", ()):
        length, alpha = found["accept_length"], float(comparison["alpha"])
        values = f"base {units.number(length['base'])}, head {units.number(length['head'])} token"
        lines.append(f"{found['mode']} accept length: {values}; {_finding(length, alpha)}")
        lines.append(
            f"{found['mode']} slowdown {units.slowdown(found['slowdown'])}: accept length "
            f"{units.slowdown(found['by_accept_length'])}, cycle time {units.slowdown(found['by_cycle'])} (all blocks)"
        )
    return lines + [line for step in comparison.get("steps", ()) for line in _step(comparison, step)]


def _step(comparison: Mapping[str, Any], step: Mapping[str, Any]) -> list[str]:
    """The parts of a step that changed most, where its mode was found to be slower or faster."""
    outcomes = [m["outcome"] for m in comparison["metrics"] if m["name"] == f"{step['mode']}_throughput"]
    if not set(outcomes) & {"REGRESSION", "IMPROVEMENT", "SUSPECT"}:
        return []
    changed = sorted(step["parts"], key=lambda part: -abs(part["head_s"] - part["base_s"]))[:MOST_PARTS]
    where = f"; most of it in {step['lies_in']}" if step["lies_in"] else ""
    return [f"{step['mode']} step by time stamps: {', '.join(map(_part, changed))}{where}"]


def _part(part: Mapping[str, Any]) -> str:
    name = f"{part['name']} inside" if part["is_inside"] else part["name"]
    return f"{name} {units.value(part['base_s'], 's')} → {units.value(part['head_s'], 's')}"


def _finding(length: Mapping[str, Any], alpha: float) -> str:
    match length["finding"]:
        case "equal":
            return "the same in every launch"
        case "changed":
            return "the same in every launch of a side: a change of function"
        case "shorter":
            return f"shorter over {length['num_prompts']} prompts (p {units.probability(length['p'])})"
        case "not_shown":
            needed = math.ceil(-math.log2(alpha))
            few = f"; fewer than {needed} cannot show it" if length["num_prompts"] < needed else ""
            tested = f"{length['num_prompts']} prompts (p {units.probability(length['p'])}{few})"
            return f"not shown to be shorter over {tested}"
    return "differs between launches, and without counts by prompt it is not tested"


def sides(comparison: Mapping[str, Any]) -> dict[str, str]:
    """What each side is. Variables that both have alike are only counted where there are many: an experiment sets all
    that was recorded, and a reader looks for what differs."""
    arms = {side: comparison[side] for side in ("base", "head") if comparison.get(side)}
    alike = many_alike([arm.get("env", {}) for arm in arms.values()])
    own = {side: {**arm, "env": without(arm.get("env", {}), alike)} for side, arm in arms.items()}
    both = {"both": f"{len(alike)} more variables, alike"} if alike else {}
    return {side: differences(arm) for side, arm in own.items()} | both


def many_alike(envs: Sequence[Mapping[str, str]]) -> list[str]:
    """Variables that both of two sides have alike, where they are too many to be spelled out."""
    if len(envs) != 2:
        return []
    alike = [name for name, value in envs[0].items() if envs[1].get(name) == value]
    return alike if len(alike) > FEW_VARIABLES else []


def without(env: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name not in names}


def differences(arm: Mapping[str, Any]) -> str:
    """What an arm is: revision, commit, patch, its own variables and parameters, subject."""
    parts = [str(arm.get("revision", "")), str(arm.get("commit", ""))[:12]]
    if arm.get("mode"):
        parts.append(str(arm["mode"]))
    if arm.get("patch_sha256"):
        parts.append(f"+ patch {str(arm['patch_sha256'])[:12]}")
    parts += [f"{key}={item}" for key, item in {**arm.get("env", {}), **arm.get("params", {})}.items()]
    return "  ".join([*parts, str(arm.get("subject", ""))]).rstrip()
