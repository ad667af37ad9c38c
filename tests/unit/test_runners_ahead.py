"""The timed loops over sessions that run ahead of the host, and over batches, with answers known by hand."""

from types import SimpleNamespace

import pytest

from runners import eagle3_decode, marked, timing, tp_moe, tp_moe_decode


class Ahead:
    """Counts upwards for each sequence; of each cycle's drafted ids as many are right as the script says by sequence.

    Steps are worked out when enqueued and handed over when read, as a device does.
    """

    num_drafted = 3

    def __init__(self, script=(), run_ahead=1):
        self.script = list(script)
        self.run_ahead = run_ahead
        self.waiting = []
        self.most_waiting = 0

    def prefill(self, prompts, mode="plain", marks=False):
        self.waiting.clear()
        self.newest = [prompt[-1] + 1 for prompt in prompts]
        return list(self.newest)

    def decode(self):
        self.emit([1] * len(self.newest))

    def draft(self):
        pass

    def verify(self):
        pass

    def accept(self):
        self.emit([right + 1 for right in (self.script.pop(0) if self.script else [0] * len(self.newest))])

    def emit(self, counts):
        self.waiting.append([list(range(n + 1, n + 1 + count)) for n, count in zip(self.newest, counts, strict=True)])
        self.newest = [n + count for n, count in zip(self.newest, counts, strict=True)]
        self.most_waiting = max(self.most_waiting, len(self.waiting))

    def read(self):
        return self.waiting.pop(0)

    def synchronize(self):
        pass

    def marks(self):
        return {"draft_extend_s": 1e-9, "draft_steps_s": 2e-9, "verify_s": 3e-9, "accept_s": 4e-9}


def test_plain_steps_are_enqueued_one_ahead_and_none_too_many():
    session = Ahead()
    run = tp_moe_decode.measure(session, [[10], [50]], 5, batch=2)
    assert run.tokens == [[11, 12, 13, 14, 15], [51, 52, 53, 54, 55]]
    assert run.counts["steps"] == 4
    assert session.most_waiting == 2
    assert session.waiting == []


def test_plain_throughput_counts_every_sequence_of_a_batch():
    log = tp_moe_decode.PlainLog(token_s=[1.0, 3.0], ttft_s=[1.0], steps=2, batch=4)
    values = tp_moe_decode.summarise(log, [[0]] * 4).values
    assert values["plain_throughput"] == 2.0
    assert values["plain_token_s"] == 2.0


def test_cycles_are_read_one_behind_and_those_enqueued_in_vain_are_left_out():
    session = Ahead([[2], [0], [3], [1]])
    run = eagle3_decode.measure(session, [[10]], 8)
    assert run.tokens == [[11, 12, 13, 14, 15, 16, 17, 18]]
    assert run.counts["cycles"] == 3
    assert run.counts["emitted_by_prompt"] == [8]
    assert session.most_waiting == 2
    assert session.waiting == []


def test_phases_are_not_claimed_where_the_clock_of_the_host_cannot_see_them():
    run = eagle3_decode.measure(Ahead(), [[10]], 4)
    assert set(run.values) == {"eagle3_throughput", "eagle3_accept_length", "eagle3_cycle_s", "eagle3_ttft_s"}
    assert len(run.samples["eagle3_cycle_s"]) == 3


@pytest.mark.parametrize("run_ahead", [0, 1])
def test_a_sequence_that_has_its_tokens_is_no_longer_counted(run_ahead):
    # 5 tokens each, one from prefill. First sequence: 4 in one cycle. Second: 1, 2, 1 in three.
    session = Ahead([[3, 0], [2, 1], [1, 0]], run_ahead)
    run = eagle3_decode.measure(session, [[10], [50]], 5, batch=2)
    assert run.tokens == [[11, 12, 13, 14, 15], [51, 52, 53, 54, 55]]
    assert run.counts["cycles_by_prompt"] == [1, 3]
    assert run.counts["emitted_by_prompt"] == [4, 4]
    assert run.counts["cycles"] == 4
    assert run.counts["drafted"] == 12
    assert run.counts["accepted_by_position"] == [2, 1, 1]
    assert run.values["eagle3_accept_length"] == 2.0
    assert run.samples["eagle3_emitted"] == [5.0, 2.0, 1.0]


def test_what_stamps_say_fills_the_phases_that_were_not_timed():
    run = eagle3_decode.measure(Ahead(), [[10]], 4)
    params = tp_moe.TpMoeParams(tokens=4)
    session = Ahead()
    session.describe = dict
    found = tp_moe.mark(session, "eagle3", run, [[10]], params, ())
    values = tp_moe.numbers({"eagle3": run}, {"eagle3": found}, params)["values"]
    assert values["eagle3_draft_s"] == pytest.approx(3e-9)
    assert values["eagle3_verify_s"] == 3e-9
    assert values["eagle3_accept_s"] == 4e-9


def test_the_host_gap_is_what_the_stamped_parts_leave_over():
    rows = [{"wall_s": 10.0, "verify_s": 6.0, "accept_s": 1.0, "all_reduce_s": 2.0, "distinct_experts": 8.0}] * 3
    found = marked.summarise(rows, measured_s=8.0)
    assert found["host_gap_s"] == 3.0  # all-reduces lie inside verify, and a count is no time
    assert found["stamps_cost"] == 0.25
    assert marked.summarise([{"wall_s": 1.0}], 1.0) == {}


def test_the_floor_is_the_bytes_of_a_step_at_the_speed_of_a_copy():
    session = Ahead()
    session.step_bytes = lambda num_rows, distinct, context: num_rows * distinct * context
    found = marked.roofline(
        session, {"verify_s": 4.0, "distinct_experts": 5.0}, rows=3, context=20, copy_bytes_per_s=150.0
    )
    assert found == {"bytes": 300.0, "floor_s": 2.0, "times_floor": 2.0, "copy_bytes_per_s": 150.0}
    assert marked.roofline(session, {"verify_s": 4.0}, rows=3, context=20, copy_bytes_per_s=150.0) == {}


class Device(Ahead):
    """Works by itself: each step takes it a second, from when it was enqueued or from the end of the step before."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.done = []

    def clock(self):
        self.now += 0.001  # a reading takes a millisecond
        return self.now

    def emit(self, counts):
        super().emit(counts)
        self.done.append(max(self.now, self.done[-1] if self.done else 0.0) + 1.0)

    def read(self):
        self.now = max(self.now, self.done[-len(self.waiting)])
        return super().read()


@pytest.mark.parametrize(("loop", "name"), [(tp_moe_decode, "plain_token_s"), (eagle3_decode, "eagle3_cycle_s")])
@pytest.mark.parametrize(("slowdown", "most_waiting"), [(1.0, 2), (1.5, 1)])
def test_a_planted_slowdown_is_not_hidden_by_a_device_that_works_on(monkeypatch, loop, name, slowdown, most_waiting):
    device = Device()
    for module in (timing, tp_moe_decode, eagle3_decode):
        monkeypatch.setattr(module, "clock", device.clock)
    run = loop.measure(device, [[10]], 6, slowdown)
    assert run.samples[name] == pytest.approx([slowdown] * 5, abs=0.01)
    assert device.most_waiting == most_waiting
    assert device.waiting == []
    assert run.tokens == [[11, 12, 13, 14, 15, 16]]


def test_prompts_that_make_no_whole_batches_are_refused():
    launch = SimpleNamespace(spec=SimpleNamespace(modes=("plain",)), world_size=1)
    with pytest.raises(ValueError, match="4 prompts do not make whole batches of 3"):
        tp_moe.check(launch, tp_moe.TpMoeParams(prompts=4, batch=3))
