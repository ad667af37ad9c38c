"""The one block at full size that follows a slice (--thin): what it may say, and how both together end. Pure.

Two campaigns that name each other in their method. The block can end SUSPECT at most: six launches acquit nobody, and
nothing is confirmed. Must not measure; thin_first.py does.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from perfguard.errors import EXIT_CODES, EXIT_INVALID, EXIT_OK
from perfguard.policy import Policy
from perfguard.records import Campaign, Decision, Outcome, Reason

# Keys of a campaign's method: of the slice, the id of its block; of the block, the id of its slice.
FULL_SIZE, AFTER_SLICE = "full_size", "after_slice"
NUM_LAUNCHES = 6  # the first run of each side, unmeasured, and a block of four
# Outcomes that a slice is not worth a full-size block after.
ENDS_THERE = (Outcome.INVALID,)
SEEN_NOTHING = Reason(
    code="ONE_BLOCK", text="no difference beyond the margin and beyond the noise was seen in one block"
)
WANTED = "a verdict at full size needs more blocks: the same comparison without --thin"


def block_policy(policy: Policy) -> Policy:
    """One block, never confirmed, and nothing kept back to extend it. One void block may be replaced."""
    return replace(
        policy,
        min_blocks=1,
        max_blocks=1,
        is_confirmed=False,
        confirms_alone=False,
        slow_rate=0.0,
        extension_share=0.0,
        max_void_share=0.5,
    )


def linked(slice_: Campaign, block: Campaign) -> tuple[Campaign, Campaign]:
    """Both with the other's id."""
    named = replace(slice_, method={**slice_.method, FULL_SIZE: block.id})
    return named, replace(block, method={**block.method, AFTER_SLICE: slice_.id})


def is_after_slice(campaign: Campaign) -> bool:
    return AFTER_SLICE in campaign.method


def block_decision(decision: Decision, campaign: Campaign) -> Decision:
    """The decision of a block after a slice in its own words; any other as it is."""
    if not is_after_slice(campaign):
        return decision
    metrics = tuple(replace(result, reasons=_worded(result.reasons)) for result in decision.metrics)
    return replace(decision, metrics=metrics, reasons=_worded(decision.reasons), blocks_needed=None)


def _worded(reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
    return tuple(SEEN_NOTHING if reason.code == "MAX_BLOCKS" else reason for reason in reasons)


def block_sentence(text: str, decision: Decision, campaign: Campaign) -> str:
    """The verdict's sentence where it is on a block after a slice."""
    if not is_after_slice(campaign):
        return text
    if decision.outcome is Outcome.INCONCLUSIVE:
        text = text.replace("Undecided after 1 blocks", "No difference seen in one block")
    return f"{text.removesuffix('.')} (one block at full size, after slice {campaign.method[AFTER_SLICE]})."


def block_note(campaign: Campaign, decision: Decision) -> str:
    """What follows from one block beside what its outcome says; "" for any other comparison and where it is void."""
    if not is_after_slice(campaign) or decision.outcome is Outcome.INVALID:
        return ""
    return "One block may suspect and acquits nobody; what depends on weights and size was seen in it alone."


def exit_code(of_slice: Mapping[str, Any], of_block: Mapping[str, Any] | None) -> int:
    """Of both comparisons. The slice's, unless that is 0 and the block was INVALID or ended SUSPECT: a block that saw
    nothing takes no acquittal back."""
    code = int(of_slice["exit_code"])
    if of_block is None or code != EXIT_OK:
        return code
    if of_block["outcome"] == Outcome.INVALID:
        return EXIT_INVALID
    return EXIT_CODES[Outcome.SUSPECT] if of_block["outcome"] == Outcome.SUSPECT else EXIT_OK


def document(of_slice: Mapping[str, Any], of_block: Mapping[str, Any] | None) -> dict[str, Any]:
    """The slice's JSON with the block's inside, and the exit code of both. What is stored stays as it is."""
    return {**of_slice, FULL_SIZE: of_block, "exit_code": exit_code(of_slice, of_block)}
