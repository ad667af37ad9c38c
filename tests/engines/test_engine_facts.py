"""What engines say of themselves -> the record: lines and keys as SGLang and vLLM write them."""

import pytest

from runners.engines import facts_sglang, facts_vllm
from runners.engines.facts import Told, asked_flags, plain_args, written_args

SGLANG_INFO = {
    "model_path": "m", "tp_size": 8, "attention_backend": "flashinfer", "prefill_attention_backend": None,
    "decode_attention_backend": None, "speculative_algorithm": "EAGLE3", "speculative_draft_attention_backend": None,
    "disable_cuda_graph": False, "quantization": None, "device": "cuda", "random_seed": 480213, "port": 30123,
    "api_key": "sk-1", "max_total_num_tokens": 415230, "version": "0.5.23", "status": "ready",
    "cuda_graph_config": {"decode": {"backend": "full", "max_bs": 8}, "prefill": {"backend": "breakable"}},
    "internal_states": [{"attention_backend": "fa3", "last_gen_throughput": 61.2, "tp_size": 8}],
}  # fmt: skip
SGLANG_LOG = """\
[2026-11-30 04:00:01] server_args=ServerArgs(model_path='m', tp_size=8, attention_backend=None, port=30123, \
cuda_graph_bs=[1, 2, 4], api_key='sk-1', device='cuda', disable_cuda_graph=False, speculative_algorithm='EAGLE3')
[2026-11-30 04:00:31 TP0] Load weight end. elapsed=9.10 s, type=DeepseekV3ForCausalLM, quant=W4AFP8, avail mem=29.01 GB
[2026-11-30 04:00:40 TP0] Using MoE kernel config from /v/configs/triton_3_4_0/E=384,N=256,device_name=NVIDIA_RTX.json.
[2026-11-30 04:00:41 TP0] Capture target verify CUDA graph begin. backend=full, num_tokens_per_req=4, bs=[1, 2]
[2026-11-30 04:00:50 TP0] Capture draft cuda graph begin. This can take up to several minutes. avail mem=20.1 GB
"""


def sglang(info=SGLANG_INFO, log=SGLANG_LOG, command=()):
    return facts_sglang.facts(Told(name="sglang", info=info, log=log, command=command))


def test_sglang_resolved_arguments_are_those_of_the_scheduler_without_what_each_launch_has_of_its_own():
    record = sglang()
    assert record["args_origin"] == "server_info"
    assert record["args"]["attention_backend"] == "fa3"  # the front end still had flashinfer
    assert record["args"]["cuda_graph_config.decode.max_bs"] == 8
    assert record["args"].keys().isdisjoint({"random_seed", "port", "api_key", "max_total_num_tokens", "status"})
    assert "sk-1" not in str(record)
    assert (record["version"], record["kv_tokens"], record["device"]) == ("0.5.23", 415230, "cuda")


def test_sglang_says_backend_quantisation_and_file_of_moe_kernels():
    record = sglang()
    assert record["attention_backend"] == "fa3"
    assert record["quantization"] == "w4afp8"
    assert record["moe_config"] == "E=384,N=256,device_name=NVIDIA_RTX.json"
    apart = {**SGLANG_INFO, "decode_attention_backend": "trtllm_mla", "internal_states": []}
    assert sglang(apart)["attention_backend"] == "prefill flashinfer, decode trtllm_mla"
    assert sglang(log="Using default MoE kernel config. Performance might be sub-optimal!")["moe_config"] == "default"


@pytest.mark.parametrize(
    ("changed", "log", "graphs"),
    [
        ({}, SGLANG_LOG, {"verify": "full", "draft": "full"}),
        ({}, SGLANG_LOG.replace("Capture draft", "x"), {"verify": "full"}),  # of the draft nobody said anything
        ({"disable_cuda_graph": True}, "", {"verify": "none", "draft": "none"}),
        ({"cuda_graph_config": {"decode": {"backend": "tc_piecewise"}}}, "", {"verify": "piecewise"}),
        ({"speculative_algorithm": None}, "", {"decode": "full"}),
        ({"speculative_algorithm": None, "cuda_graph_config": None}, "", {}),
        ({"cuda_graph_config": None}, "Capture cuda graph begin. This can take", {"verify": "full"}),
        ({}, SGLANG_LOG + "Decode batch, #running-req: 1, cuda graph: False, gen", {"verify": "none", "draft": "full"}),
        ({}, SGLANG_LOG + "Prefill batch, #new-seq: 1, cuda graph: False, inp", {"verify": "full", "draft": "full"}),
    ],
)
def test_sglang_graphs_are_what_was_captured_and_what_decode_batches_ran_under(changed, log, graphs):
    assert sglang({**SGLANG_INFO, **changed}, log).get("graphs", {}) == graphs


def test_sglang_without_a_state_endpoint_is_read_from_its_log():
    record = sglang(info={})
    assert record["args_origin"] == "log"
    assert record["args"] == {
        "model_path": "m", "tp_size": 8, "attention_backend": None, "cuda_graph_bs": "[1, 2, 4]", "device": "cuda",
        "disable_cuda_graph": False, "speculative_algorithm": "EAGLE3",
    }  # fmt: skip
    assert "attention_backend" not in record  # None in that line: not resolved yet, so unknown
    assert "kv_tokens" not in record


def test_a_server_that_says_nothing_gives_a_record_that_claims_nothing():
    for module in (facts_sglang, facts_vllm):
        assert module.facts(Told(name="x")) == {"name": "x"}


VLLM_CONFIG = (
    "model='m', speculative_config=None, tokenizer='m', dtype=torch.bfloat16, max_seq_len=4096, "
    "tensor_parallel_size=2, quantization=None, enforce_eager=False, device_config=cuda, seed=0, "
    "structured_outputs_config=StructuredOutputsConfig(backend='auto', disable_any_whitespace=False), "
    "compilation_config={'mode': <CompilationMode.VLLM_COMPILE: 3>, 'cache_dir': '/a/b', 'splitting_ops': ['x', 'y'], "
    "'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>, 'max_cudagraph_capture_size': 512}"
)
VLLM_LOG = f"""\
(EngineCore pid=255) INFO 11-30 04:00:01 [core.py:132] Initializing a V1 LLM engine (v0.32.0) with config: {VLLM_CONFIG}
(Worker_TP0 pid=300) INFO 11-30 04:00:09 [cuda.py:506] Using FLASH_ATTN attention backend out of potential backends: \
['FLASH_ATTN', 'FLASHINFER'].
(Worker_TP0 pid=300) INFO 11-30 04:00:10 [cuda.py:446] Using FLASH_ATTN backend.
(Worker_TP0 pid=300) WARNING 11-30 04:00:19 [fused_moe.py:1163] Using default MoE config. Performance might be \
sub-optimal! Config file not found at /v/configs/E=8,N=64.json
(EngineCore pid=255) INFO 11-30 04:00:24 [kv_cache_utils.py:2328] GPU KV cache size: 686,320 tokens, Maximum \
concurrency for 4,096 tokens per request: 167.56x
"""


def vllm(log=VLLM_LOG, info=None):
    return facts_vllm.facts(Told(name="vllm", log=log, info=info or {}))


def test_vllm_is_read_from_its_log():
    record = vllm()
    assert (record["version"], record["args_origin"], record["device"]) == ("0.32.0", "log", "cuda")
    assert record["args"]["tensor_parallel_size"] == 2
    assert record["args"]["dtype"] == "torch.bfloat16"
    assert record["args"]["structured_outputs_config.backend"] == "auto"
    assert record["args"]["compilation_config.max_cudagraph_capture_size"] == 512
    assert record["args"]["compilation_config.splitting_ops"] == "['x', 'y']"
    assert "compilation_config.cache_dir" not in record["args"]
    assert (record["attention_backend"], record["moe_config"]) == ("FLASH_ATTN", "default")
    assert (record["quantization"], record["kv_tokens"]) == ("none", 686320)


SPECULATIVE = VLLM_LOG.replace("speculative_config=None", "speculative_config=SpeculativeConfig(method='eagle3', n=3)")
DOWN = (
    "CUDAGraphMode.FULL_AND_PIECEWISE is not supported with spec-decode for attention backend FlashInferBackend "
    "(support: AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE); setting cudagraph_mode=PIECEWISE"
)


@pytest.mark.parametrize(
    ("log", "graphs"),
    [
        (VLLM_LOG, {"decode": "full"}),
        (SPECULATIVE, {"verify": "full"}),
        (SPECULATIVE + DOWN, {"verify": "piecewise"}),
        (VLLM_LOG + "; setting cudagraph_mode=NONE because attention is not compiled piecewise", {"decode": "none"}),
        (VLLM_LOG.replace("enforce_eager=False", "enforce_eager=True"), {"decode": "none"}),
        (VLLM_LOG.replace("<CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>", "<CUDAGraphMode.PIECEWISE: 1>"),
         {"decode": "piecewise"}),
        ("", {}),
    ],
)  # fmt: skip
def test_vllm_graphs_are_those_after_the_last_step_down(log, graphs):
    assert vllm(log).get("graphs", {}) == graphs


def test_vllm_in_development_mode_gives_its_configuration_as_json_or_text():
    as_text = vllm("", {"vllm_config": VLLM_CONFIG, "vllm_env": {}})
    assert as_text["args"] == vllm()["args"]
    nested = {
        "model_config": {"quantization": "awq", "enforce_eager": False, "hf_token": "t"},
        "compilation_config": {"cudagraph_mode": [2, 1]},
        "speculative_config": {"method": "ngram"},
        "device_config": {"device": "cuda:0"},
    }
    record = vllm("", {"vllm_config": nested})
    assert (record["quantization"], record["graphs"], record["device"]) == ("awq", {"verify": "full"}, "cuda")
    assert "model_config.hf_token" not in record["args"]


def test_flags_of_a_command_are_read_in_all_three_forms():
    command = ("python", "-m", "x", "--tp", "8", "--mem-fraction-static=0.8", "--trust-remote-code", "--api-key", "k")
    assert asked_flags(command) == {"tp": "8", "mem_fraction_static": "0.8", "trust_remote_code": "true"}


def test_written_arguments_survive_commas_quotes_and_brackets_and_end_with_their_call():
    text = "a='x, y', b=[1, (2, 3)], c={'k': 1, 'l': {'m': 2}}, d=C(e=1.5, f=None), g=<E.F: (2, 1)>) and more, h=1"
    assert written_args(text) == {
        "a": "x, y", "b": "[1, (2, 3)]", "c.k": 1, "c.l": "{'m': 2}", "d.e": 1.5, "d.f": None, "g": "<E.F: (2, 1)>",
    }  # fmt: skip


def test_long_values_are_cut_and_plain_ones_keep_their_type():
    args = plain_args({"sizes": list(range(500)), "n": 3, "b": True, "none": None, "admin_api_key": "k"})
    assert len(args["sizes"]) == 301
    assert {k: v for k, v in args.items() if k != "sizes"} == {"n": 3, "b": True, "none": None}
