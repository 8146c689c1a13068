"""Train the drafting head on what `eagle_data` extracted.

    python -m playground.training.eagle_train --minutes 60 --corpus FILE.jsonl.gz
    python -m playground.training.eagle_train --start assets/models/smollm2-eagle ...  (goes on from a finished head)
    python -m playground.training.eagle_train --evaluate

The head is unrolled over three tokens on its own outputs, as it is when it drafts (HASS, arXiv 2408.15766; EAGLE-3,
arXiv 2503.01840), and learns the target's distribution over the draft vocabulary (FR-Spec, arXiv 2502.14856). It
starts as the target's last layer behind a linear map, fitted by least squares, that guesses what this layer reads.
Stops and resumes at any moment; reads new shards as they come.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaForCausalLM

from playground.eagle_head import EagleHead, Rotary, head_config, load_head, rotary_table
from playground.models import DRAFT_VOCABULARY
from playground.training import eagle_data
from playground.training.eagle_data import Extract
from playground.training.sample import load_target
from playground.training.shards import training_dir
from playground.training.story_train import Run

NAME = "eagle"
STEPS = 3
"""Tokens that the head is unrolled over; each counts 0.8 of the one before."""
STARTS = 0.5
"""The share of places from which it is unrolled beyond the first."""
KEEP, SHARPEN = 10, 0.3
SIZE = 4096
"""Of the draft vocabulary: 96 of 100 tokens of the target's answers; another 4,096 would be 3 more, for a pass that
reads a third more weights."""


class Batch(NamedTuple):
    """N texts, padded on the right to T; the padding is longer than the text by what a chain reaches beyond it.

    ids [N, T]; hidden [N, T, H]; top [N, T, KEEP] places in the draft vocabulary and p [N, T, KEEP] the target's
    probabilities of them, 0 where not in it; labels [N, T]: the first choice's place, -1 outside of the vocabulary,
    -100 where no target is known.
    """

    ids: Tensor
    hidden: Tensor
    top: Tensor
    p: Tensor
    labels: Tensor


def collate(extracts: Sequence[Extract], place: Tensor) -> Batch:
    """`place` [V] is a token's place in the draft vocabulary, -1 outside."""
    count = len(extracts)
    length = max(len(e.ids) for e in extracts) + STEPS - 2
    ids = torch.zeros(count, length, dtype=torch.long)
    hidden = torch.zeros(count, length, extracts[0].hidden.shape[1], dtype=extracts[0].hidden.dtype)
    top = torch.zeros(count, length, KEEP, dtype=torch.long)
    p = torch.zeros(count, length, KEEP)
    labels = torch.full((count, length), -100)
    for n, e in enumerate(extracts):
        end = len(e.ids) - 1
        ids[n, :end], hidden[n, :end] = e.ids[:-1], e.hidden
        where = slice(e.prompt - 1, end)
        best = place[e.top_ids[:, :KEEP].long()]
        chances = (e.top_logits[:, :KEEP].float() - e.logsumexp[:, None]).exp().clamp(max=1.0) * (1 - SHARPEN)
        chances[:, 0] += SHARPEN
        top[n, where], p[n, where] = best.clamp(min=0), chances * (best >= 0)
        labels[n, where] = best[:, 0]
    return Batch(ids, hidden, top, p, labels)


@dataclass(slots=True)
class Pool:
    """The extracts of all shards, for training or (`held`) for evaluation; every one is dealt once an epoch."""

    place: Tensor
    held: bool = False
    seed: int = 0
    _read: set[Path] = field(default_factory=set)
    _extracts: list[Extract] = field(default_factory=list)

    def rescan(self) -> list[Extract]:
        """Read the shards that are new."""
        for path in sorted(set(eagle_data.folder().glob("*.safetensors")) - self._read):
            self._read.add(path)
            self._extracts += [e for e in eagle_data.read(path) if e.held == self.held]
        return self._extracts

    def batches(self, tokens: int) -> Iterator[Batch]:
        """Endless batches of about `tokens` tokens of texts of similar lengths."""
        rng = np.random.default_rng(self.seed)
        while True:
            extracts = self.rescan()
            groups = list(_groups([extracts[i] for i in rng.permutation(len(extracts))], tokens))
            for n in rng.permutation(len(groups)):
                yield collate(groups[n], self.place)


def _groups(extracts: Sequence[Extract], tokens: int) -> Iterator[list[Extract]]:
    group: list[Extract] = []
    for extract in sorted(extracts, key=lambda e: len(e.ids) // 16):
        if group and len(extract.ids) * (len(group) + 1) > tokens:
            yield group
            group = []
        group.append(extract)
    yield group


class _Agreement(torch.autograd.Function):
    """Sum over rows of cross-entropy; its gradient is made in place, since [M, V] is the largest thing here."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, top: Tensor, p: Tensor) -> Tensor:
        values = logits.float()
        lse = values.logsumexp(-1)
        loss = (p * (lse[:, None] - values.gather(1, top))).sum()
        ctx.save_for_backward(logits, lse, top, p)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        logits, lse, top, p = ctx.saved_tensors
        grad = (logits.float() - lse[:, None]).exp_().mul_(p.sum(-1, keepdim=True))
        grad.scatter_add_(1, top, -p).mul_(grads[0])
        return grad.to(logits.dtype), None, None


@dataclass(slots=True)
class Teacher:
    """What of the target the head needs in training: embeddings [V, H], and the rows [D, H] of its output layer for
    the draft vocabulary."""

    embeddings: Tensor
    rows: Tensor
    rotary: Rotary


def chain(head: EagleHead, teacher: Teacher, batch: Batch, starts: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Steps of a chain that begins at every place of a text: hidden states [N, C, H] that the head makes at the places
    [C], the next token being that of the text. After the first step it goes on from the places `starts` alone.

    Each sees the first step's keys up to where it began, and of the later steps its own.
    """
    count = batch.ids.shape[1] - STEPS
    places = torch.arange(count)
    past: list[tuple[Tensor, Tensor]] = []

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        past.append((k, v))
        keys, values = (torch.cat(part, 2) for part in zip(*past, strict=True))
        own = torch.eye(len(places), dtype=torch.bool)
        seen = torch.arange(count)[None] <= places[:, None]
        mask = torch.cat([seen, *[own] * (len(past) - 1)], 1)
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)

    hidden = batch.hidden[:, :count]
    for step in range(1, STEPS + 1):
        cos, sin = (t[places + step] for t in teacher.rotary)
        embeds = F.embedding(batch.ids[:, places + step], teacher.embeddings)
        hidden = head(embeds, hidden, (cos, sin), attend)
        yield hidden, places + step
        if step == 1:
            places, hidden = starts, hidden[:, starts]


def loss_of(head: EagleHead, teacher: Teacher, batch: Batch, feature: float) -> Tensor:
    """Cross-entropy against the target at every step, and `feature` times the distance to its hidden states."""
    count = batch.ids.shape[1] - STEPS
    starts = torch.randperm(count)[: max(1, round(count * STARTS))].sort().values
    total, weights = torch.zeros(()), 0.0
    for step, (hidden, at) in enumerate(chain(head, teacher, batch, starts)):
        wanted = batch.labels[:, at] != -100
        made = hidden[wanted]
        logits = F.linear(made, teacher.rows)
        loss = _Agreement.apply(logits, batch.top[:, at][wanted], batch.p[:, at][wanted]) / len(made)
        if feature:
            loss = loss + feature * F.smooth_l1_loss(made.float(), batch.hidden[:, at][wanted].float())
        total, weights = total + 0.8**step * loss, weights + 0.8**step
    return total / weights


@torch.no_grad()
def agreement(head: EagleHead, teacher: Teacher, batches: Sequence[Batch]) -> list[float]:
    """At each step the share of places where the head's first choice, and its choices before, are the target's."""
    right, places = [0] * STEPS, [0] * STEPS
    for batch in batches:
        count = batch.ids.shape[1] - STEPS
        so_far = torch.ones(len(batch.ids), count, dtype=torch.bool)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for step, (hidden, at) in enumerate(chain(head, teacher, batch, torch.arange(count))):
                labels = batch.labels[:, at]
                so_far &= F.linear(hidden, teacher.rows).argmax(-1) == labels
                # Chains that began before the answer are none that drafting has.
                wanted = (labels != -100) & (batch.labels[:, at - step] != -100)
                right[step] += int((so_far & wanted).sum())
                places[step] += int(wanted.sum())
    return [a / max(1, b) for a, b in zip(right, places, strict=True)]


def draft_vocabulary(corpus: Path | None, tokenizer: Any, size: int = SIZE) -> list[int]:
    """The tokens that the target writes most, in its own order, counted at the first call and kept: in the corpus and
    in what was extracted so far."""
    path = training_dir() / "runs" / NAME / "draft_vocabulary.json"
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    counts: Counter[int] = Counter({tokenizer.eos_token_id: 1})
    if corpus is not None:
        with gzip.open(corpus, "rt", encoding="utf-8") as lines:
            responses = [json.loads(line)["response"] for line in lines]
        for ids in tokenizer(responses).input_ids:
            counts.update(ids)
    for shard in eagle_data.folder().glob("*.safetensors"):
        for extract in eagle_data.read(shard):
            counts.update(extract.ids[extract.prompt :].tolist())
    frequent = sorted(token for token, _ in counts.most_common(size))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(frequent), encoding="utf-8")
    return frequent


@torch.no_grad()
def new_head(target: LlamaForCausalLM, teacher: Teacher, extracts: Sequence[Extract]) -> EagleHead:
    """A head that is the target's last layer; `fc` is fitted to what that layer reads in a few of its texts."""
    head = EagleHead(head_config(target.config))
    last = target.model.layers[-1]
    attention, mlp = last.self_attn, last.mlp
    head.qkv.weight.copy_(torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]))
    head.out.weight.copy_(attention.o_proj.weight)
    head.gate_up.weight.copy_(torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]))
    head.down.weight.copy_(mlp.down_proj.weight)
    head.norm_in.weight.copy_(last.input_layernorm.weight)
    head.norm_mlp.weight.copy_(last.post_attention_layernorm.weight)
    head.norm.weight.copy_(target.model.norm.weight)
    width = 2 * head.config.hidden_size
    xx, xy = torch.zeros(width, width), torch.zeros(width, width // 2)
    for e in extracts:
        ids = e.ids[None, :-1].long()
        read = target.model(input_ids=ids, use_cache=False, output_hidden_states=True).hidden_states[-2][0, 1:].float()
        x = head.joined(F.embedding(ids[0, 1:], teacher.embeddings).float(), e.hidden[:-1].float())
        # The first token of a text has a state that is none of the others' size.
        x, read = x[4:], read[4:]
        xx += x.T @ x
        xy += x.T @ read
    ridge = 1e-2 * xx.diagonal().mean() * torch.eye(width)
    head.fc.weight.copy_(torch.linalg.solve(xx + ridge, xy).T)
    return head


def teacher_of(target: LlamaForCausalLM, vocabulary: Sequence[int], positions: int = 1024) -> Teacher:
    """The parts of `target` that are used."""
    return Teacher(
        embeddings=target.model.embed_tokens.weight.detach(),
        rows=target.lm_head.weight.detach()[torch.tensor(vocabulary)],
        rotary=rotary_table(target.config, positions, torch.float32),
    )


def places(vocabulary: Sequence[int], vocab_size: int) -> Tensor:
    """[V]: each token's place in the draft vocabulary, -1 outside."""
    place = torch.full((vocab_size,), -1)
    place[torch.tensor(vocabulary)] = torch.arange(len(vocabulary))
    return place


def report(head: EagleHead, teacher: Teacher, place: Tensor, most: int = 48) -> None:
    """Print the agreement on at most so many held-out texts of each source."""
    sources: dict[str, list[Extract]] = {}
    for extract in Pool(place, held=True).rescan():
        sources.setdefault(extract.source, []).append(extract)
    for source, extracts in sources.items():
        batches = [collate(group, place) for group in _groups(extracts[:most], 4096)]
        shares = agreement(head, teacher, batches)
        right = "  ".join(f"{n + 1}: {share:.3f}" for n, share in enumerate(shares))
        print(f"{source:8} {len(extracts[:most])} texts, first choices right in a row: {right}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="processor time in all")
    parser.add_argument("--corpus", type=Path, help="counted for the draft vocabulary (JSON lines, gzip)")
    parser.add_argument("--start", type=Path, help="a head (folder) to go on from, with its draft vocabulary")
    parser.add_argument("--evaluate", action="store_true", help="only say how it does on held-out texts")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--matrix-rate", type=float, default=1e-3)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--feature", type=float, default=0.0, help="weight of the distance of hidden states")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    target, tokenizer = load_target()
    checkpoint = training_dir() / "runs" / NAME / "checkpoint.pt"
    if args.start and not checkpoint.exists():
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(args.start / DRAFT_VOCABULARY, checkpoint.parent)
    vocabulary = draft_vocabulary(args.corpus, tokenizer)
    teacher, place = teacher_of(target, vocabulary), places(vocabulary, target.config.vocab_size)
    pool = Pool(place)
    if not pool.rescan():
        raise SystemExit("there is nothing to learn from yet: run `python -m playground.training.eagle_data` first")
    if checkpoint.exists():
        head = EagleHead(head_config(target.config))
    elif args.start:
        head = load_head(str(args.start), args.start, torch.float32).requires_grad_(True).train()
    else:
        head = new_head(target, teacher, pool.rescan()[:48])
    del target
    run = Run(checkpoint.parent, head, (args.matrix_rate, args.rate))
    pool.seed = run.step
    if not args.evaluate:
        run.train(
            pool.batches(args.batch_tokens), lambda batch: loss_of(head, teacher, batch, args.feature), args.minutes
        )
    report(head, teacher, place)


if __name__ == "__main__":
    main()
