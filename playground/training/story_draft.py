"""Train what drafts for the targets of the story-teller family, on what they say.

    python -m playground.training.story_draft drafter --minutes 15
    python -m playground.training.story_draft mtp --minutes 15
    python -m playground.training.story_draft gemma-assistant --minutes 15

Each learns the target's own distribution at every position (`story_say` made the texts). Those that read the
target's hidden state are unrolled over several tokens on their own outputs, as they are when they draft (HASS,
arXiv 2408.15766; EAGLE-3, arXiv 2503.01840). Stops and resumes at any moment.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import Gemma4AssistantForCausalLM, LlamaForCausalLM
from transformers.modeling_layers import MtpModel
from transformers.models.mellum.modeling_mellum import apply_rotary_pos_emb

from playground.training import story_models
from playground.training.shards import training_dir
from playground.training.story_models import END
from playground.training.story_say import said, trained
from playground.training.story_train import Run

STEPS = 3
"""Tokens that a hidden-state drafter is unrolled over; each counts 0.8 of the one before."""
SHARPEN = 0.3


def batches(which: str, rows: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless (ids [rows, L], labels [rows, L - 1]); labels are -100 from the end of a text on."""
    rng = np.random.default_rng(seed)
    files: dict[Any, np.ndarray] = {}
    while True:
        for path in said(which):
            if path not in files:
                files[path] = np.load(path)
        pool = np.concatenate(list(files.values()))
        order = rng.permutation(len(pool))
        for start in range(0, len(order) - rows + 1, rows):
            ids = torch.from_numpy(pool[order[start : start + rows]].astype(np.int64))
            labels = ids[:, 1:].clone()
            labels[ids[:, :-1] == END] = -100
            yield ids, labels


def agreement_loss(logits: Tensor, target_logits: Tensor, wanted: Tensor) -> Tensor:
    """Mean cross-entropy of the drafter's `logits` against the target's distribution, leaning to its first choice;
    both [N, V], `wanted` [N] says which rows count."""
    with torch.no_grad():
        p = target_logits.float().softmax(-1) * (1 - SHARPEN)
        p.scatter_add_(1, target_logits.argmax(-1, keepdim=True), torch.full_like(p[:, :1], SHARPEN))
    loss = -(p * logits.float().log_softmax(-1)).sum(-1)
    return (loss * wanted).sum() / wanted.sum()


def drafter_loss(target: Any, drafter: LlamaForCausalLM, ids: Tensor, labels: Tensor) -> Tensor:
    """The loss of a separate drafter."""
    with torch.no_grad():
        wanted = target(input_ids=ids[:, :-1], use_cache=False).logits
    logits = drafter(input_ids=ids[:, :-1], use_cache=False).logits
    return agreement_loss(logits.flatten(0, 1), wanted.flatten(0, 1), (labels != -100).flatten())


def chained_attention(
    attention: Any, x: Tensor, rotary: tuple[Tensor, Tensor], past: list[tuple[Tensor, Tensor]]
) -> Tensor:
    """Self-attention of a drafting layer at step `len(past)` of its own chain, for all starts of a chain at once.

    Row i of step s stands s tokens after the start i of its chain: it sees the first step's keys up to its start,
    and of each later step the one key of its own chain. `past` gets this step's keys and values. x is [B, T, H].
    """
    rows, count, _ = x.shape
    shape = (rows, count, -1, attention.head_dim)
    q = attention.q_norm(attention.q_proj(x).view(shape)).transpose(1, 2)
    k = attention.k_norm(attention.k_proj(x).view(shape)).transpose(1, 2)
    v = attention.v_proj(x).view(shape).transpose(1, 2)
    q, k = apply_rotary_pos_emb(q, k, *rotary)
    past.append((k, v))
    keys, values = (torch.cat(part, 2) for part in zip(*past, strict=True))
    own = torch.eye(count, dtype=torch.bool)
    mask = torch.cat([torch.ones_like(own).tril(), *[own] * (len(past) - 1)], 1)
    y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True, scale=attention.scaling)
    return attention.o_proj(y.transpose(1, 2).reshape(rows, count, -1))


def mtp_loss(target: Any, mtp: MtpModel, ids: Tensor, labels: Tensor) -> Tensor:
    """The loss of a prediction layer, applied again on its own output."""
    with torch.no_grad():
        out = target.model(input_ids=ids[:, :-1], use_cache=False)
        h = out.last_hidden_state
        wanted = target.lm_head(h)
    layer, count = mtp.layers[0], ids.shape[1] - 1 - STEPS
    hidden, total = h[:, :count], torch.zeros(())
    past: list[tuple[Tensor, Tensor]] = []
    for step in range(STEPS):
        embeds = target.model.embed_tokens(ids[:, 1 + step : 1 + step + count])
        positions = torch.arange(1 + step, 1 + step + count)[None]
        rotary = target.model.rotary_emb(embeds, positions, "full_attention")
        x = layer.eh_proj(torch.cat([layer.enorm(embeds), layer.hnorm(hidden)], -1))
        block = layer.mtp_block
        x = x + chained_attention(block.self_attn, block.input_layernorm(x), rotary, past)
        x = x + block.mlp(block.post_attention_layernorm(x))
        hidden = mtp.shared_post_norm(x) if mtp.use_shared_post_norm else layer.post_norm(x)
        logits = target.lm_head(hidden)
        want = wanted[:, 1 + step : 1 + step + count]
        counts = labels[:, 1 + step : 1 + step + count] != -100
        total = total + 0.8**step * agreement_loss(logits.flatten(0, 1), want.flatten(0, 1), counts.flatten())
    return total


def gemma_assistant_loss(target: Any, assistant: Gemma4AssistantForCausalLM, ids: Tensor, labels: Tensor) -> Tensor:
    """The loss of Gemma 4's drafter: all its tokens are drafted from one position, over the target's keys before it."""
    with torch.no_grad():
        out = target(input_ids=ids[:, :-1], use_cache=False, output_hidden_states=True, return_shared_kv_states=True)
        h, wanted = out.hidden_states[-1], out.logits
    count = ids.shape[1] - 1 - STEPS
    kv = {kind: (k[:, :, :count], v[:, :, :count]) for kind, (k, v) in out.shared_kv_states.items()}
    # Query i stands at token i + 1, the last one written, which the target has not read yet.
    mask = torch.full((count, count), torch.finfo(torch.bfloat16).min).triu(1)[None, None].to(torch.bfloat16)
    positions, hidden, total = torch.arange(1, count + 1)[None], h[:, :count], torch.zeros(())
    for step in range(STEPS):
        embeds = target.model.embed_tokens(ids[:, 1 + step : 1 + step + count])
        x = assistant.pre_projection(torch.cat([embeds, hidden], -1))
        states = assistant.model(
            inputs_embeds=x,
            attention_mask={"full_attention": mask, "sliding_attention": mask},
            position_ids=positions,
            shared_kv_states=kv,
            use_cache=False,
            output_hidden_states=True,  # else all rows but the last are dropped
        ).last_hidden_state
        hidden = assistant.post_projection(states)
        logits = assistant.lm_head(states)
        want = wanted[:, 1 + step : 1 + step + count]
        counts = labels[:, 1 + step : 1 + step + count] != -100
        total = total + 0.8**step * agreement_loss(logits.flatten(0, 1), want.flatten(0, 1), counts.flatten())
    return total


class _Layers(nn.Module):
    """The part of a MtpModel that is trained: not the embeddings and head, which are the target's."""

    def __init__(self, mtp: MtpModel) -> None:
        super().__init__()
        self.layers = mtp.layers
        if mtp.use_shared_post_norm:
            self.shared_post_norm = mtp.shared_post_norm


def build(which: str) -> tuple[Any, nn.Module, Callable[[Tensor, Tensor], Tensor]]:
    """(target, what is trained, its loss)."""
    target = trained("gemma" if which == "gemma-assistant" else "teller")
    target.requires_grad_(False)
    if which == "drafter":
        drafter = LlamaForCausalLM(story_models.drafter_config())
        return target, drafter, lambda ids, labels: drafter_loss(target, drafter, ids, labels)
    if which == "mtp":
        mtp = MtpModel(target, 1)
        return target, _Layers(mtp), lambda ids, labels: mtp_loss(target, mtp, ids, labels)
    assistant = Gemma4AssistantForCausalLM(story_models.gemma_assistant_config())
    return target, assistant, lambda ids, labels: gemma_assistant_loss(target, assistant, ids, labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", choices=["drafter", "mtp", "gemma-assistant"])
    parser.add_argument("--minutes", type=float, default=15, help="processor time in all")
    parser.add_argument("--rows", type=int, default=16, help="texts a step")
    parser.add_argument("--matrix-rate", type=float, default=4e-3)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    _, model, loss = build(args.which)
    model.train()
    run = Run(training_dir() / "runs" / args.which, model, (args.matrix_rate, args.rate))
    whose = "gemma" if args.which == "gemma-assistant" else "teller"
    run.train(batches(whose, args.rows, run.step), lambda batch: loss(*batch), args.minutes)


if __name__ == "__main__":
    main()
