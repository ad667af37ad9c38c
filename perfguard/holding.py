"""A machine in hand for one campaign: nobody else measures on it, clocks as wished, telemetry beside every launch.

Joins machine/ with the launches. Must not judge what was seen: it goes into each trial's record.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from perfguard.machine.conditions import Around, conditions_json
from perfguard.machine.host_state import host_state
from perfguard.machine.locking import Clocks, hold_clocks, say_what_was_left, wish_of
from perfguard.machine.reading import readings_to_json
from perfguard.machine.telemetry import Telemetry, open_telemetry
from perfguard.machine.visible import Visible, visible_gpus
from perfguard.policy import stored_policy
from perfguard.records import Campaign, Trial


@dataclass(kw_only=True)
class InHand:
    """`visible`: environment of a trial -> the cards it may use."""

    telemetry: Telemetry = field(default_factory=Telemetry)
    clocks: Clocks = field(default_factory=Clocks)
    visible: Callable[[Mapping[str, str]], Visible] = lambda env: Visible(uuids=())
    all_cards: Sequence[str] = ()

    def watched(self, env: Mapping[str, str], launch: Callable[[], Sequence[Trial]]) -> tuple[Trial, ...]:
        """The trials of one launch, each with the conditions of that launch in its record."""
        cards, host_before = self.visible(env), readings_to_json(host_state())
        # Where it cannot be told which cards the trial uses, all are watched: one too many does no harm.
        self.telemetry.begin(self.all_cards if cards.uuids is None else cards.uuids)
        started_s = time.monotonic()
        try:
            trials = launch()
        finally:
            recording = self.telemetry.end()
        seen = trials[0].record
        around = Around(
            recording=recording,
            note=cards.why,
            zero_s=started_s + (seen.get("ready_s") or 0.0),
            is_ready=not seen.get("before_ready"),
            host_before=host_before,
            host_after=readings_to_json(host_state()),
            clocks=self.clocks.as_json(),
        )
        conditions = conditions_json(around)
        return tuple(replace(trial, record={**trial.record, "conditions": conditions}) for trial in trials)

    def look(self, env: Mapping[str, str], names: Sequence[str]) -> Mapping[str, Any]:
        """{uuid: {field: value}} of a trial's cards, now; empty where nothing can be read. Between launches only."""
        cards = self.visible(env)
        return self.telemetry.look(self.all_cards if cards.uuids is None else cards.uuids, names)


@contextmanager
def in_hand(
    campaign: Campaign, descriptor: int, command: str, say: Callable[[str], None], *, sm_mhz: int = 0
) -> Iterator[InHand]:
    """Clocks and telemetry for the `with` block. `descriptor`: the machine's lock, held.

    `sm_mhz`: the clock a calibration found; what the campaign asks for goes before it.
    """
    policy = stored_policy(campaign.policy)
    cards = cards_of(campaign.machine)
    visible = partial(visible_to, cards)
    say_what_was_left(descriptor, command, say)
    with (
        open_telemetry(has_gpu=bool(cards), say=say) as telemetry,
        hold_clocks(
            wish_of(policy.clocks),
            wanted_cards([visible({**os.environ, **arm.env}) for arm in campaign.arms]),
            policy.sm_clock_mhz or sm_mhz,
            machine=descriptor,
            command=command,
            say=say,
        ) as clocks,
    ):
        yield InHand(telemetry=telemetry, clocks=clocks, visible=visible, all_cards=cards)


def cards_of(machine: Mapping[str, Any]) -> tuple[str, ...]:
    """UUIDs of the cards in a machine's fingerprint; one that could not be read has none."""
    gpus = machine.get("gpu", {}).get("gpus", [])
    return tuple(gpu["uuid"] for gpu in gpus if gpu.get("uuid"))


def visible_to(cards: Sequence[str], env: Mapping[str, str]) -> Visible:
    """The cards a process with this environment may use. A slice is taken by the name it is given."""
    setting = env.get("CUDA_VISIBLE_DEVICES")
    named = (setting or "").partition(",")[0].strip()
    slices = {named: ""} if named.startswith("MIG-") else {}
    return visible_gpus(setting, cards, slices=slices, device_order=env.get("CUDA_DEVICE_ORDER", ""))


def wanted_cards(arms: Sequence[Visible]) -> Visible:
    """The cards whose clocks matter: those of any arm. Cards that nobody asked for are never changed on a guess."""
    unknown = [arm.why for arm in arms if arm.uuids is None]
    if unknown:
        return Visible(uuids=None, why=unknown[0])
    return Visible(uuids=tuple(sorted({uuid for arm in arms for uuid in arm.uuids or ()})))
