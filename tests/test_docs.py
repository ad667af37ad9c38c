"""What README and docs say is held against the program: commands, options, links, names."""

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
import typer

from perfguard.cli import run
from perfguard.cli.app import app
from perfguard.cli.reference import reference
from perfguard.errors import EXIT_CODES
from perfguard.policy import Policy
from perfguard.records import Outcome
from perfguard.workloads import BUILT_IN

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|^(?: {4}|\t).*|`[^`\n]+`", re.MULTILINE | re.DOTALL)
COMMANDS = typer.main.get_command(app).commands


def name(path):
    return str(path.relative_to(ROOT))


def read(path):
    return path.read_text(encoding="utf-8")


def command_lines(text):
    """Every `perfguard …` in code: in blocks with the lines that continue it, and in the middle of a sentence."""
    joined = text.replace("\\\n", " ")
    for found in CODE.finditer(joined):
        for line in found.group().splitlines():
            bare = line.strip().strip("`").removeprefix("$ ")
            if bare.startswith("perfguard "):
                yield bare


COMMAND_LINES = [(path, line) for path in PAGES if path.name != "cli.md" for line in command_lines(read(path))]


def test_the_page_of_all_commands_is_what_the_program_says_of_itself():
    """Renew it with `python -m perfguard.cli.reference > docs/cli.md`."""
    assert read(DOCS / "cli.md") == reference()


def test_the_page_of_all_commands_has_a_section_for_each():
    sections = re.findall(r"^## (\S+)$", read(DOCS / "cli.md"), re.MULTILINE)
    assert sections == sorted(COMMANDS)


@pytest.mark.parametrize(
    ("page", "line"), COMMAND_LINES, ids=lambda part: part if isinstance(part, str) else name(part)
)
def test_every_command_line_shown_is_understood_by_the_program(page, line):
    words = shlex.split(line.split(" > ")[0].split(" | ")[0], comments=True)[1:]
    if not words or not re.fullmatch(r"[a-z]+", words[0]):
        return  # `perfguard …`, `perfguard --help`, `perfguard COMMAND --help`
    assert words[0] in COMMANDS, f"{name(page)}: {line}"
    if len(words) == 1:
        return  # its name in a sentence
    command = COMMANDS[words[0]]
    # Parsed and not run. Placeholders such as ID are fine; an option that is not there is not.
    context = command.make_context(words[0], words[1:], resilient_parsing=False)
    assert context.command is command


def test_command_lines_are_found_at_all():
    assert len(COMMAND_LINES) >= 10


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_between_pages_leads_somewhere(page):
    for target in LINK.findall(read(page)):
        if target.startswith(("http://", "https://", "mailto:", "#")):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve()
        assert place.exists(), f"{name(page)} links to {target}"
        assert place.is_relative_to(ROOT)
        if anchor and place.suffix == ".md":
            assert anchor in anchors(read(place)), f"{name(page)} links to {target}"


def anchors(text):
    """As GitHub makes them from headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_reachable_from_the_index():
    linked = {(DOCS / target.partition("#")[0]).resolve() for target in LINK.findall(read(DOCS / "index.md"))}
    assert [name(path) for path in DOCS.glob("*.md") if path.name != "index.md" and path not in linked] == []


def test_every_outcome_stands_in_the_table_of_outcomes_with_its_exit_code():
    rows = re.findall(r"^\| ([A-Z]+) \|.*\| (\d) \|$", read(DOCS / "method.md"), re.MULTILINE)
    assert dict(rows) == {str(outcome): str(EXIT_CODES[outcome]) for outcome in Outcome}
    assert {str(outcome) for outcome in Outcome} <= set(re.findall(r"[A-Z]{5,}", read(DOCS / "glossary.md")))


def test_the_glossary_has_one_row_a_word_in_alphabetical_order():
    words = [row.lower() for row in re.findall(r"^\| ([^|]+?) \|", read(DOCS / "glossary.md"), re.MULTILINE)][1:]
    assert len(words) > 50
    assert words == sorted(set(words))


def test_every_table_of_the_database_stands_on_its_page():
    from perfguard.store.descriptions import TABLES
    from perfguard.store.view_descriptions import VIEWS

    rows = set(re.findall(r"^\| `(\w+)` \|", read(DOCS / "database.md"), re.MULTILINE))
    assert rows == TABLES.keys() | VIEWS.keys()


def test_every_built_in_workload_for_real_code_is_documented():
    text = read(DOCS / "workloads.md")
    assert all(workload.name in text for workload in BUILT_IN if workload.runner != "fake")


def test_the_settings_that_the_pages_show_exist():
    known = {field.name for field in fields(Policy)}
    for page in PAGES:
        for table in re.findall(r"^\[policy\]\n((?:\w+ = .*\n)+)", read(page), re.MULTILINE):
            assert set(re.findall(r"^(\w+) =", table, re.MULTILINE)) <= known, name(page)


def test_the_example_of_perfguard_toml_is_accepted(tmp_path):
    from perfguard.config import load

    (example,) = re.findall(r"^```toml\n(.*?)^```", read(DOCS / "workloads.md"), re.MULTILINE | re.DOTALL)
    (tmp_path / "perfguard.toml").write_text(example)
    assert load(tmp_path).path is not None


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_page_shows_a_path_of_somebody_s_machine(page):
    assert re.findall(r"/(?:home|root|work|Users)/\w+", read(page)) == []


def test_the_verdicts_that_the_repository_carries_come_out_the_same_again(capsys):
    from perfguard.cli import run

    record = ROOT / "results.db"
    before = record.read_bytes()
    assert run(["replay", "--db", str(record)]) == 0
    assert capsys.readouterr().out.count("agrees") >= 10
    assert record.read_bytes() == before


def test_what_the_readme_quotes_of_stored_results_is_what_the_program_says(capsys):
    page = read(ROOT / "README.md")
    commands = re.findall(r"perfguard ((?:show|report) \S+) --db results\.db", page)
    assert [words.split()[0] for words in commands] == ["show", "report"]
    quotes = re.findall(r"^```\n([✗?].*?)```$", page, re.MULTILINE | re.DOTALL)
    assert len(quotes) == 2
    said = ""
    for words in commands:
        assert run([*words.split(), "--db", str(ROOT / "results.db")]) == 0
        said += plain(capsys.readouterr().out)
    for line in "".join(quotes).splitlines():
        assert plain(line) in said


def plain(text):
    return " ".join(text.replace("&#95;", "_").replace("&#63;", "?").split())
