"""Which number format and how many threads are fastest here, found by measuring; kept for later starts.

A stand-in for a model pass is timed: the matrix products of a small Llama's layer, many times over, for the
one token of plain decoding and for the few of a verification. What the playground shows is the ratio of the
two, so that the format is chosen by their sum.
"""

import json
import os
import platform
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import torch

from playground.models import cache_home

WIDTHS = (1, 5)
REPEATS = 7
HIDDEN, INNER, LAYERS = 576, 1536, 10


@dataclass(frozen=True, slots=True)
class Measured:
    """The choice and what it was made from: seconds of a pass over 1 and over 5 tokens, by format and threads."""

    dtype: str
    threads: int
    seconds: dict[str, list[float]]


def measure() -> Measured:
    """Time each format with each thread count (about a second)."""
    before = torch.get_num_threads()
    seconds: dict[str, list[float]] = {}
    try:
        for dtype in ("bfloat16", "float32"):
            weights = _weights(getattr(torch, dtype))
            for threads in _thread_counts():
                torch.set_num_threads(threads)
                seconds[f"{dtype} {threads}"] = [_time(weights, width) for width in WIDTHS]
    finally:
        torch.set_num_threads(before)
    best = min(seconds, key=lambda key: sum(seconds[key]))
    dtype, threads = best.split()
    return Measured(dtype, int(threads), seconds)


def _thread_counts() -> list[int]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    physical = min(cores, 16)
    return sorted({1, max(1, physical // 2), physical})


def _weights(dtype: torch.dtype) -> list[torch.Tensor]:
    shapes = [(HIDDEN, HIDDEN)] * 3 + [(INNER, HIDDEN)] * 2 + [(HIDDEN, INNER)]
    return [torch.randn(shape).to(dtype) for _ in range(LAYERS) for shape in shapes]


@torch.inference_mode()
def _time(weights: list[torch.Tensor], width: int) -> float:
    # Distinct weights of some 30 million numbers: like a model's, they do not stay in the caches.
    inputs = {n: torch.randn(width, n).to(weights[0].dtype) for n in (HIDDEN, INNER)}
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        for weight in weights:
            torch.nn.functional.linear(inputs[weight.shape[1]], weight)
        times.append(time.perf_counter() - begin)
    return min(times[1:])


@cache
def chosen() -> Measured:
    """The measurement for this machine, from the cache where it was made before."""
    path = cache_home() / "machine.json"
    key = f"{platform.processor() or platform.machine()} {_cpu_name()} {_thread_counts()} torch {torch.__version__}"
    try:
        kept = json.loads(path.read_text())
        if kept.pop("key") == key:
            return Measured(**kept)
    except (OSError, ValueError, KeyError, TypeError):
        pass  # none yet, or of another kind: measure
    measured = measure()
    _keep(path, {"key": key, **asdict(measured)})
    return measured


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _keep(path: Path, value: dict[str, object]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(value, file)
        os.replace(file.name, path)
    except OSError:
        pass  # a read-only home: measured again at the next start


def chosen_dtype() -> str:
    """The faster format's torch name. PLAYGROUND_DTYPE overrides it."""
    return os.environ.get("PLAYGROUND_DTYPE") or chosen().dtype


def use_threads(threads: int | None = None) -> int:
    """Set torch's threads to `threads`, to PLAYGROUND_THREADS, or to the count measured best."""
    count = threads or int(os.environ.get("PLAYGROUND_THREADS") or 0) or chosen().threads
    torch.set_num_threads(count)
    return count


def exactness(dtype: str) -> str:
    """What the number format means for 'the same text', in a sentence."""
    if dtype == "float32":
        return "float32: at temperature 0 every strategy writes exactly what plain decoding writes."
    return (
        f"{dtype}: faster here, but a pass over several tokens rounds differently from a pass over one; where the "
        "target's two best logits (nearly) tie, the lanes may part, and the page then says where and by how much."
    )
