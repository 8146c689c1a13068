"""A recorded run survives its file; whatever a file holds that cannot be is refused with a reason; replay needs no
model and gives what the live run gave."""

import json
import time
import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from fakes import byte_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_runs import EVIL, KINDS, evil_run, named, recorder, rounds_of, run_of
from served import endless_pair

from playground import export, opening, replay
from playground.metrics import Tally
from playground.models import ASSETS, Library
from playground.opening import MOST_BYTES, opened
from playground.packing import packed, unpacked
from playground.recorded import RecordedRun
from playground.replay import replay_of
from playground.trace import Finished, InvalidRequest, InvalidTrace, Round, Started, Trace, Verdict, trace_from_json
from playground.ui.form import Form
from playground.ui.history import NOT_KEPT, exported_page, opened_run, recorded
from playground.ui.runs import Runs

Change = Callable[[dict[str, Any]], Any]


@st.composite
def runs(draw: st.DrawFn) -> RecordedRun:
    """Any run that may have been recorded, finished or stopped."""
    text = st.text(max_size=6)
    words = draw(st.lists(text, min_size=40, max_size=40))
    end = draw(st.sampled_from(["length", "stop_token", "stopped", "time"]))
    lanes = draw(st.integers(1, 2))
    tape = recorder({"max_new_tokens": 60, "prompt": draw(text)}, lanes, draw(text))
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=5))
    if end == "stop_token" and kinds:
        kinds.append(("accepted", "discarded"))
    for lane in range(lanes):
        own: list[tuple[Verdict, ...]] = kinds if lane == lanes - 1 else [("plain",)] * draw(st.integers(0, 9))
        made = rounds_of(own, draw(st.floats(0, 1)))
        tape.take(lane, Started(draw(st.floats(0, 1))))
        for one in made:
            tape.take(lane, one, [words[t.id] for t in one.tokens])
        if end in ("length", "stop_token"):
            tape.take(lane, Finished(end, len(made), sum(len(one.emitted) for one in made)), [draw(text)])
    tape.end("stopped" if end != "time" else "time", [draw(text)] * lanes)
    return tape.recorded(lambda i: words[i])


@given(runs())
@settings(max_examples=60)
def test_a_run_survives_its_file_and_replays_to_its_own_numbers(run: RecordedRun) -> None:
    assert opened(run.to_json()) == run
    assert unpacked(packed(run.to_json())) == run.to_json()
    shown = replay_of(run)
    last = shown["steps"][-1]
    assert last["done"] and len(last["ended"]) >= 1
    for lane, recorded_lane in enumerate(run.lanes):
        rounds = [r for step in shown["steps"] for r in step["rounds"] if r[0] == lane]
        assert [[t[0] for t in r[2]] for r in rounds] == [list(row) for row in recorded_lane.texts]
        tally = Tally.of(recorded_lane.trace.rounds)
        assert last["clocks"][lane][1] == tally.emitted
        assert last["clocks"][lane][0] == pytest.approx(tally.decode_seconds, rel=1e-4)


@pytest.mark.parametrize("values", [{}, {"temperature": 0.9}, {"baseline": False}, {"strategy": "plain"}])
def test_what_was_recorded_replays_to_the_very_steps_of_the_live_run(values: dict[str, Any], tmp_path: Path) -> None:
    form = live_form(tmp_path, **values)
    live, run = decoded(form)
    assert replay_of(opened(run.to_json()))["steps"] == [s for m in live for s in m.get("steps", [])]
    assert replay_of(run)["begin"] == next(m["begin"] for m in live if "begin" in m)
    assert {"dtype": run.dtype, "machine": run.machine}.items() <= next(m for m in live if "begin" in m).items()


def test_a_stopped_run_replays_to_the_steps_that_were_shown(tmp_path: Path) -> None:
    live, run = decoded(live_form(tmp_path, max_new_tokens=400), stop_after=3)
    assert {lane.trace.finished.reason for lane in run.lanes} == {"stopped"}
    assert replay_of(opened(run.to_json()))["steps"] == [s for m in live for s in m.get("steps", [])]


def test_a_run_stopped_before_the_prompt_was_read_is_a_run_too() -> None:
    tape = recorder({}, 2)
    tape.take(0, Started(0.1))
    tape.end("stopped")
    run = tape.recorded(named)
    assert run.lanes[1].trace.started is None and opened(run.to_json()) == run
    assert replay_of(run)["steps"][-1]["done"]


def test_a_run_that_goes_on_has_no_record_yet() -> None:
    with pytest.raises(InvalidRequest, match="has not ended"):
        recorder({}, 1).recorded(named)


def test_what_the_command_line_writes_opens_as_a_run_of_one_lane(tmp_path: Path) -> None:
    from playground.cli import main

    target, assistant = map(str, endless_pair(tmp_path))
    file = tmp_path / "trace.json"
    words = ["run", "Hi é", "--target", target, "--assistant", assistant, "--no-chat", "--trace", str(file)]
    words += ["--max-new-tokens", "30"]
    assert main(words) == 0
    text = file.read_text(encoding="utf-8")
    (lane,) = opened(text).lanes
    assert lane.trace == trace_from_json(text) and lane.title.startswith("Assistant model, K = ")
    assert replay_of(opened(text))["steps"][-1]["numbers"]["emitted"] == 30


def test_texts_of_a_trace_alone_join_to_its_text_though_its_tokens_are_parts_of_characters() -> None:
    tokenizer = byte_tokenizer()
    whole = "a€ é b"
    ids = tokenizer(whole)["input_ids"]
    rounds = tuple(replace(one, tokens=(replace(one.tokens[0], id=i, p_top=(), q_top=()),))
                   for one, i in zip(rounds_of([("plain",)] * len(ids)), ids, strict=True))  # fmt: skip
    pieces = tuple((i, str(tokenizer.convert_ids_to_tokens(i)).replace("Ġ", " ")) for i in sorted(set(ids)))
    request = run_of(1, 1, prompt_ids=(ids[0],)).lanes[0].trace.request
    trace = Trace(replace(request, max_new_tokens=99), Started(0.0), rounds, Finished("length", len(ids), len(ids)),
                  pieces, whole)  # fmt: skip
    (lane,) = opened(trace.to_json()).lanes
    assert "".join(text for row in lane.texts for text in row) + lane.tail == whole
    assert [row[0] for row in lane.texts if row[0]] == ["a", "€", " ", "é", " ", "b"]


def test_a_thousand_tokens_are_opened_and_made_steps_in_a_fraction_of_a_second() -> None:
    text = run_of(400).to_json()
    begin = time.process_time()
    shown = replay_of(opened(text))
    spent = time.process_time() - begin
    print(f"\n{len(text) / 1e6:.2f} MB, {shown['steps'][-1]['numbers']['emitted']} tokens: {spent:.3f} s")
    assert spent < 2


# --- what is refused -------------------------------------------------------------------------------


def put(*path: Any) -> Change:
    """A change that puts the last of `path` where the others lead."""

    def change(data: dict[str, Any]) -> None:
        place: Any = data
        for key in path[:-2]:
            place = place[key]
        place[path[-2]] = path[-1]

    return change


def drop(*path: Any) -> Change:
    """A change that removes what `path` leads to."""

    def change(data: dict[str, Any]) -> None:
        place: Any = data
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return change


TRACE = ("lanes", 1, "trace")
ROUND = (*TRACE, "rounds", 0)
TOKEN = (*ROUND, "tokens", 0)
# What was changed in a good file, and what the error must name.
MALFORMED: dict[str, tuple[Change, str]] = {
    "unknown version": (put("schema", 3), r"schema 3; this program reads schemas 1 and 2"),
    "version as text": (put("schema", "2"), r"schema '2'"),
    "version true": (put("schema", True), r"schema None"),
    "no version": (drop("schema"), r"schema None"),
    "no lanes": (put("lanes", []), r"holds 0 lanes"),
    "lanes no list": (put("lanes", {"0": 1}), r"lanes must be a list, not dict"),
    "three lanes": (lambda d: d["lanes"].append(d["lanes"][1]), r"holds 3 lanes"),
    "duplicated lanes": (lambda d: d["lanes"].__setitem__(0, d["lanes"][1]), r"must hold plain decoding, then"),
    "other prompts": (put("lanes", 0, "trace", "request", "prompt_ids", [9]), r"different prompts"),
    "missing field": (drop(*TRACE, "request", "prompt_ids"), r"lanes\[1\].trace.request lacks: prompt_ids"),
    "missing lane field": (drop("lanes", 1, "texts"), r"lanes\[1\] lacks: texts"),
    "prototype name": (put(*TOKEN, "__proto__", {"verdict": "accepted"}), r"tokens\[0\] has unknown fields: __proto__"),
    "constructor": (put("constructor", {"prototype": 1}), r"unknown fields: constructor"),
    "a round of text": (put(*TRACE, "rounds", 0, "x"), r"rounds\[0\] must be an object, not str"),
    "id too large": (put(*TOKEN, "id", 2**70), r"tokens\[0\].id is a whole number of more than 64 bits"),
    "id beyond a vocabulary": (put(*TOKEN, "id", 2**40), r"tokens\[0\].id is 1099511627776"),
    "negative id": (put(*TOKEN, "id", -1), r"id is -1"),
    "id as number with a point": (put(*TOKEN, "id", 3.0), r"id is 3.0; it must be a whole number"),
    "id true": (put(*TOKEN, "id", True), r"id is True"),
    "p above one": (put(*TOKEN, "p", 1.5), r"tokens\[0\].p is 1.5; it must be from 0 to 1"),
    "p as text": (put(*TOKEN, "p", "0.5"), r"p is '0.5'; it must be a finite number"),
    "huge p": (put(*TOKEN, "p", 10**400), r"p is 1000.*it must be a finite number"),
    "pairs of three": (put(*TOKEN, "p_top", [[1, 0.5, 0.5]]), r"p_top\[0\] is .*list of 2 values"),
    "too many shown": (put(*TOKEN, "p_top", [[1, 0.1]] * 9), r"p_top is '9 rows'"),
    "negative share": (put(*TOKEN, "q_top", [[1, -0.1]]), r"q_top is -0.1"),
    "negative margin": (put(*TOKEN, "margin", -2), r"margin is -2"),
    "unknown verdict": (put(*TOKEN, "verdict", "perhaps"), r"verdict is 'perhaps'; it must be one of accepted"),
    "verdict as list": (put(*TOKEN, "verdict", ["accepted"]), r"verdict is \['accepted'\]"),
    "verdicts out of order": (lambda d: _tokens(d).reverse(), r"rounds\[0\].tokens are corrected, discarded"),
    "two rejected": (put(*ROUND, "tokens", 0, "verdict", "rejected"), r"no round ends so"),
    "an empty round": (put(*ROUND, "tokens", []), r"tokens are no token"),
    "no own token in the middle": (lambda d: _shorten(d), r"lack the target's own token"),
    "more than K": (put(*TRACE, "request", "k", 2), r"hold 4 drafted ones, more than K, which is 2"),
    "another width": (put(*ROUND, "width", 2), r"width is 2, but the pass read 5"),
    "negative seconds": (put(*ROUND, "verify_seconds", -0.1), r"verify_seconds is -0.1"),
    "endless seconds": (put(*TRACE, "started", "prefill_seconds", 1e300), r"prefill_seconds is 1e\+300"),
    "negative counts": (put(*TRACE, "finished", "rounds", -1), r"finished.rounds is -1; it must be 0 or more"),
    "wrong counts": (put(*TRACE, "finished", "emitted", 3), r"emitted is 3, but the rounds hold 20"),
    "more than was asked for": (put(*TRACE, "request", "max_new_tokens", 5), r"more than max_new_tokens, which is 5"),
    "rounds out of order": (put(*ROUND, "index", 4), r"rounds\[0\].index is 4 where 0 belongs"),
    "never started": (put(*TRACE, "started", None), r"started is null"),
    "unknown reason": (put(*TRACE, "finished", "reason", "bored"), r"reason is 'bored'"),
    "unnamed token": (put(*TRACE, "pieces", []), r"pieces does not name token 0"),
    "a token named twice": (lambda d: _trace(d)["pieces"].append([0, "again"]), r"pieces names a token twice"),
    "a long name": (put(*TRACE, "pieces", 0, [0, "x" * 300]), r"more than 256 characters"),
    "a text too few": (lambda d: d["lanes"][1]["texts"][0].pop(), r"texts\[0\] has 4 texts for 5 tokens"),
    "a round of texts too many": (lambda d: d["lanes"][1]["texts"].append([]), r"has 9 rounds where the trace has 8"),
    "texts that do not join": (put("lanes", 1, "texts", 0, 0, "dog"), r"are not the text of the trace"),
    "text no text": (put("lanes", 1, "texts", 0, 0, 7), r"texts\[0\]\[0\] is 7; it must be text"),
    "a plain lane that drafts": (put("lanes", 1, "drafts", False), r"drafts is false, but tokens were drafted"),
    "a long title": (put("lanes", 1, "title", "x" * 2000), r"title has more than 1000"),
    "law that is another": (put("greedy", True), r"greedy is True, but the request"),
    "lossy called lossless": (put(*TRACE, "request", "verifier", "ensemble"), r"verifier is 'exact', but the request"),
    "unknown verifier": (put(*TRACE, "request", "verifier", "magic"), r"verifier is 'magic'; it must be one of exact"),
    "bad request": (put(*TRACE, "request", "temperature", -1), r"temperature is -1"),
    "settings no pairs": (put(*TRACE, "request", "settings", {"ngram": 3}), r"settings must be a list"),
    "a setting of lists": (put(*TRACE, "request", "settings", [["ngram", [1]]]), r"settings\[0\] is \[1\]; it"),
    "created never": (put("created", "yesterday"), r"created is 'yesterday'"),
}  # fmt: skip


def _trace(data: dict[str, Any]) -> dict[str, Any]:
    return data["lanes"][1]["trace"]


def _tokens(data: dict[str, Any]) -> list[Any]:
    return _trace(data)["rounds"][0]["tokens"]


def _shorten(data: dict[str, Any]) -> None:
    del _tokens(data)[2:]
    _tokens(data)[1]["verdict"] = "discarded"


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A view must not even be made of what is refused."""

    def never(*_: Any) -> None:
        raise AssertionError("a view was made of a file that was refused")

    monkeypatch.setattr(replay, "View", never)
    monkeypatch.setattr(export, "live_view", never)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("name", MALFORMED)
def test_what_cannot_be_is_refused_by_name_and_nothing_is_shown(name: str) -> None:
    change, message = MALFORMED[name]
    data = json.loads(run_of().to_json())
    change(data)
    text = json.dumps(data)
    with pytest.raises(InvalidTrace, match=message) as caught:
        opened(text)
    assert len(str(caught.value)) < 500
    assert opened_run(packed(text)) == exported_page([packed(text), "en"]) == {"error": str(caught.value)}


GOOD = run_of().to_json()
HOSTILE: dict[str, tuple[str, str]] = {
    "nothing": ("", "not a JSON trace"),
    "half a file": (GOOD[: len(GOOD) // 2], "not a JSON trace"),
    "a page": ("<script>alert(1)</script>", "not a JSON trace"),
    "a list": ("[]", "JSON object"),
    "null": ("null", "JSON object"),
    "NaN": (GOOD.replace("0.25", "NaN"), "NaN, which is no number"),
    "Infinity": (GOOD.replace("0.25", "-Infinity"), "-Infinity, which is no number"),
    "an overflow": (GOOD.replace("0.25", "1e999"), "finite number"),
    "deep nesting": ('{"schema":2,"lanes":' + "[" * 500_000, "nested too deeply|not a JSON trace"),
    "deep and whole": (
        GOOD.replace('"settings":[]', '"settings":[["n",' + "[" * 300 + "]" * 300 + "]]"),
        "it must be a number",
    ),
    "a number of many digits": (GOOD.replace('"schema":2', '"schema":' + "9" * 5000), "not a JSON trace"),
    "a field twice": (GOOD.replace('"greedy":', '"lanes":[],"greedy":'), "the field 'lanes' twice"),
    "half a character": (GOOD.replace("Once upon", "\\ud800"), "no Unicode text"),
    "100 MB": ('{"schema":2,"lanes":"' + "x" * 100_000_000 + '"}', "too large: a trace has at most 20 MB"),
    "many bytes": ('{"schema":2,"lanes":"' + "é" * (MOST_BYTES // 2) + '"}', "too large"),
}


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_with_a_reason(name: str) -> None:
    text, message = HOSTILE[name]
    with pytest.raises(InvalidTrace, match=message):
        opened(text)


@pytest.mark.parametrize("sent", [None, 7, "<", "AAAA", packed("x" * (MOST_BYTES + 1)), packed(GOOD)[:-40]])
def test_what_the_page_did_not_pack_is_refused_too(sent: object) -> None:
    assert set(opened_run(sent)) == {"error"}
    assert set(exported_page(sent)) == set(exported_page([sent, "en"])) == {"error"}


def test_too_many_tokens_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from playground import recorded as module

    monkeypatch.setattr(module, "MOST_TOKENS", 20)
    monkeypatch.setattr(opening, "MOST_TOKENS", 20)
    for text in (GOOD, run_of().lanes[1].trace.to_json()):
        with pytest.raises(InvalidTrace, match="at most 20 can be shown"):
            opened(text)


def test_scripts_in_every_string_are_text_like_any_other() -> None:
    run = evil_run()
    assert opened(run.to_json()) == run
    page = export.export_page(run)
    assert EVIL not in page and "<img" not in page and "<script>window.evil" not in page
    assert page.count("<script") == page.count("</script") == 6


def test_a_run_that_the_server_does_not_have_is_said_to_be_gone() -> None:
    runs = Runs(Library("float32"))
    assert recorded(runs, "nothing") == recorded(runs, None) == {"error": NOT_KEPT}


# --- the schema's description -------------------------------------------------------------------------

SCHEMA = json.loads((ASSETS / "trace.schema.json").read_text(encoding="utf-8"))
BOUNDS = ("minimum", "maximum", "description", "minItems", "maxItems")


def test_the_schema_file_describes_every_field_of_the_values() -> None:
    defs: dict[str, Any] = {}
    described(RecordedRun, defs)
    written = {name: bare(value) for name, value in SCHEMA["$defs"].items()}
    alone, run = written.pop("TraceAlone"), written["RecordedRun"]
    assert run["properties"].pop("schema") == {"const": 2} and run["required"].pop(0) == "schema"
    assert alone["properties"].pop("schema") == {"const": 1} and alone["required"].pop(0) == "schema"
    assert alone == defs["Trace"]
    assert written == defs


def test_the_schema_file_agrees_with_what_is_read() -> None:
    for text in (GOOD, evil_run().to_json(), run_of(3, 1).to_json(), run_of().lanes[1].trace.to_json()):
        assert fits(json.loads(text), SCHEMA)
    for name in ("unknown version", "three lanes", "prototype name", "negative id", "p above one", "unknown verdict",
                 "negative seconds", "negative counts", "missing field", "text no text"):  # fmt: skip
        data = json.loads(GOOD)
        MALFORMED[name][0](data)
        assert not fits(data, SCHEMA), name


def described(hint: Any, defs: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of a type; dataclasses go into `defs`."""
    if is_dataclass(hint):
        kind: Any = hint
        if kind.__name__ not in defs:
            hints = get_type_hints(kind)
            defs[kind.__name__] = {
                "type": "object",
                "properties": {f.name: described(hints[f.name], defs) for f in fields(kind)},
                "required": [f.name for f in fields(kind) if f.default is MISSING],
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{kind.__name__}"}
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [described(arg, defs) for arg in args]}
    if origin is tuple and args[1:] == (...,):
        return {"type": "array", "items": described(args[0], defs)}
    if origin is tuple:
        return {"type": "array", "prefixItems": [described(arg, defs) for arg in args]}
    return {"type": {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null"}[hint]}


def bare(schema: Any) -> Any:
    """Without bounds and descriptions."""
    if isinstance(schema, list):
        return [bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    named = "type" in schema or "$ref" in schema or "enum" in schema or "anyOf" in schema
    return {key: bare(value) for key, value in schema.items() if not (named and key in BOUNDS)}


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """So much of JSON schema as the file uses."""
    if "$ref" in schema:
        return fits(value, SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]])
    if "anyOf" in schema:
        return any(fits(value, one) for one in schema["anyOf"])
    if "const" in schema or "enum" in schema:
        return value in schema.get("enum", [schema.get("const")])
    kinds = {"integer": int, "number": (int, float), "string": str, "boolean": bool, "null": type(None),
             "array": list, "object": dict}  # fmt: skip
    if not isinstance(value, kinds[schema["type"]]) or (isinstance(value, bool) != (schema["type"] == "boolean")):
        return False
    if isinstance(value, dict):
        known = schema["properties"]
        whole = set(schema["required"]) <= value.keys() <= known.keys()
        return whole and all(fits(one, known[name]) for name, one in value.items())
    if isinstance(value, list):
        rows = schema.get("prefixItems") or [schema["items"]] * len(value)
        bounded = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        return bounded and all(fits(one, row) for one, row in zip(value, rows, strict=True))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return schema.get("minimum", value) <= value <= schema.get("maximum", value)
    return True


# --- live runs ---------------------------------------------------------------------------------------


def live_form(root: Path, **values: Any) -> Form:
    target, assistant = map(str, endless_pair(root))
    fixed = {"prompt": "Once é", "target": target, "assistant": assistant, "max_new_tokens": 24, "chat": False}
    return Form(**{**fixed, **values})


def decoded(form: Form, stop_after: int | None = None) -> tuple[list[dict[str, Any]], RecordedRun]:
    """The messages of a live run, stopped after so many messages with steps, and its record."""
    all_runs = Runs(Library("float32"))
    got, rounds = [], 0
    for text in all_runs.stream("a", form):
        got.append(json.loads(text))
        rounds += bool(got[-1].get("steps"))
        if rounds == stop_after:
            all_runs.stop("a")
    sent = recorded(all_runs, "a")
    return got, opened(unpacked(sent["packed"]))


def test_a_round_is_the_same_value_after_its_file() -> None:
    run = run_of(4, 1)
    kept: tuple[Round, ...] = opened(run.to_json()).lanes[0].trace.rounds
    assert kept == run.lanes[0].trace.rounds and {t.verdict for r in kept for t in r.tokens} == {
        v for kinds in KINDS for v in kinds
    }
