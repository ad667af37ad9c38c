"""The conditions of one trial as numbers that may be missing. Pure; knows the layout of the record and judges nothing.

`trial.record["conditions"]` holds, by GPU and for the host, readings before and after the launch, and during it
pairs of seconds (from the moment the trial was ready) and value, equal neighbours collapsed. A reading is a plain
value, or {"unknown": status, "why": text}: missing is None here and never 0.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from perfguard.machine.event_reasons import IDLE
from perfguard.records import Trial

When = Literal["before", "after"]
# From, until and value, in seconds and the unit of the field.
Piece = tuple[float, float, float]
# Below so many percent of utilisation a card does not work; clocks may be anything then.
WORKING_PERCENT = 10.0
# What a card says that has fallen off the bus.
LOST = ("gpu is lost", "gpu_is_lost", "fallen off the bus")


@dataclass(frozen=True, kw_only=True)
class GpuRecord:
    """One card in one trial. `doubtful`: field -> why its values cannot be; such a field reads as unknown.

    `is_used`: this campaign's trials work on it; a trial may see cards that it leaves alone.
    """

    uuid: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    series: Mapping[str, Sequence[tuple[float, Any]]]
    end_s: float
    doubtful: Mapping[str, str] = field(default_factory=dict)
    is_used: bool = True

    def at(self, when: When, name: str) -> Any:
        """Any plain value: a number, a text, a list; None where unknown."""
        reading = (self.before if when == "before" else self.after).get(name)
        return None if name in self.doubtful or is_unknown(reading) else reading

    def number(self, when: When, name: str) -> float | None:
        return number(self.at(when, name))

    def either(self, name: str) -> float | None:
        """The reading before, else the one after: for what does not change."""
        found = self.number("before", name)
        return self.number("after", name) if found is None else found

    def increment(self, name: str) -> float | None:
        """How far a counter went on during the trial; None where unknown or where it began again from zero."""
        first, last = self.number("before", name), self.number("after", name)
        return None if first is None or last is None or last < first else last - first

    @cached_property
    def busy(self) -> tuple[Piece, ...]:
        """When the card worked, as (from, until, 1.0) in seconds, at most from the ready moment to the end.

        A command is ready as soon as it starts, so much of its time may pass before the card has anything to do: while
        the driver says idle, or utilisation is next to nothing, there is no load. Where neither is known all counts.
        """
        whole = [(0.0, self.end_s, 1.0)] if self.end_s > 0 else []
        for name, is_busy in (("event_reasons", _is_awake), ("utilisation_percent", _is_working)):
            if any(value is not None for _, _, value in self._pieces(name)):
                spans = [(start, end, 1.0) for start, end, v in self._pieces(name) if v is None or is_busy(v)]
                whole = _clipped(whole, spans)
        return tuple(whole)

    @property
    def busy_s(self) -> float:
        return math.fsum(end - start for start, end, _ in self.busy)

    def under_load(self, name: str) -> list[tuple[float, float]]:
        """(seconds, value) pieces while the card worked: each value holds until the next one."""
        return [(end - start, value) for start, end, value in _clipped(self._known(name), self.busy)]

    def seen_max(self, name: str) -> float | None:
        """From the ready moment on, whether the card worked or not."""
        within = _clipped(self._known(name), [(0.0, self.end_s, 1.0)])
        return max((value for _, _, value in within), default=None)

    def seen_early(self, name: str, from_s: float, until_s: float) -> float | None:
        """The largest value within these seconds, counted from the first sample; None where nothing was sampled."""
        pieces = self._known(name)
        zero_s = pieces[0][0] if pieces else 0.0
        within = _clipped(pieces, [(zero_s + from_s, zero_s + until_s, 1.0)])
        return max((value for _, _, value in within), default=None)

    def _known(self, name: str) -> list[Piece]:
        return [(start, end, value) for start, end, value in self._pieces(name) if value is not None]

    def _pieces(self, name: str) -> list[tuple[float, float, float | None]]:
        if name in self.doubtful:
            return []
        known = [(t, number(value)) for t, value in self.series.get(name, ())]
        ends = [*(t for t, _ in known[1:]), *([max(self.end_s, known[-1][0])] if known else [])]
        return [(t, end, value) for (t, value), end in zip(known, ends, strict=True)]

    def loaded_mean(self, name: str) -> float | None:
        pieces = self.under_load(name)
        total_s = math.fsum(length for length, _ in pieces)
        return math.fsum(length * value for length, value in pieces) / total_s if total_s else None

    @cached_property
    def link(self) -> dict[str, float]:
        """The best PCIe generation and width under load: an idle card shows generation 1 and means nothing by it."""
        found = {"generation": self.loaded_max("pcie_generation"), "width": self.loaded_max("pcie_width")}
        return {part: value for part, value in found.items() if value is not None}

    def loaded_max(self, name: str) -> float | None:
        return max((value for _, value in self.under_load(name)), default=None)


def _is_awake(mask: float) -> bool:
    return not int(mask) & IDLE


def _is_working(percent: float) -> bool:
    return percent >= WORKING_PERCENT


def _clipped(pieces: Sequence[Piece], spans: Sequence[Piece]) -> list[Piece]:
    """The parts of `pieces` that lie within `spans`."""
    found = [(max(a, c), min(b, d), value) for a, b, value in pieces for c, d, _ in spans if a < d and c < b]
    return [(start, end, value) for start, end, value in found if end > start]


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A trial with its conditions read: `conditions` is empty where none were recorded."""

    trial: Trial
    conditions: Mapping[str, Any]
    gpus: tuple[GpuRecord, ...]


def recorded(trial: Trial) -> Recorded:
    return Recorded(trial=trial, conditions=conditions_of(trial.record) or {}, gpus=tuple(gpus_in(trial)))


def start_temperatures(trial: Trial) -> dict[str, float]:
    """uuid -> degrees C before the launch, where known."""
    found = {gpu.uuid: gpu.number("before", "temperature_c") for gpu in gpus_in(trial)}
    return {uuid: degrees for uuid, degrees in found.items() if degrees is not None}


def conditions_of(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """None for a trial of a perfguard that recorded none."""
    found = record.get("conditions")
    return found if isinstance(found, Mapping) else None


def gpus_in(trial: Trial) -> list[GpuRecord]:
    """The cards of a trial by UUID. Load lasts from the ready moment as long as the trial measured."""
    conditions = conditions_of(trial.record) or {}
    # Instances of one process share a launch, and each has only its part of the time.
    measured_s = 0.0 if "launch" in trial.record else trial.measured_s
    return [_gpu(uuid, one, measured_s) for uuid, one in sorted(conditions.get("gpus", {}).items())]


def _gpu(uuid: str, one: Mapping[str, Any], measured_s: float) -> GpuRecord:
    during = one.get("during") or {}
    series = {name: [(float(t), value) for t, value in pairs] for name, pairs in during.get("fields", {}).items()}
    first_s = min((pairs[0][0] for pairs in series.values() if pairs), default=0.0)
    num_ticks = int(during.get("num_samples", 0)) + int(during.get("missed", 0))
    # Collapsing hides when the last value was last seen; the count of samples tells.
    until_s = float(during.get("until_s", first_s + num_ticks * float(during.get("interval_s", 0.0))))
    end_s = min(until_s, measured_s) if measured_s > 0 else until_s
    return GpuRecord(
        uuid=uuid, before=one.get("before") or {}, after=one.get("after") or {}, series=series, end_s=end_s
    )


def host_of(conditions: Mapping[str, Any], when: When, name: str) -> Any:
    reading = (conditions.get("host", {}).get(when) or {}).get(name)
    return None if is_unknown(reading) else reading


def host_increment(conditions: Mapping[str, Any], name: str) -> float | None:
    first, last = number(host_of(conditions, "before", name)), number(host_of(conditions, "after", name))
    return None if first is None or last is None or last < first else last - first


def is_unknown(reading: Any) -> bool:
    return reading is None or (isinstance(reading, Mapping) and "unknown" in reading)


def number(value: Any) -> float | None:
    """A finite number, else None; a truth value is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def unknowns(gpu: GpuRecord) -> Iterator[tuple[str, str, str]]:
    """(field, status, why) of everything that could not be read before or after."""
    seen: dict[str, tuple[str, str, str]] = {}
    for readings in (gpu.before, gpu.after):
        for name, reading in readings.items():
            if isinstance(reading, Mapping) and "unknown" in reading:
                seen.setdefault(name, (name, str(reading["unknown"]), str(reading.get("why", ""))))
    return iter(seen.values())


def is_lost(gpu: GpuRecord) -> bool:
    return any(word in why.lower() for _, _, why in unknowns(gpu) for word in LOST)
