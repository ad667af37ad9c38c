"""Holds our rules of other tools against those tools' real code, on 200 cases each; the answers are kept.

    python -m benchmarks.verdicts.validate_peers PEER_PYTHON [--checkout NAME=FOLDER ...]

PEER_PYTHON: an interpreter with some of pyperf, asv, apache-otava, cuda-bench (`--no-deps`), conbench (`--no-deps`,
with pandas and SQLAlchemy); apache-otava wants numpy 2.2.0. `--checkout` names folders with scripts that no package
holds: `google-benchmark=` (its tools/) and `hyperfine=` (its scripts/); the folder's name is noted as the version.
What is missing is said, and keeps its old answers.
"""

import argparse
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.verdicts.peers import PEERS, WITHIN
from benchmarks.verdicts.scenarios import Floats

ANSWERS = Path(__file__).with_name("peer_answers.json")
NUM_CASES = 200
SEED = 200
# True slowdowns, in standard deviations of what the rule sees, that bring both answers about; asv asks for 10 %.
REACH = {"asv continuous": (0.03, 0.105), "conbench z": (0.01, 0.06), "nvbench-compare-robust": (0.01, 0.03)}


def cases(peer: str) -> tuple[Floats, Floats]:
    """200 cases (base, head) of a peer's own layout: launches of sd 1 %, differences on either side of its limit."""
    rng = np.random.default_rng([SEED, list(PEERS).index(peer)])
    layout = PEERS[peer]
    sd, centre = REACH.get(peer, (0.01, 0.01))
    effects = centre * rng.choice([-1.0, 0.0, 0.5, 1.0, 1.5], (NUM_CASES, 1, 1))
    sides = []
    for launches, shift in ((layout.base, 0.0), (layout.head, effects)):
        logs = rng.normal(0.0, sd, (NUM_CASES, launches, 1)) + shift
        within = rng.normal(0.0, WITHIN * sd if layout.repeats > 1 else 0.0, (NUM_CASES, launches, layout.repeats))
        sides.append(np.exp(logs + within).reshape(NUM_CASES, -1))
    if layout.is_history:
        # Half of the histories hold one bad night, which some rules leave out.
        sides[0][np.arange(0, NUM_CASES, 2), rng.integers(2, layout.base - 2, NUM_CASES // 2)] *= 1.3
    return sides[0], sides[1]


def own_answers(peer: str) -> str:
    return "".join("01"[int(is_changed)] for is_changed in PEERS[peer].rule(*cases(peer)))


def agreement(peer: str, answers: str) -> int:
    """Of 200 cases, in how many our rule answers as the real code did."""
    return sum(a == b for a, b in zip(own_answers(peer), answers, strict=True))


def ask(python: str, checkouts: Sequence[str]) -> dict[str, dict[str, str]]:
    script = Path(__file__).with_name("peer_answers.py")
    content = {
        peer: dict(zip(("base", "head"), (side.tolist() for side in cases(peer)), strict=True)) for peer in PEERS
    }
    flags = [word for checkout in checkouts for word in ("--checkout", checkout)]
    done = subprocess.run(
        [python, str(script), *flags], input=json.dumps(content), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{python} could not be asked:\n{done.stderr}")
    answers: dict[str, dict[str, str]] = json.loads(done.stdout)
    return answers


def load(path: Path = ANSWERS) -> dict[str, dict[str, str]]:
    """Stored answers of real code by peer: {"version": ..., "answers": 200 digits, 1 for changed}."""
    if not path.exists():
        return {}
    stored: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return stored


def agreement_table(stored: Mapping[str, Mapping[str, str]]) -> list[str]:
    lines = ["| rule | real code | says changed | agrees |", "|---|---|---|---|"]
    for peer, entry in stored.items():
        changed, agreed = entry["answers"].count("1"), agreement(peer, entry["answers"])
        lines.append(f"| {peer} | {entry['version']} | {changed} of {NUM_CASES} | {agreed} of {NUM_CASES} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="Our rules of other tools against their real code.")
    parser.add_argument("python", help="interpreter of an environment with the tools")
    parser.add_argument("--checkout", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--out", type=Path, default=ANSWERS)
    options = parser.parse_args()
    stored = load(options.out)
    for peer, entry in ask(options.python, options.checkout).items():
        if "missing" in entry:
            print(f"{peer}: not asked, {entry['missing']}")
        else:
            stored[peer] = entry
    options.out.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print("\n".join(agreement_table(stored)))


if __name__ == "__main__":
    main()
