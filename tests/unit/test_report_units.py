"""Numbers as people read them."""

import pytest

from perfguard.report import units


@pytest.mark.parametrize(
    ("amount", "unit", "expected"),
    [
        (1.5, "s", "1.500 s"),
        (0.0012334, "s", "1.233 ms"),
        (9.97e-6, "s", "9.970 µs"),
        (3e-10, "s", "0.3000 ns"),
        (-0.25, "s", "-250.0 ms"),
        (0.0, "s", "0 s"),
        (82.1, "token/s", "82.10 token/s"),
        (12345.6, "token/s", "12,346 token/s"),
        (9.99996, "token/s", "10.00 token/s"),
        (99995.0, "token/s", "99,995 token/s"),
        (1536 * 2**20, "bytes", "1.500 GiB"),
        (15, "bytes", "15 B"),
        (2.75, "1", "2.750"),
        (1e-7, "1", "1.000e-07"),
        (float("nan"), "s", "nan ns"),
        (None, "s", "–"),
    ],
)
def test_a_value_gets_a_scale_at_which_it_reads_well(amount: float | None, unit: str, expected: str) -> None:
    assert units.value(amount, unit) == expected


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (1.031, "+3.1 %"),
        (0.969, "-3.1 %"),
        (1.27, "+27.0 %"),
        (1.0005, "+0.05 %"),
        (0.99999999, "0.00 %"),
        (1.0, "0.00 %"),
        (1.00996, "+1.0 %"),
        (1.00994, "+0.99 %"),
        (None, "–"),
    ],
)
def test_a_slowdown_is_a_signed_percentage_with_two_decimals_below_one(ratio: float | None, expected: str) -> None:
    assert units.slowdown(ratio) == expected


def test_an_interval_names_both_ends_or_says_that_it_is_missing() -> None:
    assert units.interval(0.997, 1.035) == "-0.30 to +3.5 %"
    assert units.interval(None, 1.035) == "–"


@pytest.mark.parametrize(
    ("amount", "expected"),
    [(4096.0, "4,096"), (4096, "4,096"), (1e308, "1e+308"), (0.1 + 0.2, "0.30000000000000004"), (None, "–")],
)
def test_an_exact_number_shows_every_digit(amount: float | None, expected: str) -> None:
    assert units.exact(amount) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.25, "0.25 s"),
        (8.0, "8 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (200.0, "3 min 20 s"),
        (3599.6, "1 h"),
        (7500.0, "2 h 5 min"),
    ],
)
def test_a_duration_reads_in_the_units_of_a_clock(seconds: float, expected: str) -> None:
    assert units.duration(seconds) == expected


def test_shares_and_probabilities_are_short() -> None:
    assert (units.share(0.02), units.share(0.0125), units.share(None)) == ("2 %", "1.25 %", "–")
    assert (units.probability(1 / 1296), units.probability(1.0), units.probability(None)) == ("0.00077", "1", "–")


@pytest.mark.parametrize(
    ("base", "head", "expected"),
    [
        (1.7642857142857142, 1.7642857142857142, ("1.76429", "1.76429")),
        (1.7642857142857142, 1.4457831325301205, ("1.76429", "1.44578")),
        (2.1234567, 2.1234568, ("2.1234567", "2.1234568")),
        (2.0, 12345678.0, ("2", "12,345,678")),
        (None, 2.5, ("–", "2.5")),
    ],
)
def test_exact_numbers_are_short_where_that_tells_them_apart(base, head, expected):
    assert units.told_apart(base, head) == expected
