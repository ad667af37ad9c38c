"""The HTML page in a real browser: no error, no request, nothing wider than a phone."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from perfguard.report.bisect_page import bisect_html
from perfguard.report.html import comparison_html
from tests.unit.report_cases import THROUGHPUT, TPOT, comparison, trial
from tests.unit.test_report_bisect import document, entry

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
# An error on the page, or anything it asks for, is written to the log.
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--virtual-time-budget=2000", "--enable-logging=stderr", "--log-level=0", "--allow-file-access-from-files"),
)
# The page as a frame of a given width: it runs no script itself, so that what is around it measures it.
FRAME = """<!doctype html><iframe id="f" style="width:{width}px;height:900px;border:0" srcdoc="{page}"></iframe>
<pre id="out"></pre><script>
f.onload = () => {{ const d = f.contentDocument, r = d.documentElement;
  out.textContent = JSON.stringify({{scroll: r.scrollWidth, client: r.clientWidth, title: d.title,
    resources: f.contentWindow.performance.getEntriesByType("resource").map(e => e.name),
    text: d.body.innerText, marks: d.querySelectorAll("svg .base, svg .head").length}}); }};
</script>"""


def campaign_of_40_blocks() -> str:
    metrics = [{**THROUGHPUT, "name": f"metric_{n}"} for n in range(4)] + [TPOT]
    trials = [
        trial(1, block, slot, side, 0.01, values={m["name"]: 0.01 + (block + slot) * 1e-5 for m in metrics})
        for block in range(40)
        for slot, side in enumerate(("base", "head", "head", "base"))
    ]
    return comparison_html(comparison(metrics=metrics), trials)


def opened(tmp_path: Path, page: str, width: int) -> tuple[dict, str]:
    """What the browser saw, and its log."""
    outer = tmp_path / "outer.html"
    outer.write_text(FRAME.format(width=width, page=html.escape(page, quote=True)))
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width + 40},1000"]
    done = subprocess.run([*command, "--dump-dom", outer.as_uri()], capture_output=True, text=True, timeout=120)
    found = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stderr[-2000:]
    return json.loads(html.unescape(found.group(1))), done.stderr


@pytest.mark.parametrize("width", [390, 1400])
def test_a_large_campaign_fits_the_width_and_asks_for_nothing(tmp_path, width):
    page = campaign_of_40_blocks()
    assert len(page.encode()) < 3_000_000
    seen, log = opened(tmp_path, page, width)
    assert "CONSOLE" not in log
    assert seen["resources"] == []
    assert seen["scroll"] <= seen["client"]
    assert seen["marks"] == 5 * 160
    for words in ("✗ REGRESSION", "Can:", "metric_3", "How to reproduce", "Download as CSV"):
        assert words in seen["text"]


def test_a_hostile_page_runs_nothing(tmp_path):
    evil = "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
    page = comparison_html(comparison(sentence=evil, next=evil), [trial(1, 0, 0, "base", 0.01)])
    seen, log = opened(tmp_path, page, 390)
    assert "owned" not in seen["title"]
    assert "document.title='owned'" in seen["text"]
    assert "CONSOLE" not in log


@pytest.mark.parametrize("width", [390, 1400])
def test_the_page_of_a_bisect_fits_the_width_asks_for_nothing_and_runs_nothing(tmp_path, width):
    evil = "<script>document.title='owned'</script>" * 3
    posterior = [{**entry(n, 0.99 * (n == 7)), "subject": evil} for n in range(20)]
    readings = [
        {"number": n, "commit": posterior[n]["commit"], "position": n + 1, "order": "AB", "slowdown": 1 + 0.1 * (n > 6)}
        for n in range(20)
    ]
    page = bisect_html(document(posterior, readings=readings, culprit=posterior[7]["commit"], sentence=evil))
    seen, log = opened(tmp_path, page, width)
    assert "CONSOLE" not in log
    assert seen["resources"] == []
    assert seen["scroll"] <= seen["client"]
    assert seen["marks"] == 20
    assert not seen["title"].startswith("owned")
    assert "nothing changed" in seen["text"]
