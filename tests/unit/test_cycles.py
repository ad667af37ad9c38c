"""Parts of a cycle out of trials: what stamps of the device make of it, by hand."""

import pytest
from campaign_cases import trial
from speculate_cases import counts, judged, moded, speculation_is

from perfguard.cycles import mean_parts, parts_by_block
from perfguard.stats.economics import Speculation, gain


def stamped(cycle_s, **marks):
    """A cycle by the runner's clock, its parts by stamps alone; plain steps of 10 ms."""
    about = {"samples": {"eagle3_cycle_s": [cycle_s] * 5}, "counts": {"eagle3": counts(marks=marks)}}
    return [
        trial(1, 0, 0, "base", 1.0, record={"samples": {"plain_token_s": [0.010] * 5}}),
        trial(1, 0, 1, "head", 1.0, record=about),
    ]


def test_parts_that_are_longer_than_the_cycle_are_scaled_to_it():
    # 6 + 4 + 20 = 30 ms stamped in a cycle of 24: each is 24/30 of what the stamps say.
    (parts,) = parts_by_block(stamped(0.024, draft_extend_s=0.006, draft_steps_s=0.004, verify_s=0.020)).values()
    assert (parts.extend_s, parts.draft_s, parts.verify_s) == pytest.approx((0.0048, 0.008, 0.016))
    assert (parts.cycle_s, parts.rest_s) == (0.024, pytest.approx(0.0))
    # Accept length 3: 3 tokens in 24 ms against 2.4 plain ones. As stamped it would be 3 against 3, no gain.
    measured = Speculation(accept_length=3.0, draft_s=parts.draft_s, verify_s=parts.verify_s, accept_s=parts.rest_s)
    assert gain(measured, parts.plain_s) == pytest.approx(0.25)


def test_parts_that_fit_into_the_cycle_are_left_as_stamped():
    (parts,) = parts_by_block(stamped(0.024, draft_extend_s=0.002, draft_steps_s=0.004, verify_s=0.016)).values()
    assert (parts.extend_s, parts.draft_s, parts.verify_s) == (0.002, 0.006, 0.016)
    assert parts.rest_s == pytest.approx(0.002)


def test_a_single_part_is_not_longer_than_the_cycle_and_none_stays_unknown():
    (parts,) = parts_by_block(stamped(0.024, verify_s=0.030)).values()
    assert (parts.draft_s, parts.verify_s) == (None, pytest.approx(0.024))
    (parts,) = parts_by_block(stamped(0.024)).values()
    assert (parts.draft_s, parts.verify_s, parts.rest_s) == (None, None, 0.024)


def test_the_mean_of_blocks_fits_as_each_of_them_does():
    # One is scaled from 30 to 24 ms, the other has 18 of 24 ms: 16 and 12 of verify.
    longer = stamped(0.024, draft_extend_s=0.006, draft_steps_s=0.004, verify_s=0.020)
    shorter = stamped(0.024, draft_extend_s=0.003, draft_steps_s=0.003, verify_s=0.012)
    middle = mean_parts([next(iter(parts_by_block(trials).values())) for trials in (longer, shorter)])
    assert middle.verify_s == pytest.approx(0.014)
    assert middle.draft_s == pytest.approx(0.007)
    assert middle.rest_s == pytest.approx(0.003)


def test_advice_rests_on_the_measured_cycle():
    # Cycles of 25 ms by the clock, of 40 ms by stamps; accept length 2.05, so 2.05 tokens in the time of 2.5.
    marks = {"draft_extend_s": 0.004, "draft_steps_s": 0.004, "verify_s": 0.032}
    told = judged(speculation_is(0.82), of=moded(), only_cycle=True, speculative=counts(marks=marks))["speculate"]
    assert told["times"]["verify_s"] == pytest.approx(0.020)
    assert told["advice"]["gain"] == pytest.approx(2.05 / 2.5 - 1)
    assert told["break_even"]["accept_length"] == pytest.approx(2.5)
