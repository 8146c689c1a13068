"""The page in headless Chromium: how a test opens it, and what it must not do."""

import shutil
from dataclasses import dataclass, field
from typing import Any

import pytest

from playground.ui.runs import Runs

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--no-first-run"
).split()
DONE = "window.playground && !window.playground.running && window.playground.next > 0"


@dataclass
class Visit:
    """An open page, what it asked for and what it complained about."""

    page: Any
    url: str
    runs: Runs
    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def run(self) -> None:
        self.page.click("#sp-run")
        self.wait()

    def wait(self) -> None:
        self.page.wait_for_function(DONE, timeout=60_000)

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def tab(self, name: str) -> None:
        """Open the tab of that title."""
        self.page.get_by_role("tab", name=name, exact=True).click()


def visit(browser: Any, address: tuple[str, Runs], width: int = 1280, height: int = 720, query: str = "") -> Visit:
    page = browser.new_page(viewport={"width": width, "height": height})
    one = Visit(page, *address)
    page.on("console", lambda m: one.complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: one.complaints.append(str(error)))
    page.on("request", lambda request: one.hosts.add(request.url.split("/")[2]) if "//" in request.url[:9] else None)
    page.goto(address[0] + query)
    page.wait_for_selector(".sp-ready", timeout=60_000)
    return one
