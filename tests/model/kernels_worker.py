"""Every kernel against PyTorch on the same inputs: python kernels_worker.py DEVICE OUT.json FOLDER

A small target and draft, written into FOLDER, then decode a batch with the kernels and without.

On the CPU it is started with TRITON_INTERPRET=1, in a process of its own because that has to be set before triton is
imported. Writes {case: largest difference, as a part of the largest value}.
"""

import json
import sys
from pathlib import Path

import torch
from kernel_cases import CASES, Inputs, compare_attention, compare_ends

from model.config import DraftConfig, TargetConfig
from model.decoder import Decoder
from model.eagle3 import Draft
from model.entry import build
from model.evaluate import generate
from model.train import initialise
from model.weights import save

# Several rows go through tensor cores, 70 in two tiles of columns. The interpreter cannot do that in bfloat16.
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
ROWS = {"cpu": {"float32": (1, 3, 20), "bfloat16": (1,)}, "cuda": dict.fromkeys(DTYPES, (1, 3, 20, 70))}
MODES, KERNELS = ("plain", "eagle3"), ("torch", "triton")
PROMPTS = [[7, 30, 55, 2, 2, 61, 44, 9], [88, 3, 41]]

TARGET = TargetConfig(
    vocab_size=96, num_layers=7, hidden_size=32, num_heads=4, num_kv_heads=2, head_dim=16,
    num_experts=4, top_k=2, expert_size=32, shared_size=32, qk_norm=True,
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
        for (batch, rows), has_norm in zip([(1, 1), (3, 3), (2, 1)], (True, True, False), strict=True):
            found[f"attend-{name}-{batch}x{rows}"] = compare_attention(batch, rows, dtype, device, has_norm=has_norm)
    for batch, num_drafted in ((1, 1), (3, 2), (32, 4)):
        found[f"ends-{batch}x{num_drafted}"] = compare_ends(batch, num_drafted, device)
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = False
    write_small_models(folder)
    tokens = {f"{mode}-{kernels}": decode(folder, mode, kernels, device) for mode in MODES for kernels in KERNELS}
    tokens |= {f"drafted-{kernels}": drafted(folder, kernels, device) for kernels in KERNELS}
    out.write_text(json.dumps({"differences": found, "tokens": tokens}))


def write_small_models(folder):
    target = initialise(Decoder(TARGET), 3)
    target.lm_head.weight.data *= 5  # so that choices are clear and no rounding decides them
    save(target, folder / "target.safetensors")
    save(initialise(Draft(DRAFT), 4), folder / "draft.safetensors")


def decode(folder, mode, kernels, device):
    """Tokens of two sequences together, in fp32."""
    return generate(open_session(folder, kernels, device.type), PROMPTS, 3, mode)[0]


def open_session(folder, kernels, device_type):
    files = {name: str(folder / f"{name}.safetensors") for name in ("target", "draft")}
    spec = {"device": device_type, "kernels": kernels, "batch": 2, "max_len": 32, "num_draft_tokens": 2}
    return build(files | spec)


def drafted(folder, kernels, device):
    """What is drafted after the prompts, and in the second cycle: verify makes every draft right, so ask before it."""
    session = open_session(folder, kernels, device.type)
    session.prefill(PROMPTS, mode="eagle3")
    found = []
    for _ in range(2):
        session.draft()
        found.append(session.sequences.asked_BT.tolist())
        session.verify()
        session.accept()
        session.read()
    return found


if __name__ == "__main__":
    main()
