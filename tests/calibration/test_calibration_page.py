"""The benchmark behind docs/calibration.md: its limits, its targets, its real launches, and a small run of it whole."""

import json
from itertools import pairwise

import numpy as np
import pytest
import scipy.stats

from benchmarks.verdicts.catalogue import FIRST_GROUP, REAL_SD, SECOND_GROUP
from benchmarks.verdicts.cells import PeerCell, Results, Tally, add, load, save
from benchmarks.verdicts.engine import draw_batch
from benchmarks.verdicts.grid import MANY, OUR_CELLS, PEER_CELLS, tasks
from benchmarks.verdicts.limits import clopper_pearson, rate, trials
from benchmarks.verdicts.resampled import launch_residuals, measured_sd, real_launches
from benchmarks.verdicts.simulate import main
from benchmarks.verdicts.targets import Row, targets_table
from perfguard.policy import Policy
from perfguard.stats.design import rules_of


@pytest.mark.parametrize(("count", "num"), [(0, 20_000), (3, 20_000), (997, 1000), (1000, 1000), (7, 12)])
def test_limits_of_a_rate_are_scipys_exact_ones(count, num):
    expected = scipy.stats.binomtest(count, num).proportion_ci(0.95, method="exact")
    assert clopper_pearson(count, num) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_a_rate_shows_its_limits_and_none_seen_its_upper_one():
    tally = Tally(num=20_000, outcomes={"REGRESSION": 3, "EQUIVALENT": 19_997})
    assert rate(tally, "REGRESSION") == "0.015 (0.0031–0.044)"
    assert rate(tally, "IMPROVEMENT") == "0 (< 0.018)"


def test_mean_trials_show_half_their_interval():
    # 8, 8, 8, 16: mean 10, variance 12, standard error sqrt(12 / 4) = 1.732.
    tally = Tally(num=4, outcomes={}, trials=40, squares=3 * 64 + 256)
    assert trials(tally) == "10.0 ± 3.4"


@pytest.mark.parametrize(
    ("measured", "limit", "is_at_most", "verdict"),
    [
        (0.05, 0.09, True, "holds"),
        (0.05, 0.11, True, "holds, its limit does not"),
        (0.11, 0.2, True, "**missed**"),
        (0.2, 0.15, False, "holds"),
        (0.2, 0.05, False, "holds, its limit does not"),
        (0.05, 0.01, False, "**missed**"),
    ],
)
def test_a_target_is_judged_by_the_number_and_by_the_bad_end_of_its_interval(measured, limit, is_at_most, verdict):
    row = Row(what="x", bound=0.1, is_at_most=is_at_most, measured=measured, limit=limit, unit="%")
    assert row.verdict == verdict
    assert verdict in targets_table([row])[-1]


def test_real_launches_keep_their_order_in_runs_and_the_size_that_is_asked():
    pool = launch_residuals()
    assert len(pool) == 22
    assert pool.std() == pytest.approx(1.0)
    batch = draw_batch(100, rules_of(Policy(), 1), 0.01, np.random.default_rng(1), 2)
    noise = real_launches(batch, np.random.default_rng(2)).reshape(100, -1) / 0.01
    assert noise.std() == pytest.approx(1.0, abs=0.05)
    followers = {(a, b) for a, b in zip(pool.round(9), np.roll(pool, -1).round(9), strict=True)}
    runs = noise.round(9).reshape(-1, 4)
    assert all((a, b) in followers for run in runs[:50] for a, b in pairwise(run))


def test_the_launch_noise_of_the_file_is_what_its_settings_vary_by():
    # Worked out apart from the file's medians: pooled within default, default_again, ll, p2p_off, simple.
    assert measured_sd() == pytest.approx(0.00164, abs=5e-6)
    assert pytest.approx(measured_sd(), abs=5e-5) == REAL_SD


def test_the_groups_hold_every_scenario_that_was_asked_for():
    wanted = {"iid", "drift", "session offset", "sticky clocks", "AR(1)", "outliers", "periodic neighbour"}
    assert wanted | {"per-build luck", "real launches"} <= set(FIRST_GROUP)
    assert {"carry-over", "head heats the machine", "head 3x noisier"} <= set(SECOND_GROUP)


def test_tasks_are_what_is_missing_and_nothing_else():
    counts = {"count": 1500, "false_count": 3000, "peer_count": 1000}
    work = list(tasks(Results(), **counts))
    plain = len(OUR_CELLS) - len(MANY)
    assert sum(num for _, _, num in work) == 3000 * len(MANY) + 1500 * plain + 1000 * len(PEER_CELLS)
    done = Results()
    for cell, start, num in work[:-1]:
        tallies = done.peers if isinstance(cell, PeerCell) else done.ours
        before = tallies.get(cell.key, Tally(num=0, outcomes={}))
        assert before.num == start
        tallies[cell.key] = add(before, Tally(num=num, outcomes={}))
    assert list(tasks(done, **counts)) == work[-1:]


def test_stored_cells_of_another_state_of_the_code_are_not_used(tmp_path):
    path = tmp_path / "cells.json"
    results = Results(ours={"x": Tally(num=1, outcomes={"EQUIVALENT": 1}, trials=8, squares=64)}, speed={"s": 1.0})
    save(path, results)
    assert load(path) == results
    stored = json.loads(path.read_text(encoding="utf-8"))
    stored["fingerprints"]["ours"] = "other"
    path.write_text(json.dumps(stored), encoding="utf-8")
    assert load(path) == Results()


def test_a_small_run_writes_the_whole_page_and_goes_on_where_it_stopped(tmp_path, capsys):
    cells, out = tmp_path / "cells.json", tmp_path / "calibration.md"
    small = ["--count", "2", "--false-count", "2", "--peer-count", "2", "--jobs", "1", "--no-pictures"]
    main([*small, "--cells", str(cells), "--out", str(out)])
    first = load(cells)
    assert {tally.num for tally in (*first.ours.values(), *first.peers.values())} == {2}
    text = out.read_text(encoding="utf-8")
    assert "| **perfguard** |" in text
    assert "pictures/calibration_power.svg" in text
    assert "nan" not in text
    assert max(len(line) for line in text.splitlines() if not line.startswith(("|", "#"))) <= 120
    capsys.readouterr()
    main([*small, "--cells", str(cells), "--out", str(out)])
    assert "more" not in capsys.readouterr().out
    assert load(cells) == first
    assert out.read_text(encoding="utf-8") == text


def test_the_pictures_are_drawn_alike_from_the_same_numbers(tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks.verdicts.plots import FALSE_ALARMS, POWER, TRIALS, draw

    results = Results(
        ours={cell.key: Tally(num=10, outcomes={"REGRESSION": 3}, trials=80, squares=640) for cell in OUR_CELLS},
        peers={cell.key: Tally(num=10, outcomes={"changed": 4}) for cell in PEER_CELLS},
    )
    texts = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        assert [path.name for path in draw(results, folder)] == [FALSE_ALARMS, POWER, TRIALS]
        texts.append([(folder / picture).read_text(encoding="utf-8") for picture in (FALSE_ALARMS, POWER, TRIALS)])
    assert texts[0] == texts[1]
    assert "per-build luck" in texts[0][0]
