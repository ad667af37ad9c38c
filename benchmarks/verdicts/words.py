"""Plain words of docs/calibration.md around the tables. Every number in them is computed; what they say about whole
kinds of rules holds for how the rules are built, not for one run.
"""

import textwrap
from collections.abc import Iterable

from benchmarks.verdicts.catalogue import FIRST_GROUP, SCENARIOS, SECOND_GROUP, TRUE_CHANGES, USUAL_SD
from benchmarks.verdicts.cells import CHANGED, CORRELATION, REPORTS, Cell, PeerCell, Results, Tally
from benchmarks.verdicts.peers import PEERS, WITHIN, fresh_launches
from perfguard.policy import Policy
from perfguard.records import Outcome
from perfguard.stats.design import false_report_bound, rules_of

WIDTH = 118
NO_CHANGES = [name for name in SCENARIOS if name not in TRUE_CHANGES]


def paragraph(text: str) -> list[str]:
    return [*textwrap.wrap(" ".join(text.split()), WIDTH, break_on_hyphens=False, break_long_words=False), ""]


def bullets(texts: Iterable[str]) -> list[str]:
    return [line for text in texts for line in _bullet(text)] + [""]


def _bullet(text: str) -> list[str]:
    wrapped = textwrap.wrap(" ".join(text.split()), WIDTH - 2, break_on_hyphens=False, break_long_words=False)
    return [("- " if n == 0 else "  ") + line for n, line in enumerate(wrapped)]


def introduction(results: Results) -> list[str]:
    policy = Policy()
    bounds = [100 * false_report_bound(rules_of(policy, k).design, k) for k in (1, 2)]
    counts = [tally.num for tally in (*results.ours.values(), *results.peers.values())]
    return [
        *paragraph(
            f"""Written by `make bench` (`python -m benchmarks.verdicts.simulate`); do not edit. Simulated
            machines, not measurements: the sizes of the noises are stated below, and one of them is drawn from
            launches that were measured. {max(counts):,} comparisons a cell where false reports are counted, at
            least {min(counts):,} elsewhere and for other tools. In brackets the 95 % limits after Clopper and
            Pearson; 0 (< x) means that none was seen and that x % would still be likely luck. Margin
            {100 * policy.margin:g} %, alpha {policy.alpha:g}, at most {policy.max_blocks} blocks and
            {policy.max_confirm_blocks} more to confirm, through the code that decides real comparisons.
            Confirmation with fresh builds is included in all trials; a trial is one launch."""
        ),
        *paragraph(
            f"""By construction a false report has a chance of at most {bounds[0]:.3g} % with one primary metric
            and {bounds[1]:.3g} % with two, on every machine whose noise does not depend on the side or on our
            order. All extensions that may follow together add at most
            {100 * policy.alpha * policy.extension_share:.2g} %."""
        ),
    ]


def about_targets() -> list[str]:
    apart = ", ".join(name for name in SECOND_GROUP if name not in TRUE_CHANGES)
    return paragraph(
        f"""*holds*: the simulated number meets the target, and so does the end of its 95 % interval on the bad
        side. Speed is that of the machine that wrote this page, on one core. First group of scenarios:
        {", ".join(FIRST_GROUP)}. Second group, which breaks the condition of the guarantee: {apart}."""
    )


def about_false_alarms(results: Results) -> list[str]:
    own = max(_own(results, name).percent(*REPORTS) for name in FIRST_GROUP)
    return paragraph(
        f"""Nothing changed in any of these comparisons, so every mark is an error. Each row is a machine, each
        mark a rule; the scale is logarithmic, and a hollow mark means that none was seen (it stands at the upper
        limit). perfguard's largest rate on a machine of the first group is {own:.2g} %; it promised
        {100 * Policy().alpha:g} %. Rules that compare launches measured side after side take whatever lasts
        (drift, clocks, a session, a build) for a change. Rules that measure one process a side know nothing of
        how much launches of the same code differ. Rules with a threshold of 10 % or more are nearly quiet
        because they see little. In percent, launch sd 1 %; 95 % limits are within {_half_width(results)} points:"""
    )


def about_the_same_trials() -> list[str]:
    return paragraph(
        f"""The tools meet the noise of our own comparisons, from the same seeds; only the order in which base
        and head run differs, as it does between the tools. A rule that takes several values from one process
        gets values that vary by {WITHIN:g} of the launch noise. *Session offset*: a tool's two sides are two
        sessions and each value of a stored history is one of its own; ours are our two stages."""
    )


def about_power() -> list[str]:
    return paragraph(
        """Left a quiet machine, right one with sticky clocks, launch sd 1 %. At zero on the horizontal axis a
        curve shows false alarms: a rule is good when it starts at the bottom and rises early. On the restless
        machine a rule that starts high says as little about a change as about none."""
    )


def about_trials() -> list[str]:
    return paragraph(
        """Launches until perfguard ends, whatever it says; hollow marks are cases where most comparisons end
        SUSPECT or INCONCLUSIVE. It stops early when the answer is easy (no change, or a large one) or out of
        reach, and spends most near the margin. Lines across: what other tools spend on every comparison."""
    )


def costs(results: Results) -> list[str]:
    """What is dearer with perfguard, and what not, in numbers of this run."""
    return [
        *paragraph("Other tools are cheaper, and on a quiet machine some are good enough:"),
        *bullets([*_cheap_tests(results), *_cheap_histories(results), _loud_machine(results)]),
        *paragraph(
            """What the launches buy: a false alarm rate that does not rest on the machine being quiet, builds of
            one commit that do not count as a change, and "no change" as a finding within a margin rather than
            the absence of one."""
        ),
    ]


def _cheap_tests(results: Results) -> list[str]:
    three, few, bars = _own(results, "iid", 0.03), "Welch's t, 5 a side", "hyperfine bars"
    return [
        f"""A change of 3 % costs perfguard {three.mean_trials:.1f} launches on average. {few}, finds it
        in {_found(results, few, 0.03)} of cases with {fresh_launches(PEERS[few])} launches, and calls
        {_found(results, few, 0.0)} of unchanged commits changed even where launches are independent.""",
        f"""Reading {bars} takes {fresh_launches(PEERS[bars])} launches, finds 3 % in
        {_found(results, bars, 0.03)} and is wrong in {_found(results, bars, 0.0)} on the quiet machine:
        where nothing lasts, that is nearly as good as perfguard, cheaper and simpler. With drift it is
        wrong in {_found(results, bars, 0.0, "drift")}, with sticky clocks in
        {_found(results, bars, 0.0, "sticky clocks")}, between sessions in
        {_found(results, bars, 0.0, "session offset")}.""",
    ]


def _cheap_histories(results: Results) -> list[str]:
    asv = "asv continuous"
    return [
        f"""bencher and conbench ask for one new launch. On one quiet machine they find 5 % in
        {_found(results, "bencher t", 0.05)} and {_found(results, "conbench z", 0.05)}; where nights
        differ by 2 %, in {_found(results, "bencher t", 0.05, "session offset")} and
        {_found(results, "conbench z", 0.05, "session offset")} (perfguard:
        {_own(results, "session offset", 0.05).percent(*REPORTS):.3g} %). A machine that was altered
        since is a change of the commit to them.""",
        f"""asv, two launches a side, is wrong in at most {_most(results, asv)}, and sees 5 % in
        {_found(results, asv, 0.05)} of cases, 10 % in {_found(results, asv, 0.10)};
        github-action-benchmark sees neither.""",
    ]


def _loud_machine(results: Results) -> str:
    noisy = results.ours[Cell(scenario="iid", effect=0.05, sd=0.05).key]
    return f"""Where launches vary by 5 %, a change of 5 % ends SUSPECT or INCONCLUSIVE in
        {noisy.percent(Outcome.INCONCLUSIVE, Outcome.SUSPECT):.3g} % of comparisons, after
        {noisy.mean_trials:.1f} launches on average. A t test always answers."""


def about_two_primaries() -> list[str]:
    return paragraph(
        f"""Both metrics have the true change; half of their noise is common (each is a sum of two draws of the
        scenario, correlation {CORRELATION:g}). The comparison goes on until both have ended."""
    )


def about_agreement() -> list[str]:
    return paragraph(
        """Not held against real code: criterion (Rust), bencher (Rust, a server), benchstat (Go; the U test
        agrees with scipy's), github-action-benchmark (one comparison). criterion's bootstrap draws 2,000
        resamples here, not 100,000. conbench sees 79 stored values, not up to 100, and its statistics ran
        without its server. asv's rule for fewer than five values a side and bencher's other models are not here.
        nvbench-compare-robust is given one clock for both sides."""
    )


def _own(results: Results, scenario: str, effect: float = 0.0) -> Tally:
    return results.ours[Cell(scenario=scenario, effect=effect, sd=USUAL_SD).key]


def _peer(results: Results, peer: str, effect: float, scenario: str) -> Tally:
    return results.peers[PeerCell(peer=peer, scenario=scenario, effect=effect, sd=USUAL_SD).key]


def _found(results: Results, peer: str, effect: float, scenario: str = "iid") -> str:
    return f"{_peer(results, peer, effect, scenario).percent(CHANGED):.3g} %"


def _most(results: Results, peer: str) -> str:
    worst = max(NO_CHANGES, key=lambda name: _peer(results, peer, 0.0, name).percent(CHANGED))
    return f"{_found(results, peer, 0.0, worst)} ({worst})"


def _half_width(results: Results) -> str:
    num = min(_peer(results, peer, 0.0, "iid").num for peer in PEERS)
    return f"{1.96 * 50 / num**0.5 + 50 / num:.1f}"
