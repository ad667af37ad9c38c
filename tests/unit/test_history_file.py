"""`perfguard history --csv`: what is read, what is refused, what is shown."""

import json

import pytest

from perfguard import cli

HEAD = "time,commit,metric,value"


def csv_of(tmp_path, lines: list[str], head: str = HEAD):
    path = tmp_path / "nights.csv"
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def rows(count: int, step_at: int) -> list[str]:
    values = [100 + (day % 3) * 0.1 - (5 if day >= step_at else 0) for day in range(count)]
    return [f"2026-{1 + d // 28:02d}-{1 + d % 28:02d},c{d},tps,{value}" for d, value in enumerate(values)]


def test_json_of_a_csv_has_the_documented_shape(tmp_path, capsys):
    path = csv_of(tmp_path, rows(60, 40))
    assert cli.run(["history", "--csv", str(path), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "perfguard/history@1"
    (series,) = found["series"]
    assert series["points"] == 60
    (change,) = series["change_points"]
    assert (change["index"], change["time"], change["commit"]) == (40, "2026-02-13", "c40")
    assert (change["before"], change["after"]) == (100.1, 95.1)


def test_rows_in_any_order_and_missing_nights_are_read_by_time(tmp_path, capsys):
    lines = rows(60, 40)
    lines[10] = "2026-01-11,c10,tps,"
    cli.run(["history", "--csv", str(csv_of(tmp_path, lines[::-1])), "--json", "-"])
    (series,) = json.loads(capsys.readouterr().out)["series"]
    assert series["points"] == 59
    assert [change["commit"] for change in series["change_points"]] == ["c40"]


def test_the_terminal_shows_the_series_its_change_and_its_window(tmp_path, capsys):
    assert cli.run(["history", "--csv", str(csv_of(tmp_path, rows(60, 40)))]) == 0
    said = capsys.readouterr().out
    assert "60 nights, 2026-01-01 to 2026-03-04" in said
    assert "c39..c40" in said
    assert "-5.0 % (better)" in said
    assert max(map(len, said.splitlines())) <= 100


@pytest.mark.parametrize(
    ("lines", "head", "message"),
    [
        (["2026-01-01,c,tps,0"], HEAD, "nights.csv:2: value '0' is not a positive number"),
        (["2026-01-01,c,tps,-1"], HEAD, "value '-1' is not a positive number"),
        (["2026-01-01,c,tps,nan"], HEAD, "value 'nan' is not a positive number"),
        (["2026-01-01,c,tps,inf"], HEAD, "value 'inf' is not a positive number"),
        (["2026-01-01,c,tps,fast"], HEAD, "value 'fast' is not a positive number"),
        (["2026-01-01,c,tps,1,0"], f"{HEAD},reference", "reference '0' is not a positive number"),
        (["yesterday,c,tps,1"], HEAD, "nights.csv:2: time 'yesterday' is not like"),
        (["2026-01-01,c,,1"], HEAD, "nights.csv:2: no metric"),
        ([], "time,value", "no column commit, metric"),
    ],
)
def test_what_is_no_night_is_refused_with_its_line(tmp_path, capsys, lines, head, message):
    assert cli.run(["history", "--csv", str(csv_of(tmp_path, lines, head))]) == 2
    assert message in capsys.readouterr().err
