"""`perfguard demo`: a small repository with a planted slow commit, measured for real. Says what it does as it goes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfguard import experiment
from perfguard.bisection import story
from perfguard.bisection.plan import Wanted, plan_bisect
from perfguard.bundle import bundle_root
from perfguard.campaign import Request, Wish, plan_campaign
from perfguard.demo_history import STEPS, apply
from perfguard.policy import Policy
from perfguard.records import Workload
from perfguard.report.bisect import bisect_markdown
from perfguard.report.markdown import comparison_markdown
from perfguard.report.next_step import Place, placed
from perfguard.store import Store
from perfguard.subject.history import write_history
from perfguard.subject.repository import open_repository
from perfguard.workloads import BUILT_IN, with_params

# Fit for a laptop with other work on it: gloo on a busy CPU moves by several percent between launches. Confirmation
# is kept short; both are said on screen.
POLICY = Policy(
    margin=0.16,
    alpha=0.05,
    max_blocks=4,
    max_confirm_blocks=3,
    confirm_builds=2,
    pause_share=0.05,
    max_bisect_trials=32,
)
# The oldest commit of the history: GOOD of the bisect.
FIRST = "slow~5"
PARAMS = {"tp": 2, "prompts": 2, "tokens": 24}


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One comparison of the demo: the tag of the commit under question, and why it is worth a look."""

    tag: str
    about: str


SCENES = (
    Scene(
        tag="slow",
        about="a commit that checks every all-reduce with two more collectives: a real regression of decoding",
    ),
    Scene(
        tag="docs-only", about="a commit that changes a text file: whatever its number does, the code did not change"
    ),
)


def demo_workload() -> Workload:
    return with_params(next(w for w in BUILT_IN if w.name == "moe-eagle3"), PARAMS)


def write_repository(folder: Path) -> None:
    """The demo's history in `folder`, with a tag on each commit that matters."""
    model = bundle_root() / "model"
    tree = model_tree(model)
    trees = []
    for step in STEPS:
        tree = apply(step, tree)
        trees.append((step.message, step.tag, tree))
    write_history(folder, trees)


def model_tree(model: Path) -> dict[str, str]:
    """Path in the repository -> text, of every Python file of the folder and of those in it."""
    found = sorted(model.rglob("*.py"))
    return {f"model/{path.relative_to(model)}": path.read_text(encoding="utf-8") for path in found}


def play(folder: Path, store: Store, observer: experiment.Observer, seed: int | None) -> Iterator[dict[str, Any]]:
    """Measure each scene in a repository below `folder`; yields its comparison as soon as it stands."""
    repository_folder = folder / "repository"
    write_repository(repository_folder)
    repository = open_repository(repository_folder)
    for scene in SCENES:
        observer.say("")
        observer.say(f"{scene.tag}: {scene.about}")
        observer.say(f"  perfguard compare {scene.tag}~1 {scene.tag} -w moe-eagle3 --set tp=2 --margin 16%")
        wishes = (Wish(side="base", revision=f"{scene.tag}~1"), Wish(side="head", revision=scene.tag))
        request = Request(wishes=wishes, workload=demo_workload(), policy=POLICY, seed=seed)
        yield experiment.compare(plan_campaign(request, repository), repository, store, observer)


def search(folder: Path, store: Store, watcher: story.Watcher, seed: int | None) -> dict[str, Any]:
    """Which of all its commits was it? The bisect of the whole history, which `play` has written."""
    repository = open_repository(folder / "repository")
    watcher.say("")
    watcher.say("bisect: which of the nine commits after the first one is slow? Three of them change the model at all.")
    watcher.say(f"  perfguard bisect {FIRST} HEAD -w moe-eagle3 --set tp=2 --margin 16%")
    wishes = (Wish(side="base", revision=FIRST), Wish(side="head", revision="HEAD"))
    request = Request(wishes=wishes, workload=demo_workload(), policy=POLICY, kind="bisect", seed=seed)
    planned = plan_bisect(request, Wanted(), repository, store)
    return story.bisect(planned, repository, store, watcher)


def slow_commit(folder: Path) -> str:
    """The sha that `search` should come to."""
    return open_repository(folder / "repository").resolve("slow").commit


def write_report(folder: Path, store: Store, comparisons: list[dict[str, Any]], found: dict[str, Any]) -> Path:
    """The Markdown report of all scenes and of the bisect; returns its path."""
    at = Place(db=str(store.path), repo=str(folder / "repository"))
    parts = [comparison_markdown(placed(c, at), store.trials(c["id"], with_record=False)) for c in comparisons]
    parts.append(bisect_markdown(placed(found, at)))
    path = folder / "report.md"
    path.write_text("\n\n".join(parts), encoding="utf-8")
    return path
