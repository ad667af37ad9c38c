"""Samples of a sensor -> what they are worth: copies collapsed, a frozen sensor told apart, means over time. Pure.

A sensor that is read more often than it is renewed gives copies. They are no further measurements, so nothing here
counts samples: values hold until the next change. Must not read any sensor.

`Track` is for the sampler, `within` and `time_quantile` judge whether a clock held. The others (`distinct_samples`,
`update_period_s`, `is_frozen`, `time_mean`) are for looking at logs (smi_log.py): how often a sensor is renewed, and
whether it moves at all. No verdict uses them; conditions/plausible.py finds frozen sensors over trials.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

# A sensor that did not change over so many samples of a loaded card is not measuring: on a loaded card neither power
# nor temperature stands still for ten seconds of ten samples.
FROZEN_SAMPLES = 100

Sample = tuple[float, Any]


def distinct_samples(times_s: Sequence[float], values: Sequence[Any]) -> list[Sample]:
    """(time, value) where the value is another one than just before, the first included. Raises ValueError."""
    pairs = list(zip(times_s, values, strict=True))
    return [pair for k, pair in enumerate(pairs) if k == 0 or pair[1] != pairs[k - 1][1]]


def update_period_s(samples: Sequence[Sample]) -> float | None:
    """Median time between changes of a busy sensor: how often it is renewed. None from fewer than two gaps.

    `samples`: distinct ones. An upper bound where the sensor was renewed with an equal value.
    """
    gaps = [later[0] - earlier[0] for earlier, later in pairwise(samples)]
    return median(gaps) if len(gaps) > 1 else None


def is_frozen(values: Sequence[Any], *, num_samples: int | None = None) -> bool:
    """True if a sensor never moved over enough samples; whether the card was loaded is for the caller to know.

    `values` may be collapsed already: then `num_samples` says how many there were.
    """
    count = len(values) if num_samples is None else num_samples
    return count >= FROZEN_SAMPLES and all(value == values[0] for value in values)


def within(samples: Sequence[Sample], from_s: float, until_s: float) -> list[Sample]:
    """The part of collapsed samples in [from_s, until_s); the value that held at `from_s` begins there."""
    first = max(0, bisect_right(samples, from_s, key=lambda sample: sample[0]) - 1)
    return [(max(time_s, from_s), value) for time_s, value in samples[first:] if time_s < until_s]


def time_mean(samples: Sequence[Sample], until_s: float) -> float | None:
    """Mean over time of collapsed numbers, each of which holds until the next. None where no time passed."""
    shares = _shares(samples, until_s)
    total_s = sum(share for share, _ in shares)
    return sum(share * value for share, value in shares) / total_s if total_s > 0 else None


def time_quantile(samples: Sequence[Sample], until_s: float, share: float) -> float | None:
    """The value that collapsed numbers stay at or below for `share` of the time. None where no time passed."""
    shares = sorted(_shares(samples, until_s), key=lambda pair: float(pair[1]))
    total_s, passed_s = sum(held_s for held_s, _ in shares), 0.0
    if total_s <= 0:
        return None
    for held_s, value in shares:
        passed_s += held_s
        if passed_s >= share * total_s:
            return float(value)
    return float(shares[-1][1])


def _shares(samples: Sequence[Sample], until_s: float) -> list[tuple[float, Any]]:
    """(seconds, value) of every number among the samples; what could not be read holds no time."""
    ends = [time_s for time_s, _ in samples[1:]] + [until_s] * bool(samples)
    pairs = [(max(0.0, end - time_s), value) for (time_s, value), end in zip(samples, ends, strict=True)]
    return [(held_s, value) for held_s, value in pairs if isinstance(value, int | float)]


@dataclass(kw_only=True)
class Track:
    """What a sampler keeps of one field: changes only, and of a long trial no more than `room` of them.

    When the room is used up every second change is forgotten and from then on changes closer than twice the last
    spacing are too, so that a night needs no more room than a minute; `least` and `most` forget nothing.
    """

    room: int
    spacing_s: float = 0.0
    changes: list[Sample] = field(default_factory=list)
    least: float | None = None
    most: float | None = None

    def add(self, time_s: float, value: Any) -> None:
        if isinstance(value, int | float):
            self.least = value if self.least is None else min(self.least, value)
            self.most = value if self.most is None else max(self.most, value)
        if self.changes and (value == self.changes[-1][1] or time_s - self.changes[-1][0] < self.spacing_s):
            return
        self.changes.append((time_s, value))
        if len(self.changes) > self.room:
            self._make_room()

    def _make_room(self) -> None:
        span_s = self.changes[-1][0] - self.changes[0][0]
        self.spacing_s = max(2 * self.spacing_s, 2 * span_s / len(self.changes))
        self.changes = self.changes[::2]
