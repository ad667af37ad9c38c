"""`perfguard sweep` as a person uses it: real processes whose speed a variable or a parameter decides."""

import json
import signal

import pytest
from cli_support import rows, wait_for

SHORT = ("--alpha", "0.05", "--max-rounds", "10", "--seed", "1")
# Prints a number decided by SPEED, and differs a little from launch to launch; "bad" ends with exit code 3.
BENCH = """\
case "$SPEED" in bad) exit 3;; slow) s=20;; *) s=10;; esac
while test -e "$HOLD"; do sleep 0.05; done
echo "{\\"seconds\\": $s.$(date +%N | cut -c 4-6)}"
"""
SECONDS = ("--metric", "seconds", "--unit", "s", "--", "sh", "bench.sh")
MEASURED = "SELECT block, slot, status, metrics, started_at FROM trials WHERE stage > 0 ORDER BY rowid"


@pytest.fixture
def bench(project):
    project.commit({"bench.sh": BENCH})
    return project


def test_the_fastest_is_named_the_slower_dropped_and_what_does_not_run_is_listed(bench):
    told = bench.folder / "told.md"
    done = bench.run(
        "sweep", "--env", "SPEED=,slow,bad", *SHORT, "--json", "-", "--markdown", str(told), "--quiet", *SECONDS
    )
    result = json.loads(done.stdout)
    assert (result["schema"], result["outcome"], result["exit_code"]) == ("perfguard/sweep@1", "RANKED", 0)
    found = [(row["rank"], row["setting"], row["status"]) for row in result["settings"]]
    assert found == [(1, "(nothing set)", "best"), (2, "SPEED=slow", "slower"), (None, "SPEED=bad", "invalid")]
    slower = result["settings"][1]
    assert 1.8 < slower["slowdown"] < 2.2
    assert slower["ci_low"] < slower["slowdown"] < slower["ci_high"]
    assert "exit code 3" in result["settings"][2]["reasons"][0]["text"]
    assert "| 2 | SPEED=slow |" in told.read_text()
    assert bench.run("report", result["id"]).stdout.strip() == told.read_text().strip()
    refused = bench.run("report", result["id"], "-f", "csv", code=2).stderr
    assert "is a sweep, which is reported as html or md or json" in refused
    page = bench.run("report", result["id"], "-f", "html").stdout
    assert page.count("<svg") == 1
    assert "2. SPEED=slow" in page
    shown = bench.run("show", "latest").stdout
    assert "SPEED=slow" in shown
    assert "RANKED" in shown


def test_orders_are_stored_before_and_each_round_measures_every_live_setting_once(bench):
    bench.run("sweep", "--env", "SPEED=slow,fast", *SHORT, "--quiet", *SECONDS)
    planned = dict(rows(bench.db, "SELECT block, slot_order FROM blocks"))
    assert len(planned) == 10 + 5
    assert {"".join(sorted(order)) for order in planned.values()} == {"ab"}
    ran = rows(bench.db, "SELECT block, slot, metrics FROM trials WHERE stage > 0 ORDER BY rowid")
    assert [(block, slot) for block, slot, _ in ran] == [(k // 2, k % 2) for k in range(len(ran))]
    for block, slot, metrics in ran:
        is_slow = json.loads(metrics)["seconds"] > 15
        assert is_slow == (planned[block][slot] == "a")


def test_an_interrupted_sweep_goes_on_with_what_it_had(bench):
    said, hold = bench.folder / "said", bench.folder / "hold"
    arguments = ("--env", f"HOLD={hold}", "--env", "SPEED=slow,fast", *SHORT)
    process = bench.start("sweep", *arguments, *SECONDS, said=said)
    try:
        wait_for(lambda: len(rows(bench.db, MEASURED)) >= 3 or process.poll() is not None, "three trials")
        hold.touch()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130, said.read_text()
    finally:
        process.kill()
        process.wait()
    hold.unlink()
    before = rows(bench.db, MEASURED)
    assert "perfguard sweep --resume" in said.read_text()
    id_ = rows(bench.db, "SELECT id FROM campaigns")[0][0]
    done = bench.run("sweep", "--resume", id_, "--json", "-", "--quiet")
    assert json.loads(done.stdout)["settings"][0]["setting"].endswith("SPEED=fast")
    after = rows(bench.db, MEASURED)
    ok_before = [row for row in before if row[2] == "ok"]
    assert [row for row in after if row in before and row[2] == "ok"] == ok_before
    good = [(block, slot) for block, slot, status, *_ in after if status == "ok"]
    assert len(set(good)) == len(good)


def test_parameters_of_a_built_in_runner_are_swept_one_at_a_time(project):
    project.commit({"README": "one\n"})
    settings = ("--set", "slowdown=1.0,1.5", "--set", "noise=0.001,0.002", "--one-at-a-time")
    budget = ("--modes", "plain", "--max-rounds", "8", "--budget", "1s", "--quiet", "--json", "-", "-w", "fake")
    result = json.loads(project.run("sweep", *settings, *budget, code=(3, 4)).stdout)
    assert result["stopped"] == "budget"
    assert {row["setting"] for row in result["settings"]} == {
        "slowdown=1.0 noise=0.001",
        "slowdown=1.5 noise=0.001",
        "slowdown=1.0 noise=0.002",
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--env", "A=,1"), "A is to be tried not set, and is set here"),
        (("--env", "B=1,2,3,4,5,6", "--max-rounds", "2"), "2 rounds of 6 settings cannot tell"),
    ],
)
def test_what_cannot_be_swept_is_refused_before_anything_is_measured(bench, arguments, said):
    done = bench.run("sweep", *arguments, *SECONDS, code=2, A="here")
    assert said in done.stderr
    assert " next: " in done.stderr
