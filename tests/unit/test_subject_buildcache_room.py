"""The cache of builds on a disk that ends: what goes first, and what a campaign loses when nothing can be kept."""

import json
import os
import shutil

import pytest
from build_cases import Setup, build_once, hours_ago, keys, place, said, wanted

from perfguard.subject import buildcache
from perfguard.subject.buildcache import provide
from perfguard.subject.kept import ENTRY_NAME, clear_places, entries, places
from perfguard.subject.workspace import open_workspace


@pytest.fixture
def workspace(tmp_path):
    with open_workspace(tmp_path / "cache") as opened:
        yield opened


def test_the_one_used_longest_ago_goes_first_and_never_one_in_use(workspace):
    setup = Setup("head -c 100000 /dev/zero > data")
    one, two, three, four = keys(4)
    sizes = []
    for hours, key in ((3, one), (2, two), (1, three)):
        build_once(workspace, setup, key=key)
        hours_ago(place(workspace, key) / ENTRY_NAME, hours)
        sizes = [entry.size_bytes for _, entry in entries(workspace.root)]
    assert min(sizes) >= 100_000
    provide(wanted(one), workspace, setup)  # in use, and so young again
    hours_ago(place(workspace, one) / ENTRY_NAME, 4)
    build_once(workspace, setup, key=four, max_bytes=sum(sizes))
    assert {entry.key for _, entry in entries(workspace.root)} == {one, three, four}


def test_a_build_larger_than_the_limit_is_used_but_not_kept_and_displaces_none_for_nothing(workspace):
    build_once(workspace, Setup("head -c 100000 /dev/zero > data"), key=keys(2)[0])
    provided = build_once(workspace, Setup("head -c 300000 /dev/zero > data"), key=keys(2)[1], max_bytes=200_000)
    assert "too much for the limit of 0.0002 GB" in said(provided)
    assert [entry.key for _, entry in entries(workspace.root)] == keys(1)


def test_too_old_ones_go_when_room_is_made(workspace):
    build_once(workspace, Setup(), key=keys(2)[0])
    entry = place(workspace, keys(1)[0]) / ENTRY_NAME
    entry.write_text(json.dumps(json.loads(entry.read_text()) | {"built_at": "2020-01-02T03:04:05+00:00"}))
    build_once(workspace, Setup(), key=keys(2)[1])
    assert [entry.key for _, entry in entries(workspace.root)] == [keys(2)[1]]


def test_a_disk_that_fills_up_while_a_build_is_kept_costs_the_copy_only(workspace, monkeypatch):
    """`cp` gets a limit on file size, and fails as it does on a full disk."""
    limited = f"ulimit -f 100; trap '' XFSZ; exec {shutil.which('cp')} \"$@\""
    folder = workspace.root / "bin"
    folder.mkdir()
    (folder / "cp").write_text(f"#!/bin/sh\n{limited}\n")
    (folder / "cp").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    provided = provide(wanted(), workspace, Setup("head -c 1000000 /dev/zero > data"))
    assert "this build is not kept for later: " in said(provided)
    assert "File too large" in said(provided)
    assert (provided.build.checkout / "data").stat().st_size == 1_000_000
    assert entries(workspace.root) == []
    workspace.release(provided.build)
    assert list(places(workspace.root).iterdir()) == []


def test_without_free_disk_nothing_is_copied(workspace, monkeypatch):
    monkeypatch.setattr(buildcache.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1})())
    assert "the disk has 1e-09 GB free" in said(provide(wanted(), workspace, Setup()))
    assert entries(workspace.root) == []


def test_a_cache_that_cannot_be_written_costs_no_campaign(workspace):
    places(workspace.root).write_text("a file where a folder should be")
    setup = Setup()
    provided = provide(wanted(), workspace, setup)
    assert "the build cache cannot be used: " in said(provided)
    assert (provided.is_cached, setup.num_runs) == (False, 1)
    assert provided.build.checkout.is_relative_to(workspace.folder)


def test_clearing_removes_all_but_what_is_in_use(workspace):
    one, two = keys(2)
    build_once(workspace, Setup(), key=one)
    provide(wanted(two), workspace, Setup())
    size_bytes = entries(workspace.root)[0][1].size_bytes
    assert clear_places(workspace.root) == size_bytes
    assert [entry.key for _, entry in entries(workspace.root)] == [two]
