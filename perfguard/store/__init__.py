"""results.db: everything that was observed. The only SQL and the only sqlite-utils of perfguard.

Must not judge, price or print: it keeps records exactly and gives them back exactly.
docs/database.md describes the tables for people who query the file themselves.
"""

from perfguard.store.bisects import BisectLink
from perfguard.store.results import Store, open_store
from perfguard.store.rows import CampaignOverview, StoredAge, StoredVerdict, TrialCosts

__all__ = ["BisectLink", "CampaignOverview", "Store", "StoredAge", "StoredVerdict", "TrialCosts", "open_store"]
