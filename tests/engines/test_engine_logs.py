"""What is shown of an engine's log where its start fails: the end, and what went wrong first."""

from pathlib import Path

from runners.engines.server import TAIL_LINES, Server, log_tail

# As a real one was seen to write it.
CAUSE = "(EngineCore pid=3443) ERROR 11-30 04:50:21 [core.py:1231] FileNotFoundError: [Errno 2] No such file"


def shown(folder: Path, *lines: str) -> list[str]:
    log = folder / "log"
    log.write_text("of an earlier start: ValueError: old\n" + "\n".join(lines) + "\n")
    start = len("of an earlier start: ValueError: old\n")
    server = Server(host="h", port=1, ask=lambda method, path: None, log=log, log_start=start)
    return log_tail(server).splitlines()


def test_the_cause_is_shown_before_the_words_of_a_parent_that_only_knows_of_its_child(tmp_path):
    parent = [f"  File {number}" for number in range(30)] + ["RuntimeError: Engine core initialization failed."]
    assert shown(tmp_path, "INFO: no Error here", CAUSE, *parent) == [CAUSE, *parent[-TAIL_LINES:]]


def test_a_short_log_is_shown_once(tmp_path):
    assert shown(tmp_path, "starting", CAUSE) == ["starting", CAUSE]


def test_of_many_errors_the_first_three_are_shown_each_once(tmp_path):
    errors = [f"vllm.x.E{number}Error: {number}" for number in (1, 1, 2, 3, 4)]
    lines = shown(tmp_path, *errors, *["later"] * TAIL_LINES)
    assert lines == ["vllm.x.E1Error: 1", "vllm.x.E2Error: 2", "vllm.x.E3Error: 3", *["later"] * TAIL_LINES]
