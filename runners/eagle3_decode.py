"""Mode eagle3: draft, verify, accept over fixed prompts, each phase timed apart. Must not print or judge.

A cycle emits for each sequence the accepted drafted tokens and one more of the target (the bonus), so at least one.
Where steps are enqueued ahead of the host, phases cannot be told apart by its clock: only cycles are timed here, and
phases by time stamps of the device in a pass of their own (marked.py).
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from statistics import median

from runners.contract import ModeRun, Session
from runners.timing import batches, clock, end_of_step, find_warmup

PHASES = ("draft", "verify", "accept")


@dataclass(kw_only=True)
class CycleLog:
    """One row a cycle, allocated before the timed loop and filled up to `cycles`; times in seconds.

    `emitted`, `drafted`: by cycle, of the sequences that still wanted tokens. `emitted_each`: by cycle and sequence.
    """

    cycle_s: list[float]
    draft_s: list[float]
    verify_s: list[float]
    accept_s: list[float]
    drafted: list[int]
    emitted: list[int]
    emitted_each: list[int] = field(default_factory=list)
    ttft_s: list[float] = field(default_factory=list)
    cycles: int = 0
    cycles_by_prompt: list[int] = field(default_factory=list)
    emitted_by_prompt: list[int] = field(default_factory=list)
    has_phases: bool = True


def measure(
    session: Session, prompts: Sequence[list[int]], tokens: int, slowdown: float = 1.0, batch: int = 1
) -> ModeRun:
    """Generate at least `tokens` ids for each prompt and keep exactly `tokens`.

    The surplus of a prompt's last cycle is left out of tokens and digest, but counts for throughput and accept
    length: the cycle's whole time is counted too. `slowdown` above 1 is a control: each phase then takes that
    many times as long.
    """
    log = new_log(len(prompts) * tokens)
    generated = [
        ids[:tokens] for some in batches(prompts, batch) for ids in generate(session, some, tokens, log, slowdown)
    ]
    return summarise(log, generated)


def new_log(rows: int) -> CycleLog:
    return CycleLog(
        cycle_s=[0.0] * rows,
        draft_s=[0.0] * rows,
        verify_s=[0.0] * rows,
        accept_s=[0.0] * rows,
        drafted=[0] * rows,
        emitted=[0] * rows,
    )


def generate(
    session: Session, prompts: Sequence[list[int]], tokens: int, log: CycleLog, slowdown: float = 1.0
) -> list[list[int]]:
    """Whole cycles of one batch until every prompt has `tokens` ids. A prompt that has them is no longer counted.

    Raises ValueError on a cycle that emits too few or too many.
    """
    session.synchronize()
    begin = clock()
    ids = [[token] for token in session.prefill(prompts, mode="eagle3")]
    session.synchronize()
    log.ttft_s.append(clock() - begin)
    log.has_phases = session.run_ahead == 0
    cycles = [0] * len(ids)
    run = cycles_in_phases if log.has_phases else cycles_ahead
    with closing(run(session, log, slowdown)) as answers:
        while wanted := [index for index, mine in enumerate(ids) if len(mine) < tokens]:
            emitted = next(answers)
            record(log, [emitted[index] for index in wanted], session.num_drafted)
            for index in wanted:
                ids[index].extend(emitted[index])
                cycles[index] += 1
    log.cycles_by_prompt += cycles
    log.emitted_by_prompt += [len(mine) - 1 for mine in ids]
    return ids


def cycles_in_phases(session: Session, log: CycleLog, slowdown: float) -> Iterator[list[list[int]]]:
    """What each cycle emitted, by sequence; every phase is waited for and timed."""
    while True:
        begin = clock()
        session.draft()
        session.synchronize()
        is_drafted = end_of_step(begin, slowdown)
        session.verify()
        session.synchronize()
        is_verified = end_of_step(is_drafted, slowdown)
        session.accept()
        emitted = session.read()
        session.synchronize()
        end = end_of_step(is_verified, slowdown)
        row = log.cycles
        log.draft_s[row] = is_drafted - begin
        log.verify_s[row] = is_verified - is_drafted
        log.accept_s[row] = end - is_verified
        log.cycle_s[row] = end - begin
        yield emitted


def cycles_ahead(session: Session, log: CycleLog, slowdown: float) -> Iterator[list[list[int]]]:
    """The same with `run_ahead` cycles enqueued beyond the one that is read; a cycle lasts from read to read.

    With a planted slowdown nothing is enqueued ahead: the device would work through the wait and hide it.
    """
    ahead = session.run_ahead if slowdown == 1.0 else 0
    waiting = 0
    begin = clock()
    try:
        while True:
            for _ in range(ahead + 1 - waiting):
                session.draft()
                session.verify()
                session.accept()
            waiting = ahead
            emitted = session.read()
            end = end_of_step(begin, slowdown)
            log.cycle_s[log.cycles], begin = end - begin, end
            yield emitted
    finally:  # what was enqueued before the host knew that it is not needed
        for _ in range(waiting):
            session.read()


def record(log: CycleLog, emitted: Sequence[Sequence[int]], num_drafted: int) -> None:
    """The counts of one cycle. `emitted`: of the sequences that wanted tokens."""
    counts = [len(tokens) for tokens in emitted]
    for count in counts:
        if not 1 <= count <= num_drafted + 1:
            raise ValueError(f"cycle {log.cycles} emitted {count} tokens from {num_drafted} drafted")
    log.drafted[log.cycles] = num_drafted * len(counts)
    log.emitted[log.cycles] = sum(counts)
    log.emitted_each += counts
    log.cycles += 1


def summarise(log: CycleLog, generated: Sequence[Sequence[int]]) -> ModeRun:
    whole = log.cycle_s[: log.cycles]
    emitted = log.emitted[: log.cycles]
    warmup = find_warmup(whole)
    start = warmup.discarded
    phases = {name: getattr(log, f"{name}_s")[: log.cycles] for name in PHASES} if log.has_phases else {}
    return ModeRun(
        values={
            "eagle3_throughput": sum(emitted[start:]) / sum(whole[start:]),
            # Over all cycles: a count is exact and needs no warm-up.
            "eagle3_accept_length": sum(emitted) / len(log.emitted_each),
            "eagle3_cycle_s": median(whole[start:]),
            **{f"eagle3_{name}_s": median(times[start:]) for name, times in phases.items()},
            "eagle3_ttft_s": median(log.ttft_s),
        },
        samples={
            "eagle3_cycle_s": whole,
            **{f"eagle3_{name}_s": times for name, times in phases.items()},
            "eagle3_ttft_s": log.ttft_s,
            "eagle3_emitted": [float(count) for count in emitted],
        },
        counts=count_cycles(log) | {"prompts": len(generated), "tokens": sum(map(len, generated))},
        warmup=asdict(warmup),
        tokens=generated,
    )


def count_cycles(log: CycleLog) -> dict[str, int | list[int]]:
    """Whole numbers only; rates and lengths follow from them. A cycle of a batch counts once for each sequence."""
    cycles, drafted = len(log.emitted_each), sum(log.drafted[: log.cycles])
    most = drafted // cycles if cycles else 0
    return {
        "cycles": cycles,
        "drafted": drafted,
        "accepted": sum(log.emitted_each) - cycles,
        "emitted": sum(log.emitted_each),
        # How many cycles had their first, second, ... drafted token accepted.
        "accepted_by_position": [sum(count - 1 > position for count in log.emitted_each) for position in range(most)],
        "cycles_by_prompt": log.cycles_by_prompt,
        "emitted_by_prompt": log.emitted_by_prompt,
    }
