"""results.db: everything that was observed. The only SQL and the only sqlite-utils of perfguard.

Must not judge, price or print: it keeps records exactly and gives them back exactly.
docs/database.md describes the tables for people who query the file themselves.
"""

from perfguard.store.bisects import BisectLink
from perfguard.store.nightbook import NightBook
from perfguard.store.nights import Ack, NightRun, NightValue, Pin, StoredNight, Suspicion
from perfguard.store.results import Store, open_store
from perfguard.store.rows import CampaignOverview, MachineOverview, StoredAge, StoredVerdict, TrialCosts

__all__ = [
    "Ack",
    "BisectLink",
    "CampaignOverview",
    "MachineOverview",
    "NightBook",
    "NightRun",
    "NightValue",
    "Pin",
    "Store",
    "StoredAge",
    "StoredNight",
    "StoredVerdict",
    "Suspicion",
    "TrialCosts",
    "open_store",
]
