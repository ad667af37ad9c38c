"""Real git repositories for the tests of perfguard/subject. Git itself is the independent source of what is right."""

import hashlib
import os
import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str, stdin: bytes | None = None, **env: str) -> str:
    """Run git as a person with a plain setup would; returns its output."""
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "protocol.file.allow=always"]
    plain = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
    result = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, input=stdin, capture_output=True, env=os.environ | plain | env
    )
    assert result.returncode == 0, result.stderr.decode(errors="replace")
    return os.fsdecode(result.stdout).removesuffix("\n")


def make_repository(folder: Path, *commits: dict[str, str]) -> list[str]:
    """One commit for each {path: text}; returns their shas, oldest first."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    return [commit(folder, files, message=f"step {number}") for number, files in enumerate(commits)]


def commit(folder: Path, files: dict[str, str], *, message: str = "next") -> str:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def photograph(folder: Path) -> dict[str, tuple[str, int, int]]:
    """Every file below `folder`, .git included: content hash, time stamp, mode.

    Without the stamp of objects and of a shared index: git itself renews it whenever it finds one again.
    """
    seen = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            about = path.lstat()
            content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            name = str(path.relative_to(folder))
            is_stamped = "/objects/" not in name and "sharedindex" not in name
            seen[name] = (digest, about.st_mtime_ns if is_stamped else 0, about.st_mode)
    return seen


def tree_of_files(folder: Path) -> dict[str, tuple[str, bool]]:
    """Path -> (content or link target, is executable) of a working tree, without `.git` folders and files."""
    seen = {}
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in set(names) - {".git"}:
            path = Path(parent, name)
            content = "-> " + os.readlink(path) if path.is_symlink() else hashlib.sha256(path.read_bytes()).hexdigest()
            seen[str(path.relative_to(folder))] = (content, bool(path.lstat().st_mode & 0o100))
    return seen
