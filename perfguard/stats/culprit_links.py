"""What leads into a search and out of it: a stored comparison as first readings, and whether one culprit explains all.

Pure. Turns positions of one search into those of the next; never decides who is to blame.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from perfguard.policy import Policy
from perfguard.records import BlockValues, Metric
from perfguard.stats.culprit_records import Confirmation, Reading, SearchSetup
from perfguard.stats.effects import series

# Blocks a stage may take when it confirms a culprit: there is a culprit to be had already, and machines with modes
# need the length (docs/decisions/0004-bisect.md). Up to 14 blocks the order test lists every order.
CONFIRM_BLOCKS = 14
# A block effect is a difference of two means of two launches; a reading is a difference of two launches.
BLOCK_SD = sqrt(0.5)
# Standard errors that the unexplained rest must exceed, beside the smallest change looked for.
REST_SES = 1.0


@dataclass(frozen=True, kw_only=True)
class NextSearch:
    """A further search beside a culprit that does not explain everything.

    Its position 0 is position `start` of the search before it. Readings that still hold in it are kept, at no cost.
    """

    setup: SearchSetup
    start: int
    readings: tuple[Reading, ...] = ()


def readings_of_blocks(setup: SearchSetup, metric: Metric, blocks: Sequence[BlockValues]) -> tuple[Reading, ...]:
    """Blocks of a stored comparison of GOOD (base) with BAD (head) as readings of BAD that cost nothing now."""
    effects = series(metric, blocks).effects if blocks else np.zeros(0)
    return tuple(
        Reading(position=setup.num_candidates, log_slowdown=float(effect), trials=0, relative_sd=BLOCK_SD)
        for effect in effects
    )


def confirm_policy(policy: Policy) -> Policy:
    """The policy under which a culprit is compared with its parent: the same promise, more patience."""
    return replace(
        policy,
        max_blocks=max(policy.max_blocks, CONFIRM_BLOCKS),
        max_confirm_blocks=max(policy.max_confirm_blocks, CONFIRM_BLOCKS),
        is_confirmed=True,
    )


def unexplained(setup: SearchSetup, readings: Sequence[Reading], found: Confirmation) -> float | None:
    """Log slowdown of BAD against GOOD that a confirmed culprit (`found`) leaves over; None where it explains all.

    BAD's slowdown is the median of its readings. Something is left where it differs from the culprit's by at least
    the smallest change looked for, and by a standard error of the difference.
    """
    at_bad = [reading for reading in readings if reading.position == setup.num_candidates]
    if not at_bad:
        return None
    rest = float(np.median([reading.log_slowdown for reading in at_bad])) - found.log_slowdown
    se = sqrt(2 * setup.launch_sd**2 / len(at_bad) + found.se**2)
    return rest if abs(rest) >= max(setup.smallest, REST_SES * se) else None


def next_searches(
    setup: SearchSetup, readings: Sequence[Reading], culprit: int, found: Confirmation
) -> tuple[NextSearch, ...]:
    """Where else to look after a confirmed culprit: before it and behind it, () where it explains everything.

    Before it, readings of GOOD..culprit-1 still hold. Behind it, the culprit is the new GOOD and nothing was read
    against it yet.
    """
    if unexplained(setup, readings, found) is None:
        return ()
    before = NextSearch(
        setup=_part(setup, 0, culprit - 1),
        start=0,
        readings=tuple(replace(r, trials=0) for r in readings if r.position < culprit),
    )
    behind = NextSearch(setup=_part(setup, culprit, setup.num_candidates), start=culprit)
    return tuple(search for search in (before, behind) if search.setup.num_candidates > 0)


def _part(setup: SearchSetup, start: int, end: int) -> SearchSetup:
    """The same search over the candidates behind `start` up to `end`, both directions, with orders of its own."""
    weights = setup.weights[start:end]
    return replace(
        setup,
        num_candidates=end - start,
        look_for="any",
        weights=weights if any(weights) else (),
        seed=setup.seed + 1 + start,
    )
