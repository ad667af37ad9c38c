"""One rank of the tensor-parallel tests: python tp_worker.py DEVICE OUT PROMPTS FOLDER...

Writes OUT/rank<r>.json. A script of its own, because ranks are processes with torchrun's environment.
"""

import hashlib
import json
import sys
from pathlib import Path

import torch

from model.attention import Window
from model.entry import build
from model.evaluate import generate_eagle3, generate_plain
from model.fused import fused_forward
from model.kernels.plain import build_plain_ops
from model.layers import build_rope, causal_mask
from model.parallel import SINGLE
from model.steps import plain_forward
from model.weights import load_target

NUM_TOKENS = 20


def logits_of(target, tokens, dtype, device):
    config = target.config
    rope = build_rope(num_positions=64, head_dim=config.head_dim, theta=config.rope_theta, dtype=dtype, device=device)
    tokens_1T = torch.tensor([tokens], device=device)
    mask_TS = causal_mask(len(tokens), 0, device)
    with torch.inference_mode():
        return target.logits(target(tokens_1T, Window(start=0, rope=rope, mask=mask_TS)))


def compare_logits(session, path, tokens, dtype):
    """Largest difference to one rank holding everything, as a part of the largest logit; and a digest."""
    parallel = logits_of(session.target, tokens, dtype, session.device)
    alone_target = load_target(path, dtype=dtype, device=session.device, group=SINGLE)
    alone = logits_of(alone_target, tokens, dtype, session.device)
    digest = hashlib.sha256(parallel.cpu().numpy().tobytes()).hexdigest()
    return {"error": ((parallel - alone).abs().max() / alone.abs().max()).item(), "digest": digest}


def compare_fused(session, prompt, dtype):
    """Largest difference of the step written over operations to that over modules, both on this rank's share."""
    target, rope, device = session.target, session.rope, session.device
    caches = [target.new_caches(64, dtype=dtype, device=device) for _ in range(2)]
    forwards = (
        plain_forward(target, caches[0], rope), fused_forward(target, caches[1], rope, build_plain_ops())
    )  # fmt: skip
    tokens, start = torch.tensor([prompt[:4]], device=device), torch.zeros(1, dtype=torch.int64, device=device)
    with torch.inference_mode():
        plain, fused = (forward(tokens, start, 64, None) for forward in forwards)
    return ((plain - fused).abs().max() / plain.abs().max()).item()


def marks_of_a_step(session, prompt):
    session.prefill([prompt], marks=True)
    session.decode()
    session.read()
    return session.marks()


def check(folder, prompt, device):
    """Logits in both precisions, plain tokens, and speculative tokens for K = 1..4, all at this world size."""
    found = {"logits": {}, "eagle3": {}}
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        for k in (1, 2, 3, 4) if name == "float64" else (3,):
            files = {x: str(folder / f"{x}.safetensors") for x in ("target", "draft")}
            spec = {"dtype": name, "device": device, "num_draft_tokens": k, "max_len": 128}
            session = build(files | spec)
            if name == "float64":
                found["eagle3"][k] = generate_eagle3(session, prompt, NUM_TOKENS)[0]
        found["logits"][name] = compare_logits(session, folder / "target.safetensors", prompt, dtype)
        found["fused"] = compare_fused(session, prompt, dtype)
    found["marks"] = marks_of_a_step(session, prompt)
    found["probe"] = session.probe()
    found["plain"] = generate_plain(session, prompt, NUM_TOKENS)
    return found


def main():
    device, out, prompts = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    group_owner = None
    results = []
    for folder, prompt in zip(sys.argv[4:], prompts, strict=True):
        if group_owner is None:
            group_owner = build({"target": f"{folder}/target.safetensors", "device": device})
        results.append(check(Path(folder), prompt, device))
    (out / f"rank{group_owner.group.rank}.json").write_text(json.dumps(results))
    group_owner.close()


if __name__ == "__main__":
    main()
