"""The built-in decode step against the memory floor and against transformers, on one GPU, in one run under 8 minutes.

    PYTHONPATH=. python3 -m benchmarks.decode.measure --out DIR [--launches 10] [--budget 470]
    PYTHONPATH=. python3 -m benchmarks.decode.measure --out DIR --device cpu --tiny --launches 2    (tries the program)

Parts, each a process of its own: kernels against PyTorch, alone and timed; transformers compiled, same widths; launches
of the runner, as perfguard starts them. What there was no time for, or failed, is said and left out, not filled in.
Writes DIR/results.json and DIR/results.md after every part.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.decode.page import page
from perfguard import protocol

ROOT = Path(__file__).resolve().parents[2]
NUM_DRAFT_TOKENS = 2
# Seconds that a part may take at most, and that the first launch (which fills compile caches) is given.
PART_S, FIRST_LAUNCH_S = 150.0, 150.0


def main() -> None:
    asked = parse()
    until = time.monotonic() + asked.budget
    asked.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"asked": {**vars(asked), "out": str(asked.out)}, "launches": [], "notes": []}
    launch_all(asked, found, until=until, count=1)
    for name in filter(None, asked.parts.split(",")):
        found[name] = part(asked, found, name, until)
    launch_all(asked, found, until=until, count=asked.launches - 1)
    save(asked, found)
    print((asked.out / "results.md").read_text())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="the tiny widths, to try the program")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--launches", type=int, default=10, help="A/A launches, of which the spread is taken")
    parser.add_argument("--prompts", type=int, default=8, help="many short ones, so that the context stays short")
    parser.add_argument("--tokens", type=int, default=128, help="new tokens a prompt")
    parser.add_argument("--parts", default="kernels,transformers", help="what is measured beside launches")
    parser.add_argument("--budget", type=float, default=470.0, help="seconds in all")
    return parser.parse_args()


def save(asked: argparse.Namespace, found: dict[str, Any]) -> None:
    (asked.out / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    (asked.out / "results.md").write_text(page(found))


def part(asked: argparse.Namespace, found: dict[str, Any], name: str, until: float) -> dict[str, Any] | None:
    """What the module of that name writes; None with a note if it fails or time runs out."""
    left = min(PART_S, until - time.monotonic())
    path = asked.out / f"{name}.json"
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", f"benchmarks.decode.{name}", "--out", str(path), "--device", asked.device]
    command += ["--widths", "tiny" if asked.tiny else "qwen3-30b-a3b", "--layers", str(asked.layers)]
    interpreted = {"TRITON_INTERPRET": "1"} if asked.device == "cpu" else {}
    say = run(command, os.environ | interpreted | {"PYTHONPATH": str(ROOT)}, left, asked.out / f"{name}.log")
    if say:
        found["notes"].append(f"{name}: {say}")
    save(asked, found)
    return json.loads(path.read_text()) if path.exists() else None


def launch_all(asked: argparse.Namespace, found: dict[str, Any], *, until: float, count: int) -> None:
    """Launches of the runner one after the other, as long as another one fits."""
    for _ in range(count):
        number = len(found["launches"])
        longest = max((launch["wall_s"] for launch in found["launches"]), default=0.0)
        if until - time.monotonic() < 1.3 * longest:
            found["notes"].append(f"launches: time for {number} of {asked.launches}")
            return
        launch = one_launch(asked, number, min(FIRST_LAUNCH_S, until - time.monotonic()))
        if "say" in launch:
            found["notes"].append(f"launch {number}: {launch['say']}")
            return
        found["launches"].append(launch)
        save(asked, found)


def one_launch(asked: argparse.Namespace, number: int, limit_s: float) -> dict[str, Any]:
    """Fresh process, both modes, their order alternating; all launches share one folder of compiled kernels."""
    spec_path, result = asked.out / "spec.json", asked.out / f"launch-{number}-{{rank}}.json"
    modes = ("plain", "eagle3") if number % 2 == 0 else ("eagle3", "plain")
    spec = protocol.Spec(
        trial=f"launch-{number}", runner="tp_moe", modes=modes, params=params_of(asked), subject_root=str(ROOT),
        seed=1, result=str(result), ready=str(asked.out / "ready-{rank}"),
    )  # fmt: skip
    protocol.write(spec_path, spec)
    began = time.monotonic()
    command = [sys.executable, "-P", str(ROOT / "runners" / "__main__.py"), str(spec_path)]
    say = run(command, os.environ | caches(asked), limit_s, asked.out / f"launch-{number}.log")
    if say:
        return {"say": say}
    answer = protocol.read_result(str(result).replace("{rank}", "0"))
    return {
        "wall_s": time.monotonic() - began,
        "load_s": answer.load_s,
        "values": dict(answer.values),
        "counts": {mode: dict(counts) for mode, counts in answer.counts.items()},
        "digests": dict(answer.digests),
        "peak_memory_bytes": answer.peak_memory_bytes,
        "device": answer.versions["session"]["device"],
        "versions": answer.versions["session"]["versions"],
    }


def params_of(asked: argparse.Namespace) -> dict[str, Any]:
    preset = "tiny" if asked.tiny else "qwen3-30b-a3b"
    return {
        "target": f"preset:{preset}",
        "layers": 0 if asked.tiny else asked.layers,
        "dtype": "bfloat16",
        "device": asked.device,
        "prompts": asked.prompts,
        "tokens": asked.tokens,
        "num_draft_tokens": NUM_DRAFT_TOKENS,
        "accept_length": 2.0,
    }


def caches(asked: argparse.Namespace) -> dict[str, str]:
    return {"TRITON_CACHE_DIR": str(asked.out.resolve() / "triton")}


def run(command: list[str], environment: dict[str, str], limit_s: float, log: Path) -> str:
    """Empty if the program ended well; else why it did not, with the end of what it said."""
    if limit_s <= 0:
        return "no time was left"
    with open(log, "w") as out:
        try:
            ended = subprocess.run(command, env=environment, cwd=ROOT, stdout=out, stderr=out, timeout=limit_s)
        except subprocess.TimeoutExpired:
            return f"ended after {limit_s:.0f} s"
    code = ended.returncode
    last = log.read_text().strip().splitlines()[-1:]
    return "" if code == 0 else f"exit code {code}: {' '.join(last)}"


if __name__ == "__main__":
    main()
