"""The comparisons of all sessions: a worker thread each, whose models run in short jobs so that others' runs go in
between; stopped on request; what was measured kept for a while. Knows no widget.

A message is one JSON string: how far it is, and, after each race, all results so far (`results`, with a `version`).
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Any

from playground.bench import Task
from playground.catalogue import CATALOGUE
from playground.compare import (
    PLAIN,
    Combination,
    Event,
    Measured,
    Progress,
    Refused,
    Result,
    Skipped,
    Trying,
    assistants,
    combinations,
    compare,
    parse_ks,
    shown,
)
from playground.compare_figures import acceptance_by_position, speedup_over_k
from playground.compare_prompts import tasks_of
from playground.compare_results import SHOWN, Comparison, Estimate, speedup_by_kind, table
from playground.model_thread import in_model_thread
from playground.models import Library
from playground.run import Prepared
from playground.sampling import VERIFIERS, is_lossless
from playground.trace import InvalidRequest
from playground.ui.form import Form, with_label
from playground.ui.runs import Runs
from playground.ui.warmup import machine
from playground.view import dump
from playground.words import say, translate_sentence
from strategies import STRATEGIES

MESSAGE_SECONDS = 0.25
BUDGET_SECONDS = 2 * 3600.0
KEPT = 16
LONGEST_ID = 64
MOST_NEW_TOKENS = 512
log = logging.getLogger(__name__)
FormOf = Callable[[str | None, str | None], Form]
"""The form as it stands on the left, with this strategy, this verifier and their settings (None: those of the left)."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What the controls of the tab say, unchecked."""

    strategies: Any
    ks: Any
    verifiers: Any
    prompt_set: Any
    pasted: Any = ""
    file: Any = None
    per_kind: Any = 1
    new_tokens: Any = 64

    def checked(self) -> tuple[tuple[Combination, ...], tuple[Task, ...]]:
        """What to compare, on which prompts. Loads nothing.

        Raises:
            InvalidRequest: a choice cannot be run.
        """
        tokens = self.new_tokens
        if type(tokens) not in (int, float) or tokens % 1 or not 1 <= tokens <= MOST_NEW_TOKENS:
            raise Refused("New tokens, at most, is {value}; it must be a whole number from 1 to {most}.",
                          value=shown(tokens), most=MOST_NEW_TOKENS)  # fmt: skip
        if self.per_kind is None:
            raise Refused("Prompts per kind is empty: type a number.")
        wanted = combinations(self.strategies or (), parse_ks(self.ks), self.verifiers or ())
        return wanted, tasks_of(self.prompt_set, self.pasted, self.file, self.per_kind)


@dataclass(slots=True)
class Session:
    """One comparison: its messages, what it measured, and whether it was asked to stop."""

    id: str
    language: str
    queue: "SimpleQueue[str | None]" = field(default_factory=SimpleQueue)
    stop: threading.Event = field(default_factory=threading.Event)
    started: bool = False
    status: str = ""
    running: bool = True
    done: float = 0.0  # of the tokens, from 0 to 1
    left: float | None = None  # seconds, about
    error: str = ""
    version: int = 0
    tasks: tuple[Task, ...] = ()
    wanted: tuple[Combination, ...] = ()
    tried: bool = False  # what can be run is known
    finished: int = 0  # tasks
    results: list[Result] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    ways: dict[Combination, dict[str, Any]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    last: str = ""  # the latest message with results

    def say(self, text: str, **values: object) -> None:
        """Change the status."""
        self.status = say(self.language, text, **values)

    def send(self, with_results: bool = False) -> None:
        """Hand on where it is, and if asked the results so far."""
        message: dict[str, Any] = {
            "run": self.id, "version": self.version, "status": self.status, "running": self.running,
            "done": self.done, "left": self.left, "error": self.error,
        }  # fmt: skip
        if with_results:
            self.version += 1
            message |= {"version": self.version, "results": summary(self)}
            self.last = dump(message)
        self.queue.put(self.last if with_results else dump(message))

    def exported(self) -> Comparison:
        """All of it, for a file."""
        return Comparison(self.settings, self.tasks, tuple(self.results), tuple(self.skipped), self.ways)


class Comparisons:
    """Starts, stops and remembers comparisons. Safe to call from several threads."""

    def __init__(self, library: Library, runs: Runs, budget_seconds: float = BUDGET_SECONDS) -> None:
        self.library = library
        self.runs = runs
        self.budget_seconds = budget_seconds
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def stream(self, name: str, language: str, choices: Choices, form_of: FormOf) -> Iterator[str]:
        """Run it, and yield its messages. Closing the iterator ends it and waits for its last step.

        Raises:
            InvalidRequest: the name is empty, too long, or was used before.
        """
        session = self._new(name, language)
        worker = threading.Thread(target=self._work, args=(session, choices, form_of), daemon=True, name="comparison")
        worker.start()
        try:
            while (message := session.queue.get()) is not None:
                yield message
        finally:
            session.stop.set()
            worker.join()

    def stop(self, name: str) -> None:
        """End a comparison after the rounds that it is in."""
        session = self.find(name)
        if session is not None:
            session.stop.set()

    def find(self, name: object) -> Session | None:
        """The comparison of that name; None: there was none, or it is no longer kept."""
        with self._lock:
            return self._sessions.get(name) if isinstance(name, str) else None

    def _new(self, name: str, language: str) -> Session:
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_ID:
            raise InvalidRequest(f"The name is {shown(name)}; it must have 1 to {LONGEST_ID} characters.")
        with self._lock:
            if name in self._sessions:
                raise InvalidRequest(f"A comparison named {name!r} was started before; choose another name.")
            session = self._sessions[name] = Session(name, language)
            # The oldest go; one that is still running ends by itself, and is then told of to nobody.
            while len(self._sessions) > KEPT:
                self._sessions.popitem(last=False)
            return session

    def _work(self, session: Session, choices: Choices, form_of: FormOf) -> None:
        form = form_of(None, None)
        try:
            session.wanted, session.tasks = choices.checked()
            self._compare(session, int(choices.new_tokens), form_of)
        except Refused as error:
            session.error = say(session.language, error.text, **error.values)
        except InvalidRequest as error:
            session.error = with_label(str(error), form)
        except Exception as error:  # the page must say that something broke, and keep what it has
            log.exception("comparison %s failed", session.id)
            session.error = say(
                session.language, "The comparison broke: {error}", error=f"{type(error).__name__}: {error}"
            )
        session.running, session.left = False, None
        session.send()
        session.queue.put(None)

    def _compare(self, session: Session, new_tokens: int, form_of: FormOf) -> None:
        session.say("Checking the settings")
        session.send()
        prepare = _Preparing(self.library, session, new_tokens, form_of)
        in_model_thread(self.runs.get_ready)
        steps = compare(session.tasks, session.wanted, prepare, in_model_thread)
        deadline = time.monotonic() + self.budget_seconds
        watch = _Watch(session)
        with closing(steps) as events:
            for event in events:
                if session.stop.is_set():
                    watch.conclude("Stopped: {n} of {all} prompts were measured.")
                    return
                if time.monotonic() > deadline:
                    watch.conclude("The time for one comparison is over: {n} of {all} prompts were measured.")
                    return
                watch.take(event)
        if not session.results and session.skipped:
            raise Refused("Nothing could be measured: the list below says why.")
        session.done = 1.0
        watch.conclude("Done: {n} of {all} prompts were measured.")


class _Preparing:
    """Makes the run of a combination on a prompt, and notes its own settings; finds the assistant of each strategy."""

    def __init__(self, library: Library, session: Session, new_tokens: int, form_of: FormOf) -> None:
        self._library = library
        self._session = session
        self._new_tokens = new_tokens
        self._form_of = form_of
        self._assistants: dict[str, str | None] = {}

    def __call__(self, way: Combination, prompt: str) -> Prepared:
        form = replace(
            self._form_of(way.strategy, way.verifier), prompt=prompt, k=way.k, max_new_tokens=self._new_tokens,
            baseline=False,
        )  # fmt: skip
        prepared = self._with_assistant(form) if STRATEGIES[way.strategy].needs_assistant else self._prepared(form)
        self._note(way, prepared, form)
        return prepared

    def _prepared(self, form: Form) -> Prepared:
        def progress(text: str) -> None:
            self._session.say(text)
            self._session.send()

        return form.prepare(self._library, progress)

    def _with_assistant(self, form: Form) -> Prepared:
        if form.strategy in self._assistants:
            return self._prepared(replace(form, assistant=self._assistants[form.strategy]))
        left = self._form_of(None, None)
        first: InvalidRequest | None = None
        for name in assistants(form.target, left.assistant, left.strategy, form.strategy):
            try:
                prepared = self._prepared(replace(form, assistant=name))
            except InvalidRequest as error:
                first = first or error
                continue
            self._assistants[form.strategy] = name
            return prepared
        assert first is not None, "there is always an assistant to try"
        raise first

    def _note(self, way: Combination, prepared: Prepared, form: Form) -> None:
        request = prepared.request
        self._session.ways[way] = {
            "assistant": request.assistant,
            "settings": dict(request.settings),
            "verifier_settings": dict(request.verifier_settings),
            "lossless": is_lossless(request),
        }
        if way == PLAIN:
            self._session.settings = {
                "target": request.target,
                "temperature": request.temperature,
                "max_new_tokens": request.max_new_tokens,
                "top_k": request.top_k,
                "top_p": request.top_p,
                "min_p": request.min_p,
                "repetition_penalty": request.repetition_penalty,
                "seed": request.seed,
                "chat": request.chat,
                "stop_strings": list(request.stop_strings),
                "banned": list(form.banned.splitlines() if isinstance(form.banned, str) else form.banned),
                "dtype": prepared.target.dtype,
                "machine": machine(prepared.target),
            }


class _Watch:
    """Follows the events of a comparison into its session's messages."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._begun: float | None = None  # monotonic seconds, when the first race began
        self._due = 0.0

    def take(self, event: Event) -> None:
        session = self._session
        if isinstance(event, Trying):
            way = event.combination
            session.say(
                "Trying {strategy}, K = {k}", strategy=say(session.language, STRATEGIES[way.strategy].title), k=way.k
            )
        elif isinstance(event, Skipped):
            session.skipped.append(event)
            session.send(with_results=True)
        elif isinstance(event, Measured):
            session.results += event.results
            session.finished += event.last
            session.send(with_results=True)
        elif event.total:
            self._reckon(event)
        self._send_when_due()

    def _reckon(self, event: Progress) -> None:
        session, now = self._session, time.monotonic()
        if self._begun is None:
            self._begun = now
            session.tried = True
            session.send(with_results=True)  # the rows that will be filled: nothing jumps later
        session.done = event.done / event.total
        if event.done:
            session.left = (now - self._begun) / event.done * (event.total - event.done)
        session.say("Measuring: {n} of {all} prompts done", n=session.finished, all=len(session.tasks))

    def _send_when_due(self) -> None:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + MESSAGE_SECONDS
            self._session.send()

    def conclude(self, text: str) -> None:
        """Say how it ended. A prompt whose races were not all over does not count."""
        self._session.say(text, n=self._session.finished, all=len(self._session.tasks))


def summary(session: Session) -> dict[str, Any]:
    """What the page shows of the results so far, as plain values; names are English, the page translates them."""
    results = session.results
    kinds, heat = speedup_by_kind(results, session.tasks)
    refused = {s.combination for s in session.skipped}
    ways = [way for way in session.wanted if way not in refused] if session.tried else []
    cells: dict[Combination, list[Estimate | None]] = {way: [None] * (len(kinds) + 1) for way in ways}
    cells.update(heat)
    rows: dict[Combination, tuple[int, dict[str, Estimate | None]]]
    rows = {way: (0, dict.fromkeys(SHOWN)) for way in (PLAIN, *ways)} if ways else {}
    rows.update((way, (n, row)) for way, n, row in table(results))
    reasons = dict.fromkeys(
        (_named(s, session), translate_sentence(session.language, s.reason)) for s in session.skipped
    )
    return {
        "rows": [
            {**_way(way, session), "n": n, "cells": {name: _cell(e) for name, e in row.items()}}
            for way, (n, row) in rows.items()
        ],
        "kinds": kinds,
        "heat": [{**_way(way, session), "cells": [_cell(e) for e in row]} for way, row in cells.items()],
        "curves": speedup_over_k(results),
        "positions": acceptance_by_position(results),
        "skipped": [[name, reason] for name, reason in reasons],
        "titles": {name: one.title for name, one in STRATEGIES.items()},
        "verifiers": {name: one.title for name, one in VERIFIERS.items()},
        "machine": session.settings.get("machine", ""),
        "temperature": session.settings.get("temperature"),
    }  # fmt: skip


def _way(way: Combination, session: Session) -> dict[str, Any]:
    own = session.ways.get(way, {})
    assistant = own.get("assistant")
    title = CATALOGUE[assistant].title if assistant in CATALOGUE else assistant
    return {**{"strategy": way.strategy, "k": way.k, "verifier": way.verifier}, "lossless": own.get("lossless", True),
            "assistant": title}  # fmt: skip


def _cell(estimate: Estimate | None) -> list[float] | None:
    return None if estimate is None else [estimate.median, estimate.low, estimate.high, estimate.n]


def _named(skipped: Skipped, session: Session) -> str:
    if skipped.combination is not None:
        return say(session.language, STRATEGIES[skipped.combination.strategy].title)
    assert skipped.task is not None, "a combination or a prompt"
    return say(session.language, "Prompt {n}", n=skipped.task + 1)
