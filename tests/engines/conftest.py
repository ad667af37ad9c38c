"""What the tests of engines share: whose `python3` an arm finds on the path."""

import os
import sys

import pytest


@pytest.fixture(autouse=True)
def python_of_the_tests(monkeypatch):
    """Servers are started by the first `python3` there is. A version manager's is a shell script that starts thirty
    programs, twice a launch.
    """
    monkeypatch.setenv("PATH", os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
