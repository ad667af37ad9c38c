"""What is wanted accepted, what the run did, and which weights the parameters mean."""

import pytest

from runners import acceptance, launch, weights
from runners.acceptance import check, rates_of_length, wanted_rates
from runners.contract import InvalidError, UnbuildableError
from runners.tp_moe import TpMoeParams
from runners.version1 import spec_of_1


@pytest.mark.parametrize(
    ("length", "rates"),
    [(1.0, [0, 0, 0]), (1.25, [0.25, 0, 0]), (2.0, [1, 0, 0]), (2.6, [1, 0.6, 0]), (4.0, [1, 1, 1])],
)
def test_a_wanted_length_becomes_ones_one_fraction_and_zeros(length, rates):
    assert rates_of_length(length, 3) == pytest.approx(rates)
    assert sum(rates_of_length(length, 3)) == pytest.approx(length - 1)


@pytest.mark.parametrize("length", [0.9, 4.1, float("nan")])
def test_a_length_that_the_drafted_tokens_cannot_give_is_refused(length):
    with pytest.raises(ValueError, match=r"accept_length is .*, not within 1\.\.4"):
        rates_of_length(length, 3)


def test_rates_are_read_from_text_and_nothing_is_wanted_by_default():
    assert wanted_rates(0.0, "0.8, 0.5", 2) == [0.8, 0.5]
    assert wanted_rates(0.0, "", 2) == []
    with pytest.raises(ValueError, match="accept_rates is 'high', expected numbers like"):
        wanted_rates(0.0, "high", 2)
    with pytest.raises(ValueError, match="say the same thing"):
        wanted_rates(2.0, "1,0", 2)


@pytest.mark.parametrize(("cycles", "emitted"), [(1000, 2000), (1000, 2019), (1000, 1981), (10, 20)])
def test_a_length_within_a_percent_is_let_pass(cycles, emitted):
    check([1.0, 0.0], {"cycles": cycles, "emitted": emitted})


@pytest.mark.parametrize(("cycles", "emitted"), [(1000, 2021), (1000, 1979), (10, 21), (200, 405)])
def test_a_length_that_misses_what_was_asked_for_makes_the_trial_invalid(cycles, emitted):
    with pytest.raises(InvalidError, match=rf"accept length {emitted / cycles:.3f} in {cycles} cycles, but 2.000"):
        check([1.0, 0.0], {"cycles": cycles, "emitted": emitted})


def test_in_a_short_run_a_fraction_may_miss_by_five_tokens():
    check([0.6, 0.0], {"cycles": 20, "emitted": 37})
    with pytest.raises(InvalidError, match=r"accept length 1.900 in 20 cycles, but 1.600"):
        check([0.6, 0.0], {"cycles": 20, "emitted": 38})


def test_real_acceptance_may_be_what_it_is():
    check([], {"cycles": 10, "emitted": 10})


def test_what_misses_is_told_to_the_harness_as_invalid():
    assert launch.PREFIXES[InvalidError] == "invalid: "
    assert acceptance.TOLERANCE == 0.01


def test_without_a_target_the_tiny_pair_is_meant():
    sources = TpMoeParams().sources(("plain", "eagle3"))
    assert sources == {name: str(weights.ASSETS / f"{name}.safetensors") for name in ("target", "draft")}
    assert TpMoeParams().sources(("plain",))["draft"] == ""


def test_a_preset_brings_its_draft_with_the_same_seed():
    params = TpMoeParams(target="preset:mixtral-8x7b", layers=9, weights_seed=4)
    assert params.sources(("eagle3",)) == {
        "target": "preset:mixtral-8x7b?layers=9&seed=4",
        "draft": "preset:mixtral-8x7b?seed=4",
    }


def test_a_checkpoint_needs_a_draft_of_its_own_only_where_one_drafts():
    params = TpMoeParams(target="/w/Qwen3", layers=9)
    assert params.sources(("plain",)) == {"target": "/w/Qwen3?layers=9", "draft": ""}
    with pytest.raises(ValueError, match="target is /w/Qwen3, but draft is empty"):
        params.sources(("eagle3",))
    both = TpMoeParams(target="/w/Qwen3", draft="/w/eagle3?tap_ids=output")
    assert both.sources(("eagle3",))["draft"] == "/w/eagle3?tap_ids=output"


def test_a_folder_is_known_again_by_its_files_and_a_preset_by_its_name(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"a" * 3_000_000)
    known = weights.digests({"target": f"{tmp_path}?layers=7", "draft": "preset:tiny?seed=1", "other": ""})
    assert known["draft"] == "preset:tiny?seed=1"
    assert known.keys() == {"target", "draft"}
    with open(tmp_path / "model.safetensors", "r+b") as file:
        file.seek(2_999_000)
        file.write(b"b")
    assert weights.digest(str(tmp_path)) != known["target"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"target": "preset:tiny"}, "which reads files only: target='preset:tiny'"),
        ({"accept_rates": [1.0]}, r"which has no accept_rates=\[1.0\]"),
        ({"temperature": 0.7}, "which has no temperature=0.7"),
    ],
)
def test_an_old_commit_that_knows_none_of_this_is_unbuildable_never_slow(tmp_path, change, named):
    (tmp_path / "target").write_bytes(b"")
    spec = {"target": str(tmp_path / "target"), "draft": None, "temperature": 0.0, "accept_rates": []}
    assert spec_of_1(spec) == {"target": str(tmp_path / "target"), "draft": None}
    with pytest.raises(UnbuildableError, match=named):
        spec_of_1(spec | change)
