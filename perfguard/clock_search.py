"""Which SM clock holds under this workload: a short search at the beginning of a calibration that may lock clocks.

Joins launches with the rule (machine/clock_rules.py). What it found is stored in the calibration and used by later
comparisons of the workload here.
"""

from dataclasses import asdict
from functools import partial
from typing import Any

from perfguard.experiment import Session
from perfguard.machine.clock_rules import LoadedClock, clocks_of_launch, next_candidate
from perfguard.machine.locking import Clocks

# The first is the card's highest clock, the second what it fell to; the rest are steps beside that.
MOST_LAUNCHES = 5
# Any clock above what cards have: the highest supported one is taken.
HIGHEST_MHZ = 100_000


def search_clock(session: Session) -> dict[str, Any] | None:
    """{"sm_mhz", "is_held", "tried": [...]}: the highest clock that every card held, now locked for what follows.

    None where nothing is to be searched: clocks are only observed, could not be locked, or one was given. Every launch
    is an unmeasured one of base, stored as such.
    """
    clocks, policy = session.launcher.machine.clocks, session.policy
    if policy.clocks == "observe" or policy.sm_clock_mhz or not clocks.are_locked:
        return None
    tried: list[dict[str, Any]] = []
    wanted: float | None = HIGHEST_MHZ
    while wanted is not None and len(tried) < MOST_LAUNCHES:
        mhz = _locked(clocks, int(wanted))
        if mhz == 0:
            return None
        session.observer.note(f"clock search: {mhz} MHz")
        seen = _launch(session, mhz)
        tried.append({"sm_mhz": mhz, "cards": [asdict(card) for card in seen]})
        wanted = next_candidate(mhz, seen)
    return _found(session, tried, wanted)


def _locked(clocks: Clocks, wanted_mhz: int) -> int:
    """Lock, and what became of it: the nearest supported clock at or below, of the fastest card; 0: no lock."""
    clocks.lock(wanted_mhz)
    return max((setting["sm_mhz"] for setting in clocks.told["gpus"].values()), default=0)


def _found(session: Session, tried: list[dict[str, Any]], wanted: float | None) -> dict[str, Any]:
    clocks = session.launcher.machine.clocks
    is_seen = all(attempt["cards"] for attempt in tried)
    if not is_seen:
        wanted = 0  # blind: the cautious rule
    mhz = tried[-1]["sm_mhz"] if wanted is None else _locked(clocks, int(wanted))
    is_held = is_seen and wanted is None
    words = "holds under this workload" if is_held else "was not seen to hold" if is_seen else "is locked unseen"
    session.observer.say(f"clocks: SM {mhz} MHz {words} ({len(tried)} launches)")
    return {"sm_mhz": mhz, "is_held": is_held, "tried": tried}


def _launch(session: Session, locked_mhz: int) -> list[LoadedClock]:
    base = session.campaign.arms[0]
    trial = session.run(partial(session.launcher.first_run, base, 1))
    return clocks_of_launch(trial.record.get("conditions", {}), locked_mhz)
