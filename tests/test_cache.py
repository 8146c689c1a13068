"""A cached model follows any sequence of prefixes and says what a fresh one would."""

from random import Random

import pytest
import torch
from fakes import tiny_llama
from transformers import AutoModelForCausalLM, MambaConfig, MistralConfig, Qwen3Config

from playground.cache import PrefixModel, UncroppableCache

SMALL = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 1, "head_dim": 16, "initializer_range": 0.3}  # fmt: skip


def model_of(kind: str) -> torch.nn.Module:
    torch.manual_seed(0)
    if kind == "llama":
        return tiny_llama(vocab=64)
    if kind == "mistral, window 8":
        return AutoModelForCausalLM.from_config(MistralConfig(**SMALL, sliding_window=8)).eval()
    return AutoModelForCausalLM.from_config(Qwen3Config(**SMALL)).eval()


@pytest.mark.parametrize("kind", ["llama", "mistral, window 8", "qwen3"])
def test_it_agrees_with_a_fresh_model_after_any_advance_and_retreat(kind: str) -> None:
    model, rng = model_of(kind), Random(1)
    followed = PrefixModel(model)
    ids = [rng.randrange(64) for _ in range(20)]
    with torch.inference_mode():
        for step in range(60):
            retreat = rng.choice([0, 0, 1, 2, 5, 12, len(ids)])
            ids = ids[: len(ids) - retreat] + [rng.randrange(64) for _ in range(rng.randint(1, 6))]
            keep = rng.randint(1, min(6, len(ids)))
            fresh = model(torch.tensor([ids])).logits[0, -keep:]
            assert torch.allclose(followed.logits(ids, keep), fresh, atol=2e-4), f"step {step}"
            if len(ids) > 200:
                ids = ids[:10]


def test_it_feeds_only_what_is_new() -> None:
    model = tiny_llama(vocab=64)
    widths: list[int] = []
    model.register_forward_pre_hook(lambda m, a, k: widths.append(k["input_ids"].shape[1]), with_kwargs=True)
    followed = PrefixModel(model)
    with torch.inference_mode():
        followed.logits([1, 2, 3, 4], 1)
        followed.logits([1, 2, 3, 4, 5, 6], 3)
        followed.logits([1, 2, 3, 4, 5, 9, 9], 2)
        followed.release()
        followed.logits([1, 2], 1)
    assert widths == [4, 3, 2, 2]


def test_a_recurrent_state_is_refused_by_name() -> None:
    model = AutoModelForCausalLM.from_config(MambaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2))
    with pytest.raises(UncroppableCache, match=r"mamba-tiny keeps.*attention layers only"):
        PrefixModel(model, "mamba-tiny")
