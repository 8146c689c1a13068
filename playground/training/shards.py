"""Files of target samples: one sample in memory, many in a shard; knows no model."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from playground.embedded import cache_root


@dataclass(frozen=True, slots=True)
class Sample:
    """A prompt and what the target answered, with its best logits at each response position.

    prompt [P] and response [R] are uint16 ids; top_ids and top_logits are [R, 32] (uint16 and
    float16, largest first), logsumexp [R] is float32. Row i is the distribution that
    response[i] was taken from.
    """

    kind: str
    temperature: float
    prompt: np.ndarray
    response: np.ndarray
    top_ids: np.ndarray
    top_logits: np.ndarray
    logsumexp: np.ndarray


def sample_key(sample: Sample) -> bytes:
    """Tells samples apart: the prompt and the first 32 tokens of the response."""
    return sample.prompt.tobytes() + sample.response[:32].tobytes()


def training_dir() -> Path:
    """Where prompts, shards and checkpoints lie, under the user's cache directory."""
    return cache_root() / "training"


def write_shard(samples: Sequence[Sample], name: str) -> Path:
    """Write `samples` as one new shard; a reader never sees half of it."""
    folder = training_dir() / "shards"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{time.time_ns()}.npz"
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    with temporary.open("wb") as out:
        np.savez(
            out,
            kind=np.array([s.kind for s in samples]),
            temperature=np.array([s.temperature for s in samples], np.float32),
            prompt_len=np.array([len(s.prompt) for s in samples], np.int32),
            response_len=np.array([len(s.response) for s in samples], np.int32),
            prompt=np.concatenate([s.prompt for s in samples]),
            response=np.concatenate([s.response for s in samples]),
            top_ids=np.concatenate([s.top_ids for s in samples]),
            top_logits=np.concatenate([s.top_logits for s in samples]),
            logsumexp=np.concatenate([s.logsumexp for s in samples]),
        )
    os.replace(temporary, path)
    return path


def read_shard(path: Path) -> list[Sample]:
    """The samples of one shard."""
    with np.load(path) as data:
        arrays = {key: data[key] for key in data.files}
    p = np.concatenate([[0], np.cumsum(arrays["prompt_len"])])
    r = np.concatenate([[0], np.cumsum(arrays["response_len"])])
    return [
        Sample(
            kind=str(arrays["kind"][i]),
            temperature=float(arrays["temperature"][i]),
            prompt=arrays["prompt"][p[i] : p[i + 1]],
            response=arrays["response"][r[i] : r[i + 1]],
            top_ids=arrays["top_ids"][r[i] : r[i + 1]],
            top_logits=arrays["top_logits"][r[i] : r[i + 1]],
            logsumexp=arrays["logsumexp"][r[i] : r[i + 1]],
        )
        for i in range(len(p) - 1)
    ]


def read_prompts(path: Path) -> list[np.ndarray]:
    """Only the prompts (uint16 ids, template included) of one shard."""
    with np.load(path) as data:
        ends = np.cumsum(data["prompt_len"])
        return np.split(data["prompt"], ends[:-1])
