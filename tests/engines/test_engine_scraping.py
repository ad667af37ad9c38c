"""What a server's counters say, before and after: of what was not read before, nothing is known."""

from pathlib import Path

import pytest

from runners.contract import ParamsError
from runners.engines.control import Reply
from runners.engines.identity import place_in_package
from runners.engines.params import address_of, filled
from runners.engines.probe import Found
from runners.engines.scraping import scrape, settled

SERVED = "# TYPE made counter\nmade_total 7\n"


def ask(*replies):
    given = iter(replies)
    return lambda method, path: next(given)


def test_counters_that_were_not_read_before_are_not_taken_from_zero():
    assert settled(ask(Reply(status=200, text=SERVED)), "", "made_total", 7) == ""
    assert settled(ask(Reply(status=200, text=SERVED)), SERVED.replace("7", "0"), "made_total", 7) == SERVED


@pytest.mark.parametrize("text", ["<html>hello</html>", '{"a": 1}', "ok"])
def test_what_is_no_text_of_counters_is_none(text):
    assert scrape(ask(Reply(status=200, text=text))) == ""
    assert scrape(ask(Reply(status=404, text=""))) == ""


FOUND = Found(module="vllm", folder=Path("/repo/vllm"))


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/envs/vllm/lib/python3.11/site-packages/torch/lib/x.so", ""),
        ("/envs/vllm/lib/python3.11/site-packages/vllm/_C.abi3.so", "vllm/_C.abi3.so"),
        ("/envs/a/lib/python3.11/dist-packages/sgl_kernel/ops.so", "sgl_kernel/ops.so"),
        ("/repo/vllm/_C.so", "vllm/_C.so"),
    ],
)
def test_an_environment_that_is_called_after_its_engine_makes_nothing_part_of_it(path, place):
    assert place_in_package(path, ("vllm", "sgl_kernel"), FOUND) == place


def test_words_and_addresses_that_cannot_be_are_wrong_parameters():
    with pytest.raises(ParamsError, match="No closing quotation"):
        filled("serve 'x", {})
    with pytest.raises(ParamsError, match="url is 'http://a:99999'"):
        address_of("http://a:99999")
