"""The page for everyone: in other languages, by keyboard, to a screen reader, on a projector, without motion."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import Visit, needs_chromium, visit

from playground.metrics import DEFINITIONS
from playground.words import dictionary

pytestmark = needs_chromium
axe = pytest.importorskip("axe_playwright_python.sync_playwright")
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
PT = dictionary("pt-BR")
MINE = ".sp-lane:last-child"


class Tab:
    """A new browser context of one locale, as Playwright's browser offers pages to `visit`."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.browser, self.options = browser, options

    def new_page(self, viewport: dict[str, int]) -> Any:
        return self.browser.new_context(viewport=viewport, **self.options).new_page()


def violations(page: Any, colours_only: bool = False) -> list[str]:
    """What axe finds against WCAG 2.2 A and AA, a line each; of colours alone it looks at the contrast."""
    only = ("rule", ["color-contrast"]) if colours_only else ("tag", list(RULES))
    rules = {"runOnly": dict(zip(("type", "values"), only, strict=True)), "resultTypes": ["violations"]}
    found = axe.Axe().run(page, options=rules).response["violations"]
    return [f"{v['id']}: {node['target']} {node['html'][:120]}" for v in found for node in v["nodes"]]


def choose_language(page: Any, name: str) -> None:
    page.click("#sp-language input")
    page.get_by_role("option", name=name).click()


def portuguese(page: Any) -> None:
    choose_language(page, "Português (Brasil)")
    page.wait_for_function("document.documentElement.lang === 'pt-BR'")
    page.wait_for_function(f"document.getElementById('sp-run').innerText === {json.dumps(PT['Run'])}")


def tabs(page: Any) -> Iterator[int]:
    """Open one tab of the page after another."""
    for i in range(page.locator("#sp-tabs [role=tab]").count()):
        page.locator("#sp-tabs [role=tab]").nth(i).click()
        page.wait_for_timeout(300)
        yield i


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_against_wcag_aa(browser: Any, address: Any, theme: str) -> None:
    dark = theme == "dark"  # the same page in other colours
    one = visit(browser, address, query=f"?__theme={theme}")
    assert one.page.evaluate("document.body.classList.contains('dark')") == dark
    one.run()
    one.page.wait_for_selector(".sp-drawn")
    one.page.locator(f"{MINE} .rejected").first.click()
    found = violations(one.page, dark)
    one.page.keyboard.press("Escape")
    for _ in tabs(one.page):
        found += violations(one.page, dark)
    one.page.click("#sp-lessons-open")
    one.page.locator(".sp-lessons-entry").first.click()
    found += violations(one.page, dark)
    one.page.close()
    assert found == []


def test_axe_finds_nothing_on_a_phone_in_portuguese_and_on_a_projector(browser: Any, address: Any) -> None:
    one = visit(browser, address, 360, 740, query="?lang=pt-BR")
    one.page.wait_for_function("document.documentElement.lang === 'pt-BR'")
    found = violations(one.page)
    one.page.close()
    one = visit(browser, address, query="?projector=1")
    found += violations(one.page)
    one.page.close()
    assert found == []


def test_axe_would_find_a_fault(open_page: Visit) -> None:
    open_page.page.evaluate("document.querySelector('.sp-status').append(document.createElement('img'))")
    open_page.page.evaluate("document.querySelector('.sp-status').style.color = '#ddd'")
    open_page.page.evaluate("window.playground.say(() => 'too pale to read')")
    open_page.page.evaluate("document.querySelector('.sp-status').append(document.createElement('img'))")
    found = " ".join(violations(open_page.page))
    assert "image-alt" in found and "color-contrast" in found


def test_the_language_is_the_browsers_the_last_choice_or_the_addresss(browser: Any, address: Any) -> None:
    def of(one: Visit) -> tuple[str, str]:
        one.page.wait_for_timeout(700)
        return str(one.page.evaluate("document.documentElement.lang")), one.text("#sp-run")

    brazil = Tab(browser, locale="pt-BR")
    page = visit(brazil, address)
    page.page.wait_for_function("document.documentElement.lang === 'pt-BR'")
    assert of(page) == ("pt-BR", PT["Run"])
    choose_language(page.page, "English")
    page.page.wait_for_function("document.documentElement.lang === 'en'")
    page.page.reload()
    page.page.wait_for_selector(".sp-ready")
    assert of(page) == ("en", "Run")  # remembered
    page.page.goto(f"{address[0]}?lang=pt-BR")
    page.page.wait_for_selector(".sp-ready")
    page.page.wait_for_function("document.documentElement.lang === 'pt-BR'")
    assert of(page) == ("pt-BR", PT["Run"])
    choose_language(page.page, "English")  # the address follows, so that a reload keeps it
    page.page.wait_for_function("location.search.includes('lang=en')")
    page.page.context.close()
    other = visit(Tab(browser, locale="de-DE"), address)
    assert of(other) == ("en", "Run")
    other.page.context.close()


def test_a_switch_says_everything_again_and_keeps_the_run_and_the_settings(open_page: Visit) -> None:
    page = open_page.page
    page.fill("#sp-prompt textarea", "Once more")
    page.fill("#sp-k input[type=number]", "2")
    page.keyboard.press("Tab")
    open_page.run()
    page.wait_for_selector(".sp-drawn")
    page.locator(f"{MINE} .rejected").first.click()
    before = page.eval_on_selector_all(f"{MINE} .t", "spans => spans.map(s => s.textContent)")
    portuguese(page)
    assert page.eval_on_selector_all(f"{MINE} .t", "spans => spans.map(s => s.textContent)") == before
    assert page.input_value("#sp-prompt textarea") == "Once more"
    assert page.input_value("#sp-k input[type=number]") == "2"
    assert open_page.text("#sp-strategy label.selected").startswith(PT["Assistant model"] + "\n")
    assert open_page.text(f"{MINE} .sp-title") == "Modelo assistente, K = 2"
    assert PT["the limit on new tokens was reached"] in open_page.text(f"{MINE} .sp-end")
    assert "48 tokens" in open_page.text(".sp-status") and "mesmo texto" in open_page.text(".sp-status")
    assert page.get_attribute("[data-number=speedup]", "data-tip") != DEFINITIONS["measured_speedup"][1]
    assert page.locator(f"{MINE} .rejected").first.get_attribute("aria-label").endswith(f", {PT['rejected']}")
    titles = page.eval_on_selector_all("#sp-tabs [role=tab]", "tabs => tabs.map(t => t.innerText.trim())")
    assert open_page.text("h1") == PT["Speculative decoding playground"]
    assert titles == [PT[name] for name in ("Run", "Compare", "Reckon", "Prove it")]
    # A plot is drawn anew in its turn.
    page.wait_for_function(
        "(text) => document.querySelector('.sp-panel .xtitle')?.textContent === text", arg=PT["emitted tokens"]
    )
    page.keyboard.press("Escape")
    choose_language(page, "English")
    page.wait_for_function("document.getElementById('sp-run').innerText === 'Run'")
    assert "as they must at temperature 0" in open_page.text(".sp-status")
    assert page.input_value("#sp-prompt textarea") == "Once more"


def test_an_english_page_is_not_sent_any_text(browser: Any, address: Any) -> None:
    page = browser.new_page()
    said: list[str] = []
    page.on("response", lambda response: said.append(response.url) if "languages" in response.url else None)
    page.goto(address[0])
    page.wait_for_selector(".sp-ready")
    page.wait_for_timeout(500)
    assert page.evaluate("window.playgroundTexts === undefined") and said == []
    page.close()


def test_an_error_is_said_in_the_readers_language_and_again_at_a_switch(open_page: Visit) -> None:
    page = open_page.page
    portuguese(page)
    page.fill("#sp-prompt textarea", "")
    page.click("#sp-run")
    page.wait_for_selector(".sp-error:not([hidden])")
    assert "escreva algo" in open_page.text(".sp-error")
    choose_language(page, "English")
    page.wait_for_function("document.querySelector('.sp-error').textContent.includes('type something')")


def test_the_verifiers_help_and_a_presets_are_in_the_readers_language(open_page: Visit) -> None:
    page = open_page.page
    portuguese(page)
    page.click("#sp-verifier input")
    page.get_by_role("option", name=PT["Match"]).click()
    page.wait_for_function("document.getElementById('sp-verifier').innerText.includes('O alvo sorteia')")
    page.click("#sp-preset input")
    page.get_by_role("option", name=PT["Two tokenizers"], exact=True).click()
    page.wait_for_function("document.getElementById('sp-preset').innerText.includes('qualquer modelo pequeno')")


def test_keys_run_stop_and_walk_and_every_control_can_be_reached(open_page: Visit) -> None:
    page = open_page.page
    page.fill("#sp-max_new_tokens input[type=number]", "1000")
    page.focus("#sp-prompt textarea")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(f"{MINE} .rejected")
    page.keyboard.press("Escape")
    open_page.wait()
    assert "you stopped it" in open_page.text(f"{MINE} .sp-end")
    page.focus(f"{MINE} .sp-text")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.is_visible(".sp-card")
    page.keyboard.press("Escape")
    reached = set()
    for _ in range(160):
        page.keyboard.press("Tab")
        seen = page.evaluate(
            """() => { const e = document.activeElement; const s = getComputedStyle(e);
                const round = [e, e.parentElement, e.closest('label, .wrap, .container')].filter(Boolean);
                const ring = round.map(one => getComputedStyle(one)).some(style => style.outlineStyle !== 'none' ||
                    style.boxShadow !== 'none' || style.borderColor !== s.borderColor);
                return [e.closest('[id^=sp-]')?.id, e.tagName, ring]; }"""
        )
        if seen[1] == "BODY":  # the end of the page: the next one is its beginning
            continue
        assert seen[2], f"no focus to be seen on {seen}"
        reached.add(seen[0])
    wanted = {
        "sp-preset", "sp-target", "sp-strategy", "sp-k", "sp-temperature", "sp-verifier", "sp-max_new_tokens",
        "sp-language", "sp-link", "sp-lessons-open", "sp-projector", "sp-tab-run-button", "sp-prompt", "sp-run",
        "sp-step", "sp-examples", "sp-baseline", "sp-hide", "sp-view", "sp-history", "sp-code",
    }  # fmt: skip
    assert wanted <= reached, wanted - reached
    assert page.locator("[tabindex]:not([tabindex='0'], [tabindex='-1'])").count() == 0


def test_nothing_moves_where_no_motion_is_wanted(browser: Any, address: Any) -> None:
    one = visit(Tab(browser, reduced_motion="reduce"), address)
    one.run()
    moving = one.page.evaluate(
        """() => [...document.querySelectorAll('body *')].filter(e => {
            const s = getComputedStyle(e);
            return s.transitionProperty !== 'none' && s.transitionDuration.split(', ').some(d => parseFloat(d) > 0) ||
                s.animationName !== 'none' && parseFloat(s.animationDuration) > 0;
        }).map(e => e.tagName + '.' + e.getAttribute('class'))"""
    )
    one.page.context.close()
    assert moving == []


def test_each_verdict_has_a_sign_beside_its_colour(open_page: Visit) -> None:
    """Underline, strike, weight: no two verdicts look the same without colour."""
    looks = open_page.page.eval_on_selector_all(
        ".sp-legend .t",
        """spans => spans.map(s => { const c = getComputedStyle(s); return [c.textDecorationLine, c.textDecorationStyle,
            c.textDecorationThickness, c.fontWeight >= 600].join(); })""",
    )
    assert len(set(looks)) == len(looks) == 6


@pytest.mark.parametrize("language", ["en", "pt-BR"])
def test_no_tab_is_wider_than_a_phone(browser: Any, address: Any, language: str) -> None:
    one = visit(browser, address, 360, 740, query=f"?lang={language}")
    one.page.wait_for_timeout(700)
    assert one.page.locator("#sp-tabs [role=tab]:visible").count() == 4  # none behind a menu
    for i in tabs(one.page):
        width = one.page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, f"tab {i}: {width}"
    one.page.close()


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1920, 1080)])
def test_on_a_projector_the_text_is_large_and_nothing_overlaps(
    browser: Any, address: Any, width: int, height: int
) -> None:
    one = visit(browser, address, width, height)
    page = one.page
    one.run()
    small = page.evaluate(SIZE)
    page.click("#sp-projector")
    page.wait_for_function("!document.querySelector('#sp-settings > button.label-wrap.open')")
    page.wait_for_timeout(400)
    assert page.get_attribute("#sp-projector", "aria-pressed") == "true"
    assert page.evaluate(SIZE) >= 1.45 * small
    lane = page.locator(f"{MINE}").bounding_box()
    assert lane["y"] + lane["height"] <= height  # on the first screen, whole
    boxes = page.evaluate(
        """() => ['#sp-top', '#sp-language', '#sp-link', '#sp-projector', '#sp-lessons-open', '#sp-prompt', '#sp-run',
            '#sp-step', '#sp-stop', '.sp-status', '.sp-lanes', '.sp-legend', '.sp-strip'].map(name => {
            const b = document.querySelector(name)?.getBoundingClientRect();
            return b && [name, b.left, b.top, b.right, b.bottom]; }).filter(Boolean)"""
    )
    for i, (a, *p) in enumerate(boxes):
        assert p[2] <= width + 1, a
        for b, *q in boxes[i + 1 :]:
            apart = p[2] <= q[0] + 1 or q[2] <= p[0] + 1 or p[3] <= q[1] + 1 or q[3] <= p[1] + 1
            assert apart, (a, b)
    page.locator(f"{MINE} .rejected").first.click()
    token, card = (page.locator(s).bounding_box() for s in (f"{MINE} .chosen", ".sp-card"))
    assert card["y"] >= 0 and card["y"] + card["height"] <= height + 1
    assert card["x"] + card["width"] <= token["x"] + 1 or card["y"] >= token["y"] + token["height"] - 1
    page.close()


SIZE = f"""() => {{ const t = document.querySelector('{MINE} .sp-text');
    return parseFloat(getComputedStyle(t).fontSize) * (t.currentCSSZoom ?? 1); }}"""


def test_the_projector_is_the_addresss_or_the_last_choice(browser: Any, address: Any) -> None:
    one = visit(Tab(browser), address, query="?projector=1")
    one.page.wait_for_selector("#sp-projector[aria-pressed=true]")
    one.page.wait_for_function("!document.querySelector('#sp-settings > button.label-wrap.open')")
    assert one.page.locator(".sp-notice").count() == 0
    one.page.goto(address[0])
    one.page.wait_for_selector("#sp-projector[aria-pressed=false]")
    one.page.click("#sp-projector")
    one.page.reload()
    one.page.wait_for_selector("#sp-projector[aria-pressed=true]")
    one.page.wait_for_function("!document.querySelector('#sp-settings > button.label-wrap.open')")
    one.page.click("#sp-projector")
    one.page.wait_for_selector("#sp-settings > button.label-wrap.open", state="attached")
    one.page.context.close()


def test_a_third_language_is_one_file() -> None:
    for path in (Path(__file__).parent.parent / "assets" / "languages").glob("*.json"):
        held = json.loads(path.read_text(encoding="utf-8"))
        assert set(held) == {"name", "glossary", "same", "texts"}, path.name
