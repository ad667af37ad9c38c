"""What trained weights reach on text they have not seen: loss, and tokens a cycle by number of drafted tokens.

Runs the written files through the same Session that is measured, so it says what a runner will see.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.decoder import Decoder
from model.entry import Mode, Session, build
from model.layers import Rope
from model.losses import target_loss

NUM_NEW_TOKENS = 128


def held_out_facts(
    folder: Path, target: Decoder, rope: Rope, tokens_BT: Tensor, prompts: Sequence[Sequence[int]], device: str
) -> dict[str, Any]:
    """Loss in nats a byte over windows of held-out text, and accept length for K = 1..4 over all prompts."""
    return {
        "validation_loss": validation_loss(target, rope, tokens_BT),
        "num_new_tokens": NUM_NEW_TOKENS,
        "accept_length": {k: accept_length(folder, prompts, k, device) for k in (1, 2, 3, 4)},
    }


@torch.no_grad()
def validation_loss(target: Decoder, rope: Rope, tokens_BT: Tensor) -> float:
    """Mean over all bytes, each predicted from what precedes it in its window."""
    return target_loss(target, tokens_BT, rope)[0].item()


def accept_length(folder: Path, prompts: Sequence[Sequence[int]], num_draft_tokens: int, device: str) -> float:
    """Tokens emitted a verify cycle, the bonus token included; greedy, fp32."""
    session = build(
        {
            "target": str(folder / "target.safetensors"),
            "draft": str(folder / "draft.safetensors"),
            "device": device,
            "num_draft_tokens": num_draft_tokens,
            "num_threads": torch.get_num_threads(),
        }
    )
    emitted = [n for prompt in prompts for n in generate_eagle3(session, prompt, NUM_NEW_TOKENS)[1]]
    session.close()
    return sum(emitted) / len(emitted)


def generate_plain(session: Session, prompt: Sequence[int], num_tokens: int) -> list[int]:
    return generate(session, [prompt], num_tokens)[0][0]


def generate_eagle3(session: Session, prompt: Sequence[int], num_tokens: int) -> tuple[list[int], list[int]]:
    """`num_tokens` new tokens, and how many each verify cycle emitted (the last may emit more than is kept)."""
    tokens, emitted_by_cycle = generate(session, [prompt], num_tokens, mode="eagle3")
    return tokens[0], [emitted[0] for emitted in emitted_by_cycle]


def generate(
    session: Session, prompts: Sequence[Sequence[int]], num_tokens: int, mode: Mode = "plain"
) -> tuple[list[list[int]], list[list[int]]]:
    """`num_tokens` new tokens for each prompt of a batch; and how many each step or cycle emitted, by sequence."""
    tokens = [[token] for token in session.prefill(prompts, mode=mode)]
    emitted_by_step: list[list[int]] = []
    while min(map(len, tokens)) < num_tokens:
        step(session, mode)
        emitted = session.read()
        for mine, new in zip(tokens, emitted, strict=True):
            mine.extend(new)
        emitted_by_step.append([len(new) for new in emitted])
    return [mine[:num_tokens] for mine in tokens], emitted_by_step


def step(session: Session, mode: Mode) -> None:
    if mode == "plain":
        session.decode()
        return
    session.draft()
    session.verify()
    session.accept()
