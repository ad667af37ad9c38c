"""The story of `explain`: two stored runs, or one and now -> why their numbers may differ. Reads; measures nothing.

Joins the store, the repository and this machine with the pure part in perfguard/explaining.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from perfguard.campaign import machine_now
from perfguard.comparable import method_now
from perfguard.errors import PerfguardError, UsageError
from perfguard.explaining import facts as f
from perfguard.explaining.environment import ALSO, plain
from perfguard.explaining.explanation import Acquittal, Evidence, explain
from perfguard.explaining.facts import Facts, claimed_facts, facts_of, software_fields
from perfguard.explaining.surroundings import machine_fields, no_gpu
from perfguard.explaining.words import explanation_json
from perfguard.protocol import installed
from perfguard.records import Arm, Campaign, Metric, Revision, Side, Trial
from perfguard.store import Store
from perfguard.subject.repository import Repository, open_repository
from perfguard.timeline import timeline
from perfguard.trial.environment import runner_environment
from perfguard.trial.probe import python_now
from perfguard.trial.secrets import redact

NOW = "now"
# Kinds of campaigns whose trials are of one or two sides that stay the same.
OF_ARMS = ("compare", "run", "recheck", "calibrate")
# Newest campaigns of a workload that are looked through for a claimed number or an acquittal.
SEARCHED = 300
CONCLUSIONS = ("EQUIVALENT", "REGRESSION", "IMPROVEMENT")
# A claimed number is rounded by who tells it: 89 may have been 89.4.
CLOSE = 0.005
TRIAL = re.compile(r"^(?P<campaign>.+)-s\d+b\d+(?:t\d+)?a\d+(?:-\d+)?$")


def explain_stored(
    store: Store, a: str, b: str, repository: Repository | None = None, *, is_timeline_wanted: bool = True
) -> dict[str, Any]:
    """`a`, `b`: a campaign or trial id, "ID:base", "ID:head", or "now". Schema perfguard/explanation@1.

    `repository`: where now is looked at; by default the one that was measured, if it is still there.
    """
    if a == NOW and b == NOW:
        raise UsageError("both sides are now, and nothing of now was measured", "perfguard explain latest now")
    known_a = None if a == NOW else stored_facts(store, a, "base" if a == b else "head")
    known_b = None if b == NOW else stored_facts(store, b, "head")
    known = known_a or known_b
    assert known is not None
    where = repository or _repository_of(store.campaign(known.id))
    side_a = known_a or facts_now(store, known, where)
    side_b = known_b or facts_now(store, known, where)
    found = explain(side_a, side_b, evidence_for(store, side_a, side_b, where))
    is_unknown = is_timeline_wanted and any(h.state == "unknown" for h in found.hypotheses)
    since = min(side.created_at for side in (side_a, side_b) if side.created_at)
    return explanation_json(found, _meanwhile(store, known, where, since) if is_unknown else None)


def explain_claim(
    store: Store, campaign: Campaign, trials: Sequence[Trial], metric: Metric, claimed: float
) -> dict[str, Any]:
    """A claimed number against what this campaign measured: with the record of the number where one is stored."""
    measured = facts_of(campaign, "base", trials)
    known = record_of_claim(store, campaign, metric, claimed) or claimed_facts(metric, claimed)
    return explanation_json(explain(known, measured, evidence_for(store, known, measured, None)))


def record_of_claim(store: Store, campaign: Campaign, metric: Metric, claimed: float) -> Facts | None:
    """The newest stored run of this workload whose median is the claimed number to within half a percent."""
    for row in store.campaigns(SEARCHED, workload=campaign.workload.name):
        if row.id == campaign.id or row.kind not in OF_ARMS:
            continue
        other, trials = store.campaign(row.id), store.trials(row.id, with_record=False)
        for arm in other.arms:
            values = facts_of(other, arm.side, trials).values.get(metric.name, ())
            if values and abs(median(values) / claimed - 1) <= CLOSE:
                return facts_of(other, arm.side, store.trials(row.id))
    return None


def stored_facts(store: Store, wanted: str, default: Side) -> Facts:
    """Facts of "ID", "ID:base", "ID:head" or of one trial by its id. Raises UsageError."""
    name, _, side = wanted.partition(":")
    one_trial = TRIAL.match(name)
    campaign = store.campaign(one_trial["campaign"] if one_trial else name)
    if campaign.kind not in (*OF_ARMS, "control"):
        confirmed = ((store.latest_verdict(campaign.id) or {}).get("confirmation") or {}).get("id")
        again = f"perfguard explain {confirmed}:base {confirmed}:head" if confirmed else "perfguard runs"
        raise UsageError(f"{campaign.id} is a {campaign.kind}: no run of one or two sides", again)
    trials = store.trials(campaign.id)
    if one_trial:
        trial = next((trial for trial in trials if trial.id == name), None)
        if trial is None:
            raise UsageError(f"no stored trial has the id {name!r}", f"perfguard show {campaign.id}")
        first_runs = [t for t in trials if t.stage == 0 and t.side == trial.side]
        return facts_of(campaign, trial.side, [*first_runs, trial], label=trial.id)
    sides = [arm.side for arm in campaign.arms]
    chosen = side or (default if default in sides else sides[0])
    if chosen not in sides:
        raise UsageError(f"{campaign.id} has no side {chosen!r}", f"perfguard explain {campaign.id}:{sides[0]} now")
    return facts_of(campaign, "head" if chosen == "head" else "base", trials)


def facts_now(store: Store, other: Facts, repository: Repository | None) -> Facts:
    """What a launch of `other`'s workload would find if it were started here as things are; it has no number."""
    campaign = store.campaign(other.id)
    machine = machine_now()
    inherited = dict(os.environ)
    is_command = campaign.workload.runner == "command"
    environ = inherited if is_command else runner_environment(inherited, {}, Path("caches"))
    software = _command_software(store, other) if is_command else _own_software()
    method = {name: value for name, value in other.fields.get(f.METHOD, {}).items() if name != "perfguard"}
    now = method_now()
    method |= {"perfguard": now["perfguard"]} | ({} if is_command else {"runner_sha256": now["runner_sha256"]})
    code = _code_now(repository)
    fields = {
        f.CODE: code,
        f.METHOD: method,
        f.ENVIRONMENT: redact(plain(environ, other.asked, ALSO if is_command else (), is_whole=is_command)),
        f.SOFTWARE: software_fields(software, machine, "") if software else {},
        f.MACHINE: machine_fields(machine),
    }
    lacking = {f.NEIGHBOURS: "nothing runs now"} | ({} if no_gpu(machine) else {f.GPU_STATE: "nothing runs now"})
    lacking |= {} if code else {f.CODE: "the repository is not there"}
    lacking |= {} if software else {f.SOFTWARE: "the Python that ran the command does not answer now"}
    return Facts(
        label=NOW,
        fields=fields,
        unknown=lacking,
        given=redact(environ) if is_command else {},
        metrics=campaign.workload.metrics,
        commit=str(code.get("commit", "")),
        workload=campaign.workload.name,
        command=campaign.workload.command,
    )


def _own_software() -> dict[str, Any]:
    return {"python": sys.version.split()[0], "packages": installed(sys.path)}


def _command_software(store: Store, other: Facts) -> dict[str, Any] | None:
    """Of the Python that ran the command then, which need not be perfguard's; None where it is not there now."""
    first_runs = [t.record for t in store.trials(other.id) if t.stage == 0 and t.side == other.side]
    processes = next((record["processes"] for record in reversed(first_runs) if record.get("processes")), ())
    return python_now(str(processes[0].get("executable", ""))) if processes else None


def _code_now(repository: Repository | None) -> dict[str, Any]:
    """HEAD and what is not committed, as WORKTREE would be measured."""
    if repository is None:
        return {}
    try:
        revision = repository.resolve("WORKTREE")
    except PerfguardError:  # a bare repository, or changes that no patch carries
        revision = repository.resolve("HEAD")
    return f.code_fields(Arm(side="head", revision=revision))


def _repository_of(campaign: Campaign) -> Repository | None:
    try:
        return open_repository(Path(campaign.repository))
    except PerfguardError:
        return None


def evidence_for(store: Store, a: Facts, b: Facts, repository: Repository | None) -> Evidence:
    """Launch noise of this machine's history, how many files differ, and whether the two trees were measured alike."""
    return Evidence(
        noise=launch_noise(store, b if b.id else a),
        num_changed_files=_num_changed_files(store, a, b, repository),
        acquittal=_acquittal(store, a, b),
    )


def launch_noise(store: Store, facts: Facts) -> dict[str, float]:
    """Median over stored campaigns of its workload on its machine, by metric."""
    if not facts.id:
        return {}
    campaign = store.campaign(facts.id)
    costs = store.trial_costs(campaign.workload.name, campaign.machine)
    names = {name for cost in costs for name in cost.noise}
    return {name: median([cost.noise[name] for cost in costs if name in cost.noise]) for name in sorted(names)}


def _num_changed_files(store: Store, a: Facts, b: Facts, repository: Repository | None) -> int | None:
    one, other = _revision(store, a), _revision(store, b)
    if repository is None or one is None or other is None or one.tree == other.tree:
        return None
    try:
        return len(repository.changed_files(one, other))
    except PerfguardError:  # a commit that is gone, or another repository at this place
        return None


def _revision(store: Store, facts: Facts) -> Revision | None:
    if not facts.id:
        return None
    return next(arm.revision for arm in store.campaign(facts.id).arms if arm.side == facts.side)


def _acquittal(store: Store, a: Facts, b: Facts) -> Acquittal | None:
    """The newest comparison that came to a conclusion on exactly these two trees, by this method, where that was
    EQUIVALENT."""
    trees = {str(facts.fields.get(f.CODE, {}).get("tree", "")) for facts in (a, b)}
    if len(trees) < 2 or "" in trees or a.workload != b.workload:
        return None
    for row in store.campaigns(SEARCHED, workload=a.workload, kind="compare"):
        if row.outcome not in CONCLUSIONS:
            continue
        campaign = store.campaign(row.id)
        if {arm.revision.tree for arm in campaign.arms} == trees and _is_only_code(campaign):
            is_acquittal = row.outcome == "EQUIVALENT"
            return Acquittal(id=row.id, margin=campaign.policy["margin"]) if is_acquittal else None
    return None


def _is_only_code(campaign: Campaign) -> bool:
    """Nothing but the code told its sides apart."""
    one, other = (replace(arm, side="base", revision=campaign.arms[0].revision) for arm in campaign.arms)
    return one == other


def _meanwhile(store: Store, known: Facts, repository: Repository | None, since: str) -> Mapping[str, Any] | None:
    """What changed since the older run, if this is the machine it ran on."""
    host = store.campaign(known.id).machine.get("host", {}).get("hostname_sha256")
    if repository is None or host != machine_now()["host"]["hostname_sha256"]:
        return None
    try:
        return timeline(repository, since)
    except UsageError:  # the older run is dated later than now
        return None
