"""`judge`: trials measured elsewhere, from a CSV file to a comparison. Reads one file, stores nothing."""

import csv
import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perfguard.comparison import comparison_json
from perfguard.errors import UsageError
from perfguard.policy import Policy
from perfguard.records import Arm, Better, BlockValues, Campaign, Decision, Metric, Revision, Trial, Workload
from perfguard.stats.judge import NEXT_STEP, judge_rows
from perfguard.stats.sentences import sentence

WEAKER = "the orders were not drawn by perfguard and nothing is known of the machine: the promise is weaker"

MAX_CHARACTERS = 64 * 2**20


def judge_file(path: Path, policy: Policy, better: Better) -> tuple[dict[str, Any], list[Trial]]:
    """The comparison as JSON and its trials. Raises UsageError naming file and line."""
    raw = _read(path)
    try:
        decision, blocks = judge_rows(policy, list(csv.DictReader(raw.splitlines())), better=better)
    except UsageError as error:
        raise UsageError(f"{path}: {error}", error.next_step) from error
    campaign = _campaign(path, raw, policy, [result.metric for result in decision.metrics])
    trials = [trial for block in blocks for trial in _trials(block)]
    return _comparison(campaign, decision, blocks, trials), trials


def _read(path: Path) -> str:
    try:
        # Bounded: a device never ends.
        with open(path, encoding="utf-8-sig") as stream:
            raw = stream.read(MAX_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as UTF-8 text: {error}", NEXT_STEP) from error
    if len(raw) > MAX_CHARACTERS:
        raise UsageError(f"{path} holds more than {MAX_CHARACTERS // 2**20} million characters", NEXT_STEP)
    return raw


def _campaign(path: Path, raw: str, policy: Policy, metrics: Sequence[Metric]) -> Campaign:
    digest = hashlib.sha256(raw.encode()).hexdigest()
    nowhere = Revision(name=path.name, commit="", tree="")
    return Campaign(
        id=f"judge-{digest[:12]}",
        kind="judge",
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        workload=Workload(name="judge", runner="command", metrics=tuple(metrics)),
        arms=(Arm(side="base", revision=nowhere), Arm(side="head", revision=nowhere)),
        policy=asdict(policy),
        seed=0,
        repository="",
        method={"file_sha256": digest},
    )


def _trials(block: BlockValues) -> list[Trial]:
    return [
        Trial(
            id=f"{block.stage}.{block.index}.{slot}",
            stage=block.stage,
            block=block.index,
            slot=slot,
            side="base" if arm == "A" else "head",
            build=1,
            attempt=0,
            status="ok",
            started_at="",
            wall_s=0.0,
            measured_s=0.0,
            values={name: values[slot] for name, values in block.values.items()},
        )
        for slot, arm in enumerate(block.order)
    ]


def _comparison(
    campaign: Campaign, decision: Decision, blocks: Sequence[BlockValues], trials: Sequence[Trial]
) -> dict[str, Any]:
    return comparison_json(
        campaign,
        decision,
        trials,
        used_blocks=len(blocks),
        void_blocks=0,
        sentence=sentence(decision, margin=campaign.policy["margin"], num_blocks=len(blocks)),
        conclusions={"can": "what the numbers of this file say, as far as the file is right.", "cannot": WEAKER + "."},
        next_step="perfguard compare --help, then measure both sides now",
    )
