"""Pieces of text join to the decoded whole, whatever the ids; races advance by the lanes' own clocks."""

from collections.abc import Iterator

import pytest
from fakes import ScriptedDrafter, ScriptedTarget, byte_tokenizer, table_logits
from hypothesis import given
from hypothesis import strategies as st

from playground.cache import PASS_LOCK
from playground.engine import Proposal, decode
from playground.race import race
from playground.text import IncrementalText, StopStrings, decode_all
from playground.trace import Event, Finished, Request, Round, Started, Token

TOKENIZER = byte_tokenizer()
any_bytes = st.lists(st.integers(0, 256), max_size=120)
any_text = st.text(max_size=40).map(lambda s: list(TOKENIZER(s)["input_ids"]))


@given(st.one_of(any_bytes, any_text), st.integers(1, 20))
def test_pieces_join_to_the_decoded_text(ids: list[int], window: int) -> None:
    text = IncrementalText(TOKENIZER, window)
    pieces = [text.push(i) for i in ids]
    assert "".join(pieces) + text.finish() == decode_all(TOKENIZER, ids)


@given(any_text, any_text)
def test_a_draft_that_is_peeked_at_changes_nothing(ids: list[int], draft: list[int]) -> None:
    text, other = IncrementalText(TOKENIZER, 4), IncrementalText(TOKENIZER, 4)
    for i in ids:
        before = other.push(i)
        text.peek(draft)
        assert text.push(i) == before
    assert "".join(text.peek(draft)) == decode_all(TOKENIZER, draft)


@given(st.lists(st.integers(0, 255), max_size=300), st.integers(4, 20))
def test_bytes_that_are_no_text_are_shown_too_and_join_to_what_they_decode_to(ids: list[int], window: int) -> None:
    text = IncrementalText(TOKENIZER, window)
    pieces = [text.push(i) for i in ids]
    assert "".join(pieces) + text.finish() == decode_all(TOKENIZER, ids)


def test_bytes_that_never_become_a_character_are_not_kept_for_ever() -> None:
    broken = next(i for i in range(256) if decode_all(TOKENIZER, [i] * 2) == "\ufffd" * 2)
    text = IncrementalText(TOKENIZER)
    pieces = [text.push(broken) for _ in range(500)]
    assert len("".join(pieces)) > 450 and len(text._held) < 100


@given(st.text(alphabet="ab c", min_size=1, max_size=30), st.text(alphabet="ab c", min_size=1, max_size=3))
def test_a_stop_string_ends_the_output_at_its_first_occurrence(text: str, string: str) -> None:
    ids = TOKENIZER(text)["input_ids"]
    rule = StopStrings(TOKENIZER, [string])
    for new in range(1, len(ids) + 1):
        if string in text[: len(text) - new]:
            continue  # the run would have ended before
        found = rule(ids, new)
        assert found == (text.index(string) + len(string) if string in text else None)


def lane(seconds: float, rounds: int, log: list[str], name: str) -> Iterator[Event]:
    """A decode made by hand whose rounds take `seconds` each."""
    try:
        yield Started(0.0)
        for i in range(rounds):
            assert PASS_LOCK.locked()
            log.append(name)
            yield Round(i, (Token(1, "plain"),), 0.0, seconds, 0.0, 5.0, 1)
        yield Finished("length", rounds, rounds)
    finally:
        log.append(f"{name} closed")


def test_the_lane_that_is_least_far_in_its_own_time_goes_next() -> None:
    log: list[str] = []
    events = list(race([lane(3.0, 2, log, "slow"), lane(1.0, 5, log, "fast")]))
    assert "".join(x[0] for x in log if "closed" not in x) == "sfffsff"
    assert sum(isinstance(e, Finished) for _, e in events) == 2
    assert not PASS_LOCK.locked()


def test_a_race_that_is_left_closes_every_lane() -> None:
    log: list[str] = []
    events = race([lane(1.0, 9, log, "a"), lane(1.0, 9, log, "b")])
    for _ in range(5):
        next(events)
        assert not PASS_LOCK.locked(), "nothing waits for whoever reads"
    events.close()
    assert log[-2:] == ["a closed", "b closed"]


def test_a_lane_that_breaks_closes_the_others_and_frees_the_lock() -> None:
    def broken(ids: tuple[int, ...], k: int) -> Proposal:
        raise RuntimeError("out of memory")

    target = ScriptedTarget(8, table_logits(8, 0))
    log: list[str] = []
    lanes = [lane(1.0, 9, log, "a"), decode(Request(prompt_ids=(1,)), target, ScriptedDrafter(broken))]
    with pytest.raises(RuntimeError, match="out of memory"):
        list(race(lanes))
    assert log[-1] == "a closed" and target.released == 1
    assert not PASS_LOCK.locked()
