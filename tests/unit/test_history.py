"""Nights to series: ratios, pins that overlap, machines that cut, notices apart from changes."""

import random

import pytest

from perfguard.history import Night, Track, history_json, series_of

SEED = 7


def nights(count: int, *, level: float = 100.0, reference: float | None = None, **more) -> list[Night]:
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    return [
        Night(
            time=f"2026-{1 + day // 28:02d}-{1 + day % 28:02d}T02:00:00+00:00",
            commit=f"c{day}",
            value=level * rng.gauss(1, 0.002),
            reference=reference,
            **more,
        )
        for day in range(count)
    ]


def track(all_nights: list[Night]) -> Track:
    return Track(metric="tokens_per_second", better="higher", nights=tuple(all_nights))


def slower_from(day: int, all_nights: list[Night], factor: float = 0.97) -> list[Night]:
    return [Night(**{**vars(n), "value": n.value * factor}) if i >= day else n for i, n in enumerate(all_nights)]


def test_a_step_names_the_nights_on_both_sides_of_it():
    (series,) = series_of(track(slower_from(40, nights(60))))
    (change,) = series.changes
    assert (change.last_before.commit, change.first_after.commit) == ("c39", "c40")
    assert change.point.change == pytest.approx(-0.03, abs=0.002)


def test_a_machine_that_moves_both_sides_steps_in_no_ratio_and_is_told_apart():
    moved = [
        Night(**{**vars(n), "value": n.value * f, "reference": 100.0 * f})
        for i, n in enumerate(nights(60))
        for f in ((0.9 if i >= 30 else 1.0),)
    ]
    (series,) = series_of(track(moved))
    assert series.changes == ()
    (notice,) = series.notices
    assert notice.startswith("MACHINE MOVED: the reference's own tokens_per_second went from 100 to 90 (-10.0%)")
    assert moved[30].time in notice


def test_another_machine_cuts_the_series_instead_of_stepping_in_it():
    two = nights(30, machine="a") + slower_from(0, nights(30, machine="b"), 0.8)
    first, second = series_of(track(two))
    assert (first.machine, second.machine) == ("a", "b")
    assert first.changes == second.changes == ()
    assert "goes on on another machine" in second.notices[0]


def test_overlapping_pins_join_without_a_step():
    old = nights(33, pin="old", reference=100.0)
    new = [Night(**{**vars(n), "pin": "new", "reference": 120.0}) for n in nights(60)[30:]]
    (series,) = series_of(track(old + new))
    assert len(series.points) == 60
    assert series.changes == ()
    assert series.notices == ()


def test_pins_without_a_night_of_both_are_said():
    old = nights(30, pin="old", reference=100.0)
    new = [Night(**{**vars(n), "pin": "new", "reference": 100.0}) for n in nights(60)[30:]]
    (series,) = series_of(track(old + new))
    assert "without a night of both" in series.notices[0]


def test_the_json_says_where_how_much_and_how_sure():
    (series,) = history_json(series_of(track(slower_from(40, nights(60)))))["series"]
    assert (series["metric"], series["points"], len(series["nights"])) == ("tokens_per_second", 60, 60)
    (change,) = series["change_points"]
    assert (change["index"], change["commit"], change["last_good"]) == (40, "c40", "c39")
    assert 0 < change["p_value"] < 0.001
    assert change["probability"] == 1 - change["p_value"]


def test_nights_without_a_reference_are_left_out_beside_those_that_have_one():
    # 100 against 100 before, 100 as it is after: as one series that would be a step from 1 to 100.
    mixed = nights(30, reference=100.0) + nights(60)[30:]
    (series,) = series_of(track(mixed))
    assert [point.night for point in series.points] == mixed[:30]
    assert series.changes == ()
    assert series.notices == ("30 nights have no reference beside others that do: left out",)


def test_a_series_without_any_reference_takes_values_as_they_are():
    (series,) = series_of(track(nights(30)))
    assert [point.value for point in series.points] == [night.value for night in nights(30)]
    assert series.notices == ()


def test_each_machine_decides_for_itself_whether_it_has_references():
    first, second = series_of(track(nights(30, machine="a") + nights(30, machine="b", reference=100.0)))
    assert (len(first.points), len(second.points)) == (30, 30)
