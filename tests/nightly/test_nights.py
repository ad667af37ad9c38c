"""Two weeks of nights through the real code: nothing alarms without cause, and what is slow is found."""

import dataclasses
import json

import pytest

from perfguard.errors import BusyError, Interrupted, UsageError
from perfguard.machine.hold import hold_machine, lock_folder
from perfguard.nightly.acks import acknowledge
from perfguard.nightly.pins import set_pin
from perfguard.nightly.standing import all_series
from perfguard.site import write_site
from perfguard.store import open_store
from perfguard.subject.repository import open_repository

SLOW = 1_031_000  # one second and 3.1 %


def outcomes(night):
    return [entry["outcome"] or entry["state"] for entry in night["workloads"]]


def test_two_weeks_with_a_driver_change_a_spike_and_a_slow_commit_that_is_found_accepted_and_pinned(nights):
    start = nights.start()
    quiet = [nights.night()]
    nights.commit("docs")
    quiet.append(nights.night(days=7))  # a missing week
    nights.machine = {"host": {"hostname_sha256": "a"}, "gpu": {"driver": "580.2"}}
    moved = nights.night()
    nights.is_spike = True
    spiked = nights.night()
    nights.is_spike = False
    good = nights.commit("more docs")
    quiet.append(nights.night())
    assert [night["exit_code"] for night in quiet] == [0, 0, 0]
    assert moved["exit_code"] == 0
    assert [n["text"].split("since")[0] for n in moved["notices"]] == ["MACHINE MOVED: "]
    assert "gpu.driver was 570.1 and is 580.2" in moved["notices"][0]["text"]
    assert spiked["exit_code"] in (0, 3)
    assert spiked["searches"] == spiked["waiting"] == []
    assert all(night["notices"] == [] for night in quiet)
    assert (nights.told("regression"), nights.told("suspect")) == ("", "")
    assert json.loads(nights.told("machine"))["schema"] == "perfguard/machine_moved@1"

    slow = nights.commit("Route tokens twice", SLOW)
    nights.commit("docs again")
    red = nights.night()
    assert (red["exit_code"], outcomes(red)) == (1, ["REGRESSION"])
    (search,) = red["searches"]
    assert (search["outcome"], search["culprit"], search["good"]) == ("CULPRIT", slow, good)
    told = [json.loads(line)["schema"] for line in nights.told("regression").replace("}{", "}\n{").splitlines()]
    assert told == ["perfguard/comparison@1", "perfguard/bisect@1"]

    # The next night it is red again, and not searched again.
    again = nights.night()
    assert (again["exit_code"], again["searches"], again["waiting"]) == (1, [], [])

    with open_store(nights.project.db) as store:
        acknowledge(search["bisect"], "2026-03-20", "agreed", store, nights.now)
    accepted = nights.night()
    assert (accepted["exit_code"], outcomes(accepted)) == (0, ["REGRESSION"])
    assert accepted["workloads"][0]["acked"]["reason"] == "agreed"

    # A new reference is measured beside the old one for three nights, and the series goes on without a step.
    with open_store(nights.project.db) as store:
        set_pin("HEAD", "", open_repository(nights.project.repo), store, nights.now)
    linked = [nights.night() for _ in range(4)]
    assert [night["exit_code"] for night in linked] == [0, 0, 0, 0]
    with open_store(nights.project.db, read_only=True) as store:
        runs = store.nights.runs_of_workload("decode")
        assert [run.is_link for run in runs if run.night == linked[2]["id"]] == [False, True]
        assert [run.is_link for run in runs if run.night == linked[3]["id"]] == [False]
        first, second = all_series(store, "decode")
        assert (len(first.points), len(second.points)) == (2, 10)
        levels = [point.value for point in second.points]
        assert levels[0] == pytest.approx(1, abs=0.01)
        assert levels[-1] == pytest.approx(1.031, abs=0.005)
        assert all(note.startswith("MACHINE MOVED") for note in second.notices)
        assert len({run.pin for run in runs}) == 2
        assert start in {run.pin for run in runs}

        folder = nights.project.folder / "site"
        written = write_site(store, folder)
        assert written.num_written == written.num_pages
        assert write_site(store, folder).num_written == 0
        index = (folder / "index.html").read_text()
        assert "accepted until 2026-03-20" in index
        assert f"CULPRIT {slow[:12]}" in index
        assert "gpu.driver was 570.1 and is 580.2" in index
        assert (folder / "series" / "decode.html").read_text().count("<svg") == 4


def test_what_did_not_change_and_was_good_is_left_out_and_a_red_night_is_not(nights):
    nights.start()
    first = nights.night(only_changed=True)
    assert outcomes(first) == ["EQUIVALENT"]
    second = nights.night(only_changed=True)
    assert (outcomes(second), second["exit_code"]) == (["unchanged"], 0)
    assert second["sentence"] == "Nothing changed since last night: nothing was measured."
    nights.machine = {"host": {"hostname_sha256": "b"}}
    assert outcomes(nights.night(only_changed=True)) == ["EQUIVALENT"]  # another machine is asked again
    nights.commit("Slow", SLOW)
    assert nights.night(only_changed=True, is_searching=False)["exit_code"] == 1
    assert nights.night(only_changed=True, is_searching=False)["exit_code"] == 1  # silence makes nothing green


def test_without_time_for_it_a_search_is_filed_and_the_next_night_takes_it_up_first(nights):
    nights.start()
    nights.night()
    slow = nights.commit("Slow", SLOW)
    filed = nights.night(is_searching=False)
    assert filed["searches"] == []
    (waiting,) = filed["waiting"]
    assert (waiting["cause"], waiting["bad"]) == ("REGRESSION", slow)
    taken = nights.night()
    (search,) = taken["searches"]
    assert search["culprit"] in (slow, None)  # a short search may end undecided; it never names another commit


def test_a_night_without_any_time_left_says_what_it_did_not_measure(nights):
    nights.start()
    night = nights.night(budget_s=1e-9)
    assert (outcomes(night), night["exit_code"]) == (["not measured"], 3)


def test_an_interrupted_night_goes_on_under_its_own_id(nights, monkeypatch):
    nights.start()
    launches = []

    def interrupted(*arguments, **more):
        launches.append(arguments)
        if len(launches) == 5:
            raise KeyboardInterrupt
        return run(*arguments, **more)

    from perfguard import launching

    run = launching.run_command
    monkeypatch.setattr(launching, "run_command", interrupted)
    with pytest.raises(Interrupted) as caught:
        nights.night()
    assert caught.value.next_step.startswith("perfguard nightly")
    with open_store(nights.project.db, read_only=True) as store:
        (stopped,) = store.nights.newest(5)
        assert stopped.status == "interrupted"
    again = nights.night(days=0)
    assert (again["id"], outcomes(again)) == (stopped.id, ["EQUIVALENT"])
    with open_store(nights.project.db, read_only=True) as store:
        (run_,) = store.nights.runs_of_workload("decode")
        assert run_.outcome == "EQUIVALENT"


def test_a_night_that_goes_on_does_not_tell_again_what_it_told(nights, monkeypatch):
    nights.start()
    nights.commit("Slow", SLOW)
    monkeypatch.setattr("perfguard.nightly.story._look_at_machine", interrupting)
    with pytest.raises(Interrupted):
        nights.night(is_searching=False)
    monkeypatch.undo()
    monkeypatch.setenv("PERFGUARD_CACHE", str(nights.project.cache))
    monkeypatch.setenv("PERFGUARD_LOCK_DIR", str(nights.project.folder / "lock"))
    again = nights.night(days=0, is_searching=False)
    assert outcomes(again) == ["REGRESSION"]
    assert nights.told("regression").count("perfguard/comparison@1") == 1


def test_an_unfinished_night_of_another_commit_is_given_up(nights, monkeypatch):
    nights.start()
    monkeypatch.setattr("perfguard.launching.run_command", interrupting)
    with pytest.raises(Interrupted):
        nights.night()
    monkeypatch.undo()
    monkeypatch.setenv("PERFGUARD_CACHE", str(nights.project.cache))
    monkeypatch.setenv("PERFGUARD_LOCK_DIR", str(nights.project.folder / "lock"))
    nights.commit("docs")
    nights.night(budget_s=1e-9)
    with open_store(nights.project.db, read_only=True) as store:
        assert [night.status for night in store.nights.newest(5)] == ["finished", "given up"]


def interrupting(*arguments, **more):
    raise KeyboardInterrupt


def test_a_commit_that_cannot_be_measured_is_invalid_and_not_green(nights):
    nights.start()
    nights.project.commit({"bench.sh": "exit 7\n"}, "Broken")
    night = nights.night()
    assert night["exit_code"] == 4
    assert outcomes(night) == ["INVALID"]


def test_a_workload_that_fails_keeps_no_other_from_being_measured(nights):
    nights.start()
    table = '[workload.broken]\nbased_on = "decode"\nsetup = "exit 3"\n[nightly]\nworkloads = ["broken", "decode"]'
    config = (nights.project.repo / "perfguard.toml").read_text()
    (nights.project.repo / "perfguard.toml").write_text(config.replace('[nightly]\nworkloads = ["decode"]', table))
    night = nights.night()
    assert outcomes(night) == ["failed", "EQUIVALENT"]
    assert night["exit_code"] == 5
    assert "exit code 3" in night["workloads"][0]["sentence"]


def test_a_search_that_is_impossible_is_answered_so_and_one_that_was_pruned_begins_anew(nights):
    start = nights.start()
    nights.night()
    slow = nights.commit("Slow", SLOW)
    nights.night(is_searching=False)
    with open_store(nights.project.db) as store:
        (filed,) = store.nights.suspicions()
        store.nights.update_suspicion(dataclasses.replace(filed, bisect="pruned"))
        elsewhere = dataclasses.replace(filed, id="s2", good=slow, bad=start, since="2026-01-01", cause="change point")
        store.nights.add_suspicion(elsewhere)
    night = nights.night()
    assert [search["culprit"] for search in night["searches"]] == [slow]
    with open_store(nights.project.db, read_only=True) as store:
        assert {one.id: one.answer for one in store.nights.suspicions()} == {filed.id: "CULPRIT", "s2": "IMPOSSIBLE"}


def test_in_a_shallow_clone_a_search_waits_for_a_deeper_one(nights):
    nights.start()
    nights.night()
    nights.commit("Slow", SLOW)
    nights.night(is_searching=False)
    # The reference is known and the history between is not.
    (nights.project.repo / ".git" / "shallow").write_text(nights.project.git("rev-parse", "HEAD") + "\n")
    night = nights.night(budget_s=3600.0)
    assert (night["exit_code"], night["searches"]) == (1, [])
    assert [one["status"] for one in night["waiting"]] == ["open"]


def test_two_nights_never_run_at_once(nights):
    nights.start()
    with (
        hold_machine("perfguard nightly", folder=lock_folder() / "nightly"),
        pytest.raises(BusyError, match="another night is running"),
    ):
        nights.night()


def test_a_night_without_a_reference_says_how_to_pin_one(nights):
    from tests.nightly.night_cases import CONFIG

    nights.project.commit({**nights.bench(), "perfguard.toml": CONFIG})
    with pytest.raises(UsageError, match="no reference is pinned for decode") as caught:
        nights.night()
    assert caught.value.next_step == "perfguard pin v1.0"
