"""Every kernel against PyTorch on the same inputs: python kernels_worker.py DEVICE OUT.json FOLDER

A small target and draft, written into FOLDER, then decode a batch with the kernels and without.

On the CPU it is started with TRITON_INTERPRET=1, in a process of its own because that has to be set before triton is
imported. Writes {case: largest difference, as a part of the largest value}.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import torch

from model.attention import KVCache
from model.config import DraftConfig, TargetConfig
from model.decoder import Decoder
from model.eagle3 import Draft
from model.entry import build
from model.evaluate import generate
from model.kernels.ops import Heads, Residual
from model.kernels.plain import build_plain_ops
from model.kernels.triton_ops import build_triton_ops
from model.layers import build_rope
from model.train import initialise
from model.weights import save

HIDDEN, EXPERTS, TOP_K, INNER, HEAD, EPS = 64, 8, 2, 32, 16, 1e-6
# Several rows go through tensor cores, 70 in two tiles of columns. The interpreter cannot do that in bfloat16.
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
ROWS = {"cpu": {"float32": (1, 3, 20), "bfloat16": (1,)}, "cuda": dict.fromkeys(DTYPES, (1, 3, 20, 70))}
MODES, KERNELS = ("plain", "eagle3"), ("torch", "triton")
PROMPTS = [[7, 30, 55, 2, 2, 61, 44, 9], [88, 3, 41]]

TARGET = TargetConfig(
    vocab_size=96, num_layers=7, hidden_size=32, num_heads=2, num_kv_heads=1, head_dim=16,
    num_experts=4, top_k=2, expert_size=16, shared_size=16, qk_norm=True,
)  # fmt: skip
DRAFT = DraftConfig(
    vocab_size=96, target_hidden_size=32, hidden_size=32, num_heads=2, num_kv_heads=1, head_dim=16, inner_size=48
)


def main():
    device, out, folder = torch.device(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    # Memory that a kernel was to write and did not is NaN, not by chance what was there before.
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    found = {}
    for name, dtype in DTYPES.items():
        for num_rows in ROWS[device.type][name]:
            inputs = Inputs(num_rows, dtype, device)
            for case, compare in CASES.items():
                found[f"{case}-{name}-{num_rows}"] = compare(inputs)
        for (batch, rows), has_norm in zip([(1, 1), (3, 4), (2, 1)], (True, True, False), strict=True):
            found[f"attend-{name}-{batch}x{rows}"] = compare_attention(batch, rows, dtype, device, has_norm=has_norm)
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = False
    write_small_models(folder)
    tokens = {f"{mode}-{kernels}": decode(folder, mode, kernels, device) for mode in MODES for kernels in KERNELS}
    out.write_text(json.dumps({"differences": found, "tokens": tokens}))


def write_small_models(folder):
    target = initialise(Decoder(TARGET), 3)
    target.lm_head.weight.data *= 5  # so that choices are clear and no rounding decides them
    save(target, folder / "target.safetensors")
    save(initialise(Draft(DRAFT), 4), folder / "draft.safetensors")


def decode(folder, mode, kernels, device):
    """Tokens of two sequences together, in fp32."""
    files = {name: str(folder / f"{name}.safetensors") for name in ("target", "draft")}
    spec = {"device": device.type, "kernels": kernels, "batch": 2, "max_len": 32, "num_draft_tokens": 1}
    return generate(build(files | spec), PROMPTS, 3, mode)[0]


class Inputs:
    """Of one number of rows: a residual stream, its twin, weights, and a routing."""

    def __init__(self, num_rows, dtype, device):
        random = torch.Generator().manual_seed(num_rows)

        def draw(*shape, dtype=dtype):
            return torch.randn(shape, generator=random).to(device, dtype)

        self.plain, self.kernels = build_plain_ops(), build_triton_ops(device)
        self.dtype = dtype
        self.h_RH, self.gamma_H = draw(num_rows, HIDDEN, dtype=torch.float32), draw(HIDDEN)
        self.x_RH = (self.h_RH * self.gamma_H).to(dtype)
        self.w_NH, self.o_HN = draw(96, HIDDEN), draw(HIDDEN, 128)
        self.x_RN = draw(num_rows, 128)
        self.router_EH, self.gate_up_EXIH = draw(EXPERTS, HIDDEN), draw(EXPERTS, 2, INNER, HIDDEN) / 8
        self.down_HEI = draw(EXPERTS, HIDDEN, INNER).transpose(0, 1)
        self.routing = self.plain.route(self.x_RH, self.h_RH, self.router_EH, EPS, TOP_K)
        self.a_SRI = self.plain.gate_up(self.x_RH, self.gate_up_EXIH, self.routing)

    def residual(self):
        return Residual(h_RH=self.h_RH.clone(), gamma_H=self.gamma_H)


def difference(ours, theirs):
    ours, theirs = ours.double(), theirs.double()
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()


def compare_norm_linear(i):
    ours, theirs = (o.norm_linear(i.x_RH, i.h_RH, i.w_NH, EPS, torch.float32) for o in (i.kernels, i.plain))
    return difference(ours, theirs)


def compare_linear(i):
    ours, theirs = (o.norm_linear(i.x_RN, None, i.o_HN, 0.0, i.dtype) for o in (i.kernels, i.plain))
    return difference(ours, theirs)


def compare_add_linear(i):
    a, b = i.residual(), i.residual()
    ours, theirs = i.kernels.add_linear(i.x_RN, i.o_HN, a), i.plain.add_linear(i.x_RN, i.o_HN, b)
    return max(difference(ours, theirs), difference(a.h_RH, b.h_RH))


def compare_route(i):
    """Twice, since the second launch finds what the first left of its counter."""
    i.kernels.route(i.x_RH, i.h_RH, i.router_EH, EPS, TOP_K)
    ours = i.kernels.route(i.x_RH, i.h_RH, i.router_EH, EPS, TOP_K)
    count = i.routing.count_1.item()
    same_list = ours.count_1.item() == count and torch.equal(ours.ids_S[:count], i.routing.ids_S[:count])
    if not same_list:
        return float("inf")
    return max(difference(getattr(ours, name), getattr(i.routing, name)) for name in ("weights_RE", "scale_R"))


def compare_gate_up(i):
    ours = i.kernels.gate_up(i.x_RH, i.gate_up_EXIH, i.routing)
    count = i.routing.count_1.item()
    return difference(ours[:count], i.a_SRI[:count])


def poisoned(i):
    """What slots hold that are not in use must not matter."""
    a_SRI = i.a_SRI.clone()
    a_SRI[i.routing.count_1.item() :] = float("nan")
    ids_S = i.routing.ids_S.clone()
    ids_S[i.routing.count_1.item() :] = 2**30
    return a_SRI, replace(i.routing, ids_S=ids_S)


def compare_down(i):
    """Twice, for the same reason."""
    a_SRI, routing = poisoned(i)
    i.kernels.down(a_SRI, i.down_HEI, routing)
    return difference(i.kernels.down(a_SRI, i.down_HEI, routing), i.plain.down(i.a_SRI, i.down_HEI, i.routing))


def compare_add_down(i):
    a, b = i.residual(), i.residual()
    a_SRI, routing = poisoned(i)
    ours = i.kernels.add_down(a_SRI, i.down_HEI, routing, a)
    theirs = i.plain.add_down(i.a_SRI, i.down_HEI, i.routing, b)
    return max(difference(ours, theirs), difference(a.h_RH, b.h_RH))


CASES = {
    "norm_linear": compare_norm_linear,
    "linear": compare_linear,
    "add_linear": compare_add_linear,
    "route": compare_route,
    "gate_up": compare_gate_up,
    "down": compare_down,
    "add_down": compare_add_down,
}


def compare_attention(batch, num_rows, dtype, device, *, has_norm):
    """4 query heads on 2 KV heads; lengths 0, 37 and 50 of 64 slots; slots behind the end are NaN."""
    random = torch.Generator().manual_seed(10 * batch + num_rows)

    def draw(*shape):
        return torch.randn(shape, generator=random).to(device, dtype)

    length_B = torch.tensor([37, 0, 50][:batch], device=device)
    norms = {"q_norm_D": draw(HEAD), "k_norm_D": draw(HEAD)} if has_norm else {"q_norm_D": None, "k_norm_D": None}
    heads = Heads(num_heads=4, num_kv_heads=2, head_dim=HEAD, norm_eps=EPS, **norms)
    rope = build_rope(num_positions=64, head_dim=HEAD, theta=100.0, dtype=dtype, device=device)
    qkv_RX, k_BGPD, v_BGPD = draw(batch * num_rows, 8 * HEAD), draw(batch, 2, 64, HEAD), draw(batch, 2, 64, HEAD)
    found, caches = [], []
    for ops, stale in ((build_triton_ops(device), float("nan")), (build_plain_ops(), 0.0)):
        cache = KVCache(k_BGPD=k_BGPD.clone(), v_BGPD=v_BGPD.clone())
        for b, length in enumerate(length_B.tolist()):
            cache.k_BGPD[b, :, length:] = stale
            cache.v_BGPD[b, :, length:] = stale
        found.append(ops.attend(qkv_RX, cache, length_B, rope, heads))
        caches.append([x[b, :, : n + num_rows] for x in (cache.k_BGPD, cache.v_BGPD) for b, n in enumerate(length_B)])
    stored = max(difference(ours, theirs) for ours, theirs in zip(*caches, strict=True))
    return max(difference(*found), stored)


if __name__ == "__main__":
    main()
