"""What the store answers beside the records: summaries of stored rows. No SQL here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class CampaignOverview:
    """One line of `perfguard runs`. `outcome` is that of the latest verdict, "" while there is none."""

    id: str
    kind: str
    created_at: str
    status: str
    workload: str
    scope: str
    repository: str
    base: str = ""
    base_commit: str = ""
    head: str = ""
    head_commit: str = ""
    outcome: str = ""
    num_blocks: int = 0
    num_ok: int = 0
    num_invalid: int = 0
    num_crashed: int = 0
    num_timed_out: int = 0


@dataclass(frozen=True, kw_only=True)
class MachineOverview:
    """A machine that campaigns were measured on. `id`: digest of its fingerprint, `facts`."""

    id: str
    num_campaigns: int
    first_at: str
    last_at: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class StoredVerdict:
    """A judgement as it was made: by which perfguard, when (UTC), and the whole of it."""

    number: int
    created_at: str
    perfguard: str
    outcome: str
    document: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class StoredAge:
    """A campaign as `prune` sees it. `touched_at`: last planned, measured (while running), extended or judged.

    `is_decided`: a verdict of it said something. `is_named`: another table of the file rests on it.
    `samples_bytes` as they lie in the file, `log_bytes` the ends of failed trials' logs; `may_have_telemetry` judges by
    one of its trials.
    """

    id: str
    kind: str
    touched_at: str
    is_decided: bool
    is_named: bool
    may_have_telemetry: bool = False
    samples_bytes: int = 0
    log_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class TrialCosts:
    """What the valid trials of one stored campaign took, for the price list.

    `load_s` is wall time less the measured part. `noise[metric]` is the standard deviation of the logarithm
    of a value between two trials of one side in one block, pooled over blocks: drift over the campaign is
    not in it. A metric without such a pair, or with a value that has no logarithm, is absent.
    """

    campaign: str
    created_at: str
    num_trials: int
    load_s: float
    measured_s: float
    longest_load_s: float
    longest_measured_s: float
    noise: Mapping[str, float]
