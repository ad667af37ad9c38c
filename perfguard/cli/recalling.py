"""`compare ID HEAD`: a stored run as base. Tells ids from revisions and reads the store; decides nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from perfguard.cli import options as o

if TYPE_CHECKING:
    from perfguard.campaign import Wish
    from perfguard.records import Workload

# As campaign.new_id makes them; no name of a branch looks like that by chance.
STORED_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}(:base|:head|-s\d+b\d+t\d+a\d+)?")


def recalled(name: str, db: str, repo: Path) -> tuple[Workload, Wish] | None:
    """Workload and base of the stored run `name`; None where it is no id. Raises UsageError, NotComparableError."""
    if not STORED_ID.fullmatch(name):
        return None
    from perfguard.recreate import recalled as from_store
    from perfguard.store import open_store

    with open_store(o.existing_database(db or str(o.database("", repo))), read_only=True) as store:
        campaign, wish = from_store(store, name)
    return campaign.workload, wish


def joined(stored: Wish, asked: Wish) -> Wish:
    """The stored run with what was asked for on top."""
    from dataclasses import replace

    env, params = {**stored.env, **asked.env}, {**stored.params, **asked.params}
    return replace(stored, env=env, params=params, python=asked.python or stored.python)
