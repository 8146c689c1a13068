"""The tab Compare in headless Chromium, on tiny models."""

import csv
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import Visit, needs_chromium, visit

from playground import compare as core
from playground.bench import racing

pytestmark = needs_chromium
PROMPTS = "\n".join(
    json.dumps({"kind": kind, "prompt": prompt})
    for kind, prompt in (
        ("<b>bold</b>", "Once upon a time"), ("code", "<img src=x onerror=alert(1)>"), ("code", "=1+1 the the the"),
    )
)  # fmt: skip
OVER = "!window.playgroundCompare.running"


def choose(page: Any, title: str) -> None:
    page.click("#sp-compare-prompts input")
    page.get_by_role("option", name=title, exact=True).click()


def set_up(one: Visit, ks: str = "1,2", tokens: str = "8", prompts: str = PROMPTS, per_kind: str = "2") -> Any:
    """The tab, open, with these prompts pasted."""
    one.tab("Compare")
    page = one.page
    page.wait_for_selector(".sp-compare")
    choose(page, "Your own, pasted")
    page.fill("#sp-compare-pasted textarea", prompts)
    for field, value in (("k", ks), ("per-kind", per_kind), ("tokens", tokens)):
        page.locator(
            f"#sp-compare-{field} :is(input[type=number], input:not([type]), input[type=text], textarea)"
        ).fill(value)
        page.keyboard.press("Tab")
    return page


def start(page: Any) -> None:
    page.click("#sp-compare-start")
    assert page.is_disabled("#sp-compare-start") and page.is_enabled("#sp-compare-stop")


def finish(page: Any) -> None:
    page.wait_for_function(OVER, timeout=60_000)


def comparing() -> bool:
    return any(thread.name == "comparison" for thread in threading.enumerate())


def ended_within(seconds: float) -> bool:
    end = time.monotonic() + seconds
    while comparing() and time.monotonic() < end:
        time.sleep(0.05)
    return not comparing()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step of a race lasts, so that a press comes in the middle of one."""

    def slowly(lanes: Any) -> Iterator[Any]:
        steps = racing(lanes)
        while True:
            try:
                event = next(steps)
            except StopIteration as end:
                return end.value
            time.sleep(0.02)
            yield event

    monkeypatch.setattr(core, "racing", slowly)


def test_before_anything_was_compared_every_box_says_what_will_appear(open_page: Visit) -> None:
    open_page.tab("Compare")
    page = open_page.page
    page.wait_for_selector(".sp-compare")
    empty = page.locator(".sp-compare-empty:visible").all_inner_texts()
    assert len(empty) == 4 and all("will" in text for text in empty)
    assert page.is_disabled("#sp-compare-stop") and page.locator(".sp-compare-save:disabled").count() == 2
    assert "(lossy)" in page.inner_text("#sp-compare-verifiers")


def test_a_comparison_shows_table_map_and_plots_and_can_be_downloaded(open_page: Visit, tmp_path: Path) -> None:
    page = set_up(open_page)
    page.get_by_label("Multi-token prediction", exact=True).check()
    page.get_by_label("Ensemble (lossy)", exact=True).check()
    start(page)
    finish(page)
    assert open_page.text(".sp-compare-status") == "Done: 3 of 3 prompts were measured."
    rows = page.locator(".sp-compare-rows tbody tr").all_inner_texts()
    assert [row.split()[0] for row in rows] == ["Plain", *["Assistant"] * 4, *["Prompt"] * 2]
    assert sum("lossy" in row for row in rows) == 2 and all(row.split()[-1] == "3" for row in rows)
    heads = page.locator(".sp-compare-heat thead th").all_inner_texts()
    assert heads == ["strategy", "<b>bold</b>", "code", "all"]  # a kind is text
    cells = page.locator(".sp-compare-heat td").all_inner_texts()
    assert len(cells) == 18 and all(float(cell.removesuffix("×")) > 0 for cell in cells)
    slower = page.locator(".sp-compare-heat td.slower").all_inner_texts()
    faster = page.locator(".sp-compare-heat td.faster").all_inner_texts()
    assert all(float(c[:-1]) <= 1 for c in slower) and all(float(c[:-1]) >= 1 for c in faster)
    skipped = open_page.text(".sp-compare-skipped")
    assert "Multi-token prediction" in skipped and "Prompt lookup" in skipped and "mixes" in skipped
    page.wait_for_selector(".sp-compare-plots .sp-compare-body .scatterlayer")
    assert "best K = " in page.locator(".sp-compare-plots").inner_text()
    page.select_option(".sp-compare-box select", "conditional")

    with page.expect_download() as csv_file:
        page.get_by_role("button", name="Download CSV").click()
    csv_file.value.save_as(tmp_path / "c.csv")
    with (tmp_path / "c.csv").open(newline="", encoding="utf-8") as file:
        measured = list(csv.DictReader(file))
    assert len(measured) == 3 * 7 and {row["max_new_tokens"] for row in measured} == {"8"}
    assert "'=1+1 the the the" in {row["prompt"] for row in measured}
    with page.expect_download() as json_file:
        page.get_by_role("button", name="Download JSON").click()
    json_file.value.save_as(tmp_path / "c.json")
    out = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    assert len(out["measurements"]) == 21 and out["settings"]["dtype"] == "float32" and out["skipped"]
    speedups = [f"{row['measured_speedup']['median']:.2f}×" for row in out["summary"][1:]]
    assert speedups == page.locator(".sp-compare-heat td.sp-compare-all").all_inner_texts()


def test_stop_ends_it_within_a_round_and_keeps_what_was_measured(open_page: Visit, slow: None) -> None:
    page = set_up(open_page, ks="1", tokens="16")
    start(page)
    page.wait_for_selector(".sp-compare-heat", timeout=60_000)  # before anything was measured: nothing jumps later
    height = page.evaluate("document.querySelector('.sp-compare-heat').offsetHeight")
    page.wait_for_selector(".sp-compare-heat td.faster, .sp-compare-heat td.slower", timeout=60_000)  # while it runs
    assert page.evaluate("document.querySelector('.sp-compare-heat').offsetHeight") == height
    assert page.evaluate("window.playgroundCompare.running") and "left" in open_page.text(".sp-compare-left")
    assert 0 < page.evaluate("document.querySelector('.sp-compare progress').value") < 1
    page.keyboard.press("Escape")
    begin = time.monotonic()
    finish(page)
    assert time.monotonic() - begin < 5 and ended_within(5)
    assert open_page.text(".sp-compare-status").startswith("Stopped: ")
    assert page.locator(".sp-compare-heat tbody tr").count() == 2
    assert page.locator(".sp-compare-save:enabled").count() == 2 and page.is_enabled("#sp-compare-start")


def test_closing_the_page_ends_it(browser: Any, address: Any, slow: None) -> None:
    one = visit(browser, address)
    page = set_up(one, ks="1-4", tokens="64")
    start(page)
    page.wait_for_function("document.querySelector('.sp-compare progress').value > 0", timeout=60_000)
    assert comparing()
    page.close()
    assert ended_within(10)


def test_a_bad_choice_is_named_and_nothing_is_lost(open_page: Visit) -> None:
    page = set_up(open_page, ks="1", prompts="the the the")
    start(page)
    finish(page)
    rows = page.locator(".sp-compare-rows tbody tr").count()
    assert rows == 3
    for ks, part in (("0-3", "'0-3' in it"), ("many", "'many' in it"), ("", "such as 1-6")):
        page.locator("#sp-compare-k :is(input, textarea)").fill(ks)
        page.keyboard.press("Tab")
        page.click("#sp-compare-start")
        page.wait_for_function(f"{OVER} && !document.querySelector('.sp-compare-error').hidden")
        assert part in open_page.text(".sp-compare-error")
        assert page.locator(".sp-compare-rows tbody tr").count() == rows  # what was there stays
    with page.expect_download():
        page.get_by_role("button", name="Download CSV").click()


def test_a_file_is_read_and_a_bad_one_is_refused(open_page: Visit, tmp_path: Path) -> None:
    open_page.tab("Compare")
    page = open_page.page
    page.wait_for_selector(".sp-compare")
    choose(page, "Your own, from a file")
    large, fine = tmp_path / "large.txt", tmp_path / "fine.jsonl"
    large.write_bytes(b"x" * (2**20 + 1))
    fine.write_text(json.dumps({"kind": "tales", "prompt": "Once"}), encoding="utf-8")
    page.wait_for_selector("#sp-compare-file")
    page.fill("#sp-compare-tokens input[type=number]", "8")
    page.keyboard.press("Tab")
    page.set_input_files("#sp-compare-file input[type=file]", large)
    page.wait_for_selector("#sp-compare-file :text('large')")
    page.click("#sp-compare-start")
    page.wait_for_function(f"{OVER} && !document.querySelector('.sp-compare-error').hidden")
    assert "larger than 1 MB" in open_page.text(".sp-compare-error")
    page.locator(
        "#sp-compare-file button[aria-label*='lear'], #sp-compare-file button[aria-label*='emove']"
    ).first.click()
    page.set_input_files("#sp-compare-file input[type=file]", fine)
    page.wait_for_selector("#sp-compare-file :text('fine')")
    start(page)
    finish(page)
    assert page.locator(".sp-compare-heat thead th").all_inner_texts() == ["strategy", "tales", "all"]


def test_on_a_phone_nothing_sticks_out(browser: Any, address: Any) -> None:
    one = visit(browser, address, width=360, height=740)
    page = set_up(one)
    start(page)
    finish(page)
    page.wait_for_selector(".sp-compare-plots .sp-compare-body .scatterlayer")
    wide = page.evaluate(
        "[...document.querySelectorAll('#sp-tab-compare *, .sp-compare *')].filter(e => e.checkVisibility() && "
        "!e.closest('.sp-compare-scroll') && e.getBoundingClientRect().right > innerWidth + 1)"
        ".map(e => e.className || e.id)"
    )
    page.close()
    assert wide == []
