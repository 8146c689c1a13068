"""Lookup where the text repeats, the assistant elsewhere: each as it would draft alone."""

from typing import Any

import pytest
import torch
from fakes import byte_tokenizer, pair_for, tiny_llama
from runs import request_for, run

from playground.models import wrap
from playground.sampling import Law
from strategies import Context
from strategies.base import drafter_rng
from strategies.lookup_assistant import LookupAssistantDrafter

COPYING = tuple(b"abc abc abc abd abc abc ")
OTHER = tuple(b"qwertyuiop")


def drafter(k: int, **values: Any) -> LookupAssistantDrafter:
    """Alone, without a decode loop."""
    target, helper = pair_for("lookup+assistant")
    request = request_for("lookup+assistant", k=k, **values)
    return LookupAssistantDrafter(
        Context(request, target.follow(), helper.follow(), Law(request), drafter_rng(request))
    )


@torch.inference_mode()
def test_a_match_is_copied_and_without_one_the_assistant_drafts_its_own_number() -> None:
    made = drafter(8, temperature=1.0, settings={"assistant_k": 2})
    made.prepare(COPYING)
    found = made.propose(COPYING, 8)
    assert found.q is None and len(found.ids) == 8 and found.ids[:4] == tuple(b"abd ")
    drawn = made.propose(OTHER, 8)
    assert drawn.q is not None and drawn.q.shape == (2, 257)
    assert len(made.propose(OTHER, 1).ids) == 1


@torch.inference_mode()
@pytest.mark.parametrize("shortest", [1, 2, 3, 5])
def test_shorter_matches_than_the_setting_are_left_to_the_assistant(shortest: int) -> None:
    made = drafter(4, temperature=1.0, settings={"min_ngram": shortest})
    for n in range(1, 7):
        text = (1, *range(40, 40 + n), 2, 3, 4, *range(40, 40 + n))
        assert (made.propose(text, 4).q is None) == (n >= shortest)


@pytest.mark.parametrize("prompt", [COPYING, OTHER])
def test_at_temperature_0_it_is_the_targets_own_text_in_no_more_passes_than_without_the_lookup(prompt: Any) -> None:
    target, helper = pair_for("lookup+assistant", stops=False)
    values: dict[str, Any] = {"prompt": prompt, "max_new_tokens": 80}
    both = run("lookup+assistant", target, helper, **values)
    assert both.ids == run("plain", target, **values).ids
    assert len(both.rounds) <= 1.1 * len(run("assistant", target, helper, **values).rounds)


def test_an_assistant_that_drafts_now_and_then_still_scores_all_that_was_written() -> None:
    target, _ = pair_for("lookup+assistant", stops=False)
    limited = wrap("limited", tiny_llama(seed=1, eos=None), byte_tokenizer(), tuple(range(40)))
    one = run("lookup+assistant", target, limited, prompt=COPYING, max_new_tokens=80, temperature=1.0, k=6)
    text = list(COPYING)
    for each in one.rounds:
        assert {t.id for t in each.drafted} <= {*range(40), *text}
        text += [t.id for t in each.emitted]
    assert {t.q is not None and t.q < 1 for r in one.rounds for t in r.drafted} == {True, False}
