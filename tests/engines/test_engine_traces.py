"""A small trace made by hand -> seconds a cycle."""

import pytest

from runners.engines.traces import kind_of, summed


def event(name, ts, dur, cat="kernel", pid=0):
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": pid}


def trace(*events):
    return {"traceEvents": [{"ph": "M", "name": "process_name"}, *events]}


def test_kernels_are_summed_by_kind_and_gaps_are_what_no_kernel_covers():
    found = summed(
        trace(
            event("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 0, 10),
            event("fused_moe_kernel", 5, 10),  # overlaps the all-reduce by 5
            event("flash_fwd_splitkv_mla", 20, 20),
            event("elementwise", 60, 40),
            event("fused_moe_kernel", 0, 999, pid=1),  # another rank
            event("aten::mm", 0, 500, cat="cpu_op"),
        ),
        cycles=2,
    )
    # 0-15, 20-40, 60-100 are busy: 75 of 100 microseconds.
    assert found == pytest.approx(
        {
            "busy_s": 37.5e-6, "gaps_s": 12.5e-6, "all_reduce_s": 5e-6, "moe_s": 5e-6, "attention_s": 10e-6,
            "other_s": 20e-6,
        }
    )  # fmt: skip


def test_phases_are_told_where_the_engine_annotates_them_and_the_device_speaks_before_the_host():
    events = (
        event("k", 0, 100),
        event("verify step", 0, 60, cat="gpu_user_annotation"),
        event("verify step", 0, 90, cat="user_annotation"),
        event("draft_forward", 60, 20, cat="user_annotation"),
    )
    found = summed(trace(*events), cycles=1)
    assert (found["verify_s"], found["draft_s"]) == pytest.approx((60e-6, 20e-6))
    assert "decode_s" not in found


def test_events_without_a_length_in_numbers_are_left_out():
    odd = [event("k", 0, length) for length in (float("nan"), float("inf"), -1, True, "1")]
    assert summed(trace(*odd, event("k", 0, 4)), 1)["busy_s"] == pytest.approx(4e-6)


@pytest.mark.parametrize("document", [{}, {"traceEvents": []}, trace(event("aten::mm", 0, 5, cat="cpu_op"))])
def test_a_trace_without_a_kernel_says_nothing(document):
    assert summed(document, cycles=20) == {}


def test_damaged_events_are_left_out():
    assert summed({"traceEvents": [1, {"ph": "X"}, event("k", "x", 1), event("k", 0, 1)]}, 1)["busy_s"] == 1e-6


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("void vllm::cross_device_reduce_1stage", "all_reduce"),
        ("moe_align_block_size_kernel", "moe"),
        ("BatchPrefillWithPagedKVCacheKernel", "attention"),
        ("nvjet_tst_64x8", "gemm"),
        ("rms_norm_kernel", "other"),
    ],
)
def test_kernels_are_known_by_their_names(name, kind):
    assert kind_of(name) == kind
