"""Mode eagle3: draft, verify, accept over fixed prompts, each phase timed apart. Must not print or judge.

A cycle emits the accepted drafted tokens and one more of the target (the bonus), so at least one.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median

from runners.contract import ModeRun, Session
from runners.timing import clock, end_of_step, find_warmup


@dataclass(kw_only=True)
class CycleLog:
    """One row a cycle, allocated before the timed loop and filled up to `cycles`; times in seconds."""

    draft_s: list[float]
    verify_s: list[float]
    accept_s: list[float]
    drafted: list[int]
    emitted: list[int]
    ttft_s: list[float] = field(default_factory=list)
    cycles: int = 0
    cycles_by_prompt: list[int] = field(default_factory=list)


def measure(session: Session, prompts: Sequence[list[int]], tokens: int, slowdown: float = 1.0) -> ModeRun:
    """Generate at least `tokens` ids for each prompt and keep exactly `tokens`.

    The surplus of a prompt's last cycle is left out of tokens and digest, but counts for throughput and accept
    length: the cycle's whole time is counted too. `slowdown` above 1 is a control: each phase then takes that
    many times as long.
    """
    log = new_log(len(prompts) * tokens)
    generated = [generate(session, prompt, tokens, log, slowdown)[:tokens] for prompt in prompts]
    return summarise(log, generated)


def new_log(rows: int) -> CycleLog:
    return CycleLog(
        draft_s=[0.0] * rows, verify_s=[0.0] * rows, accept_s=[0.0] * rows, drafted=[0] * rows, emitted=[0] * rows
    )


def generate(session: Session, prompt: list[int], tokens: int, log: CycleLog, slowdown: float = 1.0) -> list[int]:
    """Whole cycles until there are `tokens` ids. Raises ValueError on a cycle that emits too few or too many."""
    session.synchronize()
    begin = clock()
    ids = [session.prefill(prompt, mode="eagle3")]
    session.synchronize()
    log.ttft_s.append(clock() - begin)
    before = log.cycles
    while len(ids) < tokens:
        emitted = cycle(session, log, slowdown)
        ids.extend(emitted)
    log.cycles_by_prompt.append(log.cycles - before)
    return ids


def cycle(session: Session, log: CycleLog, slowdown: float = 1.0) -> list[int]:
    row = log.cycles
    begin = clock()
    drafted = session.draft()
    session.synchronize()
    is_drafted = end_of_step(begin, slowdown)
    verified = session.verify(drafted)
    session.synchronize()
    is_verified = end_of_step(is_drafted, slowdown)
    emitted = session.accept(drafted, verified)
    session.synchronize()
    end = end_of_step(is_verified, slowdown)
    log.draft_s[row] = is_drafted - begin
    log.verify_s[row] = is_verified - is_drafted
    log.accept_s[row] = end - is_verified
    log.drafted[row] = len(drafted)
    log.emitted[row] = len(emitted)
    log.cycles += 1
    if not 1 <= len(emitted) <= len(drafted) + 1:
        raise ValueError(f"cycle {row} emitted {len(emitted)} tokens from {len(drafted)} drafted")
    return emitted


def summarise(log: CycleLog, generated: Sequence[Sequence[int]]) -> ModeRun:
    draft, verify, accept = (times[: log.cycles] for times in (log.draft_s, log.verify_s, log.accept_s))
    whole = [sum(parts) for parts in zip(draft, verify, accept, strict=True)]
    emitted = log.emitted[: log.cycles]
    warmup = find_warmup(whole)
    start = warmup.discarded
    return ModeRun(
        values={
            "eagle3_throughput": sum(emitted[start:]) / sum(whole[start:]),
            # Over all cycles: a count is exact and needs no warm-up.
            "eagle3_accept_length": sum(emitted) / log.cycles,
            "eagle3_cycle_s": median(whole[start:]),
            "eagle3_draft_s": median(draft[start:]),
            "eagle3_verify_s": median(verify[start:]),
            "eagle3_accept_s": median(accept[start:]),
            "eagle3_ttft_s": median(log.ttft_s),
        },
        samples={
            "eagle3_cycle_s": whole,
            "eagle3_draft_s": draft,
            "eagle3_verify_s": verify,
            "eagle3_accept_s": accept,
            "eagle3_ttft_s": log.ttft_s,
            "eagle3_emitted": [float(count) for count in emitted],
        },
        counts=count_cycles(log) | {"prompts": len(generated), "tokens": sum(map(len, generated))},
        warmup=asdict(warmup),
        tokens=generated,
    )


def count_cycles(log: CycleLog) -> dict[str, int | list[int]]:
    """Whole numbers only; rates and lengths follow from them."""
    drafted, emitted = log.drafted[: log.cycles], log.emitted[: log.cycles]
    return {
        "cycles": log.cycles,
        "drafted": sum(drafted),
        "accepted": sum(emitted) - log.cycles,
        "emitted": sum(emitted),
        # How many cycles had their first, second, ... drafted token accepted.
        "accepted_by_position": [
            sum(count - 1 > position for count in emitted) for position in range(max(drafted, default=0))
        ],
        "cycles_by_prompt": log.cycles_by_prompt,
        "emitted_by_prompt": sums_of_runs(emitted, log.cycles_by_prompt),
    }


def sums_of_runs(values: Sequence[int], lengths: Sequence[int]) -> list[int]:
    """Sums of consecutive runs of `values`."""
    rest = iter(values)
    return [sum(next(rest) for _ in range(length)) for length in lengths]
