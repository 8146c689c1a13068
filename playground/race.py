"""Several decodes in one process, advanced by their own clocks: always the one that is least far in its own
decoding time, so that noise of the machine hits all of them alike."""

from collections.abc import Generator, Iterator, Sequence

from playground.cache import PASS_LOCK
from playground.trace import Event, Finished, Round


def race(lanes: Sequence[Iterator[Event]]) -> Generator[tuple[int, Event], None, None]:
    """Yields (lane, event). Holds the pass lock only while a lane steps. Closing it closes every lane."""
    clocks = [0.0] * len(lanes)
    running = set(range(len(lanes)))
    try:
        while running:
            lane = min(running, key=lambda i: (clocks[i], i))
            with PASS_LOCK:
                event = next(lanes[lane])
            if isinstance(event, Round):
                clocks[lane] += event.seconds
            elif isinstance(event, Finished):
                running.discard(lane)
            yield lane, event
    finally:
        for events in lanes:
            close = getattr(events, "close", None)
            if close is not None:
                with PASS_LOCK:
                    close()
