"""What the end-to-end tests share."""

import pytest
from cli_support import Project
from launcher_support import STAND_IN


@pytest.fixture
def project(tmp_path):
    """No repository yet: the first commit makes it."""
    return Project(folder=tmp_path)


@pytest.fixture
def subject(tmp_path):
    root = tmp_path / "subject"
    (root / "model").mkdir(parents=True)
    (root / "model" / "__init__.py").touch()
    (root / "model" / "entry.py").write_text(STAND_IN)
    return root


@pytest.fixture
def empty(tmp_path):
    (tmp_path / "subject").mkdir()
    return tmp_path / "subject"
