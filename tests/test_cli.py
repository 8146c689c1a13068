"""The command line: what it prints, what it refuses, how it ends."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import byte_tokenizer, folders_for

from playground import cli_run, cli_show
from playground.cli import main
from playground.models import CATALOGUE, Library
from playground.sampling import VERIFIERS
from playground.trace import DRAFTED, VERDICTS, Event, Round, Token, trace_from_json
from strategies import STRATEGIES

ROOT = Path(__file__).resolve().parent.parent
METRICS = [
    "acceptance_rate", "tested_acceptance_rate", "alpha", "predicted_acceptance", "tv", "tokens_per_pass",
    "cost_ratio", "tokens_per_second", "measured_speedup", "predicted_speedup", "efficiency",
]  # fmt: skip
SECONDS = ["prefill", "draft", "verify", "sample", "observe", "total"]
ESCAPE = re.compile(r"\x1b\[[\d;]*m")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def flags(tiny_folders: tuple[Path, Path]) -> list[str]:
    """The tiny pair, quick settings."""
    return _flags(tiny_folders)


def _flags(folders: tuple[Path, Path]) -> list[str]:
    target, assistant = map(str, folders)
    return ["--target", target, "--assistant", assistant, "--dtype", "float32", "--threads", "1"]


def _json(capsys: pytest.CaptureFixture[str], *args: str) -> dict:
    assert main(args) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_json_is_all_that_is_printed_and_has_the_documented_keys(
    strategy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = _flags(folders_for(tmp_path, strategy))
    capsys.readouterr()
    got = _json(capsys, "run", "abc abc abc", "--strategy", strategy, "--max-new-tokens", "12", "--json", *flags)
    assert list(got) == ["text", "token_ids", "finish_reason", "lossless", "counts", "metrics", "seconds"]
    assert list(got["metrics"]) == METRICS
    assert list(got["seconds"]) == SECONDS
    assert list(got["counts"]) == list(VERDICTS)
    assert got["seconds"]["total"] == pytest.approx(sum(got["seconds"][s] for s in SECONDS[:-1]))
    emitted = sum(n for verdict, n in got["counts"].items() if verdict not in ("rejected", "discarded"))
    assert len(got["token_ids"]) == emitted <= 12
    assert got["text"] == byte_tokenizer().decode(got["token_ids"], skip_special_tokens=True)
    assert got["metrics"]["measured_speedup"] is None
    if not STRATEGIES[strategy].drafts:
        assert got["metrics"]["acceptance_rate"] is None
        assert got["metrics"]["tokens_per_pass"] == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_baseline_gives_a_measured_speedup_and_changes_no_text(
    strategy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["run", "abc abc abc", "--strategy", strategy, "--max-new-tokens", "10", "--json"]
    args += _flags(folders_for(tmp_path, strategy))
    capsys.readouterr()
    alone, raced = _json(capsys, *args), _json(capsys, *args, "--baseline")
    assert raced["metrics"]["measured_speedup"] > 0
    assert raced["token_ids"] == alone["token_ids"]


@pytest.mark.parametrize("temperature", ["0", "1"])
def test_a_lossy_verifier_says_so_and_how_far_it_is(
    temperature: str, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rule = ["--verifier", "ensemble", "--verifier-setting", "weight=0.3"]
    args = ["run", "abc abc", *rule, "--temperature", temperature, "--max-new-tokens", "16", *flags]
    got = _json(capsys, *args, "--json")
    assert got["lossless"] is False and 0 < got["metrics"]["tv"] <= 1
    assert 0 <= got["metrics"]["predicted_acceptance"] <= 1
    assert main([*args, "--baseline"]) == 0
    said = capsys.readouterr().out
    assert "lossy (ensemble, weight 0.3): the text is not the target's; TV" in said and "same distribution" not in said
    exact = _json(capsys, "run", "abc abc", "--temperature", temperature, "--max-new-tokens", "16", "--json", *flags)
    assert exact["lossless"] is True and exact["metrics"]["tv"] is None


def test_the_same_seed_gives_the_same_text(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    args = ["run", "abc", "--temperature", "1", "--max-new-tokens", "16", "--json", *flags]
    one, same, other = (_json(capsys, *args, "--seed", seed)["token_ids"] for seed in ("1", "1", "2"))
    assert one == same != other


def test_every_flag_reaches_the_request(flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace.json"
    _json(
        capsys, "run", "abc", *flags, "-k", "3", "--temperature", "0.5", "--top-k", "7", "--top-p", "0.9", "--min-p",
        "0.1", "--repetition-penalty", "1.5", "--verifier", "match", "--seed", "9", "--max-new-tokens", "5",
        "--stop", "x", "--stop", "yz", "--ban", "q", "--no-chat", "--set", "schedule=confidence", "--set",
        "confidence=0.25", "--trace", str(file), "--json",
    )  # fmt: skip
    request = trace_from_json(file.read_text()).request
    assert (request.k, request.temperature, request.top_k, request.top_p, request.min_p) == (3, 0.5, 7, 0.9, 0.1)
    assert (request.repetition_penalty, request.verifier, request.seed) == (1.5, "match", 9)
    assert (request.max_new_tokens, request.stop_strings, request.chat) == (5, ("x", "yz"), False)
    assert request.banned_ids == tuple(byte_tokenizer()("q")["input_ids"])
    assert request.settings == (("confidence", 0.25), ("schedule", "confidence"), ("vocabulary", "frequent"))
    assert request.prompt_ids == tuple(byte_tokenizer()("abc")["input_ids"])


BAD = {
    "unknown flag": ["run", "x", "--bogus"],
    "no command": [],
    "unknown command": ["walk"],
    "no prompt": ["run"],
    "empty prompt": ["run", "  "],
    "no UTF-8": ["run", "\udcff"],
    "K is a word": ["run", "x", "-k", "many"],
    "K is 0": ["run", "x", "-k", "0"],
    "K is too large": ["run", "x", "-k", "33"],
    "temperature": ["run", "x", "--temperature", "-1"],
    "temperature nan": ["run", "x", "--temperature", "nan"],
    "temperature inf": ["run", "x", "--temperature", "inf"],
    "top-k": ["run", "x", "--top-k", "-1"],
    "top-p": ["run", "x", "--top-p", "0"],
    "min-p": ["run", "x", "--min-p", "1"],
    "penalty": ["run", "x", "--repetition-penalty", "0"],
    "length": ["run", "x", "--max-new-tokens", "0"],
    "seed": ["run", "x", "--seed", "-1"],
    "verifier": ["run", "x", "--verifier", "none"],
    "unknown setting of the verifier": ["run", "x", "--verifier", "exact", "--verifier-setting", "weight=0.5"],
    "setting of the verifier out of range": ["run", "x", "--verifier", "ensemble", "--verifier-setting", "weight=1"],
    "verifier that needs a q": ["run", "x", "--verifier", "ensemble", "--strategy", "prompt-lookup"],
    "strategy": ["run", "x", "--strategy", "none"],
    "target": ["run", "x", "--target", "nowhere"],
    "assistant": ["run", "x", "--assistant", "nowhere"],
    "setting without a value": ["run", "x", "--set", "schedule"],
    "unknown setting": ["run", "x", "--set", "colour=red"],
    "setting of another option": ["run", "x", "--set", "schedule=never"],
    "setting out of range": ["run", "x", "--set", "confidence=2"],
    "setting nan": ["run", "x", "--set", "confidence=nan"],
    "whole setting inf": ["run", "x", "--strategy", "prompt-lookup", "--set", "ngram=inf"],
    "whole setting with a fraction": ["run", "x", "--strategy", "prompt-lookup", "--set", "ngram=1.5"],
    "empty stop": ["run", "x", "--stop", ""],
    "empty ban": ["run", "x", "--ban", ""],
    "dtype": ["run", "x", "--dtype", "int3"],
    "threads": ["run", "x", "--threads", "0"],
    "trace into nowhere": ["run", "x", "--trace", "/nowhere/at/all.json"],
    "trace over a device": ["run", "x", "--trace", os.devnull],
    "trace over a folder": ["run", "x", "--trace", str(ROOT)],
    "bench: setting of the verifier": ["bench", "--strategies", "assistant:verifier=typical:delta=7"],
    "bench: verifier": ["bench", "--strategies", "assistant:verifier=none"],
    "bench: strategy": ["bench", "--strategies", "plain,none"],
    "bench: file": ["bench", "--prompts", "/nowhere.jsonl"],
    "bench: kind": ["bench", "--kinds", "no such kind"],
    "bench: limit": ["bench", "--limit", "0"],
    "bench: K": ["bench", "-k", "0"],
    "bench: threads": ["bench", "--threads", "-2"],
    "bench: against": ["bench", "--against", "nobody"],
}


@pytest.mark.parametrize("args", BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_line_on_stderr_and_status_2_and_loads_nothing(
    args: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(*_: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(Library, "load", load)
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1 and err.startswith("playground: ")


def test_a_pair_that_does_not_fit_is_one_line_too(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "no such thing"}')
    assert main(["run", "x", *flags, "--assistant", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1


def test_a_wrong_flag_costs_no_import_of_torch() -> None:
    code = (
        "import sys; from playground.cli import main; status = main(['run', 'x', '--bogus']); "
        "assert 'torch' not in sys.modules; sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr


def test_the_module_runs_as_a_program(flags: list[str]) -> None:
    command = [sys.executable, "-m", "playground", "run", "-", *flags, "--max-new-tokens", "6", "--json"]
    done = subprocess.run(command, cwd=ROOT, input="abc", capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert 1 <= len(json.loads(done.stdout)["token_ids"]) <= 6


def _interrupted(lanes: list[Iterator[Event]]) -> Iterator[tuple[int, Event]]:
    yield 0, next(lanes[0])
    yield 0, next(lanes[0])
    raise KeyboardInterrupt


@pytest.mark.parametrize("json_flag", [[], ["--json"]])
def test_an_interrupt_ends_with_status_130_and_leaves_no_file(
    json_flag: list[str], flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(cli_run, "race", _interrupted)
    assert main(["run", "x", *flags, "--trace", str(tmp_path / "t.json"), *json_flag]) == 130
    out, err = capsys.readouterr()
    assert (out, err) == ("", "playground: stopped\n")
    assert list(tmp_path.iterdir()) == []


def test_a_trace_reads_back_and_agrees_with_what_was_printed(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.json"
    file.write_text("an older run")
    got = _json(capsys, "run", "abc abc", "--max-new-tokens", "9", "--trace", str(file), "--json", *flags)
    trace = trace_from_json(file.read_text())
    assert list(trace.token_ids) == got["token_ids"]
    assert trace.finished.reason == got["finish_reason"]
    named = {i for i, _ in trace.pieces}
    assert {t.id for r in trace.rounds for t in r.tokens} | set(trace.request.prompt_ids) <= named
    assert list(tmp_path.iterdir()) == [file]


def test_a_trace_that_cannot_be_written_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "run.json"
    file.write_text("an older run")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        cli_run.write_atomically(file, "new")
    assert file.read_text() == "an older run"
    assert list(tmp_path.iterdir()) == [file]


def test_models_and_strategies_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert [m["name"] for m in _json(capsys, "models", "--json")] == list(CATALOGUE)
    assert [s["name"] for s in _json(capsys, "strategies", "--json")] == list(STRATEGIES)
    assert [v["name"] for v in _json(capsys, "verifiers", "--json")] == list(VERIFIERS)
    for listing, names in (("models", CATALOGUE), ("strategies", STRATEGIES), ("verifiers", VERIFIERS)):
        assert main([listing]) == 0
        out = capsys.readouterr().out
        assert all(name in out for name in names)


def _run_in_terminal(monkeypatch: pytest.MonkeyPatch, flags: list[str], **environment: str) -> str:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["run", "abc abc abc", "--strategy", "prompt-lookup", "--max-new-tokens", "12", *flags]) == 0
    return terminal.getvalue()


def test_a_terminal_gets_colour_and_a_legend_of_every_verdict(
    flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = _run_in_terminal(monkeypatch, flags)
    for verdict in VERDICTS:
        assert cli_show.painted(verdict, verdict) in out
    assert "tokens per second" in out


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_escape_code_where_none_is_wanted(
    environment: dict[str, str], flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b" not in _run_in_terminal(monkeypatch, flags, **environment)


def test_a_pipe_gets_no_escape_code(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "abc", "--max-new-tokens", "4", "--baseline", *flags]) == 0
    out, err = capsys.readouterr()
    assert "\x1b" not in out and err == ""
    assert "plain decoding wrote the same tokens" in out


def test_verdicts_differ_in_more_than_colour() -> None:
    def attributes(verdict: str) -> tuple[str, ...]:
        codes = cli_show.STYLES[verdict][0].split(";")
        return tuple(c for c in codes if c in ("1", "4", "9"))

    assert attributes("rejected") == attributes("discarded") == ("9",)
    assert len({attributes(v) for v in ("rejected", "corrected", "bonus", "accepted")}) == 4
    codes = [cli_show.STYLES[v][0] for v in VERDICTS]
    assert len(set(codes)) == len(codes)


def _round(*tokens: tuple[str, str]) -> Round:
    ids = byte_tokenizer().convert_tokens_to_ids
    return Round(0, tuple(Token(ids(c), verdict) for c, verdict in tokens), 0.0, 0.0, 0.0, 0.0, len(tokens))


def test_refused_tokens_are_shown_where_they_were_drafted() -> None:
    painter = cli_show.Painter(byte_tokenizer())
    one = _round(("a", "accepted"), ("b", "rejected"), ("c", "discarded"), ("d", "corrected"))
    two = _round(("e", "accepted"), ("f", "bonus"))
    three = _round(("g", "accepted"), ("h", "discarded"))
    shown = painter.round(one) + painter.round(two) + painter.round(three) + painter.finish()
    assert ESCAPE.sub("", shown) == "abcdefgh"
    assert ESCAPE.sub("", re.sub(r"\x1b\[\d+;9m.*?\x1b\[0m", "", shown)) == "adefg"


def test_a_character_of_several_tokens_is_painted_whole() -> None:
    tokenizer = byte_tokenizer()
    ids = tokenizer("é")["input_ids"]
    painter = cli_show.Painter(tokenizer)
    rounds = [Round(0, (Token(i, "plain"),), 0.0, 0.0, 0.0, 0.0, 1) for i in ids]
    assert [painter.round(r) for r in rounds] == ["", "é"]


def test_a_models_text_cannot_steer_the_terminal() -> None:
    assert cli_show.harmless("a\x1b[2Jb\x07\x9b\r\n\t") == "a\\x1b[2Jb\\x07\\x9b\\r\n\t"


def test_drafted_verdicts_are_the_ones_that_may_be_struck() -> None:
    struck = {v for v in VERDICTS if "9" in cli_show.STYLES[v][0].split(";")}
    assert struck == set(DRAFTED) - {"accepted"}
