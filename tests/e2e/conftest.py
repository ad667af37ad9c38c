"""What the end-to-end tests share."""

import pytest
from cli_support import Project


@pytest.fixture
def project(tmp_path):
    """No repository yet: the first commit makes it."""
    return Project(folder=tmp_path)
