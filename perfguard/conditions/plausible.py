"""Values that cannot be: they make their field invalid, never the trial. Pure.

A sensor in its last breath repeats its last value, and broken firmware reports power no supply could deliver. Who
judges a machine by such a field judges noise.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from perfguard.conditions.readings import GpuRecord, Recorded, number, recorded
from perfguard.records import Trial

# Averages over a second stay at the enforced limit; single instants overshoot while the regulator reacts.
MAX_AVERAGE_OF_LIMIT = 1.25
MAX_INSTANT_OF_LIMIT = 2.0
# Boost tables are rounded to steps of 15 MHz.
MAX_CLOCK_OF_MAXIMUM = 1.02
# Outside of this no silicon computes.
TEMPERATURES_C = (1.0, 130.0)
# A field that stands still over so many launches, idle and loaded, is not being measured.
FROZEN_TRIALS = 4
MOVING = ("power_average_w", "power_instant_w", "temperature_c")
LOADED_PERCENT = 30.0
# Load that a trial puts on a card that it works on, beyond what was there before its launch.
USED_PERCENT, USED_W = 10.0, 30.0


def read_trials(trials: Sequence[Trial]) -> list[Recorded]:
    """Those with conditions, with every field marked that cannot be believed, and every card that nobody used."""
    found = [one for trial in trials if (one := read_trial(trial)).conditions]
    by_card: dict[str, list[GpuRecord]] = defaultdict(list)
    for gpu in (gpu for one in found for gpu in one.gpus):
        by_card[gpu.uuid].append(gpu)
    frozen = {uuid: frozen_fields(gpus) for uuid, gpus in by_card.items()}
    used = {uuid: is_used(gpus) for uuid, gpus in by_card.items()}

    def marked(gpu: GpuRecord) -> GpuRecord:
        return replace(_marked(gpu, frozen[gpu.uuid]), is_used=used[gpu.uuid])

    return [replace(one, gpus=tuple(map(marked, one.gpus))) for one in found]


def is_used(of_one_card: Sequence[GpuRecord]) -> bool:
    """Whether any trial put load on the card: more utilisation or power than before its launch. True if unknown.

    A card that only others use shows theirs before a launch as well as during it.
    """
    rises = [_rises(gpu) for gpu in of_one_card]
    return any(rises) or all(rise is None for rise in rises)


def _rises(gpu: GpuRecord) -> bool | None:
    steps = (("utilisation_percent", USED_PERCENT), ("power_average_w", USED_W))
    pairs = [(gpu.number("before", name), gpu.seen_max(name), least) for name, least in steps]
    known = [loaded - before >= least for before, loaded, least in pairs if before is not None and loaded is not None]
    return any(known) if known else None


def read_trial(trial: Trial) -> Recorded:
    one = recorded(trial)
    return replace(one, gpus=tuple(map(with_doubts, one.gpus)))


def _marked(gpu: GpuRecord, doubts: Mapping[str, str]) -> GpuRecord:
    return replace(gpu, doubtful={**gpu.doubtful, **doubts}) if doubts else gpu


def with_doubts(gpu: GpuRecord) -> GpuRecord:
    """The card with fields marked whose values of this one trial cannot be."""
    return _marked(gpu, _impossible(gpu))


def _impossible(gpu: GpuRecord) -> dict[str, str]:
    found: dict[str, str] = {}
    limits = (
        ("power_average_w", gpu.either("power_limit_w"), MAX_AVERAGE_OF_LIMIT, "W", "its limit of"),
        ("power_instant_w", gpu.either("power_limit_w"), MAX_INSTANT_OF_LIMIT, "W", "its limit of"),
        ("sm_clock_mhz", gpu.either("sm_clock_max_mhz"), MAX_CLOCK_OF_MAXIMUM, "MHz", "its maximum of"),
        ("utilisation_percent", 100.0, 1.0, "%", ""),
    )
    for name, limit, factor, unit, words in limits:
        highest = max(_values(gpu, name), default=None)
        if limit and highest is not None and highest > factor * limit:
            found[name] = f"{highest:g} {unit} is above {words} {limit:g} {unit}".replace("  ", " ")
    low, high = TEMPERATURES_C
    if odd := [value for value in _values(gpu, "temperature_c") if not low <= value <= high]:
        found["temperature_c"] = f"{odd[0]:g} °C is no temperature of a working card"
    return found


def frozen_fields(of_one_card: Sequence[GpuRecord]) -> dict[str, str]:
    """Fields that gave one single value, idle and loaded, in all trials of a card that worked in them."""
    if len(of_one_card) < FROZEN_TRIALS or not all(map(_is_loaded, of_one_card)):
        return {}
    found = {}
    for name in MOVING:
        values = {value for gpu in of_one_card for value in _values(gpu, name)}
        # One reading a trial proves nothing: idle and loaded must both be there.
        is_seen_loaded = all(len(_values(gpu, name)) > 1 for gpu in of_one_card)
        if len(values) == 1 and is_seen_loaded:
            found[name] = f"exactly {values.pop():g} in {len(of_one_card)} trials, idle and under load"
    return found


def _is_loaded(gpu: GpuRecord) -> bool:
    return (gpu.seen_max("utilisation_percent") or 0.0) >= LOADED_PERCENT


def _values(gpu: GpuRecord, name: str) -> list[float]:
    plain = [gpu.before.get(name), gpu.after.get(name), *(value for _, value in gpu.series.get(name, ()))]
    return [found for value in plain if (found := number(value)) is not None]
