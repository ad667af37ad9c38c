"""`compare ID HEAD`: a stored run as base. Tells ids from revisions and reads the store; decides nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from perfguard.cli import options as o
from perfguard.cli.asking import WorkloadOptions, again, workload_of

if TYPE_CHECKING:
    from perfguard.campaign import Wish
    from perfguard.config import Config
    from perfguard.records import Workload

    Recalled = tuple[Workload, Wish]

# As campaign.new_id makes them; no name of a branch looks like that by chance.
STORED_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}(:base|:head|-s\d+b\d+t\d+a\d+)?")


def recalled(name: str, db: str, repo: Path) -> Recalled | None:
    """Workload and base of the stored run `name`; None where it is no id. Raises UsageError, NotComparableError."""
    if not STORED_ID.fullmatch(name):
        return None
    from perfguard.recreate import recalled as from_store
    from perfguard.store import open_store

    with open_store(o.existing_database(db or str(o.database("", repo))), read_only=True) as store:
        campaign, wish = from_store(store, name)
    return campaign.workload, wish


def chosen_workload(stored: Recalled | None, options: WorkloadOptions, config: Config) -> Workload:
    """As asked for; where nothing is, that of the stored run."""
    if stored is not None and not options.name and not options.command:
        return again(stored[0], options)
    return workload_of(options, config)


def with_stored(stored: Recalled | None, wishes: tuple[Wish, ...]) -> tuple[Wish, ...]:
    """The stored run as base, with what was asked for on top."""
    if stored is None:
        return wishes
    from dataclasses import replace

    (_, base), asked = stored, wishes[0]
    env, params = {**base.env, **asked.env}, {**base.params, **asked.params}
    return (replace(base, env=env, params=params, python=asked.python or base.python), *wishes[1:])
