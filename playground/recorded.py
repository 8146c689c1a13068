"""A run as a file: every lane's trace with its texts, and how it was decoded.

    {"schema": 2, "created": "2026-01-31T12:00:00+00:00", "dtype": "float32", "machine": "...",
     "greedy": true, "verifier": "exact", "lossless": true, "one_text": false,
     "lanes": [{"title": "...", "drafts": false, "texts": [["..."], ...], "tail": "", "trace": {...}}, ...]}

One or two lanes; of two the first is plain decoding. `trace` is a playground.trace.Trace, `texts` holds the text of
each token of each of its rounds as the page shows it, `tail` what was left of an unfinished character. Schema 1 is a
Trace alone, as the command line writes it with --trace; it opens as a run of one lane. assets/trace.schema.json
describes both. A file is a stranger's: everything is checked here before anything is shown, and no model is needed.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from playground.sampling import COUPLED, VERIFIERS, is_lossless
from playground.schema import Check, Malformed, shown
from playground.trace import (
    EMITTED,
    Event,
    Finished,
    FinishReason,
    InvalidRequest,
    Request,
    Round,
    Started,
    Trace,
    ids_of,
)
from playground.view import LaneInfo

RUN_SCHEMA_VERSION = 2
MOST_BYTES = 20_000_000
MOST_TOKENS = 200_000
LONGEST_NAME = 256  # characters of a token by itself
LONGEST_LINE = 1000  # of a title, the machine, the number format
MOST_NAMED = 50_000_000  # characters of all tokens that are named beside others
# A draft: kept up to a refusal, or whole, or up to where the text ended; or none.
_VERDICTS = re.compile("a*rd*c|a+b|p|a+d*")
_STOPPED = ("stopped", "time")


@dataclass(frozen=True, slots=True)
class RecordedLane:
    """One decode. `texts[i][j]` is the text of token j of round i as the page shows it; the texts of emitted tokens
    and `tail` join to `trace.text`."""

    title: str
    drafts: bool
    trace: Trace
    texts: tuple[tuple[str, ...], ...]
    tail: str = ""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run of one or two lanes. `greedy`, `verifier`, `lossless` and `one_text` are those of playground.view.View;
    `created` is an ISO 8601 date and time, where it is known."""

    lanes: tuple[RecordedLane, ...]
    greedy: bool
    verifier: str
    lossless: bool
    one_text: bool
    dtype: str
    machine: str
    created: str | None = None

    def to_json(self) -> str:
        """One JSON object, `schema` first."""
        values = {"schema": RUN_SCHEMA_VERSION, **_fields(self)}
        return json.dumps(values, default=_fields, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _fields(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in fields(value)}


@dataclass(slots=True)
class _Heard:
    """What was heard of a lane so far."""

    started: Started | None = None
    rounds: list[Round] = field(default_factory=list)
    texts: list[tuple[str, ...]] = field(default_factory=list)
    finished: Finished | None = None
    tail: str = ""

    @property
    def emitted(self) -> int:
        return sum(len(one.emitted) for one in self.rounds)


class Recorder:
    """Takes in the events of a run's lanes, in order; the cost does not grow with the run."""

    def __init__(
        self,
        infos: tuple[LaneInfo, ...],
        requests: tuple[Request, ...],
        *,
        greedy: bool,
        verifier: str,
        lossless: bool,
        one_text: bool,
        dtype: str,
        machine: str,
    ) -> None:
        assert len(infos) == len(requests), "a request a lane"
        self._infos = infos
        self._requests = requests
        self._law = (greedy, verifier, lossless, one_text)
        self._about = (dtype, machine)
        self._heard = [_Heard() for _ in infos]
        self._created = datetime.now(UTC).isoformat(timespec="seconds")

    def take(self, lane: int, event: Event, texts: Sequence[str] = ()) -> None:
        """Take in an event of that lane. `texts`: of a Round, the texts of its tokens as shown; of Finished, one text,
        what was left of an unfinished character (or none)."""
        heard = self._heard[lane]
        if isinstance(event, Started):
            heard.started = event
        elif isinstance(event, Round):
            heard.rounds.append(event)
            heard.texts.append(tuple(texts))
        elif isinstance(event, Finished):
            heard.finished, heard.tail = event, "".join(texts)

    def end(self, reason: FinishReason, tails: Sequence[str] = ()) -> None:
        """Close every lane that has not finished by itself. `tails`: what was left of an unfinished character, a
        lane each."""
        for i, heard in enumerate(self._heard):
            if heard.finished is None:
                heard.finished = Finished(reason, len(heard.rounds), heard.emitted)
                heard.tail = tails[i] if i < len(tails) else ""

    @property
    def ended(self) -> bool:
        """Every lane has finished or was stopped."""
        return all(heard.finished is not None for heard in self._heard)

    def recorded(self, text_of: Callable[[int], str]) -> RecordedRun:
        """The whole run. `text_of` names the ids that occur in it, by themselves.

        Raises:
            InvalidRequest: the run has not ended.
        """
        lanes = tuple(
            _lane(info, request, heard, text_of)
            for info, request, heard in zip(self._infos, self._requests, self._heard, strict=True)
        )
        return RecordedRun(lanes, *self._law, *self._about, self._created)


def _lane(info: LaneInfo, request: Request, heard: _Heard, text_of: Callable[[int], str]) -> RecordedLane:
    if heard.finished is None:
        raise InvalidRequest("The run has not ended: wait for its end or press Stop.")
    rounds = tuple(heard.rounds)
    ids = sorted({*request.prompt_ids, *ids_of(rounds)})
    pieces = tuple((i, text_of(i)) for i in ids)
    text = _spoken(rounds, heard.texts) + heard.tail
    trace = Trace(request, heard.started, rounds, heard.finished, pieces, text)
    return RecordedLane(info.title, info.drafts, trace, tuple(heard.texts), heard.tail)


def law_of(request: Request) -> dict[str, Any]:
    """greedy, verifier, lossless and one_text of a run, by what its last lane was asked."""
    return {
        "greedy": request.temperature == 0,
        "verifier": request.verifier,
        "lossless": is_lossless(request),
        "one_text": request.verifier == COUPLED,
    }


def _need(ok: bool, message: str, where: str = "") -> None:
    if not ok:
        raise Malformed(message, where)


def _check_whole(trace: Trace) -> None:
    """The identities of a run's rounds, and that every token has a name."""
    request, rounds, end = trace.request, trace.rounds, trace.finished
    _need(request.verifier in VERIFIERS, f"is {shown(request.verifier)}; it must be one of {', '.join(VERIFIERS)}.",
          "request.verifier")  # fmt: skip
    never = f"is null, which only a run without rounds that was {' or '.join(_STOPPED)} may have."
    _need(trace.started is not None or (not rounds and end.reason in _STOPPED), never, "started")
    for i, one in enumerate(rounds):
        try:
            _check_round(one, i, request.k, last=i == len(rounds) - 1)
        except Malformed as error:
            raise error.within(f"rounds[{i}]") from None
    emitted = sum(len(one.emitted) for one in rounds)
    _need(end.rounds == len(rounds), f"is {end.rounds}, but there are {len(rounds)} rounds.", "finished.rounds")
    _need(end.emitted == emitted, f"is {end.emitted}, but the rounds hold {emitted} tokens.", "finished.emitted")
    most = request.max_new_tokens
    _need(emitted <= most, f"is {emitted}, more than max_new_tokens, which is {most}.", "finished.emitted")
    _check_names(trace)


def _check_round(one: Round, index: int, k: int, last: bool) -> None:
    _need(one.index == index, f"is {one.index} where {index} belongs.", "index")
    verdicts = "".join(token.verdict[0] for token in one.tokens)
    order = ", ".join(token.verdict for token in one.tokens[:8]) or "no token"
    _need(_VERDICTS.fullmatch(verdicts) is not None, f"are {order}: no round ends so.", "tokens")
    _need(last or verdicts[-1] in "cbp", "lack the target's own token, which only the last round may.", "tokens")
    drafted = len(one.drafted)
    _need(drafted <= k, f"hold {drafted} drafted ones, more than K, which is {k}.", "tokens")
    _need(one.width == drafted + 1, f"is {one.width}, but the pass read {drafted + 1} tokens.", "width")


def _check_names(trace: Trace) -> None:
    names = dict(trace.pieces)
    _need(len(names) == len(trace.pieces), "names a token twice.", "pieces")
    for i, name in trace.pieces:
        _need(len(name) <= LONGEST_NAME, f"names token {i} with more than {LONGEST_NAME} characters.", "pieces")
    missing = sorted(ids_of(trace.rounds) - names.keys())
    _need(not missing, f"does not name token {missing[0] if missing else 0}.", "pieces")
    tokens = [token for one in trace.rounds for token in one.tokens]
    named = sum(len(names[row[0]]) for t in tokens for rows in (t.p_top, t.q_top, t.residual) for row in rows)
    _need(named <= MOST_NAMED, f"name so much that it cannot be shown: {named:,} characters.", "rounds")


def _check_lane(lane: RecordedLane) -> None:
    rounds, texts = lane.trace.rounds, lane.texts
    _need(len(lane.title) <= LONGEST_LINE, f"has more than {LONGEST_LINE} characters.", "title")
    _need(len(texts) == len(rounds), f"has {len(texts)} rounds where the trace has {len(rounds)}.", "texts")
    for i, (one, row) in enumerate(zip(rounds, texts, strict=True)):
        _need(len(row) == len(one.tokens), f"has {len(row)} texts for {len(one.tokens)} tokens.", f"texts[{i}]")
    _need(lane.drafts or not any(one.drafted for one in rounds), "is false, but tokens were drafted.", "drafts")
    _need(_spoken(rounds, texts) + lane.tail == lane.trace.text, "and tail are not the text of the trace.", "texts")


def _check_run(run: RecordedRun) -> None:
    lanes = run.lanes
    _need(1 <= len(lanes) <= 2, f"holds {len(lanes)} lanes; it must hold 1 or 2.", "lanes")
    if len(lanes) == 2:
        alike = lanes[0].trace.request.prompt_ids == lanes[1].trace.request.prompt_ids
        _need(not lanes[0].drafts and lanes[1].drafts, "must hold plain decoding, then a lane that drafts.", "lanes")
        _need(alike, "have different prompts.", "lanes")
    tokens = sum(len(one.tokens) for lane in lanes for one in lane.trace.rounds)
    _need(tokens <= MOST_TOKENS, f"hold {tokens:,} tokens; at most {MOST_TOKENS:,} can be shown.", "lanes")
    law = law_of(lanes[-1].trace.request)
    for name, value in law.items():
        said = getattr(run, name)
        _need(said == value, f"is {shown(said)}, but the request of the last lane makes it {value!r}.", name)
    for name in ("dtype", "machine"):
        _need(len(getattr(run, name)) <= LONGEST_LINE, f"has more than {LONGEST_LINE} characters.", name)
    _need(run.created is None or _is_date(run.created), f"is {shown(run.created)}; it must be an ISO 8601 date.",
          "created")  # fmt: skip


def _is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return len(text) <= 40


CHECKS: dict[type, Check] = {Trace: _check_whole, RecordedLane: _check_lane, RecordedRun: _check_run}


def _spoken(rounds: Sequence[Round], texts: Sequence[Sequence[str]]) -> str:
    """What the emitted tokens write."""
    pairs = (pair for one, row in zip(rounds, texts, strict=True) for pair in zip(one.tokens, row, strict=True))
    return "".join(text for token, text in pairs if token.verdict in EMITTED)
