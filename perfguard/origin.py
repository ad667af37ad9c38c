"""Did each arm run its own commit's code? Pure: from lists of loaded files to reasons.

Loaded files are {module, or path of a shared object: {"path", "sha256"}} as a rank or the import probe lists them.
A file may name another in `same_as`: the checkout's own, whose content it has. Must not read a file: paths are real
paths, compared as text.
"""

import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from perfguard.records import Reason, Side

Loaded = Mapping[str, Mapping[str, str]]

NATIVE_SUFFIXES = frozenset(
    {".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hpp", ".hip", ".mm", ".pyx", ".pxd", ".rs", ".f90", ".zig"}
)
# A second file of one module name (another process loaded it from elsewhere) is listed as "name (2)".
REPEATED = re.compile(r" \(\d+\)$")
SHOWN = 3
# Parts of a path that belong to a Python installation or environment.
ENVIRONMENT_PARTS = ("/site-packages/", "/dist-packages/", "/lib/python3")


@dataclass(frozen=True, kw_only=True)
class OriginJudgement:
    """`reasons` (code same_code) make a comparison invalid; `note` says what was seen where nothing is wrong.

    `is_proven` is False where Python code changed and no process told what it loaded: no EQUIVALENT rests on that.
    """

    reasons: tuple[Reason, ...] = ()
    note: str = ""
    is_proven: bool = True


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is known of the repository. `modules`: dotted name -> tracked file; `folders` hold tracked files."""

    modules: Mapping[str, str]
    files: frozenset[str]
    folders: frozenset[str]
    root: str
    checkouts: Mapping[Side, str]


def judge_origin(
    *,
    changed_files: Collection[str],
    repo_modules: Mapping[str, str],
    repo_root: str,
    checkouts: Mapping[Side, str],
    loaded_by_arm: Mapping[Side, Loaded | None],
    command: Collection[str] = (),
    is_package: bool = False,
) -> OriginJudgement:
    """Both arms must have loaded the repository's code from their own checkout, and differing code where it differs.

    `changed_files` differ in content between the commits; `repo_modules` maps dotted names to tracked files;
    `checkouts` holds the real path of each arm's checkout. `is_package`: the loaded files are those of the package that
    ran, seen from outside, and not each was seen loaded.
    """
    subject = Subject(
        modules=repo_modules,
        files=frozenset(repo_modules.values()),
        folders=frozenset(str(PurePosixPath(file).parent) for file in repo_modules.values()),
        root=repo_root,
        checkouts=checkouts,
    )
    named = [word for word in command if below(word, repo_root) in {*changed_files, *repo_modules.values()} - {""}]
    if named:
        text = f"the command names {named[0]} in the working tree, so both sides ran that: name it relative"
        return OriginJudgement(reasons=(Reason(code="same_code", text=text),))
    loaded = {side: files for side, files in loaded_by_arm.items() if files}
    strangers = tuple(reason for side, files in loaded.items() for reason in _strangers(subject, side, files))
    if strangers:
        return OriginJudgement(reasons=strangers)
    missing = [side for side in checkouts if side not in loaded]
    if missing:
        note = f"which code {' and '.join(missing)} ran is unknown: no Python process listed it"
        return OriginJudgement(note=note, is_proven=not any(file.endswith(".py") for file in changed_files))
    base, head = (_by_tracked_file(subject, side, loaded[side]) for side in ("base", "head"))
    same = sorted(file for file in changed_files if file in base and base[file] == head.get(file))
    if same:
        text = f"the commits differ in {_some(same)}, but both arms loaded the same content of it"
        return OriginJudgement(reasons=(Reason(code="same_code", text=text),))
    stale = _stale_extension(changed_files, base, head)
    if stale:
        return OriginJudgement(reasons=(stale,))
    if not changed_files and (num := _num_differing(loaded["base"], loaded["head"])):
        return OriginJudgement(note=f"both sides are one commit, and {num} of the files that they loaded differ")
    return OriginJudgement(note=_note(changed_files, base, head, is_package=is_package))


def _num_differing(base: Loaded, head: Loaded) -> int:
    """Modules that are not the same on both sides: one commit, run by two installations."""
    return sum(base.get(name, {}).get("sha256") != head.get(name, {}).get("sha256") for name in {*base, *head})


def below(path: str, folder: str) -> str:
    """`path` relative to `folder`, "" if it does not lie below it."""
    place = PurePosixPath(path)
    return str(place.relative_to(folder)) if folder and place.is_relative_to(folder) else ""


def belongs_to_repository(subject: Subject, name: str, path: str) -> bool:
    """By its name, or since it lies where the repository's own files lie in the user's working tree or a checkout."""
    dotted = REPEATED.sub("", name)
    # A compiled module has no tracked file of its name, but its package has.
    named = {dotted, dotted.rpartition(".")[0]} if is_extension(path) and "/" not in dotted else {dotted}
    if dotted.split(".")[0] not in sys.stdlib_module_names and not named.isdisjoint(subject.modules):
        return True
    places = [place for root in (subject.root, *subject.checkouts.values()) if (place := below(path, root))]
    is_near = is_extension(path) and any(str(PurePosixPath(place).parent) in subject.folders for place in places)
    return is_near or not subject.files.isdisjoint(places) or _is_in_working_tree(subject, path)


def _is_in_working_tree(subject: Subject, path: str) -> bool:
    """Below the user's working tree, submodules included, but not in a Python environment that lies there."""
    return bool(below(path, subject.root)) and not any(part in path for part in ENVIRONMENT_PARTS)


def is_extension(path: str) -> bool:
    name = PurePosixPath(path).name
    return name.endswith((".so", ".pyd", ".dylib")) or ".so." in name


def _strangers(subject: Subject, side: Side, files: Loaded) -> list[Reason]:
    """Modules of the repository that did not come from this arm's checkout."""
    own = subject.checkouts[side]
    wrong = {
        name: file["path"]
        for name, file in files.items()
        if not below(place_of(file), own) and belongs_to_repository(subject, name, file["path"])
    }
    if not wrong:
        return []
    name, path = next(iter(wrong.items()))
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    text = f"{side} loaded {name}{more} from {path} instead of its checkout: {_why(subject, path)}"
    return [Reason(code="same_code", text=text)]


def place_of(file: Mapping[str, str]) -> str:
    """Where a file counts as loaded from: an installed copy of the checkout's own file counts as that."""
    return file.get("same_as", file["path"])


def _why(subject: Subject, path: str) -> str:
    if "site-packages" in path or "dist-packages" in path:
        return "an installed copy wins; uninstall it, or build each side with --setup 'pip install --target . .'"
    if below(path, subject.root):
        how = "an editable install or PYTHONPATH; uninstall it, or let --setup install each side"
        return f"it is the user's working tree ({how})"
    if any(below(path, checkout) for checkout in subject.checkouts.values()):
        return "it is the other side's checkout; let --setup install each side into an environment of its own"
    return "another folder wins on the path; look at PYTHONPATH and .pth files"


def _by_tracked_file(subject: Subject, side: Side, files: Loaded) -> dict[str, str]:
    """Tracked file, or place of an extension in the checkout -> hash of what was loaded."""
    found = {}
    for name, file in files.items():
        place = below(place_of(file), subject.checkouts[side])
        # Installed below the checkout (an environment that --setup made), a module is found by its name.
        named = subject.modules.get(REPEATED.sub("", name), "")
        if tracked := place if place in subject.files or not named else named:
            found[tracked] = file["sha256"]
    return found


def _stale_extension(changed_files: Collection[str], base: Mapping[str, str], head: Mapping[str, str]) -> Reason | None:
    """Native sources changed, and every extension that both arms loaded is the same to the byte."""
    sources = sorted(file for file in changed_files if PurePosixPath(file).suffix in NATIVE_SUFFIXES)
    shared = sorted(file for file in base if is_extension(file) and file in head)
    if not sources or not shared or any(base[file] != head[file] for file in shared):
        return None
    text = (
        f"native sources differ ({_some(sources)}), but both arms loaded the same {_some(shared)}: a stale build, or"
        " a change that does not reach the binary; build each side with --setup"
    )
    return Reason(code="same_code", text=text)


def _note(
    changed_files: Collection[str], base: Mapping[str, str], head: Mapping[str, str], *, is_package: bool
) -> str:
    loaded = [file for file in changed_files if file in base or file in head]
    if not changed_files:
        return "both arms are the same code"
    if is_package:
        where = "belong to the package that ran, each side's its own" if loaded else "belongs to the package that ran"
        return f"{len(loaded) or 'none'} of {len(changed_files)} changed files {where}"
    if not loaded:
        return f"none of the {len(changed_files)} changed files was seen loaded by Python"
    return f"{len(loaded)} of {len(changed_files)} changed files were loaded, each from its own checkout"


def _some(names: list[str]) -> str:
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + rest
