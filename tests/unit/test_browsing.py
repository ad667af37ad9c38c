"""`browse` hands the file to Datasette read-only, with words and questions; a stand-in writes down what it got."""

import contextlib
import json
import os
import shutil
import sqlite3
import sys
from pathlib import Path

import pytest
import store_cases as cases

from perfguard.cli import run
from perfguard.store import open_store, schema
from perfguard.store.descriptions import TABLES

# Answers --version; else keeps its arguments and copies of the files they name, and ends as it is told.
STAND_IN = """#!{python}
import json, pathlib, shutil, sys
here = pathlib.Path(__file__).parent
if sys.argv[1:] == ["--version"]:
    print("datasette, version {version}")
    sys.exit(0)
(here / "arguments.json").write_text(json.dumps(sys.argv[1:]))
for path in sys.argv[1:]:
    if pathlib.Path(path).is_file():
        shutil.copy(path, here / ("seen-" + pathlib.Path(path).name))
sys.exit({code})
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def install(programs, version="0.65.5", code=0):
    path = programs / "datasette"
    path.write_text(STAND_IN.format(python=sys.executable, version=version, code=code))
    path.chmod(0o755)


def arguments(programs):
    return json.loads((programs / "arguments.json").read_text())


def seen(programs, name):
    return json.loads((programs / f"seen-{name}").read_text())


def test_without_datasette_the_way_to_install_it_is_said(programs, tmp_path, capsys):
    assert run(["browse", "--db", str(cases.filled(tmp_path / "r.db"))]) == 2
    error = capsys.readouterr().err
    assert "datasette is not installed" in error
    assert "pipx install datasette" in error


def test_the_file_is_opened_immutable_with_descriptions_and_questions(programs, tmp_path):
    install(programs)
    path = cases.filled(tmp_path / "tonight.db")
    before = path.read_bytes()
    assert run(["browse", "--db", str(path), "--port", "8123"]) == 0
    command = arguments(programs)
    assert command[:5] == ["serve", "--immutable", str(path), "--port", "8123"]
    found = seen(programs, "metadata.json")["databases"]["tonight"]
    assert found["tables"]["trials"]["columns"] == TABLES["trials"].columns
    assert "trials_of_a_campaign" in found["queries"]
    assert path.read_bytes() == before
    assert not os.path.exists(command[-1]), "the temporary folder goes with the program"


def test_from_version_1_on_questions_go_into_a_file_of_their_own(programs, tmp_path):
    install(programs, version="1.0a41")
    assert run(["browse", "--db", str(cases.filled(tmp_path / "r.db"))]) == 0
    command = arguments(programs)
    assert [command[-4], command[-2]] == ["--metadata", "--config"]
    assert "queries" not in seen(programs, "metadata.json")["databases"]["r"]
    assert "latest_campaigns" in seen(programs, "datasette.json")["databases"]["r"]["queries"]


def test_a_run_that_is_going_on_is_not_passed_over(programs, tmp_path):
    install(programs)
    path = cases.filled(tmp_path / "r.db")
    with open_store(path):
        assert path.with_name("r.db-wal").exists(), "this file system holds a write-ahead log"
        assert run(["browse", "--db", str(path)]) == 0
    assert "--immutable" not in arguments(programs)


def without_views_of_today(path):
    """The file that is carried, as it was before the migration that adds views and indices."""
    added = next(one for one in schema.MIGRATIONS if one.name == "views for common questions")
    shutil.copy(Path(__file__).resolve().parents[2] / "results.db", path)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        for statement in added.statements:
            kind, name = statement.split()[1:3]
            db.execute(f"DROP {kind} {name}")
        db.execute("DELETE FROM migrations WHERE number >= ?", (added.number,))
    return path


def test_an_older_file_is_shown_as_a_copy_with_the_views_of_today(programs, tmp_path):
    install(programs)
    path = without_views_of_today(tmp_path / "old.db")
    before = path.read_bytes()
    assert run(["browse", "--db", str(path)]) == 0
    assert arguments(programs)[2] != str(path)
    assert Path(arguments(programs)[2]).name == "old.db"
    assert len(cases.rows(programs / "seen-old.db", "SELECT * FROM last_verdicts")) >= 1
    assert path.read_bytes() == before


def test_a_datasette_that_fails_is_a_failure_of_ours_and_names_another_port(programs, tmp_path, capsys):
    install(programs, code=1)
    assert run(["browse", "--db", str(cases.filled(tmp_path / "r.db"))]) == 5
    assert "datasette ended with exit code 1" in capsys.readouterr().err
