"""Result files as their tools write them, by hand; a test changes single keys."""

import json

SERVE = {
    "date": "20261130-021500", "endpoint_type": "vllm", "backend": "vllm", "label": None, "model_id": "m",
    "tokenizer_id": "m", "num_prompts": 16, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 4,
    "duration": 8.0, "completed": 16, "failed": 0, "total_input_tokens": 1024, "total_output_tokens": 1024,
    "request_throughput": 2.0, "request_goodput": None, "output_throughput": 128.0, "total_token_throughput": 256.0,
    "mean_ttft_ms": 45.0, "median_ttft_ms": 40.0, "std_ttft_ms": 4.0, "p99_ttft_ms": 60.0,
    "mean_tpot_ms": 3.0, "median_tpot_ms": 2.5, "mean_itl_ms": 3.0, "median_itl_ms": 2.4,
    "spec_decode_acceptance_rate": 39.114, "spec_decode_acceptance_length": 2.128, "spec_decode_num_drafts": 94,
}  # fmt: skip
SGLANG = {
    "tag": None, "backend": "sglang", "dataset_name": "random", "request_rate": float("inf"), "max_concurrency": 1,
    "server_info": {"version": "0.5.23"}, "duration": 4.0, "completed": 8, "total_input_tokens": 512,
    "total_output_tokens": 512, "total_output_tokens_retokenized": 511, "request_throughput": 2.0,
    "input_throughput": 128.0, "output_throughput": 128.0, "total_throughput": 256.0, "mean_e2e_latency_ms": 490.0,
    "median_e2e_latency_ms": 480.0, "median_ttft_ms": 30.0, "median_tpot_ms": 7.0, "median_itl_ms": 13.0,
    "concurrency": 0.98, "accept_length": 1.94,
}  # fmt: skip
ONE_BATCH = {
    "run_name": "default", "batch_size": 1, "input_len": 256, "output_len": 32, "prefill_latency": 0.05,
    "prefill_throughput": 5120.0, "median_decode_latency": 0.012, "median_decode_throughput": 83.3,
    "total_latency": 0.45, "overall_throughput": 640.0,
}  # fmt: skip
LATENCY = {"model_id": "m", "avg_latency": 1.5, "latencies": [1.4, 1.6], "percentiles": {"50": 1.5}}
DETAILS = {"ttfts": [0.04, 0.05], "itls": [[0.002, 0.003], [0.004]], "latencies": [0.2, 0.3], "errors": ["", ""]}


def write(path, *documents):
    """One document is a JSON file, several are one a line."""
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return path


def served(minute, throughput, **changed):
    """A run of vllm bench serve that began at a minute of an hour."""
    return {**SERVE, "date": f"20261130-02{minute:02}00", "output_throughput": throughput, **changed}
