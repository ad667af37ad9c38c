"""The planted slowdown of runner tp_moe, on a clock that only moves when told to."""

import time
from pathlib import Path

import pytest

from perfguard.protocol import Spec
from runners import eagle3_decode, timing, tp_moe, tp_moe_decode
from runners.contract import Launch
from runners.version1 import Version1

READING_S = 0.001


class Clock:
    """Each reading takes a millisecond; work is added to `now`."""

    def __init__(self):
        self.now = 0.0
        self.readings = 0

    def __call__(self):
        self.now += READING_S
        self.readings += 1
        return self.now


class Session:
    """A step takes one second; a draft 1 s, a verify 3 s, an accept 1 s, and two tokens come of each cycle."""

    def __init__(self, clock):
        self.clock = clock

    def prefill(self, prompt, mode="plain"):
        self.clock.now += 10.0
        return 1

    def decode(self, token):
        self.clock.now += 1.0
        return token + 1

    def draft(self):
        self.clock.now += 1.0
        return [1]

    def verify(self, drafted):
        self.clock.now += 3.0
        return [1, 2]

    def accept(self, drafted, verified):
        self.clock.now += 1.0
        return [1, 2]

    def synchronize(self):
        pass


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for module in (timing, tp_moe_decode, eagle3_decode):
        monkeypatch.setattr(module, "clock", clock)
    return clock


def test_a_step_without_slowdown_is_left_alone_and_costs_one_reading_of_the_clock(clock):
    assert timing.end_of_step(0.0) == pytest.approx(READING_S)
    assert clock.readings == 1


def test_a_slowed_step_is_busy_until_it_took_so_many_times_as_long(clock):
    clock.now = 5.0
    assert timing.end_of_step(3.0, 1.5) == pytest.approx(6.0, abs=3 * READING_S)  # 2 s of its own, 1 s more


def test_every_plain_step_is_slowed_and_prefill_is_not(clock):
    run = tp_moe_decode.measure(Version1(Session(clock)), [[1]], 5, 1.5)
    assert run.samples["plain_token_s"] == pytest.approx([1.5] * 4, abs=0.01)
    assert run.values["plain_throughput"] == pytest.approx(1 / 1.5, rel=0.01)
    assert run.values["plain_ttft_s"] == pytest.approx(10.0, abs=0.01)
    assert run.tokens == [[1, 2, 3, 4, 5]]


def test_every_phase_of_a_cycle_is_slowed_alike(clock):
    values = eagle3_decode.measure(Version1(Session(clock)), [[1]], 5, 2.0).values
    assert values["eagle3_draft_s"] == pytest.approx(2.0, abs=0.01)
    assert values["eagle3_verify_s"] == pytest.approx(6.0, abs=0.01)
    assert values["eagle3_accept_s"] == pytest.approx(2.0, abs=0.01)
    assert values["eagle3_throughput"] == pytest.approx(2 / 10, rel=0.01)
    assert values["eagle3_ttft_s"] == pytest.approx(10.0, abs=0.01)


def test_without_the_parameter_nothing_is_slowed(clock):
    session = Version1(Session(clock))
    runs = tp_moe.measure_modes(session, ("plain", "eagle3"), [[1]], tp_moe.TpMoeParams(tokens=5))
    assert runs["plain"].values["plain_token_s"] == pytest.approx(1.0, abs=0.01)
    assert runs["eagle3"].values["eagle3_cycle_s"] == pytest.approx(5.0, abs=0.01)


@pytest.mark.parametrize("factor", [0.9, 0.0, float("nan"), float("inf")])
def test_a_factor_that_slows_nothing_is_an_error_that_names_it(factor):
    spec = Spec(
        trial="t", runner="tp_moe", modes=("plain",), params={}, subject_root="/", seed=1, result="r", ready="r"
    )
    launch = Launch(spec=spec, rank=0, world_size=1, subject_root=Path("/"), started_s=time.perf_counter())
    with pytest.raises(ValueError, match="planted_slowdown is"):
        tp_moe.check(launch, tp_moe.TpMoeParams(planted_slowdown=factor))
