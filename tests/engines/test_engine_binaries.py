"""Which shared objects of a server belong to its package."""

from pathlib import Path

import pytest

from runners.engines.identity import is_of_package
from runners.engines.probe import Found

SITE = "/envs/vllm/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("path", "is_own"),
    [
        (f"{SITE}/vllm/_C.abi3.so", True),
        ("/other/lib/python3.11/site-packages/vllm/_C.abi3.so", True),  # an installed one of that name: a stranger
        (f"{SITE}/PIL/_imaging.so", False),  # only the environment is called like the engine
        (f"{SITE}/vllm_kernel/ops.so", False),
    ],
)
def test_only_files_in_a_package_of_that_name_count(path, is_own):
    assert is_of_package(path, Found(module="vllm", folder=Path(SITE, "vllm"))) is is_own


def test_without_a_package_nothing_belongs_to_it():
    assert not is_of_package(f"{SITE}/vllm/_C.abi3.so", Found())
