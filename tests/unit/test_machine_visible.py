"""Which card is which: never guessed from an index alone."""

import pytest

from perfguard.machine.event_reasons import event_names
from perfguard.machine.neighbours import Neighbours, neighbours
from perfguard.machine.visible import visible_gpus

A, B, C = "GPU-aaaa1111", "GPU-aabb2222", "GPU-cccc3333"
CARDS = (A, B, C)


@pytest.mark.parametrize(
    ("setting", "seen"),
    [
        (None, CARDS),
        ("", ()),
        ("-1", ()),
        ("1", (B,)),
        ("2,0", (C, A)),
        (" 2 , 0", (C, A)),
        ("0,0", ()),
        ("0,7,1", (A,)),
        ("1,-1,0", (B,)),
        ("0,x,1", (A,)),
        ("1st,2", (B, C)),
        ("NoDevFiles", ()),
        (C, (C,)),
        ("GPU-cc,GPU-aaa", (C, A)),
        ("GPU-aa", ()),  # two cards begin so
        ("GPU-cc,1,GPU-aaa", (C,)),
        ("GPU-cc,GPU-cccc", ()),
        ("GPU-dddd", ()),
    ],
)
def test_cuda_visible_devices_in_all_its_forms(setting, seen):
    assert visible_gpus(setting, CARDS, device_order="PCI_BUS_ID").uuids == seen


def test_an_index_names_no_card_while_cuda_s_order_is_unknown():
    told = visible_gpus("1", CARDS)
    assert told.uuids is None
    assert "UUID" in told.why
    assert visible_gpus("", CARDS).uuids == ()
    assert visible_gpus("0", [A]).uuids == (A,)


def test_cuda_s_own_order_decides_and_not_nvml_s():
    """CUDA lists B first since it is faster: telemetry of "GPU 1" must follow A."""
    assert visible_gpus("1", [A, B], cuda_order=[B, A]).uuids == (A,)


def test_a_slice_is_a_name_and_no_number():
    slices = {"MIG-377e0049-aa": A, "MIG-5120aaaa-bb": A}
    assert visible_gpus("MIG-377e0049-aa", [A], slices=slices).uuids == ("MIG-377e0049-aa",)
    assert visible_gpus("MIG-377,MIG-512", [A], slices=slices).uuids == ("MIG-377e0049-aa",)
    assert visible_gpus("MIG-GPU-aaaa1111/1/0", [A], slices=slices).uuids == ()
    assert visible_gpus(None, [A], slices=slices).uuids is None


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        (0x0, []),
        (0x1, ["idle"]),
        (0x4, ["sw_power_cap"]),
        (0x5, ["idle", "sw_power_cap"]),
        (0x88, ["hw_slowdown", "hw_power_brake"]),
        (0x200, ["board_limit"]),
        (0x800, ["0x800"]),
        (0x84, ["sw_power_cap", "hw_power_brake"]),
        (0x1FF, [*map(str, event_names(0xFF)), "display_clock"]),
    ],
)
def test_event_bits_are_named_and_unknown_ones_shown_in_hex(mask, names):
    assert event_names(mask) == names


def test_processes_that_are_not_ours_are_foreign():
    found = neighbours([[17, 100], [4242, None]], {17}, pids_are_global=True)
    assert found == Neighbours(foreign=((4242, None),))


def test_in_a_container_no_pid_is_anybody():
    """The driver's 17 is a process of the host; our own 17 is innocent, and an empty list proves nothing."""
    found = neighbours([[17, 100]], {17}, pids_are_global=False)
    assert found == Neighbours(num_unnamed=1, is_complete=False)
    assert not neighbours([], (), pids_are_global=False).is_complete
