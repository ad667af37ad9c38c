"""Reports of results that an older version stored speak in the words of this one, as long as the numbers agree."""

from pathlib import Path

from perfguard.replay import reworded
from perfguard.reporting import document
from perfguard.store import open_store

RESULTS = Path(__file__).resolve().parents[2] / "results.db"
UNDECIDED = "20261130-003229-9775"  # stored when a sentence still turned the sign towards the faster side


def test_an_old_sentence_is_put_in_the_words_of_its_table():
    with open_store(RESULTS, read_only=True) as store:
        text, stored = document(store, [UNDECIDED], "md"), document(store, [UNDECIDED], "json")
    assert "slowdown of head -3.1 % on plain&#95;throughput (95 % interval -18.3 to +14.9 %)" in text
    assert "| -3.1 % | -18.3 to +14.9 % |" in text
    assert "head is 3.1 % faster on plain_throughput (95 % interval -15 to 18 %)" in stored, "JSON is as it was given"


def test_a_verdict_that_would_come_out_differently_keeps_its_words():
    with open_store(RESULTS, read_only=True) as store:
        campaign, verdict = store.campaign(UNDECIDED), dict(store.latest_verdict(UNDECIDED))
        changed = {**verdict, "seed": verdict["seed"] + 1}
        assert reworded(store, campaign, verdict)["sentence"] != verdict["sentence"]
        assert reworded(store, campaign, changed) is changed
        broken = {**verdict, "metrics": None}
        assert reworded(store, campaign, broken) is broken
