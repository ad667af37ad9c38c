"""Qwen3-MoE of transformers at the same widths, compiled: the step that users without an engine have.

    PYTHONPATH=. python3 -m benchmarks.decode.transformers --out F.json [--device cuda] [--widths qwen3-30b-a3b]

bf16 random weights, static cache, experts by grouped matrix products where this version has them,
torch.compile(mode="reduce-overhead"). Times whole steps: tokens in, argmax of the logits out, new tokens every step.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
import transformers

from benchmarks.decode.widths import WIDTHS, Widths
from model.probes import wait

CONTEXT, STEPS, WARM_UPS, TOKEN_SETS = 128, 128, 8, 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--widths", default="qwen3-30b-a3b")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rows", default="1,3")
    asked = parser.parse_args()
    device, is_tiny = torch.device(asked.device), asked.widths == "tiny"
    model = build(WIDTHS[asked.widths], asked.layers if not is_tiny else WIDTHS["tiny"].num_layers, device)
    found: dict[str, Any] = {"version": transformers.__version__, "experts": model.config._experts_implementation}
    found["steps"] = []
    for num_rows in map(int, asked.rows.split(",")):
        found["steps"].append({"rows": num_rows, **step_s(model, num_rows, device, is_compiled=not is_tiny)})
        asked.out.write_text(json.dumps(found, indent=1))


def build(widths: Widths, layers: int, device: torch.device) -> Any:
    config = transformers.Qwen3MoeConfig(
        vocab_size=widths.vocab_size, hidden_size=widths.hidden_size, num_hidden_layers=layers,
        num_attention_heads=widths.num_heads, num_key_value_heads=widths.num_kv_heads, head_dim=widths.head_dim,
        num_experts=widths.num_experts, num_experts_per_tok=widths.top_k, moe_intermediate_size=widths.expert_size,
        norm_topk_prob=True, rope_theta=widths.rope_theta, tie_word_embeddings=False,
    )  # fmt: skip
    torch.manual_seed(1)
    experts = {"experts_implementation": "grouped_mm"} if device.type == "cuda" else {}
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, **experts)
    return model.eval().requires_grad_(False)


@torch.no_grad()
def step_s(model: Any, num_rows: int, device: torch.device, *, is_compiled: bool) -> dict[str, Any]:
    """Median and spread of single steps over a cache that holds CONTEXT tokens; the cache is not advanced."""
    cache = transformers.StaticCache(config=model.config, max_cache_len=2 * CONTEXT)
    prompt = torch.randint(model.config.vocab_size, (1, CONTEXT), device=device)
    model(prompt, past_key_values=cache, cache_position=torch.arange(CONTEXT, device=device), use_cache=True)
    places = torch.arange(CONTEXT, CONTEXT + num_rows, device=device)

    def step(tokens: torch.Tensor) -> torch.Tensor:
        logits = model(tokens, past_key_values=cache, cache_position=places, use_cache=True).logits
        return logits.argmax(-1)

    run = torch.compile(step, mode="reduce-overhead") if is_compiled else step
    token_sets = torch.randint(model.config.vocab_size, (TOKEN_SETS, 1, num_rows), device=device)
    times = []
    for number in range(WARM_UPS + STEPS):
        rewind(cache)
        wait(device)
        begin = time.perf_counter()
        run(token_sets[number % TOKEN_SETS])
        wait(device)
        times.append(time.perf_counter() - begin)
    return {"s": median(times[WARM_UPS:]), "best_s": min(times[WARM_UPS:]), "is_compiled": is_compiled}


def rewind(cache: Any) -> None:
    """Versions in which a cache counts its own tokens would walk off its end; in others `cache_position` decides."""
    for layer in cache.layers:
        if isinstance(getattr(layer, "cumulative_length", None), torch.Tensor):
            layer.cumulative_length.fill_(CONTEXT)


if __name__ == "__main__":
    main()
