"""A request of a person -> a Campaign: revisions resolved, arms built, fingerprints taken, nothing measured yet."""

import json
import os
import posixpath
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from perfguard import __version__
from perfguard.bundle import runner_fingerprint
from perfguard.errors import UsageError
from perfguard.machine.host import machine_fingerprint
from perfguard.modes import of_mode
from perfguard.policy import Policy
from perfguard.records import Arm, Campaign, Revision, Scope, Side, Workload
from perfguard.scopes import ATTACHED, RESIDENT, check_scope, effective_scope, refuse_of_a_start, scoped_policy
from perfguard.subject.repository import Repository
from perfguard.trial.readings import check_read
from perfguard.trial.secrets import refuse_secret_settings, refuse_secrets, scrub, secret_values
from perfguard.workloads import with_params


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a person asked for one side. `stored`: the revision of a stored run, in place of one that git resolves."""

    side: Side
    revision: str
    stored: Revision | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    python: str = ""
    mode: str = ""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a person asked for. `claimed` is the number that was believed (--was); `bench_from` is REV:PATH.

    `pin_args`: the side whose resolved engine arguments the other one runs with, "" for none.
    """

    wishes: tuple[Wish, ...]
    workload: Workload
    policy: Policy
    kind: Literal["compare", "run", "recheck", "calibrate", "bisect", "sweep", "search"] = "compare"
    seed: int | None = None
    carry: Path | None = None
    bench_from: str = ""
    claimed: float | None = None
    scope: Scope = "full"
    pin_args: str = ""


def plan_campaign(request: Request, repository: Repository) -> Campaign:
    """Everything that is known before the first launch. Raises RevisionError and UsageError."""
    return campaign_of(request, tuple(_arm(wish, request, repository) for wish in request.wishes), repository)


def campaign_of(request: Request, arms: tuple[Arm, ...], repository: Repository) -> Campaign:
    """The same for sides that are known already. Raises UsageError."""
    if request.workload.runner == "command":
        check_read(request.workload.read, request.workload.metrics)
    words = [*request.workload.command, request.workload.setup]
    for arm in arms:
        refuse_secrets(arm.env, words, os.environ)
        refuse_secret_settings({**request.workload.params, **arm.params}, os.environ)
    scope = effective_scope(request.scope, request.workload, arms)
    if scope == RESIDENT and (request.kind != "compare" or request.pin_args):
        what = "--pin-args starts head again" if request.pin_args else f"a {request.kind} has no two servers to keep"
        raise UsageError(f"--scope resident: {what}", "--scope full")
    if scope == ATTACHED and request.kind == "bisect":
        raise UsageError("a bisect starts servers of many commits, and a url is one that runs", "leave the url out")
    if scope == ATTACHED:
        refuse_of_a_start(request.workload, arms, request.pin_args)
    check_scope(scope, request.workload, arms, request.policy)
    seed = secrets.randbits(31) if request.seed is None else request.seed
    return Campaign(
        id=new_id(),
        kind=request.kind,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        workload=request.workload,
        arms=arms,
        policy=asdict(scoped_policy(request.policy, scope)),
        seed=seed,
        repository=str(repository.root),
        scope=scope,
        machine=machine_now(),
        method=method_of(arms, repository, claimed=request.claimed)
        | ({"pinned_args": request.pin_args} if request.pin_args else {}),
        provenance={"repository": scrub(repository.state(), secret_values(os.environ))},
    )


def machine_now() -> dict[str, Any]:
    """The machine's fingerprint as it reads after storing: plain JSON data."""
    plain: dict[str, Any] = json.loads(json.dumps(machine_fingerprint()))
    return plain


def new_id() -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def _arm(wish: Wish, request: Request, repository: Repository) -> Arm:
    revision = repository.known(wish.stored) if wish.stored else repository.resolve(wish.revision)
    if request.carry is not None:
        revision = repository.with_patch(revision, request.carry)
    if request.bench_from:
        source, path = bench_source(request.bench_from, repository)
        revision = repository.with_files(revision, source, path)
    with_params(request.workload, wish.params)  # an unknown parameter is an error now, not at the first launch
    return Arm(side=wish.side, revision=revision, env=wish.env, params=wish.params, python=wish.python, mode=wish.mode)


def bench_source(text: str, repository: Repository) -> tuple[Revision, str]:
    """REV:PATH -> the revision and the path in it. Raises UsageError and RevisionError."""
    name, sign, path = text.rpartition(":")
    if not sign or not name or not path.strip("/"):
        raise UsageError(f"--bench-from {text!r} is not REV:PATH", "--bench-from HEAD:bench.py")
    place = posixpath.normpath(path.strip("/"))
    if place == "." or place.split("/")[0] == "..":
        text = f"--bench-from {text!r}: {path} is no file or folder inside of the repository; PATH begins at its top"
        raise UsageError(text, "--bench-from HEAD:bench.py")
    return repository.resolve(name), place


def method_of(arms: tuple[Arm, ...], repository: Repository, *, claimed: float | None = None) -> dict[str, Any]:
    """What was measured and how. Differences between two campaigns here make their numbers incomparable."""
    method: dict[str, Any] = {"perfguard": __version__, "runner_sha256": runner_fingerprint()}
    if claimed is not None:
        method["claimed"] = claimed
    if len(arms) == 2:
        base, head = (arm.revision for arm in arms)
        method["changed_files"] = sorted(repository.changed_files(base, head))
        # Both sides': a module that head deleted may still be loaded from elsewhere.
        method["repo_modules"] = repository.python_modules(base) | repository.python_modules(head)
    return method


def arm_workload(campaign: Campaign, arm: Arm) -> Workload:
    """The workload as this arm runs it: its own parameters on top of the common ones, and its mode if it has one."""
    workload = with_params(campaign.workload, arm.params)
    return of_mode(workload, arm.mode) if arm.mode else workload
