"""A preset through a whole launch of the runner, as the harness starts it."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARAMS = {
    "target": "preset:tiny",
    "layers": 7,
    "weights_seed": 3,
    "num_draft_tokens": 2,
    "accept_rates": "0.9,0.4",
    "tokens": 50,
    "prompts": 2,
}


def test_both_modes_of_a_preset_are_measured_and_accept_what_was_asked_for(tmp_path):
    spec = {
        "schema": "perfguard/spec@1", "trial": "t", "runner": "tp_moe", "modes": ["plain", "eagle3"], "params": PARAMS,
        "subject_root": str(ROOT), "seed": 1, "result": f"{tmp_path}/result-{{rank}}", "ready": f"{tmp_path}/ready",
    }  # fmt: skip
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    command = [sys.executable, "-P", str(ROOT / "runners/__main__.py"), str(tmp_path / "spec.json")]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "result-0").read_text())
    cycles, by_position = (result["counts"]["eagle3"][name] for name in ("cycles", "accepted_by_position"))
    assert abs(by_position[0] - 0.9 * cycles) < 5
    assert abs(by_position[1] - 0.4 * cycles) < 5
    assert "equals_plain" not in result["counts"]["eagle3"]  # what was accepted is not what the target would say
    assert result["versions"]["files_sha256"]["target"] == "preset:tiny?layers=7&seed=3"
    session = result["versions"]["session"]
    assert session["target"]["num_layers"] == 7
    assert session["memory"]["total_bytes"] > session["memory"]["weights_bytes"] > 1_000_000
