"""`transformers serve`, a real server with manners of its own: no [DONE], no ignore_eos, requests one after another."""

import pytest

from tests.engines_real import real_support as real

pytestmark = pytest.mark.engines

ENV = {"HF_HUB_OFFLINE": "1"}


@pytest.fixture
def project(transformers, transformers_models, tmp_path):
    own = {"python": str(transformers), "model": str(transformers_models / "target")}
    return real.engine_project(tmp_path, "transformers", **own)


@pytest.mark.parametrize("wire", ["transformers", "transformers-chat"])
def test_every_token_is_counted_though_the_stream_ends_without_a_word(project, wire):
    trial = real.measure(project, "--set", f"wire={wire}", env=ENV)
    found = real.counts(trial)
    assert found["num_answered"] == real.SMALL["requests"]
    assert found["num_output_tokens"] == found["num_answered"] * real.SMALL["tokens"]
    # An echoed prompt would be a first token that comes at once, and half a character comes with the next token.
    assert found["num_events"] <= found["num_output_tokens"]
    assert "accept_length" not in trial["metrics"]
    assert {"output_throughput", "ttft_s", "tpot_s", "e2e_s"} <= trial["metrics"].keys()
    assert 0 < trial["metrics"]["ttft_s"] < trial["metrics"]["e2e_s"]


def test_requests_that_it_serves_one_after_the_other_wait_for_their_first_token(project):
    alone = real.measure(project, env=ENV)
    together = real.measure(project, "--set", "concurrency=4", env=ENV)
    # Three whole answers go before: that is no small difference.
    assert together["metrics"]["ttft_s"] > alone["metrics"]["e2e_s"]


def test_two_blocks_of_the_same_are_no_regression(project):
    comparison = real.compare(project, env=ENV)
    assert len({trial["digests"]["load"] for trial in real.trials(project)}) == 1
    assert comparison["outcome"] in ("INCONCLUSIVE", "EQUIVALENT")
