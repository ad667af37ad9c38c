"""Starts tp_worker.py as ranks of one launch and reads what they wrote."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def launch(device, out, jobs, world_size=2, timeout_s=120):
    """`jobs`: (folder, prompt) pairs. Returns each rank's results."""
    prompts = json.dumps([prompt for _, prompt in jobs])
    command = [sys.executable, str(Path(__file__).with_name("tp_worker.py")), device, str(out), prompts]
    command += [str(folder) for folder, _ in jobs]
    run_ranks(command, world_size, timeout_s, PYTHONPATH=str(ROOT))
    return [json.loads((out / f"rank{rank}.json").read_text()) for rank in range(world_size)]


def run_ranks(command, world_size, timeout_s=120, **environment):
    """The command once for each rank, with torchrun's variables; all have to end well."""
    shared = {"WORLD_SIZE": world_size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), **environment}
    ranks = []
    for rank in range(world_size):
        env = os.environ | {k: str(v) for k, v in shared.items()} | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    try:
        logs = [rank.communicate(timeout=timeout_s)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * world_size, "\n".join(logs)
