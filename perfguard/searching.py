"""The story of `explain --experiment`: toggle what differs between two stored runs until it is known what matters.

Every question is a stored comparison of its own, ID-q1, ID-q2, …, that can be shown, reported and replayed. Holds no
formula: what to ask next is for stats/search.py.
"""

import os
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from perfguard import experiment
from perfguard.campaign import Request, Wish, method_of, plan_campaign
from perfguard.comparable import refuse_other_conditions
from perfguard.errors import BuildError, NotComparableError, RevisionError, UsageError
from perfguard.experiment import Observer
from perfguard.explain import NOW, stored_facts
from perfguard.explaining import facts as f
from perfguard.explaining.facts import Facts
from perfguard.factors import Factor, arm_with, factors_between
from perfguard.policy import Policy, stored_policy
from perfguard.protocol import matters
from perfguard.records import Arm, Campaign, Metric, Outcome, Revision, Side, Workload
from perfguard.search_judging import Answered, factors_of, search_json, settable, step_of
from perfguard.stats.design import choose_design
from perfguard.stats.search import Question, check_policy, step_policy
from perfguard.store import Store
from perfguard.subject.repository import Repository
from perfguard.unfinished import end_search


@dataclass(frozen=True, kw_only=True)
class StoredSide:
    """One side as it can be measured again: what it was asked for and what it inherited."""

    label: str
    arm: Arm
    campaign: Campaign
    facts: Facts


def stored_side(store: Store, wanted: str, side: Side) -> StoredSide:
    """`wanted`: ID, ID:base, ID:head or a trial. Raises UsageError."""
    facts = stored_facts(store, wanted, side)
    campaign = store.campaign(facts.id)
    asked = next(arm for arm in campaign.arms if arm.side == facts.side)
    env = dict(asked.env)
    if campaign.workload.command:  # it inherits the environment of whoever started perfguard
        env = {n: str(v) for n, v in facts.fields.get(f.ENVIRONMENT, {}).items() if matters(n)} | env
    params = {**campaign.workload.params, **asked.params}
    arm = replace(asked, side=side, env=env, params=params)
    return StoredSide(label=facts.label, arm=arm, campaign=campaign, facts=facts)


def side_now(like: StoredSide, repository: Repository) -> StoredSide:
    """The working tree in this environment, with the parameters of the other side: those are no state of a machine."""
    env = {name: value for name, value in os.environ.items() if matters(name) and not name.startswith("PERFGUARD_")}
    arm = Arm(
        side="head",
        revision=repository.resolve("WORKTREE"),
        env=env if like.campaign.workload.command else dict(like.arm.env),
        params=like.arm.params,
        python=like.arm.python,
    )
    return StoredSide(label=NOW, arm=arm, campaign=like.campaign, facts=replace(like.facts, label=NOW, values={}))


def plan_search(
    a: StoredSide,
    b: StoredSide,
    repository: Repository,
    policy: Policy,
    *,
    metric: str = "",
    not_toggled: Sequence[Mapping[str, Any]] = (),
    seed: int | None = None,
) -> Campaign:
    """A is the faster of the two by its stored numbers, whatever their order here. `not_toggled`: other differences,
    only to be listed. Raises NotComparableError, UsageError."""
    _refuse_other_workload(a, b)
    chosen = _metric(a.campaign, metric)
    fast, slow = (b, a) if _is_slower(a, b, chosen) else (a, b)
    factors = _factors(fast, slow)
    if not settable(factors):
        listed = "; ".join(f"{factor.name}: {factor.why_not}" for factor in factors)
        told = f"nothing that differs between them can be set{': ' + listed if listed else ''}"
        raise UsageError(f"{fast.label} and {slow.label}: {told}", "perfguard recheck REV --was VALUE")
    _refuse_powerless(policy)
    workload = _workload(fast, slow, chosen)
    request = Request(
        wishes=(_wish(fast.arm, "base"), _wish(slow.arm, "head")),
        workload=workload,
        policy=policy,
        kind="search",
        seed=seed,
    )
    campaign = plan_campaign(request, repository)
    about = {
        "of": [fast.label, slow.label],
        "metric": chosen.name,
        "factors": [asdict(factor) for factor in factors],
        "not_toggled": [dict(one) for one in not_toggled],
    }
    return replace(campaign, method={**campaign.method, **about})


def _workload(fast: StoredSide, slow: StoredSide, chosen: Metric) -> Workload:
    """One metric decides. A parameter that only one side has is the arm's alone, so that the other can be without."""
    stored = fast.campaign.workload
    metrics = tuple(replace(m, primary=m.name == chosen.name) for m in stored.metrics)
    params = {k: v for k, v in stored.params.items() if k in fast.arm.params and k in slow.arm.params}
    return replace(stored, metrics=metrics, params=params)


def _wish(arm: Arm, side: Side) -> Wish:
    return Wish(
        side=side, revision=arm.revision.name, stored=arm.revision, env=arm.env, params=arm.params, python=arm.python
    )


def _factors(fast: StoredSide, slow: StoredSide) -> tuple[Factor, ...]:
    inherited = os.environ if fast.campaign.workload.command else {}
    factors = factors_between(fast.arm, slow.arm, inherited)
    clocks = [str(side.campaign.policy.get("clocks", "observe")) for side in (fast, slow)]
    if clocks[0] == clocks[1]:
        return factors
    why = "clocks belong to a whole comparison: perfguard compare --clocks lock"
    clock = Factor(name="clocks", kind="clock", value_a=clocks[0], value_b=clocks[1], can_be_set=False, why_not=why)
    return (*factors, clock)


def _refuse_other_workload(a: StoredSide, b: StoredSide) -> None:
    one, other = a.campaign.workload, b.campaign.workload
    for field in ("runner", "command", "modes", "read", "setup"):
        if getattr(one, field) != getattr(other, field):
            text = f"{a.label} and {b.label} were measured by other means: {field} differs"
            raise NotComparableError(text, f"perfguard explain {a.campaign.id} {b.campaign.id}")


def _metric(campaign: Campaign, name: str) -> Metric:
    metrics = {m.name: m for m in campaign.workload.metrics if not m.exact}
    if name and name not in metrics:
        raise UsageError(f"no metric {name!r} in {campaign.id}; there are {', '.join(metrics)}", "--metric NAME")
    return metrics[name] if name else next(m for m in campaign.workload.metrics if m.primary)


def _is_slower(a: StoredSide, b: StoredSide, metric: Metric) -> bool:
    """By the medians of what is stored; where one has no number, the order of the command line holds."""
    values = [side.facts.values.get(metric.name, ()) for side in (a, b)]
    if not all(values):
        return False
    one, other = (median(found) for found in values)
    return one > other if metric.better == "lower" else one < other


def _refuse_powerless(policy: Policy) -> None:
    if not choose_design(check_policy(policy), 1).looks:
        text = f"{policy.max_blocks} blocks are too few to blame anything at {100 * policy.search_alpha:g} %"
        raise UsageError(text, "give more --max-blocks")


def search(campaign: Campaign, repository: Repository, store: Store, observer: Observer) -> dict[str, Any]:
    """The search to its end, stored. Raises Interrupted with the command that resumes."""
    store.add_campaign(campaign)
    return _search(campaign, repository, store, observer)


def resume_search(campaign_id: str, repository: Repository, store: Store, observer: Observer) -> dict[str, Any]:
    """Go on with a stored search: comparisons that were decided are not measured again."""
    campaign = store.campaign(campaign_id)
    if campaign.kind != "search":
        raise UsageError(f"{campaign.id} is a {campaign.kind}, not a search by experiment", "perfguard runs")
    refuse_other_conditions(campaign)
    store.set_status(campaign.id, "running")
    return _search(campaign, repository, store, observer)


def _search(campaign: Campaign, repository: Repository, store: Store, observer: Observer) -> dict[str, Any]:
    asker = Asker(campaign=campaign, repository=repository, store=store, observer=observer, started_s=time.monotonic())
    answered: list[Answered] = []
    stopped = ""
    try:
        while isinstance(question := step_of(campaign, answered), Question):
            found = asker.answer(question, len(answered) + 1)
            if found is None:
                stopped = "budget"
                break
            answered.append(found)
    except BaseException as error:
        end_search(error, campaign, store, len(answered))
        raise
    result = search_json(campaign, answered, stopped=stopped)
    store.add_verdict(campaign.id, result)
    store.set_status(campaign.id, "interrupted" if stopped else "finished")
    return result


@dataclass(frozen=True, kw_only=True)
class Asker:
    """Puts questions of one search to the machine, in comparisons that are stored."""

    campaign: Campaign
    repository: Repository
    store: Store
    observer: Observer
    started_s: float

    def answer(self, question: Question, number: int) -> Answered | None:
        """From the store where it is known, else measured; None when the budget is used up."""
        own_id = f"{self.campaign.id}-q{number}"
        known = _is_stored(self.store, own_id)
        comparison = self.store.latest_verdict(own_id) if known else None
        if comparison is None or comparison.get("stopped"):
            left_s = self._left_s()
            if left_s is not None and left_s <= 0:
                return None
            self.observer.say(self._about(question, number))
            try:
                comparison = self._measure(own_id, question, number, left_s, known=known)
            except (BuildError, RevisionError) as error:  # these settings do not go together
                self.observer.say(f"question {number} cannot be measured: {error}")
                return Answered(question=question, id=own_id, outcome=Outcome.INVALID, comparison={}, why=str(error))
        if comparison["stopped"]:
            return None
        outcome = Outcome(comparison["outcome"])
        return Answered(question=question, id=own_id, outcome=outcome, comparison=comparison)

    def _left_s(self) -> float | None:
        budget_s = stored_policy(self.campaign.policy).budget_s
        return budget_s - (time.monotonic() - self.started_s) if budget_s else None

    def _about(self, question: Question, number: int) -> str:
        toggled = settable(factors_of(self.campaign))
        sides = (", ".join(toggled[k].name for k in sorted(c)) or "nothing" for c in (question.base, question.head))
        kind = "check" if question.is_check else "step"
        return f"question {number} ({kind}): base as in A in {next(sides)}; head in {next(sides)}"

    def _measure(
        self, own_id: str, question: Question, number: int, left_s: float | None, *, known: bool
    ) -> dict[str, Any]:
        if known:
            campaign = self.store.campaign(own_id)
            return experiment.measure_to_verdict(campaign, self.repository, self.store, self.observer, left_s)
        campaign = self._comparison(own_id, question, number, left_s or 0.0)
        return experiment.compare(campaign, self.repository, self.store, self.observer)

    def _comparison(self, own_id: str, question: Question, number: int, budget_s: float) -> Campaign:
        """The question as a comparison. Raises RevisionError where a commit and a patch do not go together."""
        parent = self.campaign
        arms = (self._arm(question.base, "base"), self._arm(question.head, "head"))
        policy = (check_policy if question.is_check else step_policy)(stored_policy(parent.policy))
        asked = {"search": parent.id, "question": number}
        return replace(
            parent,
            id=own_id,
            kind="compare",
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            arms=arms,
            policy=asdict(replace(policy, budget_s=budget_s)),
            seed=random.Random(f"perfguard question {parent.seed} {number}").getrandbits(31),
            method={**method_of(arms, self.repository), **asked},
        )

    def _arm(self, as_in_a: frozenset[int], side: Side) -> Arm:
        a, b = self.campaign.arms
        factors = settable(factors_of(self.campaign))
        arm = arm_with(b, a, factors, as_in_a, side)
        return replace(arm, revision=self._revision(arm.revision, a.revision, b.revision))

    def _revision(self, wanted: Revision, a: Revision, b: Revision) -> Revision:
        """A commit with the patch of its own side is stored; with the other's, the patch is applied to it."""
        for stored in (a, b):
            if (stored.commit, stored.patch) == (wanted.commit, wanted.patch):
                return self.repository.known(stored)
        plain = self.repository.resolve(wanted.commit)
        if not wanted.patch:
            return plain
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "other.patch")
            file.write_bytes(wanted.patch)
            return self.repository.with_patch(plain, file)


def _is_stored(store: Store, campaign_id: str) -> bool:
    try:
        return bool(store.status(campaign_id))
    except UsageError:
        return False
