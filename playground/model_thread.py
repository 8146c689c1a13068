"""The one thread in which models run where several threads serve a page.

OpenMP keeps a pool of workers for every thread that ever started a parallel region. With two pools there are more
workers than cores, GNU's OpenMP then lets them sleep instead of spin between regions, and waking them takes a pass
half as long again (37 ms became 57 for SmolLM2-135M on 2 cores). So loading, measuring and decoding all happen here.
"""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

import torch

SWITCH_SECONDS = 0.0005
Result = TypeVar("Result")
_jobs: "SimpleQueue[tuple[Future[Any], Callable[[], Any]]]" = SimpleQueue()
_lock = threading.Lock()
_thread: threading.Thread | None = None


def in_model_thread(work: Callable[[], Result]) -> Result:
    """Call `work` in that thread, one after the other with all that is asked for, and give what it gives or raises."""
    if threading.current_thread() is _thread:
        return work()
    _start()
    done: Future[Result] = Future()
    _jobs.put((done, work))
    return done.result()


def _start() -> None:
    global _thread
    with _lock:
        if _thread is None:
            _thread = threading.Thread(target=_serve, daemon=True, name="models")
            _thread.start()


def _serve() -> None:
    # OpenMP's count of threads belongs to each thread: a new one starts with all cores, whatever was chosen.
    torch.set_num_threads(torch.get_num_threads())
    # After every operation this thread needs the interpreter back from whoever serves the page.
    sys.setswitchinterval(SWITCH_SECONDS)
    while True:
        done, work = _jobs.get()
        try:
            done.set_result(work())
        except BaseException as error:  # whoever asked is told, this thread goes on
            done.set_exception(error)
        del done, work  # nothing of a job is held while waiting for the next
