"""A batch of independent continuations of one Llama target; knows no prompts and no files.

The forward pass is written out so that one thread keeps its matrix units busy: each slot has its
own position, a finished slot is refilled while the others go on, the cache is written in place,
and attention is a small kernel (`attention.cpp`, for processors with AVX512-BF16) because
PyTorch's takes as long as all the matrix products together when every row has one query.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaForCausalLM

TOP = 32
SOURCE = Path(__file__).with_name("attention.cpp")


def compiled_attention() -> Callable[..., None]:
    """`attend` of attention.cpp, built by g++ for this processor.

    Raises:
        RuntimeError: no g++, or a processor without AVX512-BF16.
    """
    if shutil.which("g++") is None:
        raise RuntimeError("sampling needs g++ (Debian: apt-get install g++)")
    if "avx512_bf16" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        raise RuntimeError("sampling needs a processor with avx512_bf16")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "attention.so"
        # The parts of -ffast-math: that itself links code which makes the whole process flush small numbers to 0.
        relaxed = ["-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-fno-trapping-math"]
        flags = ["-O3", *relaxed, "-fno-math-errno", "-march=native", "-shared", "-fPIC"]
        subprocess.run(["g++", *flags, str(SOURCE), "-o", str(library)], check=True)
        attend = ctypes.CDLL(str(library)).attend
    attend.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_int64] * 3
    attend.restype = None
    return attend


def top_logits(logits: Tensor, k: int = TOP) -> tuple[Tensor, Tensor]:
    """Values and ids of the `k` largest of `logits` [B, V], sorted; both [B, k].

    The `k` largest entries lie in the `k` chunks with the largest maxima, which makes this
    several times faster than `topk` over the whole vocabulary.
    """
    rows, vocab = logits.shape
    chunks = logits.view(rows, vocab // 64, 64)
    best = chunks.amax(-1).topk(k, -1, sorted=False).indices
    inside = chunks.gather(1, best[:, :, None].expand(-1, -1, 64)).reshape(rows, -1)
    values, where = inside.topk(k, -1)
    return values, best.gather(1, where // 64) * 64 + where % 64


class _Layer:
    """The weights of one decoder layer, with q, k, v and gate, up joined."""

    def __init__(self, layer: torch.nn.Module) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.qkv = torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]).contiguous()
        self.out = attention.o_proj.weight
        self.gate_up = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]).contiguous()
        self.down = mlp.down_proj.weight
        self.norm_in = layer.input_layernorm.weight
        self.norm_mlp = layer.post_attention_layernorm.weight


class Slots:
    """`size` slots of at most `length` tokens each, all starting with the same `prefix`."""

    def __init__(self, model: LlamaForCausalLM, size: int, length: int, prefix: Sequence[int]) -> None:
        config = model.config
        self.size, self.length, self.prefix = size, length, list(prefix)
        self.dim, self.heads = config.head_dim, config.num_attention_heads
        self.kv = config.num_key_value_heads
        self.eps = config.rms_norm_eps
        self.layers = [_Layer(layer) for layer in model.model.layers]
        self.embed = model.model.embed_tokens.weight
        self.norm = model.model.norm.weight
        dtype = self.embed.dtype
        positions = torch.arange(length)
        cos, sin = model.model.rotary_emb(self.embed[:1, None].float(), positions[None])
        self.cos, self.sin = cos[0].to(dtype), sin[0].to(dtype)
        count = len(self.layers)
        if length % 16 or dtype != torch.bfloat16 or self.heads != 3 * self.kv or self.dim != 64:
            raise ValueError("the kernel wants bfloat16, 3 queries a key, 64 dimensions, 16 | length")
        self.keys = torch.zeros(count, size, self.kv, length // 16, 32, 16, 2, dtype=dtype)
        self.values = torch.zeros(count, size, self.kv, length // 2, 64, 2, dtype=dtype)
        self.attend = compiled_attention()
        self._prefix_kv: list[tuple[Tensor, Tensor]] = []
        self._fill_prefix()

    def _rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        half = self.dim // 2
        turned = torch.cat([-x[..., half:], x[..., :half]], -1)
        return x * cos + turned * sin

    def _rms(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), weight, self.eps)

    def _mlp(self, layer: _Layer, x: Tensor) -> Tensor:
        gate, up = F.linear(self._rms(x, layer.norm_mlp), layer.gate_up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, layer.down)

    def _fill_prefix(self) -> None:
        if self.prefix:
            self._prefix_kv = []
            _, kv = self._forward_block(torch.tensor([self.prefix]), 0)
            self._prefix_kv = kv

    def _forward_block(self, ids: Tensor, start: int) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Hidden states [N, L, H] of `ids` [N, L] that begin at position `start`."""
        rows, count = ids.shape
        cos = self.cos[start : start + count][None, :, None]
        sin = self.sin[start : start + count][None, :, None]
        mask = torch.ones(count, start + count, dtype=torch.bool).tril(start)
        x = self.embed[ids]
        kvs: list[tuple[Tensor, Tensor]] = []
        width = (self.heads, self.kv, self.kv)
        for index, layer in enumerate(self.layers):
            mixed = F.linear(self._rms(x, layer.norm_in), layer.qkv)
            q, k, v = mixed.view(rows, count, -1, self.dim).split(width, 2)
            q, k = self._rotate(q, cos, sin), self._rotate(k, cos, sin)
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
            kvs.append((k, v))
            if start:
                k0, v0 = self._prefix_kv[index]
                k = torch.cat([k0.expand(rows, -1, -1, -1), k], 2)
                v = torch.cat([v0.expand(rows, -1, -1, -1), v], 2)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
            x = x + F.linear(y.transpose(1, 2).reshape(rows, count, -1), layer.out)
            x = self._mlp(layer, x)
        return x, kvs

    def logits(self, hidden: Tensor) -> Tensor:
        """Float32 logits [N, V] of hidden states [N, H]."""
        return F.linear(self._rms(hidden, self.norm), self.embed).float()

    @torch.inference_mode()
    def fill(self, slots: Sequence[int], suffixes: Sequence[Sequence[int]]) -> Tensor:
        """Put `prefix + suffix` into each slot; logits [N, V] after the last token of each."""
        start, lengths = len(self.prefix), torch.tensor([len(s) for s in suffixes])
        width = int(lengths.max())
        ids = torch.zeros(len(suffixes), width, dtype=torch.long)
        for row, suffix in enumerate(suffixes):
            ids[row, : len(suffix)] = torch.tensor(suffix)
        hidden, kvs = self._forward_block(ids, start)
        index = torch.tensor(slots)
        pad = -(start + width) % 16
        blocks = (start + width + pad) // 16
        for number, (k, v) in enumerate(kvs):
            if start:
                k0, v0 = self._prefix_kv[number]
                k = torch.cat([k0.expand(len(slots), -1, -1, -1), k], 2)
                v = torch.cat([v0.expand(len(slots), -1, -1, -1), v], 2)
            k, v = F.pad(k, (0, 0, 0, pad)), F.pad(v, (0, 0, 0, pad))
            self.keys[number, index, :, :blocks] = k.unflatten(2, (-1, 16)).unflatten(4, (32, 2)).transpose(3, 4)
            self.values[number, index, :, : blocks * 8] = v.unflatten(2, (-1, 2)).transpose(3, 4)
        return self.logits(hidden[torch.arange(len(suffixes)), lengths - 1])

    @torch.inference_mode()
    def step(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Logits [B, V] after feeding `tokens` [B] at `positions` [B]."""
        size, kv, dim = self.size, self.kv, self.dim
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        counts, rows = positions + 1, torch.arange(size)
        block, inside = positions // 16, positions % 16
        pair, half = positions // 2, positions % 2
        y = torch.empty(size, self.heads * dim, dtype=self.embed.dtype)
        x = self.embed[tokens]
        for number, layer in enumerate(self.layers):
            mixed = F.linear(self._rms(x, layer.norm_in), layer.qkv).view(size, -1, dim)
            q, k, v = mixed.split((self.heads, kv, kv), 1)
            q = (self._rotate(q, cos, sin) * dim**-0.5).contiguous()
            keys, values = self.keys[number], self.values[number]
            keys[rows, :, block, :, inside] = self._rotate(k, cos, sin).unflatten(2, (32, 2))
            values[rows, :, pair, :, half] = v
            pointers = [t.data_ptr() for t in (q, keys, values, counts, y)]
            self.attend(*pointers, size, kv, self.length)
            x = x + F.linear(y, layer.out)
            x = self._mlp(layer, x)
        return self.logits(x)
