"""Accept lengths of a real vLLM: exact, equal for equal settings, and a change of the setting is named with them."""

import pytest

from tests.engines_real import real_support as real

pytestmark = pytest.mark.engines


@pytest.fixture
def project(vllm, models, tmp_path):
    return real.vllm_project(tmp_path, vllm, models)


def test_one_drafted_token_instead_of_three_is_named_with_both_accept_lengths(project):
    sides = ("--base-set", real.ngram(3), "--head-set", real.ngram(1))
    comparison = real.compare(project, *sides)
    trials = {side: [t for t in real.trials(project) if t["side"] == side] for side in ("base", "head")}
    found = {side: {real.drafting(trial) for trial in trials[side]} for side in trials}
    # Bit for bit the same in every launch of one setting.
    assert {side: len(counted) for side, counted in found.items()} == {"base": 1, "head": 1}
    lengths = {}
    for side, ((cycles, drafted, accepted),) in found.items():
        assert 0 < accepted < drafted
        lengths[side] = 1 + accepted / cycles
        assert {trial["metrics"]["ngram_accept_length"] for trial in trials[side]} == {lengths[side]}
    # With one drafted token a cycle gives two at most, and these drafts are good enough that three give more.
    assert 1 < lengths["head"] < 2
    assert lengths["base"] > lengths["head"]
    said = real.reasons_after_one_block(project, comparison)["EXACT_CHANGED"]
    assert said in [reason["text"] for reason in comparison["reasons"]]
    assert said == (
        f"ngram_accept_length is {lengths['base']:.6g} in every base launch and {lengths['head']:.6g}"
        " in every head launch"
    )
    # The same tokens: greedy speculation changes how many come at once, never which.
    assert len({trial["digests"]["ngram"] for side in trials for trial in trials[side]}) == 1


def test_the_same_setting_twice_has_one_accept_length_and_is_no_regression(project):
    comparison = real.compare(project, "--set", real.ngram(3))
    found = real.trials(project)
    assert len({real.drafting(trial) for trial in found}) == 1
    assert len({trial["digests"]["ngram"] for trial in found}) == 1
    assert "EXACT_CHANGED" not in [reason["code"] for reason in comparison["reasons"]]
    assert comparison["outcome"] in ("INCONCLUSIVE", "EQUIVALENT")
    (length,) = [metric for metric in comparison["metrics"] if metric["name"] == "ngram_accept_length"]
    assert length["outcome"] == "EQUIVALENT"


def test_tokens_are_counted_by_the_server_s_own_count_and_not_by_chunks(project):
    found = real.counts(real.measure(project, "--set", real.ngram(3)))
    assert found["num_output_tokens"] == found["num_answered"] * real.SMALL["tokens"] == 512
    # Several drafted tokens come in one event.
    assert found["num_events"] < found["num_output_tokens"]


def test_an_eagle3_draft_of_random_weights_is_measured_by_the_preset(vllm, models, tmp_path):
    project = real.vllm_project(tmp_path, vllm, models, "vllm-eagle3", draft=str(models / "draft"))
    trial = real.measure(project)
    cycles, drafted, accepted = real.drafting(trial)
    assert drafted == 3 * cycles
    assert trial["metrics"]["eagle3_accept_length"] == 1 + accepted / cycles
    assert accepted < cycles  # nobody trained it


def test_two_tensor_parallel_workers_are_measured(project):
    bound = {**real.VLLM_ENV, "VLLM_CPU_OMP_THREADS_BIND": "0|1"}
    trial = real.measure(project, "--set", "tp=2", "--set", real.ngram(3), env=bound)
    (engine,) = trial["record"]["engine"].values()
    assert "--tensor-parallel-size 2" in " ".join(engine["command"])
    assert real.drafting(trial)[2] > 0
