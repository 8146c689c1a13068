"""What the drafting head learns from: the target's last hidden states and best logits over texts.

    python -m playground.training.eagle_data --corpus FILE.jsonl.gz --minutes 30

The texts are the target's own: the shards of `sample answers`, the stories of `tell` and the corpus; none that
answers a prompt of the evaluation. Sources are dealt in turn, greedy answers most, so that whatever is done when the
time is over is a mixture. Can be stopped at any moment: a shard is written whole or not at all, and a later call goes
on with the texts that no shard holds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from tqdm import tqdm
from transformers import LlamaForCausalLM

from playground.training.prompts import BenchFilter
from playground.training.sample import CLOSING, USER_PREFIX, load_target
from playground.training.shards import read_shard, training_dir
from playground.training.slots import top_logits
from playground.training.story_data import held_out
from playground.training.tell import told

SHARES = {"greedy": 8.0, "stories": 2.0, "sampled": 2.0, "corpus": 3.0}
"""How many texts of each source are dealt for one another."""
SHARD_TEXTS = 96


@dataclass(frozen=True, slots=True)
class Text:
    """A prompt (template included) and the target's answer, uint16 ids; `held`: for evaluation only."""

    source: str
    held: bool
    prompt: np.ndarray
    response: np.ndarray

    @property
    def key(self) -> int:
        """Tells texts apart."""
        return zlib.crc32(self.prompt.tobytes() + b"|" + self.response[:32].tobytes())


@dataclass(frozen=True, slots=True)
class Extract:
    """What the target makes of a text of L tokens, P of them the prompt, R the answer.

    ids [L]; hidden [L - 1, H] bfloat16, after the final norm; top_ids and top_logits [R, 32], largest first, and
    logsumexp [R]: row r is the distribution that answer token r was taken from, at position P - 1 + r.
    """

    key: int
    source: str
    held: bool
    prompt: int
    ids: Tensor
    hidden: Tensor
    top_ids: Tensor
    top_logits: Tensor
    logsumexp: Tensor


def answers() -> Iterator[Text]:
    """The texts of the shards of `sample answers`."""
    for path in sorted((training_dir() / "shards").glob("answers-*.npz")):
        for sample in read_shard(path):
            yield Text("greedy" if sample.temperature == 0 else "sampled", False, sample.prompt, sample.response)


def lines_of(path: Path, source: str, tokenizer: Any) -> Iterator[Text]:
    """The texts of a file of JSON lines (`prompt`, `response`, `complete`), which may still be growing."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.endswith("\n")]
    prompts = tokenizer([USER_PREFIX + row["prompt"] + CLOSING for row in rows]).input_ids
    responses = tokenizer([row["response"] for row in rows]).input_ids
    for row, prompt, response in zip(rows, prompts, responses, strict=True):
        ended = response + [tokenizer.eos_token_id] * bool(row["complete"])
        yield Text(source, False, np.array(prompt, np.uint16), np.array(ended, np.uint16))


def texts(corpus: Path | None, tokenizer: Any, longest: int, done: set[int]) -> list[Text]:
    """All texts that are not done, in the order in which they are to be done; `longest` tokens each at most."""
    bench, queues = BenchFilter(), {source: dict[int, Text]() for source in SHARES}
    found = [answers()]
    found += [lines_of(told(), "stories", tokenizer)] if told().exists() else []
    found += [lines_of(corpus, "corpus", tokenizer)] if corpus else []
    opening = len(tokenizer(USER_PREFIX).input_ids)
    closing = len(tokenizer(CLOSING).input_ids)
    for text in (t for source in found for t in source):
        prompt = tokenizer.decode(text.prompt[opening:-closing].tolist())
        room = longest - len(text.prompt)
        if room < 32 or len(text.response) < 8 or bench.excludes(prompt):
            continue
        kept = Text(text.source, held_out(prompt), text.prompt, text.response[:room])
        if kept.key not in done:
            queues[text.source][kept.key] = kept
    ranked = [
        ((place + 0.5) / SHARES[source], queue[key])
        for source, queue in queues.items()
        for place, key in enumerate(sorted(queue))  # by checksum: in no order at all
    ]
    return [text for _, text in sorted(ranked, key=lambda pair: pair[0])]


@torch.inference_mode()
def extract(model: LlamaForCausalLM, group: Sequence[Text]) -> list[Extract]:
    """One pass of the target over texts of similar lengths."""
    rows = [torch.from_numpy(np.concatenate([t.prompt, t.response]).astype(np.int64)) for t in group]
    ids = torch.nn.utils.rnn.pad_sequence([row[:-1] for row in rows], batch_first=True, padding_value=2)
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
    out = []
    for row, (text, tokens) in enumerate(zip(group, rows, strict=True)):
        begin, count = len(text.prompt) - 1, len(text.response)
        logits = F.linear(hidden[row, begin : begin + count], model.lm_head.weight).float()
        values, best = top_logits(logits)
        out.append(
            Extract(
                key=text.key,
                source=text.source,
                held=text.held,
                prompt=len(text.prompt),
                ids=tokens.int(),
                hidden=hidden[row, : len(tokens) - 1],
                top_ids=best.int(),
                top_logits=values.half(),
                logsumexp=logits.logsumexp(-1),
            )
        )
    return out


def folder() -> Path:
    """Where the shards lie."""
    return training_dir() / "eagle"


def write(extracts: Sequence[Extract]) -> Path:
    """Write one shard; a reader never sees half of it."""
    folder().mkdir(parents=True, exist_ok=True)
    path = folder() / f"{time.time_ns()}.safetensors"
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    sources = list(SHARES)
    table = [[e.key, sources.index(e.source), e.held, e.prompt, len(e.ids)] for e in extracts]
    joined = {
        name: torch.cat([getattr(e, name) for e in extracts])
        for name in ("ids", "hidden", "top_ids", "top_logits", "logsumexp")
    }
    save_file({"table": torch.tensor(table)} | joined, temporary)
    os.replace(temporary, path)
    return path


def read(path: Path) -> list[Extract]:
    """The extracts of one shard; the file is mapped, not read."""
    with safe_open(path, "pt") as shard:
        table = shard.get_tensor("table").tolist()
        arrays = {name: shard.get_tensor(name) for name in shard.keys() if name != "table"}  # noqa: SIM118
    out, at, row, sources = [], 0, 0, list(SHARES)
    for n, (key, source, held, prompt, length) in enumerate(table):
        count = length - prompt
        out.append(
            Extract(
                key=key,
                source=sources[source],
                held=bool(held),
                prompt=prompt,
                ids=arrays["ids"][at : at + length],
                hidden=arrays["hidden"][at - n : at - n + length - 1],
                top_ids=arrays["top_ids"][row : row + count],
                top_logits=arrays["top_logits"][row : row + count],
                logsumexp=arrays["logsumexp"][row : row + count],
            )
        )
        at, row = at + length, row + count
    return out


def keys(path: Path) -> list[int]:
    """Only the keys of the extracts of one shard."""
    with safe_open(path, "pt") as shard:
        return shard.get_tensor("table")[:, 0].tolist()


def groups(window: Sequence[Text], tokens: int) -> Iterator[list[Text]]:
    """The texts of `window` in groups of similar lengths, of about `tokens` tokens with the padding."""
    group: list[Text] = []
    for text in sorted(window, key=lambda t: len(t.prompt) + len(t.response)):
        if group and (len(text.prompt) + len(text.response)) * (len(group) + 1) > tokens:
            yield group
            group = []
        group.append(text)
    yield group


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, help="the corpus (JSON lines, gzip)")
    parser.add_argument("--minutes", type=float, default=30, help="on the clock, by this call")
    parser.add_argument("--longest", type=int, default=320, help="tokens of a prompt and its answer")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model, tokenizer = load_target()
    done = {key for path in folder().glob("*.safetensors") for key in keys(path)}
    waiting = texts(args.corpus, tokenizer, args.longest, done)
    begin = time.monotonic()
    with tqdm(total=sum(len(t.prompt) + len(t.response) for t in waiting), unit="tok") as bar:
        for start in range(0, len(waiting), SHARD_TEXTS):
            made: list[Extract] = []
            for group in groups(waiting[start : start + SHARD_TEXTS], args.batch_tokens):
                made += extract(model, group)
                bar.update(sum(len(e.ids) for e in made[-len(group) :]))
            write(made)
            if time.monotonic() - begin > args.minutes * 60:
                return


if __name__ == "__main__":
    main()
