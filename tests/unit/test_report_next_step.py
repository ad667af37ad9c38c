"""What to do next can be copied: commands apart from words, with the database and the repository they need."""

import shlex
from pathlib import Path

import pytest
import typer

from perfguard.cli import app, run
from perfguard.cli.options import place_asked, place_of
from perfguard.report.next_step import WITH_REPO, WITHOUT_DB, Place, lines, located, markdown, pieces, placed

COMMANDS = typer.main.get_command(app).commands
EXTEND = "perfguard extend c-1 --budget 4h"


@pytest.mark.parametrize(
    ("advice", "found"),
    [
        (f"{EXTEND}, or a new comparison with a wider --margin", [EXTEND]),
        ("a new comparison with more --max-blocks, or a wider --margin", []),
        ("git log --oneline aa..bb, then perfguard bisect c-1, if these are several commits",
         ["git log --oneline aa..bb", "perfguard bisect c-1"]),
        # As versions before this one stored it.
        ("perfguard show c-1 lists every trial with its reasons; remove the cause and compare again",
         ["perfguard show c-1"]),
        ("perfguard bisect a b --find-good 89 (with the same workload)", ["perfguard bisect a b --find-good 89"]),
        # What is quoted is part of the command, whatever it holds.
        ("""perfguard compare a b --base-env 'A=1, or (2; 3' -- sh -c "x, then y" """,
         ["""perfguard compare a b --base-env 'A=1, or (2; 3' -- sh -c "x, then y\""""]),
        ("", []),
    ],
)  # fmt: skip
def test_commands_are_told_from_words_and_nothing_is_lost(advice, found):
    parts = pieces(advice)
    assert [part.text for part in parts if part.is_command] == found
    assert "".join(part.text for part in parts).strip() == advice.strip()


@pytest.mark.parametrize(
    ("advice", "place", "expected"),
    [
        (EXTEND, Place(), EXTEND),
        (EXTEND, Place(db="r.db", repo="/x y"), f"{EXTEND} --db r.db"),
        (f"{EXTEND}, or wait", Place(db="a b.db"), f"{EXTEND} --db 'a b.db', or wait"),
        ("perfguard bisect c-1", Place(repo="/x y"), "perfguard bisect c-1 --repo '/x y'"),
        (
            "perfguard compare a b -- python -m x",
            Place(db="r.db", repo="/r"),
            "perfguard compare a b --db r.db --repo /r -- python -m x",
        ),
        ("git show abc", Place(repo="/x y"), "git -C '/x y' show abc"),
        ("git -C /r show abc, or wait", Place(repo="/x y"), "git -C /r show abc, or wait"),
        ("perfguard sweep --resume s --db r.db", Place(db="r.db"), "perfguard sweep --resume s --db r.db"),
        ("perfguard workloads", Place(db="r.db"), "perfguard workloads"),
        ("perfguard compare --help", Place(db="r.db", repo="/r"), "perfguard compare --help"),
    ],
)
def test_commands_name_the_database_and_the_repository_where_they_must(advice, place, expected):
    assert located(advice, place) == expected


def test_an_explanation_inside_a_result_is_placed_as_well():
    found = placed({"next": "", "explanation": {"next": EXTEND}, "id": "c-1"}, Place(db="r.db"))
    assert found == {"next": "", "explanation": {"next": f"{EXTEND} --db r.db"}, "id": "c-1"}


def test_only_commands_are_code_in_markdown_and_each_ends_its_line_in_a_terminal():
    advice = f"{EXTEND}, then perfguard show <c>, or wait"
    assert markdown(advice) == f"`{EXTEND}`, then `perfguard show <c>`, or wait"
    assert lines(advice) == (EXTEND, "then perfguard show <c>", "or wait")
    assert lines("git -C /r log a..b, then perfguard show c") == ("git -C /r log a..b", "then perfguard show c")
    assert lines("wait, or wait longer") == ("wait, or wait longer",)
    assert lines("") == ()


def test_the_lists_of_options_are_those_of_the_program():
    options = {name: {opt for p in command.params for opt in p.opts} for name, command in COMMANDS.items()}
    assert all("--db" in found or name in WITHOUT_DB for name, found in options.items())
    assert not any("--db" in options[name] for name in WITHOUT_DB)
    assert all("--repo" in options[name] for name in WITH_REPO)


def test_what_is_shown_for_a_split_advice_can_be_split_by_a_shell():
    for part in pieces("perfguard compare a b --head-env 'A=it'\"'\"'s' -w w, or wait"):
        if part.is_command:
            assert shlex.split(part.text)[5] == "A=it's"


def test_only_what_is_not_found_from_here_is_named(tmp_path, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        (folder / ".git").mkdir(parents=True)
    (here / "deeper").mkdir()
    monkeypatch.chdir(here / "deeper")
    own = here / ".perfguard" / "results.db"
    assert place_of(own, str(here)) == Place()
    assert place_of(Path("../.perfguard/results.db")) == Place()
    assert place_of(Path("r.db"), str(there)) == Place(db="r.db", repo=str(there))
    assert place_of(own, str(tmp_path / "gone")) == Place(), "a folder that is no more helps nobody"


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (["report", "x", "--db", "r.db"], Place(db="r.db")),
        (["compare", "--db=r.db", "a", "b", "--repo", "/r", "--", "x", "--db", "theirs"], Place(db="r.db", repo="/r")),
        (["runs"], Place()),
        (["runs", "--db"], Place()),
    ],
)
def test_an_error_advises_with_what_the_command_line_named(line, place):
    assert place_asked(line) == place


def test_the_next_command_after_an_error_looks_into_the_same_database(capsys):
    results = Path(__file__).resolve().parents[2] / "results.db"
    assert run(["report", "nothing", "--db", str(results)]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f" next: perfguard runs --db {results}"
