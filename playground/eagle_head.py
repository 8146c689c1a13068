"""A drafting head on a Llama target's hidden states: its weights, its folder, and the cache of one run.

Li et al. 2024 (EAGLE, arXiv 2401.15077). Row t reads the embedding of token t + 1 and the target's last hidden state
at t, after its final norm, and makes what stands for the hidden state at t + 1; the target's own output layer turns
that into the token at t + 2. It knows no strategy: which rows are read and what is drawn from them is not its business.
"""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoConfig, LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from playground.cache import GrowingLayer, PrefixModel, context_of
from playground.trace import InvalidRequest

MODEL_TYPE = "eagle-head"
WEIGHTS = "model.safetensors"
Rotary = tuple[Tensor, Tensor]
# (q [B, heads, n, d], k and v [B, kv, n, d], rotated) -> [B, heads, n, d]
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


class EagleHeadConfig(LlamaConfig):
    """The shape of the target that the head is for, with one layer."""

    model_type = MODEL_TYPE


AutoConfig.register(MODEL_TYPE, EagleHeadConfig, exist_ok=True)  # AutoTokenizer reads it


class Norm(nn.RMSNorm):
    """RMSNorm whose weight takes the input's type, as under autocast the fused one needs."""

    def forward(self, x: Tensor) -> Tensor:
        """Like `x`, [..., H]."""
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


class EagleHead(nn.Module):
    """One Llama decoder layer behind a layer that joins embedding and hidden state; q, k, v and gate, up are joined,
    since a matrix read at once is read faster. Embeddings and output layer are the target's and not in here."""

    generation_config = None

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        hidden, self.dim = config.hidden_size, config.head_dim
        self.heads, self.kv = config.num_attention_heads, config.num_key_value_heads
        self.fc = nn.Linear(2 * hidden, hidden, bias=False)
        self.qkv = nn.Linear(hidden, (self.heads + 2 * self.kv) * self.dim, bias=False)
        self.out = nn.Linear(self.heads * self.dim, hidden, bias=False)
        self.gate_up = nn.Linear(hidden, 2 * config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, hidden, bias=False)
        self.norm_in, self.norm_mlp, self.norm = (Norm(hidden, eps=config.rms_norm_eps) for _ in range(3))

    @property
    def dtype(self) -> torch.dtype:
        """Of its weights."""
        return self.fc.weight.dtype

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return self.fc.weight.device

    def joined(self, embeds: Tensor, hidden: Tensor) -> Tensor:
        """What `fc` reads, [..., 2H]: both parts brought to the same size, which they are far from in a target."""
        width = (embeds.shape[-1],)
        eps = self.config.rms_norm_eps
        return torch.cat([F.rms_norm(embeds, width, eps=eps), F.rms_norm(hidden, width, eps=eps)], -1)

    def forward(self, embeds: Tensor, hidden: Tensor, rotary: Rotary, attend: Attend) -> Tensor:
        """[B, n, H], which stands for the target's next hidden states, of embeddings and hidden states [B, n, H].
        `rotary` are cosines and sines [n, d] of the tokens' positions."""
        rows, count, _ = hidden.shape
        x = self.fc(self.joined(embeds, hidden))
        mixed = self.qkv(self.norm_in(x)).view(rows, count, -1, self.dim).transpose(1, 2)
        turned, v = mixed.split((self.heads + self.kv, self.kv), 1)
        q, k = rotate(turned, *rotary).split((self.heads, self.kv), 1)
        x = x + self.out(attend(q, k, v).transpose(1, 2).reshape(rows, count, -1))
        gate, up = self.gate_up(self.norm_mlp(x)).chunk(2, -1)
        x = x + self.down(F.silu(gate) * up)
        return self.norm(x)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding (Su et al. 2021, arXiv 2104.09864) of x [..., n, d], its halves being the pairs."""
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat([-high, low], -1) * sin


def rotary_table(config: Any, positions: int, dtype: torch.dtype) -> Rotary:
    """Cosines and sines [positions, d]."""
    cos, sin = LlamaRotaryEmbedding(config)(torch.zeros(1, dtype=torch.float32), torch.arange(positions)[None])
    return cos[0].to(dtype), sin[0].to(dtype)


def not_alone(name: str) -> str:
    """Why a head is refused where a model is wanted."""
    return (
        f"{name} is a drafting head, which reads a target's hidden states and cannot write by itself: choose the "
        "strategy eagle for it, or a model (a target such as smollm2-135m-instruct, an assistant such as "
        "smollm2-drafter)."
    )


class HeadModel(PrefixModel):
    """A head with keys and values of its own, for one run. Row t is that of token t + 1. Batch size 1."""

    def __init__(self, head: EagleHead, name: str, draft_vocabulary: tuple[int, ...] | None) -> None:
        self.model, self.name, self.draft_vocabulary = head, name, draft_vocabulary
        self.vocab_size, self.context = int(head.config.vocab_size), context_of(head)
        self.pass_seconds = 0.0
        self._reset()

    def _reset(self) -> None:
        self._layer, self.rows = GrowingLayer(), 0
        self._cos, self._sin = torch.zeros(0, 0), torch.zeros(0, 0)

    def logits(self, ids: Sequence[int], keep: int) -> Tensor:
        """Refused.

        Raises:
            InvalidRequest: always.
        """
        raise InvalidRequest(not_alone(self.name))

    def limit_to(self, ids: Iterable[int]) -> None:
        """Refused, as `logits`."""
        raise InvalidRequest(not_alone(self.name))

    def read(self, embeds: Tensor, hidden: Tensor) -> Tensor:
        """[n, H] of the next `n` rows, from embeddings and hidden states [n, H]."""
        begin = time.perf_counter()
        start, end = self.rows, self.rows + len(hidden)
        if end + 1 > len(self._cos):
            self._cos, self._sin = (t.to(self.model.device) for t in self._table(max(256, 2 * end)))
        out: Tensor = self.model(
            embeds[None], hidden[None], (self._cos[start + 1 : end + 1], self._sin[start + 1 : end + 1]), self._attend
        )
        self.rows = end
        self.pass_seconds += time.perf_counter() - begin
        return out[0]

    def _table(self, positions: int) -> Rotary:
        return rotary_table(self.model.config, positions, self.model.dtype)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self._layer.update(k, v)
        n, total = q.shape[2], keys.shape[2]
        mask = None if n == 1 else torch.ones(n, total, dtype=torch.bool, device=q.device).tril(total - n)
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)

    def crop(self, rows: int) -> None:
        """Forget all rows but the first `rows`."""
        if rows < self.rows:
            self._layer.crop(rows - self.rows)
            self.rows = rows

    def release(self) -> None:
        """Free keys and values."""
        self._reset()


def is_head(folder: Path) -> bool:
    """Whether `folder` holds a drafting head."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("model_type") == MODEL_TYPE


def load_head(name: str, folder: Path, dtype: torch.dtype) -> EagleHead:
    """The head in `folder`.

    Raises:
        InvalidRequest: its files are missing, or do not fit its configuration.
    """
    try:
        head = EagleHead(EagleHeadConfig.from_pretrained(folder, local_files_only=True))
        head.load_state_dict(load_file(folder / WEIGHTS))
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise InvalidRequest(f"{name} could not be loaded as a drafting head: {error}") from error
    return head.to(dtype).eval().requires_grad_(False)


def save_head(head: EagleHead, folder: Path) -> None:
    """Write configuration and weights; the tokenizer, which is the target's, is written beside them by the caller."""
    folder.mkdir(parents=True, exist_ok=True)
    head.config.save_pretrained(folder)
    save_file({k: v.contiguous() for k, v in head.state_dict().items()}, folder / WEIGHTS, metadata={"format": "pt"})


def head_config(target: Any) -> EagleHeadConfig:
    """That of a head for `target`, a Llama configuration."""
    values = target.to_dict()
    for key in ("model_type", "architectures", "dtype", "transformers_version"):
        values.pop(key, None)
    return EagleHeadConfig(**values | {"num_hidden_layers": 1, "tie_word_embeddings": False})
