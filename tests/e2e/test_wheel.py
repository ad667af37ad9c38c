"""The wheel, installed with its dependencies in a fresh environment, measures; it brings no generic package names."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import Project

ROOT = Path(__file__).resolve().parents[2]
NO_INDEX = ("Could not find a version", "No matching distribution", "Connection", "Temporary failure", "timed out")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An environment that holds the wheel; a project that is measured with it."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-compile"]
    done = subprocess.run([*pip, "--disable-pip-version-check", str(wheel)], capture_output=True, text=True)
    if done.returncode and any(words in done.stderr for words in NO_INDEX):
        pytest.skip(f"pip reaches no index: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return Project(folder=folder, program=folder / "venv" / "bin" / "perfguard")


def test_the_installed_wheel_compares_with_the_runner_it_brings(installed):
    installed.commit({"fake.json": {}})
    installed.commit({"fake.json": {"slowdown": 1.5}})
    comparison = installed.compare("-w", "fake", "--set", "noise=0", "--no-confirm", code=3)
    assert comparison["outcome"] == "SUSPECT"
    assert comparison["metrics"][0]["slowdown"] == pytest.approx(1.5)
    # Measured by the wheel's own runner, not by one of the checkout that the tests run from.
    shown = json.loads(installed.run("show", "latest", "--json", "-").stdout)
    assert {trial["status"] for trial in shown["trials"]} == {"ok"}


def test_the_installed_wheel_compares_a_command(installed):
    installed.commit({"bench.sh": "echo '{\"seconds\": 2}'\n"})
    comparison = installed.compare("--metric", "seconds", "--", "sh", "bench.sh", base="HEAD", code=0)
    assert comparison["metrics"][0]["base_median"] == 2


def test_the_wheel_brings_one_top_level_package(installed):
    (site,) = installed.folder.glob("venv/lib/python3*/site-packages")
    (record,) = site.glob("perfguard-*.dist-info/RECORD")
    tops = {line.split("/")[0] for line in record.read_text().splitlines() if not line.startswith("..")}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"perfguard"}
    assert not (site / "runners").exists()
    assert not (site / "model").exists()
    bundle = site / "perfguard" / "_bundle"
    assert (bundle / "runners" / "__main__.py").exists()
    assert (bundle / "model" / "entry.py").exists()
    # The weights of the built-in model and the probe travel as data.
    assert list(bundle.glob("runners/assets/**/*.safetensors"))
    assert (site / "perfguard" / "trial" / "probe_site" / "sitecustomize.py").exists()
    assert "moe-eagle3" in installed.run("workloads", cwd=installed.folder).stdout
