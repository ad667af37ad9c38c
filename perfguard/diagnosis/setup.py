"""Findings about what perfguard itself needs, about settings left behind, and about cards as a group. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence

from perfguard.conditions.leftovers import leftover_settings
from perfguard.diagnosis.records import Finding, MachineState, Severity, known, why_unknown
from perfguard.machine.reading import Reading
from perfguard.machine.visible import visible_gpus
from perfguard.policy import Fitness

LIMITS = Fitness()


def findings(state: MachineState) -> Iterator[Finding]:
    """All of this file's checks."""
    yield _git(state.setup.git)
    yield _disk(state.setup.cache_free_bytes)
    yield _database(state.setup.database)
    yield leftovers(state.setup.environment, state.setup.nccl_files)
    if state.gpus or state.unreadable:
        yield lock_permission(state)
        yield seen_by_cuda(state)
        yield from _pairs(state)


def leftovers(environment: Mapping[str, str], nccl_files: Mapping[str, Sequence[str]]) -> Finding:
    """A forgotten NCCL_P2P_DISABLE costs more than most commits; so does a line in /etc/nccl.conf."""
    found = leftover_settings(environment, with_choices=True)
    found += [f"{path}: {', '.join(lines)}" for path, lines in sorted(nccl_files.items()) if lines]
    if not found:
        return _say("settings", "settings", "ok", "no setting left behind that is known to change speed")
    advice = "unset what you did not mean; built-in workloads do not inherit variables, your own command does"
    return _say("settings", "settings", "warn", "; ".join(found), advice)


def nccl_settings(text: str) -> list[str]:
    """The settings of an nccl.conf, without comments and blank lines."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


def lock_permission(state: MachineState) -> Finding:
    """Nothing tells beforehand whether a lock is allowed; only root ever is."""
    if state.setup.is_root:
        text = "root: clocks may be locked unless a container or the driver forbids it"
        return _say("clock_permission", "GPUs", "ok", text)
    text = "not root: clocks cannot be locked, only watched"
    return _say("clock_permission", "GPUs", "warn", text, "run as root to lock them; verdicts hold without it")


def seen_by_cuda(state: MachineState) -> Finding:
    """What a process of ours would compute on, as far as the variables tell."""
    setting = state.setup.environment.get("CUDA_VISIBLE_DEVICES")
    whole = [uuid for uuid in state.gpus if uuid not in state.parents]
    order = state.setup.environment.get("CUDA_DEVICE_ORDER", "")
    seen = visible_gpus(setting, whole, slices=state.parents, device_order=order)
    shown = "CUDA_VISIBLE_DEVICES is not set" if setting is None else f"CUDA_VISIBLE_DEVICES={setting}"
    if seen.uuids is None:
        return _say("cuda_visible", "GPUs", "unknown", f"{shown}: {seen.why}", "CUDA_VISIBLE_DEVICES=GPU-…")
    if not seen.uuids:
        return _say("cuda_visible", "GPUs", "warn", f"{shown}: CUDA sees no card", "unset it, or name cards by UUID")
    named = ", ".join(str(whole.index(uuid)) if uuid in whole else uuid[:12] for uuid in seen.uuids)
    return _say("cuda_visible", "GPUs", "ok", f"{shown}: CUDA sees GPU {named}")


def git_version(text: str) -> tuple[int, int] | None:
    """(2, 39) of "git version 2.39.5 (Apple Git-154)"."""
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found.group(1)), int(found.group(2))) if found else None


def _git(git: Reading) -> Finding:
    if not git.is_known:
        return _say("git", "git", "fail", git.why, "install git")
    version = git_version(str(git.value))
    if version is None or version < LIMITS.oldest_git:
        oldest = ".".join(map(str, LIMITS.oldest_git))
        return _say("git", "git", "fail", f"{git.value}: older than {oldest}", "install a newer git")
    return _say("git", "git", "ok", str(git.value))


def _disk(free: Reading) -> Finding:
    if not free.is_known:
        return _say("disk", "cache folder", "fail", free.why, "PERFGUARD_CACHE=DIR with a folder that can be written")
    amount = float(free.value) if isinstance(free.value, int | float) else 0.0
    severity: Severity = (
        "fail" if amount < LIMITS.too_low_disk_bytes else "warn" if amount < LIMITS.low_disk_bytes else "ok"
    )
    advice = "" if severity == "ok" else "PERFGUARD_CACHE=DIR on a larger disk"
    return _say("disk", "cache folder", severity, f"{amount / 2**30:.1f} GiB free for checkouts and builds", advice)


def _database(database: Reading) -> Finding:
    if database.value is True:
        return _say("database", "results", "ok", "results can be stored")
    return _say("database", "results", "fail", database.why, "--db FILE in a folder that can be written")


def _pairs(state: MachineState) -> Iterator[Finding]:
    models = sorted({str(known(read, "name")) for uuid, read in state.gpus.items() if uuid not in state.parents})
    if len(models) > 1:
        text = f"different cards: {', '.join(models)}"
        yield _say("gpu_models", "GPUs", "warn", text, "name the cards of a workload by UUID in CUDA_VISIBLE_DEVICES")
    numbers = {uuid: str(number) for number, uuid in enumerate(u for u in state.gpus if u not in state.parents)}
    joins: dict[str, list[str]] = {}
    for (a, b), reading in state.topology.items():
        how = str(reading.value) if reading.is_known else f"unknown ({why_unknown({'join': reading}, 'join')})"
        joins.setdefault(how, []).append(f"{numbers[a]}-{numbers[b]}")
    if joins:
        text = "; ".join(f"{how}: {' '.join(pairs)}" for how, pairs in sorted(joins.items()))
        yield _say("gpu_topology", "GPUs", "ok", text)
    detoured = [numbers[uuid] for uuid, read in state.gpus.items() if known(read, "pcie_traffic_is_detoured")]
    if detoured and set(joins) != {"NVLink"}:
        text = f"PCIe traffic between cards takes the way through the root (ACS): GPU {', '.join(detoured)}"
        yield _say("gpu_acs", "GPUs", "warn", text, "switch ACS off in the BIOS, or keep it for all that you compare")


def _say(code: str, about: str, severity: Severity, text: str, advice: str = "") -> Finding:
    return Finding(code=code, about=about, severity=severity, text=text, advice=advice)
