"""A recorded run to the steps that the page shows, without a model or a tokenizer: what a live run sent it."""

from collections.abc import Iterator, Sequence
from typing import Any

from playground.recorded import RecordedLane, RecordedRun
from playground.trace import Event, Finished, Round
from playground.view import LaneInfo, View


class Written:
    """The wording of a lane that was recorded."""

    def __init__(self, lane: RecordedLane) -> None:
        self._texts = iter(lane.texts)
        self._names = dict(lane.trace.pieces)
        self._tail = lane.tail

    def pieces(self, one: Round) -> Sequence[str]:
        """Of the tokens of the next round, in their order, as the page shows them."""
        return next(self._texts)

    def text_of(self, token: int) -> str:
        """Of a token by itself."""
        return self._names[token]

    def finish(self) -> str:
        """What is left at the end: bytes of a character that never became whole."""
        return self._tail


def replay_of(run: RecordedRun) -> dict[str, Any]:
    """What `window.playground.replay` takes: title, prompt, begin, dtype, machine, steps (View.take, one a round)."""
    infos = tuple(LaneInfo(lane.title, lane.drafts) for lane in run.lanes)
    view = View([Written(lane) for lane in run.lanes], infos, run.greedy, run.verifier, run.lossless, run.one_text)
    steps = []
    for lane, event in _events(run):
        view.add(lane, event)
        if view.pending:
            steps.append(view.take())
    stopped = [(i, lane.trace.finished) for i, lane in enumerate(run.lanes) if _was_stopped(lane.trace.finished)]
    for i, finished in stopped:  # all at once, after everything else
        view.add(i, finished)
    if view.pending:
        steps.append(view.take())
    last = run.lanes[-1]
    return {
        "title": last.title,
        "prompt": last.trace.request.prompt,
        "dtype": run.dtype,
        "machine": run.machine,
        **view.begin(),
        "steps": steps,
    }


def _was_stopped(finished: Finished) -> bool:
    return finished.reason in ("stopped", "time")


def _events(run: RecordedRun) -> Iterator[tuple[int, Event]]:
    """The events of all lanes as `playground.race` advanced them, but for the ends of those that were stopped."""
    clocks = [0.0] * len(run.lanes)
    left = [iter(_own_events(lane)) for lane in run.lanes]
    running = set(range(len(run.lanes)))
    while running:
        lane = min(running, key=lambda i: (clocks[i], i))
        event = next(left[lane], None)
        if event is None:
            running.discard(lane)
            continue
        if isinstance(event, Round):
            clocks[lane] += event.seconds
        yield lane, event


def _own_events(lane: RecordedLane) -> list[Event]:
    trace = lane.trace
    end = [] if _was_stopped(trace.finished) else [trace.finished]
    return [*([] if trace.started is None else [trace.started]), *trace.rounds, *end]
