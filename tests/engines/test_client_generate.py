"""SGLang's own wire: repeated or incremental text and ids, its running count, older and unknown field names."""

import pytest
from client_cases import DONE, MS, answer_to

from runners.engines.validity import kind_of

LENGTH = {"type": "length", "length": 4}


def event(ids, total, *, finish=None, text=None, **meta):
    count = {} if total is None else {"completion_tokens": total}
    return {
        "text": "".join(f" {one}" for one in ids) if text is None else text,
        "output_ids": list(ids),
        "meta_info": {**count, "finish_reason": finish, **meta},
    }


def heard(*events):
    return answer_to(*events, DONE, wire="generate")


def counts(answer):
    return [one.num_tokens for one in answer.arrivals]


def test_repeated_output_is_counted_once():
    answer = heard(event([5], 1), event([5, 6, 7], 3), event([5, 6, 7, 8], 4, finish=LENGTH, spec_verify_ct=2))
    assert (answer.error, answer.num_tokens, counts(answer)) == ("", 4, [1, 2, 1])
    assert (answer.token_ids, answer.finish) == ((5, 6, 7, 8), "length")
    assert answer.meta["spec_verify_ct"] == 2


def test_incremental_output_gives_the_same_answer():
    whole = heard(event([5], 1), event([5, 6, 7], 3), event([5, 6, 7, 8], 4, finish=LENGTH))
    parts = heard(event([5], 1), event([6, 7], 3), event([8], 4, finish=LENGTH))
    assert (parts.token_ids, parts.digest, counts(parts)) == (whole.token_ids, whole.digest, counts(whole))


def test_a_repeated_token_does_not_make_increments_look_like_repetition():
    answer = heard(event([5], 1), event([5], 2), event([5, 5], 4, finish=LENGTH))
    assert (answer.token_ids, counts(answer)) == ((5, 5, 5, 5), [1, 1, 2])


@pytest.mark.parametrize(
    "events",
    [
        (event([5], None), event([5, 6, 7], None), event([5, 6, 7, 8], None, finish=LENGTH)),
        (event([5], None), event([6, 7], None), event([8], None, finish=LENGTH)),
    ],
    ids=["repeated", "incremental"],
)
def test_without_a_running_count_ids_count(events):
    answer = heard(*events)
    assert (answer.num_tokens, counts(answer)) == (4, [1, 2, 1])


def test_a_changed_name_of_the_count_without_ids_is_uncountable():
    first = {"text": " a", "meta_info": {"tokens_out": 1, "finish_reason": None}}
    last = {"text": " a b", "meta_info": {"tokens_out": 2, "finish_reason": LENGTH}}
    assert kind_of(heard(first, last)) == "uncountable"


def test_a_server_without_a_tokenizer_sends_ids_only():
    first = {"output_ids": [5], "meta_info": {"completion_tokens": 1, "finish_reason": None}}
    last = {"output_ids": [5, 6], "meta_info": {"completion_tokens": 2, "finish_reason": LENGTH}}
    assert heard(first, last).token_ids == (5, 6)


def test_an_event_without_tokens_is_no_first_token():
    answer = heard(event([], 0), event([5], 1), event([5, 6], 2, finish=LENGTH))
    assert (answer.first_ns, counts(answer)) == (11 * MS, [1, 1])


def test_an_older_finish_is_a_word():
    assert heard(event([5], 1, finish="length")).finish == "length"


def test_an_abort_is_an_error():
    answer = heard(event([5], 1, finish={"type": "abort", "message": "out of memory"}))
    assert answer.error == "stream: aborted: out of memory"


def test_an_error_object_is_an_error():
    answer = heard(event([5], 1), {"error": {"message": "bad input", "code": 400}})
    assert answer.error == "stream: bad input"
