"""The prompts of a load: fixed ones shipped with the runner, or those of a user's file. Must not tokenize."""

from collections.abc import Sequence
from pathlib import Path

from runners.engines.records import Prompt


def shipped(*, as_text: bool, num_prompt_tokens: int = 0) -> tuple[Prompt, ...]:
    """The fixed prompts: token ids below 1000 (each `num_prompt_tokens` long, 0: as shipped), or texts."""
    raise NotImplementedError


def read_file(path: Path) -> tuple[Prompt, ...]:
    """Prompts of a ShareGPT JSON file or of JSONL lines {"prompt": …} or {"prompt_token_ids": […]}.

    Raises ValueError that names file, line and what was expected.
    """
    raise NotImplementedError


def make_unique(prompts: Sequence[Prompt], *, num: int, seed: int) -> tuple[Prompt, ...]:
    """`num` prompts, each with a prefix of its own drawn from `seed`, so that no prefix cache knows any of them."""
    raise NotImplementedError
