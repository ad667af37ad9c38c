"""The key of a build: what changes it and what must not."""

import os
import time
from dataclasses import replace

import pytest

from perfguard.subject.buildkey import BuildFacts, build_key
from perfguard.subject.tools import tools_state

FACTS = BuildFacts(
    cache="/cache",
    repository="/srv/repo",
    commit="c" * 40,
    tree="d" * 40,
    patch_sha256="e" * 64,
    tags_sha256="f" * 64,
    setup="make",
    python="",
    environment={"PATH": "/usr/bin", "CFLAGS": "-O2"},
    machine={"host": {"kernel": "6.1"}},
    tools={"/usr/bin": 7},
)


@pytest.mark.parametrize(
    "changes",
    [
        {"cache": "/elsewhere"},
        {"repository": "/srv/clone"},
        {"commit": "0" * 40},
        {"tree": "0" * 40},
        {"patch_sha256": "0" * 64},
        {"tags_sha256": "0" * 64},
        {"setup": "make -j"},
        {"python": "/opt/python"},
        {"environment": {"PATH": "/usr/bin", "CFLAGS": "-O3"}},
        {"environment": {"PATH": "/usr/bin", "CFLAGS": "-O2", "CC": "clang"}},
        {"machine": {"host": {"kernel": "6.2"}}},
        {"tools": {"/usr/bin": 8}},
    ],
    ids=str,
)
def test_whatever_decides_a_build_changes_its_key(changes):
    assert build_key(replace(FACTS, **changes)) != build_key(FACTS)


def test_a_key_is_64_hex_digits_and_the_same_for_the_same_facts_in_any_order():
    other = replace(FACTS, environment={"CFLAGS": "-O2", "PATH": "/usr/bin"})
    assert build_key(other) == build_key(FACTS)
    assert len(build_key(FACTS)) == 64
    int(build_key(FACTS), 16)


def test_another_terminal_gives_the_same_key():
    session = {"TERM": "xterm", "SSH_TTY": "/dev/pts/3", "XDG_SESSION_ID": "4", "PWD": "/tmp", "INVOCATION_ID": "5"}
    assert build_key(replace(FACTS, environment={**FACTS.environment, **session})) == build_key(FACTS)


def test_a_program_or_package_that_is_installed_changes_the_state_of_the_tools(tmp_path):
    programs, packages = tmp_path / "venv" / "bin", tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    for folder in (programs, packages):
        folder.mkdir(parents=True)
        os.utime(folder, (1, 1))
    before = tools_state(f"{programs}:relative:")
    assert before[str(programs)] == before[str(packages)] == 10**9
    assert tools_state(f"{programs}:relative:") == before
    (packages / "new").mkdir()
    changed = tools_state(str(programs))
    assert {name for name in before if changed.get(name) != before[name]} == {str(packages)}
    (programs / "gcc").touch()
    assert tools_state(str(programs))[str(programs)] > time.time_ns() - 60 * 10**9


def test_a_folder_of_the_search_path_that_is_not_there_has_a_state_too(tmp_path):
    assert tools_state(str(tmp_path / "none"))[str(tmp_path / "none")] == 0
