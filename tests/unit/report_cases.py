"""A comparison as perfguard.comparison makes it, and the trials it rests on, for the tests of the reports."""

from typing import Any

from perfguard.records import Reason, Trial

THROUGHPUT = {
    "name": "decode_throughput",
    "unit": "token/s",
    "better": "higher",
    "primary": True,
    "exact": False,
    "outcome": "REGRESSION",
    "slowdown": 1.031,
    "ci_low": 1.027,
    "ci_high": 1.035,
    "base_median": 82.1,
    "head_median": 79.63,
    "p_order": 0.00077,
    "mde": 1.012,
    "decided_at": 4,
    "reasons": [],
}
TPOT = {
    **THROUGHPUT,
    "name": "tpot",
    "unit": "s",
    "better": "lower",
    "base_median": 0.01218,
    "head_median": 0.012558,
    "reasons": [{"code": "lottery", "text": "fast and slow launches: 1 of 4 in head"}],
}
TOKENS = {
    **THROUGHPUT,
    "name": "tokens",
    "unit": "1",
    "primary": False,
    "exact": True,
    "outcome": "EQUIVALENT",
    "slowdown": None,
    "ci_low": None,
    "ci_high": None,
    "base_median": 4096,
    "head_median": 4096,
    "p_order": None,
    "mde": None,
}


def comparison(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "schema": "perfguard/comparison@1",
        "id": "20260102-030405-ab12",
        "kind": "compare",
        "created_at": "2026-01-02T03:04:05+00:00",
        "outcome": "REGRESSION",
        "exit_code": 1,
        "scope": "full",
        "sentence": "head is 3.1 % slower than base in decode_throughput.",
        "base": arm("HEAD~1", "a" * 40, "Route tokens [tp=8]"),
        "head": arm("HEAD", "c" * 40, "Faster [bold]router[/bold]", env={"NCCL_PROTO": "LL"}, patch="d" * 64),
        "workload": {"name": "moe", "runner": "fake", "modes": ["plain"], "params": {}, "command": []},
        "seed": 7,
        "margin": 0.02,
        "alpha": 0.001,
        "policy": {"margin": 0.02, "alpha": 0.001},
        "metrics": [THROUGHPUT, TPOT, TOKENS],
        "blocks": {"used": 2, "void": 1, "needed": None},
        "trials": {"ok": 11, "invalid": 0, "crashed": 0, "timed_out": 1},
        "reasons": [{"code": "uncalibrated", "text": "this machine was never calibrated"}],
        "conclusions": {"can": "The commit slowed decoding on this machine.", "cannot": "Other batch sizes."},
        "next": "perfguard bisect HEAD~8 HEAD -w moe",
        "machine": {"gpu": "H200"},
        "method": {},
    }
    return {**whole, **changes}


def arm(
    revision: str, commit: str, subject: str, *, env: dict[str, str] | None = None, patch: str | None = None
) -> dict[str, Any]:
    return {
        "revision": revision,
        "commit": commit,
        "subject": subject,
        "committed_at": "2026-01-01T00:00:00+00:00",
        "patch_sha256": patch,
        "env": env or {},
        "params": {},
    }


def trial(stage: int, block: int, slot: int, side: str, tpot: float, **changes: Any) -> Trial:
    fields: dict[str, Any] = {
        "id": f"t{stage}{block}{slot}",
        "stage": stage,
        "block": block,
        "slot": slot,
        "side": side,
        "build": 1,
        "attempt": 1,
        "status": "ok",
        "started_at": "2026-01-02T03:04:06+00:00",
        "wall_s": 5.5,
        "measured_s": 1.5,
        "values": {"tpot": tpot, "decode_throughput": 1 / tpot, "tokens": 4096},
    }
    return Trial(**{**fields, **changes})


def trials() -> list[Trial]:
    """A first run, two whole blocks ABBA and BABA, and one of stage two that a time-out made void."""
    timed_out: dict[str, Any] = {"status": "timed_out", "values": {}, "reasons": (Reason(code="slow", text="[x]"),)}
    return [
        trial(0, 0, 0, "base", 0.5),
        trial(1, 0, 0, "base", 0.010),
        trial(1, 0, 1, "head", 0.020),
        trial(1, 0, 2, "head", 0.0151),
        trial(1, 0, 3, "base", 0.010),
        trial(1, 1, 0, "head", 0.018),
        trial(1, 1, 1, "base", 0.011),
        trial(1, 1, 2, "head", 0.011),
        trial(1, 1, 3, "base", 0.012),
        trial(2, 0, 0, "base", 0.013),
        trial(2, 0, 1, "head", 0.9, **timed_out),
    ]
