"""Names that git resolves -> Revision, and for those it does not an error that names neighbours.

Must not read the working tree (worktree.py does).
"""

import difflib
import os
import shutil
import unicodedata

from perfguard.errors import RevisionError
from perfguard.records import Revision
from perfguard.subject.commands import Answer, ask_git, git_output
from perfguard.subject.location import Location


def resolve_commit(location: Location, name: str) -> Revision:
    """`name` as git reads it (branch, tag, sha, HEAD~3, HEAD@{1}, stash@{0}, :/text). Raises RevisionError."""
    if not name or name.startswith(("-", "^")) or "\0" in name:
        raise RevisionError(f"{name!r} is not a revision", "git log --oneline")
    if ".." in name and not name.startswith(":/") and "^{/" not in name:
        raise RevisionError(f"{name!r} is a range; one revision is needed", f"perfguard compare {_two_ends(name)}")
    found = ask_git(location.root, "rev-parse", "--verify", "--quiet", name)
    if not found.is_ok:
        raise _missing(location, name)
    peeled = ask_git(location.root, "rev-parse", "--verify", f"{found.text}^{{commit}}")
    if not peeled.is_ok:
        raise _not_a_commit(location, name, found.text, peeled)
    return describe_commit(location, name, peeled.text)


def describe_commit(location: Location, name: str, commit: str) -> Revision:
    """What a commit says of itself. Its words may hold any bytes: they are made harmless, never refused."""
    form = "--format=%H%x00%T%x00%cI%x00%s"
    # `--encoding` makes git turn the commit's declared encoding into UTF-8; undeclared bytes pass as they are.
    answer = git_output(location.root, "log", "-1", "--no-notes", "--encoding=UTF-8", form, commit, "--")
    sha, tree, committed_at, subject = answer.output.removesuffix(b"\n").split(b"\0", 3)
    return Revision(
        name=name,
        commit=sha.decode("ascii"),
        tree=tree.decode("ascii"),
        subject=printable(subject.decode("utf-8", errors="replace")),
        committed_at=committed_at.decode("ascii"),
    )


def head_commit(location: Location) -> str:
    """Full sha of HEAD. Raises RevisionError for a repository without commits."""
    answer = ask_git(location.root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if not answer.is_ok:
        raise no_commits(location)
    return answer.text


def has_commits(location: Location) -> bool:
    if ask_git(location.root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").is_ok:
        return True
    return bool(ask_git(location.root, "for-each-ref", "--count=1").output)


def no_commits(location: Location) -> RevisionError:
    return RevisionError(f"{location.root} has no commits yet", f"git -C {location.root} commit")


def printable(text: str) -> str:
    """`text` without control characters (a terminal would obey them)."""
    return "".join("\ufffd" if unicodedata.category(letter) == "Cc" else letter for letter in text)


def _missing(location: Location, name: str) -> RevisionError:
    words = ask_git(location.root, "rev-parse", "--verify", name).error
    if "ambiguous" in words:
        return RevisionError(f"{name!r} fits more than one object in {location.root}: {words}", "use more digits")
    message = f"git cannot resolve {name!r} in {location.root}"
    if near := _near_names(location, name):
        message += f"; did you mean {' or '.join(near)}?"
    if location.is_shallow:
        return RevisionError(f"{message} The clone is shallow.", f"git -C {location.root} fetch --unshallow --tags")
    if shutil.which(name):
        return RevisionError(f"{message}: it is a program", f"name a revision before it, such as HEAD -- {name}")
    return RevisionError(message, f"git -C {location.root} fetch --all --tags")


def _near_names(location: Location, name: str) -> list[str]:
    listed = git_output(location.root, "for-each-ref", "--format=%(refname:short)").output
    return difflib.get_close_matches(name, os.fsdecode(listed).splitlines(), n=2)


def _not_a_commit(location: Location, name: str, sha: str, answer: Answer) -> RevisionError:
    kind = ask_git(location.root, "cat-file", "-t", sha)
    if kind.is_ok and kind.text not in ("commit", "tag"):
        return RevisionError(f"{name!r} is a {kind.text}, not a commit", f"git -C {location.root} log --oneline")
    step = "fetch --unshallow --tags" if location.is_shallow else "fetch --all --tags"
    return RevisionError(
        f"{name!r} is not in the object store of {location.root}: {answer.error}", f"git -C {location.root} {step}"
    )


def _two_ends(name: str) -> str:
    base, _, head = name.replace("...", "..").partition("..")
    return f"{base or 'HEAD'} {head or 'HEAD'}"
