"""The static site: written only where something changed, never over somebody's folder, foreign text harmless."""

import json
import re
from dataclasses import replace

import pytest

from perfguard.errors import UsageError
from perfguard.report.site import campaign_path, file_name
from perfguard.site import MANIFEST, write_site
from perfguard.store import NightRun, NightValue, StoredNight, open_store
from tests.unit.report_cases import comparison
from tests.unit.store_cases import campaign

EVIL = "<script>alert(1)</script>"


def add_night(store, number, *, workload="moe", value=1.0):
    stored = campaign(f"c-{number:04d}", f"2026-0{1 + number // 28}-{1 + number % 28:02d}T02:00:00+00:00")
    machine = {"host": {"kernel": "Linux 6.8"}, "gpu": {"name": "H200"}}
    stored = replace(stored, workload=replace(stored.workload, name=workload), machine=machine)
    store.add_campaign(stored)
    store.add_verdict(stored.id, comparison(id=stored.id, machine=machine, sentence=f"Head {EVIL} is as fast."))
    run = NightRun(
        campaign=stored.id, night=f"n{number}", started_at=stored.created_at, workload=workload,
        commit_sha=f"{number:040x}", pin="p" * 40, is_link=False, code="k", machine="m",
    )  # fmt: skip
    store.nights.add_run(run)
    values = [NightValue(metric="tpot", unit="s", better="lower", value=value, reference=1.0)]
    store.nights.add_values(stored.id, "EQUIVALENT", values)
    entry = {
        "name": workload, "state": "measured", "outcome": "EQUIVALENT", "campaign": stored.id, "acked": None,
        "metrics": [],
    }  # fmt: skip
    night = {
        "started_at": stored.created_at,
        "head": {"commit": run.commit_sha},
        "workloads": [entry],
        "searches": [],
        "notices": [{"text": f"MACHINE MOVED {EVIL}"}],
    }
    store.nights.put(
        StoredNight(
            id=run.night, started_at=run.started_at, status="finished", commit_sha=run.commit_sha, document=night
        )
    )


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "results.db") as opened:
        for number in range(3):
            add_night(opened, number)
        yield opened


def test_a_second_time_nothing_is_written_and_one_more_campaign_rewrites_only_what_shows_it(store, tmp_path):
    site = tmp_path / "site"
    first = write_site(store, site)
    # Three campaigns, one series, index, campaigns, its month, workloads, machines.
    assert (first.num_pages, first.num_written, first.num_removed) == (9, 9, 0)
    before = {path: path.stat().st_mtime_ns for path in site.rglob("*.html")}
    assert write_site(store, site).num_written == 0
    assert {path: path.stat().st_mtime_ns for path in site.rglob("*.html")} == before
    add_night(store, 3)
    third = write_site(store, site)
    changed = {path.relative_to(site).as_posix() for path in site.rglob("*.html") if before.get(path) != mtime(path)}
    lists = {"index.html", "campaigns.html", "campaigns-2026-01.html", "workloads.html", "machines.html"}
    assert changed == {*lists, "series/moe.html", "campaigns/c-0003.html"}
    assert (third.num_pages, third.num_written) == (10, 7)


def mtime(path):
    return path.stat().st_mtime_ns


def test_a_further_verdict_makes_the_page_again_and_a_pruned_campaign_loses_it(store, tmp_path):
    site = tmp_path / "site"
    write_site(store, site)
    store.add_verdict("c-0001", comparison(id="c-0001", machine={}, outcome="REGRESSION", sentence="Head is slower."))
    write_site(store, site)
    assert "Head is slower" in (site / "campaigns" / "c-0001.html").read_text()
    store.db.execute("DELETE FROM campaigns WHERE id = 'c-0002'")
    assert write_site(store, site).num_removed == 1
    assert not (site / "campaigns" / "c-0002.html").exists()
    assert "c-0002" not in (site / "index.html").read_text()


def test_a_page_that_somebody_removed_comes_back(store, tmp_path):
    site = tmp_path / "site"
    write_site(store, site)
    (site / "campaigns" / "c-0001.html").unlink()
    (site / "index.html").unlink()
    assert write_site(store, site).num_written == 2


def test_every_link_of_every_page_leads_to_a_page(store, tmp_path):
    site = tmp_path / "site"
    write_site(store, site)
    pages = list(site.rglob("*.html"))
    links = {(page, link) for page in pages for link in re.findall(r'<a [^>]*href="([^"#][^"]*)"', page.read_text())}
    inner = {(page, link) for page, link in links if not link.startswith("data:")}
    assert len(inner) > 20
    assert [(page.name, link) for page, link in inner if not (page.parent / link).resolve().is_file()] == []


def test_foreign_text_is_text_on_every_page_and_in_every_file_name(store, tmp_path):
    add_night(store, 5, workload=f"../../{EVIL}")
    site = tmp_path / "site"
    write_site(store, site)
    for page in site.rglob("*.html"):
        assert "<script" not in page.read_text()
    assert {path.parent for path in site.rglob("*.html")} == {site, site / "campaigns", site / "series"}
    assert "&lt;script&gt;" in (site / "index.html").read_text()


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", ".hidden", "a/b", "", "é", "x" * 101, "a\nb"])
def test_a_name_that_could_lead_elsewhere_becomes_letters_and_a_digest(name):
    assert re.fullmatch(r"[A-Za-z0-9-]*-[0-9a-f]{12}", file_name(name))
    assert file_name(name) != file_name(f"{name}1")


def test_an_id_of_ours_keeps_its_name():
    assert campaign_path("20270102-020311-4be1") == "campaigns/20270102-020311-4be1.html"


def test_a_folder_of_somebody_else_is_left_alone(store, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("years")
    with pytest.raises(UsageError, match="no site of perfguard's"):
        write_site(store, other)
    assert [path.name for path in other.iterdir()] == ["thesis.txt"]


def test_a_manifest_that_somebody_edited_removes_nothing_outside(store, tmp_path):
    site, kept = tmp_path / "site", tmp_path / "kept.html"
    write_site(store, site)
    kept.write_text("kept")
    names = json.loads((site / MANIFEST).read_text())
    (site / MANIFEST).write_text(json.dumps({**names, "../kept.html": "x", str(kept): "x"}))
    write_site(store, site)
    assert kept.exists()


def test_a_public_site_tells_no_machine(store, tmp_path):
    write_site(store, tmp_path / "private")
    write_site(store, tmp_path / "public", is_public=True)
    assert "H200" in (tmp_path / "private" / "machines.html").read_text()
    assert "H200" not in (tmp_path / "public" / "machines.html").read_text()
