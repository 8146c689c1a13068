"""The view with joined matrices: the same numbers from the same memory, the model itself untouched."""

import pytest
import torch
from tiny_models import deepseek_v3, gemma4, glm4_moe, mellum
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from playground.fused import First, fused

SHAPE = {
    "vocab_size": 257, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1,
}  # fmt: skip
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE)),
    "qwen2, with biases": lambda: Qwen2ForCausalLM(Qwen2Config(**SHAPE)),
    "mellum": mellum,
    "gemma4": gemma4,
    "glm4-moe": lambda: glm4_moe(2),
    "deepseek-v3": lambda: deepseek_v3(2),
    "gpt2, nothing to join": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=257, n_embd=32, n_layer=2, n_head=2)),
}
IDS = torch.arange(20)[None]


@pytest.mark.parametrize("name", MODELS)
@torch.inference_mode()
def test_the_view_gives_the_models_logits_from_the_models_memory(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    before = model(input_ids=IDS).logits
    view = fused(model)
    torch.testing.assert_close(view(input_ids=IDS).logits, before, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(model(input_ids=IDS).logits, before, rtol=0, atol=0)
    joined = [m for m in view.modules() if isinstance(m, First)]
    assert not any(isinstance(m, First) for m in model.modules())
    assert bool(joined) is not name.startswith("gpt2")
    for first in joined:
        whole = first._product.weight
        assert first.weight.data_ptr() == whole.data_ptr()
        assert len(whole) > len(first.weight)


def test_a_change_of_the_models_weights_reaches_the_view() -> None:
    model = mellum()
    view = fused(model)
    with torch.no_grad():
        before = view(input_ids=IDS).logits.clone()
        for parameter in model.model.layers[0].parameters():
            parameter.mul_(1.5)
        torch.testing.assert_close(view(input_ids=IDS).logits, model(input_ids=IDS).logits)
        assert not torch.allclose(view(input_ids=IDS).logits, before)


def test_other_input_than_the_first_modules_is_multiplied_anew() -> None:
    model = mellum()
    attention, own = fused(model).model.layers[0].self_attn, model.model.layers[0].self_attn
    x, y = torch.randn(2, 1, 3, 32)
    with torch.no_grad():
        attention.q_proj(x)
        torch.testing.assert_close(attention.k_proj(y), own.k_proj(y))
        torch.testing.assert_close(attention.k_proj(x), own.k_proj(x))


def test_a_model_has_one_view() -> None:
    model = mellum()
    assert fused(model) is fused(model)
