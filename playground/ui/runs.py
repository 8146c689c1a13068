"""The runs of all sessions: a worker thread each, stopped on request, their messages kept for a while.

The worker builds the messages between the steps of the race, where no clock runs; whoever iterates over
them only waits. Knows no widget.
"""

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from playground.model_thread import in_model_thread
from playground.models import Library
from playground.race import race
from playground.recorded import Recorder
from playground.run import Prepared
from playground.sampling import COUPLED, is_lossless
from playground.trace import FinishReason, InvalidRequest, Reading, Started
from playground.ui.form import Form, field_of, with_label
from playground.ui.warmup import machine
from playground.view import LaneInfo, Spoken, View, dump
from strategies import strategy

MESSAGE_SECONDS = 0.2
BUDGET_SECONDS = 300.0
KEPT_RUNS = 32
LONGEST_ID = 64
log = logging.getLogger(__name__)


@dataclass(slots=True)
class Run:
    """One run: its outgoing messages, numbered, and whether it was asked to stop."""

    id: str
    messages: list[str] = field(default_factory=list)
    queue: "SimpleQueue[str | None]" = field(default_factory=SimpleQueue)
    stop: threading.Event = field(default_factory=threading.Event)
    started: bool = False
    record: Recorder | None = None  # of what happened, once decoding began
    text_of: Callable[[int], str] = str  # a token's text, by its id

    def send(self, message: dict[str, Any]) -> None:
        """Number a message, keep it and hand it on."""
        text = dump({"run": self.id, "seq": len(self.messages), **message})
        self.messages.append(text)
        self.queue.put(text)


class Line:
    """Runs that wait for each other: one at a time, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[Run] = deque()
        self._changed = threading.Condition()

    def join(self, run: Run) -> bool:
        """Stand at the end, and say whether somebody is in front."""
        with self._changed:
            self._waiting.append(run)
            return self._waiting[0] is not run

    def wait(self, run: Run) -> None:
        """Until it is the turn of `run`, or it was stopped."""
        with self._changed:
            self._changed.wait_for(lambda: run.stop.is_set() or self._waiting[0] is run)

    def leave(self, run: Run) -> None:
        """Let the next one go."""
        with self._changed:
            self._waiting.remove(run)
            self._changed.notify_all()

    def stop(self, run: Run) -> None:
        """Ask it to stop; it need not wait any longer."""
        with self._changed:
            run.stop.set()
            self._changed.notify_all()


class Runs:
    """Starts, stops and remembers runs. Safe to call from several threads.

    `before` is done at the start of each run, in its thread: it waits until it is known on how many threads to run.
    """

    def __init__(
        self, library: Library, budget_seconds: float = BUDGET_SECONDS, before: Callable[[], object] | None = None
    ) -> None:
        self.library = library
        self.budget_seconds = budget_seconds
        self._before = before
        self._line = Line()
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._lock = threading.Lock()

    def stream(self, run_id: str, form: Form) -> Iterator[str]:
        """Run it, and yield its messages. Closing the iterator stops the run and waits for its last step.

        Raises:
            InvalidRequest: the id is empty, too long, or was used before.
        """
        run = self._get(run_id)
        with self._lock:
            if run.started:
                raise InvalidRequest(f"A run named {run_id!r} was started before; choose another name.")
            run.started = True
        worker = threading.Thread(target=self._work, args=(run, form), daemon=True, name="run")
        worker.start()
        try:
            while (message := run.queue.get()) is not None:
                yield message
        finally:
            self._line.stop(run)
            worker.join()

    def stop(self, run_id: str) -> None:
        """End a run after the round that it is in; one that waits for its turn ends at once."""
        self._line.stop(self._get(run_id))

    def backfill(self, run_id: str, since: int) -> list[str]:
        """The messages of a run from number `since` on."""
        with self._lock:
            run = self._runs.get(run_id)
        return [] if run is None else run.messages[max(0, int(since)) :]

    def find(self, run_id: str) -> Run | None:
        """The run of that name; None: there was none, or it is no longer kept."""
        with self._lock:
            return self._runs.get(run_id)

    def get_ready(self) -> None:
        """What comes before each run, in the models' thread."""
        if self._before is not None:
            self._before()

    def _get(self, run_id: str) -> Run:
        if not isinstance(run_id, str) or not 0 < len(run_id) <= LONGEST_ID:
            raise InvalidRequest(f"The run's name is {run_id!r}; it must have 1 to {LONGEST_ID} characters.")
        with self._lock:
            run = self._runs.setdefault(run_id, Run(run_id))
            self._runs.move_to_end(run_id)
            while len(self._runs) > KEPT_RUNS:
                self._runs.popitem(last=False)
            return run

    def _work(self, run: Run, form: Form) -> None:
        if self._line.join(run):
            run.send({"status": "Waiting for another run to end"})
        try:
            self._line.wait(run)
            if run.stop.is_set():
                run.send({"status": "Stopped before it began", "done": True})
                return
            in_model_thread(lambda: self._run(run, form))
        except InvalidRequest as error:
            text = str(error)
            run.send({"error": with_label(text, form), "field": field_of(text, form), "done": True})
        except Exception as error:  # the page must say that something broke, whatever it was
            log.exception("run %s failed", run.id)
            run.send({"error": f"The run broke: {type(error).__name__}: {error}", "field": "", "done": True})
        finally:
            self._line.leave(run)
            run.queue.put(None)

    def _run(self, run: Run, form: Form) -> None:
        self.get_ready()
        run.send({"status": "Checking the settings"})
        self._decode(run, form, form.prepare(self.library, lambda text: run.send({"status": text})))

    def _decode(self, run: Run, form: Form, prepared: Prepared) -> None:
        chosen = strategy(form.strategy)
        baseline = form.baseline and chosen.drafts
        runs = [prepared.plain(), prepared] if baseline else [prepared]
        infos = lane_infos(form, baseline)
        request = prepared.request
        law: dict[str, Any] = {
            "greedy": request.temperature == 0,
            "verifier": request.verifier,
            "lossless": is_lossless(request),
            "one_text": request.verifier == COUPLED,
        }
        wordings = [Spoken(prepared.target.tokenizer) for _ in infos]
        view = View(wordings, infos, **law)
        told: dict[str, Any] = about(prepared)
        run.record = Recorder(infos, tuple(one.request for one in runs), **law, **told)
        run.text_of = wordings[-1].text_of
        run.send({**view.begin(), "status": "Reading the prompt", **told})
        calibrate = chosen.drafts and not baseline
        lanes = [one.events(calibrate=calibrate) for one in runs]
        reason: FinishReason | None = None
        deadline = time.monotonic() + self.budget_seconds
        due = 0.0
        steps: list[dict[str, Any]] = []
        with closing(race(lanes)) as events:
            for lane, event in events:
                if isinstance(event, Reading):
                    run.send({"status": f"Reading the prompt: {event.read:,} of {event.total:,} tokens"})
                else:
                    view.add(lane, event)
                    run.record.take(lane, event, () if isinstance(event, Started) else view.last_texts)
                    if view.pending:
                        steps.append(view.take())
                now = time.monotonic()
                if run.stop.is_set() or now > deadline:
                    reason = "stopped" if run.stop.is_set() else "time"
                    break
                if now >= due and steps:
                    run.send({"steps": steps})
                    steps = []
                    due = now + MESSAGE_SECONDS
        if reason is not None:
            view.end(reason)
            run.record.end(reason, view.tails)
            if view.pending:
                steps.append(view.take())
        if steps:
            run.send({"steps": steps})


def about(prepared: Prepared) -> dict[str, str]:
    """The number format, and the line that says what runs where."""
    return {"dtype": prepared.target.dtype, "machine": machine(prepared.target)}


def lane_infos(form: Form, baseline: bool) -> tuple[LaneInfo, ...]:
    """The lanes' titles: the baseline where there is one, and the strategy with its K."""
    chosen = strategy(form.strategy)
    title = f"{chosen.title}, K = {form.k:g}" if chosen.drafts and form.k is not None else chosen.title
    speculating = LaneInfo(title, chosen.drafts)
    return (LaneInfo(strategy("plain").title, False), speculating) if baseline else (speculating,)
