"""The story of `checkout`: tree and environment of a stored run in a new folder, and what cannot be brought back."""

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfguard.campaign import Wish
from perfguard.errors import NotComparableError, UsageError
from perfguard.explain import stored_facts
from perfguard.explaining import facts as f
from perfguard.explaining.facts import Facts
from perfguard.protocol import ENVIRONMENT_PREFIXES, matters
from perfguard.records import Arm, Campaign
from perfguard.store import Store
from perfguard.subject.repository import Repository
from perfguard.trial.environment import CACHES, THREADS
from perfguard.trial.secrets import REDACTED

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Where programs and packages lie is this machine's business now.
NOT_RECREATED = ("PATH", "VIRTUAL_ENV", "CONDA_PREFIX")


def recreate(store: Store, wanted: str, folder: Path, repository: Repository) -> dict[str, Any]:
    """Fill the new or empty `folder` with tree/, env.sh, requirements.txt, README.md. Raises UsageError, BuildError."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not an empty folder", f"perfguard checkout {wanted} NEW_FOLDER")
    facts = stored_facts(store, wanted, "head")
    campaign = store.campaign(facts.id)
    arm = next(arm for arm in campaign.arms if arm.side == facts.side)
    revision = repository.known(arm.revision)
    repository.checkout(revision, folder / "tree")
    packages = _packages(facts)
    (folder / "env.sh").write_text(environment_script(facts), encoding="utf-8")
    (folder / "requirements.txt").write_text("".join(f"{n}=={v}\n" for n, v in packages.items()), encoding="utf-8")
    (folder / "README.md").write_text(readme(campaign, arm, facts), encoding="utf-8")
    return {"id": facts.id, "side": facts.side, "commit": facts.commit, "folder": str(folder), "tree": revision.tree}


def environment_script(facts: Facts) -> str:
    """To be sourced by a POSIX shell: variables that matter are made what they were, those of today removed.

    Raises nothing; a value that is not stored, or that differed between ranks, is a comment.
    """
    recorded: Mapping[str, Any] = facts.fields.get(f.ENVIRONMENT, {})
    ours = {name for name, value in THREADS.items() if recorded.get(name) == value and name not in facts.asked}
    then = {name: str(value) for name, value in recorded.items() if NAME.fullmatch(name) and name not in NOT_RECREATED}
    then = {name: value for name, value in {**then, **facts.asked}.items() if name not in ours}
    by_rank = {name for name, value in then.items() if value.startswith("0: ") and ", 1: " in value}
    prefixes = "|".join(prefix for prefix in ENVIRONMENT_PREFIXES if prefix != "PYTHON")
    lines = [
        "# Source it: . ./env.sh",
        "# Variables of today that may change speed:",
        f"for name in $(env | sed -n -E 's/^(({prefixes})[A-Za-z0-9_]*)=.*/\\1/p'); do unset \"$name\"; done",
        "# As they were:",
    ]
    for name, value in sorted(then.items()):
        if value == REDACTED:
            lines.append(f"# {name} was set; its value is a secret and was not stored")
        elif name in by_rank:
            lines.append(f"# {name} differed between ranks: {value!r}")
        else:
            lines.append(f"export {name}={shlex.quote(value)}")
    return "\n".join(lines) + "\n"


def recalled(store: Store, wanted: str) -> tuple[Campaign, Wish]:
    """A stored run as the base of a comparison: its tree, its parameters, and the environment it had.

    A command inherits the environment of today, and nothing can take a variable out of it for one side only. Raises
    NotComparableError where one that may change speed is set now and was not then.
    """
    facts = stored_facts(store, wanted, "head")
    campaign = store.campaign(facts.id)
    arm = next(arm for arm in campaign.arms if arm.side == facts.side)
    if arm.mode:
        text = f"{facts.label} is one mode of a comparison of two, which is no base for another commit"
        raise UsageError(text, f"perfguard compare {arm.revision.commit[:12]} HEAD -w {campaign.workload.name}")
    env = dict(arm.env)
    if campaign.workload.command:
        then = {n: str(v) for n, v in facts.fields.get(f.ENVIRONMENT, {}).items() if matters(n)}
        # Folders of compile caches are perfguard's own in every run, whatever is set here.
        ours = {name for name in os.environ if name.startswith("PERFGUARD_") or name in CACHES}
        now = {name for name in os.environ if matters(name) and name not in ours}
        if extra := sorted(now - set(then) - set(env)):
            names = " ".join(f"-u {name}" for name in extra)
            raise NotComparableError(
                f"{extra[0]} is set now and was not when {facts.label} was measured",
                f"env {names} perfguard compare ..., with --head-env for what only head shall see",
            )
        env = then | env
    revision = replace(arm.revision, name=wanted)
    params = {**campaign.workload.params, **arm.params}
    return campaign, Wish(side="base", revision=wanted, stored=revision, env=env, params=params, python=arm.python)


def _packages(facts: Facts) -> dict[str, str]:
    fields = facts.fields.get(f.SOFTWARE, {})
    return {name.removeprefix("package "): str(v) for name, v in fields.items() if name.startswith("package ")}


def readme(campaign: Campaign, arm: Arm, facts: Facts) -> str:
    """What lies here, how to run it, and what no folder can bring back."""
    software = {n: v for n, v in facts.fields.get(f.SOFTWARE, {}).items() if not n.startswith("package ") and v}
    machine = {**facts.fields.get(f.MACHINE, {}), **facts.fields.get(f.GPU_STATE, {})}
    workload = campaign.workload
    built_in = f"perfguard run {arm.revision.commit[:12]} -w {workload.name}"
    run = f"cd tree && {shlex.join(workload.command)}" if workload.command else built_in
    setup = f"cd tree && {workload.setup}" if workload.setup else ""
    patch = f", with a patch of {len(arm.revision.patch)} bytes on top" if arm.revision.patch else ""
    return "\n".join(
        [
            f"# {facts.label}",
            "",
            f"Measured {facts.created_at}. `tree/` is {arm.revision.commit}{patch}.",
            "It borrows objects of the repository that it came from, so keep that.",
            "",
            "```sh",
            ". ./env.sh",
            *([setup] if setup else []),
            run,
            "```",
            "",
            f"To measure it against HEAD, interleaved: `perfguard compare {facts.id}:{facts.side} HEAD`.",
            "",
            "## What is not brought back",
            "",
            "- Packages: `requirements.txt` lists what was installed, if it was recorded; install it yourself.",
            *[f"- {name}: {value}" for name, value in {**software, **machine}.items()],
            "- Compile caches, the temperature of the machine, and who else used it.",
            "- Values of secrets: they are never stored.",
            "",
        ]
    )
