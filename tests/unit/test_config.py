"""perfguard.toml and options of the command line: what they mean, and the errors for what they cannot mean."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfguard.config import COMMAND_LINE, load, parse_duration_s, parse_pairs, parse_params, parse_ratio, with_policy
from perfguard.errors import UsageError
from perfguard.policy import Policy
from perfguard.workloads import BUILT_IN


@pytest.fixture
def toml(tmp_path):
    def write(text):
        (tmp_path / "perfguard.toml").write_text(text)
        return load(tmp_path)

    return write


def test_without_a_file_there_is_what_perfguard_brings(tmp_path):
    config = load(tmp_path)
    assert (sorted(config.workloads), config.policy, config.path) == (sorted(w.name for w in BUILT_IN), Policy(), None)


def test_a_workload_of_ones_own_is_read_with_all_it_says(toml):
    config = toml(
        """
        [workload.decode]
        command = "python bench.py --name 'a b'"
        setup = "make"
        read = "json"
        metrics = [
          {name = "tokens_per_s", unit = "token/s", better = "higher"},
          {name = "ttft_s", unit = "s", primary = false},
        ]
        timeout_s = 300

        [workload.decode-tp2]
        based_on = "moe-eagle3"
        params = {tp = 2}

        [policy]
        margin = 0.03
        max_blocks = 12
        """
    )
    decode = config.workloads["decode"]
    assert decode.command == ("python", "bench.py", "--name", "a b")
    assert (decode.setup, decode.read, decode.timeout_s, decode.ready_timeout_s) == ("make", "json", 300.0, 300.0)
    rate, ttft = decode.metrics
    assert (rate.better, rate.primary, ttft.better, ttft.primary) == ("higher", True, "lower", False)
    tp2 = config.workloads["decode-tp2"]
    assert (tp2.name, tp2.runner, tp2.world_size, tp2.params["tokens"]) == ("decode-tp2", "tp_moe", 2, 64)
    assert (config.policy.margin, config.policy.max_blocks, config.policy.alpha) == (0.03, 12, 0.001)
    assert config.path.name == "perfguard.toml"


def test_a_workload_may_be_based_on_one_of_the_same_file(toml):
    config = toml(
        """
        [workload.one]
        command = ["sh", "-c", "true"]
        metrics = [{name = "s"}]
        [workload.two]
        based_on = "one"
        timeout_s = 5
        """
    )
    assert config.workloads["two"].command == ("sh", "-c", "true")
    assert (config.workloads["one"].timeout_s, config.workloads["two"].timeout_s) == (600.0, 5.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[polcy]\n", "unknown key 'polcy'; did you mean 'policy'?"),
        ("[policy]\nmargn = 0.02\n", "unknown key 'margn'; did you mean 'margin'?"),
        ("[policy]\nzzz = 1\n", "unknown key 'zzz'; known: "),
        ("[policy]\nmargin = '2%'\n", "margin = '2%' is not a float"),
        ("[policy]\nmargin = true\n", "margin = True is not a float"),
        ("[policy]\nis_confirmed = 1\n", "is_confirmed = 1 is not a bool"),
        ("[policy]\nmax_blocks = 2.5\n", "max_blocks = 2.5 is not a whole number"),
        ("[policy]\nmargin = 2\n", "margin = 2 is not between 0 and 1"),
        ("[policy]\nalpha = 0.2\n", "alpha = 0.2 is not between 1e-5 and 0.05"),
        ("[policy]\nmin_blocks = 20\n", "max_blocks = 10 is not between 2 and 40 blocks"),
        ("[policy]\nconfirm_builds = 3\n", "confirm_builds = 3 is not an even number between 2 and 120"),
        ("[policy]\nconfirm_builds = 122\n", "confirm_builds = 122 is not an even number between 2 and 120"),
        ("policy = 3\n", "[policy] is not a table"),
        ("[workload]\nx = 3\n", "[workload.x] is not a table"),
        ("[workload.x]\ncomand = 'true'\n", "[workload.x]: unknown key 'comand'; did you mean 'command'?"),
        ("[workload.x]\nmetrics = [{name = 's'}]\n", "[workload.x]: no command"),
        ("[workload.x]\ncommand = 'true'\n", "[workload.x]: no primary metric"),
        ("[workload.x]\ncommand = 3\n", "command is neither a string nor a list of strings"),
        ("[workload.x]\nrunner = 'sglang'\n", "runner 'sglang' is none of tp_moe, fake, engine, command"),
        ("[workload.x]\nbased_on = 'moe'\n", "no workload 'moe'"),
        (
            "[workload.x]\nbased_on = 'moe-eagle3'\nparams = {tokns = 3}\n",
            "no parameter 'tokns'; did you mean 'tokens'?",
        ),
        ("[workload.x]\ncommand = 'true'\nmetrics = ['s']\n", "a metric is a table with name, unit, better"),
        ("[workload.x]\ncommand = 'a'\nmetrics = [{name = 's', better = 'more'}]\n", "better = 'more' is neither"),
        ("[workload.x]\ncommand = 'a'\nmetrics = [{name = 'tps'}]\n", "tps looks like a rate"),
        ("[workload.x]\ncommand = 'a'\nmetrics = [{name = 's', uint = 's'}]\n", "unknown key 'uint'; did you mean"),
        ("[workload.x]\ncommand = 'a'\ntimeout_s = nan\n", "timeout_s = nan is not a positive number of seconds"),
        ("[policy]\nbudget_s = inf\n", "budget_s"),
        ("[policy]\nbuild_cache_gb = 1e308\n", "build_cache_gb"),
        ("[workload.x]\ncommand = 'a'\ntimeout_s = 0\n", "timeout_s = 0 is not a positive number of seconds"),
        ("[workload.x\n", "cannot be read"),
        ("a = '\x00'\n", "cannot be read"),
    ],
)
def test_what_cannot_be_meant_is_an_error_that_names_file_and_key(toml, tmp_path, text, message):
    with pytest.raises(UsageError) as caught:
        toml(text)
    assert str(tmp_path / "perfguard.toml") in str(caught.value)
    assert message in str(caught.value)
    assert caught.value.next_step


def test_a_file_that_is_not_utf8_is_an_error_that_names_it(tmp_path):
    (tmp_path / "perfguard.toml").write_bytes(b"a = '\xff'\n")
    with pytest.raises(UsageError, match=r"perfguard\.toml cannot be read"):
        load(tmp_path)


def test_a_policy_that_is_changed_keeps_the_rest():
    changed = with_policy(Policy(), {"max_blocks": 4, "pause_share": 0}, "here")
    assert (changed.max_blocks, changed.pause_share, changed.margin) == (4, 0, Policy().margin)


def test_every_threshold_of_the_policy_can_be_set_to_its_own_default():
    defaults = {name: default for name, default in vars(Policy()).items() if name != "gates"}
    assert with_policy(Policy(), defaults, "here") == Policy()


@pytest.mark.parametrize(("text", "ratio"), [("2%", 0.02), ("0.5 %", 0.005), ("0.02", 0.02), ("10%", 0.1)])
def test_a_ratio_is_a_percentage_or_a_number(text, ratio):
    assert parse_ratio(text, "--margin") == pytest.approx(ratio)


@pytest.mark.parametrize("text", ["", "%", "2x", "two%"])
def test_what_is_no_ratio_is_refused(text):
    with pytest.raises(UsageError, match=r"--margin .* is neither a percentage nor a number"):
        parse_ratio(text, "--margin")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("20m", 1200), ("4h", 14400), ("2d", 172800)]
)
def test_a_duration_is_a_number_with_a_unit(text, seconds):
    assert parse_duration_s(text, "--budget") == seconds


@pytest.mark.parametrize("text", ["", "0", "-5m", "m", "5 minutes", "nan", "inf", "1e12"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(UsageError, match="is not a duration"):
        parse_duration_s(text, "--budget")


def test_pairs_keep_what_follows_the_first_equals_sign():
    assert parse_pairs(["A=1", "B=x=y", "C="], "--env") == {"A": "1", "B": "x=y", "C": ""}
    assert parse_pairs(None, "--env") == {}


@pytest.mark.parametrize("pair", ["A", "=1", ""])
def test_what_is_no_pair_is_refused(pair):
    with pytest.raises(UsageError, match="is not KEY=VALUE"):
        parse_pairs([pair], "--env")


def test_parameters_are_json_where_they_can_be_and_else_text():
    given_pairs = ["tp=2", "dtype=float32", "f=0.5", "b=true", 'l=["a", 1]', "n=null"]
    assert parse_params(given_pairs, "--set") == {
        "tp": 2, "dtype": "float32", "f": 0.5, "b": True, "l": ["a", 1], "n": None,
    }  # fmt: skip


@given(st.text(max_size=20))
def test_text_of_any_kind_is_parsed_or_refused_and_never_crashes(text):
    for parse in (parse_ratio, parse_duration_s, lambda t, o: parse_pairs([t], o)):
        with contextlib.suppress(UsageError):
            parse(text, "--option")


def test_gates_are_read_with_actions_and_thresholds(toml):
    gates = toml('[gates]\nthermal = "void"\nevent_share = 0.1\ncooldown_max_s = 0\n').policy.gates
    assert (gates.thermal, gates.event_share, gates.cooldown_max_s, gates.one_sided) == ("void", 0.1, 0, "void")


@pytest.mark.parametrize(("line", "said"), [
    ('thermel = "void"', "unknown key 'thermel'; did you mean 'thermal'"),
    ('thermal = "ignore"', "thermal = 'ignore' is none of record, warn, void, stop"),
    ("thermal = 1", "thermal = 1 is none of"),
    ("event_share = -1", "event_share = -1 is not 0 or a positive number"),
    ('event_share = "2%"', "event_share = '2%' is not 0 or a positive number"),
    ("event_share = true", "event_share = True is not 0 or a positive number"),
])  # fmt: skip
def test_a_gate_that_does_not_exist_or_cannot_be_so_is_refused(line, said, toml):
    with pytest.raises(UsageError, match=said):
        toml(f"[gates]\n{line}\n")


def test_a_hook_on_machine_changes_is_read(toml):
    assert toml('[hooks]\non_machine_change = "mail-me"\n').hooks == {"on_machine_change": "mail-me"}


@pytest.mark.parametrize(("key", "option"), [("search_alpha", "--alpha"), ("max_blocks", "--max-blocks")])
def test_a_value_of_the_command_line_beyond_reason_names_its_option(key, option):
    with pytest.raises(UsageError) as refused:
        with_policy(Policy(), {key: 0}, COMMAND_LINE)
    assert refused.value.next_step == option
