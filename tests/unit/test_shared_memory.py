"""Names that killed programs leave in /dev/shm: what nobody uses goes, what anybody uses stays."""

import multiprocessing
import os
import secrets
from multiprocessing.shared_memory import SharedMemory

import pytest

from perfguard.shared_memory import PLACE, clear, clear_below, remember

pytestmark = pytest.mark.skipif(not PLACE.is_dir(), reason="this system has no /dev/shm")


@pytest.fixture
def left():
    """A file as a killed program leaves one."""
    path = PLACE / f"psm_{secrets.token_hex(8)}"
    yield path
    path.unlink(missing_ok=True)


def test_what_came_since_and_nobody_uses_is_removed(tmp_path, left):
    remember(tmp_path)
    left.write_bytes(b"weights")
    assert left.name in clear(tmp_path)
    assert not left.exists()


def test_what_was_there_before_stays(tmp_path, left):
    left.write_bytes(b"weights")
    remember(tmp_path)
    assert left.name not in clear(tmp_path)
    assert left.exists()


def test_a_segment_that_is_in_use_stays(tmp_path):
    remember(tmp_path)
    memory = SharedMemory(create=True, size=64)
    try:
        assert memory.name not in clear(tmp_path)
        assert (PLACE / memory.name).exists()
    finally:
        memory.close()
        memory.unlink()


def test_a_semaphore_that_is_in_use_stays_though_it_is_mapped_under_another_name(tmp_path):
    """Whoever made it has it mapped as sem.XXXXXX (deleted): by that name it would look unused."""
    remember(tmp_path)
    lock = multiprocessing.get_context("spawn").Lock()
    file = PLACE / f"sem.{lock._semlock.name.removeprefix('/')}"
    assert file.exists()
    assert file.name not in clear(tmp_path)
    assert file.exists()


def test_the_next_start_removes_what_a_killed_one_remembered(tmp_path, left):
    logs = tmp_path / "build" / "logs" / "trial"
    logs.mkdir(parents=True)
    remember(logs)
    left.write_bytes(b"weights")
    assert left.name in clear_below(tmp_path)
    assert not left.exists()


def test_without_a_record_nothing_is_touched(tmp_path, left):
    left.write_bytes(b"weights")
    assert clear(tmp_path) == ()
    assert os.path.exists(left)
