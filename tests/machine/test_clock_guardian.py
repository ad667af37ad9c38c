"""Clocks locked by the guardian, and what is left of the lock however the block ends. Scripted GPUs, real processes."""

import os
import signal
import sys
from contextlib import suppress

import pytest
from clock_support import FREE, Card, cards, uuid, was_ever_locked
from standin import h200

from perfguard.errors import NotComparableError
from perfguard.machine.clock_state import load_states, state_folder
from perfguard.machine.hold import hold_machine
from perfguard.machine.locking import hold_clocks, lock_and_keep, restore_left, say_what_was_left
from perfguard.machine.visible import Visible

BOTH = (uuid(0), uuid(1))
LOCKED = Card(sm=(1485, 1485), memory=(3201, 3201))  # three quarters of 1980 MHz, a supported step
NOT_SUPPORTED, NO_PERMISSION, LOST = 3, 4, 15
WHAT = ("Gpu", "Memory")
PYTHON = sys.executable


@pytest.fixture
def machine(script, monkeypatch, tmp_path):
    """Two free cards, seen by every process that is started here; the lock of a machine of its own."""
    for name in ("LD_LIBRARY_PATH", "PERFGUARD_STANDIN"):
        monkeypatch.setenv(name, script.env[name])
    monkeypatch.setenv("PERFGUARD_LOCK_DIR", str(tmp_path / "lock"))
    return script.write(*h200(0), *h200(1))


@pytest.fixture
def locking(machine):
    """Opens a block with locked clocks, as a campaign does; what it says is kept."""

    class Locking:
        said: list[str] = []  # noqa: RUF012 - one object a test

        def __call__(self, wish="lock", uuids=BOTH, sm_mhz=0):
            cards, say = Visible(uuids=uuids), self.said.append
            return hold_clocks(wish, cards, sm_mhz, machine=self.descriptor, command="test", say=say)

    locking = Locking()
    locking.said = []
    with hold_machine("test") as locking.descriptor:
        yield locking


def test_all_cards_are_locked_to_the_cautious_clock_and_free_again_after_the_block(machine, locking):
    with locking() as clocks:
        assert cards(machine) == [LOCKED, LOCKED]
        assert clocks.as_json()["got"] == "locked"
        assert clocks.as_json()["gpus"][uuid(1)] == {
            "sm_mhz": 1485,
            "memory_mhz": 3201,
            "by": "lock",
            "target_mhz": 1485,
        }
    assert cards(machine) == [FREE, FREE]
    assert load_states(state_folder()) == {}
    assert locking.said == ["clocks locked: 2 GPUs at SM 1485 MHz, memory 3201 MHz"]


def test_a_given_clock_is_locked_at_the_nearest_supported_one(machine, locking):
    with locking(sm_mhz=1836):
        assert cards(machine)[0].sm == (1830, 1830)


def test_observing_changes_nothing_and_starts_no_guardian(machine, locking):
    with locking(wish="observe") as clocks:
        assert clocks.child is None
        assert clocks.as_json() == {"wish": "observe", "got": "observe", "why": "", "gpus": {}, "notes": {}}
    assert not was_ever_locked(machine)
    assert locking.said == []


@pytest.mark.parametrize("error", [RuntimeError("boom"), KeyboardInterrupt()])
def test_an_error_and_ctrl_c_restore_too(machine, locking, error):
    with suppress(type(error)), locking():
        raise error
    assert was_ever_locked(machine)
    assert cards(machine) == [FREE, FREE]


def test_the_state_found_is_on_disk_before_anything_is_changed(machine, locking):
    machine.write(*h200(0), *h200(1), *(f"fault nvmlDevice{what}GpuLockedClocks crash" for what in ("Set", "Reset")))
    with locking() as clocks:
        assert clocks.told["got"] == "died"  # with the first call
        assert set(load_states(state_folder())) == {uuid(0)}
        machine.write(*h200(0), *h200(1))
    assert [call.device for call in machine.calls("nvmlDeviceResetGpuLockedClocks")] == ["0"]
    assert load_states(state_folder()) == {}


def test_without_a_place_for_the_state_nothing_is_changed(machine, locking):
    state_folder().write_text("not a folder")
    with locking() as clocks:
        assert clocks.as_json()["got"] == "error"
        assert "no state can be written" in clocks.as_json()["why"]
    assert not was_ever_locked(machine)


def test_without_permission_it_goes_on_unlocked_and_says_so_once(machine, locking):
    machine.write(*h200(0), *h200(1), f"fault nvmlDeviceSetGpuLockedClocks {NO_PERMISSION}")
    with locking() as clocks:
        assert clocks.as_json()["got"] == "no_permission"
        assert clocks.as_json()["gpus"] == {}
    (said,) = locking.said
    assert "clocks are not locked (no_permission)" in said
    assert "measuring with clocks as they are" in said


def test_a_lock_that_is_required_and_refused_ends_as_not_comparable(machine, locking):
    machine.write(*h200(0), *h200(1), f"fault nvmlDeviceSetGpuLockedClocks {NO_PERMISSION}")
    with pytest.raises(NotComparableError, match="not locked \\(no_permission\\)"), locking(wish="require"):
        raise AssertionError("nothing is measured")
    assert cards(machine) == [FREE, FREE]


@pytest.mark.parametrize("uuids", [(), BOTH])
def test_a_lock_that_is_required_needs_a_gpu_that_nvml_knows(machine, locking, uuids):
    machine.write()
    with pytest.raises(NotComparableError), locking(wish="require", uuids=uuids):
        raise AssertionError("nothing is measured")


def test_where_one_card_refuses_none_stays_locked(machine, locking):
    machine.write(*h200(0), *h200(1), f"fault nvmlDeviceSetGpuLockedClocks {NO_PERMISSION} gpu=1")
    with locking() as clocks:
        assert was_ever_locked(machine)
        assert cards(machine) == [FREE, FREE]
        assert not clocks.are_locked
    assert load_states(state_folder()) == {}


def test_a_memory_clock_that_cannot_be_locked_leaves_the_sm_lock_and_a_note(machine, locking):
    machine.write(*h200(0), f"fault nvmlDeviceSetMemoryLockedClocks {NOT_SUPPORTED}")
    with locking(uuids=BOTH[:1]) as clocks:
        assert cards(machine)[0] == Card(sm=(1485, 1485))
        assert clocks.as_json()["gpus"][uuid(0)]["memory_mhz"] is None
        assert "the SM clock only" in clocks.as_json()["notes"][uuid(0)]
    assert cards(machine)[0] == FREE


OLD_DRIVER = tuple(
    f"fault nvmlDevice{what}LockedClocks {NOT_SUPPORTED}" for what in ("SetGpu", "SetMemory", "ResetGpu", "ResetMemory")
)


def test_a_driver_without_locks_gets_application_clocks(machine, locking):
    machine.write(*h200(0), *OLD_DRIVER)
    with locking(uuids=BOTH[:1]) as clocks:
        assert cards(machine)[0] == Card(application=(3201, 1485))
        assert clocks.as_json()["gpus"][uuid(0)]["by"] == "application"
    assert cards(machine)[0] == FREE


def test_application_clocks_that_somebody_had_set_come_back(machine, locking):
    machine.write(*h200(0, app_sm_mhz=1980), *OLD_DRIVER)
    with locking(uuids=BOTH[:1], sm_mhz=1200):
        pass
    # Somebody sets 1305 MHz, apart from the default of 1980.
    somebody = "import pynvml as n; n.nvmlInit(); n.nvmlDeviceSetApplicationsClocks(n.nvmlDeviceGetHandleByIndex(0)"
    os.spawnve(os.P_WAIT, PYTHON, [PYTHON, "-c", f"{somebody}, 3201, 1305)"], dict(os.environ))
    with locking(uuids=BOTH[:1]):
        assert cards(machine)[0].application == (3201, 1485)
    assert cards(machine)[0].application == (3201, 1305)


def test_a_search_may_lock_again_and_still_ends_free(machine, locking):
    with locking() as clocks:
        clocks.lock(1980)
        clocks.lock(1740)
        assert cards(machine)[1].sm == (1740, 1740)
    assert cards(machine) == [FREE, FREE]


def test_a_lock_that_was_kept_comes_back_after_a_campaign_with_another(machine, locking):
    lock_and_keep(BOTH, 1200, machine=locking.descriptor, command="perfguard clocks lock")
    with locking(sm_mhz=1500):
        assert cards(machine)[0].sm == (1500, 1500)
    assert [card.sm for card in cards(machine)] == [(1200, 1200)] * 2
    assert all(state.is_kept for state in load_states(state_folder()).values())
    assert restore_left(locking.descriptor, "test", kept=True)["failed"] == {}
    assert cards(machine) == [FREE, FREE]


def test_a_lock_that_was_kept_is_in_the_record_of_a_campaign_that_only_observes(machine, locking):
    lock_and_keep(BOTH[:1], 1200, machine=locking.descriptor, command="perfguard clocks lock")
    with locking(wish="observe") as clocks:
        assert clocks.as_json()["got"] == "kept"
        assert clocks.as_json()["gpus"][uuid(0)]["target_mhz"] == 1200
        assert set(clocks.as_json()["gpus"]) == {uuid(0)}
    assert cards(machine)[0].sm == (1200, 1200)


def test_a_lock_of_somebody_else_is_told_of_since_it_cannot_come_back(machine, locking):
    somebody = "import pynvml as n; n.nvmlInit(); n.nvmlDeviceSetGpuLockedClocks(n.nvmlDeviceGetHandleByIndex(0)"
    os.spawnve(os.P_WAIT, PYTHON, [PYTHON, "-c", f"{somebody}, 900, 900)"], dict(os.environ))
    with locking() as clocks:
        assert set(clocks.as_json()["notes"]) == {uuid(0)}
        assert "not perfguard's" in clocks.as_json()["notes"][uuid(0)]
        clocks.lock(1500)  # by now it is our own lock that holds the clocks
        assert clocks.as_json()["notes"] == {}
    assert cards(machine) == [FREE, FREE]


def test_a_guardian_that_is_killed_is_replaced_for_the_end(machine, locking):
    with locking() as clocks:
        clocks.child.process.kill()
        clocks.child.process.wait()
        assert cards(machine) == [LOCKED, LOCKED]
    assert cards(machine) == [FREE, FREE]
    assert any("guardian of the clocks was lost" in line for line in locking.said)


def test_a_late_answer_is_never_taken_for_the_next_and_leaves_nothing_locked(machine, locking, monkeypatch):
    with locking() as clocks:
        monkeypatch.setattr("perfguard.machine.locking.ANSWER_LIMIT_S", 1.0)
        machine.write(*h200(0), *h200(1), "fault nvmlDeviceSetGpuLockedClocks sleep=3 calls=1")
        clocks.lock(1500)
        assert clocks.as_json()["got"] == "hung"
        assert cards(machine) == [FREE, FREE]  # measured as what it is recorded as
        assert any(call.arguments == (1500, 1500) for call in machine.calls("nvmlDeviceSetGpuLockedClocks"))
        clocks.lock(1740)  # and it is not asked again
        assert cards(machine) == [FREE, FREE]
    assert load_states(state_folder()) == {}
    assert locking.said == ["clocks locked: 2 GPUs at SM 1485 MHz, memory 3201 MHz"]


def test_a_late_answer_to_the_wish_to_restore_is_not_the_last_word(machine, locking, monkeypatch):
    with locking():
        monkeypatch.setattr("perfguard.machine.locking.ANSWER_LIMIT_S", 1.0)
        machine.write(*h200(0), *h200(1), "fault nvmlDeviceResetGpuLockedClocks sleep=3 calls=1")
    assert cards(machine) == [FREE, FREE]
    assert load_states(state_folder()) == {}
    assert not any("could not be restored" in line for line in locking.said)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_signals_of_a_terminal_do_not_end_the_guardian(machine, locking, number):
    with locking(uuids=BOTH[:1]) as clocks:
        os.kill(clocks.child.process.pid, number)
        clocks.lock(1500)
        assert cards(machine)[0].sm == (1500, 1500)


def test_the_others_are_restored_where_one_card_was_lost_and_that_is_said(machine, locking):
    with locking():
        machine.write(*h200(0), *h200(1), *(f"fault nvmlDeviceReset{what}LockedClocks {LOST} gpu=0" for what in WHAT))
    assert cards(machine) == [LOCKED, FREE]
    assert any(uuid(0) in line and "could not be restored" in line for line in locking.said)
    machine.write(*h200(0), *h200(1))
    say_what_was_left(locking.descriptor, "test", locking.said.append)
    assert cards(machine) == [FREE, FREE]
    assert locking.said[-1] == f"restored the clocks that an earlier run left locked: {uuid(0)}"


def test_a_driver_that_hangs_while_restoring_is_given_up_with_the_state_on_disk(machine, locking, monkeypatch):
    monkeypatch.setattr("perfguard.machine.locking.ANSWER_LIMIT_S", 0.5)
    monkeypatch.setattr("perfguard.machine.locking.END_LIMIT_S", 0.1)
    with locking():
        machine.write(*h200(0), *h200(1), "fault nvmlDeviceResetGpuLockedClocks hang")
    assert set(load_states(state_folder())) == set(BOTH)
    assert any("did not" in line or "no answer" in line for line in locking.said)
