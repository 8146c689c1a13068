"""Events to the page's messages: compact JSON strings, each with nothing but what is new.

A message's size does not grow with the run. Numbers come from the tallies, text from the cumulative
decode; this file knows no widget, no HTML and no colour.
"""

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from playground.metrics import Tally
from playground.text import IncrementalText, decode_all
from playground.trace import EMITTED, VERDICTS, Event, Finished, FinishReason, Round, Started, Token

ROLLING_ROUNDS = 20

REASONS: dict[FinishReason, str] = {
    "stop_token": "the target ended its text with a stop token",
    "stop_string": "a stop string was written",
    "length": "the limit on new tokens was reached",
    "context": "the target's context is full",
    "stopped": "you stopped it",
    "time": "the time budget of a run was used up",
}
VERDICT_CODES = {verdict: code for code, verdict in enumerate(VERDICTS)}


@dataclass(frozen=True, slots=True)
class LaneInfo:
    """A lane's title, and whether it drafts."""

    title: str
    drafts: bool


class Wording(Protocol):
    """The texts of one lane's tokens, asked for round by round."""

    def pieces(self, one: Round) -> Sequence[str]:
        """Of the tokens of the next round, in their order, as the page shows them."""

    def text_of(self, token: int) -> str:
        """Of a token by itself."""

    def finish(self) -> str:
        """What is left at the end: bytes of a character that never became whole."""


class Spoken:
    """The wording of a run that goes on: a tokenizer's."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._text = IncrementalText(tokenizer)
        self._alone: dict[int, str] = {}

    def pieces(self, one: Round) -> Sequence[str]:
        """Of the tokens of the next round, in their order, as the page shows them."""
        return pieces_of(self._text, one.tokens)

    def text_of(self, token: int) -> str:
        """Of a token by itself."""
        if token not in self._alone:
            self._alone[token] = decode_all(self._tokenizer, [token])
        return self._alone[token]

    def finish(self) -> str:
        """What is left at the end: bytes of a character that never became whole."""
        return self._text.finish()


class Lane:
    """One decode on its way: its tally, its text, what it emitted."""

    def __init__(self, wording: Wording) -> None:
        self.tally = Tally()
        self.wording = wording
        self.emitted: list[Token] = []
        self.finished: Finished | None = None
        self._recent: deque[tuple[int, int]] = deque(maxlen=ROLLING_ROUNDS)

    def add(self, one: Round) -> Sequence[str]:
        """Take in a round; the texts of its tokens, in their order."""
        self.tally.add(one)
        drafted = one.drafted
        if drafted:
            self._recent.append((one.accepted, len(drafted)))
        self.emitted += one.emitted
        return self.wording.pieces(one)

    @property
    def rolling(self) -> float | None:
        """Acceptance rate of the last ROLLING_ROUNDS rounds that drafted."""
        drafted = sum(d for _, d in self._recent)
        return sum(a for a, _ in self._recent) / drafted if drafted else None


def pieces_of(text: IncrementalText, tokens: Sequence[Token]) -> list[str]:
    """The text of each token of a round: what was emitted joins to the output, what was refused is shown as it
    would have gone on from the accepted ones."""
    refused = [t.id for t in tokens if t.verdict not in EMITTED]
    pieces: list[str] = []
    shown: deque[str] | None = None
    for token in tokens:
        if token.verdict in EMITTED:
            pieces.append(text.push(token.id))
            continue
        if shown is None:
            shown = deque(text.peek(refused))
        pieces.append(shown.popleft())
    return pieces


@dataclass(slots=True)
class View:
    """The messages of one run, over one or two lanes; the last lane is the one that speculates.

    `lossless`: what is written has the target's distribution; `one_text`: sampled or not, all lanes must write the
    same. Call `add` for every event and `take` now and then; both are cheap enough for the thread that decodes.
    """

    wordings: Sequence[Wording]  # one a lane
    lanes: tuple[LaneInfo, ...]
    greedy: bool
    verifier: str = "exact"
    lossless: bool = True
    one_text: bool = False
    _states: list[Lane] = field(init=False)
    _rounds: list[list[Any]] = field(init=False, default_factory=list)
    _points: list[list[Any]] = field(init=False, default_factory=list)
    _ended: list[list[Any]] = field(init=False, default_factory=list)
    _compared: int = field(init=False, default=0)
    _parted: dict[str, Any] | None = field(init=False, default=None)
    # Of the tokens of the round that was added last; of an end, what was left of a character.
    last_texts: Sequence[str] = field(init=False, default=())
    tails: list[str] = field(init=False)  # one a lane: what was left of a character at its end

    def __post_init__(self) -> None:
        self.tails = ["" for _ in self.lanes]
        self._states = [Lane(wording) for _, wording in zip(self.lanes, self.wordings, strict=True)]

    @property
    def main(self) -> Lane:
        """The lane that speculates (or the only one)."""
        return self._states[-1]

    @property
    def plain(self) -> Tally | None:
        """The baseline's tally, where there is one."""
        return self._states[0].tally if len(self._states) > 1 else None

    @property
    def pending(self) -> bool:
        """There is something to send."""
        return bool(self._rounds or self._ended)

    def begin(self) -> dict[str, Any]:
        """What the page must know before the first round."""
        lanes = [{"title": lane.title, "drafts": lane.drafts} for lane in self.lanes]
        law = {"greedy": self.greedy, "verifier": self.verifier, "lossless": self.lossless, "one_text": self.one_text}
        return {"begin": {"lanes": lanes, **law, "verdicts": list(VERDICTS)}}

    def add(self, lane: int, event: Event) -> None:
        """Take in an event of that lane."""
        state = self._states[lane]
        if isinstance(event, Started):
            state.tally.start(event)
        elif isinstance(event, Finished):
            self._finish(lane, event)
        elif isinstance(event, Round):
            self.last_texts = state.add(event)
            self._rounds.append(self._round(lane, event, self.last_texts))
            if state is self.main:
                self._points.append(self._point())
            self._compare()

    def end(self, reason: FinishReason) -> None:
        """Close every lane that has not finished by itself."""
        for i, state in enumerate(self._states):
            if state.finished is None:
                self._finish(i, Finished(reason, state.tally.rounds, len(state.emitted)))

    def take(self) -> dict[str, Any]:
        """What is new since the last call, and the numbers as they stand."""
        tally = self.main.tally
        message: dict[str, Any] = {
            "rounds": self._rounds,
            "points": self._points,
            "clocks": [[_short(s.tally.decode_seconds), s.tally.emitted] for s in self._states],
            "numbers": {k: _short(v) for k, v in tally.numbers(self.plain).items()} | {"emitted": tally.emitted},
            "lengths": self._lengths(),
            "positions": [[_short(v) for v in row] for row in tally.acceptance_at()],
            "seconds": [[_short(v) for k, v in s.tally.seconds().items() if k != "total"] for s in self._states],
        }
        if len(self._states) > 1:
            message["agree"] = {"tokens": self._compared, "parted": self._parted}
        if self._ended:
            message |= {"ended": self._ended, "done": all(s.finished is not None for s in self._states)}
        self._rounds, self._points, self._ended = [], [], []
        return message

    def _finish(self, lane: int, event: Finished) -> None:
        state = self._states[lane]
        state.finished = event
        self.tails[lane] = state.wording.finish()
        self.last_texts = (self.tails[lane],)
        self._ended.append([lane, event.reason, REASONS[event.reason], event.emitted, self.tails[lane]])

    def _round(self, lane: int, one: Round, texts: Sequence[str]) -> list[Any]:
        name = self._states[lane].wording.text_of
        tokens = [_token(t, text, name) for t, text in zip(one.tokens, texts, strict=True)]
        made = [lane, one.index, tokens, _short(one.draft_seconds), _short(one.verify_seconds)]
        return [*made, list(one.drafted_as)] if one.drafted_as else made

    def _point(self) -> list[Any]:
        tally = self.main.tally
        values = (
            self.main.rolling,
            tally.acceptance_rate,
            tally.measured_speedup(self.plain),
            tally.predicted_speedup(self.plain),
        )
        return [tally.emitted, *map(_short, values)]

    def _lengths(self) -> list[int]:
        counts = self.main.tally.accepted_lengths
        return [counts.get(n, 0) for n in range(max(counts, default=-1) + 1)]

    def _compare(self) -> None:
        # At temperature 0 both lanes should write the same; where they part, the first such token is what to show.
        if len(self._states) < 2 or not (self.greedy or self.one_text) or self._parted is not None:
            return
        a, b = self._states[0].emitted, self._states[1].emitted
        while self._compared < min(len(a), len(b)):
            x, y = a[self._compared], b[self._compared]
            if x.id != y.id:
                self._parted = {
                    "index": self._compared + 1,
                    "texts": [state.wording.text_of(t.id) for state, t in zip(self._states, (x, y), strict=True)],
                    "margins": [_short(x.margin), _short(y.margin)],
                }
                return
            self._compared += 1


def _token(token: Token, text: str, name: Callable[[int], str]) -> list[Any]:
    made = [
        text,
        VERDICT_CODES[token.verdict],
        token.id,
        _short(token.p),
        _short(token.q),
        _short(token.accept),
        _short(token.drawn),
        _short(token.margin),
        [[name(i), _short(p)] for i, p in token.p_top],
        [[name(i), _short(p)] for i, p in token.q_top],
    ]
    return [*made, [[name(i), _short(p), _short(q)] for i, p, q in token.residual]] if token.residual else made


def dump(message: dict[str, Any]) -> str:
    """A message as one compact JSON string."""
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _short(value: float | None) -> float | None:
    """Five digits are more than a page shows."""
    return None if value is None else float(f"{value:.5g}")
