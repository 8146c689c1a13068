"""Stand-ins: models that follow a script, tiny real models, a small byte-level tokenizer."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from playground.engine import Proposal
from playground.models import Loaded, wrap

END = "<|end|>"


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, and the stop token `<|end|>`, id 256."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token=END)
    tokenizer.chat_template = "{% for m in messages %}[{{ m['content'] }}]{% endfor %}"
    return tokenizer


def tiny_llama(
    seed: int = 0, vocab: int = 257, layers: int = 2, hidden: int = 32, eos: int | None = 256, spread: float = 0.2
) -> LlamaForCausalLM:
    """A Llama of random weights, float32. `spread` is the deviation of its weights: the larger, the surer it is."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab, hidden_size=hidden, intermediate_size=2 * hidden, num_hidden_layers=layers,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=512, initializer_range=spread,
        bos_token_id=None, eos_token_id=eos, pad_token_id=None, tie_word_embeddings=False,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def tiny_loaded(name: str = "tiny", **options: Any) -> Loaded:
    """A tiny model with its tokenizer, in memory."""
    return wrap(name, tiny_llama(**options), byte_tokenizer())


def save_tiny(folder: Path, **options: Any) -> Path:
    """A tiny model with its tokenizer, as a folder."""
    tiny_llama(**options).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


class ScriptedTarget:
    """A target whose logits are a function of the prefix."""

    def __init__(self, vocab: int, logits_of: Callable[[tuple[int, ...]], Tensor], context: int | None = None) -> None:
        self.vocab_size = vocab
        self.context = context
        self._logits_of = logits_of
        self.fed: list[tuple[int, ...]] = []
        self.released = 0

    def logits(self, ids: Sequence[int], keep: int) -> Tensor:
        """[keep, V]."""
        assert all(0 <= i < self.vocab_size for i in ids)
        self.fed.append(tuple(ids))
        return torch.stack([self._logits_of(tuple(ids[: len(ids) - keep + 1 + i])) for i in range(keep)])

    def release(self) -> None:
        """Counted."""
        self.released += 1


class ScriptedDrafter:
    """A drafter that proposes what a function of the prefix and K says."""

    def __init__(self, draft_of: Callable[[tuple[int, ...], int], Proposal]) -> None:
        self._draft_of = draft_of
        self.released = 0

    def prepare(self, ids: Sequence[int]) -> None:
        """Nothing to read."""

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        """As scripted."""
        return self._draft_of(tuple(ids), k)

    def release(self) -> None:
        """Counted."""
        self.released += 1


def table_logits(vocab: int, seed: int, order: int = 2, scale: float = 2.0) -> Callable[[tuple[int, ...]], Tensor]:
    """Logits that depend on the last `order` tokens only: a small random Markov model."""

    @cache
    def tail_logits(tail: tuple[int, ...]) -> Tensor:
        generator = torch.Generator().manual_seed(hash((seed, tail)) % 2**31)
        return scale * torch.randn(vocab, generator=generator)

    return lambda prefix: tail_logits(prefix[-order:])
