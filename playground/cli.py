"""The command line: run, models, strategies, bench.

This file knows the flags and how a command ends; what a command does is in cli_run, cli_list and cli_bench,
which are imported when they are asked for, so that a wrong flag costs no import of torch.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from playground.trace import InvalidRequest, Request

DTYPES = ("float32", "bfloat16", "float16")
OK, FAILED, BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141
DEFAULTS = Request(prompt_ids=(0,))


class _Parser(argparse.ArgumentParser):
    """Complains in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        raise InvalidRequest(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says; returns the exit status. --help exits by itself."""
    try:
        args = _parser().parse_args(argv)
        import_module(f"playground.{args.module}").command(args)
        sys.stdout.flush()
        return OK
    except InvalidRequest as error:
        return _complain(error, BAD_INPUT)
    except KeyboardInterrupt:
        return _complain("stopped", INTERRUPTED)
    except BrokenPipeError:  # the reader of a pipe went away, as head does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        return _complain(error, FAILED)


def _complain(message: object, status: int) -> int:
    print("playground:", " ".join(str(message).split()), file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m playground", description="Speculative decoding, round by round.", allow_abbrev=False
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_run(commands)
    for name, about in (
        ("models", "the models on offer"),
        ("strategies", "the ways to draft, and their settings"),
        ("verifiers", "the ways to check a draft, and their settings"),
    ):
        listing = commands.add_parser(name, help=about, description=about, allow_abbrev=False)
        listing.set_defaults(module="cli_list", listing=name)
        _add_json(listing)
    _add_bench(commands)
    return parser


def _add_run(commands: "argparse._SubParsersAction[_Parser]") -> None:
    run = commands.add_parser(
        "run", help="decode one prompt", description="Decode one prompt and show every token.", allow_abbrev=False
    )
    run.set_defaults(module="cli_run")
    run.add_argument("prompt", metavar="PROMPT", help="the text; - reads it from standard input")
    _add_models(run)
    run.add_argument("--strategy", default="assistant", metavar="S", help="the way to draft (default: assistant)")
    run.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the strategy; may be repeated"
    )
    _add_decoding(run)
    run.add_argument(
        "--verifier",
        default=DEFAULTS.verifier,
        metavar="V",
        help="exact (default), match, coupled, ensemble or typical; see `verifiers`",
    )
    run.add_argument(
        "--verifier-setting",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the verifier (ensemble: weight; typical: epsilon, delta); may be repeated",
    )
    run.add_argument("--top-k", type=int, default=DEFAULTS.top_k, metavar="N", help="0 is off (default)")
    run.add_argument("--top-p", type=float, default=DEFAULTS.top_p, metavar="X", help="1 is off (default)")
    run.add_argument("--min-p", type=float, default=DEFAULTS.min_p, metavar="X", help="0 is off (default)")
    run.add_argument(
        "--repetition-penalty", type=float, default=DEFAULTS.repetition_penalty, metavar="X", help="1 is off (default)"
    )
    run.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end after this text; may be repeated")
    run.add_argument("--ban", action="append", default=[], metavar="TEXT", help="never write this; may be repeated")
    run.add_argument(
        "--baseline", action="store_true", help="decode plainly as well, interleaved, to measure a speedup"
    )
    run.add_argument("--trace", metavar="FILE", help="write the whole run to FILE as JSON")
    _add_json(run)


def _add_bench(commands: "argparse._SubParsersAction[_Parser]") -> None:
    about = "Run strategies interleaved over a file of prompts and print medians."
    bench = commands.add_parser("bench", help="compare strategies", description=about, allow_abbrev=False)
    bench.set_defaults(module="cli_bench")
    bench.add_argument(
        "--prompts", metavar="FILE", help='lines of {"kind": ..., "prompt": ...} (default: the bundled file)'
    )
    bench.add_argument(
        "--strategies",
        metavar="A,B,C",
        help="which to compare, settings after colons (assistant:k=2:verifier=ensemble:weight=0.7); plain is always "
        "among them (default: all)",
    )
    bench.add_argument(
        "--presets",
        nargs="?",
        const="",
        metavar="A,B",
        help="measure these presets, or all that are bundled, each on its own pair and prompts",
    )
    bench.add_argument("--kinds", metavar="A,B", help="only prompts of these kinds")
    bench.add_argument("--limit", type=int, metavar="N", help="at most N prompts a kind")
    _add_models(bench)
    _add_decoding(bench)
    bench.add_argument(
        "--against", choices=("generate",), help="compare with model.generate of transformers as well, same settings"
    )
    _add_json(bench)


def _add_models(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target", metavar="T", help="a model of the catalogue, or a folder (default: the bundled one)"
    )
    parser.add_argument("--assistant", metavar="A", help="the same, for the model that drafts")
    parser.add_argument("--dtype", choices=DTYPES, help="the number format (default: the fastest here)")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of a model pass (default: the fastest here)")
    parser.add_argument("--no-chat", action="store_true", help="do not put the prompt into the chat template")


def _add_decoding(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-k", type=int, default=DEFAULTS.k, metavar="K", help="most tokens a round may draft")
    parser.add_argument("--temperature", type=float, default=DEFAULTS.temperature, metavar="X", help="0 is greedy")
    parser.add_argument("--max-new-tokens", type=int, default=DEFAULTS.max_new_tokens, metavar="N")
    parser.add_argument("--seed", type=int, default=DEFAULTS.seed, metavar="N")


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print nothing but JSON")
