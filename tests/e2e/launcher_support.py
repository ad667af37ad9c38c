"""The launcher as a process of its own, and subjects for it: stand-ins that speak the contract without torch."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from perfguard import protocol

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = ROOT / "runners" / "__main__.py"

# A subject that speaks the contract without torch: the next id depends on all ids before it; of the drafted ids
# the third is always wrong and the second in every other cycle.
STAND_IN = """
API_VERSION = 1

def target(ids):
    return (sum(ids) * 7 + len(ids)) % 256

def build(spec):
    return Session(spec)

class Session:
    def __init__(self, spec):
        self.spec, self.ids, self.cycles = spec, [], 0
    def prefill(self, prompt, mode="plain"):
        self.ids, self.cycles = list(prompt), 0
        self.ids.append(target(self.ids))
        return self.ids[-1]
    def decode(self, token):
        assert token == self.ids[-1]
        self.ids.append(target(self.ids))
        return self.ids[-1]
    def draft(self):
        ids = list(self.ids)
        for _ in range(self.spec["num_draft_tokens"]):
            ids.append(target(ids))
        drafted = ids[len(self.ids):]
        drafted[2] = 255 - drafted[2]
        if self.cycles % 2:
            drafted[1] = 255 - drafted[1]
        self.cycles += 1
        return drafted
    def verify(self, drafted):
        return [target(self.ids + drafted[:n]) for n in range(len(drafted) + 1)]
    def accept(self, drafted, verified):
        n = next((i for i, d in enumerate(drafted) if d != verified[i]), len(drafted))
        self.ids += [*drafted[:n], verified[n]]
        return [*drafted[:n], verified[n]]
    def synchronize(self): pass
    def marks(self): return {}
    def peak_memory_bytes(self): return 12345
    def describe(self): return {"versions": {"torch": "none"}, "spec": dict(self.spec)}
    def close(self): pass
"""


def write_spec(folder, subject_root, runner, modes=("plain", "eagle3"), seed=1, trial="t1", **params):
    spec = protocol.Spec(
        trial=trial, runner=runner, modes=modes, params=params, subject_root=str(subject_root), seed=seed,
        result=str(folder / "result-{rank}.json"), ready=str(folder / "ready-{rank}"),
    )  # fmt: skip
    protocol.write(folder / "spec.json", spec)
    return folder / "spec.json"


def workload_files(folder, prompts=((1, 2, 3), (40, 50))):
    """Parameters that point to a prompt file and to stand-ins for weights."""
    (folder / "prompts.json").write_text(json.dumps({"prompts": prompts}))
    (folder / "weights").write_bytes(b"w")
    weights = str(folder / "weights")
    return {"target": weights, "draft": weights, "prompt_file": str(folder / "prompts.json"), "prompts": len(prompts)}


def start(spec, launcher=LAUNCHER, options=("-P",), **env):
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PERFGUARD"))}
    command = [sys.executable, *options, str(launcher), str(spec)]
    return subprocess.Popen(command, env={**clean, **env}, stderr=subprocess.PIPE, text=True)


def launch(spec, **options):
    """(exit code, result of rank 0 or None, standard error)."""
    process = start(spec, **options)
    errors = process.communicate(timeout=60)[1]
    path = spec.parent / "result-0.json"
    return process.returncode, protocol.read_result(path) if path.exists() else None, errors


def wait_for(path, process):
    for _ in range(600):
        if path.exists():
            return
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    raise AssertionError(f"{path} never appeared")
