"""The shapes of the story-teller family, and the tokenizer that they share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Gemma4AssistantConfig,
    Gemma4TextConfig,
    LlamaConfig,
    MellumConfig,
    PreTrainedTokenizerFast,
)

VOCABULARY, END = 4096, 0
LAYERS, HIDDEN = 16, 192


def make_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE of 4,096 tokens; token 0 ends a story."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|endoftext|>",
        pad_token="<|endoftext|>",
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )


def stories_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer that was made before.

    Raises:
        OSError: there is none in `folder`.
    """
    return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)


def teller_config() -> MellumConfig:
    """The target: deep and narrow, so that a few of its layers are cheap next to all of them; all dense, with one
    multi-token-prediction layer. Mellum, since transformers loads such layers of it at any depth."""
    return MellumConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=512,
        num_hidden_layers=LAYERS,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=64,
        max_position_embeddings=2048,
        layer_types=["full_attention"] * LAYERS,
        mlp_layer_types=["dense"] * LAYERS,
        num_mtp_layers=1,
        mtp_layer_types=["full_attention"],
        mtp_mlp_layer_types=["dense"],
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
        tie_word_embeddings=True,
        bos_token_id=END,
        eos_token_id=END,
        pad_token_id=END,
    )


def drafter_config() -> LlamaConfig:
    """The small drafter: two layers."""
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=3,
        head_dim=64,
        max_position_embeddings=2048,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
        bos_token_id=END,
        eos_token_id=END,
        pad_token_id=END,
    )


def _gemma(layers: int, hidden: int, intermediate: int, types: list[str], shared: int) -> Gemma4TextConfig:
    return Gemma4TextConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=64,
        global_head_dim=64,
        max_position_embeddings=2048,
        sliding_window=512,
        layer_types=types,
        num_kv_shared_layers=shared,
        hidden_size_per_layer_input=0,
        vocab_size_per_layer_input=0,
        bos_token_id=END,
        eos_token_id=END,
        pad_token_id=END,
    )


def gemma_config() -> Gemma4TextConfig:
    """A tiny Gemma 4 target."""
    return _gemma(
        12, 160, 448, ["sliding_attention"] * 5 + ["full_attention"] + ["sliding_attention"] * 5 + ["full_attention"], 0
    )


def gemma_assistant_config() -> Gemma4AssistantConfig:
    """Its drafter: two layers that read the target's keys and values, one of each kind."""
    return Gemma4AssistantConfig(
        text_config=_gemma(2, 128, 384, ["sliding_attention", "full_attention"], 2),
        backbone_hidden_size=160,
    )
