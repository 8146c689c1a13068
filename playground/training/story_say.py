"""Let a target of the story-teller family go on from the openings of stories: what its drafters learn from.

    python -m playground.training.story_say teller --corpus FILE.jsonl.gz --rows 3000

Two thirds greedy, since that is how it mostly runs; the rest sampled. Appends; can be stopped and started again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm
from transformers import Gemma4ForCausalLM, MellumForCausalLM

from playground.training import story_models
from playground.training.shards import training_dir
from playground.training.story_data import read_stories
from playground.training.story_models import END
from playground.training.story_train import shared_tokenizer

LENGTH = 192
OPENINGS = (4, 6, 8, 12, 16)


def trained(which: str) -> Any:
    """The target as its last checkpoint has it, float32."""
    model: Any = (
        MellumForCausalLM(story_models.teller_config())
        if which == "teller"
        else Gemma4ForCausalLM(story_models.gemma_config())
    )
    state = torch.load(training_dir() / "runs" / which / "checkpoint.pt", weights_only=True)
    model.load_state_dict(state["model"])
    return model.eval()


def said(which: str) -> list[Path]:
    """The files of what a target said, each [rows, LENGTH] uint16, END after the end."""
    return sorted((training_dir() / "said" / which).glob("*.npy"))


@torch.inference_mode()
def say(which: str, corpus: Path | None, rows: int, size: int) -> None:
    """Write `rows` continuations in files of `size`."""
    tokenizer, model = shared_tokenizer(corpus), trained(which).to(torch.bfloat16)
    stories = tokenizer([text for text, _ in read_stories(corpus)]).input_ids
    folder = training_dir() / "said" / which
    folder.mkdir(parents=True, exist_ok=True)
    begun = len(said(which))
    rng = np.random.default_rng(begun)
    torch.manual_seed(begun)
    for n in tqdm(range(begun, begun + rows // size), unit="file"):
        opening = int(rng.choice(OPENINGS))
        chosen = [stories[i][:opening] for i in rng.choice(len(stories), size) if len(stories[i]) > opening]
        options: dict[str, Any] = {"do_sample": False}
        if n % 3 == 2:
            options = {"do_sample": True, "temperature": float(rng.choice([0.5, 0.8, 1.0])), "top_k": 50}
        ids = model.generate(
            input_ids=torch.tensor(chosen),
            max_new_tokens=LENGTH - opening,
            pad_token_id=END,
            eos_token_id=END,
            **options,
        )
        full = np.full((len(chosen), LENGTH), END, np.uint16)
        full[:, : ids.shape[1]] = ids.numpy()
        np.save(folder / f"{n:05}.npy", full)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", choices=["teller", "gemma"])
    parser.add_argument("--corpus", type=Path, help="the corpus (JSON lines, gzip)")
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--size", type=int, default=64, help="rows at once")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    say(args.which, args.corpus, args.rows, args.size)


if __name__ == "__main__":
    main()
