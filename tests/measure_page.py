"""What the page costs a run: tokens per second with a browser attached against the bare loop, interleaved.

Not a test: it takes minutes and a quiet machine. Run: python tests/measure_page.py [--pairs 5] [--threads 2]
"""

import argparse
import json
import os
import shutil
import statistics
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

from playwright.sync_api import sync_playwright

from playground.machine import use_threads
from playground.metrics import Tally
from playground.model_thread import in_model_thread
from playground.models import DEFAULT_ASSISTANT, DEFAULT_TARGET, Library
from playground.race import race
from playground.trace import Round
from playground.ui.form import Form
from playground.ui.page import build, examples, launch_options
from playground.ui.runs import Runs

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def bare(library: Library, form: Form) -> list[float]:
    """Tokens per second of both lanes, nobody looking."""
    return in_model_thread(lambda: _decode(library, form))


def _decode(library: Library, form: Form) -> list[float]:
    prepared = form.prepare(library)
    tallies = [Tally(), Tally()]
    for lane, event in race([prepared.plain().events(), prepared.events()]):
        if isinstance(event, Round):
            tallies[lane].add(event)
    return [t.tokens_per_second or 0.0 for t in tallies]


def attached(page: Any, runs: Runs) -> list[float]:
    """The same run, watched in a browser."""
    page.click("#sp-run")
    page.wait_for_function("!window.playground.running && window.playground.next > 0", timeout=300_000, polling=1000)
    messages = [json.loads(text) for text in runs.backfill(page.evaluate("window.playground.run"), 0)]
    steps = [step for message in messages for step in message.get("steps", [])]
    assert steps and steps[-1].get("done"), messages[-1]
    return [tokens / seconds for seconds, tokens in steps[-1]["clocks"]]


def main() -> None:
    """Print the medians of both, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--target", default=DEFAULT_TARGET)
    parser.add_argument("--assistant", default=DEFAULT_ASSISTANT)
    parser.add_argument("--strategy", default="assistant")
    parser.add_argument("--tokens", type=int, default=96)
    args = parser.parse_args()
    in_model_thread(lambda: use_threads(args.threads))
    library = Library()
    runs = Runs(library)
    form = Form(
        prompt=examples()[0].prompt, target=args.target, assistant=args.assistant, strategy=args.strategy,
        max_new_tokens=args.tokens,
    )  # fmt: skip
    _, url, _ = build(library, form, runs=runs).launch(prevent_thread_lock=True, **launch_options())
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        page = playwright.chromium.launch(executable_path=chromium, args=FLAGS).new_page(
            viewport={"width": 1280, "height": 720}
        )
        page.goto(url)
        page.wait_for_selector(".sp-ready")
        bare(library, form)
        pairs = []
        for i in range(args.pairs):
            # Now one first, now the other: what else the machine does should not favour either.
            watched = attached(page, runs) if i % 2 else None
            without = bare(library, form)
            pairs.append((without, watched or attached(page, runs)))
            shown = ["/".join(f"{rate:.1f}" for rate in side) for side in pairs[-1]]
            print(f"{i + 1}: bare {shown[0]}, with the page {shown[1]} tokens/s (plain/{args.strategy})", flush=True)
    for lane, name in enumerate(("plain", args.strategy)):
        ratio = statistics.median(watched[lane] / without[lane] for without, watched in pairs)
        print(f"{name}: with the page {ratio:.3f} of the tokens/s without, median of {len(pairs)} pairs")


if __name__ == "__main__":
    main()
