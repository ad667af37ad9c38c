"""The fake runner's plan, called in this process; crashes and hangs are real processes in e2e/test_launcher.py."""

import hashlib
import json
import math
import statistics
import time

import pytest

from perfguard.protocol import Spec
from runners import fake
from runners.contract import Launch, UnbuildableError


def run(folder, *, place="s1b0t0a0", seed=1, rank=0, modes=("plain", "eagle3"), **params):
    spec = Spec(
        trial=f"c-{place}", place=place, runner="fake", modes=modes, params=params, subject_root=str(folder), seed=seed,
        result=str(folder / "result-{rank}"), ready=str(folder / "ready-{rank}"),
    )  # fmt: skip
    launch = Launch(spec=spec, rank=rank, world_size=2, subject_root=folder, started_s=time.perf_counter())
    return fake.run(launch)


def speed(folder, **params):
    return run(folder, **params).values["plain_throughput"]


def plant(folder, **settings):
    (folder / "fake.json").write_text(json.dumps(settings))


def test_values_are_what_is_planned(tmp_path):
    measured = run(tmp_path, speed=80.0, eagle3_speed=90.0, accept_length=2.5)
    assert measured.values == {"plain_throughput": 80.0, "eagle3_throughput": 90.0, "eagle3_accept_length": 2.5}
    assert measured.samples["plain_token_s"] == pytest.approx([1 / 80] * 60)
    assert measured.samples["eagle3_cycle_s"] == pytest.approx([2.5 / 90] * 60)
    assert (tmp_path / "ready-0").exists()


def test_counts_by_prompt_are_given_where_prompts_are_planned_and_make_the_accept_length(tmp_path):
    counts = run(tmp_path, accept_length=2.5, prompts=3).counts["eagle3"]
    assert counts["cycles_by_prompt"] == [1000] * 3
    assert counts["emitted_by_prompt"] == [2500] * 3
    assert "emitted_by_prompt" not in run(tmp_path).counts["eagle3"]
    noisy = run(tmp_path, accept_length=2.5, prompts=3, accept_noise=0.1)
    emitted = noisy.counts["eagle3"]["emitted_by_prompt"]
    assert len(set(emitted)) == 3
    assert noisy.values["eagle3_accept_length"] == sum(emitted) / 3000


def test_only_the_modes_asked_for_are_reported(tmp_path):
    measured = run(tmp_path, modes=("plain",))
    assert set(measured.values) == {"plain_throughput"}
    assert set(measured.digests) == set(measured.counts) == set(measured.warmup) == {"plain"}


def test_a_commit_plants_its_own_speed_and_output(tmp_path):
    before = run(tmp_path)
    plant(tmp_path, slowdown=1.25, eagle3_slowdown=1.2, output="other")
    after = run(tmp_path)
    assert after.values["plain_throughput"] == pytest.approx(100 / 1.25)
    assert after.values["eagle3_throughput"] == pytest.approx(120 / 1.25 / 1.2)
    assert before.digests["plain"] != after.digests["plain"]


def test_what_a_commit_plants_wins_over_the_parameters(tmp_path):
    plant(tmp_path, slowdown=2.0)
    assert speed(tmp_path, slowdown=4.0) == 50.0


def test_origin_is_the_planted_file(tmp_path):
    assert run(tmp_path).origin == {}
    plant(tmp_path)
    path = tmp_path / "fake.json"
    assert run(tmp_path).origin == {
        "fake.json": {"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    }


def test_noise_depends_on_seed_and_place_only(tmp_path):
    first = speed(tmp_path, noise=0.05)
    assert speed(tmp_path, noise=0.05) == first
    assert speed(tmp_path, noise=0.05, place="s1b0t1a0") != first
    assert speed(tmp_path, noise=0.05, seed=2) != first


def test_noise_has_the_planned_spread_and_belongs_to_the_launch_not_the_mode(tmp_path):
    runs = [run(tmp_path, noise=0.05, place=f"s1b{number}t0a0").values for number in range(400)]
    logs = [math.log(values["plain_throughput"] / 100) for values in runs]
    assert statistics.stdev(logs) == pytest.approx(0.05, rel=0.12)  # 3.4 standard errors of 400 draws
    assert abs(statistics.mean(logs)) < 0.0085  # 3.4 standard errors
    assert all(v["eagle3_throughput"] == pytest.approx(1.2 * v["plain_throughput"]) for v in runs)


def test_drift_counts_the_launches_that_share_a_state(tmp_path):
    speeds = [speed(tmp_path, state=str(tmp_path / "state"), drift=0.1) for _ in range(3)]
    assert speeds == pytest.approx([100.0, 100 / math.exp(0.1), 100 / math.exp(0.2)])


def test_the_sticky_clock_leaves_its_mode_only_when_planned(tmp_path):
    always = {"state": str(tmp_path / "always"), "bimodal_factor": 2.0, "bimodal_stay": 0.0}
    never = {"state": str(tmp_path / "never"), "bimodal_factor": 2.0, "bimodal_stay": 1.0}
    assert [speed(tmp_path, **always) for _ in range(3)] == [50.0, 100.0, 50.0]
    assert [speed(tmp_path, **never) for _ in range(3)] == [100.0, 100.0, 100.0]


def test_only_the_first_rank_moves_the_state_and_carries_values(tmp_path):
    state = {"state": str(tmp_path / "state"), "drift": 0.1}
    second = run(tmp_path, rank=1, **state)
    assert (second.values, second.samples) == ({}, {})
    assert second.digests
    assert not (tmp_path / "state").exists()


def test_the_lottery_slows_whole_launches_at_its_rate(tmp_path):
    speeds = [speed(tmp_path, place=f"s1b{n}t0a0", lottery_rate=0.25, lottery_factor=1.25) for n in range(200)]
    assert set(speeds) == {80.0, 100.0}
    assert 29 <= speeds.count(80.0) <= 71  # 50 expected, 3.4 standard deviations of 6.1


def test_an_environment_variable_slows_it_only_with_the_planned_value(tmp_path, monkeypatch):
    plan = {"env_slowdown": {"NCCL_PROTO=Simple": 1.25}}
    monkeypatch.setenv("NCCL_PROTO", "Simple")
    assert speed(tmp_path, **plan) == 80.0
    monkeypatch.setenv("NCCL_PROTO", "LL")
    assert speed(tmp_path, **plan) == 100.0


@pytest.mark.parametrize(
    ("how", "holds"),
    [
        ("nan", math.isnan),
        ("infinite", math.isinf),
        ("zero", lambda value: value == 0.0),
        ("negative", lambda value: value < 0),
        ("text", lambda value: value == "fast"),
        ("null", lambda value: value is None),
    ],
)
def test_a_metric_is_spoiled_as_planned(tmp_path, how, holds):
    values = run(tmp_path, broken_metric="plain_throughput", broken_as=how).values
    assert holds(values["plain_throughput"])
    assert values["eagle3_throughput"] == 120.0


def test_a_metric_can_be_missing(tmp_path):
    values = run(tmp_path, broken_metric="plain_throughput", broken_as="missing").values
    assert set(values) == {"eagle3_throughput", "eagle3_accept_length"}


def test_a_crash_has_the_planned_probability_and_rank(tmp_path):
    run(tmp_path, crash="before", crash_probability=0.0)
    run(tmp_path, crash="before", fault_rank=1)
    with pytest.raises(RuntimeError, match="planned crash"):
        run(tmp_path, crash="before", fault_rank=1, rank=1)
    outcomes = [crashes(tmp_path, f"t{number}") for number in range(100)]
    assert 33 <= sum(outcomes) <= 67  # 50 expected, 3.4 standard deviations of 5


def crashes(folder, place):
    try:
        run(folder, place=place, crash="measured", crash_probability=0.5)
    except RuntimeError:
        return True
    return False


@pytest.mark.parametrize("text", ["{slow", "[1]", "7"])
def test_a_broken_plan_is_an_unbuildable_commit(tmp_path, text):
    (tmp_path / "fake.json").write_text(text)
    with pytest.raises(UnbuildableError, match=r"fake\.json"):
        run(tmp_path)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"slowdwn": 2.0}, "did you mean 'slowdown'"),
        ({"speed": "fast"}, "speed is 'fast'"),
        ({"crash": "later"}, "crash is 'later'"),
        ({"broken_as": "odd"}, "broken_as is 'odd'"),
        ({"drift": 0.1}, "need `state`"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path, params, said):
    with pytest.raises(ValueError, match=said):
        run(tmp_path, **params)
