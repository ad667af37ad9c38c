"""What reports say of builds that come from the cache."""

import io

import report_cases as cases
from rich.console import Console

from perfguard.report import terminal
from perfguard.report.html import comparison_html
from perfguard.report.markdown import comparison_markdown

CACHED = [
    {"side": "base", "built_at": "2026-11-20T09:12:44+00:00", "key": "a" * 64},
    {"side": "head", "built_at": "2026-11-21T10:00:00+00:00", "key": "b" * 64},
]
LINE = "From the cache of builds: base built 2026-11-20 09:12 UTC, head built 2026-11-21 10:00 UTC."


def shown(render, *arguments) -> str:
    console = Console(file=io.StringIO(), width=100, highlight=False, markup=False)
    render(*arguments, console)
    return console.file.getvalue()


def test_builds_from_the_cache_are_named_with_their_time() -> None:
    comparison = cases.comparison(cached_builds=CACHED)
    assert LINE in shown(terminal.render_comparison, comparison, []).replace("\n", " ")
    assert LINE in comparison_markdown(comparison, []).replace("\n", " ")
    assert LINE in comparison_html(comparison, [])


def test_where_none_comes_from_the_cache_nothing_is_said() -> None:
    for comparison in (cases.comparison(), cases.comparison(cached_builds=[])):
        assert "cache" not in shown(terminal.render_comparison, comparison, [])
        assert "cache" not in comparison_markdown(comparison, [])


def test_the_list_of_builds_fits_a_hundred_columns_and_ends_with_the_sum() -> None:
    about = {"commit": "c" * 40, "setup": "pip install --no-deps --target build . && make -j8 kernels"}
    entry = {"built_at": CACHED[0]["built_at"], "used_at": CACHED[1]["built_at"], "setup_s": 1265.0, "about": about}
    rows = [{**entry, "size_bytes": 3 * 2**30}, {**entry, "size_bytes": 2**30}]
    text = shown(terminal.render_builds, rows, "/cache")
    assert max(map(len, text.splitlines())) <= 100
    shortened = " ".join(text.split())
    assert "cccccccccccc 2026-11-20 09:12 2026-11-21 10:00 21 min 5 s 3.000 GiB pip install" in shortened
    assert text.endswith("2 builds, 4.000 GiB, in /cache\n")
    assert shown(terminal.render_builds, [], "/cache") == "The cache of builds in /cache is empty.\n"
