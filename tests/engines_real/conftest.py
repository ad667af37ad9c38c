"""Real engines for the tests of this folder: installed by themselves, else the tests are skipped with the reason."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.engines_real.environment import ROOT, Unavailable, provide

MAKER = Path(__file__).with_name("models.py")


@pytest.fixture(scope="session")
def chosen(request) -> None:
    """Nobody gets gigabytes installed by a plain `pytest`."""
    if "engines" not in request.config.getoption("markexpr"):
        pytest.skip("real engines are started by `make test-engines` only")


def python_of(name: str) -> Path:
    try:
        return provide(name)
    except Unavailable as reason:
        pytest.skip(f"{name}: {reason}")


@pytest.fixture(scope="session")
def vllm(chosen) -> Path:
    return python_of("vllm")


@pytest.fixture(scope="session")
def transformers(chosen) -> Path:
    return python_of("transformers")


def make_models(python: Path, folder: Path) -> Path:
    """`folder` with target and draft in it."""
    texts = sorted(map(str, (ROOT / "docs").glob("*.md")))
    env = os.environ | {"HF_HUB_OFFLINE": "1"}
    subprocess.run([python, str(MAKER), str(folder), *texts], check=True, env=env, timeout=300)
    return folder


@pytest.fixture(scope="session")
def models(vllm, tmp_path_factory) -> Path:
    return make_models(vllm, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def transformers_models(transformers, tmp_path_factory) -> Path:
    """Made anew: files of one version of transformers are not always read by an older one."""
    return make_models(transformers, tmp_path_factory.mktemp("models"))
