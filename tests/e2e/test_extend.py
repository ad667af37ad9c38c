"""`perfguard extend` and the hook on a suspicion, as processes."""

import json
import sqlite3

import pytest
from cli_support import codes

FAKE = ("-w", "fake", "--modes", "plain")
# One pair of fresh builds serves all blocks that confirm.
POLICY = "[policy]\npause_share = 0\nconfirm_builds = 2\n"
EXTEND = ("extend", "latest", "--quiet", "--json", "-")


def rows(project, sql):
    with sqlite3.connect(project.db) as db:
        return db.execute(sql).fetchall()


def extended(project, *arguments, code):
    comparison = json.loads(project.run(*EXTEND, *arguments, code=code).stdout)
    assert "agrees" in project.run("replay", comparison["id"]).stdout
    return comparison


def test_a_suspicion_outlasts_a_stopped_extension_and_is_confirmed_by_the_next(project):
    project.commit({"fake.json": {"noise": 0}, "perfguard.toml": POLICY})
    project.commit({"fake.json": {"noise": 0, "slowdown": 1.5}})
    first = project.compare(*FAKE, "--no-confirm", code=3)
    assert (first["outcome"], first["next"].split(" --")[0]) == ("SUSPECT", f"perfguard extend {first['id']}")

    # What it costs is printed, and nothing is stored.
    lines = project.run("extend", first["id"], "--max-blocks", "2", "--plan-only", "--budget", "1h").stdout
    assert lines.startswith(f"extension 1 of {first['id']}: up to 2 blocks")
    assert "so few blocks cannot report any change" in lines
    assert "of this workload on this machine" in lines
    assert "this budget: 4 blocks" in lines
    assert rows(project, "SELECT count(*) FROM extensions") == [(0,)]

    stopped = extended(project, "--budget", "0.1s", code=3)
    assert (stopped["outcome"], stopped["stopped"], codes(stopped)[0]) == ("SUSPECT", "budget", "STOPPED")

    # 0.05 * 0.03 * 2/9 is 3.3e-4 and 2/6^5 is 2.6e-4: five blocks of its own are the fewest that report.
    found = extended(project, "--max-blocks", "4", code=1)
    assert (found["id"], found["outcome"]) == (first["id"], "REGRESSION")
    assert found["metrics"][0]["slowdown"] == pytest.approx(1.5)
    assert codes(found)[-2:] == ["EXTENDED", "EXTENDED"]
    assert [(e["number"], e["max_blocks"]) for e in found["extensions"]] == [(1, 10), (2, 4)]
    measured = "SELECT stage, count(DISTINCT block) FROM trials WHERE stage > 0 GROUP BY stage ORDER BY stage"
    assert rows(project, measured) == [(1, 2), (5, 2), (6, 3)]
    verdicts = [outcome for (outcome,) in rows(project, "SELECT outcome FROM verdicts ORDER BY number")]
    assert verdicts == ["SUSPECT", "SUSPECT", "REGRESSION"]

    refused = project.run("extend", "latest", code=2)
    assert "ended REGRESSION; only INCONCLUSIVE or SUSPECT can be extended" in refused.stderr


def test_an_undecided_comparison_goes_on_with_its_earlier_blocks(project):
    """Launches vary by 10 %, as these seeds draw it: two blocks show nothing, nor do two more."""
    project.commit({"fake.json": {"noise": 0.1}, "perfguard.toml": POLICY})
    first = project.compare(*FAKE, "--margin", "2%", base="HEAD", code=3)
    assert first["outcome"] == "INCONCLUSIVE"
    told = project.run("extend", "latest", "--max-blocks", "2", "--seed", "1", "--json", "out.json", code=3)
    assert told.stderr.startswith("extension 1 of")
    assert "EXTENDED" in told.stdout
    comparison = json.loads((project.repo / "out.json").read_text())
    assert comparison["blocks"]["used"] == 4
    assert comparison["metrics"][0]["decided_at"] == 4
    assert "agrees" in project.run("replay", "latest").stdout


def test_a_hook_is_told_of_a_suspicion_and_changes_no_exit_code(project):
    project.commit({"fake.json": {"noise": 0}})
    hooks = "[hooks]\non_suspect = 'cat > told.json; echo heard; exit 9'\n"
    project.commit({"fake.json": {"noise": 0, "slowdown": 1.5}, "perfguard.toml": POLICY + hooks})
    comparison = project.compare(*FAKE, "--no-confirm", code=3)  # its stdout is JSON and nothing else
    assert json.loads((project.repo / "told.json").read_text()) == comparison
    # The command line's goes before the file's. Stopped at once, it is still a suspicion.
    done = project.run("extend", "latest", "--budget", "0.1s", "--on-suspect", "exit 7", code=3)
    assert done.stderr.count("on_suspect 'exit 7': exit code 7; the verdict stands") == 1
    assert rows(project, "SELECT outcome FROM verdicts") == [("SUSPECT",), ("SUSPECT",)]
