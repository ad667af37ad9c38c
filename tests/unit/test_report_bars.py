"""Lines of blocks: eight equal steps, gaps for what is unknown."""

from perfguard.report.bars import bars


def test_each_eighth_of_the_range_has_its_block_and_the_ends_are_the_lowest_and_the_highest():
    assert bars([place / 8 for place in range(9)], 0, 1) == "▁▂▃▄▅▆▇██"
    assert bars([10.0, 12.0], 10.0, 12.0) == "▁█"


def test_what_is_unknown_is_a_gap_and_a_constant_lies_in_the_middle():
    assert bars([None, 5.0, None, 5.0], 5.0, 5.0) == " ▅ ▅"
