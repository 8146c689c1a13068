"""The messages that the page gets: built from events made by hand, no model."""

import json
from typing import Any

import pytest
from fakes import byte_tokenizer

from playground.metrics import DEFINITIONS
from playground.text import IncrementalText, decode_all
from playground.trace import VERDICTS, Finished, Round, Started, Token, Verdict
from playground.view import REASONS, LaneInfo, Spoken, View, dump, pieces_of

TOKENIZER = byte_tokenizer()
LANES = (LaneInfo("Plain", False), LaneInfo("Lookup", True))
TEXT, VERDICT = 0, 1


def ids_of(text: str) -> list[int]:
    return list(TOKENIZER(text, add_special_tokens=False)["input_ids"])


def tokens(*parts: tuple[str, Verdict]) -> tuple[Token, ...]:
    return tuple(Token(i, verdict, p=0.5, q=0.25, p_top=((i, 0.5),)) for text, verdict in parts for i in ids_of(text))


def round_of(index: int, *parts: tuple[str, Verdict], draft: float = 0.01, verify: float = 0.02) -> Round:
    made = tokens(*parts)
    drafted = sum(t.verdict in ("accepted", "rejected", "discarded") for t in made)
    return Round(index, made, draft, verify, 0.001, 0.002, drafted + 1)


def view(lanes: tuple[LaneInfo, ...] = LANES, greedy: bool = True) -> View:
    return View([Spoken(TOKENIZER) for _ in lanes], lanes, greedy)


def shown(messages: list[dict[str, Any]], lane: int, emitted_only: bool = True) -> str:
    refused = {VERDICTS.index("rejected"), VERDICTS.index("discarded")}
    return "".join(
        token[TEXT]
        for message in messages
        for round_ in message["rounds"]
        if round_[0] == lane
        for token in round_[2]
        if not (emitted_only and token[VERDICT] in refused)
    )


def test_the_shown_pieces_joined_are_the_decoded_text_whatever_bytes_a_draft_ends_in() -> None:
    text = "né 日本 🙂 end"
    ids = ids_of(text)
    for cut in range(1, len(ids)):
        incremental = IncrementalText(TOKENIZER)
        wrong = tuple(Token(i, "rejected" if n == 0 else "discarded") for n, i in enumerate(ids_of("🙃")))
        first = tuple(Token(i, "accepted") for i in ids[:cut])
        pieces = pieces_of(incremental, (*first, *wrong, Token(ids[cut], "corrected")))
        emitted = [*pieces[:cut], pieces[-1]]
        rest = [incremental.push(i) for i in ids[cut + 1 :]]
        joined = "".join([*emitted, *rest, incremental.finish()])
        assert joined == text == decode_all(TOKENIZER, ids)
        assert "\ufffd" not in "".join(emitted)


def test_refused_tokens_are_shown_as_they_would_have_gone_on_from_the_accepted_ones() -> None:
    one = view()
    parts: list[tuple[str, Verdict]] = [("a", "accepted"), ("b", "rejected"), ("cd", "discarded"), ("x", "corrected")]
    one.add(1, round_of(0, *parts))
    message = one.take()
    assert [(t[TEXT], VERDICTS[t[VERDICT]]) for t in message["rounds"][0][2]] == [
        ("a", "accepted"), ("b", "rejected"), ("c", "discarded"), ("d", "discarded"), ("x", "corrected"),
    ]  # fmt: skip
    assert shown([message], 1) == "ax"


def test_a_message_holds_new_rounds_only_and_does_not_grow_with_the_run() -> None:
    one = view()
    sizes = []
    for i in range(400):
        one.add(0, round_of(i, ("a", "plain")))
        one.add(1, round_of(i, ("ab", "accepted"), ("c", "rejected"), ("d", "discarded"), ("e", "corrected")))
        message = one.take()
        assert len(message["rounds"]) == 2 and len(message["points"]) == 1
        sizes.append(len(dump(message)))
    assert max(sizes[290:310]) == pytest.approx(max(sizes[20:40]), rel=0.2)


def test_the_numbers_of_a_message_are_those_of_the_definitions() -> None:
    one = view()
    one.add(0, Started(0.1))
    one.add(1, Started(0.1))
    one.add(0, round_of(0, ("a", "plain"), draft=0.0, verify=0.1))
    one.add(1, round_of(0, ("abc", "accepted"), ("d", "bonus"), draft=0.03, verify=0.1))
    numbers = one.take()["numbers"]
    assert set(numbers) == {*DEFINITIONS, "emitted"}
    assert numbers["acceptance_rate"] == 1.0 and numbers["tokens_per_pass"] == 4.0 and numbers["passes_saved"] == 3
    assert numbers["measured_speedup"] == pytest.approx(0.101 / (0.131 / 4), rel=1e-3)


def test_without_a_baseline_there_is_no_measured_speedup() -> None:
    one = view(LANES[1:])
    one.add(0, Started(0.1, pass_seconds=0.02))
    one.add(0, round_of(0, ("ab", "accepted"), ("c", "bonus")))
    message = one.take()
    assert message["numbers"]["measured_speedup"] is None
    assert message["numbers"]["predicted_speedup"] is not None
    assert "agree" not in message


def test_where_the_lanes_part_is_said_with_the_tokens_and_their_margins() -> None:
    one = view()
    one.add(0, Round(0, (Token(97, "plain", margin=0.5), Token(98, "plain", margin=0.25)), 0, 0.1, 0, 0, 1))
    one.add(1, Round(0, (Token(97, "accepted", margin=0.5), Token(99, "corrected", margin=0.125)), 0, 0.1, 0, 0, 2))
    agree = one.take()["agree"]
    assert agree == {"tokens": 1, "parted": {"index": 2, "texts": one_texts(98, 99), "margins": [0.25, 0.125]}}


def one_texts(*ids: int) -> list[str]:
    return [decode_all(TOKENIZER, [i]) for i in ids]


def test_sampled_lanes_are_not_compared() -> None:
    one = view(greedy=False)
    one.add(0, round_of(0, ("a", "plain")))
    one.add(1, round_of(0, ("b", "plain")))
    assert one.take()["agree"] == {"tokens": 0, "parted": None}


def test_the_end_says_why_for_every_lane() -> None:
    one = view()
    one.add(0, round_of(0, ("a", "plain")))
    one.add(0, Finished("stop_token", 1, 1))
    assert one.take()["done"] is False
    one.end("stopped")
    message = one.take()
    assert message["done"] is True
    assert [(lane, reason) for lane, reason, *_ in message["ended"]] == [(1, "stopped")]
    assert set(REASONS) == {"stop_token", "stop_string", "length", "context", "stopped", "time"}


def test_an_unfinished_character_at_the_end_comes_with_the_end() -> None:
    one = view(LANES[1:])
    one.add(0, Round(0, tuple(Token(i, "accepted") for i in ids_of("🙂")[:2]), 0, 0.1, 0, 0, 3))
    one.add(0, Finished("length", 1, 2))
    message = one.take()
    assert shown([message], 0) == "" and message["ended"][0][4] == decode_all(TOKENIZER, ids_of("🙂")[:2])


def test_a_message_is_plain_json_without_nan() -> None:
    one = view()
    message = json.loads(dump({**one.begin(), **one.take()}))
    assert message["begin"]["verdicts"] == list(VERDICTS)
    assert message["begin"]["verifier"] == "exact"
    assert View([Spoken(TOKENIZER) for _ in LANES], LANES, False, "match").begin()["begin"]["verifier"] == "match"
    assert [lane["title"] for lane in message["begin"]["lanes"]] == ["Plain", "Lookup"]
