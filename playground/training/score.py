"""Give samples that have no logits the target's best 32 at each response position.

    python -m playground.training.score CORPUS.jsonl.gz

One pass of the target over prompt and response, many at a time. Resumes where it stopped: what
some shard holds already is left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm
from transformers import LlamaForCausalLM

from playground.training.data import read_corpus
from playground.training.sample import load_target
from playground.training.shards import Sample, read_shard, sample_key, training_dir, write_shard
from playground.training.slots import top_logits


def _pieces(samples: Sequence[Sample], tokens: int) -> Iterator[list[Sample]]:
    """Groups of about `tokens` tokens, in the order given."""
    group: list[Sample] = []
    for sample in samples:
        group.append(sample)
        longest = max(len(s.prompt) + len(s.response) for s in group)
        if longest * len(group) >= tokens:
            yield group
            group = []
    if group:
        yield group


@torch.inference_mode()
def score(model: LlamaForCausalLM, samples: Sequence[Sample]) -> list[Sample]:
    """The samples with top_ids, top_logits [R, 32] and logsumexp [R] filled in."""
    rows = [np.concatenate([s.prompt, s.response])[:-1].astype(np.int64) for s in samples]
    ids = torch.full((len(rows), max(map(len, rows))), 2)
    for row, tokens in enumerate(rows):
        ids[row, : len(tokens)] = torch.from_numpy(tokens)
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
    scored = []
    for row, sample in enumerate(samples):
        begin = len(sample.prompt) - 1
        logits: Tensor = F.linear(hidden[row, begin : begin + len(sample.response)], model.lm_head.weight).float()
        values, best = top_logits(logits)
        scored.append(
            replace(
                sample,
                top_ids=best.numpy().astype(np.uint16),
                top_logits=values.numpy().astype(np.float16),
                logsumexp=logits.logsumexp(-1).numpy(),
            )
        )
    return scored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--longest", type=int, default=192, help="response tokens kept")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model, tokenizer = load_target()
    done = {
        sample_key(sample) for path in (training_dir() / "shards").glob("scored-*.npz") for sample in read_shard(path)
    }
    samples = [s for s in read_corpus(args.corpus, tokenizer) if sample_key(s) not in done]
    order = np.random.default_rng(0).permutation(len(samples))
    short = []
    for place in order:
        s = samples[place]
        n = args.longest
        short.append(
            replace(
                s,
                response=s.response[:n],
                top_ids=s.top_ids[:n],
                top_logits=s.top_logits[:n],
                logsumexp=s.logsumexp[:n],
            )
        )
    held: list[Sample] = []
    with tqdm(total=sum(len(s.response) for s in short), unit="tok") as bar:
        for group in _pieces(short, args.batch_tokens):
            held += score(model, group)
            bar.update(sum(len(s.response) for s in group))
            if sum(len(s.response) for s in held) > 20_000:
                write_shard(held, "scored")
                held = []
    if held:
        write_shard(held, "scored")


if __name__ == "__main__":
    main()
