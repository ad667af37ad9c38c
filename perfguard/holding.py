"""A machine in hand for one campaign: nobody else measures on it, clocks as wished, telemetry beside every launch.

Joins machine/ with the launches. Must not judge what was seen: it goes into each trial's record.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from perfguard.machine.conditions import Around, conditions_json
from perfguard.machine.host_state import host_state
from perfguard.machine.locking import Clocks, hold_clocks, say_what_was_left, wish_of
from perfguard.machine.telemetry import Telemetry, open_telemetry
from perfguard.policy import stored_policy
from perfguard.records import Campaign, Trial


@dataclass(kw_only=True)
class InHand:
    """`uuids_of`: environment of a trial -> the cards it may use."""

    telemetry: Telemetry = field(default_factory=Telemetry)
    clocks: Clocks = field(default_factory=Clocks)
    uuids_of: Callable[[Mapping[str, str]], Sequence[str]] = lambda env: ()

    def watched(self, env: Mapping[str, str], launch: Callable[[], Sequence[Trial]]) -> tuple[Trial, ...]:
        """The trials of one launch, each with the conditions of that launch in its record."""
        host_before = host_state()
        self.telemetry.begin(self.uuids_of(env))
        started_s = time.monotonic()
        try:
            trials = launch()
        finally:
            recording = self.telemetry.end()
        seen = trials[0].record
        conditions = conditions_json(
            Around(
                recording=recording,
                zero_s=started_s + (seen.get("ready_s") or 0.0),
                is_ready=not seen.get("before_ready"),
                host_before=host_before,
                host_after=host_state(),
                clocks=self.clocks.as_json(),
            )
        )
        return tuple(replace(trial, record={**trial.record, "conditions": conditions}) for trial in trials)


@contextmanager
def in_hand(
    campaign: Campaign, descriptor: int, command: str, say: Callable[[str], None], *, sm_mhz: int = 0
) -> Iterator[InHand]:
    """Clocks and telemetry for the `with` block. `descriptor`: the machine's lock, held.

    `sm_mhz`: the clock a calibration found; what the campaign asks for goes before it.
    """
    policy = stored_policy(campaign.policy)
    gpus = campaign.machine.get("gpu", {}).get("gpus", [])
    say_what_was_left(descriptor, command, say)
    uuids_of = partial(visible_uuids, gpus)
    wanted = sorted({uuid for arm in campaign.arms for uuid in uuids_of({**os.environ, **arm.env})})
    with (
        open_telemetry(has_gpu=bool(gpus), say=say) as telemetry,
        hold_clocks(
            wish_of(policy.clocks), wanted, policy.sm_clock_mhz or sm_mhz, machine=descriptor, command=command, say=say
        ) as clocks,
    ):
        yield InHand(telemetry=telemetry, clocks=clocks, uuids_of=uuids_of)


def visible_uuids(gpus, env):
    return [g["uuid"] for g in gpus if g.get("uuid")]
