"""What the tests of engines share: whose `python3` an arm finds on the path, and command lines without a process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from engine_support import Project

from perfguard.cli import run


@pytest.fixture(autouse=True)
def python_of_the_tests(monkeypatch):
    """Servers are started by the first `python3` there is. A version manager's is a shell script that starts thirty
    programs, twice a launch.
    """
    monkeypatch.setenv("PATH", os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))


@pytest.fixture
def here(monkeypatch, capsys):
    """Project.run in this process, for what measures nothing: most of such a command is its start."""

    def run_here(
        project: Project, *arguments: str, code: int = 0, cwd: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        for name in os.environ.keys() - project.env().keys():
            monkeypatch.delenv(name)
        for name, value in project.env().items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(cwd or project.repo)
        capsys.readouterr()
        ended = run(list(arguments))
        told = capsys.readouterr()
        assert ended == code, f"{arguments}: exit code {ended}\n{told.out}\n{told.err}"
        return subprocess.CompletedProcess(arguments, ended, told.out, told.err)

    return run_here
