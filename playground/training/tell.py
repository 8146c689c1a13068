"""Let SmolLM2 tell simple stories, from which the story-teller family learns.

    python -m playground.training.tell --tokens 600000

Appends to a file of JSON lines under the training directory (`kind`, `prompt`, `response`,
`complete`, as the corpus); can be stopped at any moment and started again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from playground.training import words as w
from playground.training.prompts import BenchFilter
from playground.training.sample import CLOSING, USER_PREFIX, Task, continuations, load_target
from playground.training.shards import training_dir
from playground.training.slots import Slots
from playground.training.templates import Rng, pick

OPENINGS = (
    "Write a short and simple story for children about {who} who {what}.",
    "Tell a very simple story about {who} {where}. Use short sentences.",
    "Write a bedtime story for a small child about {who} who {what} {where}.",
    "Once upon a time there was {who} who {what}. Tell the story in simple words.",
    "Write a simple fable about {who} and {other}.",
    "Tell a short story about {who} who {what}. It has a happy end.",
)
TEMPERATURES = (0.0, 0.4, 0.6, 0.7)


def story_prompt(rng: Rng) -> str:
    """What a story is asked for with."""
    return pick(rng, OPENINGS).format(
        who=pick(rng, w.CHARACTERS),
        what=pick(rng, w.ACTIONS),
        where=pick(rng, w.PLACES),
        other=pick(rng, w.CHARACTERS),
    )


def told() -> Path:
    """The file of the stories told so far."""
    return training_dir() / "stories.jsonl"


def tell(tokens: int, size: int, length: int, seed: int) -> None:
    """Tell stories until `tokens` tokens were written by this call."""
    model, tokenizer = load_target()
    prefix, closing = tokenizer(USER_PREFIX).input_ids, tokenizer(CLOSING).input_ids
    slots = Slots(model, size, length, prefix)
    generator = torch.Generator().manual_seed(seed)
    rng = np.random.default_rng(seed)
    bench, seen = BenchFilter(), set[str]()

    def tasks() -> Iterator[Task]:
        while True:
            prompt = story_prompt(rng)
            if prompt in seen or bench.excludes(prompt):
                continue
            seen.add(prompt)
            suffix = tokenizer(prompt).input_ids + closing
            # What `sample` calls the kind is carried through unread: here it is the prompt itself.
            yield Task(prompt, suffix, float(rng.choice(TEMPERATURES)), length - len(prefix) - len(suffix))

    told().parent.mkdir(parents=True, exist_ok=True)
    done = 0
    with told().open("a", encoding="utf-8") as out, tqdm(total=tokens, unit="tok", smoothing=0.05) as bar:
        for task in continuations(slots, tasks(), tokenizer.eos_token_id, generator):
            complete = task.ids[-1] == tokenizer.eos_token_id
            row = {
                "kind": "story",
                "prompt": task.kind,
                "response": tokenizer.decode(task.ids, skip_special_tokens=True),
                "complete": complete,
                "temperature": task.temperature,
            }
            out.write(json.dumps(row) + "\n")
            out.flush()
            bar.update(len(task.ids))
            done += len(task.ids)
            if done >= tokens:
                return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=600_000)
    parser.add_argument("--slots", type=int, default=96)
    parser.add_argument("--length", type=int, default=288, help="longest prompt and story together")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tell(args.tokens, args.slots, args.length, args.seed)


if __name__ == "__main__":
    main()
