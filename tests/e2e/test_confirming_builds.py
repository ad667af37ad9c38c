"""Fresh builds of a confirmation as processes: made just before their block, each run by one trial, gone after it."""

from cli_support import rows

# A benchmark that writes down which folder it ran in, and how many builds there were then.
BENCH = """\
basename "$(dirname "$PWD")" >> "$SEEN"
ls -d ../../*/tree | wc -l >> "$SEEN"
echo '{{"seconds": {seconds}}}'
"""


def test_every_confirming_trial_has_a_build_of_its_own_that_is_there_for_its_block_only(project):
    project.commit({"perfguard.toml": "[policy]\npause_share = 0\n", "bench.sh": BENCH.format(seconds=1.0)})
    project.commit({"bench.sh": BENCH.format(seconds=1.5)})
    seen = project.folder / "seen"
    words = ("--metric", "seconds", "--better", "lower", "--env", f"SEEN={seen}")
    comparison = project.compare(*words, "--", "sh", "bench.sh", code=1)
    assert comparison["outcome"] == "REGRESSION"
    (plans,) = zip(*rows(project.db, "SELECT builds FROM blocks WHERE stage = 2 ORDER BY block"), strict=True)
    assert len(plans) == 3  # two blocks and a spare one
    assert [set(text) for text in plans] == [set("23"), set("45"), set("67")]
    folders, counts = seen.read_text().splitlines()[::2], list(map(int, seen.read_text().splitlines()[1::2]))
    # A first run and two blocks in build 1 of each side, then twice: four builds, a first run each, and their block.
    assert len(folders) == 10 + 2 * 8
    first, second = folders[10:18], folders[18:]
    for block in (first, second):
        assert sorted(block[:4]) == sorted(block[4:])
        assert len(set(block)) == 4
    assert len({*folders[:10], *first, *second}) == 10
    # Build 1 of both sides stays; of the others never more than those of one block are there.
    assert max(counts[:10]) == 2
    assert max(counts) == 6
