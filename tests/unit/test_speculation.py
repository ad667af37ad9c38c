"""Accept length and cycle time of speculative modes, from trials written down by hand."""

import json
import math

import pytest
from campaign_cases import campaign, measured, plans_of, same
from campaign_cases import trial as bare_trial

from perfguard.experiment import planned_blocks
from perfguard.judging import verdict_json
from perfguard.policy import Policy
from perfguard.records import BlockValues, Metric, Workload
from perfguard.replay import differing
from perfguard.speculation import PromptCounts, prompt_test, speculation

RATE = Metric(name="eagle3_throughput", unit="token/s", better="higher")
LENGTH = Metric(name="eagle3_accept_length", unit="token", better="higher", primary=False, exact=True)
WORKLOAD = Workload(name="w", runner="fake", modes=("plain", "eagle3"), metrics=(RATE, LENGTH))


def asked(**changes):
    return campaign(workload=WORKLOAD, **changes)


def block(rates, lengths, order="ABBA", index=0):
    values = {RATE.name: tuple(rates), LENGTH.name: tuple(lengths)}
    return BlockValues(stage=1, index=index, order=order, builds="1111", values=values)


def trial(side, emitted, cycles, slot=0):
    counts = {"eagle3": {"emitted_by_prompt": emitted, "cycles_by_prompt": cycles}}
    return bare_trial(1, 0, slot, side, 1.0, record={"counts": counts})


def of_block(base, head, cycles):
    """Trials of a block ABBA: both launches of a side emit alike."""
    return [trial(*one, cycles, slot) for slot, one in enumerate([("base", base), ("head", head)] * 2)]


def test_a_shorter_accept_length_at_the_same_cycle_time_is_all_of_the_slowdown():
    # 2.0 token / 0.02 s against 1.6 token / 0.02 s: 100 and 80 token/s, 2.0 / 1.6 = 1.25 times as slow.
    (found,) = speculation(asked(), [block([100, 80, 80, 100], [2.0, 1.6, 1.6, 2.0])], [])
    assert (found.mode, found.accept_length.finding) == ("eagle3", "changed")
    assert (found.accept_length.base, found.accept_length.head) == (pytest.approx(2.0), pytest.approx(1.6))
    assert found.slowdown == pytest.approx(1.25)
    assert found.by_accept_length == pytest.approx(1.25)
    assert found.by_cycle == pytest.approx(1.0)


def test_a_longer_cycle_with_the_same_accept_length_is_all_of_the_slowdown():
    (found,) = speculation(asked(), [block([100, 80, 80, 100], [2.0] * 4)], [])
    assert found.accept_length.finding == "equal"
    assert (found.by_accept_length, found.by_cycle) == (pytest.approx(1.0), pytest.approx(1.25))


def test_both_parts_multiply_to_the_slowdown_and_may_point_in_opposite_directions():
    # Accept length 2.0 -> 2.5 (0.8 times as slow), cycle 0.02 s -> 0.03 s (1.5): 100 -> 83.3 token/s.
    (found,) = speculation(asked(), [block([100, 250 / 3, 250 / 3, 100], [2.0, 2.5, 2.5, 2.0])], [])
    assert (found.by_accept_length, found.by_cycle) == (pytest.approx(0.8), pytest.approx(1.5))
    assert found.slowdown == pytest.approx(1.2)


def test_levels_of_blocks_cancel():
    blocks = [
        block([100, 80, 80, 100], [2.0, 1.6, 1.6, 2.0]),
        block([25, 20, 20, 25], [4.0, 3.2, 3.2, 4.0], index=1),
    ]
    (found,) = speculation(asked(), blocks, [])
    assert (found.slowdown, found.by_accept_length) == (pytest.approx(1.25), pytest.approx(1.25))


UNSTABLE = block([100, 80, 80, 100], [2.0, 1.6, 1.7, 2.1])


def test_an_accept_length_that_differs_between_launches_is_tested_by_prompt():
    # Head loses in all of ten prompts: luck in 1 of 2^10, below 0.001; in nine of nine, 1 of 512, above it.
    cycles, base, head = [100] * 10, [200] * 10, [160] * 10
    (found,) = speculation(asked(policy=Policy(alpha=0.001)), [UNSTABLE], of_block(base, head, cycles))
    assert (found.accept_length.finding, found.accept_length.num_prompts) == ("shorter", 10)
    assert found.accept_length.p == pytest.approx(1 / 1024)
    (nine,) = speculation(asked(policy=Policy(alpha=0.001)), [UNSTABLE], of_block(base[:9], head[:9], cycles[:9]))
    assert (nine.accept_length.finding, nine.accept_length.p) == ("not_shown", pytest.approx(1 / 512))


def test_what_two_halves_of_the_base_launches_differ_is_credited():
    cycles = (100,) * 10
    ours = [PromptCounts(emitted=(n,) * 10, cycles=cycles) for n in (220, 180)]
    # Base differs from itself by 20 %: a head between its launches is not shorter. Alike, head would be.
    between = PromptCounts(emitted=(190,) * 10, cycles=cycles)
    assert prompt_test({"base": ours, "head": [between]}, 0) == (1.0, 10)
    assert prompt_test({"base": [ours[0]] * 2, "head": [between]}, 0) == (pytest.approx(1 / 1024), 10)


def test_a_metric_that_is_not_declared_exact_is_tested_by_prompt_even_if_it_never_differs():
    noisy = Metric(name=LENGTH.name, unit="token", better="higher", primary=False)
    workload = Workload(name="w", runner="fake", modes=("eagle3",), metrics=(RATE, noisy))
    trials = of_block([200, 300], [200, 300], [100, 100])
    (found,) = speculation(campaign(workload=workload), [block([100] * 4, [2.5] * 4)], trials)
    assert (found.accept_length.finding, found.accept_length.p) == ("not_shown", 1.0)


HEAD = ("head", [160] * 10, [100] * 10)


@pytest.mark.parametrize(
    ("num_base", "heads"),
    [
        (2, []),
        (1, [trial(*HEAD)]),
        (2, [trial(*HEAD), trial("head", [160] * 9, [100] * 9)]),
        (2, [trial("head", [160] * 10, [100] * 9 + [0])]),
        (2, [trial("head", [160] * 9 + [0], [100] * 10)]),
        (2, [trial("head", [160] * 9 + [-1], [100] * 10)]),
        (2, [trial(*HEAD), bare_trial(1, 0, 3, "head", 1.0)]),
        (2, [trial(*HEAD), trial("head", "many", None)]),
        (2, [trial("head", [160.0] * 10, [100] * 10)]),
    ],
    ids=["no head", "one base", "other prompts", "no cycle", "no token", "negative", "no counts", "no lists", "floats"],
)
def test_launches_that_cannot_be_paired_by_prompt_are_not_tested(num_base, heads):
    trials = [trial("base", [200] * 10, [100] * 10)] * num_base + heads
    (found,) = speculation(asked(), [UNSTABLE], trials)
    assert (found.accept_length.finding, found.accept_length.p) == ("not_tested", None)


def test_modes_that_do_not_speculate_and_commands_have_no_entry():
    assert speculation(campaign(), [], []) == ()
    plain = Workload(name="w", runner="fake", modes=("plain",), metrics=(RATE, LENGTH))
    assert speculation(campaign(workload=plain), [UNSTABLE], []) == ()
    zero = block([100] * 4, [2.0, 0.0, 0.0, 2.0])
    assert speculation(asked(), [zero], []) == ()


# --- in the JSON of a comparison


def speculating(of, lengths):
    """The trials of a comparison in which nothing differs but what `lengths` gives by side."""
    rates = {"base": 100.0, "head": 100.0 * lengths["head"] / lengths["base"]}
    return [
        bare_trial(
            t.stage, t.block, t.slot, t.side, 1.0, id=t.id, build=t.build, record=t.record,
            values={RATE.name: rates[t.side], LENGTH.name: lengths[t.side]},
        )
        for t in measured(of, same)
    ]  # fmt: skip


def test_the_json_of_a_comparison_takes_its_speculative_modes_apart_and_replays_to_the_same():
    of = asked()
    plans = planned_blocks(of)
    whole = verdict_json(of, plans, speculating(of, {"base": 2.0, "head": 1.99}))
    (found,) = whole["speculation"]
    assert (found["mode"], found["accept_length"]["finding"]) == ("eagle3", "changed")
    assert found["by_accept_length"] == pytest.approx(2 / 1.99)
    stored = json.loads(json.dumps(whole, allow_nan=False))
    assert differing(stored, whole) == []
    forged = {**stored, "speculation": [{**stored["speculation"][0], "by_cycle": math.pi}]}
    assert differing(forged, whole) == ["speculation"]
    # A comparison stored before modes were taken apart holds no such key, and replays as it did.
    assert differing({k: v for k, v in stored.items() if k != "speculation"}, whole) == []


def test_void_blocks_do_not_count():
    of = asked()
    trials = speculating(of, {"base": 2.0, "head": 2.0})
    void = plans_of(of)[1].index
    odd = [
        bare_trial(t.stage, t.block, t.slot, t.side, 1.0, id=t.id, build=t.build, record=t.record,
                   values={**t.values, LENGTH.name: 9.0}, status="invalid" if t.slot == 0 else "ok")
        if (t.stage, t.block) == (1, void) else t
        for t in trials
    ]  # fmt: skip
    whole = verdict_json(of, planned_blocks(of), odd)
    assert whole["blocks"]["void"] == 1
    assert whole["speculation"][0]["accept_length"]["base"] == pytest.approx(2.0)


def test_an_invalid_comparison_is_not_taken_apart():
    of = asked(method={"changed_files": ["engine.py"], "repo_modules": {"engine": "engine.py"}})
    trials = speculating(of, {"base": 2.0, "head": 1.99})
    same_code = [
        bare_trial(t.stage, t.block, t.slot, t.side, 1.0, id=t.id, build=t.build, values=t.values,
                   record={**t.record, "origin": {"engine": {**t.record["origin"]["engine"], "sha256": "one"}}})
        if t.stage == 0 else t
        for t in trials
    ]  # fmt: skip
    whole = verdict_json(of, planned_blocks(of), same_code)
    assert (whole["outcome"], whole["speculation"]) == ("INVALID", [])
