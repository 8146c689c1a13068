"""What single strategies promise beyond what all of them do."""

import re
from random import Random

import pytest
import torch
from fakes import byte_tokenizer, tiny_llama, tiny_loaded
from runs import request_for, run
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

from playground.models import Loaded, wrap
from playground.sampling import Law
from playground.trace import InvalidRequest
from strategies import STRATEGIES, Context, strategy
from strategies.assistant import AssistantDrafter
from strategies.base import drafter_rng
from strategies.prompt_lookup import find_match

ABC = (1, 2, 3, 9, 1, 2, 3, 8, 2, 3, 7, 1, 2, 3)


def test_prompt_lookup_takes_the_largest_n_gram_and_the_match_asked_for() -> None:
    assert find_match(ABC, 3, 2, "first") == (9, 1)
    assert find_match(ABC, 3, 2, "latest") == (8, 2)
    assert find_match(ABC, 2, 1, "latest") == (7,)
    assert find_match((5, 1, 2, 4, 1, 2, 6, 5, 1, 2), 2, 1, "longest") == (4,)  # 5 1 2 agrees further back than 1 2
    assert find_match((1, 2, 3), 3, 4, "longest") == ()
    assert find_match((1,), 3, 4, "longest") == ()


def test_prompt_lookup_copies_on_into_the_draft() -> None:
    assert find_match((7, 1, 2, 1, 2), 2, 5, "latest") == (1, 2, 1, 2, 1)
    assert find_match((7, 1, 2, 1, 2), 2, 5, "first") == (1, 2)


@pytest.mark.parametrize("seed", range(30))
def test_the_first_match_is_that_of_transformers(seed: int) -> None:
    rng = Random(seed)
    ids = [rng.randint(1, 4) for _ in range(rng.randint(2, 30))]
    theirs = PromptLookupCandidateGenerator(
        eos_token_id=None, num_output_tokens=4, max_matching_ngram_size=3, max_length=1000, vocab_size=10
    ).get_candidates(torch.tensor([ids]))[0][0, len(ids) :]
    assert find_match(ids, 3, 4, "first") == tuple(theirs.tolist())


def drafter(helper: Loaded, k: int = 4, **values: object) -> AssistantDrafter:
    """The assistant's drafter alone."""
    request = request_for("assistant", k=k, **values)
    target = tiny_loaded().follow()
    return AssistantDrafter(Context(request, target, helper.follow(), Law(request), drafter_rng(request)))


def test_the_heuristic_goes_up_by_two_and_down_by_one_and_never_over_k(tiny: Loaded) -> None:
    made = drafter(tiny, k=6, settings={"schedule": "heuristic"})
    ids = [1, 2, 3]
    lengths = []
    for kept_whole in (False, False, False, True, True, True):
        draft = made.propose(ids, 6).ids
        lengths.append(len(draft))
        ids = [*ids, *draft, 9] if kept_whole else [*ids, (draft[0] + 1) % 256]
    assert lengths == [6, 5, 4, 3, 5, 6]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_draft_ends_with_the_first_unsure_token(temperature: float, tiny: Loaded) -> None:
    made = drafter(tiny, k=8, temperature=temperature, settings={"schedule": "confidence", "confidence": 0.3})
    for ids in ([1, 2, 3], [9, 9], [70, 80, 90, 100]):
        proposal = made.propose(ids, 8)
        assert proposal.scores is not None
        sure = [float(s.softmax(-1)[i]) >= 0.3 for s, i in zip(proposal.scores, proposal.ids, strict=True)]
        assert all(sure[:-1]) and (not sure[-1] or len(sure) == 8)
    always = drafter(tiny, k=8, settings={"schedule": "confidence", "confidence": 0.0})
    assert len(always.propose([1, 2, 3], 8).ids) == 8


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_draft_vocabulary_limits_drafts_and_changes_no_output_at_temperature_0(temperature: float) -> None:
    target = tiny_loaded(seed=0)
    few = tuple(range(40))
    helper = wrap("helper", tiny_llama(seed=1), byte_tokenizer(), few)
    prompt = (200, 201, 202)
    one = run("assistant", target, helper, prompt=prompt, max_new_tokens=30, temperature=temperature)
    text = list(prompt)
    for each in one.rounds:
        assert {t.id for t in each.drafted} <= {*few, *text}
        text += [t.id for t in each.emitted]
    full = run("assistant", target, helper, prompt=prompt, max_new_tokens=30, settings={"vocabulary": "full"})
    assert any(t.id not in {*few, *text} for each in full.rounds for t in each.drafted)
    if temperature == 0:
        assert one.ids == full.ids == run("plain", target, prompt=prompt, max_new_tokens=30).ids


def test_a_limited_head_gives_the_same_logits_where_it_scores(tiny: Loaded) -> None:
    full, few = tiny.follow(), tiny.follow()
    few.limit_to(range(10))
    few.limit_to(range(5, 700 % 257))
    with torch.inference_mode():
        a, b = full.logits([1, 2, 3, 4], 2), few.logits([1, 2, 3, 4], 2)
    scored = list(range(700 % 257))
    assert torch.allclose(a[:, scored], b[:, scored], atol=1e-6)
    assert bool((b[:, 700 % 257 :] == -torch.inf).all())


def test_the_scored_columns_are_those_of_all_logits_in_the_order_of_ids(tiny: Loaded) -> None:
    model = tiny.follow()
    assert model.scored is None
    model.limit_to([7, 200, 3])
    model.limit_to([100, 3])
    assert model.scored is not None and model.scored.tolist() == [3, 7, 100, 200]
    with torch.inference_mode():
        whole, few = model.logits([1, 2, 3], 2), model.scored_logits([1, 2, 3], 2)
    assert torch.equal(whole[:, model.scored], few)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"repetition_penalty": 1.5, "banned_ids": (30, 31, 250)},
        {"temperature": 1.0, "top_k": 9, "repetition_penalty": 1.3},
        {"temperature": 0.8, "top_p": 0.7, "banned_ids": tuple(range(20))},
        {"temperature": 1.2, "min_p": 0.1, "verifier": "coupled"},
    ],
)
def test_drafting_among_few_columns_gives_the_draft_of_all_columns(values: dict[str, object]) -> None:
    few = tuple(range(10, 60))
    helper = wrap("helper", tiny_llama(seed=1), byte_tokenizer(), few)
    prompt = [200, 12, 201, 13]
    with torch.inference_mode():
        made, wide = drafter(helper, **values), drafter(helper, **values)
        made.prepare(prompt)
        wide._model.limit_to([*few, *prompt])
        one = made.propose(prompt, 4)
        whole = wide._draft_one_by_one(prompt, 4, lambda draft: wide._model.logits([*prompt, *draft], keep=1))
    assert one.ids == whole.ids
    assert one.q is not None and whole.q is not None and one.scores is not None and whole.scores is not None
    assert torch.allclose(one.q, whole.q, atol=1e-5) and torch.allclose(one.scores, whole.scores, atol=1e-4)


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_settings_are_checked_by_name_range_and_option(name: str) -> None:
    chosen = strategy(name)
    with pytest.raises(InvalidRequest, match=rf"{re.escape(name)} has no setting 'colour'"):
        chosen.settled({"colour": 1})
    for choice in chosen.settings:
        assert dict(chosen.settled({}))[choice.name] == choice.default
        bad: list[object] = ["nonsense", None, [], float("nan")]
        if choice.maximum is not None:
            bad += [choice.maximum + 1, -choice.maximum - 1]
        for value in bad:
            with pytest.raises(InvalidRequest, match=choice.name):
                chosen.settled({choice.name: value})


def test_an_unknown_strategy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidRequest, match=r"strategy is 'magic'.*plain, assistant, prompt-lookup"):
        strategy("magic")
