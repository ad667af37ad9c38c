"""What telemetry costs what is measured: launches of one CUDA-graph decode loop, watched and not, in random order.

    PYTHONPATH=. python3 -m benchmarks.machine.telemetry_cost --launches 10 [--out F.json]

Needs torch with CUDA and nvidia-ml-py. Observes only: no clock, limit or mode is changed. Without a GPU `--cpu` times
an empty loop instead, to try the program itself.
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from perfguard.machine.telemetry import Telemetry

# Widths and depth of a decode step of about half a millisecond on a large card: long enough to be a real step, short
# enough that whatever interrupts the host or the card shows.
LAYERS, WIDTH, INNER = 12, 2048, 8192
WARM_REPLAYS = 200
BLOCK = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=10, help="of each kind")
    parser.add_argument("--replays", type=int, default=6000, help="of the graph in one launch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cpu", action="store_true", help="try the program without a GPU")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(measure_cpu(asked.replays) if asked.cpu else measure(asked.replays)))
        return
    launches = [launch for pair in range(asked.launches) for launch in pair_of(asked, pair)]
    result = summary(launches)
    print(json.dumps(result, indent=2))
    if asked.out:
        asked.out.write_text(json.dumps({"summary": result, "launches": launches}, indent=1))


def pair_of(asked: argparse.Namespace, pair: int) -> list[dict[str, Any]]:
    """One launch watched and one not, the order drawn."""
    order = [True, False]
    random.Random(1000 * asked.seed + pair).shuffle(order)
    return [one_launch(asked, is_watched) | {"pair": pair} for is_watched in order]


def one_launch(asked: argparse.Namespace, is_watched: bool) -> dict[str, Any]:
    """A fresh process, as a trial is. `added_s`: what the harness adds; `sampler_cpu_s`: what its sampler burns."""
    telemetry = Telemetry(has_gpu=is_watched, say=lambda text: print(text, file=sys.stderr))
    uuids = cards() if is_watched else []
    telemetry.begin(uuids)  # its start is paid once a campaign
    telemetry.end()
    began_s = time.perf_counter()
    telemetry.begin(uuids)
    begun_s = time.perf_counter()
    cpu_s = cpu_of(telemetry)
    told = child(asked)
    ended_s = time.perf_counter()
    sampler_cpu_s = cpu_of(telemetry) - cpu_s
    recording = telemetry.end()
    done_s = time.perf_counter()
    telemetry.close()
    seen = next(iter(recording.during.values()), {})
    return {
        **told,
        "is_watched": is_watched,
        "status": recording.status,
        "why": recording.why,
        "added_s": (begun_s - began_s) + (done_s - ended_s),
        "sampler_cpu_s": sampler_cpu_s,
        "launch_s": ended_s - begun_s,
        "interval_s": telemetry.interval_s,
        "num_samples": seen.get("num_samples", 0),
        "missed": seen.get("missed", 0),
        "record_bytes": len(json.dumps([recording.before, recording.after, recording.during])),
    }


def child(asked: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__).resolve()), "--child", "--replays", str(asked.replays)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*command, *(["--cpu"] if asked.cpu else [])], stdout=subprocess.PIPE, check=True, env=environment, text=True
    )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def cards() -> list[str]:
    from perfguard.machine.nvml import open_nvml

    with open_nvml() as nvml:
        if nvml.reason:
            raise SystemExit(nvml.reason)
        return list(nvml.uuids())


def cpu_of(telemetry: Telemetry) -> float:
    """Processor seconds of the sampler so far, user and system."""
    if telemetry.child is None:
        return 0.0
    fields = Path(f"/proc/{telemetry.child.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(replays: int) -> dict[str, Any]:
    """Median seconds of a graph replay, over blocks that the device's own events time."""
    import torch

    torch.manual_seed(0)
    weights = [
        (
            torch.randn(WIDTH, 3 * WIDTH, device="cuda", dtype=torch.bfloat16) / 45,
            torch.randn(WIDTH, INNER, device="cuda", dtype=torch.bfloat16) / 45,
            torch.randn(INNER, WIDTH, device="cuda", dtype=torch.bfloat16) / 90,
        )
        for _ in range(LAYERS)
    ]
    x_1D = torch.randn(1, WIDTH, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        h_1D = x_1D
        for qkv_DE, up_DF, down_FD in weights:
            q_1D, k_1D, v_1D = (h_1D @ qkv_DE).chunk(3, dim=-1)
            h_1D = h_1D + torch.softmax(q_1D * k_1D, dim=-1) * v_1D
            h_1D = h_1D + torch.nn.functional.silu(h_1D @ up_DF) @ down_FD
        x_1D.copy_(h_1D / h_1D.norm() * math.sqrt(WIDTH))

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(WARM_REPLAYS):
        graph.replay()
    torch.cuda.synchronize()
    return {"step_s": statistics.median(blocks(graph, replays)), "device": torch.cuda.get_device_name()}


def blocks(graph: Any, replays: int) -> list[float]:
    import torch

    seconds = []
    for _ in range(replays // BLOCK):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        for _ in range(BLOCK):
            graph.replay()
        last.record()
        last.synchronize()
        seconds.append(first.elapsed_time(last) / 1000 / BLOCK)
    return seconds


def measure_cpu(replays: int) -> dict[str, Any]:
    seconds = []
    for _ in range(replays // BLOCK):
        began_s = time.perf_counter()
        for k in range(20_000):
            math.sqrt(k)
        seconds.append(time.perf_counter() - began_s)
    return {"step_s": statistics.median(seconds), "device": "cpu"}


def summary(launches: list[dict[str, Any]]) -> dict[str, Any]:
    """The difference is the mean over pairs of ln(watched / not), with its standard error."""
    pairs: dict[int, dict[bool, float]] = {}
    for launch in launches:
        pairs.setdefault(launch["pair"], {})[launch["is_watched"]] = launch["step_s"]
    logs = [math.log(pair[True] / pair[False]) for pair in pairs.values()]
    watched = [launch for launch in launches if launch["is_watched"]]
    bare = [launch["step_s"] for launch in launches if not launch["is_watched"]]
    return {
        "device": launches[0]["device"],
        "num_launches_of_each": len(logs),
        "median_step_s": statistics.median(bare),
        "launch_cv_percent": 100 * statistics.stdev(bare) / statistics.mean(bare) if len(bare) > 1 else None,
        "difference_percent": 100 * statistics.mean(logs),
        "difference_se_percent": 100 * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else None,
        "sampler_cpu_percent_of_one_core": max(100 * one["sampler_cpu_s"] / one["launch_s"] for one in watched),
        "added_per_trial_s": max(one["added_s"] for one in watched),
        "interval_s": sorted({one["interval_s"] for one in watched}),
        "missed": sum(one["missed"] for one in watched),
        "status": sorted({one["status"] for one in watched}),
    }


if __name__ == "__main__":
    main()
