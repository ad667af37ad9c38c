"""Whole launches of a subject whose verify is wired wrong, or rounds otherwise than plain decoding: is it told?"""

import json
import shutil
import sys

import pytest
import torch
from tp_launch import ROOT, run_ranks

from model.attention import Window
from model.layers import causal_mask

VERIFY = "self.ops.best(logits_BTV.flatten(0, 1), None, self.sequences.verified_BT.view(-1))"
# Whatever was drafted is taken for the target's choice.
WIRED_WRONG = f"{VERIFY}; self.sequences.verified_BT[:, :-1] = self.sequences.drafted_BK"
# The choices of the verified rows are read one row late.
SHIFTED = f"{VERIFY}; self.sequences.verified_BT.copy_(self.sequences.verified_BT.roll(1, dims=1))"
# Every logit is off by three roundings of bfloat16, up or down by its place.
ROUNDED = VERIFY.replace(
    "logits_BTV", "(logits_BTV.float() * (1 + (torch.arange(logits_BTV.shape[-1]) % 2 * 6 - 3) / 256))"
)


def launch(folder, verify, world_size=1, **params):
    """Counts of mode eagle3 as rank 0 tells them, and digests by rank. `verify`: what stands there in the subject."""
    shutil.copytree(ROOT / "model", folder / "subject" / "model", ignore=shutil.ignore_patterns("__pycache__"))
    choices = folder / "subject" / "model" / "choices.py"
    assert choices.read_text().count(VERIFY) == 1
    choices.write_text(choices.read_text().replace(VERIFY, verify))
    spec = {
        "schema": "perfguard/spec@1", "trial": "t", "runner": "tp_moe", "modes": ["plain", "eagle3"], "seed": 1,
        "params": {"prompts": 4, "tokens": 32, "dtype": "bfloat16"} | params, "subject_root": str(folder / "subject"),
        "result": str(folder / "result-{rank}"), "ready": str(folder / "ready-{rank}"),
    }  # fmt: skip
    (folder / "spec.json").write_text(json.dumps(spec))
    run_ranks([sys.executable, "-P", str(ROOT / "runners/__main__.py"), str(folder / "spec.json")], world_size)
    results = [json.loads((folder / f"result-{rank}").read_text()) for rank in range(world_size)]
    return results[0]["counts"]["eagle3"], [result["digests"] for result in results]


def test_a_verify_that_accepts_whatever_was_drafted_is_not_explained(tmp_path):
    # By a draft that guesses badly: where a good one errs, the target is hardly sure either.
    counts, _ = launch(tmp_path, WIRED_WRONG, pathology="wrong_tap_layers")
    found = counts["first_differences"]
    print(found)
    assert counts["first_difference_explained"] is False
    assert found["num_explained"] < found["num_differing"]
    assert found["worst_gap"] > 3 * found["worst_bound"]


def test_two_ranks_ask_together_and_tell_that_rows_are_read_late(tmp_path):
    counts, digests = launch(tmp_path, SHIFTED, world_size=2)
    print(counts["first_differences"])
    assert digests[0] == digests[1]
    assert counts["first_difference_explained"] is False
    assert counts["first_differences"]["num_differing"] == 4
    assert counts["first_differences"]["num_explained"] < 4


def test_rounding_that_parts_the_modes_is_explained(tmp_path):
    counts, digests = launch(tmp_path, ROUNDED, prompts=8, tokens=48)
    found = counts["first_differences"]
    print(found)
    assert digests[0]["plain"] != digests[0]["eagle3"]
    assert found["num_differing"] >= 1
    assert found["num_explained"] == found["num_differing"]
    assert counts["first_difference_explained"] is True
    assert 0 <= found["worst_gap"] <= found["worst_bound"]


def test_the_same_rounding_is_not_explained_where_float32_should_decide(tmp_path):
    counts, _ = launch(tmp_path, ROUNDED, prompts=8, tokens=48, dtype="float32")
    assert counts["equals_plain"] is False
    assert counts["first_difference_explained"] is False


def test_next_logits_are_those_of_one_forward_over_all_tokens(random_folder, open_session):
    session = open_session(random_folder)
    tokens = [(7 * place + place * place) % 97 for place in range(150)]  # more than are taken in at once
    window = Window(start=0, rope=session.rope, mask=causal_mask(150, 0, session.device))
    with torch.inference_mode():
        logits = session.target.logits(session.target(torch.tensor([tokens]), window))[0, -1]
    found = session.next_logits(tokens, (3, 41))
    assert found == pytest.approx([logits[3].item(), logits[41].item(), logits.max().item()], abs=1e-12)
    assert session.next_logits(tokens[:1], (3, 41)) != found


def test_tokens_that_do_not_fit_are_refused(random_folder, open_session):
    for tokens in ([], [1] * 257):
        with pytest.raises(ValueError, match=rf"{len(tokens)} tokens are not within 1\.\.256"):
            open_session(random_folder).next_logits(tokens, (1, 2))
