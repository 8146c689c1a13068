"""The first layers of the target draft and the rest verify: what a split model says is what the whole one says."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from fakes import byte_tokenizer, save_tiny, tiny_llama, tiny_loaded
from runs import request_for, run
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    Gemma2Config,
    Gemma3TextConfig,
    Gemma4TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    MambaConfig,
    MellumConfig,
    MistralConfig,
    OPTConfig,
    Qwen3Config,
    T5Config,
    T5ForConditionalGeneration,
)

from playground.models import Library, wrap
from playground.run import Prepared, prepare
from playground.split import SplitModel, last_exit, layers_path
from playground.trace import InvalidRequest
from strategies import strategy

V, LAYERS = 64, 4
SMALL: dict[str, Any] = {
    "vocab_size": V, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": LAYERS,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "initializer_range": 0.3,
    "max_position_embeddings": 512, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
}  # fmt: skip
OLD = {key: value for key, value in SMALL.items() if key not in ("num_key_value_heads", "head_dim")}
MIXED = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
PAIRED = ["sliding_attention", "full_attention"]


def gemma4(layers: int = LAYERS, shared: int = 0, inputs: int = 0) -> Gemma4TextConfig:
    """`shared` last layers use the keys and values of earlier ones; `inputs` numbers enter every layer by token."""
    return Gemma4TextConfig(
        **{**SMALL, "num_hidden_layers": layers}, layer_types=PAIRED * (layers // 2), sliding_window=8,
        global_head_dim=16, enable_moe_block=False, num_kv_shared_layers=shared, hidden_size_per_layer_input=inputs,
        vocab_size_per_layer_input=V,
    )  # fmt: skip


CONFIGS: dict[str, Callable[[], Any]] = {
    "qwen3": lambda: Qwen3Config(**SMALL),
    "mistral, window 8": lambda: MistralConfig(**SMALL, sliding_window=8),
    "gemma 2": lambda: Gemma2Config(
        **SMALL, layer_types=MIXED, sliding_window=8, final_logit_softcapping=20.0, query_pre_attn_scalar=16
    ),
    "gemma 3": lambda: Gemma3TextConfig(**SMALL, layer_types=MIXED, sliding_window=8),
    "gemma 4": gemma4,
    "gemma 4, inputs for every layer": lambda: gemma4(inputs=8),
    "gemma 4, shared keys": lambda: gemma4(layers=6, shared=2, inputs=8),
    "mellum": lambda: MellumConfig(
        **SMALL, layer_types=["full_attention"] * LAYERS, mlp_layer_types=["dense"] * LAYERS
    ),
    "gpt-2": lambda: GPT2Config(
        vocab_size=V, n_embd=32, n_layer=LAYERS, n_head=2, n_positions=512, initializer_range=0.3, eos_token_id=None,
        bos_token_id=None,
    ),
    "opt": lambda: OPTConfig(**OLD, ffn_dim=64, word_embed_proj_dim=16),
    "gpt-neox": lambda: GPTNeoXConfig(**OLD),
    "bloom, whose layers return tuples": lambda: BloomConfig(
        vocab_size=V, hidden_size=32, n_layer=LAYERS, n_head=2, initializer_range=0.3, bos_token_id=None,
        eos_token_id=None,
    ),
}  # fmt: skip
KINDS = ["llama", *CONFIGS]


def model_of(kind: str) -> Any:
    """A tiny model of random weights, float32."""
    torch.manual_seed(0)
    if kind == "llama":
        return tiny_llama(vocab=V, layers=LAYERS, eos=None)
    return AutoModelForCausalLM.from_config(CONFIGS[kind]()).eval()


@pytest.mark.parametrize("kind", KINDS)
def test_a_split_pass_says_what_a_whole_one_does_after_any_advance_and_retreat(kind: str) -> None:
    model, rng = model_of(kind), Random(1)
    with torch.inference_mode():
        for exit_layer in range(1, last_exit(model, kind) + 1):
            split = SplitModel(model, exit_layer, kind)
            ids = [rng.randrange(V) for _ in range(20)]
            for step in range(30):
                retreat = rng.choice([0, 0, 1, 2, 5, 12, len(ids)])
                ids = ids[: len(ids) - retreat] + [rng.randrange(V) for _ in range(rng.randint(1, 6))]
                draft = [rng.randrange(V) for _ in range(rng.randint(0, 4))]
                for i in range(len(draft)):
                    split.early_logits(ids + draft[:i])
                keep = rng.randint(1, len(draft) + 1)
                said = split.logits(ids + draft, keep)
                fresh = model(torch.tensor([ids + draft])).logits[0, -keep:]
                assert torch.allclose(said, fresh, rtol=1e-5, atol=5e-5), f"exit {exit_layer}, step {step}"


@pytest.mark.parametrize("kind", KINDS)
def test_the_exit_says_what_a_model_without_the_later_layers_does(kind: str) -> None:
    model, ids = model_of(kind), [7 * i % V for i in range(20)]
    with torch.inference_mode():
        for exit_layer in range(1, last_exit(model, kind) + 1):
            short, split = deepcopy(model), SplitModel(model, exit_layer, kind)
            del short.get_submodule(layers_path(short, kind))[exit_layer:]
            split.logits(ids[:12], 1)
            for n in (12, 13, 14, 20, 17):
                alone = short(torch.tensor([ids[:n]]), use_cache=False).logits[0, -1:]
                assert torch.allclose(split.early_logits(ids[:n]), alone, rtol=1e-5, atol=5e-5), (exit_layer, n)


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_text_is_the_targets_at_every_exit_and_the_model_is_left_as_it_was(kind: str) -> None:
    model = model_of(kind)
    target = wrap(kind, model, byte_tokenizer())
    config, weights = deepcopy(model.config.to_dict()), {k: v.clone() for k, v in model.state_dict().items()}
    modules = {path: (id(m), dict(m._modules)) for path, m in model.named_modules()}
    prompt = tuple(range(3, 23))
    plain = run("plain", target, prompt=prompt, max_new_tokens=30)
    for exit_layer in range(1, last_exit(model, kind) + 1):
        one = run("early-exit", target, prompt=prompt, max_new_tokens=30, k=4, settings={"exit_layer": exit_layer})
        assert one.ids == plain.ids, f"exit {exit_layer}"
        assert any(r.drafted for r in one.rounds)
    assert model.config.to_dict() == config
    assert all(torch.equal(v, weights[k]) for k, v in model.state_dict().items())
    assert {path: (id(m), dict(m._modules)) for path, m in model.named_modules()} == modules
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_first_layers_run_once_for_each_new_token_and_the_others_once_a_round() -> None:
    model = tiny_llama(layers=5, eos=None)
    for layer in model.model.layers[2:]:  # layers that change nothing: the exit agrees with the whole
        for part in (layer.self_attn.o_proj, layer.mlp.down_proj):
            torch.nn.init.zeros_(part.weight)
    calls: list[tuple[int, int]] = []
    for i, layer in enumerate(model.model.layers):
        layer.register_forward_pre_hook(lambda m, args, i=i: calls.append((i, args[0].shape[1])))
    k = 4
    request = request_for("early-exit", k=k, max_new_tokens=3 * (k + 1), settings={"exit_layer": 2})
    target = wrap("tiny", model, byte_tokenizer())
    events = Prepared(request, target, None).events()
    next(events)  # the prompt is read, but for its last token
    calls.clear()
    for _ in range(3):
        one_round = next(events)
        assert [t.verdict for t in one_round.tokens] == ["accepted"] * k + ["bonus"]
        first = [n for i, n in calls if i == 0]
        assert first == [n for i, n in calls if i == 1] == [1] * (k + 1)
        assert [(i, n) for i, n in calls if i >= 2] == [(2, k + 1), (3, k + 1), (4, k + 1)]
        calls.clear()


@pytest.mark.parametrize("exit_layer", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_text_is_that_of_transformers_early_exit(exit_layer: int, seed: int) -> None:
    model = tiny_llama(seed=seed, layers=4, eos=None)
    prompt = tuple(b"Once upon")
    theirs = deepcopy(model).generate(
        torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)), max_new_tokens=40, do_sample=False,
        assistant_early_exit=exit_layer, pad_token_id=0,
    )[0, len(prompt) :]  # fmt: skip
    target = wrap("tiny", model, byte_tokenizer())
    ours = run("early-exit", target, prompt=prompt, max_new_tokens=40, settings={"exit_layer": exit_layer})
    assert ours.ids == tuple(theirs.tolist())


def test_a_draft_ends_with_the_first_unsure_token() -> None:
    target = tiny_loaded(layers=3, eos=None, spread=0.5)
    values: dict[str, Any] = {"prompt": tuple(b"abc abc"), "max_new_tokens": 40, "k": 6, "temperature": 1.0}
    one = run("early-exit", target, **values, settings={"confidence": 0.3})
    drafts = [[t.q >= 0.3 for t in r.drafted] for r in one.rounds[:-1] if r.drafted]
    assert all(all(sure[:-1]) for sure in drafts)
    assert all(not sure[-1] for sure in drafts if len(sure) < 6)
    assert len({len(sure) for sure in drafts}) > 1
    always = run("early-exit", target, **values)
    assert {len(r.drafted) for r in always.rounds[:-6]} == {6}


def test_passes_of_either_part_are_timed() -> None:
    split = SplitModel(tiny_llama(layers=3), 1)
    with torch.inference_mode():
        seconds = [split.pass_seconds]
        for step in (lambda: split.logits([1, 2, 3], 1), lambda: split.early_logits([1, 2, 3, 4]),
                     lambda: split.logits([1, 2, 3, 4, 5], 2)):  # fmt: skip
            step()
            seconds.append(split.pass_seconds)
    assert seconds == sorted(set(seconds))


def test_hidden_states_are_told_of_after_target_passes_only() -> None:
    model, told = tiny_llama(layers=3), []
    split = SplitModel(model, 2)
    split.watch(lambda start, hidden: told.append((start, hidden)))
    with torch.inference_mode():
        split.logits([1, 2, 3], 1)
        split.early_logits([1, 2, 3, 4])
        split.early_logits([1, 2, 3, 4, 5])
        split.logits([1, 2, 3, 4, 5, 6], 3)
        assert [(start, len(hidden)) for start, hidden in told] == [(0, 3), (3, 3)]
        fresh = model.model(torch.tensor([[1, 2, 3, 4, 5, 6]])).last_hidden_state[0, 3:]
    assert torch.allclose(told[-1][1], fresh, atol=1e-5)


@pytest.mark.parametrize("exit_layer", [0, 4, 9])
def test_an_exit_out_of_range_is_refused_with_the_range_before_anything_runs(exit_layer: int, tmp_path: Path) -> None:
    folder = str(save_tiny(tmp_path / "four", layers=4))
    allowed = "from 1 to 3 with .*four" if exit_layer else "1 or more"
    with pytest.raises(InvalidRequest, match=f"exit_layer is {exit_layer}; it must be {allowed}"):
        prepare(Library(), "Hello", target=folder, strategy_name="early-exit", settings={"exit_layer": exit_layer})


def test_the_largest_exit_is_known_for_a_target() -> None:
    choice = next(c for c in strategy("early-exit").settings if c.name == "exit_layer")
    assert choice.maximum_of is not None
    assert choice.maximum_of(tiny_loaded(layers=7)) == 6
    assert last_exit(model_of("gemma 4, shared keys"), "shared") == 2


def test_what_cannot_be_split_is_refused_by_name() -> None:
    mamba = AutoModelForCausalLM.from_config(MambaConfig(vocab_size=V, hidden_size=32, num_hidden_layers=2))
    t5 = T5ForConditionalGeneration(T5Config(vocab_size=V, d_model=16, d_kv=8, d_ff=16, num_layers=2, num_heads=2))
    sharing = AutoModelForCausalLM.from_config(gemma4(shared=2))
    shallow = tiny_llama(layers=1)
    reasons = {"cannot be split: it keeps a Linear": mamba, "T5ForConditionalGeneration.*no decoder": t5,
               "one layer only": shallow, "keys and values of its first": sharing}  # fmt: skip
    for reason, model in reasons.items():
        with pytest.raises(InvalidRequest, match=f"strange.*{reason}.*another strategy"):
            strategy("early-exit").check(replace(tiny_loaded("strange"), model=model), None)
