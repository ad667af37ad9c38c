"""A machine that disturbs a search: its gates void launches and end it, and accuse no commit."""

from dataclasses import replace

import bisect_cases as cases
import pytest

from perfguard.bisection.state import failing, invalid_reasons, standing, unmeasurable
from perfguard.bisection.verdict import bisect_json
from perfguard.conditions.trial_gates import gated, is_voided_by_gate
from perfguard.gate_policy import GatePolicy
from perfguard.records import Reason
from tests.unit import condition_cases as conditions
from tests.unit.condition_cases import CARD

HEALTHY = conditions.conditions()
BRAKED = conditions.conditions({CARD: conditions.card(after={"event_hw_power_brake_us": 500_000})})
HOT = conditions.conditions(
    {CARD: conditions.card(after={"event_sw_thermal_us": 400_000}, load={"sm_clock_mhz": 1700})}
)
SICK = conditions.conditions({CARD: conditions.card(before={"remap_is_pending": True})})


def voided(stored):
    """The last launch as a gate leaves it that does not like the machine."""
    last = replace(stored.trials[-1], record={"conditions": BRAKED})
    return replace(stored, trials=(*stored.trials[:-1], gated(GatePolicy(), last, [], {})))


def on(stored, base, head):
    """All launches with the conditions of their side."""
    by_side = {"base": base, "head": head}
    trials = tuple(replace(t, record={"conditions": by_side[t.side]}) for t in stored.trials)
    return replace(stored, trials=trials)


def test_launches_that_a_gate_voided_are_drawn_again_and_are_no_fault_of_the_commit():
    once = voided(cases.with_reading(cases.stored(), 6, 1.0, 1.0))
    assert is_voided_by_gate(once.trials[-1])
    twice = voided(cases.with_reading(once, 6, 1.0, 1.0))
    assert failing(twice) == {}
    assert unmeasurable(twice) == frozenset()
    at_bad = voided(cases.with_reading(voided(cases.with_reading(cases.stored(), 8, 1.0, 1.0)), 8, 1.0, 1.0))
    assert invalid_reasons(at_bad) == ()
    assert (standing(at_bad).state, standing(at_bad).decision.position) == ("measure", 8)
    # A machine that never gives a value ends it all the same.
    for _ in range(2):
        at_bad = voided(cases.with_reading(at_bad, 8, 1.0, 1.0))
    assert invalid_reasons(at_bad)[0].code == "void"


@pytest.mark.parametrize("code", ["command_failed", "same_code", "environment", "metric_missing"])
def test_what_a_launch_says_of_itself_is_no_gate(code):
    stored = cases.with_reading(cases.stored(), 6, 1.0, None)
    for status in ("crashed", "invalid"):
        trial = replace(stored.trials[-1], status=status, reasons=(Reason(code=code, text=""),))
        assert not is_voided_by_gate(trial)


def test_a_gate_that_stops_a_campaign_ends_a_search_invalid():
    stored = cases.with_reading(cases.stored(), 8, 1.0, 1.0)
    assert invalid_reasons(on(stored, HEALTHY, HEALTHY)) == ()
    found = bisect_json(on(stored, HEALTHY, SICK))
    assert (found["outcome"], found["exit_code"]) == ("INVALID", 4)
    assert found["reasons"][0]["code"] == "GPU_HEALTH"


def test_a_limit_that_met_one_end_alone_withholds_phantom():
    stored = cases.stored()
    while (at := standing(stored)).state == "measure" or len(stored.pairs) < 5:
        spread = 1 + 0.001 * (-1) ** len(stored.pairs)
        stored = cases.with_reading(stored, 8 if at.decision is None else at.decision.position or 8, 1.0, spread)
    assert bisect_json(on(stored, HEALTHY, HEALTHY))["outcome"] == "PHANTOM"
    assert bisect_json(on(stored, HOT, HOT))["outcome"] == "PHANTOM"
    found = bisect_json(on(stored, HEALTHY, HOT))
    assert (found["outcome"], found["exit_code"]) == ("INCONCLUSIVE", 3)
    assert found["reasons"][0]["code"] == "ONE_SIDED"
    assert "ONE_SIDED_THERMAL" in {reason["code"] for reason in found["reasons"]}
    assert "PHANTOM is withheld" in found["sentence"]
    assert "--clocks lock" in found["next"]
