"""What an extension may spend, and the parts of a comparison: the original and each extension, in the order they ran.

Parts are independent where it matters: orders of an extension are drawn after everything before it was seen, so
whatever made somebody extend, its chance of a false report stays at most its own share of alpha. The shares of the
original and of any number of extensions add up to less than alpha. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfguard.policy import Policy
from perfguard.records import BlockValues, Extension
from perfguard.stats.design import Rules, choose_design, false_report_bound, rules_of


def extension_alpha(policy: Policy, number: int) -> float:
    """Extension k may use extension_share * alpha * 2 / 3^k: over all k this is extension_share * alpha.

    Thirds rather than halves, since hardly anybody extends twice and the first one must stay useful.
    """
    return policy.alpha * policy.extension_share * 2.0 * 3.0**-number


def extension_policy(policy: Policy, extension: Extension) -> Policy:
    """The policy of one extension: its share is all it may spend, its blocks and budget are its own.

    It always confirms: to learn whether a suspicion holds is what somebody extends for.
    """
    return replace(
        policy,
        alpha=extension_alpha(policy, extension.number),
        extension_share=0.0,
        max_blocks=extension.max_blocks,
        max_confirm_blocks=extension.max_confirm_blocks,
        budget_s=extension.budget_s,
        is_confirmed=True,
    )


def current_policy(policy: Policy, extensions: Sequence[Extension]) -> Policy:
    """The policy of the last part: the original's own, or the latest extension's."""
    return extension_policy(policy, extensions[-1]) if extensions else policy


def suspicion_stage(part: int) -> int:
    """Stage of the blocks that suspect; part 0 is the original, the next stage confirms."""
    return 2 * part + 1


def is_suspicion(stage: int) -> bool:
    return stage % 2 == 1


def report_bound(policy: Policy, num_primaries: int, extensions: Sequence[Extension]) -> float:
    """Upper bound of the chance to report any change where there is none, in the original or any of these."""
    policies = [policy, *(extension_policy(policy, extension) for extension in extensions)]
    return sum(false_report_bound(choose_design(one, num_primaries), num_primaries) for one in policies)


@dataclass(frozen=True, kw_only=True)
class Part:
    """Blocks of one part by stage, its rules, and what ran before it: all blocks counted, suspicion blocks kept."""

    rules: Rules
    ones: tuple[BlockValues, ...]
    twos: tuple[BlockValues, ...]
    earlier: tuple[BlockValues, ...] = ()
    num_before: int = 0


def parts_of(
    policy: Policy,
    num_primaries: int,
    slow_rate: float,
    blocks: Sequence[BlockValues],
    extensions: Sequence[Extension],
) -> list[Part]:
    """The original first. `blocks` in the order they ran; extensions by number from 1."""
    policies = [policy, *(extension_policy(policy, extension) for extension in extensions)]
    return [
        _part(rules_of(one, num_primaries, slow_rate), suspicion_stage(number), blocks)
        for number, one in enumerate(policies)
    ]


def _part(rules: Rules, stage: int, blocks: Sequence[BlockValues]) -> Part:
    before = [block for block in blocks if block.stage < stage]
    return Part(
        rules=rules,
        ones=tuple(block for block in blocks if block.stage == stage),
        twos=tuple(block for block in blocks if block.stage == stage + 1),
        earlier=tuple(block for block in before if is_suspicion(block.stage)),
        num_before=len(before),
    )
