"""Where a process may run and how it gets its memory: settings that move numbers and leave no other trace. Reads only.

Inherited from whoever starts perfguard (taskset, numactl, a container), so that they can differ between two days on
one machine. A field that cannot be read is None and has its reason in `unknown`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

PROC, SYS = Path("/proc"), Path("/sys")


@dataclass(frozen=True, kw_only=True)
class Placement:
    """`processors`, `memory_nodes`: lists as the kernel writes them ("0-15,32"). `memory_policy`: of new memory, as in
    numactl ("default", "interleave:0-1"). `huge_pages`: always, madvise or never; `num_huge_pages`: set aside.
    """

    processors: str | None
    memory_nodes: str | None
    memory_policy: str | None
    huge_pages: str | None
    num_huge_pages: int | None
    numa_balancing: int | None
    unknown: dict[str, str] = field(default_factory=dict)


def placement(proc: Path = PROC, sys: Path = SYS) -> Placement:
    unknown: dict[str, str] = {}

    def known(name: str, read: Callable[[], str]) -> str | None:
        try:
            return read()
        except (OSError, LookupError, ValueError) as error:
            unknown[name] = str(error) or type(error).__name__
            return None

    def count(name: str, path: Path) -> int | None:
        text = known(name, lambda: str(int(path.read_text())))
        return None if text is None else int(text)

    return Placement(
        processors=known("processors", lambda: _of_status(proc, "Cpus_allowed_list")),
        memory_nodes=known("memory_nodes", lambda: _of_status(proc, "Mems_allowed_list")),
        memory_policy=known("memory_policy", lambda: _memory_policy(proc)),
        huge_pages=known("huge_pages", lambda: _chosen((sys / "kernel/mm/transparent_hugepage/enabled").read_text())),
        num_huge_pages=count("num_huge_pages", proc / "sys/vm/nr_hugepages"),
        numa_balancing=count("numa_balancing", proc / "sys/kernel/numa_balancing"),
        unknown=unknown,
    )


def _of_status(proc: Path, name: str) -> str:
    fields = dict(line.partition(":")[::2] for line in (proc / "self/status").read_text().splitlines())
    return fields[name].strip()


def _memory_policy(proc: Path) -> str:
    """The second word of every line is the policy of that mapping; one without its own has that of the process."""
    with open(proc / "self/numa_maps", encoding="utf-8") as maps:
        return maps.readline().split()[1]


def _chosen(text: str) -> str:
    """ "madvise" of "always [madvise] never"."""
    return text[text.index("[") + 1 : text.index("]")]
