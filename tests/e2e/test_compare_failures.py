"""Commands and repositories that do not work: the reason names what was seen, and nothing is left behind."""

import json
import subprocess
from pathlib import Path

import pytest
from cli_support import codes, is_alive, texts

GOOD = "echo '{\"seconds\": 1}'\n"
SECONDS = ("--metric", "seconds", "--", "sh", "bench.sh")


def assert_nothing_is_left(project):
    assert list((project.cache / "work").iterdir()) == []


@pytest.mark.parametrize(
    ("base", "head", "expected"),
    [
        pytest.param(
            GOOD,
            "echo no weights >&2; exit 7\n",
            {"command_failed": "first run of head: 'sh bench.sh' ended with exit code 7\nno weights"},
            id="only head fails",
        ),
        pytest.param(
            "echo '{\"seconds\": NaN}'\n",
            "echo '{\"seconds\": 0}'\n",
            {
                "not_a_number": "first run of base: metric seconds is nan, not a finite number",
                "not_positive": "first run of head: metric seconds is 0, not above 0",
            },
            id="not a number and zero",
        ),
        pytest.param(
            "echo '{\"seconds\": -1}'\n",
            "true\n",
            {
                "not_positive": "first run of base: metric seconds is -1, not above 0",
                "metric_missing": "first run of head: metric seconds is missing: stdout is empty",
            },
            id="negative and nothing",
        ),
        pytest.param(
            'echo \'{"seconds": "quick"}\'\n',
            "echo took 3 s\n",
            {
                "not_a_number": "first run of base: metric seconds is 'quick', not a finite number",
                "metric_missing": "the last line of stdout is no JSON object but 'took 3 s'",
            },
            id="text",
        ),
        pytest.param(
            "kill -SEGV $$\n",
            "echo '{\"time\": 1}'\n",
            {
                "command_failed": "first run of base: 'sh bench.sh' was ended by SIGSEGV",
                "metric_missing": "first run of head: metric seconds is missing: it holds time",
            },
            id="killed and another key",
        ),
    ],
)
def test_a_command_that_gives_no_number_is_invalid_and_says_what_was_seen(project, base, head, expected):
    project.commit({"bench.sh": base})
    project.commit({"bench.sh": head})
    comparison = project.compare(*SECONDS, code=4)
    assert comparison["outcome"] == "INVALID"
    assert set(codes(comparison)) == set(expected)
    for text in expected.values():
        assert text in texts(comparison)
    assert comparison["blocks"]["used"] == 0
    assert f"perfguard show {comparison['id']}" in comparison["next"]
    assert_nothing_is_left(project)


def test_a_command_that_hangs_is_ended_with_all_its_processes(project):
    pids = project.folder / "pids"
    project.commit({"bench.sh": GOOD})
    project.commit({"bench.sh": f"setsid sleep 600 & echo $$ $! > {pids}; sleep 600\n"})
    comparison = project.compare("--timeout", "2s", *SECONDS, code=4)
    assert codes(comparison) == ["timed_out"]
    assert "first run of head: 'sh bench.sh' did not end within 2 s" in texts(comparison)
    assert [is_alive(int(pid)) for pid in pids.read_text().split()] == [False, False]
    assert_nothing_is_left(project)


def test_failures_of_measured_runs_are_counted_by_side_and_named(project):
    """Head's first run in a checkout works, all later ones do not."""
    project.commit({"bench.sh": GOOD})
    project.commit({"bench.sh": f"test -e ran && exit 9; touch ran; {GOOD}"})
    comparison = project.compare("--max-blocks", "4", *SECONDS, code=4)
    assert comparison["outcome"] == "INVALID"
    num_void = comparison["blocks"]["void"]
    assert (comparison["blocks"]["used"], comparison["trials"]["crashed"]) == (0, num_void)
    assert codes(comparison) in (["TOO_MANY_VOID", "command_failed"], ["ARM_FAILS", "command_failed"])
    assert f"{num_void} launches of head: 'sh bench.sh' ended with exit code 9" in texts(comparison)
    assert "agrees" in project.run("replay", "latest").stdout


def test_a_launch_that_dies_before_it_measures_is_tried_three_times(project):
    project.commit({"fake.json": {}})
    project.commit({"fake.json": {"crash": "before"}})
    comparison = project.compare("-w", "fake", code=4)
    assert codes(comparison) == ["runner_failed"]
    assert "planned crash (before)" in texts(comparison)
    stored = json.loads(project.run("show", "latest", "--json", "-").stdout)
    tried = [(t["side"], t["attempt"], t["status"]) for t in stored["trials"]]
    assert sorted(tried) == [
        ("base", 0, "ok"),
        ("head", 0, "crashed"),
        ("head", 1, "crashed"),
        ("head", 2, "crashed"),
    ]


def test_a_broken_value_of_a_runner_is_named(project):
    project.commit({"fake.json": {}})
    project.commit({"fake.json": {"broken_metric": "eagle3_throughput", "broken_as": "infinite"}})
    comparison = project.compare("-w", "fake", code=4)
    assert "first run of head: metric eagle3_throughput is inf, not a finite number" in texts(comparison)


def test_a_setup_that_fails_ends_with_the_end_of_its_log(project):
    project.commit({"bench.sh": GOOD})
    project.commit({"README": "two\n"})
    setup = "echo compiling; test ! -e README || { echo 'error: no compiler' >&2; exit 3; }"
    done = project.run("compare", "HEAD~1", "HEAD", "--quiet", "--setup", setup, *SECONDS, code=5)
    head = project.git("rev-parse", "HEAD")[:12]
    assert done.stderr.startswith(f"error: head HEAD ({head}): --setup ")
    assert "exit code 3\ncompiling\nerror: no compiler\nwhole log: " in done.stderr
    assert f"\n next: git clone -s -q {project.repo} /tmp/perfguard-" in done.stderr
    assert " && (cd /tmp/perfguard-" in done.stderr
    log = done.stderr.partition("whole log: ")[2].partition("\n")[0]
    assert Path(log).read_text() == "compiling\nerror: no compiler\n"
    assert "interrupted" in project.run("runs").stdout
    assert_nothing_is_left(project)


def test_a_repository_that_cannot_be_used_is_a_usage_error(project, tmp_path):
    project.commit({"README": "one\n"})
    project.commit({"README": "two\n"})
    (tmp_path / "plain").mkdir()
    (tmp_path / "empty").mkdir()
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "--quiet", "empty"], env=project.env(), check=True)
    clone = ["clone", "--quiet", "--depth", "1", f"file://{project.repo}", "shallow"]
    subprocess.run([*git, *clone], env=project.env(), check=True)
    for folder, message, next_step in (
        ("plain", "error: no git repository at", "next: perfguard … --repo DIR"),
        ("empty", "has no commits yet", f"next: git -C {tmp_path / 'empty'} commit"),
        ("shallow", "cannot resolve 'HEAD~1'", f"next: git -C {tmp_path / 'shallow'} fetch --unshallow --tags"),
    ):
        done = project.run("compare", "HEAD~1", "HEAD", "--", "true", cwd=tmp_path / folder, code=2)
        assert message in done.stderr
        assert next_step in done.stderr
        assert not (tmp_path / folder / ".perfguard").exists()
