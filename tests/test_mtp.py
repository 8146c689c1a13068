"""Prediction layers in the checkpoint, and Gemma 4's drafter: what they draft is what transformers drafts, and what
they keep between rounds is what a fresh start would make."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from fakes import byte_tokenizer, pair_for
from runs import request_for, run
from tiny_models import (
    deepseek_v3,
    gemma4,
    gemma4_drafter,
    gemma4_pair,
    glm4_moe,
    loaded_with_layers,
    mellum,
    random_layers,
    riddle,
    save_with_layers,
    teach_drafter,
    teach_layers,
)
from transformers import Glm4MoeForCausalLM
from transformers.generation import candidate_generator

from playground.models import Loaded, load, wrap
from playground.mtp_layers import prediction_layers
from playground.sampling import Law
from playground.trace import InvalidRequest
from strategies import STRATEGIES, Context
from strategies.base import drafter_rng

V = 12
PROMPTS = [tuple(row) for row in riddle(3, 12, V, torch.Generator().manual_seed(9)).tolist()]


class Counter:
    """A streamer that counts what each round emits."""

    def __init__(self) -> None:
        self.rounds: list[int] = []

    def put(self, ids: torch.Tensor) -> None:
        """The prompt, then a round at a time."""
        self.rounds.append(ids.numel())

    def end(self) -> None:
        """Nothing."""


def generated(model: Any, prompt: tuple[int, ...], new: int, **how: Any) -> tuple[tuple[int, ...], list[int]]:
    """What transformers writes greedily, and how many tokens a round; the first of them drafts nothing."""
    counter = Counter()
    out = model.generate(torch.tensor([prompt]), max_new_tokens=new, do_sample=False, streamer=counter, **how)
    return tuple(out[0, len(prompt) :].tolist()), counter.rounds[1:]


def same_as_generate(strategy: str, pair: tuple[Loaded, Loaded | None], k: int, new: int = 40, **how: Any) -> set[int]:
    """Assert that text and rounds are transformers'; how many tokens rounds emitted."""
    seen: set[int] = set()
    for prompt in PROMPTS:
        plain, _ = generated(pair[0].model, prompt, new)
        theirs, rounds = generated(pair[0].model, prompt, new, **how)
        one = run(strategy, *pair, prompt=(*prompt, theirs[0]), max_new_tokens=new - 1, k=k)
        assert theirs == plain == (theirs[0], *one.ids)
        assert [len(r.emitted) for r in one.rounds] == rounds[1:]
        seen |= set(rounds[1:])
    return seen


def fresh_each_round(strategy: str, pair: tuple[Loaded, Loaded | None], k: int, prompt_length: int = 12) -> None:
    """Assert that a drafter which lived through rounds drafts what one made for that text alone does."""

    def made() -> tuple[Any, Any]:
        request = request_for(strategy, k=k)
        target, helper = pair[0].follow(), None if pair[1] is None else pair[1].follow()
        context = Context(request, target, helper, Law(request), drafter_rng(request))
        return target, STRATEGIES[strategy].build(context)

    dice = Random(0)
    ids = riddle(1, prompt_length, V, torch.Generator().manual_seed(1))[0].tolist()
    target, drafter = made()
    with torch.inference_mode():
        target.logits(ids[:-1], keep=1)
        drafter.prepare(ids)
        for _ in range(12):
            wanted = dice.choice((1, k, k))
            proposal = drafter.propose(ids, wanted)
            other_target, other = made()
            other_target.logits(ids[:-1], keep=1)
            expected = other.propose(ids, wanted)
            assert len(proposal.ids) == wanted
            assert proposal.ids == expected.ids
            assert torch.allclose(proposal.scores, expected.scores, atol=1e-4)
            target.logits([*ids, *proposal.ids], keep=wanted + 1)
            ids = [*ids, *proposal.ids[: dice.randint(0, wanted)], dice.randrange(V)]


# --- prediction layers ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def taught_mellum(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int | None], Loaded]:
    """Mellum by its window; its prediction layer is right now and then."""
    made: dict[int | None, Loaded] = {}

    def of(window: int | None) -> Loaded:
        if window not in made:
            model = mellum(V, None, spread=0.1, window=window)
            layers = random_layers(model)
            teach_layers(model, layers, 60)
            made[window] = loaded_with_layers(model, layers, tmp_path_factory.mktemp("mellum"))
        return made[window]

    return of


@pytest.fixture
def two_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loaded:
    """A GLM-4 MoE of two layers with two prediction layers; the class knows the names of deeper checkpoints only."""
    names = [r"model\.layers\.2\..*", r"model\.layers\.3\..*"]
    monkeypatch.setattr(Glm4MoeForCausalLM, "_keys_to_ignore_on_load_unexpected", names)
    model = glm4_moe(2, mtp=2, vocab=V, eos=None)
    layers = random_layers(model)
    teach_layers(model, layers, 20)
    return loaded_with_layers(model, layers, tmp_path)


@pytest.mark.parametrize("window", [None, 8])
def test_a_prediction_layer_drafts_what_transformers_drafts(
    window: int | None, taught_mellum: Callable[[int | None], Loaded]
) -> None:
    assert same_as_generate("mtp", (taught_mellum(window), None), k=1, use_mtp=True) == {1, 2}


def test_two_prediction_layers_draft_what_transformers_drafts(two_layers: Loaded) -> None:
    assert same_as_generate("mtp", (two_layers, None), k=2, use_mtp=True) >= {1, 3}


@pytest.mark.parametrize("build", [lambda: glm4_moe(46, vocab=V, eos=None), lambda: deepseek_v3(61, vocab=V, eos=None)])
def test_checkpoints_of_the_depth_that_transformers_knows_draft_as_in_transformers(
    build: Callable[[], Any], tmp_path: Path
) -> None:
    model = build()
    loaded = loaded_with_layers(model, random_layers(model), tmp_path)
    same_as_generate("mtp", (loaded, None), k=1, new=8, use_mtp=True)
    assert run("mtp", loaded, prompt=PROMPTS[0], k=3, max_new_tokens=8).ids == (
        run("plain", loaded, prompt=PROMPTS[0], max_new_tokens=8).ids
    )


@pytest.mark.parametrize("window", [None, 8])
@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("length", [3, 12, 300])
def test_rows_of_rejected_tokens_and_of_own_output_are_never_kept(
    window: int | None, k: int, length: int, taught_mellum: Callable[[int | None], Loaded]
) -> None:
    fresh_each_round("mtp", (taught_mellum(window), None), k, length)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_so_it_is_with_two_layers(k: int, two_layers: Loaded) -> None:
    fresh_each_round("mtp", (two_layers, None), k)


def test_beyond_the_last_layer_drafts_are_still_accepted(taught_mellum: Callable[[int | None], Loaded]) -> None:
    one = run("mtp", taught_mellum(None), prompt=PROMPTS[0], k=4, max_new_tokens=60)
    assert one.ids == run("plain", taught_mellum(None), prompt=PROMPTS[0], max_new_tokens=60).ids
    assert max(r.accepted for r in one.rounds) > 1


def test_a_prompt_of_one_token_starts_with_a_plain_round(taught_mellum: Callable[[int | None], Loaded]) -> None:
    one = run("mtp", taught_mellum(None), prompt=(3,), k=3, max_new_tokens=12)
    assert [len(r.drafted) for r in one.rounds][:2] == [0, 3]


def test_layers_are_read_once_and_a_run_changes_no_weight(taught_mellum: Callable[[int | None], Loaded]) -> None:
    target = taught_mellum(None)
    layers = prediction_layers(target.model, target.name)
    before = [w.clone() for module in (target.model, layers) for w in module.state_dict().values()]
    run("mtp", target, prompt=PROMPTS[0], k=4, max_new_tokens=20)
    assert prediction_layers(target.model, target.name) is layers
    after = [w for module in (target.model, layers) for w in module.state_dict().values()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_target_without_prediction_layers_is_refused_with_targets_that_have_them(tiny: Loaded) -> None:
    with pytest.raises(InvalidRequest, match="tiny .LlamaForCausalLM. has no layers.*story-teller.*DeepSeek-V3.*GLM"):
        run("mtp", tiny)


@pytest.mark.parametrize("build", [lambda: mellum(V), lambda: glm4_moe(46, vocab=V)])
def test_a_promise_that_the_files_do_not_keep_is_refused(build: Callable[[], Any], tmp_path: Path) -> None:
    target = load("hollow", save_with_layers(tmp_path, build(), None), "float32")
    with pytest.raises(InvalidRequest, match="hollow promises.*could not be loaded.*story-teller"):
        run("mtp", target)


# --- Gemma 4's drafter -----------------------------------------------------------------------------------

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "short window": {"window": 8},
    "shared keys and values": {
        "types": ("sliding_attention", "full_attention", "sliding_attention", "full_attention"),
        "shared": 2, "per_layer": 4, "window": 8,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def taught_gemma() -> tuple[Loaded, Loaded]:
    """A pair whose drafter is right now and then."""
    model, drafter = gemma4(V, None, spread=0.1), gemma4_drafter(V, spread=0.1)
    teach_drafter(model, drafter, 40)
    drafter.generation_config.num_assistant_tokens = 3
    return wrap("gemma", model.eval(), byte_tokenizer()), wrap("gemma-drafter", drafter.eval(), byte_tokenizer())


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_gemma_4_goes_back_over_rejected_tokens(shape: dict[str, Any]) -> None:
    model = gemma4(V, None, **shape)
    followed, dice = wrap("gemma", model, byte_tokenizer()).follow(), Random(0)
    ids = [dice.randrange(V) for _ in range(9)]
    with torch.inference_mode():
        for _ in range(20):
            ids = ids[: len(ids) - dice.randint(0, 3)] + [dice.randrange(V) for _ in range(dice.randint(1, 4))]
            keep = dice.randint(1, 2)
            expected = model(torch.tensor([ids])).logits[0, -keep:]
            assert torch.allclose(followed.logits(ids, keep), expected, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("length", [3, 40])
def test_the_drafter_sees_the_same_after_a_rejection_as_from_a_fresh_start(shape: dict[str, Any], length: int) -> None:
    fresh_each_round("mtp-drafter", gemma4_pair(V, None, **shape), 3, length)


def without_the_rejected(kept: list[bool]) -> Callable[..., Any]:
    """transformers' drafting, given no more of the target's keys and values than the accepted tokens made."""
    original = candidate_generator.SinglePositionMultiTokenCandidateGenerator.get_candidates

    def candidates(self: Any, input_ids: Any, model_kwargs: Any, model_outputs: Any, *rest: Any, **more: Any) -> Any:
        if model_outputs is not None:
            length = input_ids.shape[1] - 1
            shared = model_outputs.shared_kv_states
            kept.append(all(k.shape[-2] == length for k, _ in shared.values()))
            model_outputs.shared_kv_states = {n: (k[:, :, :length], v[:, :, :length]) for n, (k, v) in shared.items()}
        return original(self, input_ids, model_kwargs, model_outputs, *rest, **more)

    return candidates


def test_the_drafter_drafts_what_transformers_drafts_but_for_its_fault(
    taught_gemma: tuple[Loaded, Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a rejection transformers shows the drafter the keys and values of the rejected token too. Up to the first
    rejection rounds are the same; with that mended they all are."""
    target, helper = taught_gemma
    for prompt in PROMPTS:
        theirs, rounds = generated(target.model, prompt, 40, assistant_model=helper.model)
        one = run("mtp-drafter", target, helper, prompt=(*prompt, theirs[0]), max_new_tokens=39, k=3)
        assert theirs == (theirs[0], *one.ids)
        ours = [len(r.emitted) for r in one.rounds]
        first = next((i for i, n in enumerate(ours) if n < 4), len(ours))
        assert ours[: first + 1] == rounds[1 : first + 2]
    kept: list[bool] = []
    generator = candidate_generator.SinglePositionMultiTokenCandidateGenerator
    monkeypatch.setattr(generator, "get_candidates", without_the_rejected(kept))
    emitted = same_as_generate("mtp-drafter", taught_gemma, k=3, assistant_model=helper.model)
    assert len(emitted) > 2 and not all(kept)


@pytest.mark.parametrize("draw", ["argmax", "sample"])
def test_a_draft_is_claimed_as_it_was_made(draw: str, taught_gemma: tuple[Loaded, Loaded]) -> None:
    values = {"prompt": PROMPTS[0], "k": 3, "max_new_tokens": 30, "settings": {"draw": draw}}
    one = run("mtp-drafter", *taught_gemma, temperature=1.0, **values)
    claims = {t.q for r in one.rounds for t in r.drafted}
    assert (claims == {1.0}) == (draw == "argmax")
    greedy = run("mtp-drafter", *taught_gemma, **values)
    assert greedy.ids == run("plain", taught_gemma[0], prompt=PROMPTS[0], max_new_tokens=30).ids


@pytest.mark.parametrize("draw", ["argmax", "sample"])
def test_text_beyond_the_window_is_the_targets(draw: str) -> None:
    pair = gemma4_pair(V, None, **SHAPES["shared keys and values"])
    values = {"prompt": PROMPTS[1] * 30, "max_new_tokens": 30}
    one = run("mtp-drafter", *pair, k=4, settings={"draw": draw}, **values)
    assert one.ids == run("plain", pair[0], **values).ids


def test_the_drafter_is_refused_by_name_for_what_it_was_not_made_for(tiny: Loaded, tiny_helper: Loaded) -> None:
    target, helper = pair_for("mtp-drafter")
    check = STRATEGIES["mtp-drafter"].check
    with pytest.raises(InvalidRequest, match="tiny-helper is a LlamaForCausalLM.*Gemma4AssistantForCausalLM"):
        check(target, tiny_helper)
    with pytest.raises(InvalidRequest, match="tiny is a LlamaForCausalLM.*Gemma 4"):
        check(tiny, helper)
    wide = wrap("wide", gemma4(hidden=48), byte_tokenizer())
    with pytest.raises(InvalidRequest, match="hidden size 32, and wide has 48"):
        check(wide, helper)
    single = wrap("single", gemma4(types=("full_attention", "full_attention")), byte_tokenizer())
    with pytest.raises(InvalidRequest, match="sliding_attention, and single has no such layers"):
        check(single, helper)
    other = byte_tokenizer()
    other.add_tokens(["strange"])
    with pytest.raises(InvalidRequest, match="do not share a vocabulary.*'strange'"):
        check(target, replace(helper, tokenizer=other))
    check(target, helper)


def test_padding_rows_of_either_vocabulary_do_not_matter() -> None:
    for ours, theirs in ((257, 320), (320, 257)):
        target = wrap("target", gemma4(ours), byte_tokenizer())
        helper = wrap("helper", gemma4_drafter(theirs), byte_tokenizer())
        for draw in ("argmax", "sample"):
            one = run("mtp-drafter", target, helper, max_new_tokens=20, temperature=1.0, settings={"draw": draw})
            assert all(t.id < ours for r in one.rounds for t in r.tokens)
