"""How well the engine runner's client sees tokens: against a server that says when it sent each of them.

    PYTHONPATH=. python3 -m benchmarks.engines.client_overhead [--realtime] [--busy N] [--wait-s S] [--out F.json]

Gaps of 1 to 50 ms, 1 to 64 streams. Both sides read the machine's monotonic clock, so a token seen late shows as such.
TPOT is compared with the one that the server's own times give (its Python may keep no gap of 1 ms on 64 streams: then
the gap it did keep is what has to be measured), TTFT by how much later than sent the first token was read. `--busy N`
starts N endless loops beside it, ahead of it where that is permitted: then a load has to come out as
`client_starved`, or right. `others` is how many cores were
used by anything but client and server; with `--wait-s` each load waits (so long at most) for a second without others.
"""

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from runners.engines import figures
from runners.engines.measuring import measure
from runners.engines.records import Answer, Load, Observation, Prompt

EMITTER = Path(__file__).resolve().parents[2] / "tests" / "engines"
GAPS_MS = (1, 2, 5, 10, 20, 50)
STREAMS = (1, 4, 16, 64)
FIRST_S = 0.05
SPAN_S = 2.0  # of one load, about
MAX_OTHERS = 0.1  # cores
MAX_TPOT_ERROR, MAX_TTFT_ERROR_S = 0.01, 0.001
HEAD = (
    "| gap ms | streams | gap sent ms | TPOT off % (worst) | first token late ms (worst) | waited % | busy % | others"
    " | outcome |"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--realtime", action="store_true", help="the client under SCHED_RR")
    parser.add_argument("--busy", type=int, default=0, help="endless loops beside it")
    parser.add_argument("--gaps", type=float, nargs="*", default=GAPS_MS)
    parser.add_argument("--streams", type=int, nargs="*", default=STREAMS)
    parser.add_argument("--wait-s", type=float, default=0.0, help="for a quiet second before each load, at most")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    sys.path.insert(0, str(EMITTER))
    from client_cases import emitting

    rows = []
    print(f"{HEAD}\n|{'---|' * HEAD.count('|', 1)}", flush=True)
    with emitting() as emitter, busy(asked.busy):
        measure(emitter.endpoint, "completions", a_load(4, 50.0, asked.realtime))  # the first load pays for code paths
        for gap_ms in asked.gaps:
            for streams in asked.streams:
                wait_for_quiet(asked.wait_s)
                rows.append(one_cell(emitter, gap_ms, streams, asked.realtime))
                print(as_line(rows[-1]), flush=True)
    if asked.out:
        asked.out.write_text(json.dumps({"asked": {**vars(asked), "out": None}, "rows": rows}, indent=1))


@contextmanager
def busy(num: int) -> Iterator[None]:
    loops = [multiprocessing.Process(target=spin, daemon=True) for _ in range(num)]
    for loop in loops:
        loop.start()
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.join()


def spin() -> None:
    with suppress(PermissionError):
        os.nice(-10)
    while True:
        pass


def a_load(streams: int, gap_ms: float, realtime: bool) -> Load:
    """All streams at once; each can be told by its prompt."""
    prompts = tuple(Prompt(ids=(number,)) for number in range(streams))
    num_tokens = max(40, min(1000, round(SPAN_S * 1000 / gap_ms)))
    return Load(
        prompts=prompts,
        num_requests=streams,
        num_tokens=num_tokens,
        concurrency=streams,
        timeout_s=120,
        realtime=realtime,
    )


def one_cell(emitter: Any, gap_ms: float, streams: int, realtime: bool) -> dict[str, Any]:
    emitter.play(first_s=FIRST_S, gap_s=gap_ms / 1000)
    begin = machine_s(), own_s(emitter.pid), time.monotonic()
    observation = measure(emitter.endpoint, "completions", a_load(streams, gap_ms, realtime))
    others_s = (machine_s() - begin[0]) - (own_s(emitter.pid) - begin[1])
    others = others_s / (time.monotonic() - begin[2])
    told = {record["body"]["prompt"][0]: [at_ns for at_ns, _ in record["sent"]] for record in emitter.report()}
    return {"gap_ms": gap_ms, "streams": streams, "others": others, **compare(observation, told)}


def machine_s() -> float:
    """Seconds that all cores of the machine have worked."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_s(emitter_pid: int) -> float:
    """Seconds that client and emitter have worked; the loops of `--busy` are others."""
    fields = Path(f"/proc/{emitter_pid}/stat").read_text().rpartition(")")[2].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for_quiet(wait_s: float) -> None:
    end = time.monotonic() + wait_s
    while time.monotonic() < end:
        before = machine_s()
        time.sleep(1.0)
        if machine_s() - before < MAX_OTHERS:
            return


def compare(observation: Observation, told: dict[int, list[int]]) -> dict[str, Any]:
    """The client against the times that the server told, by stream; the medians are what a trial reports."""
    pairs = [(answer, told[number]) for number, answer in enumerate(observation.answers)]
    sent_s = [(sent[-1] - sent[0]) / 1e9 / (len(sent) - 1) for _, sent in pairs]
    off = [(figures.tpot_s(answer) or 0.0) / gap_s - 1 for (answer, _), gap_s in zip(pairs, sent_s, strict=True)]
    late_s = [late(answer, sent) for answer, sent in pairs]
    return {
        "sent_gap_ms": statistics.median(sent_s) * 1e3,
        "tpot_off": observation.values["tpot_s"] / statistics.median(sent_s) - 1,
        "tpot_off_worst": max(off, key=abs),
        "ttft_late_s": statistics.median(late_s),
        "ttft_late_worst_s": max(late_s),
        **{
            name: observation.counts["client"][name] for name in ("wait_share", "cpu_share", "mean_late_s", "scheduler")
        },
        "reasons": [f"{reason.code}: {reason.text}" for reason in observation.reasons],
    }


def late(answer: Answer, sent: list[int]) -> float:
    return (answer.first_ns - sent[0]) / 1e9


def outcome(row: dict[str, Any]) -> str:
    """`right`, or void by the client's own word; `WRONG` is a number that is off and was not voided."""
    is_right = abs(row["tpot_off"]) <= MAX_TPOT_ERROR and row["ttft_late_s"] <= MAX_TTFT_ERROR_S
    if row["reasons"]:
        return f"void, {'right' if is_right else 'off'}"
    return "right" if is_right else "WRONG"


def as_line(row: dict[str, Any]) -> str:
    cells = (
        f"{row['gap_ms']:g}",
        row["streams"],
        f"{row['sent_gap_ms']:.3f}",
        f"{row['tpot_off'] * 100:+.2f} ({row['tpot_off_worst'] * 100:+.2f})",
        f"{row['ttft_late_s'] * 1e3:.2f} ({row['ttft_late_worst_s'] * 1e3:.2f})",
        f"{(row['wait_share'] or 0) * 100:.1f}",
        f"{(row['cpu_share'] or 0) * 100:.0f}",
        f"{row['others']:.2f}",
        outcome(row),
    )
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
