"""`perfguard explain --experiment`: the story. One commit, fast with a variable set, slow without it."""

import json
import signal

import pytest
from cli_support import rows, wait_for

SHORT = ("--margin", "20%", "--alpha", "0.05", "--max-blocks", "2", "--seed", "1")
# NCCL_PROTO=LL makes it fast; NCCL_ALGO matters nothing. It goes on as long as there is a file `hold`.
BENCH = """\
s=18; test "$NCCL_PROTO" = LL && s=10
while test -e "$PERF_HOLD"; do sleep 0.05; done
echo "{\\"seconds\\": $s.$(date +%N | cut -c 4-6)}"
"""
RUN = ("--trials", "2", "--metric", "seconds", "--unit", "s", "--quiet", "--json", "-", "--", "sh", "bench.sh")
MEASURED = "SELECT count(*) FROM trials WHERE stage > 0 AND campaign LIKE '%-q2'"
FIRST_QUESTION = "SELECT id FROM trials WHERE campaign LIKE '%-q1' ORDER BY rowid"


@pytest.fixture
def bench(project, monkeypatch):
    monkeypatch.setenv("PERF_HOLD", str(project.folder / "hold"))
    project.commit({"bench.sh": BENCH})
    return project


def measured(bench, **env):
    return json.loads(bench.run("run", "HEAD", *RUN, **env).stdout)["id"]


def interrupt_second_question(bench, *arguments):
    """Ctrl-C in the middle of the second question; what was said."""
    said, hold = bench.folder / "said", bench.folder / "hold"
    process = bench.start(*arguments, said=said)
    try:
        wait_for(lambda: rows(bench.db, MEASURED) > [(1,)] or process.poll() is not None, "the second question")
        hold.touch()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130, said.read_text()
    finally:
        process.kill()
        process.wait()
        hold.unlink(missing_ok=True)
    return said.read_text()


def test_the_lost_variable_is_named_also_after_an_interruption(bench):
    then, now = measured(bench, NCCL_PROTO="LL", NCCL_ALGO="Ring"), measured(bench)
    said = interrupt_second_question(bench, "explain", now, then, "--experiment", *SHORT)
    assert "perfguard explain --experiment --resume" in said
    before = rows(bench.db, FIRST_QUESTION)
    (search,) = rows(bench.db, "SELECT id FROM campaigns WHERE kind = 'search'")[0]
    arguments = ("--experiment", "--resume", search, "--quiet", "--json", "-")
    result = json.loads(bench.run("explain", *arguments).stdout)
    assert rows(bench.db, FIRST_QUESTION) == before
    assert (result["outcome"], result["found"], result["exit_code"]) == ("EXPLAINED", ["NCCL_PROTO"], 0)
    assert "| NCCL&#95;PROTO | LL | not set | makes the difference |" in bench.run("report", search).stdout
    assert json.loads(bench.run("report", search, "-f", "json").stdout) == result
    # The order on the command line does not matter: A is the fast one.
    assert result["of"] == [f"{then} base", f"{now} base"]
    assert 1.6 < result["slowdown"] < 1.9
    verdicts = {factor["name"]: (factor["a"], factor["b"], factor["verdict"]) for factor in result["factors"]}
    assert verdicts == {
        "NCCL_ALGO": ("Ring", "not set", "not needed for it"),
        "NCCL_PROTO": ("LL", "not set", "makes the difference"),
    }
    shown = bench.run("show", "latest").stdout
    assert "EXPLAINED" in shown
    assert "NCCL_PROTO" in shown
    # Every question is a comparison like any other.
    replayed = json.loads(bench.run("replay", f"{search}-q1", "--json", "-").stdout)
    assert [one["agrees"] for one in replayed["replays"]] == [True]
