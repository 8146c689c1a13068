"""The tab Prove it: a button that checks the claim of losslessness on the setting of the controls."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Generator, Iterator
from contextlib import closing
from html import escape
from queue import Empty, SimpleQueue
from typing import Any

import gradio as gr

from playground.model_thread import in_model_thread
from playground.models import Library
from playground.proof import DRAWS, MOST_DRAWS, Proof, Prover, check_drafts, check_draws
from playground.proof_html import empty, picture
from playground.trace import InvalidRequest
from playground.ui.form import Form, with_label
from playground.ui.parts import Page
from playground.words import ENGLISH, say, translate_sentence

SHOWN_SECONDS = 0.7  # between two pictures of a proof
POLL_SECONDS = 0.2
WAITING_SECONDS = 1.0  # after which a step that has not begun is said to wait
BUDGET_SECONDS = 300.0
MOST_AT_ONCE = 8
KEPT = 64
log = logging.getLogger(__name__)


class Press:
    """One press of the button: a worker that drives the proof, a step at a time in the model thread, so that another
    user's run can come in between."""

    def __init__(self, library: Library, form: Form, draws: object, budget_seconds: float = BUDGET_SECONDS) -> None:
        self.stop = threading.Event()
        self.prover: Prover | None = None
        self.last: Proof | None = None
        self.problem = ""
        self.ran_out = False
        self._library, self._form, self._draws = library, form, draws
        self._budget = budget_seconds
        self._news: SimpleQueue[str | None] = SimpleQueue()
        self._asked = 0.0  # when the step that has not begun was asked for; 0: one is under way
        self._left = False

    def follow(self, language: str) -> Generator[tuple[str, Proof | None]]:
        """What goes on and, now and then, the proof so far. Closing it ends the work."""
        threading.Thread(target=self._work, args=(language,), daemon=True, name="prove").start()
        text = say(language, "Checking the settings")
        try:
            yield text, None
            while True:
                try:
                    news = self._news.get(timeout=POLL_SECONDS)
                except Empty:
                    waiting = self._asked and time.monotonic() - self._asked > WAITING_SECONDS
                    if waiting and self.stop.is_set():
                        return  # somebody else's run is on: what there is must do
                    if waiting:
                        yield say(language, "Waiting for another run to end"), None
                    continue
                if news is None:
                    return
                yield news, self.last
        finally:
            self._left = True
            self.stop.set()

    def _work(self, language: str) -> None:
        try:
            self._prove(language)
        except InvalidRequest as error:
            self.problem = translate_sentence(language, with_label(str(error), self._form))
        except Exception as error:  # the page must say that something broke, whatever it was
            log.exception("a proof failed")
            self.problem = say(language, "The proof broke: {error}", error=f"{type(error).__name__}: {error}")
        finally:
            self._news.put(None)

    def _prove(self, language: str) -> None:
        check_drafts(self._form.strategy)
        draws = check_draws(self._draws)
        prepared = self._in_turn(lambda: self._form.prepare(self._library, self._news.put))
        if prepared is None:
            return
        self.prover = Prover(prepared, draws)
        deadline = time.monotonic() + self._budget
        due = 0.0
        with closing(_Steps(self.prover.steps())) as steps:
            while self._in_turn(steps.step):
                if self.stop.is_set() or time.monotonic() > deadline:
                    self.ran_out = not self.stop.is_set()
                    self.prover.stop()
                if time.monotonic() >= due:
                    self.last = self.prover.proof()
                    self._news.put(self._status(language, draws))
                    due = time.monotonic() + SHOWN_SECONDS
            self.last = self.prover.proof()

    def _status(self, language: str, wanted: int) -> str:
        assert self.prover is not None, "asked for while it works"
        tokens, drawn = self.prover.progress
        if drawn:
            return say(language, "Drawing: {n} of {wanted}", n=drawn, wanted=wanted)
        if tokens:
            return say(language, "Decoding: {n} tokens", n=tokens)
        return say(language, "Reading the prompt")

    def _in_turn(self, work: Any) -> Any:
        self._asked = time.monotonic()

        def begin() -> Any:
            self._asked = 0.0
            return None if self._left else work()

        try:
            return in_model_thread(begin)
        finally:
            self._asked = 0.0


class _Steps:
    """Steps that are taken, and closed, in the model thread."""

    def __init__(self, steps: Iterator[None]) -> None:
        self._steps = steps

    def step(self) -> bool:
        """The next one; False: there was none."""
        return next(self._steps, self) is None

    def close(self) -> None:
        """Let go of caches."""
        in_model_thread(self._steps.close)  # type: ignore[attr-defined]


class Presses:
    """The proofs under way, one a session."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, Press] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, session: str, press: Press) -> None:
        """Remember it; an earlier one of that session ends."""
        self.stop(session)
        with self._lock:
            self._of[session] = press
            while len(self._of) > KEPT:
                self._of.popitem(last=False)

    def stop(self, session: str) -> None:
        """End that session's proof after the step that it is in."""
        with self._lock:
            press = self._of.pop(session, None)
        if press is not None:
            press.stop.set()


def build(page: Page) -> None:
    """Fill the tab."""
    presses = Presses()
    with gr.Row(elem_id="sp-prove-controls"):
        gr.Markdown(
            "Is it really the target's text? Prove it on the settings at the left and the prompt of the tab Run.",
            elem_id="sp-prove-about",
        )
        draws = gr.Slider(
            50, MOST_DRAWS, value=DRAWS, step=50, label="How many draws", info="When sampling: more see finer.",
            elem_id="sp-prove-draws", min_width=230, buttons=[],
        )  # fmt: skip
        prove = gr.Button("Prove it", variant="primary", elem_id="sp-prove", scale=0, min_width=110)
        stop = gr.Button("Stop", elem_id="sp-prove-stop", interactive=False, scale=0, min_width=80)
    status = gr.HTML(_status(""), apply_default_css=False, elem_id="sp-prove-status")
    view = gr.HTML(empty(ENGLISH), apply_default_css=False, elem_id="sp-prove-view")
    found = gr.State(None)
    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}

    def run(request: gr.Request, language: str, wanted: Any, *values: Any) -> Iterator[tuple[Any, ...]]:
        press = Press(page.library, page.form(values), wanted)
        session = str(request.session_hash)
        presses.begin(session, press)
        last: Proof | None = None
        with closing(press.follow(language)) as steps:
            for text, proof in steps:
                news: Any = gr.skip() if proof is None or proof is last else picture(language, proof)
                last = proof or last
                drawn = None if last is None else last.drawn
                line = _status(text, None if drawn is None else drawn.done / drawn.wanted)
                yield line, news, gr.update(interactive=False), gr.update(interactive=True), gr.skip()
        presses.stop(session)
        last = press.last
        shown: tuple[Any, Any] = (gr.skip(), gr.skip()) if last is None else (picture(language, last), last)
        yield (
            _status(press.problem or _ended(language, press), error=bool(press.problem)), shown[0],
            gr.update(interactive=True), gr.update(interactive=False), shown[1],
        )  # fmt: skip

    prove.click(
        run, [page.language, draws, *page.inputs], [status, view, prove, stop, found],
        concurrency_limit=MOST_AT_ONCE, concurrency_id="prove", **quiet,
    )  # fmt: skip

    def halt(request: gr.Request) -> None:
        presses.stop(str(request.session_hash))

    stop.click(halt, None, None, queue=False, **quiet)
    page.language.change(
        lambda language, proof: empty(language) if proof is None else picture(language, proof),
        [page.language, found], view, queue=False, **quiet,
    )  # fmt: skip


def _ended(language: str, press: Press) -> str:
    if press.ran_out:
        return say(language, "Ended at the time limit: what was drawn until then is compared.")
    if press.last is None or press.last.stopped or not press.last.done:
        return say(language, "Stopped: what was written until then is compared.")
    return say(language, "Done.")


def _status(text: str, ratio: float | None = None, error: bool = False) -> str:
    role = "alert" if error else "status"
    bar = "" if ratio is None else f'<progress max="1" value="{ratio:.3f}" aria-label="{escape(text)}"></progress>'
    name = "sp-prove-error" if error else "sp-prove-says"
    return f'<div class="sp-prove-line"><p class="{name}" role="{role}">{escape(text)}</p>{bar}</div>'
