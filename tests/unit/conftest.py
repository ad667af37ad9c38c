"""What the tests of several units share: a small repository of two commits, copied for each test."""

import shutil

import pytest
from subject_support import git, make_repository


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("template") / "repo"
    return folder, make_repository(folder, {"a.py": "1\n", ".gitignore": "*.log\n"}, {"a.py": "2\n"})


@pytest.fixture
def repository(template, tmp_path):
    folder, shas = template
    shutil.copytree(folder, tmp_path / "repo")
    git(tmp_path / "repo", "update-index", "--refresh")
    return tmp_path / "repo", shas
