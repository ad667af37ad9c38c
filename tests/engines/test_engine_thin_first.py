"""`compare --thin` through the whole command line: a slice to its verdict, then one block at full size."""

import json
import signal

import pytest
from engine_support import engine_project, plan, rows, sets, wait_for

from perfguard.store import open_store

THIN = ("-w", "sglang", "--thin", "layers=8")
SHORT = ("--margin", "20%", "--alpha", "0.05", "--max-blocks", "2", "--no-confirm", "--seed", "1", "--quiet")


def two_commits(folder, base, head):
    project = engine_project(folder, "sglang", **base)
    project.commit(plan(**head))
    return project


def campaigns(project):
    return rows(project.db, "SELECT scope, status, id FROM campaigns ORDER BY rowid")


@pytest.mark.soak
def test_a_slice_is_followed_by_one_block_of_launches_at_full_size_and_both_name_each_other(tmp_path):
    """Seven times the time of an event: no busy machine hides it, in the slice and in the block."""
    project = two_commits(tmp_path, {"gap_s": 0.004}, {"gap_s": 0.03})
    done = project.run("compare", "HEAD~1", "HEAD", *SHORT, "--json", "-", *THIN, *sets(), code=3)
    of_slice = json.loads(done.stdout)
    block = of_slice["full_size"]
    assert (of_slice["scope"], block["scope"]) == ("slice", "full")
    assert (of_slice["outcome"], block["outcome"], of_slice["exit_code"]) == ("SUSPECT", "SUSPECT", 3)
    assert block["blocks"]["used"] == 1
    assert "luck in 1 of 6" in block["sentence"]
    assert (of_slice["method"]["full_size"], block["method"]["after_slice"]) == (block["id"], of_slice["id"])
    with open_store(project.db, read_only=True) as store:
        for campaign, is_thin in ((of_slice, True), (block, False)):
            commands = [t.record["engine"]["load"]["command"] for t in store.trials(campaign["id"])]
            assert {"dummy" in command for command in commands} == {is_thin}
        assert sum(t.stage > 0 for t in store.trials(block["id"])) == 4
    shown = project.run("show", block["id"]).stdout
    assert f"scope full; one block after slice {of_slice['id']}" in " ".join(shown.split())
    assert f"one block at full size: {block['id']}" in project.run("report", of_slice["id"], "-f", "md").stdout
    assert "agrees" in project.run("replay", block["id"]).stdout
    refused = project.run("extend", block["id"], code=2)
    assert "kept no share of alpha back" in refused.stderr


def test_the_price_list_says_what_the_block_costs_and_how_to_leave_it_out(tmp_path, here):
    project = two_commits(tmp_path, {}, {"gap_s": 0.003})
    asked = ("compare", "HEAD~1", "HEAD", "--plan-only", "-w", "sglang-kimi-eagle3", "--thin", "layers=8")
    # 800 s of load and 60 s measured are assumed where nothing is stored: six launches.
    line = "then one block at full size: 6 launches (2 unmeasured), about 86 min: SUSPECT with odds at most"
    assert line in here(project, *asked).stdout
    assert "full size" not in here(project, *asked, "--no-full-size").stdout
    assert campaigns(project) == []


@pytest.mark.soak
def test_a_block_that_was_interrupted_goes_on_with_its_slice_s_id(tmp_path):
    project = two_commits(tmp_path, {"gap_s": 0.004}, {"gap_s": 0.004, "more": {"a": "b"}})
    file = project.folder / "both.json"
    running = project.start(
        "compare", "HEAD~1", "HEAD", *SHORT, "--json", str(file), *THIN, *sets(), said=tmp_path / "said"
    )
    wait_for(lambda: [s for scope, s, _ in campaigns(project) if scope == "slice"] == ["finished"], "the slice's end")
    wait_for(lambda: ok_at_full_size(project), "a launch at full size")
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=60) == 130
    alone = json.loads(file.read_text())
    assert alone["full_size"] is None
    assert [status for _, status, _ in campaigns(project)] == ["finished", "interrupted"]
    assert f"--resume {alone['method']['full_size']}" in (tmp_path / "said").read_text()
    project.run("compare", "--resume", alone["id"], "--json", str(file), "--quiet", code=(0, 3, 4))
    both = json.loads(file.read_text())
    assert (both["id"], both["full_size"]["id"]) == (alone["id"], alone["method"]["full_size"])
    assert both["full_size"]["outcome"] in ("INCONCLUSIVE", "SUSPECT", "INVALID")
    assert [status for _, status, _ in campaigns(project)] == ["finished", "finished"]


def ok_at_full_size(project):
    asked = "SELECT count(*) FROM trials t JOIN campaigns c ON t.campaign = c.id WHERE c.scope = 'full'"
    return rows(project.db, asked) not in ([], [(0,)])


def test_a_slice_that_was_void_is_followed_by_nothing_and_says_how_the_block_is_had(tmp_path):
    project = two_commits(tmp_path, {"version": "0.5.5"}, {"version": "0.5.5", "gap_s": 0.003})
    done = project.run("compare", "HEAD~1", "HEAD", *SHORT[:-1], *THIN, *sets(), code=4)
    (_, _, _), (scope, status, block) = campaigns(project)
    assert (scope, status) == ("full", "interrupted")
    said = " ".join(done.stderr.split())
    assert f"not begun, as the slice ended INVALID: perfguard compare --resume {block}" in said
