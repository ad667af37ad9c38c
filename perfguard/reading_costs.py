"""What a verify pass has to read against what it takes: distinct experts, bytes, and the share of all-reduces. Pure.

Expected numbers are of routing that is uniform and independent; real tokens that follow each other share experts.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from perfguard.cycles import PLAIN, SPECULATIVE, Parts, counts_of, stamped
from perfguard.modes import SIDES
from perfguard.records import Campaign, Trial
from perfguard.stats.economics import expected_distinct_experts, weight_bytes

ELEMENT_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
NEEDED = ("num_experts", "top_k", "hidden_size", "num_heads", "num_kv_heads", "head_dim", "expert_size", "num_layers", "vocab_size")  # fmt: skip  # noqa: E501


def reading_costs(campaign: Campaign, trials: Sequence[Trial], parts: Parts | None) -> dict[str, Any]:
    """By mode the tokens of a pass, distinct experts (expected and measured) and bytes; ratios of verify to a plain
    step. None where nothing is known.
    """
    params = campaign.workload.params
    batch, num_drafted = int(params.get("batch", 1)), params.get("num_draft_tokens")
    config = _config(trials)
    rows = {PLAIN: batch, SPECULATIVE: batch * (int(num_drafted) + 1) if num_drafted is not None else None}
    expected = {mode: _expected(config, num_tokens) for mode, num_tokens in rows.items()}
    measured = {mode: _measured(trials, mode) for mode in rows}
    experts = measured if None not in measured.values() else expected
    num_bytes = {mode: _bytes(config, number, str(params.get("dtype"))) for mode, number in experts.items()}
    return {
        "tokens": rows,
        "experts_expected": expected,
        "experts_measured": measured,
        "bytes": num_bytes,
        "bytes_ratio": _ratio(num_bytes[SPECULATIVE], num_bytes[PLAIN]),
        "time_ratio": None if parts is None else _ratio(parts.verify_s, parts.plain_s),
    }


def _config(trials: Sequence[Trial]) -> Mapping[str, int]:
    """What the subject says of its model; {} where it does not say enough."""
    for trial in trials:
        found = _session(trial).get("target", {})
        if isinstance(found, Mapping) and all(isinstance(found.get(name), int) for name in NEEDED):
            return found
    return {}


def _session(trial: Trial) -> Mapping[str, Any]:
    found: Mapping[str, Any] = trial.record.get("versions", {}).get("session", {})
    return found


def _expected(config: Mapping[str, int], num_tokens: int | None) -> float | None:
    if not config or num_tokens is None:
        return None
    return expected_distinct_experts(config["num_experts"], config["top_k"], num_tokens)


def _measured(trials: Sequence[Trial], mode: str) -> float | None:
    side = next(side for side, name in SIDES.items() if name == mode)
    found = [stamped(trial, "distinct_experts", mode) for trial in trials if trial.side == side]
    known = [number for number in found if number is not None]
    return fmean(known) if known else None


def _bytes(config: Mapping[str, int], experts: float | None, dtype: str) -> float | None:
    if not config or experts is None or dtype not in ELEMENT_BYTES:
        return None
    return weight_bytes(config, ELEMENT_BYTES[dtype], experts)


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one and other else None


def all_reduce_shares(trials: Sequence[Trial]) -> dict[str, float | None]:
    """By mode the share of a step's stamped time that is all-reduces; None where the runner does not stamp them.

    A session that says it is one rank has none.
    """
    if trials and all(_session(trial).get("world_size") == 1 for trial in trials):
        return dict.fromkeys(SIDES.values(), 0.0)
    found: dict[str, float | None] = {}
    for side, mode in SIDES.items():
        marks = [counts_of(trial, mode).get("marks", {}) for trial in trials if trial.side == side]
        shares = [m["all_reduce_s"] / m["wall_s"] for m in marks if m.get("all_reduce_s") and m.get("wall_s")]
        found[mode] = fmean(shares) if shares else None
    return found
