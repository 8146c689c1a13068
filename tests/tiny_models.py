"""Tiny models of architectures that draft with the target's own layers or its keys and values, in memory or as folders
that transformers loads."""

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from fakes import byte_tokenizer
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    Gemma4AssistantConfig,
    Gemma4AssistantForCausalLM,
    Gemma4ForCausalLM,
    Gemma4TextConfig,
    Glm4MoeConfig,
    Glm4MoeForCausalLM,
    MellumConfig,
    MellumForCausalLM,
)
from transformers.modeling_layers import MtpModel

from playground.fused import fused
from playground.models import Loaded, load, wrap
from playground.mtp_layers import prediction_layers

MELLUM_NAMES = {
    "layers.0.enorm.": "mtp.pre_fc_norm_embedding.",
    "layers.0.hnorm.": "mtp.pre_fc_norm_hidden.",
    "layers.0.eh_proj.": "mtp.fc.",
    "layers.0.post_norm.": "mtp.norm.",
    "layers.0.mtp_block.": "mtp.layers.0.",
}
SHARED = ("embed_tokens.", "shared_head.", "rotary_emb.")


def mellum(
    vocab: int = 257,
    eos: int | None = 256,
    seed: int = 0,
    layers: int = 2,
    window: int | None = None,
    spread: float = 0.2,
    hidden: int = 32,
) -> MellumForCausalLM:
    """A dense Mellum of random weights whose configuration promises one prediction layer. `window`: its last layer
    and its prediction layer look at so many tokens only."""
    torch.manual_seed(seed)
    last = "full_attention" if window is None else "sliding_attention"
    config = MellumConfig(
        vocab_size=vocab, hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=layers,
        num_attention_heads=2, num_key_value_heads=1, head_dim=16, max_position_embeddings=512,
        layer_types=["full_attention"] * (layers - 1) + [last], sliding_window=window or 512,
        mlp_layer_types=["dense"] * layers, num_mtp_layers=1, mtp_layer_types=[last], mtp_mlp_layer_types=["dense"],
        initializer_range=spread, tie_word_embeddings=False, eos_token_id=eos, bos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    return MellumForCausalLM(config).eval()


def glm4_moe(layers: int, mtp: int = 1, vocab: int = 257, eos: int | None = 256, seed: int = 0) -> Glm4MoeForCausalLM:
    """A GLM-4 MoE of random weights, two experts a layer."""
    torch.manual_seed(seed)
    config = Glm4MoeConfig(
        vocab_size=vocab, hidden_size=16, intermediate_size=16, moe_intermediate_size=8, num_hidden_layers=layers,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, n_routed_experts=2, num_experts_per_tok=1,
        n_shared_experts=1, first_k_dense_replace=1, num_mtp_layers=mtp, max_position_embeddings=512,
        initializer_range=0.2, eos_token_id=eos, bos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    return Glm4MoeForCausalLM(config).eval()


def deepseek_v3(layers: int, vocab: int = 257, eos: int | None = 256, seed: int = 0) -> DeepseekV3ForCausalLM:
    """A DeepSeek-V3 of random weights, two experts a layer."""
    torch.manual_seed(seed)
    config = DeepseekV3Config(
        vocab_size=vocab, hidden_size=16, intermediate_size=16, moe_intermediate_size=8, num_hidden_layers=layers,
        num_attention_heads=2, num_key_value_heads=2, n_routed_experts=2, num_experts_per_tok=1, n_shared_experts=1,
        n_group=1, topk_group=1, q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8,
        first_k_dense_replace=1, max_position_embeddings=512, initializer_range=0.2, eos_token_id=eos,
        bos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    return DeepseekV3ForCausalLM(config).eval()


def random_layers(model: Any, seed: int = 1) -> MtpModel:
    """Prediction layers of random weights for `model`, as many as its configuration says."""
    layers = MtpModel(model, model.config.num_mtp_layers).eval()
    generator = torch.Generator().manual_seed(seed)
    for name, weight in layers.layers.state_dict().items():  # transformers leaves a router's weights as they come
        if "norm" not in name:
            weight.normal_(0.0, 0.0 if name.endswith("bias") else model.config.initializer_range, generator=generator)
    return layers


def save_with_layers(folder: Path, model: Any, layers: MtpModel | None) -> Path:
    """`model` as a folder with a tokenizer, its prediction layers under the names of published checkpoints;
    `save_pretrained` alone drops them. `layers` None: as it leaves it."""
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    if layers is None:
        return folder
    path = folder / "model.safetensors"
    own = {k: v for k, v in layers.state_dict().items() if not k.startswith(SHARED)}
    save_file(load_file(path) | dict(_published(model, own)), path, metadata={"format": "pt"})
    return folder


def _published(model: Any, weights: dict[str, Tensor]) -> Iterable[tuple[str, Tensor]]:
    for name, weight in weights.items():
        if isinstance(model, MellumForCausalLM):
            old = next(o for o in MELLUM_NAMES if name.startswith(o))
            yield MELLUM_NAMES[old] + name.removeprefix(old), weight.contiguous()
            continue
        _, layer, rest = name.split(".", 2)
        rest = rest.removeprefix("mtp_block.").replace("post_norm.", "shared_head.norm.")
        prefix = f"model.layers.{model.config.num_hidden_layers + int(layer)}."
        if rest == "mlp.experts.gate_up_proj":
            for e, expert in enumerate(weight):
                gate, up = expert.chunk(2)
                yield f"{prefix}mlp.experts.{e}.gate_proj.weight", gate.contiguous()
                yield f"{prefix}mlp.experts.{e}.up_proj.weight", up.contiguous()
        elif rest == "mlp.experts.down_proj":
            for e, expert in enumerate(weight):
                yield f"{prefix}mlp.experts.{e}.down_proj.weight", expert.contiguous()
        else:
            yield prefix + rest, weight.contiguous()


def loaded_with_layers(model: Any, layers: MtpModel, folder: Path | None = None, name: str = "tiny-mtp") -> Loaded:
    """Saved, loaded again as any checkpoint is, its prediction layers read. `folder` is kept where one is given."""
    if folder is None:
        with tempfile.TemporaryDirectory() as passing:
            return loaded_with_layers(model, layers, Path(passing), name)
    loaded = load(name, save_with_layers(folder, model, layers), "float32")
    prediction_layers(fused(loaded.model), name)
    return loaded


def gemma4_config(
    vocab: int, eos: int | None, types: tuple[str, ...], shared: int = 0, per_layer: int = 0, window: int = 64,
    hidden: int = 32, spread: float = 0.3,
) -> Gemma4TextConfig:  # fmt: skip
    """The shape of a tiny Gemma 4: `shared` of its layers reuse keys and values; `per_layer` is the width of its
    per-layer embeddings."""
    return Gemma4TextConfig(
        vocab_size=vocab, hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=len(types),
        num_attention_heads=2, num_key_value_heads=1, head_dim=16, global_head_dim=16, layer_types=list(types),
        sliding_window=window, num_kv_shared_layers=shared, hidden_size_per_layer_input=per_layer,
        vocab_size_per_layer_input=vocab if per_layer else 0, max_position_embeddings=512, initializer_range=spread,
        tie_word_embeddings=False, eos_token_id=eos, bos_token_id=None, pad_token_id=None,
    )  # fmt: skip


def gemma4(vocab: int = 257, eos: int | None = 256, seed: int = 0, **shape: Any) -> Gemma4ForCausalLM:
    """A Gemma 4 text model of random weights."""
    torch.manual_seed(seed)
    types = shape.pop("types", ("sliding_attention", "full_attention"))
    return Gemma4ForCausalLM(gemma4_config(vocab, eos, types, **shape)).eval()


def gemma4_drafter(vocab: int = 257, seed: int = 1, backbone: int = 32, **shape: Any) -> Gemma4AssistantForCausalLM:
    """Its drafter, of random weights: one layer of each kind, all of whose keys and values are the target's."""
    torch.manual_seed(seed)
    types = ("sliding_attention", "full_attention")
    text = gemma4_config(vocab, None, types, shared=2, **shape)
    return Gemma4AssistantForCausalLM(Gemma4AssistantConfig(text_config=text, backbone_hidden_size=backbone)).eval()


def gemma4_pair(vocab: int = 257, eos: int | None = 256, seed: int = 0, **shape: Any) -> tuple[Loaded, Loaded]:
    """A tiny Gemma 4 with its drafter, in memory."""
    window = shape.get("window", 64)
    return (
        wrap("tiny-gemma", gemma4(vocab, eos, seed, **shape), byte_tokenizer()),
        wrap("tiny-gemma-drafter", gemma4_drafter(vocab, seed + 1, window=window), byte_tokenizer()),
    )


def riddle(rows: int, length: int, vocab: int, generator: torch.Generator) -> Tensor:
    """Texts [rows, length] of which each token mostly follows from the two before it."""
    table = torch.randint(vocab, (vocab, vocab), generator=torch.Generator().manual_seed(5))
    text = torch.randint(vocab, (rows, length), generator=generator)
    for i in range(2, length):
        chance = torch.rand(rows, generator=generator)
        text[:, i] = torch.where(chance < 0.95, table[text[:, i - 2], text[:, i - 1]], text[:, i])
    return text


def teach(modules: Iterable[torch.nn.Module], loss_of: Callable[[Tensor], Tensor], steps: int, vocab: int) -> None:
    """Train until drafts are now and then right: `loss_of` is given texts [16, 32]."""
    weights = {p for module in modules for p in module.parameters()}
    generator = torch.Generator().manual_seed(3)
    optimizer = torch.optim.AdamW(weights, lr=5e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(riddle(16, 32, vocab, generator)).backward()
        optimizer.step()


def teach_layers(model: Any, layers: MtpModel, steps: int = 150) -> None:
    """Train a model and its prediction layers together, each layer for the token one further."""

    def loss_of(text: Tensor) -> Tensor:
        hidden = model.get_decoder()(text).last_hidden_state
        loss = cross_entropy(model.lm_head(hidden[:, :-1]), text[:, 1:])
        for j in range(layers.num_mtp_layers):
            positions = torch.arange(1 + j, text.shape[1])[None]
            hidden = layers.forward_layer(j, hidden[:, :-1], positions, None, input_ids=text[:, 1 + j :])
            loss = loss + cross_entropy(model.lm_head(hidden[:, :-1]), text[:, 2 + j :])
        return loss

    teach((model, layers), loss_of, steps, model.config.vocab_size)


def teach_drafter(model: Gemma4ForCausalLM, drafter: Gemma4AssistantForCausalLM, steps: int = 150) -> None:
    """Train a Gemma 4 and its drafter together, the drafter for three tokens from one position."""
    generator = torch.Generator().manual_seed(4)

    def loss_of(text: Tensor) -> Tensor:
        loss = cross_entropy(model(text).logits[:, :-1], text[:, 1:])
        at = int(torch.randint(4, text.shape[1] - 4, (1,), generator=generator))
        out = model(text[:, :at], output_hidden_states=True, return_shared_kv_states=True)
        hidden = out.hidden_states[-1][:, -1:]
        for j in range(at, at + 3):
            made = drafter(
                inputs_embeds=torch.cat([model.get_input_embeddings()(text[:, j : j + 1]), hidden], dim=-1),
                position_ids=torch.tensor([[at]]),
                shared_kv_states=out.shared_kv_states,
            )
            hidden = made.last_hidden_state
            loss = loss + cross_entropy(made.logits, text[:, j + 1 : j + 2])
        return loss

    teach((model, drafter), loss_of, steps, model.config.vocab_size)


def cross_entropy(logits: Tensor, text: Tensor) -> Tensor:
    """Mean over rows and positions; `logits` [n, t, V]."""
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), text.flatten())
