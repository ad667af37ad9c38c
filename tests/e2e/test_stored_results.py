"""What is done with stored results, and with a database that cannot be used as it is."""

import json
import sqlite3
import stat

import pytest
from cli_support import SHORT, Project, rows, wait_for

FAKE = ("-w", "fake", "--set", "noise=0", "--modes", "plain", "--quiet")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """One suspicion (twice as slow), one recheck and one run. Tests that change the database take a copy."""
    project = Project(folder=tmp_path_factory.mktemp("stored"))
    project.commit({"fake.json": {}}, "Start <b>bold</b> | pipe")
    project.commit({"fake.json": {"slowdown": 2}}, "Slow down")
    project.run("compare", "HEAD~1", "HEAD", *SHORT, *FAKE, "--no-confirm", code=3)
    project.run("recheck", "HEAD", "--was", "100", *FAKE)
    project.run("run", "HEAD", "--trials", "1", *FAKE)
    return project


def ids(project):
    listed = json.loads(project.run("runs", "--json", "-").stdout)["runs"]
    return {row["kind"]: row["id"] for row in listed}


def test_stored_results_are_listed_newest_first(stored):
    lines = stored.run("runs").stdout.splitlines()
    assert [line.split()[1] for line in lines] == ["kind", "run", "recheck", "compare"]
    assert "! SUSPECT" in lines[3]
    assert "≠ NOT_REPRODUCED" in lines[2]
    listed = json.loads(stored.run("runs", "--limit", "1", "--json", "-").stdout)
    assert listed["schema"] == "perfguard/runs@1"
    assert [(row["kind"], row["num_ok"]) for row in listed["runs"]] == [("run", 1)]


def test_a_stored_result_is_shown_with_every_trial(stored):
    compare = ids(stored)["compare"]
    text = stored.run("show", compare[:-1]).stdout
    assert text.count("first run") == 2
    assert text.count("100.0 token/s") >= 5
    assert "SUSPECT" in text
    shown = json.loads(stored.run("show", compare, "--json", "-").stdout)
    assert shown["id"] == compare
    assert len(shown["trials"]) == 10
    assert {t["values"]["plain_throughput"] for t in shown["trials"] if t["side"] == "head"} == {50.0}
    run = stored.run("show", "latest").stdout
    assert "median" in run


def test_a_report_of_the_latest_comparison_is_written_in_each_format(stored):
    markdown = stored.run("report").stdout
    # What is foreign, a commit's subject included, loses its markup: "_" and "!" are written as entities.
    assert markdown.startswith("**&#33; SUSPECT: Head may be slower: +100.0 % on plain&#95;throughput (95 % interval")
    assert "Start <b>bold" not in markdown
    assert "bold" in markdown
    stored.run("report", "-f", "json", "-o", "report.json")
    comparison = json.loads((stored.repo / "report.json").read_text())
    assert (comparison["id"], comparison["outcome"]) == (ids(stored)["compare"], "SUSPECT")


def test_stored_verdicts_are_derived_again_and_a_changed_one_is_found(stored, tmp_path):
    assert stored.run("replay").stdout == f"{ids(stored)['compare']}  SUSPECT  agrees\n"
    forged = tmp_path / "forged.db"
    stored.run("export", str(forged))
    with sqlite3.connect(forged) as db:
        db.execute("UPDATE verdicts SET document = replace(document, '\"SUSPECT\"', '\"EQUIVALENT\"')")
    db.close()
    assert "DIFFERS in outcome" in stored.run("replay", "--db", str(forged), code=5).stdout
    stored.run("merge", str(forged), "--db", str(tmp_path / "new.db"), code=5)
    assert not (tmp_path / "new.db").exists()  # nothing came of it


def test_an_export_is_merged_and_merging_again_changes_nothing(stored, tmp_path):
    part, whole = tmp_path / "part.db", tmp_path / "whole.db"
    assert "1 campaigns" in stored.run("export", str(part), ids(stored)["recheck"]).stdout
    first = stored.run("merge", str(part), "--db", str(whole)).stdout
    assert "1 campaigns, 1 blocks, 3 trials, 1 verdicts" in first
    again = stored.run("merge", str(part), "--db", str(whole)).stdout
    assert "0 campaigns, 0 blocks, 0 trials, 0 verdicts" in again
    assert rows(whole, "SELECT count(*) FROM trials") == [(3,)]
    assert "exists: an export never writes into a file" in stored.run("export", str(part), code=5).stderr


def test_reading_commands_write_nothing(stored, tmp_path):
    """Neither to the file nor beside it, with write permission taken away where that binds."""
    folder = tmp_path / "archive"
    folder.mkdir()
    database = folder / "results.db"
    stored.run("export", str(database))
    before = database.read_bytes()
    database.chmod(stat.S_IRUSR)
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        for command in ("runs", "show", "report"):
            stored.run(command, "--db", str(database))
        assert [path.name for path in folder.iterdir()] == ["results.db"]
    finally:
        folder.chmod(stat.S_IRWXU)
    assert database.read_bytes() == before


def test_a_database_of_a_newer_perfguard_is_refused_by_every_command(stored, tmp_path):
    newer = tmp_path / "newer.db"
    stored.run("export", str(newer))
    with sqlite3.connect(newer) as db:
        db.execute("INSERT INTO migrations SELECT 99, name, applied_at, perfguard FROM migrations LIMIT 1")
        db.execute("PRAGMA user_version = 99")
    db.close()
    before = newer.read_bytes()
    for command in (("runs",), ("merge", str(stored.db))):
        assert "written by a newer perfguard" in stored.run(*command, "--db", str(newer), code=5).stderr
    assert newer.read_bytes() == before


def test_a_file_that_is_no_database_is_named(stored, tmp_path):
    (tmp_path / "notes.db").write_text("no database, but text that is long enough to hold a header\n" * 9)
    assert "is not a database" in stored.run("runs", "--db", str(tmp_path / "notes.db"), code=5).stderr


def test_a_locked_database_is_read_and_waited_for(stored, tmp_path):
    """Another process holds the write lock: reading goes on, writing waits and then says who to look for."""
    database = tmp_path / "busy.db"
    stored.run("export", str(database))
    holder = sqlite3.connect(database, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    said = tmp_path / "said"
    writer = stored.start("run", "HEAD", *FAKE, "--db", str(database), said=said)
    try:
        assert "SUSPECT" in stored.run("runs", "--db", str(database)).stdout
        assert writer.wait(40) == 5
    finally:
        writer.kill()
        holder.execute("ROLLBACK")
        holder.close()
    assert f"error: {database} is in use by another process and stayed locked" in said.read_text()
    assert f"next: fuser -v {database}" in said.read_text()


def test_a_disk_that_fills_up_keeps_what_was_stored(project):
    """The largest file allowed is small, so that the database cannot grow; freed again, the comparison goes on."""
    project.commit({"fake.json": {}})
    project.run("run", "HEAD", "--trials", "1", *FAKE)
    line = f'ulimit -f {project.db.stat().st_size // 1024 + 24}; exec "$0" "$@"'
    shell = Project(folder=project.folder, program="bash")
    compare = ("compare", "HEAD", "HEAD", *SHORT, *FAKE, "--set", "iterations=900")
    failed = shell.run("-c", line, str(project.program), *compare, code=5)
    assert "cannot be written, disk or quota is full" in failed.stderr
    assert "stored and safe: campaign" in failed.stderr
    kept = rows(project.db, "SELECT count(*) FROM trials JOIN campaigns c ON c.id = campaign WHERE c.kind = 'compare'")
    assert kept[0][0] > 0
    ((wanted,),) = rows(project.db, "SELECT id FROM campaigns WHERE kind = 'compare'")
    assert f"next: free space: df -h {project.db.parent}, then perfguard compare --resume {wanted}" in failed.stderr
    project.run("compare", "--resume", wanted, "--quiet")
    assert wait_for(lambda: rows(project.db, "PRAGMA integrity_check"), "an answer") == [("ok",)]


def test_the_next_command_names_the_database_that_was_named_and_nothing_else_does(stored, tmp_path):
    other = tmp_path / "other.db"
    compare = ids(stored)["compare"]
    stored.run("export", str(other), compare)
    command = f"perfguard extend {compare} --budget 4h --db {other}"
    assert f"\nNext: `{command}`, or a new comparison" in stored.run("report", "--db", str(other)).stdout
    assert f"<code>{command}</code>, or a" in stored.run("report", "-f", "html", "--db", str(other)).stdout
    assert f"\nnext: {command}\n" in stored.run("show", compare, "--db", str(other)).stdout
    assert "--db" not in stored.run("report").stdout
    assert str(other) not in stored.run("report", "--public", "--db", str(other)).stdout
    assert str(other) not in stored.run("report", "-f", "json", "--db", str(other)).stdout
