"""A reading is two launches next to each other, also where an interruption came between."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import bisect_cases as cases
import pytest

from perfguard.bisection.readings import Search, read_next
from perfguard.bisection.state import anchor_values, open_pair, readings
from perfguard.policy import Policy


@dataclass
class FakeSession:
    """Launches that give `values` in turn, the first is slot 0's."""

    trials: list
    values: list
    policy: Policy = field(default_factory=Policy)
    ran: list = field(default_factory=list)

    @property
    def launcher(self):
        return SimpleNamespace(measure_in=self._measure)

    def _measure(self, arm, number, *, block, slot, attempt):
        pair = next(p for p in self.pairs if p.number == block)
        trial = cases.launch(pair, slot, self.values.pop(0))
        return replace(trial, id=f"{trial.id}a{attempt}", attempt=attempt)

    def run(self, launch, pause_s, attempt):
        trial = launch(attempt)
        self.ran.append((trial.slot, trial.attempt))
        self.trials.append(trial)
        return trial


def go_on(stored, values):
    session = FakeSession(trials=list(stored.trials), values=values)
    session.pairs = stored.pairs
    place = SimpleNamespace(arm=None, number=1)
    workshop = SimpleNamespace(
        known={}, prepare=lambda position: True, prepare_like=lambda position: True, place=lambda position: place
    )
    search = Search(stored=stored, session=session, workshop=workshop)
    read_next(search, 4)
    search.refresh()
    return search, session.ran


def test_what_an_interruption_left_of_a_pair_is_measured_again_with_the_rest():
    whole = cases.with_reading(cases.stored(), 4, 5.0, 5.0)
    cut = replace(whole, trials=whole.trials[:1])
    search, ran = go_on(cut, [1.0, 1.1])
    assert ran == [(0, 1), (1, 0)]
    (found,) = readings(search.stored)
    # Yesterday's 5.0 is stored and counts for nothing.
    assert found.log_slowdown == pytest.approx(0.0953, abs=1e-4)
    assert anchor_values(search.stored) == [1.0]
    assert len(search.stored.trials) == 3
    assert open_pair(search.stored) is None


def test_a_pair_that_is_cut_twice_begins_anew_each_time():
    whole = cases.with_reading(cases.stored(), 4, 5.0, 5.0)
    again = replace(whole.trials[0], id="again", attempt=1, values={"seconds": 6.0})
    _, ran = go_on(replace(whole, trials=(whole.trials[0], again)), [1.0, 1.1])
    assert ran == [(0, 2), (1, 0)]
