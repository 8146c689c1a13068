"""Where training starts from: the target's embeddings, and two heads that copy.

Greedy text of a small target repeats itself and its prompt, and a drafter of two layers needs
millions of tokens to find out how to look things up. So the circuit is put in by hand (Elhage et
al. 2021, Olsson et al. 2022, "induction heads"): a head of the first layer writes a sketch of the
previous token beside each token, and heads of the second layer look for the current token among
the sketches and copy what stands there. Training may keep or undo all of it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

SKETCH = 34
"""Dimensions of the sketch: rotary pairs that turn by less than half a radian in 200 tokens."""

LEVEL = 0.12
"""The last dimension of every embedding: a constant, which gives the heads a bias to work with."""

LOCK, MATCH, REST, COPY = 80.0, 3.0, 2.0, 0.4
"""How hard the previous-token head and the matching heads attend, the threshold under which these
rest, and how much they add. Found by looking at attention and first choices before training."""

FINAL = 1.5


def new_drafter(target: LlamaForCausalLM, config: LlamaConfig, *, copying: bool = True) -> LlamaForCausalLM:
    """A drafter whose embeddings are the target's, projected on their principal directions.

    Raises:
        ValueError: `copying` with fewer than two layers, or fewer than three heads, or heads other than of 64.
    """
    if copying and (config.num_hidden_layers < 2 or config.num_attention_heads < 3 or config.head_dim != 64):
        raise ValueError("the copying heads need two layers and three heads of 64 dimensions")
    drafter = LlamaForCausalLM(config)
    table = target.get_input_embeddings().weight.detach().float()
    table = table - table.mean(0)
    _, _, directions = torch.linalg.svd(table.T @ table)
    projected = table @ directions[: config.hidden_size].T
    projected = projected / projected.std() * 0.05
    with torch.no_grad():
        embed = drafter.get_input_embeddings().weight
        embed.copy_(projected)
        for name, weight in drafter.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weight.mul_(0.3)
        if copying:
            embed[:, -1] = LEVEL
            place = torch.arange(config.hidden_size - 1 - SKETCH, config.hidden_size - 1)
            sketch = _sketch(embed, int(place[0]))
            first, second = (layer.self_attn for layer in drafter.model.layers[:2])
            _attend_to_previous(first, config, embed, sketch, place)
            _copy_what_followed(second, config, embed, sketch, place)
            drafter.model.norm.weight.fill_(FINAL)
            drafter.model.norm.weight[place] = FINAL / 2
    return drafter


def _sketch(embed: Tensor, seen: int) -> Tensor:
    """A map [SKETCH, H] from normalised embeddings to nearly independent, centred numbers."""
    normed = embed / embed.square().mean(1, keepdim=True).sqrt()
    mixing = torch.linalg.qr(torch.randn(seen, SKETCH))[0].T
    sketch = torch.zeros(SKETCH, embed.shape[1])
    sketch[:, :seen] = mixing / normed[:, :seen].std(0)
    sketch[:, -1] = -(sketch @ normed.mean(0)) / normed[:, -1].mean()
    return sketch


def _attend_to_previous(attention: Any, config: LlamaConfig, embed: Tensor, sketch: Tensor, place: Tensor) -> None:
    """Head 0 writes the sketch of the token before into the dimensions `place`.

    Queries and keys are constants whose fast rotary pairs line up at a distance of one.
    """
    dim, half = config.head_dim, config.head_dim // 2
    fast = torch.arange(8)
    turn = config.rope_parameters["rope_theta"] ** (-fast.float() / half)
    level = LEVEL * float(embed.shape[1] ** 0.5 / embed.norm(dim=1).median())
    strength = (LOCK * dim**0.5) ** 0.5 / level
    query, key = attention.q_proj.weight, attention.k_proj.weight
    value, out = attention.v_proj.weight, attention.o_proj.weight
    query[:dim], key[:dim], value[:dim], out[:, :dim] = 0, 0, 0, 0
    query[fast, -1] = strength * torch.cos(turn)
    query[fast + half, -1] = -strength * torch.sin(turn)
    key[fast, -1] = strength
    # Tokens differ in length, so only a score that is negative elsewhere singles out one distance.
    query[half - 1, -1] = -strength * float((len(fast) + torch.cos(turn).sum()) / 2)
    key[half - 1, -1] = strength
    value[:SKETCH] = sketch
    out[place, torch.arange(SKETCH)] = 0.1


def _copy_what_followed(attention: Any, config: LlamaConfig, embed: Tensor, sketch: Tensor, place: Tensor) -> None:
    """Heads 0 to 2 look for the current token among the sketches and copy what stands there.

    All three attend alike, in slow rotary pairs; each copies 64 dimensions, whitened, so that the
    token itself wins over those with long embeddings. Where nothing matches well they rest on
    <|im_start|>, whose value is made zero.
    """
    dim, half, width = config.head_dim, config.head_dim // 2, embed.shape[1]
    slow = torch.arange(half - 1 - SKETCH // 2, half - 1)
    slow = torch.cat([slow, slow + half])
    whiten = torch.cat([0.05 / embed[:, : int(place[0])].std(0), torch.zeros(SKETCH + 1)])
    start = embed[1]
    rest = whiten.square() * start
    rest = rest / (rest @ start)
    resting = torch.eye(width) - torch.outer(start, rest)
    query, key = attention.q_proj.weight, attention.k_proj.weight
    value, out = attention.v_proj.weight, attention.o_proj.weight
    for first in range(0, 3 * dim, dim):
        rows = slice(first, first + dim)
        query[rows], key[rows], value[rows], out[:, rows] = 0, 0, 0, 0
        query[first + slow] = MATCH * sketch
        key[first + slow, place] = MATCH
        query[first + half - 1, -1] = REST
        key[first + half - 1] = REST * rest * start.norm()
        copied = torch.arange(first, min(first + dim, int(place[0])))
        value[copied] = whiten[copied, None] * resting[copied]
        out[copied, copied] = COPY * whiten[copied]
