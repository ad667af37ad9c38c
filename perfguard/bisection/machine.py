"""What the machine did to the launches of a search: what ends it, and what may hide a change. Pure.

The gates themselves are in conditions/; must not say what a commit is worth.
"""

from collections.abc import Sequence

from perfguard.conditions.arm_gates import arm_findings
from perfguard.conditions.assessment import assess, links_of
from perfguard.conditions.effects import with_findings
from perfguard.conditions.plausible import read_trials
from perfguard.policy import stored_policy
from perfguard.records import Campaign, Decision, Metric, MetricResult, Outcome, Reason, Trial


def machine_stops(campaign: Campaign, trials: Sequence[Trial]) -> list[Reason]:
    """Why nothing measured here can be trusted. `trials` of the search in the order they ran."""
    return assess(stored_policy(campaign.policy).gates, trials, links_of(campaign)).stops


def may_hide_a_change(campaign: Campaign, metric: Metric, trials: Sequence[Trial]) -> tuple[Reason, ...]:
    """Limits that met GOOD alone or BAD alone and are large enough to hide a change of the margin behind PHANTOM.

    `trials`: launches of GOOD (base) and BAD (head) that stood beside each other. The rule is that of an EQUIVALENT.
    """
    policy = stored_policy(campaign.policy)
    equal = MetricResult(metric=metric, outcome=Outcome.EQUIVALENT)
    decision = Decision(state="done", outcome=Outcome.EQUIVALENT, metrics=(equal,))
    judged = with_findings(decision, arm_findings(policy.gates, read_trials(trials)), policy.margin)
    return judged.reasons if judged.outcome is Outcome.INVALID else ()
