"""Every reason the statistics can give: a stable code for scripts and a sentence for people. Decides nothing.

Effects are logs (up is worse) and are shown as percent; odds are counted, never modelled.
"""

from perfguard import changes
from perfguard.records import Extension, Reason
from perfguard.stats.design import Rules
from perfguard.stats.effects import Estimate, Series, as_ratio
from perfguard.stats.lottery import Lottery, slow_rate_not_excluded
from perfguard.stats.order_test import num_separated
from perfguard.stats.placebo import Placebo, tolerance


def percent(log_ratio: float) -> str:
    """A log ratio as a signed percentage: 0.03 is +3.0 %."""
    return changes.signed(as_ratio(log_ratio))


def size(log_ratio: float) -> str:
    """A log distance as an unsigned percentage."""
    return percent(abs(log_ratio)).removeprefix("+")


def extreme(direction: int) -> str:
    return "slowest" if direction > 0 else "fastest"


def odds(series: Series, direction: int, p: float) -> Reason:
    """Odds anybody can check: orders that look as extreme, of all that could have been drawn."""
    num_blocks = len(series.effects)
    num_orders = 6**num_blocks
    num_extreme = max(1, round(p * num_orders))
    word = extreme(direction)
    if num_separated(series, direction) == num_blocks and num_extreme == 1:
        luck = f"luck in 1 of {num_orders:,}, whatever the noise"
        text = f"all head trials were the {word} in {num_blocks} block{'s' if num_blocks > 1 else ''}: {luck}"
    else:
        text = (
            f"of {num_orders:,} orders that could have been drawn {num_extreme:,} put head as far among the {word}: "
            f"luck in 1 of {num_orders // num_extreme:,}, whatever the noise"
        )
    return Reason(code="ODDS", text=text)


def confirmed(fresh: Series, direction: int, p: float) -> Reason:
    """The odds of the fresh blocks alone; they multiply with those of the suspicion."""
    return Reason(code="CONFIRMED", text=f"fresh blocks agree: {odds(fresh, direction, p).text}")


def exact_equal(num_launches: int) -> Reason:
    return Reason(code="EXACT_EQUAL", text=f"the same in all {num_launches} launches")


def slow_rate(num_clean: int) -> Reason:
    rate = 100 * slow_rate_not_excluded(num_clean)
    text = f"{num_clean} head launches showed no slow mode: rates of slow launches up to {rate:.0f} % are not excluded"
    return Reason(code="SLOW_RATE", text=text)


def lottery(found: Lottery) -> Reason:
    text = (
        f"launches fall into two modes {size(found.gap)} apart: slow were {found.num_slow_head} of {found.num_head} "
        f"head launches and {found.num_slow_base} of {found.num_base} base launches"
    )
    return Reason(code="LOTTERY", text=text)


def lottery_open() -> Reason:
    return Reason(code="LOTTERY_OPEN", text="EQUIVALENT is withheld: head shows slow launches that base does not")


def futile(rules: Rules) -> Reason:
    chance = f"{100 * rules.futility:.0f} %"
    text = f"stopped early: the chance of any verdict within {rules.max_blocks} blocks fell below {chance}"
    return Reason(code="FUTILE", text=text)


def exhausted(num_blocks: int) -> Reason:
    return Reason(code="MAX_BLOCKS", text=f"all {num_blocks} blocks are used and nothing is decided")


def not_confirmed(suspected: Estimate, confirmed: Estimate | None, num_blocks: int) -> Reason:
    if confirmed is None:
        text = f"suspected at {percent(suspected.effect)}; confirmation with fresh builds has not run"
    else:
        text = (
            f"suspected at {percent(suspected.effect)}; {num_blocks} fresh blocks with fresh builds showed "
            f"{percent(confirmed.effect)}"
        )
    return Reason(code="NOT_CONFIRMED", text=text)


def suspected_before() -> Reason:
    text = "suspected before it was extended; the extension has not come to an end"
    return Reason(code="NOT_CONFIRMED", text=text)


def extended(extension: Extension) -> Reason:
    text = (
        f"extension {extension.number}: up to {extension.max_blocks} more blocks and {extension.max_confirm_blocks} to "
        "confirm, with orders drawn for it and a share of alpha kept back for it"
    )
    return Reason(code="EXTENDED", text=text)


def confirmation_off() -> Reason:
    return Reason(code="NO_CONFIRM", text="confirmation is off: a change ends as SUSPECT")


def placebo_failed(placebo: Placebo, effect: float, margin: float) -> Reason:
    arm = "base" if placebo.base_difference > placebo.head_difference else "head"
    text = (
        f"two builds of {arm} alone differ by {size(placebo.largest)}, more than the {size(tolerance(effect, margin))} "
        "that would leave the change credible"
    )
    return Reason(code="PLACEBO", text=text)


def placebo_passed(placebo: Placebo) -> Reason:
    text = (
        f"two builds of one arm differ by {size(placebo.largest)}; up to {size(placebo.largest + placebo.half_width)} "
        "is not excluded"
    )
    return Reason(code="PLACEBO_PASSED", text=text)


def own_builds(num_builds: int, *, is_confirmed: bool) -> Reason:
    done = "confirmed" if is_confirmed else "measured again"
    text = f"{done} on {num_builds} fresh builds of each side: what a rebuild alone does is part of the noise"
    return Reason(code="FRESH_BUILDS", text=text)


def builds_differ() -> Reason:
    text = "launches of fresh builds differ more than those of one build: fresh blocks had to show it by themselves"
    return Reason(code="BUILDS_DIFFER", text=text)


def builds_unknown() -> Reason:
    text = "the confirming blocks do not carry two builds of each side: per-build luck is not excluded"
    return Reason(code="BUILDS_UNKNOWN", text=text)
