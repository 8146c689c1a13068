"""How much of the target's greedy text the drafter foresees, and what its pass costs.

    python -m playground.training.evaluate [FOLDER] [--cost] [--json]

Greedy speculative decoding emits the target's own greedy text, so one pass of the drafter over
that text says at each position whether its proposal would have been accepted. The rounds of any K
follow from these bits exactly, without another pass of the target. The prompts are those of
assets/prompts/bench.jsonl, which are kept out of training.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache, LlamaForCausalLM

from playground.embedded import embedded_target
from playground.training.prompts import BENCH
from playground.training.shards import training_dir

BUNDLED = Path(__file__).resolve().parents[2] / "assets" / "models" / "smollm2-drafter"


Text = dict[str, Any]
"""A greedy answer: kind, prompt_ids and response_ids (lists of ids)."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """Counts of greedy speculative decoding over one text: tokens emitted = accepted + passes."""

    accepted: int
    rejected: int
    passes: int
    emitted: int


def simulate(agrees: Sequence[bool], k: int) -> Rounds:
    """The rounds with `k` drafted tokens, where `agrees[i]` says that draft i is the target's."""
    at = accepted = rejected = passes = 0
    while at < len(agrees):
        passes += 1
        run = 0
        while run < k and at + run < len(agrees) and agrees[at + run]:
            run += 1
        rejected += run < k and at + run < len(agrees)
        accepted += run
        at += run + 1
    return Rounds(accepted, rejected, passes, len(agrees))


def greedy_texts(tokens: int, path: Path = BENCH) -> list[Text]:
    """The target's greedy answers to the evaluation prompts, made once and kept."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    mark = hashlib.sha256(path.read_bytes() + str(tokens).encode()).hexdigest()[:12]
    store = training_dir() / f"greedy-{mark}.json"
    if store.exists():
        return json.loads(store.read_text(encoding="utf-8"))
    folder = embedded_target()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    made = []
    for row in tqdm(rows, desc="target, greedy", file=sys.stderr):
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": row["prompt"]}],
            add_generation_prompt=True,
            return_tensors="pt",
        )["input_ids"]
        out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens)
        made.append(
            {
                "kind": row["kind"],
                "prompt_ids": ids[0].tolist(),
                "response_ids": out[0, ids.shape[1] :].tolist(),
            }
        )
    store.parent.mkdir(parents=True, exist_ok=True)
    store.write_text(json.dumps(made), encoding="utf-8")
    return made


@torch.inference_mode()
def agreement(drafter: LlamaForCausalLM, text: Text) -> np.ndarray:
    """Bits [R]: the drafter's first choice is the target's token, given the text before it."""
    prompt, response = text["prompt_ids"], text["response_ids"]
    ids = torch.tensor([prompt + response[:-1]])
    logits = drafter(ids, logits_to_keep=len(response)).logits[0]
    return (logits.argmax(-1) == torch.tensor(response)).numpy()


def report(drafter: LlamaForCausalLM, texts: Sequence[Text]) -> dict[str, dict[str, float]]:
    """Figures a kind and for all: agreement, tested acceptance at K = 4, tokens a pass."""
    bits = [(text["kind"], agreement(drafter, text)) for text in texts]
    figures = {}
    for kind in [*dict.fromkeys(kind for kind, _ in bits), "all"]:
        mine = [b for k, b in bits if kind in (k, "all")]
        row = {"agreement": float(np.concatenate(mine).mean())}
        for k in range(1, 7):
            rounds = [simulate(b.tolist(), k) for b in mine]
            accepted = sum(r.accepted for r in rounds)
            if k == 4:
                row["tested_acceptance"] = accepted / (accepted + sum(r.rejected for r in rounds))
            row[f"tokens_per_pass_k{k}"] = sum(r.emitted for r in rounds) / sum(r.passes for r in rounds)
        figures[kind] = row
    return figures


@torch.inference_mode()
def pass_seconds(models: Sequence[LlamaForCausalLM], passes: int = 60) -> list[float]:
    """Median seconds of a one-token pass at 128 tokens of context, models in turn."""
    caches: list[Any] = []
    times: list[list[float]] = [[] for _ in models]
    for model in models:
        cache = DynamicCache(config=model.config)
        model(torch.randint(100, 40_000, (1, 128)), cache=cache)
        caches.append(cache)
    for _ in range(passes):
        for number, (model, cache) in enumerate(zip(models, caches, strict=True)):
            for warm in (True, False):
                token = torch.randint(100, 40_000, (1, 1))
                begin = time.perf_counter()
                model(token, cache=cache, use_cache=True)
                if not warm:
                    times[number].append(time.perf_counter() - begin)
    return [statistics.median(t) for t in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=BUNDLED)
    parser.add_argument("--tokens", type=int, default=160, help="target tokens a prompt")
    parser.add_argument("--cost", action="store_true", help="measure the cost ratio too")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    texts = greedy_texts(args.tokens)
    drafter = AutoModelForCausalLM.from_pretrained(args.folder, dtype=torch.bfloat16).eval()
    figures: dict[str, Any] = {"kinds": report(drafter, texts)}
    if args.cost:
        target = AutoModelForCausalLM.from_pretrained(embedded_target(), dtype=torch.bfloat16)
        draft, full = pass_seconds([drafter, target.eval()])
        figures |= {"draft_seconds": draft, "target_seconds": full, "cost_ratio": draft / full}
    if args.json:
        print(json.dumps(figures))
        return
    for kind, row in figures["kinds"].items():
        print(f"{kind:8}", "  ".join(f"{name} {value:.3f}" for name, value in row.items()))
    if args.cost:
        print(
            f"pass: drafter {figures['draft_seconds'] * 1e3:.2f} ms, target "
            f"{figures['target_seconds'] * 1e3:.1f} ms, c = {figures['cost_ratio']:.3f}"
        )


if __name__ == "__main__":
    main()
