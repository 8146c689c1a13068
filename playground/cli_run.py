"""The command `run`: one prompt, every token by verdict, the numbers; or the same as JSON."""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers.utils import logging as transformers_logging

from playground.cache import UncroppableCache
from playground.cli_show import METRICS, Painter, bar, harmless, legend, loading, numbers_table, wants_colour
from playground.machine import use_threads
from playground.models import DEFAULT_TARGET, Library
from playground.race import race
from playground.recording import Recording
from playground.run import Prepared, prepare
from playground.sampling import COUPLED, is_lossless
from playground.trace import Event, InvalidRequest, Request, Round


def command(args: argparse.Namespace) -> None:
    """Decode the prompt and print what came of it.

    Raises:
        InvalidRequest: a value is wrong; nothing was loaded unless only the models could tell.
    """
    trace_path = None if args.trace is None else writable(args.trace)
    prepared = _prepared(args)
    use_threads(args.threads)
    streamed = not args.json and wants_colour(sys.stdout)
    record, baseline = _record(prepared, args.baseline, Painter(prepared.target.tokenizer) if streamed else None)
    if trace_path is not None:
        write_atomically(trace_path, record.trace(prepared.request, prepared.target.tokenizer).to_json() + "\n")
    if args.json:
        print(json.dumps(result(prepared, record, baseline), allow_nan=False))
    else:
        _print(prepared, record, baseline, streamed)


def quiet() -> None:
    """No notes and bars of the library's own: stderr is for progress and complaints."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()


def library(args: argparse.Namespace) -> Library:
    """An empty library in the number format asked for.

    Raises:
        InvalidRequest: the number of threads is out of range.
    """
    if args.threads is not None and not 1 <= args.threads <= 1024:
        raise InvalidRequest(f"threads is {args.threads!r}; it must be a whole number from 1 to 1024.")
    quiet()
    return Library(dtype=args.dtype)


def settings(pairs: list[str], flag: str = "set") -> dict[str, object]:
    """NAME=VALUE pairs that `flag` was given; a value that reads as a number is one.

    Raises:
        InvalidRequest: no name, or no equals sign.
    """
    out: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise InvalidRequest(f"{flag} is {pair!r}; it must be NAME=VALUE.")
        out[name] = _value(value)
    return out


def _value(text: str) -> object:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return text
    return value if abs(value) < float("inf") else text


def _prepared(args: argparse.Namespace) -> Prepared:
    prompt = _standard_input() if args.prompt == "-" else args.prompt
    texts = {"the prompt": [prompt], "stop": args.stop, "ban": args.ban}
    for name, values in texts.items():
        for value in values:
            _check_text(name, value, may_be_empty=name == "the prompt")
    try:
        return prepare(
            library(args),
            prompt,
            target=args.target or DEFAULT_TARGET,
            assistant=args.assistant,
            strategy_name=args.strategy,
            settings=settings(args.set),
            chat=not args.no_chat,
            banned=tuple(args.ban),
            progress=loading(),
            max_new_tokens=args.max_new_tokens,
            k=args.k,
            temperature=args.temperature,
            top_k=args.top_k,
            top_p=args.top_p,
            min_p=args.min_p,
            repetition_penalty=args.repetition_penalty,
            stop_strings=tuple(args.stop),
            verifier=args.verifier,
            verifier_settings=settings(args.verifier_setting, "verifier-setting"),
            seed=args.seed,
        )
    except UncroppableCache as error:
        raise InvalidRequest(str(error)) from error


def _standard_input() -> str:
    try:
        return sys.stdin.read()
    except (AttributeError, ValueError, OSError) as error:  # it is closed
        raise InvalidRequest("The prompt is '-', but standard input cannot be read: give the prompt itself.") from error


def _check_text(name: str, value: str, may_be_empty: bool) -> None:
    # An argument whose bytes are no UTF-8 arrives with lone surrogates, which no tokenizer takes.
    if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise InvalidRequest(f"{name} is {value!r}; it must be UTF-8 text.")
    if not value and not may_be_empty:
        raise InvalidRequest(f"{name} is ''; it must be a non-empty text.")


def _events(prepared: Prepared, with_baseline: bool) -> Iterator[tuple[int, Event]]:
    # Without a plain lane the cost of a one-token pass is measured before the run.
    if with_baseline:
        return race([prepared.events(), prepared.plain().events()])
    return race([prepared.events(calibrate=True)])


def _record(prepared: Prepared, with_baseline: bool, painter: Painter | None) -> tuple[Recording, Recording | None]:
    """Decode it, showing tokens as they come (`painter`) or a progress bar."""
    lanes = [Recording(), Recording()]
    try:
        with bar(prepared.request.max_new_tokens, "token", shown=painter is None) as progress:
            for lane, event in _events(prepared, with_baseline):
                lanes[lane].take(event)
                if lane == 0 and isinstance(event, Round):
                    if painter is not None:
                        print(painter.round(event), end="", flush=True)
                    else:
                        progress.update(len(event.emitted))
    except UncroppableCache as error:
        raise InvalidRequest(str(error)) from error
    finally:
        if painter is not None:
            print(painter.finish())
    return lanes[0], lanes[1] if with_baseline else None


def result(prepared: Prepared, record: Recording, baseline: Recording | None) -> dict[str, Any]:
    """What --json prints."""
    assert record.finished is not None, "the run has ended"
    numbers = record.tally.numbers(None if baseline is None else baseline.tally)
    return {
        "text": _text(prepared, record),
        "token_ids": list(record.token_ids),
        "finish_reason": record.finished.reason,
        "lossless": is_lossless(prepared.request),
        "counts": dict(record.tally.counts),
        "metrics": {name: numbers[name] for name in METRICS},
        "seconds": record.tally.seconds(),
    }


def _text(prepared: Prepared, record: Recording) -> str:
    """The output without special tokens, such as the one that ended it."""
    ids = list(record.token_ids)
    return str(prepared.target.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def _print(prepared: Prepared, record: Recording, baseline: Recording | None, streamed: bool) -> None:
    assert record.finished is not None, "the run has ended"
    if streamed:
        print(f"\n{legend()}")
    else:
        print(harmless(_text(prepared, record)))
    request, tally = prepared.request, record.tally
    models = " with ".join(filter(None, (request.target, request.assistant)))
    print(f"\n{request.strategy}: {models}, {prepared.target.dtype}, ended by: {record.finished.reason}")
    print(f"  {tally.emitted} tokens in {tally.rounds} rounds: " + ", ".join(_counts(tally.counts)))
    if not is_lossless(request):
        print(f"  {_lossy(request, tally.tv)}")
    print(numbers_table(tally.numbers(None if baseline is None else baseline.tally)))
    print("  seconds: " + ", ".join(f"{name} {value:.2f}" for name, value in tally.seconds().items()))
    if baseline is not None:
        print(f"  {_comparison(prepared, record, baseline)}")


def _lossy(request: Request, tv: float | None) -> str:
    """What a lossy verifier does to the text, and how far it was from the target."""
    chosen = ", ".join([request.verifier, *(f"{name} {value}" for name, value in request.verifier_settings)])
    far = "no guess was tested" if tv is None else f"TV {tv:.3g} to the target, mean over tested positions"
    return f"lossy ({chosen}): the text is not the target's; {far}"


def _counts(counts: dict[str, int]) -> list[str]:
    return [f"{n} {verdict}" for verdict, n in counts.items() if n]


def _comparison(prepared: Prepared, record: Recording, baseline: Recording) -> str:
    """Whether both lanes wrote the same, and if not, where they part and how near a tie that was."""
    ours, plain = record.token_ids, baseline.token_ids
    if ours == plain:
        return "plain decoding wrote the same tokens."
    request = prepared.request
    if request.temperature > 0 and request.verifier != COUPLED:
        law = "the same distribution" if is_lossless(request) else "another distribution, the target's own"
        return f"plain decoding drew other tokens, from {law}."
    at = next((i for i, (a, b) in enumerate(zip(ours, plain, strict=False)) if a != b), min(len(ours), len(plain)))
    token = next((t for i, t in enumerate(t for r in baseline.rounds for t in r.emitted) if i == at), None)
    gap = (
        ""
        if token is None or token.margin is None
        else f", where the target's two best logits are {token.margin:.3g} apart"
    )
    return f"plain decoding parts at token {at + 1}{gap} ({prepared.target.dtype})."


def writable(name: str) -> Path:
    """The file of that name, which can be written.

    Raises:
        InvalidRequest: it is a folder or a device, or its folder cannot be written to.
    """
    path = Path(name).expanduser().resolve()
    if path.exists() and not path.is_file():
        raise InvalidRequest(f"trace is {name!r}, which is no regular file.")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise InvalidRequest(f"trace is {name!r}; its folder must be there and writable.")
    return path


def write_atomically(path: Path, text: str) -> None:
    """Write `text` as UTF-8; nobody ever sees half of it."""
    mask = os.umask(0)
    os.umask(mask)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as f:
        try:
            f.write(text)
            f.close()
            os.chmod(f.name, 0o666 & ~mask)
            os.replace(f.name, path)
        except BaseException:
            os.unlink(f.name)
            raise
