"""Readings of one search: two adjacent launches, GOOD and a candidate, in an order drawn and stored before they run."""

import random
from dataclasses import dataclass, replace
from functools import partial

from perfguard.bisection.builds import ANCHOR, Prepared, Workshop
from perfguard.bisection.state import STAGE, Standing, Stored, open_pair, setup_of, standing
from perfguard.experiment import Session, longest_pause_s
from perfguard.judging import last_attempts
from perfguard.records import PairPlan, Trial
from perfguard.stats.culprit import is_anchor_first


@dataclass(kw_only=True)
class Search:
    """One process searching. `stored` mirrors what lies in the database."""

    stored: Stored
    session: Session
    workshop: Workshop

    def refresh(self) -> Standing:
        """What all that is stored by now says."""
        known = tuple(self.workshop.known[position] for position in sorted(self.workshop.known))
        self.stored = replace(self.stored, builds=known, trials=tuple(self.session.trials))
        return standing(self.stored)


def read_next(search: Search, position: int) -> None:
    """One more reading of `position`, or the knowledge that it cannot be measured."""
    pair = open_pair(search.stored) or _draw(search.stored, position)
    workshop = search.workshop
    if not (workshop.prepare(ANCHOR) and workshop.prepare_like(pair.position)):
        return
    if pair not in search.stored.pairs:
        search.session.store.add_pair(search.stored.campaign.id, pair)
        search.stored = replace(search.stored, pairs=(*search.stored.pairs, pair))
    _measure(search, pair)


def _draw(stored: Stored, position: int) -> PairPlan:
    """The coin and the pauses of the next reading, from the seed and its number."""
    number = len(stored.pairs)
    pauses = random.Random(f"bisect pauses {stored.campaign.seed} {number}")
    return PairPlan(
        number=number,
        position=position,
        order="AB" if is_anchor_first(setup_of(stored), number) else "BA",
        pauses=(pauses.random(), pauses.random()),
    )


def _measure(search: Search, pair: PairPlan) -> None:
    """Both launches; ends with the first that gives no value.

    What an interruption left of the pair is measured again: a reading is worth what it is because its two launches
    stand next to each other, on one machine as it was then.
    """
    session = search.session
    before = last_attempts(session.trials)
    for slot, letter in enumerate(pair.order):
        earlier = before.get((STAGE, pair.number, slot))
        place = search.workshop.place(ANCHOR if letter == "A" else pair.position)
        launch = partial(_launch, session, place, pair.number, slot)
        attempt = 0 if earlier is None else earlier.attempt + 1
        if session.run(launch, pair.pauses[slot] * longest_pause_s(session), attempt).status != "ok":
            return


def _launch(session: Session, place: Prepared, number: int, slot: int, attempt: int) -> Trial:
    return session.launcher.measure_in(place.arm, place.number, block=number, slot=slot, attempt=attempt)
