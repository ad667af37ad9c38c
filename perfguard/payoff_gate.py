"""May anything be advised about speculation? Is the draft wired rightly, and do both modes say the same? Pure.

A check that cannot be made is unknown, never passed; one whose answer the workload itself sets is said to be set.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from perfguard.cycles import counts_of
from perfguard.modes import SIDES, is_accept_length_set, is_sampled, must_agree
from perfguard.records import Decision, Trial, Workload
from perfguard.stats.acceptance import MIN_TRIED, Rate, wiring
from perfguard.stats.exact import digest_kind

State = Literal["passed", "failed", "unknown", "set"]
RATES = "accept rates"
OUTPUT = "output"
BY_COIN = "acceptance is set by the workload: nothing is learned of the draft or of tokens, times are real"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One question of the gate, how it ended, and a sentence with the numbers."""

    name: str
    state: State
    text: str


def is_passed(checks: Sequence[Check]) -> bool:
    return all(check.state in ("passed", "set") for check in checks)


def check_rates(workload: Workload, rates: Sequence[Rate]) -> Check:
    """Whether the draft gets the inputs it was trained for."""
    shown = ", ".join(f"{100 * rate.rate:.0f} %" for rate in rates)
    if is_accept_length_set(workload):
        return Check(name=RATES, state="set", text=BY_COIN)
    match wiring(rates):
        case "collapsed":
            text = f"position 1 is accepted in {100 * rates[0].rate:.1f} % of {rates[0].tried} cycles (by position: "
            text += f"{shown}): a weak draft loses agreement slowly, this one is wired wrong"
            text += " (tap layers, token ids, positions, weights)"
            return Check(name=RATES, state="failed", text=text)
        case "unknown":
            few = f"only {rates[0].tried} cycles, {MIN_TRIED} are needed" if rates else ""
            text = few or "the runner does not count accepted tokens by position"
            return Check(name=RATES, state="unknown", text=text)
    text = f"{shown} by position, given that those before were accepted: no collapse at the first, what is lost is the "
    return Check(name=RATES, state="passed", text=f"{text}draft's own")


def check_output(workload: Workload, trials: Sequence[Trial], decision: Decision) -> Check:
    """Whether greedy speculative output is plain output."""
    if is_accept_length_set(workload):
        return Check(name=OUTPUT, state="set", text=BY_COIN)
    if is_sampled(workload):
        return Check(name=OUTPUT, state="unknown", text="tokens are sampled; --set temperature=0 compares them")
    codes = {reason.code for reason in decision.reasons}
    if "OUTPUT_CHANGED" in codes:
        text = f"eagle3 produces other tokens than plain decoding{_gaps(trials)}"
        return Check(name=OUTPUT, state="failed", text=text)
    outputs = {trial.digests[name] for trial in trials for name in trial.digests}
    if not all(trial.digests for trial in trials):
        return Check(name=OUTPUT, state="unknown", text="the runner gives no digest of the tokens")
    if len({digest_kind(output) for output in outputs}) > 1:
        text = "launches tell their output in different ways, token ids and text: they cannot be compared"
        return Check(name=OUTPUT, state="unknown", text=text)
    if len(outputs) == 1:
        return Check(name=OUTPUT, state="passed", text="both modes produced the same tokens in every launch")
    if must_agree(workload):
        return Check(name=OUTPUT, state="unknown", text="launches of one mode differ in their own output")
    return _explained(trials)


def _explained(trials: Sequence[Trial]) -> Check:
    """In low precision near ties may part the modes; a runner whose launch ran both can say whether the first
    difference is one. What it says counts also for launches of one mode that produced the same.
    """
    told = [t for t in trials if t.side == "head" and _is_explained(t) is not None]
    if any(_is_explained(trial) is False for trial in told):
        text = f"{SIDES['head']} and plain part where rounding does not explain it{_gaps(told)}: verify or acceptance "
        return Check(name=OUTPUT, state="failed", text=f"{text}is wired wrong")
    if told and _are_covered(trials, told):
        text = f"tokens differ first where the likeliest are closer than rounding, as the runner checked{_gaps(told)}"
        return Check(name=OUTPUT, state="passed", text=text)
    text = "tokens differ, and the runner does not say whether rounding explains it; --set dtype=float32 decides"
    return Check(name=OUTPUT, state="unknown", text=text)


def _is_explained(trial: Trial) -> bool | None:
    word = counts_of(trial).get("first_difference_explained")
    return word if isinstance(word, bool) else None


def _are_covered(trials: Sequence[Trial], told: Sequence[Trial]) -> bool:
    """Whether every output is one of a launch that was asked; of a plain trial, one of the same block."""
    launches = {(trial.stage, trial.block) for trial in told}
    asked = [t for t in trials if t in told or (t.side == "base" and (t.stage, t.block) in launches)]
    known = {(trial.side, *trial.digests.values()) for trial in asked}
    return all((trial.side, *trial.digests.values()) in known for trial in trials)


def _gaps(trials: Sequence[Trial]) -> str:
    """How many prompts differ, and the gap that is largest against its bound, in the launch where it is."""
    found = [counts_of(trial).get("first_differences") for trial in trials]
    known = [one for one in found if isinstance(one, Mapping) and one.get("worst_gap") and one.get("worst_bound")]
    if not known:
        return ""
    worst = max(known, key=lambda one: float(one["worst_gap"]) / float(one["worst_bound"]))
    counted = f"rounding explains {worst.get('num_explained')} of {worst.get('num_differing')} prompts that differ"
    return f" ({counted}; logit gap {worst['worst_gap']:.3g}, rounding up to {worst['worst_bound']:.3g})"
