"""Prompts shipped, read from a user's file, and made unique."""

import json
from pathlib import Path

import pytest

from runners.engines.prompts import make_unique, read_file, shipped
from runners.engines.records import Prompt

FIRST_IDS = (789, 152, 608, 999)  # of the asset: a changed prompt is another workload


def test_shipped_ids_fit_any_vocabulary_and_differ():
    prompts = shipped(as_text=False)
    assert all(10 <= one < 1000 for prompt in prompts for one in prompt.ids)
    assert len({prompt.ids for prompt in prompts}) == len(prompts) == 16
    assert {len(prompt.ids) for prompt in prompts} == {512}


def test_shipped_prompts_are_always_the_same():
    assert shipped(as_text=False)[0].ids[:4] == FIRST_IDS
    assert shipped(as_text=False) == shipped(as_text=False)


@pytest.mark.parametrize("num", [3, 512, 700])
def test_ids_have_the_length_asked_for(num):
    first = shipped(as_text=False, num_prompt_tokens=num)[0].ids
    assert len(first) == num
    assert first[:3] == shipped(as_text=False)[0].ids[:3]
    assert num <= 512 or first[512:] == first[: num - 512]


def test_shipped_texts_differ():
    texts = [prompt.text for prompt in shipped(as_text=True)]
    assert len(set(texts)) == len(texts) == 12
    assert all(prompt.ids is None for prompt in shipped(as_text=True))


def file_of(tmp_path, text):
    path = tmp_path / "prompts"
    path.write_text(text, encoding="utf-8")
    return path


def test_jsonl_gives_texts_and_ids(tmp_path):
    lines = ['{"prompt": "größe"}', "", '{"prompt_token_ids": [4, 5]}', '{"prompt": [6]}']
    prompts = read_file(file_of(tmp_path, "\n".join(lines)))
    assert prompts == (Prompt(text="größe"), Prompt(ids=(4, 5)), Prompt(ids=(6,)))


def test_sharegpt_gives_the_first_turn_of_the_human(tmp_path):
    talks = [
        {"id": "a", "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]},
        {"id": "b", "conversations": [{"from": "gpt", "value": "ho"}, {"from": "human", "value": "second"}]},
        {"id": "c", "conversations": []},
        {"id": "d", "conversations": [{"role": "user", "content": "third"}]},
    ]
    expected = (Prompt(text="hi"), Prompt(text="second"), Prompt(text="third"))
    assert read_file(file_of(tmp_path, json.dumps(talks))) == expected
    assert read_file(file_of(tmp_path, "\n".join(map(json.dumps, talks)))) == expected


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{"prompt": "a"}\n{"promt": "b"}', "line 2"),
        ('{"prompt": "a"}\n{"prompt": ', "line 2"),
        ('{"prompt": ""}', "line 1"),
        ('{"prompt_token_ids": [1, -2]}', "line 1"),
        ('{"prompt_token_ids": [1, true]}', "line 1"),
        ('[{"prompt": "a"}, 3]', "entry 1"),
        ("[", "prompts"),
        ("[" * 100_000, "prompts"),
        ('{"prompt":' * 100_000, "line 1"),
        ("", "no prompt in it"),
        ('[{"conversations": []}]', "no prompt in it"),
    ],
)
def test_what_is_no_prompt_is_named_with_its_place(tmp_path, text, where):
    with pytest.raises(ValueError, match=where):
        read_file(file_of(tmp_path, text))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"missing\.jsonl"):
        read_file(tmp_path / "missing.jsonl")


def test_unique_prompts_share_no_beginning():
    prompts = make_unique(shipped(as_text=False, num_prompt_tokens=32), num=40, seed=7)
    assert len({prompt.ids[:4] for prompt in prompts}) == 40
    assert {len(prompt.ids) for prompt in prompts} == {40}
    assert prompts[0].ids[8:] == prompts[16].ids[8:]  # the same prompt behind another prefix


def test_unique_texts_begin_apart_too():
    prompts = make_unique((Prompt(text="same"),), num=20, seed=7)
    assert len({prompt.text for prompt in prompts}) == 20
    assert all(prompt.text.endswith("\nsame") for prompt in prompts)


def test_a_seed_gives_its_prompts_again_and_another_seed_others():
    base = shipped(as_text=False)
    assert make_unique(base, num=5, seed=1) == make_unique(base, num=5, seed=1)
    assert not {p.ids[:8] for p in make_unique(base, num=5, seed=1)} & {
        p.ids[:8] for p in make_unique(base, num=5, seed=2)
    }


@pytest.mark.parametrize("path", ["/dev/zero", "/dev"])
def test_what_is_no_file_is_not_read_to_its_end_that_never_comes(path):
    with pytest.raises(ValueError, match=f"{path} is no regular file"):
        read_file(Path(path))
