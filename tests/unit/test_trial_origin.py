"""Proof of difference: the pure judge on lists of loaded files, and real probes of the ways two arms become one."""

import _ctypes
import os
import sys
import venv
from dataclasses import replace
from pathlib import Path

import pytest
from test_trial_command import request

from perfguard.origin import judge_origin
from perfguard.trial.command import run_command

MODULES = {"pkg": "src/pkg/__init__.py", "pkg.core": "src/pkg/core.py", "bench": "bench.py"}
CHECKOUTS = {"base": "/srv/aaaa/tree", "head": "/srv/bbbb/tree"}


def file(path, content):
    return {"path": path, "sha256": content}


def judge(base, head, changed=("src/pkg/core.py",), modules=MODULES):
    return judge_origin(
        changed_files=frozenset(changed),
        repo_modules=modules,
        repo_root="/home/u/repo",
        checkouts=CHECKOUTS,
        loaded_by_arm={"base": base, "head": head},
    )


def arm(side, core, **more):
    """What an arm loads if all is well: its own bench.py and package, and numpy from anywhere."""
    root = CHECKOUTS[side]
    return {
        "__main__": file(f"{root}/bench.py", "b"),
        "pkg": file(f"{root}/src/pkg/__init__.py", "i"),
        "pkg.core": file(f"{root}/src/pkg/core.py", core),
        "numpy": file("/usr/lib/python3/dist-packages/numpy/__init__.py", "n"),
    } | more


def test_each_arm_with_its_own_changed_code_is_fine():
    judgement = judge(arm("base", "1"), arm("head", "2"))
    assert judgement.reasons == ()
    assert judgement.note == "1 of 1 changed files were loaded, each from its own checkout"


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("/home/u/repo/src/pkg/core.py", "it is the user's working tree (an editable install or PYTHONPATH"),
        ("/home/u/repo/.venv/lib/python3.11/site-packages/pkg/core.py", "an installed copy wins"),
        ("/usr/lib/python3/dist-packages/pkg/core.py", "an installed copy wins"),
        ("/srv/bbbb/tree/src/pkg/core.py", "it is the other side's checkout"),
        ("/opt/copy/pkg/core.py", "another folder wins on the path"),
    ],
)
def test_a_module_of_the_repository_from_elsewhere_is_named_with_its_path_and_what_to_do(path, advice):
    judgement = judge(arm("base", "1", **{"pkg.core": file(path, "1")}), arm("head", "2"))
    (reason,) = judgement.reasons
    assert reason.code == "same_code"
    assert reason.text.startswith(f"base loaded pkg.core from {path} instead of its checkout: {advice}")


def test_both_arms_are_named_when_both_run_the_users_checkout():
    names = {"pkg.core": "core.py", "pkg": "__init__.py"}
    loaded = {name: file(f"/home/u/repo/src/pkg/{place}", "1") for name, place in names.items()}
    texts = [reason.text for reason in judge(loaded, loaded).reasons]
    assert [text.split(" loaded ")[0] for text in texts] == ["base", "head"]
    assert "pkg.core (and 1 more)" in texts[0]


def test_an_editable_install_is_wrong_also_where_the_commits_are_the_same():
    loaded = {"pkg.core": file("/home/u/repo/src/pkg/core.py", "1")}
    assert len(judge(loaded, loaded, changed=()).reasons) == 2


def test_a_second_process_that_loaded_a_module_from_elsewhere_is_seen():
    stranger = {"pkg.core (2)": file("/home/u/repo/src/pkg/core.py", "1")}
    assert "head loaded pkg.core (2)" in judge(arm("base", "1"), arm("head", "2", **stranger)).reasons[0].text


def test_other_packages_are_nobodys_fault():
    """A virtual environment inside the repository, the standard library, and a namesake of the standard library."""
    modules = MODULES | {"random": "random.py", "src.random": "src/random.py"}
    others = {
        "torch": file("/home/u/repo/.venv/lib/python3.11/site-packages/torch/__init__.py", "t"),
        "/home/u/repo/.venv/lib/python3.11/site-packages/torch/lib/libtorch.so": file(
            "/home/u/repo/.venv/lib/python3.11/site-packages/torch/lib/libtorch.so", "s"
        ),
        "random": file("/usr/lib/python3.11/random.py", "r"),
    }
    assert judge(arm("base", "1", **others), arm("head", "2", **others), modules=modules).reasons == ()


def test_equal_content_of_a_file_that_differs_between_the_commits_is_same_code():
    (reason,) = judge(arm("base", "1"), arm("head", "1")).reasons
    assert reason.text == "the commits differ in src/pkg/core.py, but both arms loaded the same content of it"


def test_a_package_installed_below_each_checkout_is_compared_by_name():
    def installed(side, content):
        path = f"{CHECKOUTS[side]}/.venv/lib/python3.11/site-packages/pkg/core.py"
        return {"pkg.core": file(path, content)}

    assert judge(installed("base", "1"), installed("head", "2")).reasons == ()
    assert judge(installed("base", "1"), installed("head", "1")).reasons[0].code == "same_code"


@pytest.mark.parametrize("changed", [("README.md",), ("src/pkg/other.py", "docs/a.md"), ("csrc/other.cu",)])
def test_changes_that_are_not_loaded_are_fine_and_said(changed):
    judgement = judge(arm("base", "1"), arm("head", "1"), changed=changed)
    assert judgement.reasons == ()
    assert f"none of the {len(changed)} changed files was seen loaded by Python" in judgement.note


def extension(side, content, name="_C"):
    path = f"{CHECKOUTS[side]}/src/pkg/{name}.cpython-311-x86_64-linux-gnu.so"
    return {f"pkg.{name}": file(path, content), path: file(path, content)}


@pytest.mark.parametrize("source", ["csrc/kernel.cu", "csrc/k.cuh", "a.cc", "a.cpp", "a.h", "a.pyx", "src/lib.rs"])
def test_an_extension_that_is_the_same_though_native_sources_changed_is_stale(source):
    base, head = (arm(side, "1", **extension(side, "so")) for side in ("base", "head"))
    (reason,) = judge(base, head, changed=(source,)).reasons
    assert (reason.code, source in reason.text, "--setup" in reason.text) == ("same_code", True, True)


def test_an_extension_that_was_rebuilt_is_fine_and_so_is_one_beside_it_that_did_not_change():
    base = arm("base", "1", **extension("base", "old"), **extension("base", "same", "_other"))
    head = arm("head", "1", **extension("head", "new"), **extension("head", "same", "_other"))
    assert judge(base, head, changed=("csrc/kernel.cu",)).reasons == ()
    same = arm("base", "1", **extension("base", "so")), arm("head", "1", **extension("head", "so"))
    assert judge(*same, changed=("README.md",)).reasons == ()


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("pkg._C", "/usr/lib/python3/dist-packages/pkg/_C.so"),
        ("/home/u/repo/src/pkg/_C.so", "/home/u/repo/src/pkg/_C.so"),
    ],
)
def test_an_extension_shared_by_both_arms_from_elsewhere_is_named(name, path):
    shared = {name: file(path, "so")}
    reasons = judge(arm("base", "1", **shared), arm("head", "2", **shared)).reasons
    assert [reason.code for reason in reasons] == ["same_code", "same_code"]
    assert path in reasons[0].text


@pytest.mark.parametrize(
    ("base", "head", "who"),
    [(None, None, "base and head"), ({}, None, "base and head"), (arm("base", "1"), None, "head")],
)
def test_without_a_list_the_code_is_unknown_and_that_is_said(base, head, who):
    judgement = judge(base, head)
    assert judgement.reasons == ()
    assert judgement.note.startswith(f"which code {who} ran is unknown")
    assert not judgement.is_proven
    assert judge(base, head, changed=("csrc/main.cc",)).is_proven  # Python cannot tell of a program that is none


def test_whatever_lies_in_the_working_tree_is_a_stranger_but_its_environments():
    submodule = {"m": file("/home/u/repo/third/m.py", "m")}
    (reason,) = judge(arm("base", "1", **submodule), arm("head", "2")).reasons
    assert "base loaded m from /home/u/repo/third/m.py" in reason.text
    own = {"numpy": file("/home/u/repo/env/lib/python3.11/site-packages/numpy/__init__.py", "n")}
    assert judge(arm("base", "1", **own), arm("head", "2", **own)).reasons == ()


@pytest.mark.parametrize("word", ["/home/u/repo/src/pkg/core.py", "/home/u/repo/run.sh"])
def test_a_command_that_names_a_file_of_the_working_tree_ran_that_on_both_sides(word):
    judgement = judge_origin(
        changed_files=frozenset({"run.sh"}),
        repo_modules=MODULES,
        repo_root="/home/u/repo",
        checkouts=CHECKOUTS,
        loaded_by_arm={"base": None, "head": None},
        command=("sh", word),
    )
    assert [reason.code for reason in judgement.reasons] == ["same_code"]
    assert word in judgement.reasons[0].text


# Real processes: a repository in the user's working tree, two checkouts of it, and what the probe lists.

BENCH = "import json, pkg.core; print(json.dumps({'seconds': pkg.core.VALUE}))\n"


@pytest.fixture
def trees(tmp_path):
    """The user's working tree and both checkouts, pkg.core differing in each."""
    places = {name: tmp_path / name for name in ("user", "base", "head")}
    for value, place in enumerate(places.values(), start=1):
        (place / "tree" / "src" / "pkg").mkdir(parents=True)
        (place / "tree" / "src" / "pkg" / "__init__.py").touch()
        (place / "tree" / "src" / "pkg" / "core.py").write_text(f"VALUE = {value}\n")
        (place / "tree" / "bench.py").write_text(BENCH)
    return places


def judge_real(trees, python=sys.executable, changed=("src/pkg/core.py",), **env):
    """Probe both arms as the first run of a build does, then judge."""
    trials = {
        side: run_command(replace(request(trees[side], str(python), "bench.py", env=env), side=side), probe=True)
        for side in ("base", "head")
    }
    assert [trial.status for trial in trials.values()] == ["ok", "ok"], trials
    return judge_origin(
        changed_files=changed,
        repo_modules=MODULES,
        repo_root=str(trees["user"] / "tree"),
        checkouts={side: str(trees[side] / "tree") for side in ("base", "head")},
        loaded_by_arm={side: trial.record["origin"] for side, trial in trials.items()},
    )


def test_a_command_that_loads_each_checkout_is_proven_to(trees):
    assert judge_real(trees, PYTHONPATH="src").reasons == ()


def test_a_pythonpath_that_wins_is_found(trees):
    reasons = judge_real(trees, PYTHONPATH=f"{trees['user']}/tree/src").reasons
    assert len(reasons) == 2
    assert f"base loaded pkg (and 1 more) from {trees['user']}/tree/src/pkg/__init__.py" in reasons[0].text


def new_environment(folder):
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return folder / "bin" / "python", folder / "lib" / version / "site-packages"


def test_an_editable_install_is_found(trees, tmp_path):
    """A .pth file is what `pip install -e` of a src layout leaves."""
    python, packages = new_environment(tmp_path / "venv")
    (packages / "__editable__.pkg-1.0.pth").write_text(f"{trees['user']}/tree/src\n")
    reasons = judge_real(trees, python).reasons
    assert len(reasons) == 2
    assert "it is the user's working tree" in reasons[0].text


def test_an_installed_copy_is_found(trees, tmp_path):
    python, packages = new_environment(tmp_path / "venv")
    os.rename(trees["user"] / "tree" / "src" / "pkg", packages / "pkg")
    reasons = judge_real(trees, python).reasons
    assert len(reasons) == 2
    assert "an installed copy wins" in reasons[0].text


@pytest.mark.parametrize("is_rebuilt", [False, True])
def test_a_stale_extension_is_found_and_a_rebuilt_one_is_fine(trees, is_rebuilt):
    """core.py is the same in both; what it loads was built from csrc/kernel.c."""
    load = "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), '_kernel.so'))\nVALUE = 1\n"
    for side in ("base", "head"):
        package = trees[side] / "tree" / "src" / "pkg"
        (package / "core.py").write_text(load)
        # Any shared object will do; bytes behind its end change nothing but the hash.
        (package / "_kernel.so").write_bytes(Path(_ctypes.__file__).read_bytes() + is_rebuilt * side.encode())
    reasons = judge_real(trees, changed={"csrc/kernel.c"}, PYTHONPATH="src").reasons
    if is_rebuilt:
        assert reasons == ()
    else:
        assert "native sources differ (csrc/kernel.c)" in reasons[0].text
        assert "src/pkg/_kernel.so" in reasons[0].text


def test_an_installed_copy_of_the_commit_counts_as_its_checkout_s_own():
    """Both sides installed with their own commit's content: the path is not the checkout's, the code is."""

    def installed(side, content):
        copy = {**file(f"/envs/{side}/lib/python3.11/site-packages/pkg/core.py", content)}
        return {"pkg.core": {**copy, "same_as": f"{CHECKOUTS[side]}/src/pkg/core.py"}}

    judgement = judge(installed("base", "1"), installed("head", "2"))
    assert (judgement.reasons, judgement.is_proven) == ((), True)
    same = judge(installed("base", "1"), installed("head", "1"))
    assert "both arms loaded the same content" in same.reasons[0].text


def test_one_commit_run_by_two_installations_is_not_called_the_same_code():
    base, head = (arm(side, "1", torch=file(f"/envs/{side}/torch.py", side)) for side in ("base", "head"))
    assert judge(base, head, changed=()).note == "both sides are one commit, and 1 of the files that they loaded differ"
    assert judge(arm("base", "1"), arm("head", "1"), changed=()).note == "both arms are the same code"
