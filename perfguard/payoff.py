"""What a comparison of two modes says beyond win, tie or loss: gate, break-even, parts of the cycle, advice. Pure.

Reads stored trials and changes no outcome. Gives no advice before the gate: drafted tokens that are accepted as a draft
that is wired rightly would have them, and the same output from both modes.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from perfguard.commands import what_words
from perfguard.comparison import metric_json, reason_json
from perfguard.cycles import Parts, counts_of, mean_parts, parts_by_block, rates_of
from perfguard.modes import RESULTS, SIDES, moded_conclusions, moded_decision, moded_sentence
from perfguard.payoff_gate import OUTPUT, Check, check_output, check_rates, is_passed
from perfguard.reading_costs import all_reduce_shares, reading_costs
from perfguard.records import BlockValues, Campaign, Decision, Outcome, Reason, Trial
from perfguard.stats.acceptance import Rate
from perfguard.stats.economics import (
    VERIFY_FACTORS,
    Prediction,
    Speculation,
    gain,
    gain_table,
    levers,
    mean_ratio,
    predictions,
    table_lengths,
)

# A verify pass is worth this share less where bytes do not say what it could cost.
LESS_VERIFY = 0.8


def payoff(
    campaign: Campaign, blocks: Sequence[BlockValues], trials: Sequence[Trial], decision: Decision
) -> dict[str, Any]:
    """The JSON beside a verdict. `trials`: those of `blocks`, in the order they ran."""
    found: dict[str, Any] = {"modes": dict(SIDES), "result": RESULTS.get(decision.outcome), "gate": None}
    if decision.outcome is Outcome.INVALID or not blocks:
        return found
    heads = [trial for trial in trials if trial.side == "head"]
    rates, checks = rates_of(heads), gate(campaign, trials, decision)
    parts = parts_by_block(trials)
    middle = mean_parts(list(parts.values()))
    found["gate"] = {"passed": is_passed(checks), "checks": [asdict(check) for check in checks]}
    found["accept_rates"] = [{**asdict(rate), "rate": rate.rate} for rate in rates]
    found["accept_length"] = accept_length(heads)
    found["times"] = None if middle is None else asdict(middle)
    found["break_even"] = break_even(parts)
    found["reading"] = reading_costs(campaign, trials, middle)
    found["all_reduce_share"] = all_reduce_shares(trials)
    is_advised = is_passed(checks) and middle is not None and found["accept_length"] is not None
    found["advice"] = advice(campaign, found, rates, middle) if is_advised and middle is not None else None
    return found


def in_words(
    campaign: Campaign, comparison: Mapping[str, Any], decision: Decision, said: str, told: Mapping[str, Any]
) -> dict[str, Any]:
    """What of the JSON of a comparison is put otherwise where its sides are modes. `told`: see `payoff`.

    Why nothing is advised comes before all other reasons, and what is wired wrong before the verdict.
    """
    checks = [Check(**check) for check in (told["gate"] or {}).get("checks", ())]
    moded = moded_decision(decision)
    failed = [check for check in checks if check.state == "failed" and not _is_said(check, decision)]
    warnings = [f"{check.name}: {check.text}" for check in failed]
    arms: dict[str, Any] = {arm.side: {**comparison[arm.side], "mode": arm.mode} for arm in campaign.arms}
    best = (told.get("advice") or {}).get("best") or {}
    is_done = decision.outcome in RESULTS
    return {
        **arms,
        "sentence": moded_sentence(said, decision, warnings),
        "metrics": [metric_json(result) for result in moded.metrics],
        "reasons": [reason_json(reason) for reason in (*withheld(checks), *moded.reasons)],
        "conclusions": moded_conclusions(decision, comparison["conclusions"]),
        "next": (is_done and best.get("command")) or (_report(campaign) if is_done else comparison["next"]),
        "speculate": told,
    }


def _is_said(check: Check, decision: Decision) -> bool:
    """By the verdict itself."""
    return check.name == OUTPUT and any(reason.code == "OUTPUT_CHANGED" for reason in decision.reasons)


def _report(campaign: Campaign) -> str:
    return f"perfguard report {campaign.id} -f md"


def gate(campaign: Campaign, trials: Sequence[Trial], decision: Decision) -> tuple[Check, ...]:
    """Accept rates first: another output may follow from the same fault, the other way round it cannot be seen."""
    heads = [trial for trial in trials if trial.side == "head"]
    return check_rates(campaign.workload, rates_of(heads)), check_output(campaign.workload, trials, decision)


def withheld(checks: Sequence[Check]) -> tuple[Reason, ...]:
    """Why there is no advice, to be said before anything else."""
    missing = [check for check in checks if check.state in ("failed", "unknown")]
    texts = [f"{check.name} {check.state}: {check.text}" for check in missing]
    return (Reason(code="ADVICE_WITHHELD", text="; ".join(texts)),) if missing else ()


def accept_length(heads: Sequence[Trial]) -> float | None:
    """Tokens a cycle and sequence, bonus included, over all launches; None where the runner does not count them."""
    counts = [counts_of(trial) for trial in heads]
    emitted, cycles = (sum(int(count.get(name, 0)) for count in counts) for name in ("emitted", "cycles"))
    return emitted / cycles if emitted and cycles else None


def break_even(parts: Mapping[tuple[int, int], Parts]) -> dict[str, Any] | None:
    """The accept length at which speculation pays, from every block: cycle time over the time of a plain step."""
    if not parts:
        return None
    middle, low, high = mean_ratio([one.cycle_s / one.plain_s for one in parts.values()])
    return {"accept_length": middle, "ci_low": low, "ci_high": high, "num_blocks": len(parts)}


def advice(campaign: Campaign, found: Mapping[str, Any], rates: Sequence[Rate], middle: Parts) -> dict[str, Any] | None:
    """Gain at other accept lengths and verify times, levers, and numbers of drafted tokens; None without the parts."""
    if middle.draft_s is None or middle.verify_s is None:
        return None
    measured = Speculation(
        accept_length=found["accept_length"],
        draft_s=middle.draft_s,
        verify_s=middle.verify_s,
        accept_s=middle.rest_s,
    )
    num_drafted = int(campaign.workload.params.get("num_draft_tokens", len(rates)))
    rows = gain_table(measured, middle.plain_s, table_lengths(num_drafted))
    known = [rate.rate for rate in rates]
    planned = predictions(known, measured, middle.plain_s, extend_s=middle.extend_s) if known else []
    return {
        "gain": gain(measured, middle.plain_s),
        "gain_table": {
            "verify_factors": list(VERIFY_FACTORS),
            "rows": [{"accept_length": length, "gains": list(gains)} for length, gains in rows],
        },
        "levers": _levers(measured, middle, num_drafted, found["reading"]),
        "predicted": [asdict(one) for one in planned],
        "best": _best(campaign, planned),
    }


def _levers(measured: Speculation, middle: Parts, num_drafted: int, reading: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One more token a cycle, a verify as cheap as its bytes allow, a draft that costs nothing."""
    ratio = reading.get("bytes_ratio")
    floor_s = middle.plain_s * ratio if ratio else LESS_VERIFY * measured.verify_s
    found = levers(
        measured,
        middle.plain_s,
        accept_length=min(num_drafted + 1.0, measured.accept_length + 1),
        verify_s=min(measured.verify_s, floor_s),
    )
    return [asdict(lever) for lever in found]


def _best(campaign: Campaign, planned: Sequence[Prediction]) -> dict[str, Any] | None:
    """The number of drafted tokens that should pay most, and the command that measures it."""
    if not planned:
        return None
    best = max(planned, key=lambda one: one.gain)
    workload, head = campaign.workload, campaign.arms[1]
    if "num_draft_tokens" not in workload.params:
        return {**asdict(best), "command": ""}
    params = {**workload.params, **head.params, "num_draft_tokens": best.num_drafted}
    about = {"name": workload.name, "params": params}
    command = shlex.join(["perfguard", "speculate", head.revision.name, *what_words(about, ())])
    return {**asdict(best), "command": command}
