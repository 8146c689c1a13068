"""One lane as it is heard: its events, its tally, and the whole trace at its end.

It knows tokenizers only to name the token ids of a trace; no model, no page, no clock.
"""

from dataclasses import dataclass, field
from typing import Any

from playground.metrics import Tally
from playground.text import REPLACEMENT, decode_all
from playground.trace import Event, Finished, Request, Round, Started, Token, Trace, emitted_ids


@dataclass(slots=True)
class Recording:
    """Takes in the events of one run, in order."""

    started: Started | None = None
    rounds: list[Round] = field(default_factory=list)
    finished: Finished | None = None
    tally: Tally = field(default_factory=Tally)

    def take(self, event: Event) -> None:
        """Take in one event; the cost does not grow with the run."""
        if isinstance(event, Started):
            self.started = event
            self.tally.start(event)
        elif isinstance(event, Round):
            self.rounds.append(event)
            self.tally.add(event)
        elif isinstance(event, Finished):
            self.finished = event

    @property
    def token_ids(self) -> tuple[int, ...]:
        """What was emitted so far."""
        return emitted_ids(self.rounds)

    def trace(self, request: Request, tokenizer: Any) -> Trace:
        """The whole run, readable without a model. Call it after Finished."""
        assert self.started is not None and self.finished is not None, "the run has not finished"
        rounds = tuple(self.rounds)
        return Trace(
            request=request,
            started=self.started,
            rounds=rounds,
            finished=self.finished,
            pieces=_pieces(request, rounds, tokenizer),
            text=decode_all(tokenizer, emitted_ids(rounds)),
        )


def _pieces(request: Request, rounds: tuple[Round, ...], tokenizer: Any) -> tuple[tuple[int, str], ...]:
    ids = set(request.prompt_ids)
    for one in rounds:
        for token in one.tokens:
            ids |= _ids_of(token)
    return tuple((i, _name(tokenizer, i)) for i in sorted(ids))


def _ids_of(token: Token) -> set[int]:
    tops = (*token.p_top, *token.q_top)
    return {token.id, *(i for i, _ in tops), *(i for i, _, _ in token.residual)}


def _name(tokenizer: Any, token: int) -> str:
    # A token that is part of a character has no text of its own: its name in the vocabulary stands for it.
    text = decode_all(tokenizer, [token])
    return str(tokenizer.convert_ids_to_tokens(token) or "") if REPLACEMENT in text else text
