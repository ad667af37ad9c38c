"""Known ways to be slow, or to speculate badly, as switches: controls that a measurement has to find.

None is on unless it is asked for by name. They cost nothing while off. Environment variables are the other
kind of control and need no switch: NCCL_PROTO=Simple, NCCL_P2P_DISABLE=1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, kw_only=True)
class Pathologies:
    """
    verify_outside_graph: the verify pass is launched kernel by kernel although the other steps are graphs.
    no_draft_extension: accepted rows but the last are not given to the draft again with target features.
    wrong_tap_layers: the draft reads one layer early, as if published ids, which count outputs, counted inputs.
    sync_every_step: the host waits for the device after every step and phase.
    redundant_expert_copy: the weights of the first row's experts are copied before they are used, in every layer.
    """

    verify_outside_graph: bool = False
    no_draft_extension: bool = False
    wrong_tap_layers: bool = False
    sync_every_step: bool = False
    redundant_expert_copy: bool = False


def parse_pathologies(names: Sequence[str]) -> Pathologies:
    """Raises ValueError that names an unknown one and lists those there are."""
    known = [item.name for item in fields(Pathologies)]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"unknown pathology {unknown[0]!r}: use some of {', '.join(known)}")
    return replace(Pathologies(), **dict.fromkeys(names, True))
