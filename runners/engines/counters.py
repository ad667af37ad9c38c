"""How long drafts were accepted: by request, or by differences of counters around the measured window. Pure.

Never a total since the server began: warm-up and whoever came before are in it. What is not told is unknown, never 0.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from runners.engines.dialect import CounterNames, RequestNames
from runners.engines.records import OTHER_CLIENTS, Answer, Reason
from runners.engines.wires import whole_number

# Further from what was asked for than this, a synthetic acceptance is not the one asked for.
SYNTHETIC_SHARE = 0.01
# A coin decides each cycle: what chance alone does in one launch of many thousand is no fault.
CHANCE_SDS = 4.0
# Requests of somebody else: beyond what the last tokens of requests that were given up can be.
FOREIGN_SHARE = 0.01


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """Accept length counts the bonus token. `definition`: what the engine's counters make of it.

    "tokens / verify": all tokens of the answers over verify steps, the first token (of prefill) included (SGLang).
    "1 + accepted / drafts": only steps for which something was drafted count (vLLM).
    """

    length: float
    definition: str
    cycles: int
    accepted: int | None = None
    drafted: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rate(self) -> float | None:
        return self.accepted / self.drafted if self.drafted and self.accepted is not None else None

    def counts(self) -> dict[str, Any]:
        named = {"cycles": self.cycles, "accepted": self.accepted, "drafted": self.drafted}
        known = {name: value for name, value in named.items() if value is not None}
        return {**known, "accept_length_is": self.definition, **self.more}


def by_request(answers: Sequence[Answer], names: RequestNames) -> Acceptance | None:
    """Sums over complete answers; None if one of them does not tell its verify steps, or none took any."""
    told = [answer for answer in answers if not answer.error and answer.num_tokens]
    cycles = [_count(answer.meta, names.cycles) for answer in told]
    whole = [count for count in cycles if count is not None]
    if not told or len(whole) < len(told) or not sum(whole):
        return None
    tokens = [answer.num_tokens or 0 for answer in told]
    return Acceptance(
        length=sum(tokens) / sum(whole),
        definition="tokens / verify",
        cycles=sum(whole),
        accepted=_sum([_count(answer.meta, names.accepted) for answer in told]),
        drafted=_sum([_count(answer.meta, names.drafted) for answer in told]),
        more={"emitted": sum(tokens), "emitted_by_prompt": tokens, "cycles_by_prompt": whole},
    )


def by_counter(before: str, after: str, names: CounterNames) -> Acceptance | None:
    """Differences of two texts of /metrics; None if the counters are not there or nothing was drafted."""
    first, last = totals(before), totals(after)
    if not {names.cycles, names.accepted} <= first.keys() & last.keys():
        return None
    cycles, accepted = (round(last[name] - first[name]) for name in (names.cycles, names.accepted))
    if cycles <= 0:
        return None
    drafted = round(last[names.drafted] - first[names.drafted]) if names.drafted in first.keys() & last.keys() else None
    return Acceptance(
        length=1 + accepted / cycles,
        definition="1 + accepted / drafts",
        cycles=cycles,
        accepted=accepted,
        drafted=drafted,
        more={"accepted_by_position": _by_position(before, after, names.accepted_by_position)},
    )


def sums(text: str, key_of: Callable[[Sample], str | None]) -> dict[str, float]:
    """Key -> sum of its samples in a Prometheus text. A sample without a key is left out, and so is one that is no
    number: nothing can be counted with it. Raises ValueError for a text of something else.
    """
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = key_of(sample)
            if key is not None and math.isfinite(sample.value):
                found[key] = found.get(key, 0.0) + float(sample.value)
    return found


def totals(text: str) -> dict[str, float]:
    """Sample name -> its sum over all labels; the names are whole, so that no `_created` is taken for a count."""
    return sums(text, lambda sample: None if "le" in sample.labels else sample.name)


def foreign_traffic(before: str, after: str, name: str, counted: int | None) -> Reason | None:
    """The server made more tokens in the window than this client got: somebody else asked it too."""
    first, last = totals(before), totals(after)
    if not name or counted is None or name not in last:
        return None
    made = last[name] - first.get(name, 0.0)
    if made <= counted * (1 + FOREIGN_SHARE):
        return None
    text = f"the server made {made:.0f} tokens while this client got {counted}: it served somebody else too"
    return Reason(code=OTHER_CLIENTS, text=text)


def off_synthetic(found: Acceptance, wanted: float, num_requests: int) -> Reason | None:
    """Whether a synthetic acceptance is what was asked for, by more than the ends of requests and chance explain.

    A request's first token is no cycle's, and its last cycle may have been cut: the length lies between both readings.
    """
    tokens = found.more.get("emitted", found.length * found.cycles)
    cut = num_requests if "emitted" in found.more else 0
    low, high = (tokens - cut) / found.cycles, (tokens + cut * (wanted - 1)) / found.cycles
    part = wanted % 1
    chance = CHANCE_SDS * (part * (1 - part) / found.cycles) ** 0.5
    slack = max(SYNTHETIC_SHARE * wanted, chance)
    if low - slack <= wanted <= high + slack:
        return None
    text = f"synthetic accept length is {found.length:.3f}, asked for was {wanted:g}: this engine does not do as asked"
    return Reason(code="synthetic_accept_length", text=text)


def _count(meta: Mapping[str, Any], names: Sequence[str]) -> int | None:
    """The first of these keys that is there and holds a whole number."""
    return whole_number(next((meta[name] for name in names if name in meta), None))


def _sum(counts: Sequence[int | None]) -> int | None:
    whole = [count for count in counts if count is not None]
    return sum(whole) if whole and len(whole) == len(counts) else None


def _by_position(before: str, after: str, name: str) -> list[int]:
    def place_of(sample: Sample) -> str | None:
        return str(sample.labels.get("position", "")) if sample.name == name else None

    first, last = sums(before, place_of), sums(after, place_of)
    return [round(last[place] - first.get(place, 0.0)) for place in sorted(filter(str.isdigit, last), key=int)]
