"""The pages of a site in a real browser: no error, no request, nothing wider than a phone."""

import pytest

from perfguard.history import Night, Track, history_json, series_of
from perfguard.report import site
from perfguard.report.site import Cell
from tests.pages.test_html_in_chromium import CHROMIUM, opened

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
EVIL = "<script>document.title='owned'</script>" + "long" * 100


def series_page() -> str:
    """Sixty nights with a step, on a machine with a long name."""
    nights = [
        Night(
            time=f"2026-{1 + k // 28:02d}-{1 + k % 28:02d}T02:00:00+00:00",
            commit=f"{k:040x}",
            value=(1.03 if k >= 40 else 1.0) * (1 + k * 7 % 5 * 1e-4),
            reference=1.0 + k * 3 % 7 * 1e-4,
            machine="m" * 64,
            campaign=f"c{k}",
        )
        for k in range(60)
    ]
    history = history_json(series_of(Track(metric="tpot", unit="s", workload=EVIL, nights=nights)))["series"]
    drawn = [site.drawn({**one, "notices": [f"MACHINE MOVED {EVIL}"]}, "../", frozenset()) for one in history]
    rows = [(Cell(text=EVIL, href="x.html"), Cell(text="2026-03-01 02:00"), Cell(text="✗ REGRESSION"))] * 5
    tables = [site.table("Nights", ("workload", "night", "outcome"), rows)]
    return site.page(f"Series of {EVIL}", root="../", drawn=drawn, tables=tables)


@pytest.mark.parametrize("width", [390, 1400])
def test_a_page_of_the_site_fits_the_width_and_asks_for_nothing(tmp_path, width):
    seen, log = opened(tmp_path, series_page(), width)
    assert "CONSOLE" not in log
    assert seen["resources"] == []
    assert seen["scroll"] <= seen["client"]
    assert seen["marks"] == 2 * 60
    assert not seen["title"].startswith("owned")
    for words in ("Overview", "▲ begins a new level", "+3.0 % (worse)", "✗ REGRESSION"):
        assert words in seen["text"]
