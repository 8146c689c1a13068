"""The tab Prove it in headless Chromium, on tiny models."""

import re
from typing import Any

from browsing import Visit, needs_chromium, visit

pytestmark = needs_chromium
DONE = ".sp-proof[data-done=true]"


def opened(one: Visit, draws: int = 60) -> Any:
    one.tab("Prove it")
    one.page.wait_for_selector("#sp-prove")
    one.page.fill("#sp-prove-draws input[type=number]", str(draws))
    one.page.keyboard.press("Tab")
    return one.page


def set_temperature(page: Any, value: str) -> None:
    page.fill("#sp-temperature input[type=number]", value)
    page.keyboard.press("Tab")


def verdicts(page: Any) -> list[str]:
    return [str(kind) for kind in page.eval_on_selector_all(".sp-proof-verdict", "all => all.map(v => v.dataset.kind)")]


def choose_verifier(page: Any, title: str) -> None:
    page.click("#sp-verifier input")
    page.get_by_role("option", name=title).click()


def test_it_says_what_will_appear_and_at_temperature_0_shows_the_same_text_twice(open_page: Visit) -> None:
    page = opened(open_page)
    assert "the first difference is marked" in page.inner_text(".sp-proof-empty")
    assert page.is_disabled("#sp-prove-stop")
    page.click("#sp-prove")
    page.wait_for_selector(DONE, timeout=60_000)
    assert "The same 48 tokens: no difference was found." in page.inner_text(".sp-proof")
    assert verdicts(page) == ["good"]
    own, other = page.eval_on_selector_all(".sp-proof-text", "all => all.map(x => x.textContent)")
    assert own == other and own
    # the result stays until the next press, whatever is refused meanwhile
    page.check("#sp-strategy input[value=plain]", force=True)
    page.click("#sp-prove")
    page.wait_for_selector(".sp-prove-error")
    assert "nothing to prove" in page.inner_text("#sp-prove-status [role=alert]")
    assert verdicts(page) == ["good"]
    assert page.is_enabled("#sp-prove") and page.is_disabled("#sp-prove-stop")


def test_when_sampling_it_shows_the_texts_of_one_seed_and_the_draws_against_the_target(open_page: Visit) -> None:
    page = opened(open_page)
    set_temperature(page, "0.7")
    page.click("#sp-prove")
    page.wait_for_selector(DONE, timeout=90_000)
    assert verdicts(page) == ["good", "good"]
    assert page.locator(".sp-proof-lane").count() == 3
    assert len(set(page.eval_on_selector_all(".sp-proof-text", "all => all.map(x => x.textContent)"))) == 1
    said = page.inner_text(".sp-proof")
    assert "60 draws show no difference" in said and re.search(r"p = \d", said)
    label = page.get_attribute(".sp-proof-gauge", "aria-label")
    assert re.match(r"Total variation \d\.\d+ in 60 draws; noise alone gives \d\.\d+ on average", label)
    marks = page.eval_on_selector_all(".sp-proof-gauge:first-of-type i", "all => all.map(i => i.className)")
    assert {"floor", "mean", "tv"} <= set(marks)


def test_under_a_lossy_verifier_it_shows_the_distance_that_it_costs(open_page: Visit) -> None:
    page = opened(open_page)
    set_temperature(page, "1")
    choose_verifier(page, "Ensemble (lossy)")
    page.click("#sp-prove")
    page.wait_for_selector(DONE, timeout=90_000)
    assert verdicts(page) == ["lossy"]
    assert page.locator(".sp-proof-lane").count() == 0
    assert "From p and q in the runs themselves" in page.inner_text(".sp-proof")
    assert page.locator(".sp-proof-gauge .estimate").count() == 1


def test_stop_keeps_what_was_drawn(open_page: Visit) -> None:
    page = opened(open_page, 2000)
    set_temperature(page, "1")
    page.click("#sp-prove")
    page.wait_for_function(
        "/: [1-9][0-9]* of/.test(document.querySelector('#sp-prove-status')?.textContent ?? '')", timeout=60_000
    )
    assert page.is_disabled("#sp-prove")
    assert page.get_by_role("progressbar").count() == 1
    page.click("#sp-prove-stop")
    page.wait_for_selector(DONE, timeout=30_000)
    assert "Stopped" in page.inner_text("#sp-prove-status")
    n = int(re.search(r"Tested: the first two tokens of (\d+) runs", page.inner_text(".sp-proof")).group(1))  # type: ignore[union-attr]
    assert 0 < n < 2000
    assert page.is_enabled("#sp-prove") and page.is_disabled("#sp-prove-stop")


def test_on_a_phone_nothing_sticks_out(browser: Any, address: tuple[str, Any]) -> None:
    one = visit(browser, address, width=360, height=740)
    page = opened(one)
    page.click("#sp-prove")
    page.wait_for_selector(DONE, timeout=60_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()
    assert one.complaints == []
