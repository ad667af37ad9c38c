"""The loads of a trial: rounds that warm up, and the one that is measured. Must not judge what was measured."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from runners.contract import ParamsError
from runners.engines import prompts
from runners.engines.dialect import Dialect
from runners.engines.measuring import check, measure
from runners.engines.params import EngineParams
from runners.engines.records import Endpoint, Load, Observation
from runners.engines.wires import find, refuse

# Two rounds whose token times differ by less than this are called one level: a choice, below what rounds vary by.
STEADY_SHARE = 0.02
# What a round's level is the time of, the first that is known: every answer has an end.
LEVELS = ("tpot_s", "e2e_s")
Level = tuple[str, float]
# So that prompts of the rounds of a warm-up are never those that are measured.
WARMUP_SEED, AGE_SEED = 1_000_003, 2_000_003


def load_of(params: EngineParams, dialect: Dialect, seed: int) -> Load:
    """What is measured. Raises ParamsError for one that makes no sense, or a file of prompts that cannot be used."""
    try:
        load = _load_of(params, dialect, seed)
        check(load)
        for prompt in load.prompts:
            refuse(find(params.wire or dialect.wire), prompt)
    except ValueError as error:
        raise ParamsError(str(error)) from error
    return load


def _load_of(params: EngineParams, dialect: Dialect, seed: int) -> Load:
    wire = find(params.wire or dialect.wire)
    as_text = params.text_prompts or not wire.takes_ids
    given = prompts.read_file(Path(params.prompt_file)) if params.prompt_file else None
    return Load(
        prompts=given or prompts.shipped(as_text=as_text, num_prompt_tokens=params.prompt_tokens),
        num_requests=params.requests,
        num_tokens=params.tokens,
        concurrency=params.concurrency,
        rate_per_s=params.rate_per_s,
        seed=seed,
        timeout_s=params.request_timeout_s,
        ignore_eos=params.ignore_eos and wire.takes_ignore_eos,
        realtime=params.realtime,
        max_wait_share=params.max_wait_share,
    )


def unique(load: Load, seed: int) -> Load:
    """The same with prompts that no prefix cache knows."""
    return replace(load, prompts=prompts.make_unique(load.prompts, num=load.num_requests, seed=seed))


def warm_up(
    endpoint: Endpoint, wire: str, load: Load, params: EngineParams, *, is_unique: bool
) -> tuple[dict[str, Any], Observation | None]:
    """Rounds of requests until the token times of two are one level, or as many as are allowed.

    Returns the record of the warm-up, and a round in which every request failed: there is nothing to measure then.
    """
    if not params.warmup_requests:
        return {"iterations": 0, "discarded": 0, "found": False}, None
    short: Load = replace(load, num_requests=max(params.warmup_requests, load.concurrency), rate_per_s=0.0)
    levels: list[Level] = []
    while len(levels) < params.warmup_rounds and not is_steady(levels):
        asked = unique(short, load.seed + WARMUP_SEED + len(levels)) if is_unique else short
        seen = measure(endpoint, wire, asked)
        if all(answer.error for answer in seen.answers):
            return warmup_record(short.num_requests, levels), seen
        levels.append(level_of(seen))
    return warmup_record(short.num_requests, levels), None


def is_steady(levels: Sequence[Level]) -> bool:
    """Whether the last two rounds were one level; a time per token and one per request are never compared."""
    if len(levels) < 2:
        return False
    (before, before_s), (name, seconds) = levels[-2:]
    return before == name and abs(seconds - before_s) <= STEADY_SHARE * seconds


def age(endpoint: Endpoint, wire: str, load: Load, seconds: float, *, is_unique: bool) -> Observation | None:
    """The load over and over for so long; the round under way when the time is up is ended. What servers slow down by
    with age (fragments, caches that fill) is then in what is measured.

    Returns a round in which every request failed, if there was one; ageing ends with it.
    """
    until_s = time.monotonic() + seconds
    number = 0
    while time.monotonic() < until_s:
        number += 1
        seen = measure(endpoint, wire, unique(load, load.seed + AGE_SEED + number) if is_unique else load)
        if all(answer.error for answer in seen.answers):
            return seen
    return None


def level_of(seen: Observation) -> Level:
    """Of a token; of a whole request where the server sends all tokens at once."""
    return next((name, seen.values[name]) for name in LEVELS if name in seen.values)


def warmup_record(num_requests: int, levels: Sequence[Level]) -> dict[str, Any]:
    """The record of rounds of `num_requests`: the seconds of each under the name of what they are the time of."""
    num = num_requests * len(levels)
    by_name = {name: [seconds for kind, seconds in levels if kind == name] for name, _ in levels}
    times_s = next(iter(by_name.values()), [])
    is_one_kind = len(by_name) == 1 and len(times_s) > 1
    return {
        "iterations": num,
        "discarded": num,
        "found": is_steady(levels),
        **by_name,
        "spread": statistics.pstdev(times_s) / statistics.fmean(times_s) if is_one_kind else None,
    }


def hint_of(error: str) -> str:
    """What to do, where ids of the shipped prompts are no tokens of the model."""
    is_vocabulary = "vocab" in error.lower()
    return "; prompts are sent as token ids: --set text_prompts=true sends text" if is_vocabulary else ""
