"""Sample the target in large batches and keep what it said with its best 32 logits.

    python -m playground.training.sample prompts --seed 1 --count 4000
    python -m playground.training.sample answers --seed 1 --tokens 2000000

Both append shards under the training directory and can be stopped at any moment: a shard is
written whole or not at all, and a later run goes on with prompts that no shard holds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaForCausalLM,
    PreTrainedTokenizerBase,
)

from playground.embedded import embedded_target
from playground.training.prompts import BenchFilter, mixed_prompts, normal
from playground.training.rewriting import passages
from playground.training.shards import Sample, read_prompts, training_dir, write_shard
from playground.training.slots import Slots, top_logits

USER_PREFIX = (
    "<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\n"
)
CLOSING = "<|im_end|>\n<|im_start|>assistant\n"
GREEDY_SHARE = 0.7


@dataclass(slots=True)
class Task:
    """One continuation to make: `suffix` follows the shared prefix."""

    kind: str
    suffix: list[int]
    temperature: float
    limit: int
    ids: list[int] = field(default_factory=list)
    tops: list[np.ndarray] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)
    lse: list[float] = field(default_factory=list)


def load_target() -> tuple[LlamaForCausalLM, PreTrainedTokenizerBase]:
    """The embedded target in bfloat16 and its tokenizer."""
    folder = embedded_target()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    return model, AutoTokenizer.from_pretrained(folder)


def continuations(slots: Slots, tasks: Iterator[Task], stop: int, generator: torch.Generator) -> Iterator[Task]:
    """Run `tasks` through the slots until they are exhausted; yields each when it is done."""
    running: list[Task | None] = [None] * slots.size
    tokens = torch.zeros(slots.size, dtype=torch.long)
    positions = torch.zeros(slots.size, dtype=torch.long)
    temperatures = torch.zeros(slots.size)
    exhausted = False

    def take(rows: list[int], logits: torch.Tensor) -> Iterator[Task]:
        values, ids = top_logits(logits)
        lse = logits.logsumexp(-1).tolist()
        scale = temperatures[rows][:, None]
        noise = -torch.empty(values.shape).exponential_(generator=generator).log()
        chosen = (values + scale * noise).argmax(-1)
        picked = ids.gather(1, chosen[:, None])[:, 0]
        tokens[rows] = picked
        ids16 = ids.numpy().astype(np.uint16)
        values16 = values.numpy().astype(np.float16)
        for place, row in enumerate(rows):
            task = running[row]
            assert task is not None
            task.ids.append(int(picked[place]))
            task.tops.append(ids16[place])
            task.values.append(values16[place])
            task.lse.append(lse[place])
            if task.ids[-1] == stop or len(task.ids) >= task.limit:
                running[row] = None
                positions[row] = 0
                yield task

    while True:
        free = [row for row, task in enumerate(running) if task is None]
        if not exhausted and len(free) >= max(1, slots.size // 8):
            fresh: list[Task] = []
            while len(fresh) < len(free):
                task = next(tasks, None)
                if task is None:
                    exhausted = True
                    break
                fresh.append(task)
            if fresh:
                fresh.sort(key=lambda task: len(task.suffix))
                for begin in range(0, len(fresh), 32):
                    part = fresh[begin : begin + 32]
                    rows = free[begin : begin + len(part)]
                    logits = slots.fill(rows, [task.suffix for task in part])
                    for row, task in zip(rows, part, strict=True):
                        running[row] = task
                        temperatures[row] = task.temperature
                        positions[row] = len(slots.prefix) + len(task.suffix) - 1
                    yield from take(rows, logits)
        busy = [row for row, task in enumerate(running) if task is not None]
        if not busy:
            if exhausted:
                return
            continue
        positions[busy] += 1
        logits = slots.step(tokens, positions)
        yield from take(busy, logits[busy] if len(busy) < slots.size else logits)


def make_prompts(seed: int, count: int, size: int) -> None:
    """Let the target write user turns of its own (as Magpie does), at temperature 1."""
    model, tokenizer = load_target()
    prefix = tokenizer(USER_PREFIX).input_ids
    slots = Slots(model, size, 160, prefix[:-1])
    generator = torch.Generator().manual_seed(seed)
    tasks = (Task("magpie", prefix[-1:], 1.0, 110) for _ in range(count))
    folder = training_dir() / "magpie"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"prompts-{seed}.txt"
    bench = BenchFilter()
    with path.open("a", encoding="utf-8") as out:
        for task in tqdm(continuations(slots, tasks, tokenizer.eos_token_id, generator), total=count):
            if task.ids[-1] != tokenizer.eos_token_id:
                continue
            text = tokenizer.decode(task.ids[:-1]).strip()
            if len(text) >= 8 and not bench.excludes(text):
                out.write(repr(text) + "\n")
                out.flush()


def stored_prompts(tokenizer: PreTrainedTokenizerBase) -> set[str]:
    """Prompts that some shard answers already, in the form that `mixed_prompts` compares."""
    start = len(tokenizer(USER_PREFIX).input_ids)
    closing = tokenizer(CLOSING).input_ids
    done: set[str] = set()
    for path in sorted((training_dir() / "shards").glob("*.npz")):
        for ids in read_prompts(path):
            done.add(normal(tokenizer.decode(ids[start : -len(closing)].tolist())))
    return done


def make_answers(
    seed: int,
    tokens: int,
    size: int,
    length: int,
    magpie_share: float,
    corpus: Path | None,
    shard_tokens: int = 20_000,
) -> None:
    """Answer prompts until `tokens` response tokens are stored by this run."""
    model, tokenizer = load_target()
    prefix = tokenizer(USER_PREFIX).input_ids
    closing = tokenizer(CLOSING).input_ids
    slots = Slots(model, size, length, prefix)
    generator = torch.Generator().manual_seed(seed * 7919 + int(time.time()))
    rng = np.random.default_rng(seed * 7919 + int(time.time()))
    prompts = mixed_prompts(rng, passages(corpus), magpie_share, stored_prompts(tokenizer))

    def tasks() -> Iterator[Task]:
        for kind, prompt in prompts:
            suffix = tokenizer(prompt).input_ids + closing
            room = length - len(prefix) - len(suffix)
            if room < 48:
                continue
            greedy = rng.random() < GREEDY_SHARE
            temperature = 0.0 if greedy else float(rng.choice([0.8, 1.0]))
            yield Task(kind, suffix, temperature, min(room, 160))

    done, held = 0, 0
    batch: list[Sample] = []
    bar = tqdm(total=tokens, unit="tok", smoothing=0.05)
    for task in continuations(slots, tasks(), tokenizer.eos_token_id, generator):
        batch.append(
            Sample(
                kind=task.kind,
                temperature=task.temperature,
                prompt=np.array(prefix + task.suffix, np.uint16),
                response=np.array(task.ids, np.uint16),
                top_ids=np.stack(task.tops),
                top_logits=np.stack(task.values),
                logsumexp=np.array(task.lse, np.float32),
            )
        )
        held += len(task.ids)
        bar.update(len(task.ids))
        if held >= shard_tokens:
            write_shard(batch, f"answers-{seed}")
            done, held, batch = done + held, 0, []
            if done >= tokens:
                return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["prompts", "answers"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=4000, help="prompts to write")
    parser.add_argument("--tokens", type=int, default=2_000_000, help="response tokens to store")
    parser.add_argument("--slots", type=int, default=96)
    parser.add_argument("--length", type=int, default=384, help="longest prompt and response")
    parser.add_argument("--magpie-share", type=float, default=0.5)
    parser.add_argument("--corpus", type=Path, help="answers to make rewriting tasks from")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.what == "prompts":
        make_prompts(args.seed, args.count, args.slots)
    else:
        make_answers(args.seed, args.tokens, args.slots, args.length, args.magpie_share, args.corpus)


if __name__ == "__main__":
    main()
