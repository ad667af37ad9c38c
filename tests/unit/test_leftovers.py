"""Of /dev/shm only what came since, is ours and is used by nobody goes; temporary files go with their folder."""

import json
import mmap
import multiprocessing
import os
import socket
from pathlib import Path

import pytest

from perfguard.leftovers import PLACE, RECORD, clear, clear_below, remember


@pytest.fixture
def places(tmp_path):
    place, folder = tmp_path / "shm", tmp_path / "root" / "build" / "logs" / "trial"
    place.mkdir()
    folder.mkdir(parents=True)
    return place, folder


def test_what_a_launch_left_is_removed_and_what_was_there_before_or_is_nobody_s_whom_we_know_stays(places):
    place, folder = places
    (place / "psm_before").write_bytes(b"x")
    remember(folder, place)
    for name in ("psm_new", "sem.mp-new", "vllm_dist_1-tp:0-[0-1]-cpushm_0", "nccl-other"):
        (place / name).write_bytes(b"x")
    assert clear(folder, place) == ("psm_new", "sem.mp-new", "vllm_dist_1-tp:0-[0-1]-cpushm_0")
    assert sorted(path.name for path in place.iterdir()) == ["nccl-other", "psm_before"]


def test_what_any_process_has_mapped_or_open_stays(places):
    place, folder = places
    remember(folder, place)
    for name in ("psm_mapped", "psm_open", "psm_free"):
        (place / name).write_bytes(b"x" * mmap.PAGESIZE)
    with open(place / "psm_open", "rb"), open(place / "psm_mapped", "r+b") as stream:
        mapped = mmap.mmap(stream.fileno(), 0)
        stream.close()
        assert clear(folder, place) == ("psm_free",)
        mapped.close()


@pytest.mark.skipif(not PLACE.is_dir(), reason="this system has no /dev/shm")
def test_a_semaphore_in_use_stays_though_its_maker_has_it_mapped_under_another_name(tmp_path):
    """As sem.XXXXXX (deleted): by its name it looks unused, and a program that starts its workers would lose it."""
    remember(tmp_path)
    lock = multiprocessing.get_context("spawn").Lock()
    file = PLACE / f"sem.{lock._semlock.name.removeprefix('/')}"
    mine = [line for line in Path("/proc/self/maps").read_text().splitlines() if file.name in line]
    assert (file.exists(), mine) == (True, [])
    assert file.name not in clear(tmp_path)
    assert file.exists()


def test_nothing_is_removed_twice_or_where_nothing_was_remembered(places):
    place, folder = places
    assert clear(folder, place) == ()
    remember(folder, place)
    assert json.loads((folder / RECORD).read_text())["names"] == []
    assert clear(folder, place) == ()
    (place / "psm_later").write_bytes(b"x")
    assert clear(folder, place) == ()


def test_temporary_files_go_with_their_folder_whatever_they_are(places):
    place, folder = places
    temporary = remember(folder, place)
    (temporary / "kept" / "below").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(temporary / "4f0c2a36-6dc5-4f43-a9f5-0d3a5ea2b6b1"))
    assert clear(folder, place) == ()
    assert not temporary.exists()
    again = remember(folder, place)
    assert again != temporary
    clear_below(folder.parents[2], place)
    assert not again.exists()


@pytest.mark.parametrize("record", ['{"names": []}', '{"temporary": 7, "names": []}', "[]", "7", "{"])
def test_a_record_that_is_none_removes_nothing(places, record):
    place, folder = places
    (folder / RECORD).write_text(record)
    assert clear(folder, place) == ()


def test_a_folder_that_was_not_made_here_stays_whatever_a_record_says(places):
    place, folder = places
    remember(folder, place).rmdir()
    (folder / RECORD).write_text(json.dumps({"temporary": str(folder.parent), "names": []}))
    clear(folder, place)
    assert folder.exists()


def test_the_next_start_finds_the_launches_of_a_killed_one_below_its_folder(places):
    place, folder = places
    remember(folder, place)
    (place / "psm_left").write_bytes(b"x")
    assert clear_below(folder.parents[2], place) == ("psm_left",)
    assert clear_below(folder.parents[3] / "nowhere", place) == ()


def test_a_name_that_is_older_than_the_launch_is_somebody_else_s(places):
    place, folder = places
    remember(folder, place)
    (place / "psm_x").write_bytes(b"x")
    later_s = (place / "psm_x").stat().st_ctime + 100
    os.utime(folder / RECORD, (later_s, later_s))
    assert clear(folder, place) == ()
