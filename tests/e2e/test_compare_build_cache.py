"""`perfguard compare --setup` twice: what the second one builds, says and stores."""

import json

import pytest
from cli_support import SHORT, rows

# Takes as long as the commit says; what it runs was made by the setup.
BENCH = "./bench\n"
SETUP = 'echo x >> "$COUNTER" && cp source bench && chmod +x bench && pwd > where'
SECONDS = ("--metric", "seconds", "--unit", "s")


@pytest.fixture
def built(project):
    """Two commits as fast as each other, one twice as slow; the number is printed, so that nothing is left to luck."""
    source = '#!/bin/sh\ntest "$(cat where)" = "$PWD" && echo \'{{"seconds": {}}}\'\n'
    project.commit({"source": source.format(1), "README": "one\n"})
    project.commit({"README": "two\n"})
    project.commit({"source": source.format(2)})
    return project


def setups_run(project, *words):
    """One command line, and how often its setup ran."""
    counter = project.folder / "counter"
    counter.write_text("")
    # A search path that nobody installs anything on meanwhile.
    env = {"COUNTER": str(counter), "PATH": "/usr/bin:/bin"}
    command = (*words, "--setup", SETUP, *SECONDS, "--json", "-", "--", "sh", "-c", BENCH)
    done = project.run(*command, code=(0, 1), **env)
    return json.loads(done.stdout), done.stderr, len(counter.read_text().splitlines())


def compare(project, *words):
    return setups_run(project, "compare", *words, *SHORT)


def test_a_later_comparison_builds_only_what_is_new_and_says_so(built):
    first, _, num_setups = compare(built, "HEAD~2", "HEAD~1")
    assert (first["outcome"], num_setups, first["cached_builds"]) == ("EQUIVALENT", 2, [])
    # HEAD~1 was head and is base now; head is new. Confirmation makes one fresh pair a side.
    slower, said, num_setups = compare(built, "HEAD~1", "HEAD")
    assert (slower["outcome"], num_setups) == ("REGRESSION", 1 + 4)
    (cached,) = slower["cached_builds"]
    assert (cached["side"], len(cached["key"])) == ("base", 64)
    assert f"base: build of {cached['built_at'][:10]} " in said
    line = f"From the cache of builds: base built {cached['built_at'][:10]} "
    assert line in built.run("show", slower["id"]).stdout
    assert list((built.cache / "work").iterdir()) == []
    origins = {
        (campaign, side, build): json.loads(record)["built"]
        for campaign, side, build, record in rows(
            built.db, "SELECT campaign, side, build, record FROM trials WHERE stage = 0"
        )
    }
    assert [key for key, origin in origins.items() if origin["from_cache"]] == [(slower["id"], "base", 1)]
    again, made = origins[slower["id"], "base", 1], origins[first["id"], "head", 1]
    assert (again["at"], again["key"], len(origins)) == (made["at"], made["key"], 8)


def test_the_cache_can_be_looked_at_left_alone_and_emptied(built):
    first, _, num_setups = setups_run(built, "run", "HEAD", "--trials", "1", "--quiet")
    assert (num_setups, first["cached_builds"]) == (1, [])
    assert built.git("rev-parse", "HEAD")[:12] in built.run("builds").stdout
    assert compare(built, "HEAD", "HEAD", "--no-build-cache", "--no-confirm", "--quiet")[2] == 2
    (kept,) = (built.cache / "builds").iterdir()
    assert (kept / "entry.json").is_file()
    emptied = json.loads(built.run("builds", "--clear", "--json", "-").stdout)
    assert (emptied["schema"], emptied["builds"]) == ("perfguard/builds@1", [])
    assert list((built.cache / "builds").iterdir()) == []
