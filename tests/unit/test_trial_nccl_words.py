"""What NCCL says of itself. The logs beside this file are NCCL 2.28.9's own words on two H200s, shortened."""

from pathlib import Path

import pytest

from perfguard.trial.nccl_words import contradictions, moe_words, nccl_words

LOGS = Path(__file__).with_name("nccl_logs")


def said(name):
    return nccl_words((LOGS / f"{name}.txt").read_text())


def test_the_defaults_of_two_cards_over_nvlink():
    assert said("default") == {
        "version": "2.28.9+cuda13.0",
        "variables": {"NCCL_NVLS_ENABLE": "0"},
        "num_channels": 24,
        "num_p2p_channels": 32,
        "transports": ["P2P/CUMEM"],
        "network": "Socket",
        "choices": [
            "AllReduce 8192 B: RING LL",
            "AllReduce 262144 B: RING LL",
            "AllReduce 16777216 B: RING SIMPLE",
        ],
    }


def test_without_p2p_the_transport_is_shared_memory_and_channels_are_few():
    found = said("p2p_disabled")
    assert (found["transports"], found["num_channels"]) == (["SHM/direct/direct"], 4)
    assert found["variables"] == {"NCCL_P2P_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}


def test_what_was_asked_for_is_what_nccl_read_and_chose():
    found = said("ring_ll")
    assert found["variables"]["NCCL_P2P_LEVEL"] == "SYS"
    assert found["choices"] == [f"AllReduce {size} B: RING LL" for size in (8192, 262144, 16777216)]
    asked = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL", "NCCL_P2P_LEVEL": "SYS"}
    assert contradictions(asked, [found, found]) == ()


def test_a_version_line_alone_is_the_version():
    assert said("version_only") == {"version": "2.28.9+cuda13.0"}
    assert nccl_words("nothing of the kind\n") == {}


def test_numbers_of_older_versions_are_given_their_names():
    line = "h:1:2 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo 1 proto 0 time 12.3\n"
    assert nccl_words(line) == {"choices": ["AllReduce 4096 B: RING LL"]}


def test_rank_and_value_are_named_where_nccl_read_something_else():
    (reason,) = contradictions({"NCCL_PROTO": "LL"}, [said("ring_ll"), {"variables": {"NCCL_PROTO": "Simple"}}])
    assert (reason.code, reason.text) == ("environment", "NCCL on rank 1 read NCCL_PROTO='Simple', asked for 'LL'")


def test_a_choice_that_was_not_allowed_is_named():
    # The variable never reached NCCL: it says nothing of it, and takes Simple for the large message.
    (reason,) = contradictions({"NCCL_PROTO": "LL,LL128"}, [said("default")])
    assert reason.text == (
        "NCCL on rank 0 chose AllReduce 16777216 B: RING SIMPLE although NCCL_PROTO=LL,LL128 was asked for"
    )
    assert contradictions({"NCCL_PROTO": "^LL128"}, [said("default")]) == ()  # not taken apart


def test_ranks_with_different_libraries_are_named():
    reasons = contradictions({}, [said("version_only"), {"version": "2.27.3+cuda12.9"}, {}])
    assert [r.text for r in reasons] == ["NCCL is 2.28.9+cuda13.0 on rank 0 and 2.27.3+cuda12.9 on rank 1"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("INFO fused_moe.py:700] Using configuration from /c/E=8,N=1,device_name=X.json for MoE layer.",
         "/c/E=8,N=1,device_name=X.json"),
        ("Using MoE kernel config with down_moe=False from /c/a.json.", "/c/a.json"),
        ("WARNING Using default MoE config. Performance might be sub-optimal! Config file not found at /c", "default"),
        ("Using configuration from a.yaml", ""),
    ],
)  # fmt: skip
def test_the_settings_of_moe_kernels_are_read_where_an_engine_names_them(line, found):
    assert moe_words(f"first\n{line}\n") == found


def test_a_log_without_an_end_of_line_costs_one_pass():
    assert nccl_words("NCCL" + "x" * 4_000_000) == {}
