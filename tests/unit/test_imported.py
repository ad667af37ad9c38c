"""Documents of other clients -> runs: names, units, what is invalid and what is refused."""

import pytest
from import_cases import DETAILS, LATENCY, ONE_BATCH, SERVE, SGLANG

from perfguard.errors import UsageError
from perfguard.imported import differing_settings, imported_run, limits_of, pairs_to_blocks


def test_vllm_bench_serve_becomes_seconds_and_shares():
    run = imported_run({**SERVE, **DETAILS})
    assert run.shape.tool == "vllm bench serve"
    assert run.values == pytest.approx(
        {
            "output_throughput": 128.0, "total_throughput": 256.0, "request_throughput": 2.0, "median_ttft_s": 0.040,
            "median_tpot_s": 0.0025, "median_itl_s": 0.0024, "accept_length": 2.128, "accept_rate": 0.39114,
        }
    )  # fmt: skip
    assert run.samples == {"ttft_s": [0.04, 0.05], "itl_s": [0.002, 0.003, 0.004], "e2e_s": [0.2, 0.3]}
    assert (run.started_at, run.measured_s, run.reasons) == ("2026-11-30T02:15:00", 8.0, ())


def test_sglang_bench_serving_has_other_names_for_the_same_and_an_accept_length_that_is_not_the_runs():
    run = imported_run(SGLANG)
    assert run.shape.tool == "SGLang bench_serving"
    assert run.values == pytest.approx(
        {
            "output_throughput": 128.0, "total_throughput": 256.0, "request_throughput": 2.0, "median_ttft_s": 0.030,
            "median_tpot_s": 0.007, "median_itl_s": 0.013, "median_e2e_s": 0.480, "accept_length_since_boot": 1.94,
        }
    )  # fmt: skip
    assert run.started_at == ""
    assert any("since it began" in limit for limit in limits_of(run.shape))


def test_one_batch_and_latency_files_have_a_primary_metric_each():
    batch, latency = imported_run(ONE_BATCH), imported_run(LATENCY)
    assert [(m.name, m.better) for m in batch.metrics if m.primary] == [("overall_throughput", "higher")]
    assert batch.values["median_decode_s"] == 0.012
    assert batch.measured_s == 0.45
    assert [(m.name, m.better) for m in latency.metrics if m.primary] == [("avg_latency_s", "lower")]
    assert latency.samples == {"latency_s": [1.4, 1.6]}


def test_what_a_tool_had_nothing_to_average_for_is_unknown_and_not_zero():
    run = imported_run({**SERVE, "median_tpot_ms": 0.0, "spec_decode_acceptance_length": None})
    assert "median_tpot_s" not in run.values
    assert "accept_length" not in run.values
    without = {key: value for key, value in SERVE.items() if not key.startswith("spec_decode")}
    assert "accept_rate" not in imported_run(without).values


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"failed": 2}, "2 requests failed"),
        ({"errors": ["", "Connection reset", ""]}, "1 requests failed, the first: Connection reset"),
        ({"completed": 0, "output_throughput": 0.0}, "no request was completed"),
    ],
)
def test_a_run_with_failed_requests_is_invalid_and_never_fast(changed, words):
    assert words in imported_run({**SERVE, **changed}).reasons[0].text


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([1], "a JSON object is expected, this is a list"),
        ({"a": 1, "b": 2}, "no result of a client that is known; its keys begin with a, b"),
        ({**SERVE, "output_throughput": float("nan")}, "output_throughput is nan"),
        ({**SERVE, "median_ttft_ms": "40"}, "median_ttft_ms is '40'"),
        ({**SERVE, "median_ttft_ms": True}, "median_ttft_ms is True"),
        ({**SERVE, "duration": -1.0}, "duration is -1.0"),
        ({**SERVE, "ttfts": [0.1, None]}, "ttfts is None"),
        ({**SERVE, "ttfts": 3}, "ttfts is int, not a list"),
        ({k: v for k, v in SERVE.items() if k != "output_throughput"}, "vllm bench serve without output_throughput"),
        ({**ONE_BATCH, "overall_throughput": 0}, "bench_one_batch without overall_throughput"),
    ],
)
def test_what_is_no_result_is_refused_with_what_was_found(document, words):
    with pytest.raises(UsageError, match=r".") as refused:
        imported_run(document)
    assert words in str(refused.value)
    assert "bench_serving" in refused.value.next_step


def test_runs_of_other_settings_or_tools_are_told_apart():
    serve = imported_run(SERVE)
    other = imported_run({**SERVE, "max_concurrency": 1, "date": "20261130-030000", "duration": 9.0})
    assert differing_settings([serve, other]) == ["max_concurrency: 4, 1"]
    assert differing_settings([serve, serve]) == []
    assert differing_settings([serve, imported_run(SGLANG)]) == ["tool: vllm bench serve, SGLang bench_serving"]


def test_blocks_take_two_runs_of_each_side_and_keep_the_order_they_ran_in():
    # Positions by time: base 0, 3, 5, 6 and head 1, 2, 4. One head is missing for a second block.
    assert pairs_to_blocks([0, 3, 5, 6], [1, 2, 4]) == [[("base", 0), ("head", 1), ("head", 2), ("base", 3)]]
    assert pairs_to_blocks([0, 1], [2]) == []
