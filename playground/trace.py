"""Plain values of a run: what was asked (Request), what happened (Started, Round), how it ended.

These are the only values that leave the engine: frozen, without tensors, without text of their own
apart from the prompt. A run can be replayed, sent between processes or built by hand in a test from
them, without a model. This file knows no model, no tokenizer and no page.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

from playground.schema import Check, Malformed, parsed, read, shown

SCHEMA_VERSION = 1
LARGEST_ID = 2**31 - 1
LONGEST_SECONDS = 1_000_000
MOST_SHOWN = 8  # rows of p_top, q_top and residual
MOST_DRAFTED_AS = 1024

Verdict = Literal["accepted", "rejected", "discarded", "corrected", "bonus", "plain"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
DRAFTED: tuple[Verdict, ...] = ("accepted", "rejected", "discarded")
EMITTED: tuple[Verdict, ...] = ("accepted", "corrected", "bonus", "plain")

FinishReason = Literal["stop_token", "stop_string", "length", "context", "stopped", "time"]
FINISH_REASONS: tuple[FinishReason, ...] = get_args(FinishReason)

Setting = str | int | float | bool
MAX_K = 32


class InvalidRequest(ValueError):
    """A setting that cannot be run; the message names the value, what is allowed and the way out."""


def _need(ok: bool, name: str, value: object, allowed: str) -> None:
    if not ok:
        raise InvalidRequest(f"{name} is {value!r}; it must be {allowed}.")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return _is_int(value) or (isinstance(value, float) and math.isfinite(value))


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that decides a run. Validates itself.

    `prompt_ids` is what the target reads (chat template applied). `temperature` 0 is greedy.
    `top_k` 0, `top_p` 1, `min_p` 0 and `repetition_penalty` 1 switch each off; their meaning is
    that of transformers' logits processors, applied in its order. `k` is the most tokens that a
    round may draft. `settings` are those of the strategy, `verifier_settings` those of the verifier: sorted pairs
    of name and value.

    Raises:
        InvalidRequest: a value is out of range.
    """

    prompt_ids: tuple[int, ...]
    max_new_tokens: int = 128
    k: int = 4
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    banned_ids: tuple[int, ...] = ()
    stop_ids: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()
    verifier: str = "exact"
    seed: int = 0
    strategy: str = "plain"
    settings: tuple[tuple[str, Setting], ...] = ()
    target: str = ""
    assistant: str | None = None
    prompt: str = ""
    chat: bool = True
    verifier_settings: tuple[tuple[str, Setting], ...] = ()

    def __post_init__(self) -> None:
        ids_ok = all(_is_int(i) and i >= 0 for i in self.prompt_ids)
        _need(
            bool(self.prompt_ids) and ids_ok,
            "the prompt",
            self.prompt or self.prompt_ids,
            "at least one token long: type something to continue",
        )
        _need(
            _is_int(self.max_new_tokens) and 1 <= self.max_new_tokens <= 100_000,
            "max_new_tokens",
            self.max_new_tokens,
            "a whole number from 1 to 100000",
        )
        _need(_is_int(self.k) and 1 <= self.k <= MAX_K, "K", self.k, f"a whole number from 1 to {MAX_K}")
        _need(
            _is_number(self.temperature) and 0 <= self.temperature <= 10,
            "temperature",
            self.temperature,
            "a number from 0 (greedy) to 10",
        )
        _need(_is_int(self.top_k) and self.top_k >= 0, "top_k", self.top_k, "0 (off) or a positive whole number")
        _need(_is_number(self.top_p) and 0 < self.top_p <= 1, "top_p", self.top_p, "above 0 and at most 1 (off)")
        _need(_is_number(self.min_p) and 0 <= self.min_p < 1, "min_p", self.min_p, "at least 0 (off) and below 1")
        _need(
            _is_number(self.repetition_penalty) and 0 < self.repetition_penalty <= 10,
            "repetition_penalty",
            self.repetition_penalty,
            "above 0 and at most 10; 1 is off",
        )
        _need(_is_int(self.seed) and 0 <= self.seed < 2**63, "seed", self.seed, "a whole number from 0 to 2^63 - 1")
        _need(
            all(isinstance(s, str) and s for s in self.stop_strings),
            "stop_strings",
            self.stop_strings,
            "non-empty texts",
        )

    def setting(self, name: str, default: Setting) -> Setting:
        """The strategy's setting of that name, or `default`."""
        return dict(self.settings).get(name, default)


@dataclass(frozen=True, slots=True)
class Token:
    """A token that was drafted or emitted, with what decided its verdict.

    `p` and `q` are the probabilities that target and drafter gave it after all logits processors;
    `accept` is its chance to be kept, given that it was drafted (min(1, p / q) under `exact`), `drawn` the
    uniform number it was tested with (null where none decides: temperature 0, verifiers that draw none, tokens
    never tested). `overlap` is sum(min(p, q)) over the vocabulary at a tested position, where q exists and the
    verifier weighs it: the chance that a draft from q passes `exact`. `expected` is that chance under the run's
    own verifier, where it is another (a draft from q; under `coupled` this draft). `tv` is the total variation
    between the target's distribution and the law of the token that a lossy verifier writes there. `margin` is
    the gap between the target's two best logits.
    `p_top` and `q_top` are the five likeliest tokens, (id, probability) each, best first; at
    temperature 0, where p itself is one-hot, they are taken at temperature 1. `residual`, of a rejected token when
    sampling under `exact`: (id, p, q) of this token and of the five where p - q is largest, largest first; the
    target's own token was drawn in proportion to max(p - q, 0).
    """

    id: int
    verdict: Verdict
    p: float | None = None
    q: float | None = None
    accept: float | None = None
    drawn: float | None = None
    overlap: float | None = None
    margin: float | None = None
    p_top: tuple[tuple[int, float], ...] = ()
    q_top: tuple[tuple[int, float], ...] = ()
    expected: float | None = None
    tv: float | None = None
    residual: tuple[tuple[int, float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Round:
    """One draft (possibly empty) and the one target pass that checked it.

    `tokens` are in the order of the screen: accepted, rejected, discarded, then the target's own
    token (corrected, bonus or plain; none where the run stopped inside the draft). Seconds are
    those of DESIGN.md; `width` is how many tokens the target pass read. `drafted_as` are the pieces of text that
    the drafter wrote in tokens of its own, where the draft is that text tokenised again.
    """

    index: int
    tokens: tuple[Token, ...]
    draft_seconds: float
    verify_seconds: float
    sample_seconds: float
    observe_seconds: float
    width: int
    drafted_as: tuple[str, ...] = ()

    @property
    def drafted(self) -> tuple[Token, ...]:
        """Every token that was proposed, in draft order."""
        return tuple(t for t in self.tokens if t.verdict in DRAFTED)

    @property
    def emitted(self) -> tuple[Token, ...]:
        """The tokens that became output, in text order."""
        return tuple(t for t in self.tokens if t.verdict in EMITTED)

    @property
    def accepted(self) -> int:
        """How many drafted tokens were kept."""
        return sum(t.verdict == "accepted" for t in self.tokens)

    @property
    def seconds(self) -> float:
        """Decoding time: draft + verify + sample. Observing is no part of it."""
        return self.draft_seconds + self.verify_seconds + self.sample_seconds


@dataclass(frozen=True, slots=True)
class Reading:
    """A long prompt is being read: how many of its tokens so far. A chance to stop; no part of a trace."""

    read: int
    total: int


@dataclass(frozen=True, slots=True)
class Started:
    """The prompt has been read. `pass_seconds` is the mean of a few one-token target passes, where
    the caller asked for them (it has no plain lane to take them from); null otherwise."""

    prefill_seconds: float
    draft_prefill_seconds: float = 0.0
    pass_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a run: why, and how much there was of it."""

    reason: FinishReason
    rounds: int
    emitted: int


Event = Reading | Started | Round | Finished


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole run. `started` is null where it was stopped before the prompt was read. `pieces` names each token id
    that occurs in it, so that it reads without a tokenizer; `text` is the decoded output."""

    request: Request
    started: Started | None
    rounds: tuple[Round, ...]
    finished: Finished
    pieces: tuple[tuple[int, str], ...] = ()
    text: str = ""

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The emitted ids, in order."""
        return tuple(t.id for r in self.rounds for t in r.emitted)

    def to_json(self) -> str:
        """One JSON object, `schema` first."""
        return json.dumps({"schema": SCHEMA_VERSION, **asdict(self)}, allow_nan=False, ensure_ascii=False)


class InvalidTrace(ValueError):
    """A file that is no trace of this version; the message says where and why."""


def trace_from_json(text: str) -> Trace:
    """The inverse of `Trace.to_json`.

    Raises:
        InvalidTrace: not JSON, another schema version, a missing or unknown field, a wrong type, a value out of range.
    """
    version, data = versioned(text)
    if version != SCHEMA_VERSION:
        raise InvalidTrace(f"The trace has schema {shown(version)}; this program reads schema {SCHEMA_VERSION}.")
    trace: Trace = from_data(Trace, data)
    return trace


def versioned(text: str) -> tuple[object, dict[str, Any]]:
    """The schema version and the other fields of a JSON object.

    Raises:
        InvalidTrace: it is none.
    """
    try:
        data = parsed(text)
    except Malformed as error:
        raise InvalidTrace(f"This is not a JSON trace: {error}") from error
    if not isinstance(data, dict):
        raise InvalidTrace("A trace is a JSON object; this file holds something else.")
    version = data.pop("schema", None)
    return (None if isinstance(version, bool) else version), data


def from_data(cls: type, data: object, more: Mapping[type, Check] = MappingProxyType({})) -> Any:
    """Parsed JSON as one of these dataclasses, or of others with the checks `more`.

    Raises:
        InvalidTrace: a missing or unknown field, a wrong type, a value out of range.
    """
    try:
        return read(cls, data, {**CHECKS, **more})
    except Malformed as error:
        raise InvalidTrace(f"The trace is malformed: {error}") from error


def _check(ok: bool, name: str, value: object, allowed: str) -> None:
    if not ok:
        raise Malformed(f"is {shown(value)}; it must be {allowed}.", name)


def _check_ids(name: str, ids: Iterable[int]) -> None:
    for i in ids:
        _check(0 <= i <= LARGEST_ID, name, i, f"a token id from 0 to {LARGEST_ID}")


def _check_shares(name: str, values: Iterable[float | None]) -> None:
    for value in values:
        _check(value is None or 0 <= value <= 1 + 1e-6, name, value, "from 0 to 1")


def _check_seconds(name: str, value: float | None) -> None:
    ok = value is None or 0 <= value <= LONGEST_SECONDS
    _check(ok, name, value, f"seconds: 0 or more, at most {LONGEST_SECONDS:,}")


def _check_request(request: Request) -> None:
    for name in ("prompt_ids", "banned_ids", "stop_ids"):
        _check_ids(name, getattr(request, name))


def _check_started(started: Started) -> None:
    for name in ("prefill_seconds", "draft_prefill_seconds", "pass_seconds"):
        _check_seconds(name, getattr(started, name))


def _check_token(token: Token) -> None:
    _check_ids("id", (token.id,))
    for name in ("p", "q", "accept", "drawn", "overlap", "expected", "tv"):
        _check_shares(name, (getattr(token, name),))
    _check(token.margin is None or token.margin >= 0, "margin", token.margin, "0 or more")
    for name in ("p_top", "q_top", "residual"):
        rows = getattr(token, name)
        _check(len(rows) <= MOST_SHOWN, name, f"{len(rows)} rows", f"at most {MOST_SHOWN} rows")
        for i, *shares in rows:
            _check_ids(name, (i,))
            _check_shares(name, shares)


def _check_round(one: Round) -> None:
    for name in ("draft_seconds", "verify_seconds", "sample_seconds", "observe_seconds"):
        _check_seconds(name, getattr(one, name))
    _check(one.index >= 0, "index", one.index, "0 or more")
    _check(one.width >= 1, "width", one.width, "1 or more")
    _check(len(one.drafted_as) <= MOST_DRAFTED_AS, "drafted_as", len(one.drafted_as), f"at most {MOST_DRAFTED_AS}")


def _check_finished(finished: Finished) -> None:
    for name in ("rounds", "emitted"):
        value = getattr(finished, name)
        _check(value >= 0, name, value, "0 or more")


def _check_trace(trace: Trace) -> None:
    _check_ids("pieces", (i for i, _ in trace.pieces))


CHECKS: dict[type, Check] = {
    Request: _check_request,
    Started: _check_started,
    Token: _check_token,
    Round: _check_round,
    Finished: _check_finished,
    Trace: _check_trace,
}
"""What the values of a trace must be beyond their types, for `playground.schema.read`."""


def emitted_ids(rounds: Iterable[Round]) -> tuple[int, ...]:
    """The output of these rounds, ids in text order."""
    return tuple(t.id for r in rounds for t in r.emitted)


def ids_of(rounds: Iterable[Round]) -> set[int]:
    """Every token id that occurs in these rounds, those of the likeliest tokens included."""
    tokens = [t for r in rounds for t in r.tokens]
    tops = {i for t in tokens for i, _ in (*t.p_top, *t.q_top)}
    return tops | {t.id for t in tokens} | {i for t in tokens for i, _, _ in t.residual}
