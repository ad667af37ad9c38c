"""A limit that meets both arms alike voids nothing; one that meets one arm decides what it can have made."""

import math

import pytest

from perfguard.conditions.arm_gates import arm_findings
from perfguard.conditions.effects import with_findings
from perfguard.conditions.findings import Finding
from perfguard.gate_policy import GatePolicy
from perfguard.records import Decision, MetricResult, Outcome
from tests.unit import condition_cases as cases
from tests.unit.campaign_cases import SECONDS
from tests.unit.condition_cases import CARD, GATES

HEALTHY = cases.conditions()


def of_card(**parts):
    return cases.conditions({CARD: cases.card(**parts)})


def compared(base, head, gates=GATES):
    return arm_findings(gates, cases.read(cases.arms(base, head)))


def hot(share):
    """At a thermal limit for this share of the second of load, with the clocks that go with it."""
    return of_card(after={"event_sw_thermal_us": int(share * 1e6)}, load={"sm_clock_mhz": 1980 - 600 * share})


def capped(share):
    return of_card(after={"event_sw_power_cap_us": int(share * 1e6)})


def test_two_healthy_arms_have_nothing_to_tell():
    assert compared([HEALTHY] * 4, [HEALTHY] * 4) == []


def test_a_cap_on_both_arms_alike_is_no_finding():
    shares = [capped(share) for share in (0.60, 0.55, 0.65, 0.58)]
    assert compared(shares, shares[::-1]) == []


def test_a_thermal_ramp_in_one_arm_is_found_with_what_it_cost():
    found = {one.code: one for one in compared([HEALTHY] * 4, [hot(s) for s in (0.2, 0.3, 0.4, 0.5)])}
    assert sorted(found) == ["ONE_SIDED_CLOCK", "ONE_SIDED_THERMAL"]
    thermal, clock = found["ONE_SIDED_THERMAL"], found["ONE_SIDED_CLOCK"]
    assert (thermal.limited, thermal.action, clock.limited) == ("head", "void", "head")
    assert "0 % (base) and 35 % (head)" in thermal.text
    lost = -sum(math.log((1980 - 600 * s) / 1980) for s in (0.2, 0.3, 0.4, 0.5)) / 4
    assert clock.explains == pytest.approx(lost)
    assert thermal.explains == pytest.approx(lost)


def test_a_limit_in_some_trials_of_one_arm_by_luck_is_no_finding():
    """One of four: of 70 divisions 35 put it in that arm."""
    assert compared([HEALTHY] * 4, [HEALTHY, HEALTHY, hot(0.3), HEALTHY]) == []


def test_fewer_than_four_trials_an_arm_say_nothing():
    assert compared([HEALTHY] * 3, [hot(0.5)] * 3) == []


def test_trials_that_do_not_count_are_not_compared():
    trials = cases.arms([HEALTHY] * 4, [hot(0.5)] * 4)
    voided = [cases.trial(t.side, t.record["conditions"], status="invalid") if t.side == "head" else t for t in trials]
    assert arm_findings(GATES, cases.read(voided)) == []


def test_clocks_that_miss_the_lock_in_one_arm_only_are_found():
    low = of_card(load={"sm_clock_mhz": [[0.0, 1830], [0.25, 1815], [0.5, 1650], [0.75, 1500]]})
    full = of_card(load={"sm_clock_mhz": 1830})
    assert [one.code for one in compared([full] * 4, [low] * 4)] == ["ONE_SIDED_CLOCK"]
    assert compared([low] * 4, [low] * 4) == []


def test_memory_clocks_are_compared_too():
    assert [one.code for one in compared([of_card(load={"memory_clock_mhz": 2619})] * 4, [HEALTHY] * 4)] == [
        "ONE_SIDED_MEMORY_CLOCK"
    ]


def test_time_taken_by_the_hypervisor_in_one_arm_is_found():
    robbed = cases.conditions(host_after={"steal_s": 108.0})  # 8 of 40 s
    (one,) = compared([HEALTHY] * 4, [robbed] * 4)
    assert (one.code, one.limited, one.explains) == ("ONE_SIDED_STEAL", "head", pytest.approx(0.2))


def test_hotter_starts_in_one_arm_are_said_and_decide_nothing():
    (one,) = compared([HEALTHY] * 4, [of_card(before={"temperature_c": 46})] * 4)
    assert (one.code, one.action, one.limited) == ("START_TEMPERATURE", "warn", "head")
    assert "40 °C in base and 46 °C in head" in one.text


def test_a_frozen_sensor_is_no_evidence():
    """The clock would differ, but it is above the maximum of the card: the field is invalid, the trials are not."""
    mad = of_card(load={"sm_clock_mhz": 5000})
    assert compared([HEALTHY] * 4, [mad] * 4) == []


def decision(outcome, slowdown, state="done"):
    result = MetricResult(metric=SECONDS, outcome=outcome, slowdown=slowdown)
    return Decision(state=state, outcome=outcome, metrics=(result,))


def finding(limited="head", explains=None, action="void"):
    return Finding(gate="one_sided", action=action, code="X", text="x", limited=limited, explains=explains)


R, I, E, S, Q = (Outcome[name] for name in ("REGRESSION", "IMPROVEMENT", "EQUIVALENT", "SUSPECT", "INCONCLUSIVE"))  # noqa: E741
DECIDES = [
    (R, 1.10, "head", None, True),  # head slower and head limited
    (R, 1.10, "base", None, False),  # head slower although base was limited
    (I, 0.90, "base", None, True),
    (I, 0.90, "head", None, False),
    (S, 1.10, "head", None, True),
    (S, 0.90, "head", None, False),
    (E, 1.00, "head", None, True),  # a change may be hidden
    (E, 1.00, "base", None, True),  # even a regression
    (Q, 1.10, "head", None, False),
    (R, 1.10, "head", math.log(1.01), False),  # 1 % of clock does not make 10 %
    (R, 1.10, "head", math.log(1.06), True),
    (E, 1.00, "head", math.log(1.004), False),  # margin 2 %
    (E, 1.00, "head", math.log(1.011), True),
]


@pytest.mark.parametrize(("outcome", "slowdown", "limited", "explains", "decides"), DECIDES)
def test_a_limit_decides_where_it_can_have_made_the_outcome(outcome, slowdown, limited, explains, decides):
    after = with_findings(decision(outcome, slowdown), [finding(limited, explains)], 0.02)
    assert after.outcome is (Outcome.INVALID if decides else outcome)
    assert [reason.code for reason in after.reasons] == ["X"], "it is said in any case"


def test_a_recorded_finding_is_not_among_the_reasons():
    before = decision(R, 1.1)
    assert with_findings(before, [finding(action="record")], 0.02) == before


def test_a_finding_waits_for_the_end_unless_it_is_to_stop():
    running = decision(E, 1.0, state="measure")
    assert with_findings(running, [finding()], 0.02).state == "measure"
    stopped = with_findings(running, [finding(action="stop")], 0.02)
    assert (stopped.state, stopped.outcome) == ("done", Outcome.INVALID)


def test_the_policy_may_only_warn_of_one_sided_limits():
    found = compared([HEALTHY] * 4, [hot(0.5)] * 4, gates=GatePolicy(one_sided="warn"))
    assert with_findings(decision(R, 1.1), found, 0.02).outcome is Outcome.REGRESSION
