"""The story on one machine: a number fast with a variable set and slow without it, while two commits are innocent."""

import json
import os
import re
import sqlite3
import subprocess
import sys
import zlib

import pytest
from cli_support import codes, rows, texts
from launcher_support import STAND_IN

from perfguard.cli import run as perfguard

# 140 token/s with the variable, 98 without: more than the widest margin of these short comparisons.
SPEED = {"speed": 98.0, "noise": 0.005, "env_slowdown": {"NCCL_PROTO=LL": 0.7}}
FAKE = ("-w", "fake", "--modes", "plain")
LL = ("--env", "NCCL_PROTO=LL")


def measured(project, revision, *arguments, code=0, **env):
    """`perfguard run`: its JSON."""
    done = project.run("run", revision, "--quiet", "--json", "-", *arguments, code=code, **env)
    return json.loads(done.stdout)


@pytest.fixture
def read(project, monkeypatch, capsys):
    """Standard output of a command that only reads, without a process of its own."""
    for name in [name for name in os.environ if name.startswith(("PERFGUARD", "GIT_"))]:
        monkeypatch.delenv(name)
    for name, value in project.env().items():
        monkeypatch.setenv(name, value)

    def said(*arguments, code=0):
        monkeypatch.chdir(project.repo)
        assert perfguard([str(argument) for argument in arguments]) == code
        return capsys.readouterr().out

    return said


@pytest.fixture
def explained(read):
    return lambda *arguments: json.loads(read("explain", *arguments, "--json", "-"))


def states(explanation):
    return {h["hypothesis"]: h["state"] for h in explanation["hypotheses"]}


@pytest.fixture
def innocent(project):
    """The second commit changes words only."""
    project.commit({"fake.json": SPEED})
    project.commit({"README": "other words\n"})
    return project


def test_the_pull_was_innocent_and_the_lost_variable_is_named_first(innocent, read, explained):
    then = measured(innocent, "HEAD~1", *FAKE, *LL, "--trials", "2")
    now = measured(innocent, "HEAD", *FAKE, "--trials", "2")
    assert then["metrics"][0]["median"] > 1.3 * now["metrics"][0]["median"]

    records = [record for (record,) in rows(innocent.db, "SELECT record FROM trials")]
    assert len(records) == 6
    assert len({digest for record in records for digest in re.findall(r'"software":{"\$json":"(\w+)"', record)}) == 1

    assert innocent.compare(*FAKE, code=0)["outcome"] == "EQUIVALENT"

    why = explained(then["id"], now["id"])
    first = why["hypotheses"][0]
    assert (first["hypothesis"], first["state"]) == ("environment", "differs")
    (field,) = first["fields"]
    assert (field["field"], field["a"], field["b"], field["kind"]) == ("NCCL_PROTO", "LL", "not set", "env")
    assert {name: states(why)[name] for name in ("code", "method", "software", "machine", "noise")} == dict.fromkeys(
        ("code", "method", "software", "machine", "noise"), "ruled out"
    )
    assert why["metrics"][0]["is_larger_than_noise"] is True

    # The next step that is named is an experiment, and it shows the difference (here without fresh builds).
    words = why["next"].split()[1:]
    commit = innocent.git("rev-parse", "HEAD")[:12]
    assert words == ["compare", f"{now['id']}:base", commit, "--base-env", "NCCL_PROTO=LL"]
    confirmed = innocent.compare(*words[3:], "--no-confirm", base=words[1], head=words[2], code=3)
    assert (confirmed["outcome"], confirmed["metrics"][0]["slowdown"] > 1.3) == ("SUSPECT", True)
    page = read("report", confirmed["id"], "-f", "html")
    assert "Why the numbers differ" in page
    assert "NCCL_PROTO: LL → not set" in page
    assert "NCCL&#95;PROTO: LL → not set" in read("report", confirmed["id"], "-f", "md")


def test_a_variable_of_a_command_differs_where_one_side_lacked_it_and_not_where_it_was_inherited(project, explained):
    project.commit({"bench.sh": 'echo "{\\"s\\": ${STEPS:-1}}"\n'})
    command = ("--metric", "s", "--", "sh", "bench.sh")
    without = measured(project, "HEAD", *command)["id"]
    asked = measured(project, "HEAD", "--env", "STEPS=3", *command)["id"]
    inherited = measured(project, "HEAD", *command, STEPS="3")["id"]
    first = explained(without, asked)["hypotheses"][0]
    assert (first["hypothesis"], first["state"]) == ("environment", "differs")
    assert [(field["field"], field["a"], field["b"]) for field in first["fields"]] == [("STEPS", "not set", "3")]
    assert states(explained(inherited, asked))["environment"] == "ruled out"


def test_a_claimed_number_that_is_stored_brings_its_record_along(innocent, read):
    then = measured(innocent, "HEAD~1", *FAKE, *LL)
    value = then["metrics"][0]["median"]
    done = innocent.run("recheck", "HEAD", "--was", f"{value:.4f}", *FAKE, "--quiet", "--json", "-")
    result = json.loads(done.stdout)
    assert (result["outcome"], result["explanation"]["a"]["id"]) == ("NOT_REPRODUCED", then["id"])
    assert result["explanation"]["hypotheses"][0]["fields"][0]["field"] == "NCCL_PROTO"
    assert "≠ differs" in read("show", result["id"])


def test_a_run_against_now_names_what_a_launch_would_find(innocent, read, explained):
    measured(innocent, "HEAD", *FAKE, *LL)
    innocent.write({"fake.json": SPEED | {"speed": 50.0}})
    why = explained("latest", "now")
    assert [h["hypothesis"] for h in why["hypotheses"][:2]] == ["environment", "code"]
    assert {"code": "differs", "method": "ruled out", "software": "ruled out"}.items() <= states(why).items()
    assert "uncommitted files" in [i["what"] for i in why["timeline"]["items"] if i["state"] == "changed"]
    assert "≠ differs" in read("explain", "latest")
    assert "| environment | ≠ differs |" in read("explain", "latest", "-f", "md")
    read("explain", "now", "now", code=2)
    read("explain", "latest:head", "now", code=2)


def test_a_stored_run_is_recreated_and_measured_again_as_base(innocent, read, tmp_path):
    then = measured(innocent, "HEAD~1", *FAKE, *LL)
    folder = tmp_path / "then"
    read("checkout", then["id"], folder)
    assert json.loads((folder / "tree" / "fake.json").read_text()) == SPEED
    assert not (folder / "tree" / "README").exists()
    assert "export NCCL_PROTO=LL\n" in (folder / "env.sh").read_text()
    assert f"perfguard compare {then['id']}:base HEAD" in (folder / "README.md").read_text()
    assert "numpy==" in (folder / "requirements.txt").read_text()
    read("checkout", then["id"], folder, code=2)

    again = innocent.compare("--no-confirm", base=then["id"], code=3)
    assert (again["outcome"], again["workload"]["name"]) == ("SUSPECT", "fake")
    assert (again["base"]["env"], again["head"]["env"]) == ({"NCCL_PROTO": "LL"}, {})
    assert again["base"]["commit"] == innocent.git("rev-parse", "HEAD~1")


def test_a_dirty_tree_comes_back_with_its_patch(project, read, tmp_path):
    project.commit({"bench.sh": "echo '{\"s\": 1}'\n"})
    project.write({"bench.sh": "echo '{\"s\": 2}'\n", "extra.txt": "mine\n"})
    command = ("--metric", "s", "--", "sh", "bench.sh")
    stored = measured(project, "WORKTREE", *command)
    project.git("checkout", "--quiet", "bench.sh")
    read("checkout", stored["id"], tmp_path / "then")
    assert (tmp_path / "then" / "tree" / "bench.sh").read_text() == "echo '{\"s\": 2}'\n"
    assert (tmp_path / "then" / "tree" / "extra.txt").read_text() == "mine\n"
    # A variable of today that was not set then would reach both sides: refused, with the way out.
    # Folders of compile caches are perfguard's own in every run.
    today = {"NCCL_ALGO": "Tree", "TORCHINDUCTOR_CACHE_DIR": "/somewhere"}
    done = project.run("compare", stored["id"], "HEAD", *command, code=4, **today)
    assert "NCCL_ALGO is set now and was not when" in done.stderr
    assert "env -u NCCL_ALGO perfguard compare" in done.stderr


# --- propagation: a variable that does not arrive is found, with rank and place


def site(folder, text):
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(f"import os\n{text}\n")
    return ("--env", f"PYTHONPATH={folder}")


def test_a_variable_dropped_on_one_rank_is_named_with_rank_and_place(innocent, tmp_path):
    asked = site(tmp_path / "site", "if os.environ.get('RANK') == '1': os.environ.pop('NCCL_PROTO', None)")
    result = measured(innocent, "HEAD", *FAKE, *LL, *asked, "--set", "tp=2", code=4)
    assert codes(result)[0] == "environment"
    place = f"changed while Python started, by {tmp_path}/site/sitecustomize.py"
    assert f"rank 1 does not see NCCL_PROTO, asked for as 'LL': {place}" in texts(result)
    assert "rank 0 does not see" not in texts(result)


def test_a_variable_overwritten_by_the_subject_at_import_is_named(project, tmp_path):
    entry = f"import os\nos.environ['NCCL_PROTO'] = 'Simple'\n{STAND_IN}"
    project.commit({"model/__init__.py": "", "model/entry.py": entry})
    result = measured(project, "HEAD", "-w", "moe-eagle3", *LL, code=4)
    assert codes(result)[0] == "environment"
    told = "rank 0 sees NCCL_PROTO='Simple', asked for 'LL': changed after the process began, by the code under test"
    assert told in texts(result)


def test_a_variable_that_sitecustomize_sets_unasked_is_found_by_explain(innocent, explained, tmp_path):
    plain = measured(innocent, "HEAD", *FAKE)
    asked = site(tmp_path / "site", "os.environ['NCCL_ALGO'] = 'Tree'")
    moved = measured(innocent, "HEAD", *FAKE, *asked)
    (first, *_) = explained(plain["id"], moved["id"])["hypotheses"][0]["fields"]
    assert (first["field"], first["a"], first["b"]) == ("NCCL_ALGO", "not set", "Tree")
    assert first["note"] == f"in B changed while Python started, by {tmp_path}/site/sitecustomize.py"


def test_a_command_whose_python_never_sees_the_variable_is_invalid(project):
    script = "env -u NCCL_PROTO python3 -c 'print(1)' > /dev/null; echo '{\"s\": 1}'\n"
    project.commit({"bench.sh": script})
    command = ("--metric", "s", "--", "sh", "bench.sh")
    result = measured(project, "HEAD", *LL, *command)
    assert "no Python process of the command sees NCCL_PROTO='LL' as asked for, but not set" in texts(result)


# --- secrets


def everything(database):
    """Every text and blob of every table, compressed ones opened."""
    connection = sqlite3.connect(database)
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    cells = [cell for name in names for row in connection.execute(f"SELECT * FROM {name}") for cell in row]
    connection.close()
    parts = [database.read_bytes()]
    for cell in cells:
        data = cell if isinstance(cell, bytes) else str(cell).encode("utf-8", "surrogateescape")
        parts.append(data)
        if data[:1] == b"\x78":
            parts.append(zlib.decompress(data))
    return b"\n".join(parts)


def test_secrets_of_the_environment_are_nowhere_in_the_database_or_a_report(project, read):
    secrets = {
        "HF_TOKEN": "swordfish-hf", "MY_API_KEY": "swordfish-key", "DB_PASSWORD": "swordfish-pw",
        "PIP_INDEX_URL": "https://me:swordfish-url@host/simple", "NCCL_NOTE": "ghp_" + "swordfish" * 4,
    }  # fmt: skip
    script = 'env; env >&2; echo \'{"s": 1}\'; test -z "$FAIL"\n'
    project.commit({"bench.sh": script, "fake.json": SPEED})
    command = ("--metric", "s", "--", "sh", "bench.sh")
    one = ("run", "HEAD", "--trials", "1")
    good = project.run(*one, "--env", "HF_TOKEN", *command, **secrets)
    project.run(*one, *FAKE, "--env", "HF_TOKEN", "--env", "NCCL_NOTE", **secrets)
    compared = project.run("compare", "HEAD", "HEAD", "--max-blocks", "2", *command, code=4, FAIL="1", **secrets)
    reports = [read("report", "-f", form) for form in ("html", "md", "issue", "json", "csv")]
    shown = [read("show", "latest"), read("explain", "latest")]
    for text in (good.stdout, good.stderr, compared.stdout, compared.stderr, *reports, *shown):
        assert "swordfish" not in text
    stored = everything(project.db)
    assert b"swordfish" not in stored
    assert b"<redacted>" in stored
    assert rows(project.db, "SELECT count(*) FROM trials WHERE status = 'ok'")[0][0] >= 2
    # Given openly it would be stored: refused, without repeating it.
    done = project.run("run", "HEAD", *FAKE, "--env", "HF_TOKEN=swordfish-open", code=2)
    assert "swordfish" not in done.stderr
    assert "export HF_TOKEN=... first, then --env HF_TOKEN" in done.stderr


def test_now_is_asked_of_the_python_that_ran_the_command_and_not_of_perfguards(project, read, tmp_path):
    python = tmp_path / "theirs" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "theirs")], check=True)
    (packages,) = (tmp_path / "theirs").glob("lib/python3*/site-packages")
    (packages / "thing-1.0.dist-info").mkdir()
    project.commit({"bench.py": "print('{\"seconds\": 0.1}')"})
    project.run("run", "HEAD", "--trials", "1", "--metric", "seconds", "--quiet", "--", str(python), "bench.py")

    def software():
        explained = json.loads(read("explain", "latest", "now", "--json", "-"))
        return next(h for h in explained["hypotheses"] if h["hypothesis"] == "software")

    assert software()["state"] == "ruled out"
    (packages / "thing-1.0.dist-info").rename(packages / "thing-2.0.dist-info")
    assert [(one["field"], one["a"], one["b"]) for one in software()["fields"]] == [("package thing", "1.0", "2.0")]
    python.unlink()
    assert (software()["state"], software()["fields"]) == ("unknown", [])
    assert "the Python that ran the command does not answer now" in software()["detail"]
