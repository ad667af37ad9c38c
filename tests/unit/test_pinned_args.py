"""Base's resolved arguments -> flags for head."""

import shlex

import pytest

from perfguard.pinned_args import pins


def words(engine, base, head):
    return shlex.split(pins({"name": engine, "args": base}, {"name": engine, "args": head}))


def test_only_what_both_know_and_resolved_differently_becomes_a_flag():
    base = {"attention_backend": "fa3", "tp_size": 8, "gone": 1, "same": 2}
    head = {"attention_backend": "flashinfer", "tp_size": 8, "new": 1, "same": 2}
    assert words("sglang", base, head) == ["--attention-backend", "fa3"]
    assert pins({"name": "sglang", "args": base}, {"name": "sglang", "args": base}) == ""


def test_sglang_switches_lists_and_nested_arguments():
    base = {
        "disable_radix_cache": True, "enable_x": False, "cuda_graph_bs": "[1, 2, 4]", "context_length": None,
        "cuda_graph_config.decode.backend": "full", "cuda_graph_config.decode.max_bs": 8, "long": "[1, 2…",
        "mem_fraction_static": 0.835,
    }  # fmt: skip
    assert words("sglang", base, dict.fromkeys(base, "other")) == [
        "--cuda-graph-bs", "1", "2", "4", "--disable-radix-cache", "--mem-fraction-static", "0.835",
        "--cuda-graph-config", '{"decode": {"backend": "full", "max_bs": 8}}',
    ]  # fmt: skip


def test_vllm_names_switches_enumerations_and_dotted_flags():
    base = {
        "dtype": "torch.bfloat16", "max_seq_len": 4096, "enforce_eager": False, "enable_prefix_caching": True,
        "compilation_config.cudagraph_mode": "<CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>", "device_config": "cuda",
        "compilation_config.splitting_ops": "['a', 'b']", "speculative_config.num_spec_tokens": 3,
        "compilation_config.mode": "<CompilationMode.VLLM_COMPILE: 3>", "model_config.x": 1, "kv_cache_dtype": "fp8",
        "compilation_config.use_inductor_graph_partition": False,
    }  # fmt: skip
    assert words("vllm", base, dict.fromkeys(base, "other")) == [
        "--compilation-config.cudagraph_mode", "FULL_AND_PIECEWISE",
        "--compilation-config.mode", "3",
        "--compilation-config.use_inductor_graph_partition", "false",
        "--dtype", "bfloat16", "--enable-prefix-caching", "--no-enforce-eager", "--kv-cache-dtype", "fp8",
        "--max-model-len", "4096",
    ]  # fmt: skip


def test_a_value_with_blanks_survives_a_shell():
    assert words("sglang", {"a": "x y"}, {"a": "z"}) == ["--a", "x y"]


@pytest.mark.parametrize("side", ["base", "head"])
def test_a_side_that_did_not_tell_is_named(side):
    told = {"base": {"name": "sglang", "args": {"a": 1}}, "head": {"name": "sglang", "args": {"a": 2}}}
    told[side] = {"name": "sglang"}
    with pytest.raises(ValueError, match=f"{side} did not tell"):
        pins(told["base"], told["head"])


def test_an_engine_whose_flags_are_not_known_gets_none():
    assert words("other", {"a": 1}, {"a": 2}) == []
