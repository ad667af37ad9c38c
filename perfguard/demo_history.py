"""The small repository that `perfguard demo` measures: today's `model/` with ten commits on top of each other.

Pure: commit messages and texts in, texts out. Each edit names the exact text it replaces, so that a change of
`model/` that makes an edit meaningless is an error (and a failing test), never a demo without a regression.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from perfguard.errors import HarnessError


@dataclass(frozen=True, kw_only=True)
class Step:
    """One commit: files written whole, and texts replaced in files (`edits[path]` = old, new)."""

    message: str
    tag: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    edits: Mapping[str, tuple[str, str]] = field(default_factory=dict)


README = """# tiny-engine

A tensor-parallel mixture-of-experts decoder with an EAGLE-3 draft.
"""
TAPS_NOTE = """# Where the draft taps the target

The draft reads the residual stream where it enters three layers: near the bottom, in the middle, near the top.
"""
COLLECTIVE_OLD = "            dist.all_reduce(x)\n"
COLLECTIVE_NEW = """\
            dist.all_reduce(x)
            copies = [torch.empty_like(x) for _ in range(self.world_size)]
            dist.all_gather(copies, x)
            if not all(torch.equal(copy, x) for copy in copies):
                raise RuntimeError("the ranks disagree on a sum")
            dist.barrier()
"""
ROUTING_OLD = "best_BTK.softmax(-1)"
ROUTING_NEW = "torch.ones_like(best_BTK) / top_k"

STEPS = (
    Step(message="Start the engine", files={"README.md": README}),
    Step(
        message="Say what the ranks share", files={"README.md": README + "\nEach rank holds a share of every head.\n"}
    ),
    Step(
        message="Name the collective's purpose",
        edits={"model/parallel.py": ("Sum over ranks, in place", "Sum of the ranks' shares, in place")},
    ),
    Step(message="Ignore caches", files={".gitignore": "__pycache__/\n"}),
    Step(message="Note how to run", files={"RUNNING.md": "Start one process a rank.\n"}),
    Step(
        message="Check that the ranks agree after every sum",
        tag="slow",
        edits={"model/parallel.py": (COLLECTIVE_OLD, COLLECTIVE_NEW)},
    ),
    Step(message="Explain the taps", tag="docs-only", files={"TAPS.md": TAPS_NOTE}),
    Step(message="List the sizes", files={"SIZES.md": "hidden 128, 8 layers, 8 experts, top 2\n"}),
    Step(
        message="Weigh the chosen experts alike",
        tag="other-output",
        edits={"model/moe.py": (ROUTING_OLD, ROUTING_NEW)},
    ),
    Step(message="Correct a spelling", files={"RUNNING.md": "Start one process per rank.\n"}),
)


def apply(step: Step, tree: Mapping[str, str]) -> dict[str, str]:
    """The tree after one step. Raises HarnessError where an edit's old text is not there exactly once."""
    after = {**tree, **step.files}
    for path, (old, new) in step.edits.items():
        if after.get(path, "").count(old) != 1:
            raise HarnessError(f"demo step {step.message!r}: {old!r} is not once in {path}", "report this as a bug")
        after[path] = after[path].replace(old, new)
    return after
