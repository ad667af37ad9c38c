"""Where processes may run and how they get memory: read from files like the kernel's."""

import pytest

from perfguard.machine.host import machine_fingerprint
from perfguard.machine.placement import placement

FILES = {
    "proc/self/status": "Name:\tx\nCpus_allowed_list:\t0-3,8\nMems_allowed_list:\t0\n",
    "proc/self/numa_maps": "55d0 interleave:0-1 file=/bin/x mapped=1\n7f00 default anon=1\n",
    "proc/sys/vm/nr_hugepages": "128\n",
    "proc/sys/kernel/numa_balancing": "1\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
}


def read(folder, **changed):
    for name, text in (FILES | changed).items():
        if text is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    return placement(folder / "proc", folder / "sys")


def test_everything_that_the_kernel_tells_is_read(tmp_path):
    found = read(tmp_path)
    assert (found.processors, found.memory_nodes, found.memory_policy) == ("0-3,8", "0", "interleave:0-1")
    assert (found.huge_pages, found.num_huge_pages, found.numa_balancing) == ("madvise", 128, 1)
    assert found.unknown == {}


@pytest.mark.parametrize(("file", "text", "field"), [
    ("proc/self/status", "Name:\tx\n", "processors"),
    ("proc/self/numa_maps", None, "memory_policy"),
    ("proc/self/numa_maps", "", "memory_policy"),
    ("proc/sys/vm/nr_hugepages", "many\n", "num_huge_pages"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always\n", "huge_pages"),
])  # fmt: skip
def test_what_cannot_be_read_is_none_with_its_reason(file, text, field, tmp_path):
    found = read(tmp_path, **{file: text})
    assert getattr(found, field) is None
    assert found.unknown[field]


def test_it_is_part_of_the_machine_s_fingerprint():
    assert machine_fingerprint()["placement"]["processors"]
