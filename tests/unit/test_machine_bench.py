"""The bench: a program of its own measures, its readings become history, a step in them is told."""

import json
import stat
import sys
import time

import pytest

from perfguard.errors import HarnessError
from perfguard.machine_bench import bench
from perfguard.report.bench import render_bench
from perfguard.report.terminal import open_console
from perfguard.store import open_store
from runners import machine_bench
from tests.unit.store_cases import reading_names


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("PERFGUARD_LOCK_DIR", str(tmp_path / "lock"))
    with open_store(tmp_path / "r.db") as opened:
        yield opened


@pytest.fixture
def told(tmp_path):
    """Stands for the interpreter: says this instead of measuring."""

    def program(text, code=0):
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {code}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return program


def readings(value):
    reading = {"name": "copy/GPU-1", "unit": "byte/s", "value": value}
    return json.dumps({"readings": [reading], "notes": ["peer copy: one card"]})


def test_a_step_of_the_bench_is_told_and_shown(store, told, capsys):
    for value in [4.27e12, 4.26e12, 4.28e12] * 3 + [3.1e12] * 2:
        assert bench(store, python=told(readings(value)))["machine_moved"] == []
        time.sleep(0.002)  # readings have their own millisecond
    result = bench(store, python=told(f"a warning of some library\n{readings(3.1e12)}"))
    (notice,) = result["machine_moved"]
    assert (notice["name"], notice["after"]) == ("copy/GPU-1", 3.1e12)
    render_bench(result, open_console())
    shown = capsys.readouterr().out
    assert "copy/GPU-1" in shown
    assert "3,100 GB/s" in shown
    assert "not measured: peer copy: one card" in shown
    assert "MACHINE MOVED: copy/GPU-1 moved from 4.27e+12 to 3.1e+12 byte/s (-27.4 %)" in shown


@pytest.mark.parametrize(("text", "code", "said"), [
    ("", 3, "the bench ended with code 3"),
    ("", 0, "the bench gave no result"),
    ("nonsense", 0, "the bench gave no result"),
])  # fmt: skip
def test_a_bench_that_fails_is_a_failure_of_the_harness(store, told, text, code, said):
    with pytest.raises(HarnessError, match=said):
        bench(store, python=told(text, code))


def test_without_time_nothing_is_measured_and_all_of_it_is_named(capsys, monkeypatch):
    monkeypatch.setattr(machine_bench, "_torch", lambda: (None, []))
    assert machine_bench.main(["-1"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["readings"] == []
    assert result["notes"][0] == "host copy: no time was left"


def test_a_part_that_fails_leaves_the_others(monkeypatch, capsys):
    monkeypatch.setattr(machine_bench, "_torch", lambda: (None, []))
    monkeypatch.setattr(machine_bench, "_host_copy", lambda: 1 / 0)
    assert machine_bench.main(["30"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == ["host copy: ZeroDivisionError: division by zero"]


def test_the_median_round_counts_and_the_first_does_not(monkeypatch):
    """Rounds of 9, 1, 1, 1, 5, 1, 1, 1 seconds of two calls each."""
    ticks = iter([t for length in (9, 1, 1, 1, 5, 1, 1, 1) for t in (0.0, float(length))])
    monkeypatch.setattr(machine_bench.time, "perf_counter", lambda: next(ticks))
    calls = []
    assert machine_bench.timed_s(lambda: calls.append(1), lambda: None, 2) == 0.5
    assert len(calls) == 16


def test_the_measuring_program_runs_on_this_machine(store, tmp_path):
    """Without site-packages, so that torch is not there and costs no seconds."""
    python = tmp_path / "bare"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    result = bench(store, python=str(python), bench_s=0.2)
    assert "torch is not installed" in result["notes"][0]
    found = {one["name"]: one for one in result["readings"]}
    assert found["host_copy"]["value"] > 1e8
    (machine,) = _machines(store)
    assert "host_copy" in reading_names(store, machine)


def _machines(store):
    return [row["machine"] for row in store.db.query("SELECT DISTINCT machine FROM machine_readings")]
