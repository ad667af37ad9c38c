"""`--help` groups commands and options by what somebody wants to do, in plain text and without rich."""

import subprocess
import sys

import pytest
import typer

from perfguard.cli import app
from perfguard.cli.panels import COMMANDS, FEW, OPTIONS, first_sentence, name_of, panelled

PROGRAM = typer.main.get_command(app)


def names(panels):
    return [name for group in panels.values() for name in group]


def options_of(command):
    return {name_of(param) for param in command.params if param.param_type_name == "option"} - {"--help"}


def test_every_command_stands_in_exactly_one_panel():
    assert sorted(names(COMMANDS)) == sorted(PROGRAM.commands)


def test_every_option_of_a_long_help_stands_in_exactly_one_panel():
    grouped = [command for command in PROGRAM.commands.values() if len(options_of(command)) >= FEW]
    assert {"compare", "bisect", "sweep"} <= {command.name for command in grouped}
    assert set().union(*map(options_of, grouped)) | {"--help"} == set(names(OPTIONS))
    assert len(names(OPTIONS)) == len(set(names(OPTIONS)))


def headings(text):
    return [line.rstrip(":") for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]


def shown(*words):
    done = subprocess.run(
        [sys.executable, "-c", "from perfguard.cli import main; main()", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_the_help_of_the_program_shows_its_panels_in_their_order():
    text = shown("--help")
    assert headings(text) == ["Options", *COMMANDS]
    assert "\n  compare    Has head changed performance against base?\n" in text
    assert "..." not in text.split("\n", 1)[1], "nothing is cut"


def test_the_help_of_a_command_with_many_options_has_panels_and_one_with_few_has_none():
    compare = shown("compare", "--help")
    assert headings(compare) == ["Arguments", *OPTIONS]
    example = "  Example: perfguard compare HEAD~1 HEAD --metric seconds --better lower -- python bench.py\n"
    assert example in compare, "an example is one line, to be copied"
    assert headings(shown("runs", "--help")) == ["Options"]


def test_what_no_table_knows_is_shown_last():
    assert panelled({"a": 1, "c": 3, "b": 2}, {"One": ("b", "a")}) == {"One": [2, 1], "More": [3]}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Has it changed? Blocks of both.\n\nExample: x", "Has it changed?"),
        ("What is stored, newest first.", "What is stored, newest first"),
        ("Files of\nv1.4: two. More.", "Files of v1.4: two"),
        (f"Make room: {'x' * 100}.", "Make room"),
    ],
)
def test_a_command_is_listed_with_its_first_sentence(text, sentence):
    assert first_sentence(text) == sentence


def test_no_help_loads_what_draws_reports():
    probe = "import sys; from perfguard.cli import run; run(['compare', '--help']); assert 'rich' not in sys.modules"
    subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True)
