"""What `perfguard clocks lock` advises when it cannot: to be root only where that would help."""

import os

import pytest
from standin import h200

from perfguard import clocks
from perfguard.errors import NotComparableError

AS_ROOT, LOOK = "the same as root (sudo perfguard clocks lock)", "perfguard doctor"
REFUSED, LACKING = "fault nvmlDeviceSetGpuLockedClocks 4", "fault nvmlDevice{}Clocks 3"


@pytest.fixture
def machine(played, monkeypatch, tmp_path):
    monkeypatch.setenv("PERFGUARD_LOCK_DIR", str(tmp_path / "lock"))
    return played


def advice(monkeypatch, user):
    """Of a failed lock by this user; files are still written by the real one."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with pytest.raises(NotComparableError) as error:
        clocks.lock((), 0)
    return error.value.next_step


@pytest.mark.parametrize(("user", "said"), [(0, LOOK), (os.getuid() or 1000, AS_ROOT)])
def test_root_is_advised_to_those_who_are_not(machine, monkeypatch, user, said):
    machine.write(*h200(0), REFUSED)
    assert advice(monkeypatch, user) == said


@pytest.mark.parametrize("lines", [
    (),
    (*h200(0), *(LACKING.format(what) for what in ("SetGpuLocked", "SetApplications"))),
])  # fmt: skip
def test_root_is_not_advised_where_there_is_nothing_to_lock(machine, monkeypatch, lines):
    machine.write(*lines)
    assert advice(monkeypatch, 1000) == LOOK


def test_root_is_not_advised_for_a_simulated_gpu(machine, monkeypatch):
    monkeypatch.setenv("PERFGUARD_SIMULATED_GPU", "1")
    assert advice(monkeypatch, 1000) == LOOK


def test_root_is_not_advised_where_nvml_does_not_start(machine, monkeypatch):
    machine.write("fault nvmlInitWithFlags 9")
    assert advice(monkeypatch, 1000) == LOOK
