"""`-- CMD`: each way of reading a value, and what each bad value and bad end is called. Real processes."""

import json
import os
import sys
import zipfile
from dataclasses import replace

import pytest

from perfguard.errors import StorageError, UsageError
from perfguard.records import Arm, Metric, Revision, Workload
from perfguard.trial.command import run_command
from perfguard.trial.readings import check_read, judge_values, read_values
from perfguard.trial.request import TrialRequest

SECONDS = Metric(name="seconds", unit="s", better="lower")
OTHER = Metric(name="other", unit="", better="higher")
COUNT = Metric(name="count", unit="", better="higher", primary=False, exact=True)


def request(folder, *command, read="json", metrics=(SECONDS,), timeout_s=20.0, env=None):
    """A trial of one command in a checkout below `folder`."""
    (folder / "tree").mkdir(exist_ok=True)
    revision = Revision(name="HEAD", commit="c" * 40, tree="t" * 40)
    return TrialRequest(
        id="trial-1",
        stage=1,
        block=2,
        slot=3,
        side="head",
        build=1,
        attempt=0,
        arm=Arm(side="head", revision=revision, env=env or {}),
        workload=Workload(
            name="command", runner="command", metrics=metrics, command=command, read=read, timeout_s=timeout_s
        ),
        checkout=folder / "tree",
        caches=folder / "caches",
        folder=folder / "trial",
        strays=folder / "strays",
        owner="token",
        seed=7,
    )


def run(folder, script, **options):
    return run_command(request(folder, "sh", "-c", script, **options))


def test_json_is_read_from_the_last_line_with_text(tmp_path):
    trial = run(tmp_path, """echo '{"seconds": 9}'; echo '{"seconds": 1.25, "more": "x"}'; echo; echo >&2 noise""")
    assert (trial.status, trial.values, trial.reasons) == ("ok", {"seconds": 1.25}, ())
    assert (trial.id, trial.stage, trial.block, trial.slot, trial.side, trial.build) == ("trial-1", 1, 2, 3, "head", 1)


def test_wall_is_the_time_from_before_the_start_to_the_end(tmp_path):
    trial = run(tmp_path, "sleep 0.2", read="wall")
    assert trial.values == {"seconds": trial.wall_s}
    assert trial.wall_s >= 0.2


def test_regex_is_the_first_group_of_the_last_match(tmp_path):
    script = r"printf 'took 3 s\nwarm took 2.5e-1 s\ntail\n'"
    assert run(tmp_path, script, read=r"regex:took ([\d.e-]+) s$").values == {"seconds": 0.25}


def test_the_command_runs_in_the_checkout_and_sees_trial_and_commit(tmp_path):
    trial = run(tmp_path, """pwd >&2; env >&2; echo '{"seconds": 1}'""", env={"ASKED": "yes"})
    seen = (tmp_path / "trial" / "stderr.log").read_text().splitlines()
    assert seen[0] == str(tmp_path / "tree")
    inherited = {f"{name}={value}" for name, value in os.environ.items()}
    ours = {line for line in seen if line.startswith("PERFGUARD_") and line not in inherited}
    assert ours == {"PERFGUARD_TRIAL=trial-1", f"PERFGUARD_COMMIT={'c' * 40}", "PERFGUARD_OWNER=token"}
    assert "ASKED=yes" in seen
    assert trial.record["environment"]["ASKED"] == "yes"


def test_secrets_of_the_environment_are_not_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "hunter2")
    trial = run(tmp_path, """echo "{\\"seconds\\": ${#MY_TOKEN}}" """)
    assert trial.values == {"seconds": 7.0}
    assert "hunter2" not in json.dumps(trial.record)


@pytest.mark.parametrize(
    ("printed", "code", "text"),
    [
        ('{"other": 1}', "metric_missing", "metric seconds is missing: it holds other"),
        ("", "metric_missing", "stdout is empty"),
        ("done", "metric_missing", "the last line of stdout is no JSON object but 'done'"),
        ('["seconds"]', "metric_missing", "no JSON object"),
        ("{" * 20_000, "metric_missing", "no JSON object"),
        ('{"seconds": "1.5"}', "not_a_number", "metric seconds is '1.5', not a finite number"),
        ('{"seconds": true}', "not_a_number", "is True"),
        ('{"seconds": null}', "not_a_number", "is None"),
        ('{"seconds": NaN}', "not_a_number", "is nan"),
        ('{"seconds": Infinity}', "not_a_number", "is inf"),
        ('{"seconds": 1e999}', "not_a_number", "is inf"),
        ('{"seconds": 1' + "0" * 400 + "}", "not_a_number", "not a finite number"),
        ('{"seconds": 0}', "not_positive", "metric seconds is 0, not above 0"),
        ('{"seconds": -0.0}', "not_positive", "is -0, not above 0"),
        ('{"seconds": -2.5}', "not_positive", "is -2.5, not above 0"),
    ],
)
def test_a_value_that_cannot_be_compared_is_invalid_with_what_was_seen(printed, code, text):
    readings = read_values("json", (SECONDS,), stdout=f"before\n{printed}\n\n" if printed else "", wall_s=1.0)
    (reason,) = readings.reasons
    assert (readings.values, reason.code) == ({}, code)
    assert text in reason.text


@pytest.mark.parametrize(
    ("stdout", "code", "text"),
    [
        ("nothing here\n", "metric_missing", r"'took (\\S+) s' matches nothing in the output, which ends with"),
        ("took long s", "not_a_number", "is 'long'"),
        ("took nan s", "not_a_number", "is nan"),
        ("took -1 s", "not_positive", "is -1"),
    ],
)
def test_a_regex_value_that_cannot_be_compared_is_invalid_with_what_was_seen(stdout, code, text):
    (reason,) = read_values(r"regex:took (\S+) s", (SECONDS,), stdout=stdout, wall_s=1.0).reasons
    assert reason.code == code
    assert text in reason.text


def test_a_bad_value_makes_the_trial_invalid_and_keeps_the_good_ones(tmp_path):
    trial = run(tmp_path, """echo '{"seconds": 1, "other": "x"}'""", metrics=(SECONDS, OTHER))
    assert (trial.status, trial.values, [reason.code for reason in trial.reasons]) == (
        "invalid", {"seconds": 1.0}, ["not_a_number"],
    )  # fmt: skip


def test_a_count_may_be_zero_and_a_measured_value_may_not():
    readings = judge_values((SECONDS, COUNT), {"seconds": 0, "count": 0}, seen="")
    assert (readings.values, [reason.code for reason in readings.reasons]) == ({"count": 0.0}, ["not_positive"])


@pytest.mark.parametrize(
    ("script", "status", "code", "text"),
    [
        ("""echo '{"seconds": 1}'; echo >&2 no memory; exit 3""", "crashed", "command_failed", "code 3\nno memory"),
        ("echo only stdout; kill -KILL $$", "crashed", "command_failed", "was ended by SIGKILL\nonly stdout"),
        ("no-such-program", "crashed", "command_failed", "exit code 127"),
        ("""echo '{"seconds": 1}'; echo >&2 waits; sleep 600""", "timed_out", "timed_out", "end within 0.3 s\nwaits"),
    ],
)
def test_a_bad_end_gives_no_value_whatever_was_printed(tmp_path, script, status, code, text):
    trial = run(tmp_path, script, timeout_s=0.3 if status == "timed_out" else 20.0)
    (reason,) = trial.reasons
    assert (trial.status, trial.values, reason.code, trial.record["before_ready"]) == (status, {}, code, False)
    assert text in reason.text
    assert trial.record["log"] == str(tmp_path / "trial")


def test_a_program_that_is_not_there_is_named(tmp_path):
    trial = run_command(request(tmp_path, "no-such-program", "--flag"))
    assert "'no-such-program --flag' ended with exit code 127" in trial.reasons[0].text
    assert "cannot start 'no-such-program': No such file or directory" in trial.reasons[0].text


def test_only_the_end_of_a_huge_output_is_searched(tmp_path):
    code = "print('took 5 s'); print('x' * 5_000_000); print('took 7 s')"
    trial = run_command(request(tmp_path, sys.executable, "-c", code, read=r"regex:took (\d+) s"))
    assert trial.values == {"seconds": 7.0}


@pytest.mark.parametrize(
    ("read", "metrics", "message"),
    [
        ("stdout", (SECONDS,), "none of wall, json, regex:PATTERN"),
        ("regex:(", (SECONDS,), "no regular expression"),
        ("regex:took", (SECONDS,), "has no group"),
        ("wall", (SECONDS, OTHER), "gives one metric, 2 are declared"),
    ],
)
def test_a_way_of_reading_that_cannot_work_is_refused_before_anything_runs(read, metrics, message):
    with pytest.raises(UsageError, match=message):
        check_read(read, metrics)


def test_the_probe_lists_what_python_loaded_and_leaves_the_command_as_it_was(tmp_path, monkeypatch):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "sitecustomize.py").write_text("import os; os.environ['MINE'] = 'ran'\n")
    monkeypatch.setenv("PYTHONPATH", str(mine))
    code = (
        "import helper, json, os, subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import inner'], check=True)\n"
        "print(json.dumps({'seconds': 1, 'mine': os.environ['MINE'], 'path': sys.path[1:]}))\n"
    )
    asked = request(tmp_path, sys.executable, "bench.py")
    for name in ("helper", "inner"):
        (asked.checkout / f"{name}.py").write_text(f"{name} = 1\n")
    (asked.checkout / "bench.py").write_text(code)
    plain = run_command(asked)
    said = json.loads((asked.folder / "stdout.log").read_text())
    asked = replace(asked, folder=tmp_path / "probed")
    trial = run_command(asked, probe=True)
    assert json.loads((asked.folder / "stdout.log").read_text()) == said
    assert (trial.status, trial.values, "origin" in plain.record) == ("ok", plain.values, False)
    paths = {name: file["path"] for name, file in trial.record["origin"].items()}
    tree = os.path.realpath(asked.checkout)
    assert paths["__main__"] == f"{tree}/bench.py"
    assert (paths["helper"], paths["inner"]) == (f"{tree}/helper.py", f"{tree}/inner.py")
    assert not any(name in paths for name in ("json", "os", "subprocess"))
    assert trial.record["environment"]["PYTHONPATH"] == str(mine)


@pytest.mark.parametrize(
    "ending",
    [
        "os._exit(0)",
        "os.kill(os.getpid(), signal.SIGTERM)",
        "os.execv('/bin/true', ['true'])",
    ],
)
def test_the_probe_hears_of_processes_that_do_not_end_as_they_should(tmp_path, ending):
    inner = f"import helper, os, signal; {ending}"
    code = (
        f"import json, subprocess, sys\nsubprocess.run([sys.executable, '-c', {inner!r}])\n"
        "print(json.dumps(dict(seconds=1)))\n"
    )
    asked = request(tmp_path, sys.executable, "bench.py")
    (asked.checkout / "helper.py").write_text("helper = 1\n")
    (asked.checkout / "bench.py").write_text(code)
    assert "helper" in run_command(asked, probe=True).record["origin"]


def test_the_probe_hears_of_forked_workers_and_of_code_in_an_archive(tmp_path):
    code = (
        "import json, multiprocessing, sys\n"
        "def work(): import helper, zipped\n"
        "worker = multiprocessing.get_context('fork').Process(target=work)\n"
        "sys.path.append('a.zip'); worker.start(); worker.join()\n"
        "print(json.dumps({'seconds': 1 + worker.exitcode}))\n"
    )
    asked = request(tmp_path, sys.executable, "bench.py")
    (asked.checkout / "helper.py").write_text("helper = 1\n")
    (asked.checkout / "bench.py").write_text(code)
    with zipfile.ZipFile(asked.checkout / "a.zip", "w") as archive:
        archive.writestr("zipped.py", "zipped = 1\n")
    trial = run_command(asked, probe=True)
    assert (trial.status, trial.values) == ("ok", {"seconds": 1.0})
    assert trial.record["origin"]["helper"]["path"].endswith("tree/helper.py")
    assert trial.record["origin"]["zipped"]["path"].endswith("a.zip/zipped.py")


def test_a_command_without_python_has_no_origin(tmp_path):
    trial = run_command(request(tmp_path, "sh", "-c", """echo '{"seconds": 1}'"""), probe=True)
    assert (trial.status, trial.record["origin"]) == ("ok", None)


def test_a_probe_that_cannot_write_stays_silent(tmp_path):
    script = f"""rm -r $PERFGUARD_PROBE; {sys.executable} -c 'print("{{\\"seconds\\": 1}}")'"""
    asked = request(tmp_path, "sh", "-c", script)
    trial = run_command(asked, probe=True)
    assert (trial.status, (asked.folder / "stderr.log").read_text()) == ("ok", "")


@pytest.mark.parametrize("gone", ["checkout", "folder"])
def test_a_folder_that_is_removed_under_a_trial_is_nobodys_measurement(tmp_path, gone):
    place = getattr(request(tmp_path, "true"), gone)
    with pytest.raises(StorageError, match=f"{place} was removed while a trial ran in it") as caught:
        run(tmp_path, f"rm -r {place}; echo '{{\"seconds\": 1}}'")
    assert caught.value.next_step == "PERFGUARD_CACHE=DIR"
