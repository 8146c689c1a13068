"""Recorded runs made by hand, for tests: no model."""

from collections.abc import Iterable
from typing import Any

from playground.recorded import RecordedRun, Recorder
from playground.trace import Finished, Request, Round, Started, Token, Verdict
from playground.view import LaneInfo

EVIL = '</script><script>window.evil = 1</script><img src=x onerror="window.evil=1">&quot;\u2028'
WORDS = (" the", " cat", " sat", "\n", " on", "<b>", "é", "")


def named(token: int) -> str:
    """The text of a token by itself."""
    return WORDS[token % len(WORDS)] or "�"


def token_of(token: int, verdict: Verdict, sampled: bool = True) -> Token:
    """A token with everything that can be known of one."""
    tested = verdict in ("accepted", "rejected")
    top = tuple(((token + i) % 40, 0.3 / (i + 1)) for i in range(5))
    return Token(
        token, verdict, 0.3,
        q=0.25 if verdict in ("accepted", "rejected", "discarded") else None,
        accept=0.9 if tested else None, drawn=0.5 if tested and sampled else None,
        overlap=0.8 if tested else None, margin=None if verdict == "discarded" else 1.25,
        p_top=() if verdict == "discarded" else top, q_top=top,
        residual=((token, 0.1, 0.5), (3, 0.4, 0.1)) if verdict == "rejected" and sampled else (),
    )  # fmt: skip


def rounds_of(kinds: Iterable[tuple[Verdict, ...]], step: float = 0.05) -> list[Round]:
    """A round for each row of verdicts."""
    made = []
    for i, verdicts in enumerate(kinds):
        tokens = tuple(token_of((7 * i + j) % 40, verdict) for j, verdict in enumerate(verdicts))
        drafted = sum(v in ("accepted", "rejected", "discarded") for v in verdicts)
        made.append(Round(i, tokens, 0.01 * drafted, step, 0.001, 0.002, drafted + 1))
    return made


KINDS: tuple[tuple[Verdict, ...], ...] = (
    ("accepted", "accepted", "rejected", "discarded", "corrected"),
    ("accepted", "accepted", "accepted", "accepted", "bonus"),
    ("rejected", "discarded", "discarded", "discarded", "corrected"),
    ("plain",),
)


def recorder(request: dict[str, Any], lanes: int, title: str = "Assistant model, K = 4") -> Recorder:
    """Of a run with temperature 1."""
    values = {"prompt_ids": (1, 2), "prompt": "Once upon", "temperature": 1.0, "target": "tiny"} | request
    asked = Request(**values, strategy="assistant", assistant="helper")
    infos = (LaneInfo("Plain decoding", False), LaneInfo(title, True))[-lanes:]
    requests = (Request(**values), asked)[-lanes:]
    law: dict[str, Any] = {"greedy": False, "verifier": "exact", "lossless": True, "one_text": False}
    return Recorder(infos, requests, **law, dtype="float32", machine="tiny · float32 · 1 thread")


def run_of(rounds: int = 8, lanes: int = 2, title: str = "Assistant model, K = 4", **request: Any) -> RecordedRun:
    """A run with so many rounds in the lane that speculates."""
    tape = recorder({"max_new_tokens": 5 * rounds + 5} | request, lanes, title)
    speculative = rounds_of(KINDS[i % len(KINDS)] for i in range(rounds))
    emitted = sum(len(one.emitted) for one in speculative)
    plain = rounds_of([("plain",)] * emitted)
    for lane, made in enumerate([plain, speculative][-lanes:]):
        tape.take(lane, Started(0.2, 0.1 * lane))
        for one in made:
            tape.take(lane, one, [WORDS[t.id % len(WORDS)] for t in one.tokens])
        tape.take(lane, Finished("length", len(made), emitted), ["�"])
    return tape.recorded(named)


def evil_run() -> RecordedRun:
    """A run in which every text is a script."""
    tape = recorder({"max_new_tokens": 30, "prompt": EVIL, "target": EVIL}, 2, EVIL)
    for lane, kinds in enumerate(([("plain",)] * 9, KINDS[:3])):
        made = rounds_of(kinds)
        tape.take(lane, Started(0.2))
        for one in made:
            tape.take(lane, one, [EVIL] * len(one.tokens))
        tape.take(lane, Finished("length", len(made), sum(len(one.emitted) for one in made)), [EVIL])
    return tape.recorded(lambda token: EVIL)
