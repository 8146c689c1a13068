"""Which number format and how many threads are fastest here, found by measuring at each start.

A stand-in for a model pass is timed: the matrix products of a small Llama's layer, many times over, for the
one token of plain decoding and for the few of a verification. What the playground shows is the ratio of the
two, so that the format is chosen by their sum.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch

from playground.trace import InvalidRequest

DTYPES = ("bfloat16", "float32")
WIDTHS = (1, 5)
REPEATS = 6
BUDGET_SECONDS = 1.0  # for a format, or for all thread counts; on a busy machine fewer passes must do
_MEASURING = threading.Lock()
HIDDEN, INNER, LAYERS = 576, 1536, 10


@dataclass(frozen=True, slots=True)
class Measured:
    """The choice and what it was made from: processor seconds by format (one thread, a pass over 1 and one over 5
    tokens together), and seconds on the clock by number of threads, for the format chosen."""

    dtype: str
    threads: int
    processor_seconds: dict[str, float]
    clock_seconds: dict[int, float]


def measure() -> Measured:
    """Time both formats, then the thread counts (about half a second where nothing else runs).

    The formats are compared by processor time, which other programs' load does not count into; threads only show
    on the clock, and take turns so that a busy moment hits all of them.
    """
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        layers = {dtype: _weights(getattr(torch, dtype)) for dtype in DTYPES}
        processor = {dtype: _best(layers[dtype], time.thread_time) for dtype in DTYPES}
        dtype = min(processor, key=lambda name: processor[name])
        clock: dict[int, float] = dict.fromkeys(_thread_counts(), float("inf"))
        begin = time.perf_counter()
        for turn in range(REPEATS):
            for threads in clock:
                torch.set_num_threads(threads)
                clock[threads] = min(clock[threads], _seconds(layers[dtype], time.perf_counter))
            if turn and time.perf_counter() - begin > BUDGET_SECONDS:
                break
    finally:
        torch.set_num_threads(before)
    return Measured(dtype, min(clock, key=lambda n: clock[n]), processor, clock)


def _thread_counts() -> list[int]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    physical = min(cores, 16)
    return sorted({1, max(1, physical // 2), physical})


def _weights(dtype: torch.dtype) -> list[torch.Tensor]:
    # Distinct weights of some 30 million numbers: like a model's, they do not stay in the processor's caches.
    shapes = [(HIDDEN, HIDDEN)] * 3 + [(INNER, HIDDEN)] * 2 + [(HIDDEN, INNER)]
    return [torch.randn(shape).to(dtype) for _ in range(LAYERS) for shape in shapes]


def _best(weights: list[torch.Tensor], clock: Callable[[], float]) -> float:
    times = [_seconds(weights, clock)]
    while len(times) < REPEATS and sum(times) < BUDGET_SECONDS:
        times.append(_seconds(weights, clock))
    return min(times)


@torch.inference_mode()
def _seconds(weights: list[torch.Tensor], clock: Callable[[], float]) -> float:
    """Seconds of one pass over each of WIDTHS."""
    inputs = [{n: torch.randn(width, n).to(weights[0].dtype) for n in (HIDDEN, INNER)} for width in WIDTHS]
    begin = clock()
    for one in inputs:
        for weight in weights:
            torch.nn.functional.linear(one[weight.shape[1]], weight)
    return clock() - begin


def chosen() -> Measured:
    """The measurement of this process: not kept longer, since a machine that was busy once would stay slow. Whoever
    asks while it goes on waits for it."""
    with _MEASURING:
        return _measured()


@cache
def _measured() -> Measured:
    return measure()


def chosen_dtype() -> str:
    """The faster format's torch name. PLAYGROUND_DTYPE overrides it.

    Raises:
        InvalidRequest: PLAYGROUND_DTYPE names no format of DTYPES.
    """
    wanted = os.environ.get("PLAYGROUND_DTYPE", "")
    if wanted and wanted not in DTYPES:
        raise InvalidRequest(f"PLAYGROUND_DTYPE is {wanted!r}; it must be one of {', '.join(DTYPES)}.")
    return wanted or chosen().dtype


def known_dtype() -> str | None:
    """What `chosen_dtype` gives, without measuring; None: nothing was measured yet."""
    wanted = os.environ.get("PLAYGROUND_DTYPE", "")
    if wanted:
        return wanted if wanted in DTYPES else None
    return _measured().dtype if _measured.cache_info().currsize else None


def use_threads(threads: int | None = None) -> int:
    """Set torch's threads to `threads`, to PLAYGROUND_THREADS, or to the count measured best.

    Raises:
        InvalidRequest: PLAYGROUND_THREADS is no such number.
    """
    wanted = os.environ.get("PLAYGROUND_THREADS", "")
    if wanted and not (wanted.isdecimal() and 1 <= int(wanted) <= 1024):
        raise InvalidRequest(f"PLAYGROUND_THREADS is {wanted!r}; it must be a whole number from 1 to 1024.")
    count = threads or int(wanted or 0) or chosen().threads
    torch.set_num_threads(count)
    return count


def exactness(dtype: str) -> str:
    """What the number format means for 'the same text', in a sentence."""
    if dtype == "float32":
        return "float32: at temperature 0 every strategy writes exactly what plain decoding writes."
    return (
        f"{dtype}: faster here, but a wider pass rounds differently: where the target's two best logits nearly tie, "
        "the lanes may part, and the page then says where and by how much."
    )
