"""Of /dev/shm only what came since, is ours and is used by nobody goes; temporary files go with their folder."""

import json
import mmap
import multiprocessing
import os
import socket
from pathlib import Path

import pytest

from perfguard import strays
from perfguard.strays import PLACE, clear, clear_all, remember


@pytest.fixture
def places(tmp_path):
    place = tmp_path / "shm"
    place.mkdir()
    return place, tmp_path / "strays" / "trial.json"


def test_what_a_launch_left_is_removed_and_what_was_there_before_or_is_nobody_s_whom_we_know_stays(places):
    place, record = places
    (place / "psm_before").write_bytes(b"x")
    remember(record, place)
    for name in ("psm_new", "sem.mp-new", "vllm_dist_1-tp:0-[0-1]-cpushm_0", "nccl-other"):
        (place / name).write_bytes(b"x")
    assert clear(record, place) == ("psm_new", "sem.mp-new", "vllm_dist_1-tp:0-[0-1]-cpushm_0")
    assert sorted(path.name for path in place.iterdir()) == ["nccl-other", "psm_before"]


def test_what_any_process_has_mapped_or_open_stays(places):
    place, record = places
    remember(record, place)
    for name in ("psm_mapped", "psm_open", "psm_free"):
        (place / name).write_bytes(b"x" * mmap.PAGESIZE)
    with open(place / "psm_open", "rb"), open(place / "psm_mapped", "r+b") as stream:
        mapped = mmap.mmap(stream.fileno(), 0)
        stream.close()
        assert clear(record, place) == ("psm_free",)
        mapped.close()
    assert clear(record, place) == ("psm_mapped", "psm_open")
    assert not record.exists()


@pytest.mark.skipif(not PLACE.is_dir(), reason="this system has no /dev/shm")
def test_a_semaphore_in_use_stays_though_its_maker_has_it_mapped_under_another_name(tmp_path):
    """As sem.XXXXXX (deleted): by its name it looks unused, and a program that starts its workers would lose it."""
    remember(tmp_path / "record.json")
    lock = multiprocessing.get_context("spawn").Lock()
    file = PLACE / f"sem.{lock._semlock.name.removeprefix('/')}"
    mine = [line for line in Path("/proc/self/maps").read_text().splitlines() if file.name in line]
    assert (file.exists(), mine) == (True, [])
    assert file.name not in clear(tmp_path / "record.json")
    assert file.exists()


def test_nothing_is_removed_twice_or_where_nothing_was_remembered(places):
    place, record = places
    assert clear(record, place) == ()
    remember(record, place)
    assert json.loads(record.read_text())["names"] == []
    assert clear(record, place) == ()
    (place / "psm_later").write_bytes(b"x")
    assert clear(record, place) == ()


def made(folder):
    folder.mkdir()
    return folder


def test_temporary_files_go_with_their_folder_whatever_they_are(places):
    place, record = places
    temporary = made(remember(record, place))
    (temporary / "kept" / "below").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(temporary / "4f0c2a36-6dc5-4f43-a9f5-0d3a5ea2b6b1"))
    assert clear(record, place) == ()
    assert not temporary.exists()
    again = made(remember(record, place))
    assert again != temporary
    clear_all(record.parent, place)
    assert not again.exists()


@pytest.mark.parametrize("text", ['{"names": []}', '{"temporary": 7, "names": []}', "[]", "7", "{"])
def test_a_record_that_is_none_removes_nothing(places, text):
    place, record = places
    record.parent.mkdir()
    record.write_text(text)
    assert clear(record, place) == ()


def test_a_folder_that_was_not_made_here_stays_whatever_a_record_says(places):
    place, record = places
    remember(record, place)
    record.write_text(json.dumps({"temporary": str(place), "names": []}))
    clear(record, place)
    assert place.exists()


def test_a_folder_of_which_something_stays_is_tried_again(places, monkeypatch):
    place, record = places
    temporary = made(remember(record, place))
    with monkeypatch.context() as patch:
        patch.setattr(strays.shutil, "rmtree", lambda *_, **__: None)
        clear(record, place)
    assert temporary.exists()
    clear(record, place)
    assert not temporary.exists()


def test_the_next_start_finds_the_launches_of_a_killed_one_below_its_folder(places):
    place, record = places
    remember(record, place)
    (place / "psm_left").write_bytes(b"x")
    assert clear_all(record.parent, place) == ("psm_left",)
    assert clear_all(record.parent / "nowhere", place) == ()


def test_a_name_that_is_older_than_the_launch_is_somebody_else_s(places):
    place, record = places
    remember(record, place)
    (place / "psm_x").write_bytes(b"x")
    later_s = (place / "psm_x").stat().st_ctime + 100
    os.utime(record, (later_s, later_s))
    assert clear(record, place) == ()
