"""Where training starts from: the target's embeddings, and two heads that copy.

Greedy text of a small target repeats itself and its prompt, and a drafter of two layers needs
millions of tokens to find out how to look things up. So the circuit is put in by hand (Elhage et
al. 2021, Olsson et al. 2022, "induction heads"): a head of the first layer writes a sketch of the
previous token beside each token, and heads of the second layer look for the current token among
the sketches and copy what stands there. Training may keep or undo all of it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

SKETCH = 34
"""Dimensions of the sketch: the rotary pairs that turn by less than half a radian in 200 tokens."""


def new_drafter(target: LlamaForCausalLM, config: LlamaConfig, *, copying: bool = True) -> LlamaForCausalLM:
    """A drafter whose embeddings are the target's, projected on their principal directions."""
    drafter = LlamaForCausalLM(config)
    table = target.get_input_embeddings().weight.detach().float()
    table = table - table.mean(0)
    _, _, directions = torch.linalg.svd(table.T @ table)
    projected = table @ directions[: config.hidden_size].T
    projected = projected / projected.std() * 0.05
    with torch.no_grad():
        drafter.get_input_embeddings().weight.copy_(projected)
        for name, weight in drafter.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weight.mul_(0.3)
        if copying:
            _install_copying(drafter, projected)
    return drafter


def _pairs(config: LlamaConfig) -> tuple[Tensor, Tensor]:
    """Head dimensions of the fast rotary pairs (first halves) and of the slow ones (both).

    The slowest pair of all is left out; it holds the threshold.
    """
    half = config.head_dim // 2
    slow = torch.arange(half - 1 - SKETCH // 2, half - 1)
    return torch.arange(8), torch.cat([slow, slow + half])


def _install_copying(drafter: LlamaForCausalLM, table: Tensor) -> None:
    config, width = drafter.config, drafter.config.hidden_size
    dim, half = config.head_dim, config.head_dim // 2
    constant = width - 1
    where = torch.arange(width - 1 - SKETCH, width - 1)
    embed = drafter.get_input_embeddings().weight
    embed[:, constant] = 0.12
    scale = width**0.5 / embed.norm(dim=1).median()
    normed = embed / embed.square().mean(1, keepdim=True).sqrt()
    seen = int(where[0])
    mixing = torch.linalg.qr(torch.randn(seen, SKETCH))[0].T
    sketch = torch.zeros(SKETCH, width)
    sketch[:, :seen] = mixing / normed[:, :seen].std(0)
    sketch[:, constant] = -(sketch @ normed.mean(0)) / normed[:, constant].mean()
    fast, slow = _pairs(config)
    theta = config.rope_parameters["rope_theta"]
    turn = theta ** (-fast.float() / half)

    first, second = (layer.self_attn for layer in drafter.model.layers[:2])
    level = 0.12 * float(scale)
    strength = (LOCK * dim**0.5) ** 0.5 / level
    first.q_proj.weight[:dim] = 0
    first.k_proj.weight[:dim] = 0
    first.q_proj.weight[fast, constant] = strength * torch.cos(turn)
    first.q_proj.weight[fast + half, constant] = -strength * torch.sin(turn)
    first.k_proj.weight[fast, constant] = strength
    # Tokens differ in length, so only a score that is negative elsewhere singles out one offset.
    beside = float((len(fast) + torch.cos(turn).sum()) / 2)
    first.q_proj.weight[half - 1, constant] = -strength * beside
    first.k_proj.weight[half - 1, constant] = strength
    first.v_proj.weight[:dim] = 0
    first.v_proj.weight[:SKETCH] = sketch
    first.o_proj.weight[:, :dim] = 0
    first.o_proj.weight[where, torch.arange(SKETCH)] = 0.1

    # What is copied is whitened, so that the token itself wins over the long ones.
    whiten = 0.05 / table.std(0)
    whiten[where[0] :] = 0
    # Where nothing matches well, the heads rest on <|im_start|>, whose value is made zero.
    rest = whiten.square() * embed[1]
    rest = rest / (rest @ embed[1])
    resting = torch.eye(width) - torch.outer(embed[1], rest)
    for head in range(3):
        rows = slice(head * dim, (head + 1) * dim)
        for projection in (second.q_proj, second.k_proj, second.v_proj):
            projection.weight[rows] = 0
        second.q_proj.weight[head * dim + slow] = MATCH * sketch
        second.k_proj.weight[head * dim + slow, where] = MATCH
        copied = torch.arange(head * dim, min((head + 1) * dim, int(where[0])))
        second.q_proj.weight[head * dim + half - 1, constant] = REST
        second.k_proj.weight[head * dim + half - 1] = REST * rest * embed[1].norm()
        second.v_proj.weight[copied] = whiten[copied, None] * resting[copied]
        second.o_proj.weight[:, rows] = 0
        second.o_proj.weight[copied, copied] = COPY * whiten[copied]
    drafter.model.norm.weight.fill_(FINAL)
    drafter.model.norm.weight[where] = FINAL / 2


MATCH, COPY, FINAL, LOCK = 3.0, 0.4, 1.5, 80.0
REST = 2.0
