"""What a session does around a launch: waits for a cooler card, and stores a trial as the gates left it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from perfguard import experiment
from perfguard.experiment import Session
from perfguard.gate_policy import GatePolicy
from perfguard.policy import Policy
from tests.unit import campaign_cases, condition_cases
from tests.unit.condition_cases import CARD, card, conditions

COLD, WARM = 40.0, 60.0  # earlier trials began at 40 °C


@pytest.fixture
def world(monkeypatch):
    """A session whose card cools by two degrees with every second slept; nothing else takes time."""
    state = SimpleNamespace(degrees=COLD, slept=[], stored=[], notes=[], now=0.0)

    def sleep(seconds):
        state.slept.append(seconds)
        state.now += seconds
        state.degrees -= 2 * seconds

    monkeypatch.setattr(experiment, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: state.now))

    def session(gates=condition_cases.GATES, earlier=2):
        return Session(
            campaign=campaign_cases.campaign(policy=replace(Policy(), gates=gates)),
            plans=[],
            trials=[condition_cases.trial() for _ in range(earlier)],
            store=SimpleNamespace(add_trial=lambda campaign, trial: state.stored.append(trial)),
            launcher=SimpleNamespace(temperatures=lambda: {CARD: state.degrees}),
            observer=SimpleNamespace(note=state.notes.append, trial_ended=lambda trial, cost: None),
            started_s=0.0,
        )

    state.session = session
    return state


def test_a_launch_waits_until_the_card_is_as_cool_as_before(world):
    world.degrees = WARM
    world.session().run(lambda attempt: condition_cases.trial("head"))
    # 60 °C cools by 4 in each step of 2 s; 43 °C is allowed: 60, 56, 52, 48, 44, 40.
    assert [s for s in world.slept if s] == [2.0] * 5
    assert world.notes == ["waiting for the GPU to cool down"] * 5


def test_the_wait_has_an_end(world):
    world.degrees = 1000.0
    world.session(GatePolicy(cooldown_max_s=5.0)).run(lambda attempt: condition_cases.trial("head"))
    assert [s for s in world.slept if s] == [2.0, 2.0, 1.0]


@pytest.mark.parametrize(("degrees", "earlier"), [(COLD, 2), (WARM, 0), (20.0, 2)])
def test_a_cool_card_or_a_first_trial_waits_for_nothing(world, degrees, earlier):
    world.degrees = degrees
    world.session(earlier=earlier).run(lambda attempt: condition_cases.trial("head"))
    assert [s for s in world.slept if s] == []


def test_a_trial_is_stored_as_the_gates_left_it(world):
    braked = conditions({CARD: card(load={"event_reasons": 0x80})})
    trial = world.session().run(lambda attempt: condition_cases.trial("head", braked))
    assert (trial.status, [reason.code for reason in trial.reasons]) == ("invalid", ["POWER_BRAKE"])
    assert world.stored == [trial]
