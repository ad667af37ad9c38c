"""`[nightly]` of perfguard.toml and the command line: checked before anything is measured."""

import re

import pytest

from perfguard.config import load
from perfguard.errors import UsageError
from perfguard.nightly.wishes import wishes_of

CONFIG = """[workload.quick]
based_on = "fake"
[nightly]
"""


def wishes(folder, table, **more):
    (folder / "perfguard.toml").write_text(CONFIG + table)
    return wishes_of(load(folder), **more)


@pytest.mark.parametrize(("table", "message"), [
    ('workloads = ["quick"]\nbudgt = "4h"', "unknown key 'budgt'; did you mean 'budget'"),
    ('workloads = ["quik"]', "no workload 'quik'; did you mean 'quick'"),
    ('workloads = "quick"', "workloads = 'quick' is not a list of names"),
    ('workloads = ["quick"]\nbudget = 4', "budget = 4 is not a str"),
    ('workloads = ["quick"]\nbudget = "soon"', "'soon' is not a duration"),
    ('workloads = ["quick"]\nonly_changed = 1', "only_changed = 1 is not a bool"),
    ('', "names no workloads"),
])  # fmt: skip
def test_a_wrong_nightly_table_is_refused_before_anything_is_measured(tmp_path, table, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        wishes(tmp_path, table)


def test_the_command_line_goes_before_the_file(tmp_path):
    table = (
        'workloads = ["quick", "fake", "quick"]\nbudget = "4h"\nonly_changed = true\nbisect = false\nreference = "v1"\n'
    )
    of_file = wishes(tmp_path, table)
    assert [workload.name for workload in of_file.workloads] == ["quick", "fake"]
    assert (of_file.budget_s, of_file.only_changed, of_file.is_searching) == (14_400, True, False)
    assert of_file.reference == "v1"
    asked = wishes(tmp_path, table, names=["fake"], budget="20m")
    assert ([workload.name for workload in asked.workloads], asked.budget_s) == (["fake"], 1200)
    assert wishes(tmp_path, 'workloads = ["fake"]', no_bisect=True).is_searching is False
