"""What NCCL says of itself in a log (NCCL_DEBUG=VERSION or INFO), and what an engine says of its MoE kernels. Pure.

Only provenance is read here: no value that is measured ever comes out of a log.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from perfguard.records import Reason

# No line of theirs is longer.
MAX_LINE = 500
# "NCCL INFO" lines of NCCL 2.18 to 2.28; the names of algorithms and protocols are given in capitals by the tuner.
VERSION = re.compile(r"NCCL version (\d[\w.]*(?:\+cuda[\d.]+)?)")
VARIABLE = re.compile(r"NCCL INFO (NCCL_\w+) set by environment to (.*?)\.?\s*$", re.MULTILINE)
CHANNELS = re.compile(r"NCCL INFO (\d+) coll channels,.*?(\d+) p2p channels,")
VIA = re.compile(r"NCCL INFO Channel \d+(?:/\d+)? : \d+\[\w+\] -> \d+\[\w+\](?: \[\w+\])? via ([\w/]+)")
CHOICE = re.compile(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+)")
NETWORK = re.compile(r"NCCL INFO Using network (.+?)\s*$", re.MULTILINE)
# Older NCCL gives numbers (NCCL_ALGO_*, NCCL_PROTO_* in nccl's device.h).
ALGORITHMS = {"0": "TREE", "1": "RING", "2": "COLLNET_DIRECT", "3": "COLLNET_CHAIN", "4": "NVLS", "5": "NVLS_TREE"}
PROTOCOLS = {"0": "LL", "1": "LL128", "2": "SIMPLE"}
MOE = re.compile(r"Using (?:MoE kernel config|configuration) (?:with .*?)?from (\S+?)(?: for MoE layer)?\.?\s*$", re.M)
MOE_DEFAULT = re.compile(r"Using default MoE (?:kernel )?config")
# Chosen by NCCL within what the variable allows; "^Tree" and "allreduce:tree" are not taken apart.
PLAIN_LIST = re.compile(r"[A-Za-z0-9_]+(?:,[A-Za-z0-9_]+)*")


def nccl_words(text: str) -> dict[str, Any]:
    """What a log says: {"version", "variables", "num_channels", "num_p2p_channels", "transports", "network",
    "choices"}, each only if it was said. `choices`: ["AllReduce 8192 B: RING LL", ...] in the order of first use.
    """
    text = _lines_with("NCCL", text)
    channels = CHANNELS.search(text)
    versions, networks = VERSION.findall(text), NETWORK.findall(text)
    said: dict[str, Any] = {
        "version": versions[0] if versions else None,
        "variables": dict(VARIABLE.findall(text)),
        "num_channels": int(channels.group(1)) if channels else None,
        "num_p2p_channels": int(channels.group(2)) if channels else None,
        "transports": sorted(set(VIA.findall(text))),
        "network": networks[0] if networks else None,
        "choices": list(dict.fromkeys(_choice(*found) for found in CHOICE.findall(text))),
    }
    return {name: value for name, value in said.items() if value}


def _lines_with(word: str, text: str) -> str:
    """Lines that may matter: whatever else a program prints, megabytes without an end of line too, costs one pass."""
    if word not in text:
        return ""
    return "\n".join(line for line in text.splitlines() if len(line) <= MAX_LINE and word in line)


def _choice(operation: str, num_bytes: str, algorithm: str, protocol: str) -> str:
    return f"{operation} {num_bytes} B: {ALGORITHMS.get(algorithm, algorithm)} {PROTOCOLS.get(protocol, protocol)}"


def moe_words(text: str) -> str:
    """The file of MoE kernel settings that vLLM or SGLang says it uses, "default" for none; "" if nothing is said."""
    text = _lines_with("MoE", text)
    files = MOE.findall(text)
    if files:
        return str(files[0])
    return "default" if MOE_DEFAULT.search(text) else ""


def contradictions(asked: Mapping[str, str], said_by_rank: Sequence[Mapping[str, Any]]) -> tuple[Reason, ...]:
    """NCCL on some rank read another value than was asked for, chose what was not allowed, or is another version."""
    texts = []
    for rank, said in enumerate(said_by_rank):
        for name, value in said.get("variables", {}).items():
            if name in asked and value.lower() != asked[name].strip().lower():
                texts.append(f"NCCL on rank {rank} read {name}={value!r}, asked for {asked[name]!r}")
        texts += [f"NCCL on rank {rank} {wrong}" for wrong in _not_allowed(asked, said)]
        first = said_by_rank[0].get("version")
        if first and said.get("version", first) != first:
            texts.append(f"NCCL is {first} on rank 0 and {said['version']} on rank {rank}")
    return tuple(Reason(code="environment", text=text) for text in texts)


def _not_allowed(asked: Mapping[str, str], said: Mapping[str, Any]) -> list[str]:
    found = []
    for name, place in (("NCCL_ALGO", 0), ("NCCL_PROTO", 1)):
        value = asked.get(name, "")
        if not PLAIN_LIST.fullmatch(value):
            continue
        allowed = value.upper().split(",")
        wrong = [choice for choice in said.get("choices", ()) if choice.split(": ")[1].split()[place] not in allowed]
        if wrong:
            found.append(f"chose {wrong[0]} although {name}={value} was asked for")
    return found
