import random

import pytest
from stats_cases import ORDERS

from perfguard.errors import UsageError
from perfguard.policy import Policy
from perfguard.records import Outcome
from perfguard.stats.judge import chance_of_distinct, judge_rows, looks_randomised


def rows(num_blocks, slowdown, *, orders=None, seed=1, sd=0.003, **more):
    rng, found = random.Random(seed), []
    for k in range(num_blocks):
        order = orders[k % len(orders)] if orders else rng.choice(ORDERS)
        for slot, arm in enumerate(order, start=1):
            value = rng.lognormvariate(0, sd) * (slowdown if arm == "B" else 1)
            side = "base" if arm == "A" else "head"
            found.append({"block": str(k), "slot": str(slot), "arm": side, "metric": "t", "value": repr(value), **more})
    return found


def codes(decision):
    return [reason.code for reason in decision.reasons]


def test_a_clear_slowdown_is_reported_with_what_is_not_known():
    decision, blocks = judge_rows(Policy(), rows(8, 1.10))
    assert decision.outcome is Outcome.REGRESSION
    assert decision.metrics[0].slowdown == pytest.approx(1.10, rel=0.01)
    assert codes(decision)[:2] == ["ORDERS_NOT_OURS", "UNUSED_BLOCKS"]
    assert "BUILDS_UNKNOWN" in codes(decision)
    assert [b.stage for b in blocks] == [1, 1, 2, 2, 2]


def test_the_same_code_twice_is_equivalent():
    decision, _ = judge_rows(Policy(), rows(6, 1.0))
    assert decision.outcome is Outcome.EQUIVALENT


def test_a_throughput_is_read_the_other_way():
    assert judge_rows(Policy(), rows(8, 1.10, better="higher", unit="token/s"))[0].outcome is Outcome.IMPROVEMENT
    assert judge_rows(Policy(), rows(8, 1.10), better="higher")[0].outcome is Outcome.IMPROVEMENT


def test_too_few_blocks_to_confirm_end_as_a_suspicion_still_open():
    decision, blocks = judge_rows(Policy(), rows(3, 1.10))
    assert (decision.state, decision.outcome) == ("confirm", Outcome.SUSPECT)
    assert len(blocks) == 3


def test_blocks_in_a_fixed_order_raise_a_suspicion_at_most():
    # Drift alone separates the sides where nobody drew the order.
    decision, _ = judge_rows(Policy(), rows(8, 1.10, orders=["AABB"]))
    assert decision.outcome is Outcome.SUSPECT
    assert [result.outcome for result in decision.metrics] == [Outcome.SUSPECT]
    assert codes(decision)[0] == "NOT_RANDOMISED"


def test_randomness_of_orders_is_judged_by_how_many_differ():
    assert not looks_randomised(["ABBA"] * 4)
    assert not looks_randomised(["ABBA", "BAAB"] * 4)
    assert looks_randomised(["ABBA", "BAAB", "ABBA", "AABB"])
    assert looks_randomised(["ABBA"])
    # All four alike: 6 of 1,296. Two dice show one face: 6 of 36; any number of faces: certain.
    assert chance_of_distinct(1, 4) == pytest.approx(6 / 1296)
    assert chance_of_distinct(1, 2) == pytest.approx(1 / 6)
    assert chance_of_distinct(6, 9) == pytest.approx(1.0)


def test_a_long_file_is_a_long_comparison():
    decision, blocks = judge_rows(Policy(max_blocks=4), rows(12, 1.0, sd=0.012, seed=5))
    assert len(blocks) > 4
    assert decision.outcome is Outcome.EQUIVALENT


GOOD = rows(2, 1.0)


def changed(index, **more):
    return [{**row, **more} if k == index else row for k, row in enumerate(GOOD)]


@pytest.mark.parametrize(("given", "message"), [
    (changed(3, value="fast"), "line 5: value is 'fast', not a number"),
    (changed(3, value="nan"), "line 5: value is nan: a positive finite number is needed"),
    (changed(3, value="inf"), "line 5: value is inf"),
    (changed(0, value="0"), "line 2: value is 0: a positive"),
    (changed(0, value="-1"), "line 2: value is -1: a positive"),
    (changed(2, value=""), "line 4: no value"),
    (changed(2, value=None), "line 4: no value"),
    (changed(1, slot="5"), "line 3: slot is '5', not 1 to 4"),
    (changed(1, slot="x"), "line 3: slot is 'x', not 1 to 4"),
    (changed(1, arm="A"), "line 3: arm is 'A', not base or head"),
    (changed(1, better="more"), "line 3: better is 'more', not lower or higher"),
    (changed(1, better="higher"), "line 3: metric t changes its unit or direction"),
    (changed(1, slot="1"), "line 3: slot 1 of block 0"),
    (changed(1, metric="u"), "line 2: block 0 lacks values of t, u"),
    (GOOD[:-1], "line 6: block 1 does not hold four slots, two base and two head"),
    ([{"block": "1", "slot": "1"}], "line 2: no arm, metric, value"),
    ([], "the file holds no rows"),
])  # fmt: skip
def test_a_malformed_row_is_named_by_its_line(given, message):
    with pytest.raises(UsageError) as caught:
        judge_rows(Policy(), given)
    assert message in str(caught.value)
    assert "block,slot,arm,metric,value" in caught.value.next_step


def test_an_arm_with_three_trials_in_a_block_is_named():
    lopsided = [{**row, "arm": "head"} if row["block"] == "1" else row for row in GOOD]
    with pytest.raises(UsageError, match="line 6: block 1 does not hold four slots, two base and two head"):
        judge_rows(Policy(), lopsided)
