"""--clocks and --sm-clock: where they may stand, what perfguard.toml says, what an old campaign had."""

from dataclasses import asdict

import pytest

from perfguard.cli.asking import policy_of
from perfguard.config import Config, load
from perfguard.errors import UsageError
from perfguard.policy import Policy, stored_policy


def test_nobody_s_clocks_are_locked_unasked():
    assert policy_of(Config()).clocks == "observe"


def test_the_command_line_goes_before_the_file(tmp_path):
    (tmp_path / "perfguard.toml").write_text('[policy]\nclocks = "lock"\nsm_clock_mhz = 1485\n')
    config = load(tmp_path)
    assert (config.policy.clocks, config.policy.sm_clock_mhz) == ("lock", 1485)
    changed = policy_of(config, clocks="require", sm_clock=1500)
    assert (changed.clocks, changed.sm_clock_mhz) == ("require", 1500)
    assert policy_of(config, sm_clock=1500).clocks == "lock"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('clocks = "look"', "clocks = 'look' is not observe, lock or require"),
        ("clocks = 1", "clocks = 1 is not a str"),
        ("sm_clock_mhz = -5", "sm_clock_mhz = -5 is not 0"),
        ('margin = "observe"', "margin = 'observe' is not a float"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path, text, said):
    (tmp_path / "perfguard.toml").write_text(f"[policy]\n{text}\n")
    with pytest.raises(UsageError, match=said):
        load(tmp_path)


def test_a_clock_to_lock_without_a_lock_is_a_usage_error():
    with pytest.raises(UsageError, match="clocks are only observed") as error:
        policy_of(Config(), sm_clock=1500)
    assert error.value.next_step == "--clocks lock"


def test_a_campaign_stored_before_clocks_could_be_locked_observed_them():
    old = {name: value for name, value in asdict(Policy()).items() if "clock" not in name}
    assert stored_policy(old).clocks == "observe"
