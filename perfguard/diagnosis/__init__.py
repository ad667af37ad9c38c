"""Is this machine fit to measure? A state that was read -> findings. Pure; reads nothing itself."""

from perfguard.diagnosis import gpus, host, setup
from perfguard.diagnosis.gpus import Card
from perfguard.diagnosis.records import Finding, MachineState, known
from perfguard.errors import EXIT_INVALID, EXIT_OK


def diagnose(state: MachineState) -> tuple[Finding, ...]:
    """Every check once: cards in the order of their bus, then the host, then what perfguard needs."""
    found = [*_presence(state)]
    for card in cards(state):
        checks = gpus.SLICE_CHECKS if card.uuid in state.parents else gpus.CHECKS
        found += [check(card, state) for check in checks]
    found += [check(state) for check in host.CHECKS]
    return (*found, *setup.findings(state))


def exit_code(findings: tuple[Finding, ...]) -> int:
    """0 where one can measure, 4 where the environment does not allow it."""
    return EXIT_INVALID if any(finding.severity == "fail" for finding in findings) else EXIT_OK


def cards(state: MachineState) -> tuple[Card, ...]:
    """Cards and slices with a name for people: "GPU 0 NVIDIA H200", "slice MIG-377e0049 of GPU 0"."""
    numbers: dict[str, int] = {}
    for uuid in state.gpus:
        if uuid not in state.parents:
            numbers[uuid] = len(numbers)
    return tuple(Card(label=_label(uuid, state, numbers), uuid=uuid, read=read) for uuid, read in state.gpus.items())


def _label(uuid: str, state: MachineState, numbers: dict[str, int]) -> str:
    if uuid in state.parents:
        return f"slice {uuid[:12]} of GPU {numbers.get(state.parents[uuid], '?')}"
    return f"GPU {numbers[uuid]} {known(state.gpus[uuid], 'name') or uuid[:12]}"


def _presence(state: MachineState) -> list[Finding]:
    lost = [
        Finding(
            code="gpu_lost",
            about=f"GPU at {name}",
            severity="fail",
            text=f"listed, but it does not answer: {why}",
            advice="the machine wants a restart; until then name other cards by UUID in CUDA_VISIBLE_DEVICES",
        )
        for name, why in state.unreadable.items()
    ]
    if state.gpus or lost:
        bindings = f" through {state.setup.bindings}" if state.setup.bindings else ""
        count = len([uuid for uuid in state.gpus if uuid not in state.parents])
        present = Finding(code="gpu_present", about="GPUs", severity="ok", text=f"{count} readable{bindings}")
        return [present, *lost]
    text = f"no GPU can be read: {state.nvml_reason or 'NVML lists none'}"
    advice = "fine for processor workloads; else see that nvidia-smi works here, in a container with --gpus all"
    return [Finding(code="gpu_present", about="GPUs", severity="unknown", text=text, advice=advice)]
