"""The prompts of a load: fixed ones shipped with the runner, or those of a user's file. Must not tokenize.

Shipped token ids are drawn at random from 10 to 999: any vocabulary has them, and no tokenizer stands between two
commits. They mean nothing, so accept lengths on them say little about real work; the shipped texts, or a file, do.
"""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from runners.engines.records import Prompt

SHIPPED = Path(__file__).parent / "prompts.json"
LOWEST_ID, HIGHEST_ID = 10, 999  # below lie the special tokens of most vocabularies
NUM_PREFIX_IDS = 8  # 990 ^ 8 prefixes; a prefix cache looks from the front, so eight are as good as all
HUMANS = ("human", "user")
EXPECTED = '{"prompt": "text" or [ids]}, {"prompt_token_ids": [ids]} or ShareGPT\'s {"conversations": […]}'


def shipped(*, as_text: bool, num_prompt_tokens: int = 0) -> tuple[Prompt, ...]:
    """The fixed prompts: token ids below 1000 (each `num_prompt_tokens` long, 0: as shipped), or texts.

    Longer ones than shipped begin again from their first id.
    """
    asset = json.loads(SHIPPED.read_text(encoding="utf-8"))
    if as_text:
        return tuple(Prompt(text=text) for text in asset["texts"])
    return tuple(Prompt(ids=_cut(ids, num_prompt_tokens or len(ids))) for ids in asset["ids"])


def _cut(ids: Sequence[int], num: int) -> tuple[int, ...]:
    return tuple(ids[place % len(ids)] for place in range(num))


def read_file(path: Path) -> tuple[Prompt, ...]:
    """Prompts of a ShareGPT JSON file or of JSONL lines {"prompt": …} or {"prompt_token_ids": […]}.

    Of a conversation the first turn of its human is taken; conversations without one are left out.
    Raises ValueError that names file, line and what was expected.
    """
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no regular file")  # a device may have no end
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from error
    records = _whole(path, text) if text.lstrip().startswith("[") else _lines(path, text)
    prompts = tuple(prompt for prompt in (_prompt(place, record) for place, record in records) if prompt is not None)
    if not prompts:
        raise ValueError(f"{path}: no prompt in it; expected {EXPECTED}")
    return prompts


def _whole(path: Path, text: str) -> Iterable[tuple[str, Any]]:
    try:
        records = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error
    return [(f"{path}, entry {place}", record) for place, record in enumerate(records)]


def _lines(path: Path, text: str) -> Iterable[tuple[str, Any]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}, line {number}: {error}; expected {EXPECTED}") from error
        yield f"{path}, line {number}", record


def _prompt(place: str, record: Any) -> Prompt | None:
    """None for a conversation in which no human speaks. Raises ValueError for what is no prompt at all."""
    if isinstance(record, Mapping):
        turns = record.get("conversations", record.get("conversation"))
        if isinstance(turns, list):
            return _first_turn(turns)
        asked = record.get("prompt_token_ids", record.get("prompt"))
        if isinstance(asked, str) and asked:
            return Prompt(text=asked)
        if isinstance(asked, list) and asked and all(type(one) is int and one >= 0 for one in asked):
            return Prompt(ids=tuple(asked))
    raise ValueError(f"{place}: {json.dumps(record)[:100]} is no prompt; expected {EXPECTED}")


def _first_turn(turns: Sequence[Any]) -> Prompt | None:
    for turn in turns:
        if isinstance(turn, Mapping) and turn.get("from", turn.get("role")) in HUMANS:
            said = turn.get("value", turn.get("content"))
            return Prompt(text=said) if isinstance(said, str) and said else None
    return None


def make_unique(prompts: Sequence[Prompt], *, num: int, seed: int) -> tuple[Prompt, ...]:
    """`num` prompts, each with a prefix of its own drawn from `seed`, so that no prefix cache knows any of them.

    The same seed gives the same prompts; warm-up and measured part of one server need different ones.
    """
    coin = random.Random(seed)
    return tuple(_with_prefix(prompts[number % len(prompts)], coin) for number in range(num))


def _with_prefix(prompt: Prompt, coin: random.Random) -> Prompt:
    prefix = tuple(coin.randint(LOWEST_ID, HIGHEST_ID) for _ in range(NUM_PREFIX_IDS))
    ids = None if prompt.ids is None else (*prefix, *prompt.ids)
    text = None if prompt.text is None else f"{' '.join(map(str, prefix))}\n{prompt.text}"
    return Prompt(ids=ids, text=text)
