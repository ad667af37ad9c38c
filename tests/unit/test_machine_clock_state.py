"""The file that says what was changed of a GPU's clocks: whole, durable, and believed only of those who may be."""

import json
import os
import stat

import pytest

from perfguard.machine.clock_state import ClockState, Setting, forget, load_states, save, states_of_others

STATE = ClockState(
    uuid="GPU-1",
    asked=Setting(sm_mhz=1500, memory_mhz=3201),
    changes=("sm_lock", "memory_lock"),
    application=Setting(sm_mhz=1305, memory_mhz=2619, by="application"),
    earlier=ClockState(uuid="GPU-1", asked=Setting(sm_mhz=1200), is_kept=True, command="perfguard clocks lock"),
    command="perfguard compare 1",
    pid=42,
)


def test_what_was_saved_is_read_again_with_what_lay_below(tmp_path):
    save(STATE, tmp_path / "clocks")
    assert load_states(tmp_path / "clocks") == {"GPU-1": STATE}
    forget("GPU-1", tmp_path / "clocks")
    assert load_states(tmp_path / "clocks") == {}


def test_no_folder_is_no_state(tmp_path):
    assert load_states(tmp_path / "none") == {}
    assert states_of_others(tmp_path / "none") == ()


def test_saving_reaches_the_disk_before_the_name_does(tmp_path, monkeypatch):
    happened = []
    really = {name: getattr(os, name) for name in ("fsync", "replace")}

    def noted(name):
        def call(*arguments):
            happened.append(name)
            return really[name](*arguments)

        return call

    for name in really:
        monkeypatch.setattr(os, name, noted(name))
    save(STATE, tmp_path)
    assert happened == ["fsync", "replace", "fsync"]  # content, name, folder


@pytest.mark.parametrize("plant", ["file", "symlink", "hard link"])
def test_what_somebody_put_in_the_way_is_not_written_into(tmp_path, plant):
    target, planted = tmp_path / "target", tmp_path / f".GPU-1.json.{os.getpid()}"
    target.write_text("theirs")
    if plant == "file":
        planted.write_text("theirs")
        theirs = planted.open()  # who holds it open reads what is written into it, and could write
    else:
        planted.symlink_to(target) if plant == "symlink" else planted.hardlink_to(target)
        theirs = target.open()
    save(STATE, tmp_path)
    with theirs:
        assert theirs.read() == "theirs"
    assert not (tmp_path / "GPU-1.json").is_symlink()
    assert load_states(tmp_path) == {"GPU-1": STATE}


@pytest.mark.parametrize("cut", range(0, 400, 20))
def test_half_a_file_is_no_state_and_stops_nothing(tmp_path, cut):
    save(STATE, tmp_path)
    path = tmp_path / "GPU-1.json"
    path.write_bytes(path.read_bytes()[:cut])
    assert load_states(tmp_path) == {}


def test_a_file_of_another_user_is_not_believed_but_told_of(tmp_path, monkeypatch):
    save(STATE, tmp_path)
    if os.getuid() == 0:
        os.chown(tmp_path / "GPU-1.json", 12345, -1)
        owner = 12345
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        owner = os.getuid()
    assert load_states(tmp_path) == {}
    assert states_of_others(tmp_path) == (owner,)


def test_a_link_and_a_file_under_another_name_are_not_believed(tmp_path):
    save(STATE, tmp_path / "elsewhere")
    folder = tmp_path / "clocks"
    folder.mkdir()
    (folder / "GPU-1.json").symlink_to(tmp_path / "elsewhere" / "GPU-1.json")
    (folder / "GPU-2.json").write_bytes((tmp_path / "elsewhere" / "GPU-1.json").read_bytes())
    assert load_states(folder) == {}


def test_a_name_that_is_no_uuid_never_becomes_a_path(tmp_path):
    with pytest.raises(ValueError, match="is no UUID"):
        save(ClockState(uuid="../../etc/passwd", asked=Setting()), tmp_path)


def test_every_user_can_leave_a_state_and_nobody_can_take_anothers_away(tmp_path):
    save(STATE, tmp_path / "clocks")
    mode = (tmp_path / "clocks").stat().st_mode
    assert mode & 0o777 == 0o777
    assert mode & stat.S_ISVTX
    assert json.loads((tmp_path / "clocks" / "GPU-1.json").read_text())["pid"] == 42
