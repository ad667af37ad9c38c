"""Both sides must run the code of their own commit: the silent A/A in its commonest forms."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import codes, texts

# In a folder of its own, so that the checkout is not on the path just because the script lies beside the package.
BENCH = "import json, engine\nprint(json.dumps({'seconds': engine.STEP_S}))\n"
SECONDS = ("--metric", "seconds")


@pytest.fixture
def engine(project):
    project.commit({"engine/__init__.py": "STEP_S = 1.0\n", "bench/bench.py": BENCH})
    project.commit({"engine/__init__.py": "STEP_S = 1.5\n"})
    return project


def make_environment(folder: Path) -> Path:
    """A virtual environment without anything in it; returns its site-packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return next(folder.glob("lib/python3*/site-packages"))


def test_an_editable_install_of_the_checkout_is_no_comparison(engine):
    site = make_environment(engine.folder / "venv")
    (site / "__editable__.engine.pth").write_text(f"{engine.repo}\n")
    python = str(engine.folder / "venv" / "bin" / "python")
    comparison = engine.compare(*SECONDS, "--", python, "bench/bench.py", code=4)
    assert comparison["outcome"] == "INVALID"
    assert codes(comparison) == ["same_code", "same_code"]
    place = engine.repo / "engine" / "__init__.py"
    assert f"base loaded engine from {place} instead of its checkout" in texts(comparison)
    assert "an editable install or PYTHONPATH; uninstall it, or let --setup install each side" in texts(comparison)
    assert comparison["trials"]["ok"] == 0


def test_an_installed_copy_of_the_package_is_no_comparison(engine):
    site = make_environment(engine.folder / "venv")
    shutil.copytree(engine.repo / "engine", site / "engine")
    python = str(engine.folder / "venv" / "bin" / "python")
    comparison = engine.compare(*SECONDS, "--", python, "bench/bench.py", code=4)
    assert codes(comparison) == ["same_code", "same_code"]
    assert "an installed copy wins; uninstall it, or build each side with --setup" in texts(comparison)


def test_a_python_path_that_wins_is_no_comparison(engine):
    comparison = engine.compare(*SECONDS, "--", sys.executable, "bench/bench.py", code=4, PYTHONPATH=str(engine.repo))
    assert set(codes(comparison)) == {"same_code"}
    assert f"head loaded engine from {engine.repo / 'engine'}" in texts(comparison)


def test_an_environment_that_setup_makes_in_each_checkout_is_compared(engine):
    """What the advice says works: an editable install of each side's own checkout."""
    link = 'for site in .venv/lib/python3*/site-packages; do pwd > "$site/engine.pth"; done'
    setup = f"{sys.executable} -m venv --without-pip .venv && {link}"
    bench = (".venv/bin/python", "bench/bench.py")
    comparison = engine.compare("--setup", setup, *SECONDS, "--no-confirm", "--", *bench, code=3)
    assert comparison["outcome"] == "SUSPECT"
    assert comparison["metrics"][0]["slowdown"] == pytest.approx(1.5)
    assert "1 of 1 changed files were loaded, each from its own checkout" in comparison["conclusions"]["can"]


def test_a_commit_without_a_model_cannot_be_measured_with_the_built_in_workload(engine):
    done = engine.run("compare", "HEAD~1", "HEAD", "-w", "moe-eagle3", "--quiet", code=5)
    first_line = done.stderr.splitlines()[0]
    # Whichever was made first.
    shas = {name: engine.git("rev-parse", name)[:12] for name in ("HEAD~1", "HEAD")}
    sides = [f"error: {name} ({sha}) cannot be measured: " for name, sha in shas.items()]
    assert first_line.startswith(tuple(sides))
    assert "No module named 'model'" in first_line
    assert done.stdout == ""
    # It is not left behind as if it were running.
    assert "interrupted" in engine.run("runs").stdout
    assert list((engine.cache / "work").iterdir()) == []
