"""One module table for each instance in a process, so that several subjects that all call themselves `model` can live
side by side. Every instance imports its own copy, also where two come from one folder: no slot shares anything with
its twin that it does not share with the others, and the order of slots stays the only thing drawn.

Must not measure. Code that a subject runs in threads of its own while another slot is active is not covered.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

# The process has one registry of operators: a second registration replaces the first, and one side would silently
# run the other's code.
SHARED_REGISTRIES = ("torch.library", "from torch import library")


@dataclass(frozen=True, kw_only=True)
class Table:
    """The modules of one instance and the path it imports by. `root` is its subject's folder."""

    root: Path
    path: list[str]
    modules: dict[str, ModuleType] = field(default_factory=dict)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Inside, imports find this instance's modules only, also those made late inside functions."""
        others = {name: sys.modules.pop(name) for name in [*sys.modules] if is_model(name)}
        before, outer = set(sys.modules), list(sys.path)
        sys.modules.update(self.modules)
        sys.path[:] = self.path
        try:
            yield
        finally:
            self.modules.update(own_modules(before, self.root))
            for name in self.modules:
                sys.modules.pop(name, None)
            self.path[:] = sys.path  # an entry that the subject added is its own
            sys.path[:] = outer
            sys.modules.update(others)

    def shared_registry(self) -> str:
        """The first module that registers operators with the process, "" if none does."""
        for name, module in self.modules.items():
            file = getattr(module, "__file__", None) or ""
            if file.endswith(".py"):
                source = Path(file).read_text(encoding="utf-8", errors="replace")
                if any(word in source for word in SHARED_REGISTRIES):
                    return name
        return ""


def new_table(root: Path, path: list[str]) -> Table:
    """`path` holds no subject's folder; this one's goes first."""
    return Table(root=root, path=[str(root), *path])


def without_roots(roots: Sequence[str]) -> list[str]:
    """sys.path without any subject's folder: each table puts its own in front."""
    drop = {Path(root).resolve() for root in roots}
    return [entry for entry in sys.path if Path(entry).resolve() not in drop]


def is_model(name: str) -> bool:
    return name == "model" or name.startswith("model.")


def own_modules(before: set[str], root: Path) -> dict[str, ModuleType]:
    """What was imported since `before` and is the subject's: `model`, and whatever else lies in its folder."""
    new = ((name, module) for name, module in [*sys.modules.items()] if name not in before)
    return {name: module for name, module in new if is_model(name) or lies_in(module, root)}


def lies_in(module: ModuleType, root: Path) -> bool:
    """A virtual environment inside the folder is not the subject: its packages are everybody's."""
    # Its own dictionary, not its attributes: some modules of torch invent whatever is asked of them.
    facts = getattr(module, "__dict__", {})
    places = [facts.get("__file__"), *(facts.get("__path__") or ())]
    found = [Path(place).resolve() for place in places if isinstance(place, str)]
    environment = Path(sys.prefix).resolve()
    return any(f.is_relative_to(root.resolve()) and not f.is_relative_to(environment) for f in found)
