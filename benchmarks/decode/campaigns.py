"""The built-in decoder's campaigns on GPUs, through the command line as a user would run it, one after another.

    PYTHONPATH=. python3 -m benchmarks.decode.campaigns --out DIR --parts words,copy [--layers 8]
    … --parts words --device cpu --tiny (tries the program)

Each part has a limit of seconds, after which it is interrupted as by Ctrl-C; `perfguard` then says how to go on. All of
them go to DIR/results.db, for `perfguard merge`; what each said, to DIR/PART.txt.

| part | what it shows |
|---|---|
| aa1, aa2 | ten launches of one commit on one GPU and on two: how far medians of launches lie apart |
| words | a commit that changes a text: EQUIVALENT |
| copy, outside | a commit that switches a pathology on, by code: REGRESSION, and the part of the cycle that it is in |
| simple, p2p | one commit on two GPUs, NCCL's protocol forced or P2P off on one side |
| r_simple, r_p2p | the same settings, three launches by themselves |
| greedy, greedy32 | one launch without synthetic acceptance, in bf16 and in fp32: do both modes say the same? |
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from perfguard.bundle import bundle_root
from perfguard.demo import model_tree
from perfguard.subject.history import write_history

ROOT = Path(__file__).resolve().parents[2]
PATHOLOGIES = {"copy": "redundant_expert_copy", "outside": "verify_outside_graph"}
SWITCHES = "model/pathologies.py"
# Some hosts of lent or divided GPUs cannot use multicast; NCCL is told so on both sides.
WITHOUT_MULTICAST = ("--env", "NCCL_NVLS_ENABLE=0")
STRICT = ("--margin", "3%", "--alpha", "0.05", "--max-blocks", "4", "--seed", "1")
GREEDY = ("--trials", "1", "--set", "accept_length=0")


@dataclass(frozen=True, kw_only=True)
class Part:
    """Arguments of perfguard, without the workload; GPUs; seconds it may take."""

    arguments: tuple[str, ...]
    num_gpus: int = 1
    limit_s: float = 200.0


PARTS = {
    "aa1": Part(arguments=("run", "base", "--trials", "10")),
    "aa2": Part(arguments=("run", "base", "--trials", "10"), num_gpus=2),
    "words": Part(arguments=("compare", "words~1", "words", *STRICT)),
    "copy": Part(arguments=("compare", "copy~1", "copy", *STRICT), limit_s=300.0),
    "outside": Part(arguments=("compare", "outside~1", "outside", *STRICT), limit_s=300.0),
    "simple": Part(arguments=("compare", "base", "base", "--head-env", "NCCL_PROTO=Simple", *STRICT), num_gpus=2),
    "p2p": Part(arguments=("compare", "base", "base", "--head-env", "NCCL_P2P_DISABLE=1", *STRICT), num_gpus=2),
    "r_simple": Part(arguments=("run", "base", "--trials", "3", "--env", "NCCL_PROTO=Simple"), num_gpus=2),
    "greedy": Part(arguments=("run", "base", *GREEDY)),
    "greedy32": Part(arguments=("run", "base", *GREEDY, "--set", "dtype=float32")),
    "r_p2p": Part(arguments=("run", "base", "--trials", "3", "--env", "NCCL_P2P_DISABLE=1"), num_gpus=2),
}


def main() -> None:
    asked = parse()
    asked.out.mkdir(parents=True, exist_ok=True)
    repository = asked.out / "repository"
    if not repository.exists():
        write_repository(repository)
    for name in asked.parts.split(","):
        run(name, PARTS[name], asked, repository)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", required=True, help=f"some of {', '.join(PARTS)}, with commas between them")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="the tiny widths, to try the program")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--prompts", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument(
        "--shared-kernels", action="store_true",
        help="one folder of compiled kernels for all builds, else the first run of each compiles its own (25 s)",
    )  # fmt: skip
    return parser.parse_args()


def write_repository(folder: Path) -> None:
    """base, then one commit for each part that compares commits; a pathology is switched off again by the next one."""
    tree = model_tree(bundle_root() / "model")
    commits = [("Decode loop", "base", tree), ("Say what this is", "words", tree | {"README.md": "A decode loop.\n"})]
    for tag, name in PATHOLOGIES.items():
        before = f"    {name}: bool = False\n"
        if before not in tree[SWITCHES]:
            raise SystemExit(f"{SWITCHES} has no switch {name} to turn")
        commits.append(("Switch nothing", "", tree))
        switched = tree[SWITCHES].replace(before, before.replace("False", "True"))
        commits.append((f"Refactor: {name}", tag, tree | {SWITCHES: switched}))
    write_history(folder, commits)


def run(name: str, part: Part, asked: argparse.Namespace, repository: Path) -> None:
    command = [sys.executable, "-c", "from perfguard.cli import main; main()", *part.arguments]
    command += ["--repo", str(repository), "--db", str(asked.out.resolve() / "results.db"), *WITHOUT_MULTICAST]
    command += ["-w", "qwen3-30b-a3b", *settings(part, asked)]
    if asked.shared_kernels:
        command += ["--env", f"TRITON_CACHE_DIR={asked.out.resolve() / 'triton'}"]
    print(f"== {name}: perfguard {' '.join(command[3:])}", flush=True)
    began = time.monotonic()
    with open(asked.out / f"{name}.txt", "w") as out:
        child = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=out, stderr=out)
        try:
            code = child.wait(part.limit_s)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)
            code = child.wait()
    print((asked.out / f"{name}.txt").read_text())
    print(f"exit {code} after {time.monotonic() - began:.0f} s", flush=True)


def settings(part: Part, asked: argparse.Namespace) -> list[str]:
    """What differs from the workload's own parameters: an accept length of 2.0 at K=2 is among those."""
    params = {"tp": part.num_gpus, "device": asked.device, "prompts": asked.prompts, "tokens": asked.tokens}
    params |= {"target": "preset:tiny", "layers": 0} if asked.tiny else {"layers": asked.layers}
    return [word for key, value in params.items() for word in ("--set", f"{key}={value}")]


if __name__ == "__main__":
    main()
