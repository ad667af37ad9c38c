"""What a stream is worth: tokens by usage or ids, the first token, and every way an answer may be no answer."""

import pytest
from client_cases import DONE, FINISH, HEAD, MS, answer_to, token, usage

from runners.engines.answers import ERRORS
from runners.engines.records import Prompt
from runners.engines.validity import kind_of

ROLE = {"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}


def said(content, **more):
    return {"choices": [{"delta": {"content": content, **more}, "finish_reason": None}]}


def counts(answer):
    return [one.num_tokens for one in answer.arrivals]


def test_a_whole_answer_has_tokens_times_and_end():
    answer = answer_to(token(ids=[5]), token(ids=[6]), token(ids=[7], finish="length"), usage(3), DONE)
    assert answer.error == ""
    assert (answer.first_ns, answer.last_ns, answer.num_tokens) == (10 * MS, 12 * MS, 3)
    assert (answer.token_ids, answer.finish, counts(answer)) == ((5, 6, 7), "length", [1, 1, 1])


def test_tokens_are_not_events():
    answer = answer_to(token(ids=[5]), token(ids=[6, 7, 8]), FINISH, usage(4), DONE)
    assert (answer.num_tokens, counts(answer)) == (4, [1, 3])


def test_an_error_in_a_200_stream_is_an_error():
    answer = answer_to(token(ids=[5]), {"error": {"message": "EngineCore died", "code": 500}}, FINISH, usage(1), DONE)
    assert answer.error == "stream: EngineCore died"


@pytest.mark.parametrize(
    "event", [{"error": "no memory"}, {"object": "error", "message": "no memory"}, {"detail": "no memory"}]
)
def test_other_shapes_of_an_error_are_errors(event):
    assert answer_to(token(ids=[5]), event, FINISH, usage(1)).error == "stream: no memory"


@pytest.mark.parametrize("finish", ["abort", "error"])
def test_an_end_that_the_engine_calls_broken_is_an_error(finish):
    assert answer_to(token(ids=[5], finish=finish), usage(1), DONE).error == f"stream: {finish}"


def test_an_object_without_choices_is_an_error():
    assert kind_of(answer_to(token(ids=[5]), {"id": "cmpl-1"}, FINISH, usage(1), DONE)) == "stream"


def test_an_error_that_is_not_even_json_is_an_error():
    assert "not JSON" in answer_to(token(ids=[5]), '{"error": "cannot "parse""}').error
    assert "not JSON" in answer_to(token(ids=[5]), "[" * 100_000).error


def test_a_stream_cut_in_the_middle_is_no_answer():
    cut = answer_to(token(ids=[5]), token(ids=[6]), tail=b"")
    assert kind_of(cut) == "cut"
    assert kind_of(answer_to(token(ids=[5]), tail=b"", error="ConnectionResetError: reset")) == "cut"


def test_done_without_a_finish_reason_is_a_cut():
    assert kind_of(answer_to(token(ids=[5]), usage(1), DONE)) == "cut"


def test_done_may_be_missing_where_the_finish_reason_came():
    answer = answer_to(token(ids=[5]), token(ids=[6], finish="length"), usage(2))
    assert (answer.error, answer.num_tokens) == ("", 2)


def test_nothing_after_done_counts():
    answer = answer_to(token(ids=[5], finish="length"), DONE, token(ids=[6]))
    assert (answer.num_tokens, answer.last_ns) == (1, 10 * MS)


def test_without_usage_token_ids_count():
    answer = answer_to(token(ids=[5]), token(ids=[6, 7], finish="length"), DONE)
    assert (answer.error, answer.num_tokens) == ("", 3)


def test_without_usage_and_ids_an_answer_cannot_be_counted():
    answer = answer_to(token(), token(), token(finish="length"), DONE)
    assert kind_of(answer) == "uncountable"
    assert answer.num_tokens is None


def test_ids_of_some_events_only_count_for_nothing():
    assert kind_of(answer_to(token(ids=[5]), token(), FINISH, DONE)) == "uncountable"


def test_no_tokens_are_no_answer():
    assert kind_of(answer_to(FINISH, usage(0), DONE)) == "empty"
    assert kind_of(answer_to(FINISH, usage(4), DONE)) == "empty"
    assert kind_of(answer_to(token("x"), FINISH, usage(0), DONE)) == "empty"


def test_another_status_says_what_the_server_said():
    head = b"HTTP/1.1 400 Bad\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = answer_to({"detail": "prompt must be a string."}, head=head)
    assert answer.error.startswith("http: status 400")
    assert "prompt must be a string." in answer.error


def test_an_answer_that_is_no_stream_is_no_answer():
    head = HEAD.replace(b"text/event-stream", b"application/json")
    assert "application/json" in answer_to(head=head).error


def test_a_refused_connection_and_a_timeout_are_told_apart():
    refused = answer_to(head=b"", tail=b"", error="ConnectionRefusedError: refused")
    late = answer_to(token(ids=[5]), tail=b"", error="not answered within 3 s")
    assert (kind_of(refused), kind_of(late)) == ("connection", "timeout")
    assert {kind_of(refused), kind_of(late)} <= set(ERRORS)


def test_a_role_and_an_empty_content_are_no_first_token():
    answer = answer_to(ROLE, said(""), said("a"), said("b"), FINISH, usage(2), DONE, wire="chat")
    assert (answer.first_ns, answer.last_ns, answer.num_tokens) == (12 * MS, 13 * MS, 2)


def test_a_thought_is_a_token():
    answer = answer_to(ROLE, said("", reasoning_content="hm"), said("a"), FINISH, usage(2), wire="chat")
    assert answer.first_ns == 11 * MS


def test_a_token_without_text_is_a_token_where_ids_are_there():
    answer = answer_to(token("", ids=[5]), token("", ids=[6]), FINISH, usage(2), DONE)
    assert (answer.first_ns, answer.num_tokens) == (10 * MS, 2)


def test_an_echoed_prompt_is_no_first_token():
    events = (said("user: say a\nassistant:"), said("b"), said("c"), FINISH, usage(2))
    assert answer_to(*events, wire="transformers-chat").first_ns == 11 * MS
    assert answer_to(*events, wire="chat").first_ns == 10 * MS


def test_only_the_first_text_may_be_an_echo():
    events = (said("b"), said("say a"), FINISH, usage(2))
    assert answer_to(*events, wire="transformers").last_ns == 11 * MS
    assert answer_to(*events, wire="transformers", prompt=Prompt(ids=(1,))).first_ns == 10 * MS


def test_withheld_events_leave_it_open_what_each_brought():
    answer = answer_to(token(), token(), FINISH, usage(5), DONE)  # three tokens were half characters
    assert (answer.num_tokens, counts(answer)) == (5, [None, None])
    assert answer.last_ns == 12 * MS  # the last token may have come with the finish


def test_an_event_for_each_token_brought_one_each():
    assert counts(answer_to(token(), token(), FINISH, usage(2), DONE)) == [1, 1]


def test_ids_that_do_not_add_up_to_usage_are_not_trusted():
    answer = answer_to(token(ids=[5]), token(ids=[6]), FINISH, usage(3), DONE)
    assert (answer.num_tokens, counts(answer), answer.token_ids) == (3, [None, None], ())


@pytest.mark.parametrize("count", [True, -1, "3", 2.0, None])
def test_a_count_that_is_none_is_unknown(count):
    last = {"choices": [], "usage": {"completion_tokens": count}}
    assert kind_of(answer_to(token(finish="length"), last, DONE)) == "uncountable"


def test_the_digest_follows_ids_else_text():
    by_ids = [answer_to(token(text, ids=[5], finish="length"), usage(1)).digest for text in (" a", " b")]
    by_text = [answer_to(token(text, finish="length"), usage(1)).digest for text in (" a", " b")]
    assert by_ids[0] == by_ids[1]
    assert by_text[0] != by_text[1]
    assert [digest.partition(":")[0] for digest in (*by_ids, *by_text)] == ["ids", "ids", "text", "text"]
