"""The default models, loaded in the background while the page opens, and what to say of them meanwhile."""

import threading
from collections.abc import Callable

import torch

from playground.machine import exactness
from playground.model_thread import in_model_thread
from playground.models import CATALOGUE, Library, Loaded
from playground.trace import InvalidRequest
from playground.ui.form import Form
from strategies import strategy


class WarmUp:
    """Loads the models that the untouched page would run. Safe to ask from several threads.

    `before` is done first, in the same thread: the choice of threads, which takes half a second to measure.
    """

    def __init__(self, library: Library, form: Form, before: Callable[[], object] | None = None) -> None:
        self._library = library
        self._form = form
        self._before = before
        self._text = "Loading"
        self._machine = ""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, once."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=lambda: in_model_thread(self._work), daemon=True, name="warm-up")
                self._thread.start()

    def start_within(self, seconds: float) -> None:
        """Begin when the first page asks for `status`, at the latest after `seconds`: measuring and loading would
        take the processor from the page's own first second."""
        timer = threading.Timer(seconds, self.start)
        timer.daemon = True
        timer.start()

    def status(self) -> dict[str, object]:
        """What to show, and whether that is the last word."""
        self.start()
        assert self._thread is not None, "just started"
        return {"text": self._text, "machine": self._machine, "ready": not self._thread.is_alive()}

    def _work(self) -> None:
        try:
            if self._before is not None:
                self._say("Measuring this machine")
                self._before()
            target = self._library.load(self._form.target, self._say)
            if strategy(self._form.strategy).needs_assistant and self._form.assistant:
                self._library.load(self._form.assistant, self._say)
        except InvalidRequest as error:
            self._say(str(error))
            return
        except Exception as error:  # a page without its default models still opens, and says why
            self._say(f"{self._form.target} could not be loaded: {type(error).__name__}: {error}")
            return
        self._machine = machine(target)
        self._say(exactness(target.dtype))

    def _say(self, text: str) -> None:
        self._text = text


def machine(target: Loaded) -> str:
    """The target, its number format and the threads that it runs on."""
    title = CATALOGUE[target.name].title if target.name in CATALOGUE else target.name
    threads = torch.get_num_threads()
    if threads == 1:
        return f"{title} · {target.dtype} · 1 thread"
    return f"{title} · {target.dtype} · {threads} threads"
