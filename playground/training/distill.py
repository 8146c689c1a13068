"""Train the drafter to say what the target says, position by position.

    python -m playground.training.distill --minutes 50 [--corpus FILE]

Targets are the target's own best logits (see `sample`). The softmax runs over the ids that occur
in a batch's targets and over random other ids, which stand for the rest of the vocabulary.
Stops and resumes at any moment; new shards are read as they come.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from playground.embedded import embedded_target
from playground.training.data import Batch, SamplePool
from playground.training.shards import training_dir
from playground.training.start import new_drafter

HELD_STEPS = 600
HIDDEN, LAYERS, INTERMEDIATE, HEADS = 192, 2, 2176, 4


def drafter_config(**changes: int) -> LlamaConfig:
    """The drafter's shape: SmolLM2's vocabulary, few fat layers, under 25 MB in bfloat16."""
    shape = {
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
    } | changes
    return LlamaConfig(
        vocab_size=49152,
        head_dim=64,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
        **shape,
    )


def distillation_loss(drafter: LlamaForCausalLM, batch: Batch, candidates: int) -> Tensor:
    """Mean cross-entropy of the drafter against `batch`'s targets.

    The ids of all targets are candidates; `candidates` more are drawn from the rest, and their
    share of the normaliser is scaled up to the size of that rest. What the target gives to ids
    that are not kept is scored as one bucket.
    """
    hidden = drafter.model(input_ids=batch.ids, use_cache=False).last_hidden_state
    hidden = hidden.reshape(-1, hidden.shape[-1])[batch.where]
    wanted, inverse = torch.unique(batch.top_ids, return_inverse=True)
    vocab = drafter.config.vocab_size
    others = torch.ones(vocab, dtype=torch.bool)
    others[wanted] = False
    rest = others.nonzero()[:, 0]
    drawn = rest[torch.randint(len(rest), (candidates,))]
    table = drafter.get_input_embeddings().weight
    logits = F.linear(hidden, table[torch.cat([wanted, drawn])]).float()
    known, sampled = logits.split([len(wanted), candidates], -1)
    sampled = sampled.logsumexp(-1) + math.log(len(rest) / candidates)
    lse = torch.logaddexp(known.logsumexp(-1), sampled)
    log_q = known.gather(1, inverse) - lse[:, None]
    loss = -(batch.top_p * log_q).sum(-1)
    tail = (1 - batch.top_p.sum(-1)).clamp(min=0)
    kept = (log_q.exp() * batch.top_mask).sum(-1).clamp(max=1 - 1e-4)
    loss = loss - tail * torch.log1p(-kept)
    return (loss * batch.weight).sum() / batch.weight.sum()


@dataclass(slots=True)
class Schedule:
    """Learning-rate factor by spent time: warm-up, a plateau, a linear way down to zero."""

    minutes: float
    warm_up: float = 1.0
    decay_share: float = 0.35

    def factor(self, spent: float) -> float:
        """`spent` and `warm_up` are in minutes."""
        left = (self.minutes - spent) / (self.minutes * self.decay_share)
        return max(0.0, min(1.0, spent / self.warm_up + 0.02, left))


class Trainer:
    """A drafter with its optimisers, an average of its weights and the time spent."""

    def __init__(self, folder: Path, drafter: LlamaForCausalLM, rates: tuple[float, float]) -> None:
        self.folder, self.drafter = folder, drafter
        attention = [p for n, p in drafter.model.layers.named_parameters() if "attn" in n and p.ndim == 2]
        mlp = [p for n, p in drafter.model.layers.named_parameters() if "mlp" in n]
        inside = {id(p) for p in (*attention, *mlp)}
        rest = [p for p in drafter.parameters() if id(p) not in inside]
        self.optimisers = [
            torch.optim.Muon(mlp, lr=rates[0], weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
            torch.optim.Muon(attention, lr=rates[0], weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(rest, lr=rates[1], betas=(0.9, 0.98), weight_decay=0.0),
        ]
        self.rates = rates
        self.average = {k: v.clone() for k, v in drafter.state_dict().items()}
        self.step, self.spent, self.tokens = 0, 0.0, 0
        path = folder / "checkpoint.pt"
        if path.exists():
            self._load(path)

    def _load(self, path: Path) -> None:
        state = torch.load(path, weights_only=True)
        self.drafter.load_state_dict(state["model"])
        self.average = state["average"]
        for optimiser, saved in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        self.step, self.spent, self.tokens = state["step"], state["spent"], state["tokens"]

    def save(self) -> None:
        """Write checkpoint and averaged weights, each whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        state = {
            "config": self.drafter.config.to_dict(),
            "model": self.drafter.state_dict(),
            "average": self.average,
            "optimisers": [o.state_dict() for o in self.optimisers],
            "step": self.step,
            "spent": self.spent,
            "tokens": self.tokens,
        }
        temporary = self.folder / "checkpoint.tmp"
        torch.save(state, temporary)
        os.replace(temporary, self.folder / "checkpoint.pt")

    def update(self, batch: Batch, factor: float, candidates: int) -> float:
        """One step; the loss."""
        # The copying heads are of use only once the rest has learned to read them.
        held = min(1.0, 0.05 + self.step / HELD_STEPS)
        rates = (self.rates[0], self.rates[0] * held, self.rates[1])
        for optimiser, rate in zip(self.optimisers, rates, strict=True):
            for group in optimiser.param_groups:
                group["lr"] = rate * factor
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = distillation_loss(self.drafter, batch, candidates)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.drafter.parameters(), 1.0)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens += len(batch.where)
        decay = min(0.998, 1 - 1 / (1 + self.step / 4))
        if self.step % 4 == 0:
            for key, value in self.drafter.state_dict().items():
                self.average[key].lerp_(value, 1 - decay**4)
        return float(loss.detach())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=50, help="training time in all")
    parser.add_argument("--name", default="drafter", help="folder of the run")
    parser.add_argument("--corpus", type=Path, help="samples without logits (JSON lines, gzip)")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--candidates", type=int, default=1024)
    parser.add_argument("--matrix-rate", type=float, default=2e-3)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--intermediate", type=int, default=INTERMEDIATE)
    parser.add_argument("--heads", type=int, default=HEADS)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    folder = embedded_target()
    config = drafter_config(
        num_hidden_layers=args.layers,
        intermediate_size=args.intermediate,
        num_attention_heads=args.heads,
        num_key_value_heads=args.heads,
    )
    target = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    drafter = new_drafter(target, config)
    del target
    trainer = Trainer(training_dir() / "runs" / args.name, drafter, (args.matrix_rate, args.rate))
    pool = SamplePool(AutoTokenizer.from_pretrained(folder), args.corpus, seed=trainer.step)
    schedule = Schedule(args.minutes)
    bar = tqdm(total=args.minutes, unit="min", initial=round(trainer.spent, 2))
    smooth, saved = math.nan, time.monotonic()
    for batch in pool.batches(args.batch_tokens):
        begin = time.monotonic()
        loss = trainer.update(batch, schedule.factor(trainer.spent), args.candidates)
        minutes = min(time.monotonic() - begin, 20.0) / 60
        trainer.spent += minutes
        smooth = loss if math.isnan(smooth) else 0.98 * smooth + 0.02 * loss
        bar.update(minutes)
        if trainer.step % 25 == 0:
            bar.write(
                f"step {trainer.step} loss {smooth:.4f} tokens {trainer.tokens} "
                f"pool {pool.positions} {len(batch.where) / minutes / 60:.0f} tok/s"
            )
        finished = trainer.spent >= args.minutes
        if finished or time.monotonic() - saved > 180:
            trainer.save()
            saved = time.monotonic()
        if finished:
            break


if __name__ == "__main__":
    main()
