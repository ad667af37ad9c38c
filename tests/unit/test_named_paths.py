"""Files as a person names them: from where they stand, and never outside of the repository."""

import os

import pytest

from perfguard.errors import UsageError
from perfguard.subject.named_paths import path_in_repository


@pytest.mark.parametrize(
    ("stands", "text", "path"),
    [
        (".", "engine", "engine"),
        ("engine", "../bench.sh", "bench.sh"),
        ("engine", ".", "engine"),
        ("engine", "a/./b/", "engine/a/b"),
        (".", ".", ""),
        ("engine", "..", ""),
        # Somebody who stands outside, with --repo.
        ("..", "engine", "engine"),
    ],
)
def test_a_path_begins_where_the_person_stands(tmp_path, stands, text, path):
    root = tmp_path / "repo"
    (root / "engine").mkdir(parents=True)
    assert path_in_repository(text, root, root / stands, "--paths") == path


def test_an_absolute_path_counts_also_through_a_link_to_the_repository(tmp_path):
    root = tmp_path / "repo"
    (root / "engine").mkdir(parents=True)
    (tmp_path / "link").symlink_to(root)
    for top in (root, tmp_path / "link"):
        assert path_in_repository(os.fspath(top / "engine" / "a.py"), root, tmp_path, "--paths") == "engine/a.py"


@pytest.mark.parametrize("text", ["../other", "engine/../../x", "/etc/passwd", "", " ", "a\nb"])
def test_what_leaves_the_repository_and_what_is_no_path_is_refused(tmp_path, text):
    root = tmp_path / "repo"
    root.mkdir()
    with pytest.raises(UsageError, match="--paths") as refused:
        path_in_repository(text, root, root, "--paths")
    assert refused.value.exit_code == 2
