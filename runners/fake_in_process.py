"""Runner fake with several planned instances in one launch: what the process does, all of them share."""

import random
import time
from pathlib import Path
from typing import Any

from runners import fake
from runners.contract import Launch, Measurement, announce_ready
from runners.fake import FakeParams


def run(launch: Launch) -> Measurement:
    """Raises what fake.run raises. A crash or hang that one subject plans strikes all, since they are one process."""
    roots = [Path(root) for root in launch.spec.slots]
    plans = [fake.read_plan(launch, root) for root in roots]
    key = f"{launch.spec.seed}/{launch.spec.place}"
    coin = random.Random(key)
    is_struck = [coin.random() < plan.crash_probability and plan.fault_rank in (-1, launch.rank) for plan in plans]
    time.sleep(sum(plan.load_s for plan in plans))
    for plan, is_hit in zip(plans, is_struck, strict=True):
        fake.fail("before", plan, is_struck=is_hit)
    state = fake.state_factor(plans[0], launch)
    own = fake.instance_factors(plans, coin)
    # One coin for the process, read anew for each plan: the same luck, by each side's own settings.
    factors = [
        f * state * fake.process_factor(plan, random.Random(f"{key}/process"))
        for f, plan in zip(own, plans, strict=True)
    ]
    load_s = announce_ready(launch)
    begin = time.perf_counter()
    time.sleep(sum(plan.measured_s for plan in plans))
    for plan, is_hit in zip(plans, is_struck, strict=True):
        fake.fail("measured", plan, is_struck=is_hit)
    slots = [
        observe_slot(launch, *slot, coin) for slot in zip(roots, own_modes(launch), plans, factors, strict=True)
    ]
    measured_s = time.perf_counter() - begin
    return Measurement(slots=slots, load_s=load_s, measured_s=measured_s, versions={"torch": None})


def own_modes(launch: Launch) -> list[tuple[str, ...]]:
    """By slot: all modes of the launch, or the one of its own."""
    spec = launch.spec
    return [(mode,) for mode in spec.slot_modes] or [spec.modes] * len(spec.slots)


def observe_slot(
    launch: Launch, root: Path, modes: tuple[str, ...], plan: FakeParams, factor: float, coin: random.Random
) -> dict[str, Any]:
    """What protocol.SLOT_FIELDS names; numbers on rank 0 only."""
    return {
        "origin": fake.plan_origin(root),
        "digests": fake.digests(plan, modes),
        "measured_s": plan.measured_s,
        **(fake.numbers(plan, modes, factor, coin) if launch.is_first else {}),
    }
