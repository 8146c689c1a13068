"""An exported page in headless Chromium: from a file, with no network, it shows what the app showed."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from browsing import Visit, needs_chromium
from recorded_runs import evil_run, run_of
from test_history_page import NUMBERS, SPANS, shown

from playground.export import export_page
from playground.packing import packed
from playground.recorded import RecordedRun
from playground.ui.history import exported_page

pytestmark = needs_chromium
MEGABYTE = 1_000_000


@dataclass
class Page:
    """An exported page that was opened from a file."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def open_file(browser: Any) -> Iterator[Any]:
    """Opens an HTML file without a network; it must ask for nothing and complain of nothing."""
    made: list[Page] = []

    def opened(path: Path, **options: Any) -> Page:
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 720}} | options), offline=True)
        one = Page(context.new_page())
        made.append(one)
        one.page.on("console", lambda m: one.complaints.append(m.text) if m.type in ("error", "warning") else None)
        one.page.on("pageerror", lambda error: one.complaints.append(str(error)))
        one.page.on("request", lambda request: one.asked.append(request.url))
        one.page.goto(path.as_uri())
        one.page.wait_for_selector(".sp-drawn", timeout=60_000)
        return one

    yield opened
    for one in made:
        assert one.complaints == []
        assert [url for url in one.asked if not url.startswith(("file:", "blob:", "data:"))] == []
        one.page.context.close()


def until(page: Any, script: str) -> None:
    """Wait until it is true; the page's policy forbids the browser driver's own way."""
    deadline = time.monotonic() + 30
    while not page.evaluate(script):
        assert time.monotonic() < deadline, script
        page.wait_for_timeout(30)


def written(tmp_path: Path, run: RecordedRun) -> Path:
    path = tmp_path / "run.html"
    path.write_text(export_page(run), encoding="utf-8")
    return path


def test_an_exported_run_shows_without_a_network_what_the_app_showed(
    open_page: Visit, open_file: Any, tmp_path: Path
) -> None:
    open_page.run()
    live = shown(open_page)
    with open_page.page.expect_download() as download:
        open_page.page.click(".sp-history-export")
    download.value.save_as(tmp_path / "run.html")
    assert download.value.suggested_filename.endswith(".html")
    one = open_file(tmp_path / "run.html")
    assert [one.page.evaluate(SPANS), one.page.evaluate(NUMBERS)] == [*live]
    assert one.page.inner_text("h1") == "Once upon a time" and "K = 3" in one.page.inner_text("body > header p")
    assert one.page.locator(".sp-panel.sp-filled .main-svg").count() >= 6
    assert "same 48 tokens" in one.page.inner_text(".sp-status")


def test_it_plays_steps_and_opens_cards(open_file: Any, tmp_path: Path) -> None:
    page = open_file(written(tmp_path, run_of())).page
    spans = ".sp-lane:last-child .sp-text .t"
    whole = page.locator(spans).count()
    page.locator(spans).first.click()
    assert page.inner_text(".sp-card-verdict") == "accepted"
    page.keyboard.press("Escape")
    page.focus("[data-player=scrub]")
    page.keyboard.press("Home")
    until(page, "window.playground.player.at === 0")
    assert page.locator(spans).count() == 0
    page.click("[data-player=step]")
    until(page, "window.playground.player.explaining || window.playground.player.at > 0")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")  # there is nothing to run
    page.click("[data-player=play]")
    until(page, "window.playground.player.at === window.playground.player.steps.length")
    assert page.locator(spans).count() == whole


def test_a_thousand_tokens_stay_under_two_megabytes(open_file: Any, tmp_path: Path) -> None:
    path = written(tmp_path, run_of(400))
    size = path.stat().st_size
    print(f"\n{size / MEGABYTE:.2f} MB")
    assert size < 2 * MEGABYTE
    page = open_file(path).page
    assert page.evaluate("window.playground.player.steps.at(-1).numbers.emitted") == 1000


def test_it_lets_itself_load_nothing(open_file: Any, tmp_path: Path) -> None:
    one = open_file(written(tmp_path, run_of(2)))
    refused = one.page.evaluate(
        """async () => { const tries = ["http://127.0.0.1:9/", "data:text/plain,x"].map(
            (url) => fetch(url).then(() => "loaded", (error) => error.name));
            return Promise.all(tries); }"""
    )
    assert refused == ["TypeError", "TypeError"]
    blocked = [text for text in one.complaints if "Content Security Policy" in text]
    assert len(blocked) >= 2
    one.complaints.clear()
    one.asked.clear()


def test_scripts_in_a_run_stay_text(open_file: Any, tmp_path: Path) -> None:
    page = open_file(written(tmp_path, evil_run())).page
    assert page.evaluate("window.evil") is None and page.locator("img").count() == 0
    assert "</script>" in page.inner_text("h1")
    page.locator(".sp-lane:last-child .sp-text .t").first.click()
    assert "</script>" in page.inner_text(".sp-card-token")
    assert page.evaluate("window.evil") is None


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_takes_the_colours_of_the_reader_and_fits_a_phone(open_file: Any, tmp_path: Path, scheme: str) -> None:
    page = open_file(written(tmp_path, run_of()), viewport={"width": 360, "height": 740}, color_scheme=scheme).page
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (colour == "rgb(14, 17, 22)") == (scheme == "dark")
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_a_run_of_one_lane_and_one_that_was_stopped_at_once_export_too(open_file: Any, tmp_path: Path) -> None:
    page = open_file(written(tmp_path, run_of(3, lanes=1))).page
    assert page.is_hidden(".sp-lane:first-child") and page.locator(".sp-lane:last-child .sp-text .t").count() > 0


def test_what_is_no_trace_makes_no_page() -> None:
    assert "schema 3" in exported_page([packed('{"schema": 3}'), "en"])["error"]
