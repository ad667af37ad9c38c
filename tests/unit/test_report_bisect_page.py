"""A bisect as a page: what is drawn where, nothing foreign as markup, searches inside merges."""

import base64
import json
import re

import pytest
from test_report_bisect import document, entry

from perfguard.report.bisect_page import bisect_html, probability_plot, readings_plot

POSTERIOR = [entry(1, 0.01, readings=1), entry(2, 0.99, readings=2), entry(3, 0.0, status="unbuildable")]
EVIL = "<script>document.title='owned'</script>"


def reading(number, place, slowdown):
    commit = POSTERIOR[place - 1]["commit"]
    return {"number": number, "commit": commit, "position": place, "order": "AB", "slowdown": slowdown}


@pytest.fixture
def bisect():
    readings = [reading(0, 1, 1.0), reading(1, 2, 1.5), reading(2, 2, None)]
    return document(POSTERIOR, readings=readings, culprit=POSTERIOR[1]["commit"], outcome="CULPRIT", margin=0.25)


def numbers(kind, drawn):
    """Attributes of the marks of one class."""
    return [dict(re.findall(r'(\w+)="([^"]*)"', tag)) for tag in re.findall(f'<[a-z]+ class="{kind}"[^>]*>', drawn)]


def test_readings_stand_by_their_commit_and_height_and_what_has_no_value_is_no_mark(bisect):
    drawn = readings_plot(bisect)
    points = [tuple(map(float, one["points"].split()[0].split(","))) for one in numbers("head", drawn)]
    (first_x, first_y), (second_x, second_y) = points
    # Three commits over 622 px from 78 on: their middles are at a sixth and a half.
    assert (first_x, second_x) == (pytest.approx(78 + 622 / 6, abs=0.01), pytest.approx(78 + 622 / 2))
    # 0 to +50 % are 0.2 + 0.5 apart of 0.7 (the margin's lower end is 1 / 1.25), and 6 % of that at both ends.
    assert first_y - second_y == pytest.approx(0.5 / (0.7 * 1.12) * (196 - 14), abs=0.02)
    assert "reading 2 AB, 200000000000: +50.0 %" in drawn
    (line,) = numbers("stage", drawn)
    assert float(line["x1"]) == pytest.approx(78 + 622 / 3, abs=0.01)  # between the first commit and the culprit


def test_a_bar_is_as_long_as_its_probability_and_the_culprit_has_another_colour_and_a_sign(bisect):
    drawn = probability_plot(bisect)
    lengths = [float(one["width"]) for one in numbers("part0", drawn)]
    assert lengths == [pytest.approx(0.25 * 270), pytest.approx(2.7), 1.0]  # nothing changed, the first, the last
    (culprit,) = numbers("part1", drawn)
    assert float(culprit["width"]) == pytest.approx(0.99 * 270)
    assert "✗ 200000000000" in drawn
    assert "u 300000000000" in drawn


def test_nothing_read_or_searched_is_drawn_as_nothing(bisect):
    bare = {**bisect, "readings": [reading(0, 1, None)], "posterior": [], "culprit": None}
    assert (readings_plot(bare), probability_plot(bare)) == ("", "")
    assert "<svg" not in bisect_html(bare)


def test_a_page_holds_the_answer_the_search_inside_a_merge_the_next_command_and_the_document(bisect):
    inner = {**bisect, "id": "b-0002", "merge": "d" * 40, "further": [{**bisect, "id": "b-0003"}]}
    outer = {**bisect, "inside": inner}
    page = bisect_html(outer, home="../index.html")
    assert page.count("<svg") == 4
    assert f"Inside merge {'d' * 12}: " in page
    assert "Log of b-0002" in page
    assert "(b-0003)" in page  # what was searched further, inside the merge
    assert "<code>perfguard show b-0001</code>" in page
    assert 'class="verdict culprit"' in page
    assert '<a href="../index.html">' in page
    (held,) = re.findall(r'download="b-0001.json" href="data:[^"]*base64,([^"]*)"', page)
    assert json.loads(base64.b64decode(held)) == outer


def test_what_others_wrote_is_text(bisect):
    posterior = [{**POSTERIOR[0], "subject": EVIL}, *POSTERIOR[1:]]
    page = bisect_html({**bisect, "posterior": posterior, "sentence": EVIL, "next": EVIL})
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_a_subject_of_megabytes_is_cut_on_the_page_and_in_what_it_carries(bisect):
    posterior = [{**POSTERIOR[0], "subject": "x" * 2_000_000}, *POSTERIOR[1:]]
    assert len(bisect_html({**bisect, "posterior": posterior})) < 100_000
