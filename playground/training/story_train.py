"""Train the targets of the story-teller family from nothing.

    python -m playground.training.story_train teller --corpus FILE.jsonl.gz --minutes 60
    python -m playground.training.story_train gemma --corpus FILE.jsonl.gz --minutes 45

Stops and resumes at any moment; reads new stories of `tell` as they come. The teller learns with
layer dropout and an early-exit loss (LayerSkip, arXiv 2404.16710), so that its first layers can
draft for all of them.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm
from transformers import Gemma4ForCausalLM, MellumForCausalLM

from playground.training import story_models
from playground.training.distill import Schedule
from playground.training.shards import training_dir
from playground.training.story_data import StoryPool, read_stories

DROPOUT = 0.1
"""Of the last layer; falls linearly to none at the first."""
EXIT_WEIGHT = 0.3
Loss = Callable[[Any, Tensor, Tensor], Tensor]


def next_token_loss(model: Any, ids: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy of the next token."""
    logits = model(input_ids=ids, use_cache=False).logits.float()
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def layerskip_loss(model: MellumForCausalLM, ids: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the last layer's prediction and, with less weight, of an earlier layer's, another one a row;
    layers are left out at random, the later the oftener, row by row."""
    body, rows = model.model, len(ids)
    x = body.embed_tokens(ids)
    positions = torch.arange(ids.shape[1])[None]
    rotary = body.rotary_emb(x, positions, "full_attention")
    last = len(body.layers)
    exits = torch.randint(1, last // 2 + 1, (rows,))
    early = torch.zeros_like(x)
    for i, layer in enumerate(body.layers):
        y = layer(x, attention_mask=None, position_ids=positions, position_embeddings=rotary)
        keep = (torch.rand(rows) >= DROPOUT * i / (last - 1)).to(x.dtype)[:, None, None]
        x = x + (y - x) * keep
        here = exits == i + 1
        if bool(here.any()):
            early = early + x * here.to(x.dtype)[:, None, None]
    logits = model.lm_head(body.norm(torch.cat([x, early]))).float()
    losses = F.cross_entropy(logits.flatten(0, 1), labels.repeat(2, 1).flatten(), ignore_index=-100, reduction="none")
    full, exit_ = losses.view(2, -1).sum(1) / (labels != -100).sum()
    return full + EXIT_WEIGHT * exit_


def optimisers(model: nn.Module, matrix_rate: float, rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside, AdamW for embeddings and norms."""
    inside = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n and "lm_head" not in n]
    held = {id(p) for p in inside}
    rest = [p for p in model.parameters() if id(p) not in held]
    return [
        torch.optim.Muon(inside, lr=matrix_rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.98), weight_decay=0.0),
    ]


class Run:
    """A model in training: its optimisers, the time spent, its checkpoint."""

    def __init__(self, folder: Path, model: nn.Module, rates: tuple[float, float]) -> None:
        self.folder, self.model, self.rates = folder, model, rates
        self.optimisers = optimisers(model, *rates)
        self.step, self.spent, self.tokens = 0, 0.0, 0
        path = folder / "checkpoint.pt"
        if path.exists():
            state = torch.load(path, weights_only=True)
            model.load_state_dict(state["model"])
            for optimiser, saved in zip(self.optimisers, state["optimisers"], strict=True):
                optimiser.load_state_dict(saved)
            self.step, self.spent, self.tokens = state["step"], state["spent"], state["tokens"]

    def save(self) -> None:
        """Write the checkpoint, whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        state = {
            "model": self.model.state_dict(),
            "optimisers": [o.state_dict() for o in self.optimisers],
            "step": self.step,
            "spent": self.spent,
            "tokens": self.tokens,
        }
        temporary = self.folder / "checkpoint.tmp"
        torch.save(state, temporary)
        os.replace(temporary, self.folder / "checkpoint.pt")

    def update(self, loss: Callable[[], Tensor], factor: float) -> float:
        """One step of `loss` at this share of the learning rates; the loss."""
        for optimiser, rate in zip(self.optimisers, self.rates, strict=True):
            for group in optimiser.param_groups:
                group["lr"] = rate * factor
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value = loss()
        value.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        self.step += 1
        return float(value.detach())

    def train(self, batches: Any, loss: Callable[[Any], Tensor], minutes: float) -> None:
        """Train until `minutes` of processor time were spent in all, saving every three; `batches` gives tuples whose
        last is labels."""
        schedule = Schedule(minutes, decay_share=0.5)
        bar = tqdm(total=minutes, unit="min", initial=round(self.spent, 2))
        smooth, saved = math.nan, time.monotonic()
        while self.spent < minutes:
            begin = time.process_time()
            value = self.update(partial(loss, batch := next(batches)), schedule.factor(self.spent))
            spent = (time.process_time() - begin) / 60
            self.spent += spent
            count = int((batch[-1] != -100).sum())
            self.tokens += count
            smooth = value if math.isnan(smooth) else 0.98 * smooth + 0.02 * value
            bar.update(spent)
            if self.step % 25 == 0:
                bar.write(
                    f"step {self.step} loss {smooth:.4f} tokens {self.tokens} {count / spent / 60:.0f} tok/s "
                    f"{self.spent:.1f} min"
                )
            if time.monotonic() - saved > 180:
                self.save()
                saved = time.monotonic()
        self.save()


def shared_tokenizer(corpus: Path | None) -> Any:
    """The family's tokenizer, made of the stories at the first call."""
    folder = training_dir() / "story-tokenizer"
    if not (folder / "tokenizer.json").exists():
        made = story_models.make_tokenizer(text for text, _ in read_stories(corpus))
        made.save_pretrained(folder)
    return story_models.stories_tokenizer(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", choices=["teller", "gemma"])
    parser.add_argument("--corpus", type=Path, help="the corpus (JSON lines, gzip)")
    parser.add_argument("--minutes", type=float, default=60, help="processor time in all")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--matrix-rate", type=float, default=4e-3)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    tokenizer = shared_tokenizer(args.corpus)
    model: Any
    loss: Loss
    if args.which == "teller":
        model, loss = MellumForCausalLM(story_models.teller_config()), layerskip_loss
    else:
        model, loss = Gemma4ForCausalLM(story_models.gemma_config()), next_token_loss
    model.train()
    run = Run(training_dir() / "runs" / args.which, model, (args.matrix_rate, args.rate))
    pool = StoryPool(tokenizer, args.corpus, seed=run.step)
    run.train(pool.batches(args.batch_tokens), lambda batch: loss(model, *batch), args.minutes)


if __name__ == "__main__":
    main()
