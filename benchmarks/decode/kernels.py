"""Every kernel at the widths that are measured: against PyTorch, and how fast it moves its bytes by itself.

    PYTHONPATH=. python3 -m benchmarks.decode.kernels --out F.json [--device cuda] [--widths qwen3-30b-a3b]

Each kernel is timed over several layers' weights in one CUDA graph, so that none of them lies in the card's cache.
A kernel's time alone is no sum of the step: the launches measure that.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks.decode.widths import WIDTHS, Inputs, Widths, random_inputs
from model.kernels.ops import Ops, Residual, Routing
from model.kernels.plain import build_plain_ops
from model.kernels.triton_ops import build_triton_ops
from model.probes import copy_bandwidth, wait

EPS = 1e-6
# Of the largest value: bfloat16 keeps 8 bits, and outputs of a kernel are rounded to it once.
LIMIT = 2**-7
NUM_LAYERS = 4
REPLAYS = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--widths", default="qwen3-30b-a3b")
    parser.add_argument("--layers", type=int, default=12, help="not used here: weights of a few layers do")
    parser.add_argument("--rows", default="1,3,4,16", help="rows of a step")
    asked = parser.parse_args()
    device, widths = torch.device(asked.device), WIDTHS[asked.widths]
    torch.manual_seed(1)
    found: dict[str, Any] = {"copy_bytes_per_s": copy_bandwidth(device), "checks": [], "alone": []}
    for num_rows in map(int, asked.rows.split(",")):
        layers = [random_inputs(widths, num_rows, device) for _ in range(NUM_LAYERS)]
        if device.type == "cuda" or num_rows == 1:  # the interpreter has no bfloat16 on tensor cores
            found["checks"] += checks(layers[0], widths, device, num_rows)
        if device.type == "cuda":
            found["alone"] += alone(layers, widths, device, num_rows)
        asked.out.write_text(json.dumps(found, indent=1))
    failed = [check["kernel"] for check in found["checks"] if not check["difference"] <= LIMIT]
    if failed:
        sys.exit(f"kernels that differ from PyTorch by more than {LIMIT:.1e}: {', '.join(failed)}")


def checks(i: Inputs, widths: Widths, device: torch.device, num_rows: int) -> list[dict[str, Any]]:
    """Largest difference of each operation, as a part of the largest value, both given the same inputs."""
    plain, ours = build_plain_ops(), build_triton_ops(device)
    routing = plain.route(i.x_RH, i.h_RH, i.router_EH, EPS, widths.top_k)
    used = slice(0, int(routing.count_1))
    a_SRI = plain.gate_up(i.x_RH, i.gate_up_EXIH, routing)
    logits_RV = plain.norm_linear(i.x_RH, i.h_RH, i.lm_head_VH, EPS, torch.float32)
    squares_RP = i.h_RH.square().unflatten(1, (-1, 64)).sum(-1)
    outputs: dict[str, Callable[[Ops], tuple[Tensor, ...]]] = {
        "qkv": lambda ops: (ops.norm_linear(i.x_RH, i.h_RH, i.qkv_XH, EPS, torch.bfloat16, squares_RP),),
        "qkv by h": lambda ops: (ops.norm_linear(i.x_RH, i.h_RH, i.qkv_XH, EPS, torch.bfloat16),),
        "attention": lambda ops: (ops.attend(i.qkv_RX, i.cache, i.length_B, i.rope, i.heads),),
        "o_proj": lambda ops: added(i, lambda residual: ops.add_linear(i.o_RN, i.o_HN, residual)),
        "router": lambda ops: told(ops.route(i.x_RH, i.h_RH, i.router_EH, EPS, widths.top_k, squares_RP)),
        "router by h": lambda ops: told(ops.route(i.x_RH, i.h_RH, i.router_EH, EPS, widths.top_k)),
        "gate_up": lambda ops: (ops.gate_up(i.x_RH, i.gate_up_EXIH, routing)[used],),
        "down": lambda ops: added(i, lambda residual: ops.add_down(a_SRI, i.down_HEI, routing, residual)),
        "lm_head": lambda ops: (ops.norm_linear(i.x_RH, i.h_RH, i.lm_head_VH, EPS, torch.float32, squares_RP),),
        "embed": lambda ops: with_squares(*ops.embed(i.tokens_R, i.lm_head_VH, i.residual.gamma_H)),
        "join": lambda ops: ops.join(i.tokens_R, i.lm_head_VH, i.h_RH, i.draft_norms),
        "add": lambda ops: added(i, lambda residual: ops.add(i.x_RH, residual)),
        "gated_linear": lambda ops: (ops.gated_linear(i.x_RH, i.h_RH, i.qkv_XH, EPS, squares_RP),),
        "best": lambda ops: (ops.best(logits_RV),),
    }
    return [
        {"kernel": name, "rows": num_rows, "difference": max(map(difference, output(ours), output(plain)))}
        for name, output in outputs.items()
    ]


def added(i: Inputs, add: Callable[[Residual], tuple[Tensor, Tensor | None]]) -> tuple[Tensor, ...]:
    """The twin, the sums of squares and the stream, of a copy that a branch was added to."""
    residual = Residual(h_RH=i.residual.h_RH.clone(), gamma_H=i.residual.gamma_H)
    return with_squares(*add(residual), residual.h_RH)


def with_squares(x_RH: Tensor, squares_RP: Tensor | None, h_RH: Tensor) -> tuple[Tensor, ...]:
    return x_RH, h_RH, h_RH.square().sum(-1) if squares_RP is None else squares_RP.sum(-1)


def told(routing: Routing) -> tuple[Tensor, ...]:
    return routing.weights_RE, routing.scale_R


def difference(ours: Tensor, theirs: Tensor) -> float:
    """Of ids: whether any is another."""
    if not ours.is_floating_point():
        return float((ours != theirs).any())
    ours, theirs = ours.float(), theirs.float()
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


def alone(layers: list[Inputs], widths: Widths, device: torch.device, num_rows: int) -> list[dict[str, Any]]:
    """Seconds of one launch, the gap to the next included, and the rate at which weights were read."""
    ours = build_triton_ops(device)
    routings = [ours.route(i.x_RH, i.h_RH, i.router_EH, EPS, widths.top_k) for i in layers]
    acts = [ours.gate_up(i.x_RH, i.gate_up_EXIH, r) for i, r in zip(layers, routings, strict=True)]
    expert = 2 * 3 * widths.expert_size * widths.hidden_size * mean_count(routings)
    kernels: dict[str, tuple[float, Callable[[int], Any]]] = {
        "qkv": (layers[0].qkv_XH.nbytes, lambda n: ours.norm_linear(
            layers[n].x_RH, layers[n].h_RH, layers[n].qkv_XH, EPS, torch.bfloat16)),
        "attention": (0.0, lambda n: ours.attend(
            layers[n].qkv_RX, layers[n].cache, layers[n].length_B, layers[n].rope, layers[n].heads)),
        "o_proj": (layers[0].o_HN.nbytes, lambda n: ours.add_linear(
            layers[n].o_RN, layers[n].o_HN, layers[n].residual)),
        "router": (layers[0].router_EH.nbytes, lambda n: ours.route(
            layers[n].x_RH, layers[n].h_RH, layers[n].router_EH, EPS, widths.top_k)),
        "gate_up": (expert * 2 / 3, lambda n: ours.gate_up(
            layers[n].x_RH, layers[n].gate_up_EXIH, routings[n])),
        "down": (expert / 3, lambda n: ours.add_down(
            acts[n], layers[n].down_HEI, routings[n], layers[n].residual)),
        "lm_head": (layers[0].lm_head_VH.nbytes, lambda n: ours.norm_linear(
            layers[n].x_RH, layers[n].h_RH, layers[n].lm_head_VH, EPS, torch.float32)),
    }  # fmt: skip
    rows = []
    for name, (num_bytes, call) in kernels.items():
        seconds = replayed_s(call, len(layers), device)
        rows.append({"kernel": name, "rows": num_rows, "s": seconds, "bytes_per_s": num_bytes / seconds})
    return rows


def mean_count(routings: list[Routing]) -> float:
    return sum(int(routing.count_1) for routing in routings) / len(routings)


def replayed_s(call: Callable[[int], Any], num_layers: int, device: torch.device) -> float:
    """Median seconds of one call, over replays of a graph that calls once a layer."""
    for _ in range(2):
        call(0)
    wait(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for n in range(num_layers):
            call(n)
    times = []
    for _ in range(REPLAYS):
        wait(device)
        begin = time.perf_counter()
        for _ in range(4):
            graph.replay()
        wait(device)
        times.append((time.perf_counter() - begin) / (4 * num_layers))
    return median(times)


if __name__ == "__main__":
    main()
