"""What a verdict lets people conclude, what it does not, and the command to run next. Pure words."""

from perfguard.full_size import FULL_SIZE, WANTED, block_note, is_after_slice
from perfguard.policy import MOST_BLOCKS, Policy
from perfguard.records import Campaign, Decision, Outcome
from perfguard.scopes import RESIDENT, SLICE, scope_note

STARVED = "client_starved"  # what an engine's client says of itself
SLICE_ENDS = (Outcome.REGRESSION, Outcome.IMPROVEMENT, Outcome.EQUIVALENT, Outcome.SUSPECT)

# Digits of a commit's sha.
SHORT = 12

CAN = {
    Outcome.REGRESSION: "head is slower here and now, seen twice, the second time with fresh builds of both sides.",
    Outcome.IMPROVEMENT: "head is faster here and now, seen twice, the second time with fresh builds of both sides.",
    Outcome.EQUIVALENT: "any difference on this machine, now, is smaller than the margin.",
    Outcome.INCONCLUSIVE: "nothing about a change; the interval shows what is still possible.",
    Outcome.SUSPECT: "a difference was seen; the odds say how easily luck alone does that.",
    Outcome.INVALID: "nothing: the two sides were not comparable, for the reasons named.",
}
CANNOT = {
    Outcome.REGRESSION: "why it is slower, and whether another machine or workload would show it.",
    Outcome.IMPROVEMENT: "why it is faster, and whether another machine or workload would show it.",
    Outcome.EQUIVALENT: "that nothing changed at all, or that an older number was right: it was not measured now.",
    Outcome.INCONCLUSIVE: "that nothing changed: too little was measured for this noise and this margin.",
    Outcome.SUSPECT: "that head changed performance: it was not confirmed.",
    Outcome.INVALID: "anything about performance, in either direction.",
}


def conclusions(campaign: Campaign, decision: Decision, *, origin_note: str, engine_note: str = "") -> dict[str, str]:
    """{"can": …, "cannot": …} in a sentence or two each."""
    can = CAN[decision.outcome]
    if origin_note and decision.outcome is not Outcome.INVALID:
        can = f"{can} Of the code: {origin_note}."
    for note in filter(None, (scope_note(decision, campaign.scope), block_note(campaign, decision))):
        can = f"{can} {note}"
    if engine_note and decision.outcome is not Outcome.INVALID:
        can = f"{can} {engine_note}"
    return {"can": can, "cannot": CANNOT[decision.outcome]}


def _undecided(campaign: Campaign, blocks_needed: int) -> str:
    """An extension takes as many blocks as a comparison does by default, or what it is given, up to a limit."""
    if blocks_needed > MOST_BLOCKS:
        return f"a new comparison with a wider --margin: at this one, {blocks_needed:,} more blocks are needed"
    size = f"--max-blocks {blocks_needed}" if blocks_needed > Policy().max_blocks else "--budget 4h"
    return f"perfguard extend {campaign.id} {size}, or a new comparison with a wider --margin"


def next_step(campaign: Campaign, decision: Decision) -> str:
    """The command or action that brings most now. Commits by their sha: HEAD~1 is another one tomorrow."""
    show = f"perfguard show {campaign.id}"
    if FULL_SIZE in campaign.method and decision.outcome is not Outcome.INVALID:
        return f"one block at full size belongs to it: perfguard show {campaign.method[FULL_SIZE]}"
    if is_after_slice(campaign) and decision.outcome is not Outcome.INVALID:
        return WANTED
    if campaign.scope == RESIDENT and decision.outcome is Outcome.SUSPECT:
        return "launches of their own confirm or refute it: the same without --scope resident"
    if campaign.scope == SLICE and decision.outcome in SLICE_ENDS:
        return "the same at full size: without --thin, with --max-blocks 2 --no-confirm it suspects with odds, at most"
    match decision.outcome:
        case Outcome.REGRESSION:
            base, head = (arm.revision.commit[:SHORT] for arm in campaign.arms)
            if base == head:
                return f"perfguard explain {campaign.id}:base {campaign.id}:head"
            several = f"perfguard bisect {campaign.id}, if these are several commits"
            return f"git log --oneline {base}..{head}, then {several}"
        case Outcome.INCONCLUSIVE | Outcome.SUSPECT:
            if not campaign.policy.get("extension_share"):
                return "a new comparison with more --max-blocks, or a wider --margin"
            return _undecided(campaign, decision.blocks_needed or 0)
        case Outcome.INVALID if any(reason.code == STARVED for reason in decision.reasons):
            return f"{show}, then a machine with processors to spare, or --set realtime=true for the client"
        case Outcome.INVALID:
            return f"{show}, then remove the cause and compare again"
    return f"perfguard report {campaign.id} -f md"
