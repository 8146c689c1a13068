"""Stand-ins: models that follow a script, tiny real models, a small byte-level tokenizer."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from playground.eagle_head import EagleHead, head_config, save_head
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


WORDS = 'abc abd xyz Hello the there then and a little girl who liked the park !"#$ !"# $%& \'() *+, "#$% &\'(' * 2


def word_tokenizer(size: int = 330, end: str = END) -> PreTrainedTokenizerFast:
    """Byte-level too, with other ids than `byte_tokenizer` and tokens of several bytes; its stop token is id 0."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet(), reverse=True)
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[end], initial_alphabet=alphabet, min_frequency=1, show_progress=False
    )
    raw.train_from_iterator([WORDS], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=raw, eos_token=end)


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


Pair = tuple[Loaded, Loaded]


def _llama_pair(vocab: int, eos: int | None) -> Pair:
    shape: dict[str, Any] = {"vocab": vocab, "eos": eos} | ({"layers": 1, "spread": 0.5} if vocab < 100 else {})
    return tiny_loaded("tiny", **shape), tiny_loaded("tiny-helper", **{**shape, "seed": 1, "layers": 1})


def _two_tokenizers_pair(vocab: int, eos: int | None) -> Pair:
    words = word_tokenizer()
    helper = tiny_llama(seed=1, vocab=len(words), layers=1, eos=None if eos is None else 0, spread=0.5)
    if vocab < 100:  # it writes what the target can read, as a rule
        readable = set(byte_tokenizer().convert_ids_to_tokens(list(range(vocab))))
        strange = [i for token, i in words.get_vocab().items() if not set(token) <= readable]
        helper.lm_head.weight.data[strange] = 0
    return _llama_pair(vocab, eos)[0], wrap("tiny-helper", helper, words)


def _mtp_pair(vocab: int, eos: int | None) -> Pair:
    from tiny_models import loaded_with_layers, mellum, random_layers

    model = mellum(vocab, eos, spread=0.5 if vocab < 100 else 0.2)
    return loaded_with_layers(model, random_layers(model)), _llama_pair(vocab, eos)[1]


def _gemma_pair(vocab: int, eos: int | None) -> Pair:
    from tiny_models import gemma4_pair

    return gemma4_pair(vocab, eos)


def _split_pair(vocab: int, eos: int | None) -> Pair:
    spread = 0.5 if vocab < 100 else 0.2
    return tiny_loaded("tiny", vocab=vocab, eos=eos, layers=3, spread=spread), _llama_pair(vocab, eos)[1]


def tiny_head(model: LlamaForCausalLM, seed: int = 1, spread: float = 0.3) -> EagleHead:
    """A drafting head of random weights for `model`."""
    torch.manual_seed(seed)
    head = EagleHead(head_config(model.config))
    for weight in head.parameters():
        if weight.ndim == 2:
            torch.nn.init.normal_(weight, std=spread)
    return head.eval().requires_grad_(False)


def _eagle_pair(vocab: int, eos: int | None) -> Pair:
    target = _llama_pair(vocab, eos)[0]
    return target, wrap("tiny-head", tiny_head(target.model), byte_tokenizer(), tuple(range(vocab * 2 // 3)))


# Strategies that cannot run on a tiny Llama and its helper, and what builds a pair for them: of a vocabulary size and
# a stop token (None: none).
PAIRS: dict[str, Callable[[int, int | None], Pair]] = {
    "mtp": _mtp_pair,
    "mtp-drafter": _gemma_pair,
    "universal": _two_tokenizers_pair,
    "early-exit": _split_pair,
    "eagle": _eagle_pair,
}


@cache
def pair_for(strategy: str, vocab: int = 257, stops: bool = True) -> Pair:
    """A tiny target and assistant in memory that `strategy` can run on, shared between tests. Of the byte tokenizer's
    257 tokens or of the first few."""
    return PAIRS.get(strategy, _llama_pair)(vocab, 256 if stops and vocab > 256 else None)


def folders_for(root: Path, strategy: str, stops: bool = True) -> tuple[Path, Path]:
    """The same pair, saved under `root`: target, assistant."""
    from tiny_models import save_with_layers

    from playground.fused import fused
    from playground.mtp_layers import prediction_layers

    target, helper = pair_for(strategy, stops=stops)
    layers = prediction_layers(fused(target.model), target.name) if strategy == "mtp" else None
    for loaded, folder, its in ((target, root / "target", layers), (helper, root / "assistant", None)):
        if isinstance(loaded.model, EagleHead):
            save_head(loaded.model, folder)
        else:
            save_with_layers(folder, loaded.model, its)
        loaded.tokenizer.save_pretrained(folder)
    return root / "target", root / "assistant"


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
