"""Sixty nights through the real code: every alarm has a cause, and the slow commit is found and bisected in time."""

import time

import pytest

from perfguard.site import write_site
from perfguard.store import open_store

BOX_B = {"host": {"hostname_sha256": "b"}, "gpu": {"driver": "570.1"}}
SWAPPED, DRIVER, SPIKE, MISSING, LEVEL, SLOW = 15, 25, 33, 36, 40, 52
NUM_NIGHTS = 60


@pytest.mark.soak
def test_sixty_nights_with_a_new_machine_a_driver_a_spike_a_gap_and_a_slow_commit(nights):
    nights.start()
    found, moved, waits = {}, {}, []
    slow = ""
    for number in range(1, NUM_NIGHTS + 1):
        if number == SWAPPED:
            nights.machine = BOX_B
        if number == DRIVER:
            nights.machine = {**BOX_B, "gpu": {"driver": "580.2"}}
        nights.level = 1080 if number >= LEVEL else 1000  # a fan: the box is 8 % slower, and no fingerprint says so
        nights.is_spike = number == SPIKE
        if number == SLOW:
            slow = nights.commit("Route tokens twice", 1_030_000)
        elif number % 2:
            nights.commit(f"docs {number}")
        began = time.monotonic()
        night = nights.night(days=8 if number == MISSING else 1)
        print(f"night {number}: {night['sentence']} {time.monotonic() - began:.1f} s", flush=True)
        if night["exit_code"] or night["searches"]:
            found[number] = night
        if night["notices"]:
            moved[number] = [notice["text"] for notice in night["notices"]]
        waits += night["waiting"]
    alarms = [number for number in found if found[number]["exit_code"] != 0]
    assert [number for number in alarms if number != SPIKE] == list(range(SLOW, NUM_NIGHTS + 1))
    assert SPIKE not in alarms or found[SPIKE]["exit_code"] == 3
    searched = {number: night["searches"] for number, night in found.items() if night["searches"]}
    (first,) = searched
    assert SLOW <= first <= SLOW + 2
    assert searched[first][0]["culprit"] == slow
    assert waits == []
    # The new machine and the driver on their night; the level on the third of its nights.
    assert list(moved) == [SWAPPED, DRIVER, LEVEL + 2]
    assert "moved from 1.00" in moved[LEVEL + 2][0]
    assert nights.told("suspect") == ""
    with open_store(nights.project.db, read_only=True) as store:
        folder = nights.project.folder / "site"
        began = time.monotonic()
        written = write_site(store, folder)
        print(f"site: {written.num_pages} pages in {time.monotonic() - began:.1f} s: {folder}")
    index = (folder / "index.html").read_text()
    assert f"CULPRIT {slow[:12]}" in index
    series = (folder / "series" / "decode.html").read_text()
    assert series.count("MACHINE MOVED") >= 3
