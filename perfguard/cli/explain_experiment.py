"""`perfguard explain A B --experiment`. Makes one call, prints, ends with an exit code."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from perfguard.cli import options as o
from perfguard.cli.asking import policy_of, project_config
from perfguard.cli.measure import opened
from perfguard.errors import UsageError

if TYPE_CHECKING:
    from perfguard.policy import Policy
    from perfguard.records import Campaign
    from perfguard.report.next_step import Place
    from perfguard.store import Store
    from perfguard.subject.repository import Repository

SAME_ON_RESUME = ("b", "db", "repo", "format", "json_file", "quiet", "resume")


def by_experiment(asked: dict[str, Any]) -> NoReturn:
    """A new search, or the rest of an interrupted one. Ends with its exit code."""
    from perfguard.report.units import counted
    from perfguard.searching import resume_search, search

    o.check_json(asked["json_file"])
    _refuse_unclear(asked)
    database = o.existing_database(asked["db"])
    with opened({"db": str(database), "quiet": asked["quiet"]}, Path.cwd()) as (store, observer):
        if asked["resume"]:
            repository = _repository(store, asked["resume"], asked["repo"])
            result = resume_search(asked["resume"], repository, store, observer)
        else:
            repository = _repository(store, asked["a"], asked["repo"])
            campaign = _campaign(asked, store, repository)
            num = len(campaign.method["factors"])
            observer.say(f"search {campaign.id}: {counted(num, 'factor')} {'differs' if num == 1 else 'differ'}")
            result = search(campaign, repository, store, observer)
        place = o.place_of(store.path, str(repository.root))
    _finish(result, place, asked)


def _refuse_unclear(asked: dict[str, Any]) -> None:
    if asked["format"] not in ("text", "md"):
        raise UsageError(
            f"-f {asked['format']!r} is neither text nor md",
            f"perfguard explain {asked['a'] or 'latest'} {asked['b']} --experiment -f md",
        )
    if asked["resume"]:
        changed = [name for name, value in asked.items() if value and name not in SAME_ON_RESUME]
        if changed:
            raise UsageError(
                f"--resume goes on with what was asked for then; {', '.join(changed)} cannot be given again",
                f"perfguard explain --experiment --resume {asked['resume']}",
            )
    elif asked["a"] in ("", "now"):
        raise UsageError("a stored run is needed on the left", "perfguard explain latest now --experiment")


def _campaign(asked: dict[str, Any], store: "Store", repository: "Repository") -> "Campaign":
    from perfguard.explain import NOW, explain_stored
    from perfguard.searching import plan_search, side_now, stored_side

    a = stored_side(store, asked["a"], "base")
    b = side_now(a, repository) if asked["b"] == NOW else stored_side(store, asked["b"], "head")
    explained = explain_stored(store, asked["a"], asked["b"], repository, is_timeline_wanted=False)
    return plan_search(
        a,
        b,
        repository,
        _policy(asked, repository),
        metric=asked["metric"],
        not_toggled=_not_toggled(explained),
        seed=asked["seed"],
    )


def _not_toggled(explained: dict[str, Any]) -> list[dict[str, Any]]:
    """What the records say differs beside what a comparison can set: software, machine, cards, neighbours."""
    beside = ("software", "GPU state", "machine", "neighbours")
    return [
        {"name": f"{found['hypothesis']}: {field['field']}", "a": field["a"], "b": field["b"]}
        for found in explained["hypotheses"]
        if found["hypothesis"] in beside
        for field in found["fields"]
    ]


def _policy(asked: dict[str, Any], repository: "Repository") -> "Policy":
    from perfguard.config import COMMAND_LINE, with_policy

    config = project_config(repository.root)
    policy = policy_of(config, **{name: asked[name] for name in ("margin", "max_blocks", "budget")})
    changes = {} if asked["alpha"] is None else {"search_alpha": asked["alpha"]}
    return with_policy(policy, changes, COMMAND_LINE)


def _repository(store: "Store", wanted: str, repo: str) -> "Repository":
    from perfguard.subject.repository import open_repository

    return open_repository(Path(repo or measured_in(store, wanted)))


def measured_in(store: "Store", wanted: str) -> str:
    """The repository of a stored run, ID:side or one trial."""
    from perfguard.explain import TRIAL

    name = wanted.partition(":")[0]
    one_trial = TRIAL.match(name)
    return store.campaign(one_trial["campaign"] if one_trial else name).repository


def _finish(result: dict[str, Any], place: "Place", asked: dict[str, Any]) -> NoReturn:
    from perfguard.report.next_step import placed
    from perfguard.report.search import render_search, search_markdown
    from perfguard.report.terminal import open_console

    with o.verdict_output():
        if asked["json_file"]:
            o.write_measured(result, asked["json_file"])
        if asked["json_file"] != "-":
            if asked["format"] == "md":
                typer.echo(search_markdown(placed(result, place)), nl=False)
            else:
                render_search(placed(result, place), open_console())
    raise typer.Exit(result["exit_code"])
