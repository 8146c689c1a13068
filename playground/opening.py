"""A file to a RecordedRun: a stranger's, so that everything in it is checked first. No model, no tokenizer, no page."""

from playground.recorded import (
    CHECKS,
    MOST_TOKENS,
    RUN_SCHEMA_VERSION,
    RecordedLane,
    RecordedRun,
    law_of,
)
from playground.schema import shown
from playground.text import REPLACEMENT
from playground.trace import EMITTED, SCHEMA_VERSION, InvalidTrace, Trace, from_data, versioned
from strategies import STRATEGIES

MOST_BYTES = 20_000_000


def opened(text: str) -> RecordedRun:
    """The run that `RecordedRun.to_json` wrote; a Trace alone, as the command line writes it, is a run of one lane.

    Raises:
        InvalidTrace: too large, not JSON, another schema version, or anything in it that cannot be. Nothing was run.
    """
    if len(text) > MOST_BYTES or len(text.encode(errors="replace")) > MOST_BYTES:
        raise InvalidTrace(f"The file is too large: a trace has at most {MOST_BYTES // 10**6} MB.")
    version, data = versioned(text)
    if version == SCHEMA_VERSION:
        return _of_trace(from_data(Trace, data, CHECKS))
    if version != RUN_SCHEMA_VERSION:
        known = f"{SCHEMA_VERSION} and {RUN_SCHEMA_VERSION}"
        raise InvalidTrace(f"The trace has schema {shown(version)}; this program reads schemas {known}.")
    run: RecordedRun = from_data(RecordedRun, data, CHECKS)
    return run


def _of_trace(trace: Trace) -> RecordedRun:
    """A Trace alone as a run of one lane, with texts that its pieces make and that join to its text."""
    request = trace.request
    tokens = sum(len(one.tokens) for one in trace.rounds)
    if tokens > MOST_TOKENS:
        raise InvalidTrace(f"The trace holds {tokens:,} tokens; at most {MOST_TOKENS:,} can be shown.")
    known = STRATEGIES.get(request.strategy)
    title = known.title if known is not None else request.strategy
    drafts = known.drafts if known is not None else any(one.drafted for one in trace.rounds)
    texts, tail = _aligned(trace)
    lane = RecordedLane(f"{title}, K = {request.k}" if drafts else title, drafts, trace, texts, tail)
    models = " · ".join(filter(None, [request.target, request.assistant]))
    return RecordedRun((lane,), **law_of(request), dtype="", machine=models)


def _aligned(trace: Trace) -> tuple[tuple[tuple[str, ...], ...], str]:
    """The texts of the tokens of each round, and the tail.

    A token by itself may have another text than in its place: the part of a character has none, a blank before a word
    may be missing. What was refused keeps its own text; what was emitted gets its part of the whole.
    """
    names, whole = dict(trace.pieces), trace.text
    texts = [[names[token.id] for token in one.tokens] for one in trace.rounds]
    places = [(i, j) for i, one in enumerate(trace.rounds) for j, t in enumerate(one.tokens) if t.verdict in EMITTED]
    at, held = 0, 0  # characters given out, tokens since that got none
    last: tuple[int, int] | None = None
    for i, j in places:
        name = texts[i][j]
        start = whole.find(name, at, at + len(name) + held + 1) if name else -1
        if start < 0:
            texts[i][j], held = "", held + 1
        else:
            between = whole[at:start]
            if held and last is not None and between:
                texts[last[0]][last[1]] = between
            else:
                texts[i][j] = between + name
            at, held = start + len(name), 0
        last = (i, j)
    rest = whole[at:]
    if held and last is not None and rest != REPLACEMENT:
        texts[last[0]][last[1]], rest = rest, ""
    return tuple(map(tuple, texts)), rest
