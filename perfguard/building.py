"""One build of an arm: checked out and set up, or from the cache of builds. Joins git, setup, environment and cache.

Only the first build of an arm may come from the cache. Those that confirm are always made afresh and never kept:
a reported change rests on builds made under the same sky. docs/decisions/0003-build-cache.md says what follows.
"""

import hashlib
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from perfguard.errors import BuildError
from perfguard.policy import stored_policy
from perfguard.records import Arm, Campaign
from perfguard.subject.build import keep_log, run_setup
from perfguard.subject.buildcache import Limits, Provided, Wanted, made, provide
from perfguard.subject.buildkey import BuildFacts, build_key
from perfguard.subject.repository import Repository
from perfguard.subject.tools import tools_state
from perfguard.subject.workspace import Build, Workspace
from perfguard.trial.environment import command_environment
from perfguard.trial.secrets import redact, taken_from


@dataclass(frozen=True, kw_only=True)
class Builder:
    """Makes the builds of one campaign."""

    campaign: Campaign
    repository: Repository
    workspace: Workspace

    def build(self, arm: Arm, number: int) -> Provided:
        """Build `number` of an arm: 1 may come from the cache, and every one of a bisect, whose numbers are commits.

        Raises BuildError, with the log of a failed setup.
        """
        is_first = number == 1 or self.campaign.kind == "bisect"
        if not is_first or not self.campaign.workload.setup or not self._is_caching():
            return made(self.workspace.new_build(), lambda build: self._fill(arm, build))
        about = {"commit": arm.revision.commit, "revision": arm.revision.name, "setup": self.campaign.workload.setup}
        wanted = Wanted(key=build_key(self.facts(arm)), limits=self._limits(), about=about)
        return provide(wanted, self.workspace, lambda build: self._fill(arm, build))

    def facts(self, arm: Arm) -> BuildFacts:
        """All that is known to decide what the setup of `arm` makes."""
        revision = arm.revision
        env = _setup_environment(arm, Path())
        return BuildFacts(
            cache=str(self.workspace.root),
            repository=str(self.repository.root),
            commit=revision.commit,
            tree=revision.tree,
            patch_sha256=hashlib.sha256(revision.patch).hexdigest(),
            tags_sha256=self.repository.tags_sha256(),
            setup=self.campaign.workload.setup,
            python=arm.python,
            # A key is stored where others may read it: no secret has a part in it.
            environment=redact(env),
            machine=self.campaign.machine,
            tools=tools_state(env.get("PATH", "")),
        )

    def _is_caching(self) -> bool:
        limits = self._limits()
        return limits.max_bytes > 0 and limits.max_age_s > 0

    def _limits(self) -> Limits:
        policy = stored_policy(self.campaign.policy)
        return Limits(max_bytes=int(policy.build_cache_gb * 1e9), max_age_s=policy.build_cache_hours * 3600)

    def _fill(self, arm: Arm, build: Build) -> None:
        self.repository.checkout(arm.revision, build.checkout)
        workload = self.campaign.workload
        if not workload.setup:
            return
        env = _setup_environment(arm, build.caches)
        env["PERFGUARD_OWNER"] = self.workspace.owner  # what a setup leaves running is found by this mark
        log = build.logs / "setup.log"
        try:
            run_setup(workload.setup, build.checkout, log=log, env=env, timeout_s=workload.ready_timeout_s)
        except BuildError as error:
            kept = keep_log(log, self.workspace.root, arm.revision.commit)
            raise _unbuildable(arm, workload.setup, self.campaign.repository, error, kept) from error


def _setup_environment(arm: Arm, caches: Path) -> dict[str, str]:
    asked = taken_from(os.environ, arm.env)
    return command_environment(os.environ, asked, caches, trial="setup", commit=arm.revision.commit)


def _unbuildable(arm: Arm, setup: str, repository: str, error: BuildError, log: Path | None) -> BuildError:
    """Names the side and the log that stays. The checkout is removed, so the next step makes a new one: a clone, which
    leaves the user's repository and shell as they are.
    """
    revision = arm.revision
    where = f"\nwhole log: {log}" if log else ""
    source, place = shlex.quote(repository), f"/tmp/perfguard-{revision.commit[:12]}"
    again = f"git clone -s -q {source} {place} && git -C {place} checkout -q {revision.commit}"
    said = f"{arm.side} {revision.name} ({revision.commit[:12]}): {error}{where}"
    by_hand = f"{again} && (cd {place} && sh -c {shlex.quote(setup)})"
    return BuildError(said, by_hand, log=str(log or ""))
