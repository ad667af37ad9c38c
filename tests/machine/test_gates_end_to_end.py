"""Comparisons on a scripted GPU that misbehaves: what the gates make of it, through the command line itself.

The measured command loads the card, counts its runs, and does to the machine what the test planned for that run or
side. Its numbers say that head is slower, or that nothing changed.
"""

import json
import sys
from pathlib import Path

import pytest
from standin import h200

sys.path.append(str(Path(__file__).resolve().parents[1] / "e2e"))
from cli_support import Project, codes, texts

# Runs 1 and 2 are the unmeasured first ones. A plan maps a run or a side to lines of the script to be changed:
# {"after": [[old, new], ...]} when it ends, {"during": ...} while it is loaded, {"add": N} to the counter of 251.
BENCH = """
import json, os, pathlib, re, time

gpus = pathlib.Path(os.environ["PERFGUARD_STANDIN"])
runs = pathlib.Path("RUNS")
number = len(runs.read_text().splitlines()) + 1 if runs.exists() else 1
runs.open("a").write("run\\n")
side = json.load(open("side.json"))
plan = json.load(open("PLAN"))
todo = plan.get(str(number), plan.get(side["name"], {}))


def change(pairs):
    text = gpus.read_text()
    for old, new in pairs:
        text = text.replace(old, new)
    new = gpus.with_suffix(".bench")
    new.write_text(text)
    os.replace(new, gpus)


change(todo.get("during", []))
load = pathlib.Path(f"{gpus}.load")
load.touch()
time.sleep(0.5)  # several looks at the card, also where the machine is busy
load.unlink()
change([(new, old) for old, new in todo.get("during", [])])
if "add" in todo:
    found = re.search(r"gpu 0 field.269 (\\d+)", gpus.read_text())
    change([(found.group(), f"gpu 0 field.269 {int(found.group(1)) + todo['add']}")])
change(todo.get("after", []))
print(json.dumps({"x": side["x"]}))
"""
COOL = "gpu 0 sm_clock_mhz load 345 1980"
HOT = "gpu 0 sm_clock_mhz load 345 1500"
ALONE = "gpu 0 utilisation_percent load 0 100"
HIDDEN = "gpu 0 utilisation_percent load 97 100"
EMPTY = f"gpu 0 memory_used_bytes {2 * 2**20}"
FULL = f"gpu 0 memory_used_bytes {9000 * 2**20}"
NEIGHBOUR = [[ALONE, HIDDEN], [EMPTY, FULL]]


class Lab:
    """A project whose two commits report `x`, on one scripted card."""

    def __init__(self, folder, script):
        self.folder, self.script = folder, script.write(*h200(0))
        self.project = Project(folder=folder)
        bench = BENCH.replace("RUNS", str(folder / "runs")).replace("PLAN", str(folder / "plan.json"))
        self.project.commit({"bench.py": bench, "side.json": {"name": "base", "x": 1.0}})

    def compare(self, plan, *options, head, code):
        self.project.commit({"side.json": {"name": "head", "x": head}})
        (self.folder / "plan.json").write_text(json.dumps(plan))
        gpus = {name: self.script.env[name] for name in ("LD_LIBRARY_PATH", "PERFGUARD_STANDIN")}
        command = ("--metric", "x", "--", sys.executable, "bench.py")
        return self.project.compare(*options, *command, code=code, **gpus)

    def found(self, comparison):
        return {row["gate"]: row["found"] for row in comparison["conditions"]["gates"] if row["found"]}


@pytest.fixture
def lab(tmp_path, script):
    return Lab(tmp_path, script)


def test_a_healthy_card_with_an_idle_link_of_generation_1_sets_off_nothing(lab):
    comparison = lab.compare({}, head=1.0, code=0)
    assert comparison["outcome"] == "EQUIVALENT"
    gpu_gates = set(lab.found(comparison)) - {"pressure", "steal", "swap"}  # those are this host's own
    assert gpu_gates == set()
    assert "fields of 1 GPU usable" in comparison["conditions"]["coverage"]["text"]
    assert comparison["conditions"]["trials"][0]["sm_clock_mhz"] == pytest.approx(1980)


def test_a_thermal_limit_in_one_arm_only_is_invalid_and_never_a_suspicion(lab):
    comparison = lab.compare({"head": {"during": [[COOL, HOT]], "add": 300_000_000}}, "--no-confirm", head=1.3, code=4)
    assert comparison["outcome"] == "INVALID"
    assert {"ONE_SIDED_THERMAL", "ONE_SIDED_CLOCK"} <= set(codes(comparison))
    assert "1980 MHz in base, 1500 MHz in head" in texts(comparison)


def test_a_hidden_neighbour_for_a_while_costs_blocks_and_not_the_verdict(lab):
    """It comes as run 4 ends and goes as run 5 ends: both are void, their blocks replaced, and nothing changed."""
    away = [[new, old] for old, new in NEIGHBOUR]
    comparison = lab.compare({"4": {"after": NEIGHBOUR}, "5": {"after": away}}, head=1.0, code=0)
    assert comparison["outcome"] == "EQUIVALENT"
    assert comparison["blocks"]["void"] == 1
    assert any("FOREIGN_LOAD" in text for text in lab.found(comparison)["foreign"])


def test_a_driver_that_is_updated_in_mid_campaign_ends_invalid(lab):
    update = {"after": [["driver 580.65.06", "driver 580.95.05"]]}
    comparison = lab.compare({"5": update}, head=1.3, code=4)
    assert codes(comparison)[0] == "MACHINE_CHANGED"
    assert comparison["trials"]["ok"] <= 3, "it stops as soon as it is seen"


def test_a_lost_card_ends_in_one_clear_invalid_and_leaves_nothing_behind(lab):
    lost = {"after": [["cuda 13000", "cuda 13000\nfault * 15 gpu=0"]]}
    comparison = lab.compare({"5": lost}, head=1.0, code=4)
    assert (comparison["outcome"], codes(comparison).count("GPU_LOST")) == ("INVALID", 1)
    assert "the hardware failed" in texts(comparison)
    assert [path for path in lab.project.cache.rglob("*") if path.name == "tree"] == []
