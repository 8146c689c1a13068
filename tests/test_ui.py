"""The page without a browser: the form, the runs, and the API as a client sees it."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import folders_for
from gradio_client import Client
from served import Folders, endless_pair, served

from playground.model_thread import in_model_thread
from playground.models import Library
from playground.trace import InvalidRequest
from playground.ui import runs as runs_module
from playground.ui.form import Form, field_of, lines
from playground.ui.runs import Runs
from playground.ui.warmup import WarmUp
from strategies import STRATEGIES


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return endless_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def library() -> Library:
    return Library("float32")


def form(folders: Folders, **values: Any) -> Form:
    target, assistant = map(str, folders)
    return Form(**{"prompt": "Once", "target": target, "assistant": assistant, "max_new_tokens": 24} | values)


def messages(runs: Runs, one: Form, name: str = "a") -> list[dict[str, Any]]:
    return [json.loads(text) for text in runs.stream(name, one)]


def steps(got: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [step for message in got for step in message.get("steps", [])]


def reasons(got: list[dict[str, Any]]) -> set[str]:
    return {reason for m in steps(got) for _, reason, *_ in m.get("ended", [])}


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_registered_strategy_streams_whole_runs(name: str, tmp_path: Path, library: Library) -> None:
    got = messages(Runs(library), form(folders_for(tmp_path, name, stops=False), strategy=name))
    assert [m["seq"] for m in got] == list(range(len(got)))
    assert steps(got)[-1]["done"] and reasons(got) == {"length"}
    lanes = next(m["begin"]["lanes"] for m in got if "begin" in m)
    assert len(lanes) == (2 if STRATEGIES[name].drafts else 1)
    if len(lanes) == 2:
        assert steps(got)[-1]["agree"]["parted"] is None  # float32, temperature 0: the same text


def test_a_stop_ends_the_run_within_a_round(folders: Folders, library: Library) -> None:
    runs = Runs(library)
    stream = runs.stream("a", form(folders, max_new_tokens=400, prompt="Once more"))
    got = []
    for text in stream:
        got.append(json.loads(text))
        if got[-1].get("steps"):
            runs.stop("a")
    assert reasons(got) == {"stopped"} and steps(got)[-1]["done"]
    assert not [t for t in threading.enumerate() if t.name == "run"]


def test_a_run_that_was_stopped_before_it_began_loads_nothing(folders: Folders) -> None:
    runs = Runs(Library("float32"))
    runs.stop("a")
    (last,) = messages(runs, form(folders))
    assert last["done"] and "Stopped" in last["status"] and not runs.library._loaded


def test_runs_take_turns_and_one_that_waits_can_be_stopped_at_once(
    folders: Folders, library: Library, monkeypatch: Any
) -> None:
    going, go_on = threading.Event(), threading.Event()
    decoded: list[str] = []

    def decode(self: Runs, run: Any, *rest: Any) -> None:
        decoded.append(run.id)
        going.set()
        assert go_on.wait(30)

    monkeypatch.setattr(Runs, "_decode", decode)
    runs = Runs(library)
    first = threading.Thread(target=messages, args=(runs, form(folders), "first"))
    first.start()
    assert going.wait(30)
    second, third = (runs.stream(name, form(folders)) for name in ("second", "third"))
    assert "Waiting" in next(second) and "Waiting" in next(third)
    runs.stop("second")
    assert [json.loads(text).get("done") for text in second] == [True]
    third.close()
    assert first.is_alive() and decoded == ["first"]
    fourth = runs.stream("fourth", form(folders))
    assert "Waiting" in next(fourth)
    go_on.set()
    assert "Checking" in next(fourth)
    list(fourth)
    first.join()
    assert decoded == ["first", "fourth"]


def test_a_run_pressed_early_waits_for_what_comes_before(folders: Folders, library: Library) -> None:
    measured = threading.Event()
    runs = Runs(library, before=measured.wait)
    stream = runs.stream("a", form(folders, max_new_tokens=2))
    threading.Timer(0.2, measured.set).start()
    got = [json.loads(text) for text in stream]
    assert measured.is_set() and steps(got)[-1]["done"] and reasons(got) == {"length"}


def test_the_warm_up_begins_with_the_first_page_or_after_a_while(folders: Folders, library: Library) -> None:
    asked, alone = (WarmUp(library, form(folders)) for _ in range(2))
    asked.start_within(3600)
    assert asked._thread is None
    asked.status()
    assert asked._thread is not None
    alone.start_within(0.0)
    deadline = time.monotonic() + 20
    while alone._thread is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert alone._thread is not None


def test_closing_the_stream_ends_the_run_and_waits_for_its_last_step(folders: Folders, library: Library) -> None:
    stream = Runs(library).stream("a", form(folders, max_new_tokens=400))
    next(stream)
    stream.close()
    assert not [t for t in threading.enumerate() if t.name == "run"]


def test_a_run_has_a_time_budget(folders: Folders, library: Library) -> None:
    got = messages(Runs(library, budget_seconds=0.0), form(folders, max_new_tokens=400))
    assert reasons(got) == {"time"}


def test_what_was_missed_can_be_asked_for_again(folders: Folders, library: Library) -> None:
    runs = Runs(library)
    sent = list(runs.stream("a", form(folders)))
    assert runs.backfill("a", 2) == sent[2:]
    assert runs.backfill("nobody", 0) == []


def test_a_name_runs_once(folders: Folders, library: Library) -> None:
    runs = Runs(library)
    list(runs.stream("a", form(folders)))
    with pytest.raises(InvalidRequest, match="'a'"):
        next(runs.stream("a", form(folders)))
    with pytest.raises(InvalidRequest, match="characters"):
        next(runs.stream("", form(folders)))


def test_only_the_latest_runs_are_kept(folders: Folders, library: Library, monkeypatch: Any) -> None:
    monkeypatch.setattr(runs_module, "KEPT_RUNS", 2)
    runs = Runs(library)
    for name in ("a", "b", "c"):
        list(runs.stream(name, form(folders, max_new_tokens=2)))
    assert runs.backfill("a", 0) == [] and runs.backfill("c", 0) != []


@pytest.mark.parametrize(
    ("values", "control", "said"),
    [
        ({"prompt": "   "}, "prompt", "type something"),
        ({"k": 99}, "k", "99"),
        ({"k": None}, "k", "empty"),
        ({"temperature": -1}, "temperature", "-1"),
        ({"max_new_tokens": 0}, "max_new_tokens", "0"),
        ({"top_p": 0}, "top_p", "0"),
        ({"min_p": 1}, "min_p", "1"),
        ({"seed": -3}, "seed", "-3"),
        ({"seed": 0.5}, "seed", "0.5"),
        ({"top_k": -1}, "top_k", "Top-k (top_k) is -1"),
        ({"top_k": None}, "top_k", "Top-k (top_k) is empty"),
        ({"temperature": None}, "temperature", "temperature is empty"),
        ({"settings": {"confidence": 3}}, "assistant-confidence", "Confidence threshold (confidence) is 3"),
        ({"target": "here"}, "target", "choose one of smollm2-135m-instruct"),
        ({"assistant": "here"}, "assistant", "choose one of smollm2-drafter"),
        ({"target": "nowhere"}, "target", "nowhere"),
        ({"assistant": "nobody"}, "assistant", "nobody"),
        ({"settings": {"confidence": 2.0}}, "assistant-confidence", "2.0"),
    ],
)
def test_an_error_names_the_value_and_its_control(
    values: dict[str, Any], control: str, said: str, folders: Folders, library: Library
) -> None:
    last = messages(Runs(library), form(folders, **values))[-1]
    assert last["done"] and said in last["error"] and last["field"] == control


def test_a_broken_run_says_so_and_ends(folders: Folders, library: Library, monkeypatch: Any) -> None:
    monkeypatch.setattr(Runs, "_decode", lambda *_: 1 / 0)
    last = messages(Runs(library), form(folders))[-1]
    assert last["done"] and "ZeroDivisionError" in last["error"]


def test_an_error_about_no_control_points_at_none(folders: Folders) -> None:
    assert field_of("The run broke", form(folders)) == ""


def test_entries_are_lines_with_newlines_written_out() -> None:
    assert lines("a\n\n b\nc\\nd\\\\n") == ("a", " b", "c\nd\\n")
    assert lines(None) == ()


def test_a_client_streams_the_pages_messages(folders: Folders) -> None:
    with served(folders) as (url, _):
        client = Client(url, verbose=False)
        target, assistant = map(str, folders)
        job = client.submit(
            "Once", "assistant", target, assistant, max_new_tokens=12, more={"chat": False}, api_name="/run"
        )
        got = [json.loads(text) for text in job]
        assert [m["seq"] for m in got] == list(range(len(got)))
        assert steps(got)[-1]["done"] and steps(got)[-1]["numbers"]["emitted"] == 12
        odd = [json.loads(text) for text in client.submit("Once", more={"colour": 1}, api_name="/run")]
        assert "colour" in odd[-1]["error"]
        bad = [json.loads(text) for text in client.submit("", api_name="/run")]
        assert "empty" in bad[-1]["error"]


def test_a_client_that_cancels_leaves_no_run_behind(folders: Folders) -> None:
    with served(folders) as (url, _):
        client = Client(url, verbose=False)
        target, assistant = map(str, folders)
        job = client.submit(
            "Once", "assistant", target, assistant, max_new_tokens=450, more={"chat": False}, api_name="/run"
        )
        deadline = time.monotonic() + 20
        while not job.outputs() and time.monotonic() < deadline:
            time.sleep(0.05)
        job.cancel()
        while [t for t in threading.enumerate() if t.name == "run"] and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not [t for t in threading.enumerate() if t.name == "run"]


def test_every_run_decodes_in_the_one_model_thread(folders: Folders, library: Library) -> None:
    """Each thread that starts a parallel region has an OpenMP pool of its own, and two make all passes slower."""
    seen: list[tuple[str, int]] = []

    def note() -> None:
        seen.append((threading.current_thread().name, torch.get_num_threads()))

    runs = Runs(library, before=note)
    for name in ("a", "b"):
        messages(runs, form(folders, max_new_tokens=2), name)
    assert seen == [("models", in_model_thread(torch.get_num_threads))] * 2


def test_the_model_thread_hands_back_what_its_work_gives_or_raises() -> None:
    assert in_model_thread(lambda: in_model_thread(lambda: 3)) == 3
    with pytest.raises(InvalidRequest, match="no"):
        in_model_thread(refuse)
    assert in_model_thread(lambda: 4) == 4


def refuse() -> None:
    raise InvalidRequest("no")


def test_the_idle_page_leaves_the_processor_alone(folders: Folders) -> None:
    before = time.process_time()
    with served(folders):
        time.sleep(0.5)
        start = time.process_time()
        time.sleep(1.5)
        spent = time.process_time() - start
    assert before <= start and spent < 0.1
