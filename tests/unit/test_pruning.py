"""`prune` makes room, and whatever a verdict or another table rests on is still there afterwards."""

import json
import math
import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import store_cases as cases

from perfguard import pruning
from perfguard.cli import run
from perfguard.errors import StoreError
from perfguard.pruning import Keep, is_removable, is_thinnable, old
from perfguard.replay import replay_one
from perfguard.reporting import FORMATS, document
from perfguard.store import StoredAge, open_store, upkeep

RECORD = Path(__file__).resolve().parents[2] / "results.db"
NOW = datetime(2027, 1, 1, tzinfo=UTC)
DAY_S = 86_400.0


def age(id="c", *, days=100.0, **changes):
    touched = (NOW - timedelta(days=days)).isoformat()
    return StoredAge(
        **{"id": id, "kind": "compare", "touched_at": touched, "is_decided": False, "is_named": False, **changes}
    )


def test_what_is_old_is_told_by_age_or_by_number_and_never_within_a_day():
    ages = [age("new", days=0.5), age("a", days=2), age("b", days=89), age("c", days=91)]
    assert [one.id for one in old(ages, Keep(age_s=90 * DAY_S), NOW)] == ["c"]
    assert [one.id for one in old(ages, Keep(age_s=60.0), NOW)] == ["a", "b", "c"]
    assert [one.id for one in old(ages, Keep(num_last=2), NOW)] == ["b", "c"]
    assert [one.id for one in old(ages, Keep(num_last=0), NOW)] == ["a", "b", "c"]


def test_only_a_comparison_that_nobody_names_and_that_said_nothing_may_go_whole():
    assert is_removable(age())
    assert not is_removable(age(is_decided=True))
    assert not is_removable(age(is_named=True))
    assert [kind for kind in ("run", "recheck", "calibrate", "control", "bisect") if is_removable(age(kind=kind))] == []


def test_only_what_can_be_derived_again_loses_its_samples():
    assert is_thinnable(age(is_decided=True, samples_bytes=1))
    assert is_thinnable(age(is_named=True, log_bytes=1))
    assert is_thinnable(age(is_decided=True, may_have_telemetry=True))
    assert not is_thinnable(age(is_decided=True))
    assert not is_thinnable(age(samples_bytes=1)), "it goes whole"
    assert not is_thinnable(age(kind="calibrate", is_decided=True, samples_bytes=1))


def undecided(path):
    """Four comparisons of 2026-01: two undecided, one suspect, one without any verdict."""
    with open_store(path) as store:
        for id, outcome in (("c-1", "INCONCLUSIVE"), ("c-2", "INVALID"), ("c-3", "SUSPECT"), ("c-4", "")):
            store.add_campaign(cases.campaign(id))
            store.add_trial(id, cases.trial(0))
            store.add_trial(id, cases.trial(1, **cases.FAILED))
            if outcome:
                store.set_status(id, "finished")
                store.add_verdict(id, {"outcome": outcome})
    cases_date(path)
    return path


def cases_date(path):
    """Verdicts as old as their campaigns: `add_verdict` takes the clock's time."""
    with sqlite3.connect(path) as db:
        db.execute("UPDATE verdicts SET created_at = '2026-01-02T03:04:07+00:00'")
    db.close()


def ids(path):
    return [row[0] for row in cases.rows(path, "SELECT id FROM campaigns ORDER BY id")]


def test_comparisons_without_a_conclusion_go_and_take_what_only_they_used_with_them(tmp_path):
    path = undecided(tmp_path / "r.db")
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO provenance VALUES ('a', 'json', 2, x'00'), ('b', 'json', 2, x'00')")
        db.execute("INSERT INTO campaign_provenance VALUES ('c-1', 'a'), ('c-1', 'b'), ('c-3', 'b')")
    db.close()
    with open_store(path) as store:
        result = pruning.prune(store, Keep(age_s=90 * DAY_S), NOW)
        assert result["removed"] == ["c-4", "c-2", "c-1"]
        assert result["removed_trials"] == 6
        assert store.trials("c-3")[0] == cases.trial(0)
    assert ids(path) == ["c-3"]
    for table in ("trials", "samples", "arms", "verdicts", "campaign_provenance"):
        assert cases.rows(path, f"SELECT DISTINCT campaign FROM {table}") == [("c-3",)]
    assert cases.rows(path, "SELECT sha256 FROM provenance WHERE length(sha256) = 1") == [("b",)]
    assert cases.rows(path, "PRAGMA foreign_key_check") == []


@pytest.mark.parametrize(
    ("columns", "value"),
    [("night TEXT, campaign TEXT", "c-1"), ("document TEXT", json.dumps({"of": [{"confirmation": "c-1"}]}))],
    ids=["a column", "inside a document"],
)
def test_a_campaign_that_any_other_table_names_stays_whatever_that_table_is(columns, value, tmp_path):
    path = undecided(tmp_path / "r.db")
    with sqlite3.connect(path) as db:
        db.execute(f"CREATE TABLE of_a_later_version ({columns})")
        marks = ", ".join("?" * (columns.count(",") + 1))
        db.execute(f"INSERT INTO of_a_later_version VALUES ({marks})", (value,) if "," not in columns else ("n", value))
    db.close()
    with open_store(path) as store:
        assert pruning.prune(store, Keep(age_s=90 * DAY_S), NOW)["removed"] == ["c-4", "c-2"]
    assert ids(path) == ["c-1", "c-3"]


def test_what_is_measured_right_now_stays_also_when_it_was_planned_long_ago(tmp_path):
    path = undecided(tmp_path / "r.db")
    with open_store(path) as store:
        store.add_trial("c-4", cases.trial(4, started_at=(NOW - timedelta(hours=3)).isoformat()))
        assert "c-4" not in pruning.prune(store, Keep(num_last=0), NOW)["removed"]


def carried(tmp_path):
    path = tmp_path / "r.db"
    shutil.copy(RECORD, path)
    return path


def test_every_verdict_of_the_carried_record_comes_out_the_same_after_it_was_pruned(tmp_path):
    path = carried(tmp_path)
    with open_store(path) as store:
        wanted = [row.id for row in store.campaigns(kind="compare") if row.outcome]
        shown = wanted[:3]
        before = {(one, form): document(store, [one], form) for one in shown for form in FORMATS}
        result = pruning.prune(store, Keep(age_s=DAY_S), NOW)
        assert len(result["thinned"]) >= 10
        assert result["left_whole"] == []
        assert result["freed_bytes"] > 0
        kept = [one for one in wanted if one not in result["removed"]]
        assert len(kept) >= 10
        assert all(replay_one(store, one)["agrees"] for one in kept)
        # Their reports draw trials and never needed a sample.
        assert {key: document(store, [key[0]], key[1]) for key in before if key[0] in kept} == {
            key: text for key, text in before.items() if key[0] in kept
        }
        again = pruning.prune(store, Keep(age_s=DAY_S), NOW)
        assert (again["thinned"], again["removed"]) == ([], [])
    of_comparisons = "SELECT count(*) FROM samples s JOIN campaigns c ON c.id = s.campaign WHERE c.kind = 'compare'"
    assert cases.rows(path, of_comparisons) == [(0,)]


def test_a_campaign_whose_verdict_would_not_come_out_the_same_loses_nothing(tmp_path):
    path = carried(tmp_path)
    (victim,) = cases.rows(path, "SELECT campaign FROM verdicts WHERE outcome = 'REGRESSION' LIMIT 1")[0]
    with sqlite3.connect(path) as db:
        db.execute("UPDATE verdicts SET document = json_set(document, '$.seed', -1) WHERE campaign = ?", (victim,))
    db.close()
    count = f"SELECT count(*) FROM samples WHERE campaign = '{victim}'"
    before = cases.rows(path, count)
    with open_store(path) as store:
        result = pruning.prune(store, Keep(age_s=DAY_S), NOW)
    assert result["left_whole"] == [victim]
    assert victim not in result["thinned"]
    assert cases.rows(path, count) == before != [(0,)]


# At rest before the load, then under it: 1500, 1980, 1990.
CLOCKS = [[-0.5, 210], [0.1, 1500], [0.2, 1980], [0.3, 1990]]


def telemetry(path):
    """Series of the card that are left, by trial."""
    with open_store(path, read_only=True) as store:
        records = [trial.record for trial in store.trials("c-0001")]
    return [record["conditions"]["gpus"]["GPU-1"].get("during", {}).get("fields", {}) for record in records]


def with_telemetry(path):
    seen = {"before": {"temperature_c": 40}, "during": {"fields": {"sm_clock_mhz": CLOCKS}}, "after": {}}
    conditions = {"gpus": {"GPU-1": seen}, "host": {"before": {}}}
    with open_store(cases.filled(path, 0)) as store:
        store.add_verdict("c-0001", {"outcome": "EQUIVALENT"})
        store.add_trial("c-0001", cases.trial(0, record={"conditions": conditions, "plain_s": [0.1] * 40}))
        store.add_trial("c-0001", cases.trial(1, record={"conditions": conditions, "log_tail": ""}))
    cases_date(path)
    return path


def test_telemetry_that_a_verdict_rests_on_stays_and_the_rest_goes(tmp_path):
    path = with_telemetry(tmp_path / "r.db")

    def rests_on_telemetry(store, campaign):
        kept = [trial.record["conditions"]["gpus"]["GPU-1"]["during"]["fields"] for trial in store.trials(campaign)]
        return all(fields["sm_clock_mhz"] == CLOCKS for fields in kept)

    with open_store(path) as store:
        first = pruning.prune(store, Keep(age_s=DAY_S), NOW, rests_on_telemetry)
        again = pruning.prune(store, Keep(age_s=DAY_S), NOW, rests_on_telemetry)
    assert (first["thinned"], first["left_whole"]) == (["c-0001"], [])
    assert (again["thinned"], again["left_whole"]) == ([], ["c-0001"])
    assert cases.rows(path, "SELECT count(*) FROM samples") == [(0,)]
    assert telemetry(path) == [{"sm_clock_mhz": CLOCKS}] * 2


def test_other_telemetry_goes_but_for_its_median_and_what_was_read_before_and_after_stays(tmp_path):
    path = with_telemetry(tmp_path / "r.db")
    before = cases.rows(path, "SELECT sha256 FROM provenance")
    with open_store(path) as store:
        done = pruning.prune(store, Keep(age_s=DAY_S), NOW, lambda store, campaign: True)
        again = pruning.prune(store, Keep(age_s=DAY_S), NOW, lambda store, campaign: True)
        (one, _) = store.trials("c-0001")
    assert done["thinned"] == ["c-0001"]
    assert (again["thinned"], again["left_whole"], again["freed_bytes"]) == ([], [], 0)
    # The median under load, which `explain` compares.
    assert telemetry(path) == [{"sm_clock_mhz": [[0.0, 1980]]}] * 2
    seen = one.record["conditions"]["gpus"]["GPU-1"]
    assert (seen["before"], seen["after"]) == ({"temperature_c": 40}, {})
    assert one.record["pruned"] == ["conditions"]
    assert len(cases.rows(path, "SELECT sha256 FROM provenance")) == len(before), "one content in the place of another"
    assert cases.rows(path, "PRAGMA foreign_key_check") == []


def test_a_copy_without_telemetry_and_a_whole_one_can_be_merged(tmp_path):
    whole, thin = with_telemetry(tmp_path / "whole.db"), with_telemetry(tmp_path / "thin.db")
    with open_store(thin) as store:
        assert upkeep.thin(store, "c-0001", lambda: True, with_telemetry=True)
        assert store.merge(whole)["trials"] == 0
    with open_store(whole) as store:
        assert store.merge(thin)["trials"] == 0


def test_a_dry_run_changes_nothing_and_says_what_the_real_one_then_does(tmp_path):
    path = carried(tmp_path)
    before = path.read_bytes()
    with open_store(path, read_only=True) as store:
        said = pruning.plan(store, Keep(age_s=DAY_S), NOW)
    assert path.read_bytes() == before
    with open_store(path) as store:
        done = pruning.prune(store, Keep(age_s=DAY_S), NOW)
    for key in ("thinned", "removed", "removed_trials"):
        assert said[key] == done[key]
    assert 0 < said["thinned_bytes"] <= done["thinned_bytes"]  # "and telemetry", which is not weighed before


def test_the_end_of_a_log_goes_and_the_reason_that_quotes_it_stays(tmp_path):
    path = cases.filled(tmp_path / "r.db", 0)
    with open_store(path) as store:
        store.add_trial("c-0001", cases.trial(0, **{**cases.FAILED, "record": {"log_tail": "Killed", "nan": math.nan}}))
        assert upkeep.thin(store, "c-0001", lambda: True, with_telemetry=True) == len("Killed")
        (trial,) = store.trials("c-0001")
    assert trial.record["log_tail"] == ""
    assert math.isnan(trial.record["nan"])
    assert trial.reasons == cases.FAILED["reasons"]


@pytest.mark.parametrize("pruned_first", [True, False])
def test_a_pruned_copy_and_a_whole_one_can_be_merged_either_way(pruned_first, tmp_path):
    whole, thin = tmp_path / "whole.db", tmp_path / "thin.db"
    for path in (whole, thin):
        with open_store(cases.filled(path, 1)) as store:
            store.add_trial("c-0001", cases.trial(1, **{**cases.FAILED, "record": {"log_tail": "Killed", "n": 1}}))
    with open_store(thin) as store:
        assert upkeep.thin(store, "c-0001", lambda: True, with_telemetry=True)
    mine, other = (thin, whole) if pruned_first else (whole, thin)
    with open_store(mine) as store:
        assert store.merge(other) == {"campaigns": 0, "blocks": 0, "trials": 0, "verdicts": 0}
        assert store.trials("c-0001")[0] == cases.trial(0), "samples come back from the copy that has them"


def test_another_log_is_still_a_conflict(tmp_path):
    for name, tail in (("a", "Killed"), ("b", "Aborted")):
        with open_store(cases.filled(tmp_path / name, 0)) as store:
            store.add_trial("c-0001", cases.trial(1, **{**cases.FAILED, "record": {"log_tail": tail}}))
    with open_store(tmp_path / "a") as store, pytest.raises(StoreError, match="nothing was merged"):
        store.merge(tmp_path / "b")


def test_the_command_wants_one_way_of_keeping_and_answers_in_json(tmp_path, capsys):
    path = undecided(tmp_path / "r.db")
    for words in (["prune"], ["prune", "--keep", "90d", "--keep-last", "3"]):
        assert run([*words, "--db", str(path)]) == 2
    capsys.readouterr()
    assert run(["prune", "--keep-last", "1", "--dry-run", "--db", str(path), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["removed"], found["is_dry_run"]) == ("perfguard/prune@1", ["c-2", "c-1"], True)
    assert run(["prune", "--keep-last", "1", "--db", str(path)]) == 0
    assert "2 comparisons without a conclusion, 4 trials" in capsys.readouterr().out
    assert ids(path) == ["c-3", "c-4"]
