"""Links and the panel with code, in headless Chromium: what a person sees and does."""

import ast
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from browsing import Visit, needs_chromium, visit
from hypothesis import given, settings
from hypothesis import strategies as st
from test_address import forms

from playground.address import LIMITS, to_query
from playground.models import Library
from playground.snippet import snippet
from playground.ui.form import Form
from playground.ui.page import build, examples
from playground.ui.runs import Runs
from playground.ui.share import REFUSED

pytestmark = needs_chromium
ALERT, STATUS = "#sp-share [role=alert] .sp-notice", "#sp-share [role=status] .sp-notice"
DEFAULTS = Form(prompt=examples()[0].prompt)


@pytest.fixture
def open_at(browser: Any, address: tuple[str, Runs]) -> Any:
    """Opens the page at a query; it must not complain, nor ask another host for anything."""
    visits: list[Visit] = []

    def at(query: str, **size: int) -> Visit:
        visits.append(visit(browser, address, query=query, **size))
        return visits[-1]

    yield at
    for one in visits:
        one.page.close()
        assert one.complaints == []
        assert one.hosts == {address[0].split("/")[2]}


def _number(one: Visit, name: str) -> float:
    return float(one.page.input_value(f"#sp-{name} input[type=number]"))


def _wait_for(one: Visit, selector: str) -> None:
    one.page.wait_for_selector(selector, timeout=20_000)


def _link(one: Visit) -> str:
    """Press the button, and what the address bar then holds."""
    one.page.click("#sp-link")
    _wait_for(one, STATUS)
    return str(one.page.evaluate("location.search"))


def test_opening_a_link_restores_every_setting_the_tab_and_nothing_runs(
    open_at: Any, address: tuple[str, Runs]
) -> None:
    form = Form(
        prompt="Two lines:\n«é» & <b>=%\n", target="story-teller", strategy="early-exit", assistant=None, k=7,
        temperature=0.8, max_new_tokens=77, top_k=40, top_p=0.9, min_p=0.02, repetition_penalty=1.3, seed=12,
        verifier="typical", stop_strings="\\nend", banned=" the", chat=False, baseline=False,
        settings={"exit_layer": 5, "confidence": 0.25}, verifier_settings={"epsilon": 0.2, "delta": 0.4},
    )  # fmt: skip
    query = to_query(form, DEFAULTS, "reckon", "en")
    one = open_at("?" + query)
    page = one.page
    page.wait_for_selector("#sp-tabs [role=tab][aria-selected=true]:has-text('Reckon')", timeout=20_000)
    _wait_for(one, "#sp-early-exit-exit_layer input[type=number] >> visible=true")
    one.tab("Run")
    assert page.input_value("#sp-prompt textarea") == form.prompt
    page.click(".sp-more > button")
    for name in LIMITS:
        assert _number(one, name) == getattr(form, name), name
    assert _number(one, "early-exit-exit_layer") == 5 and _number(one, "early-exit-confidence") == 0.25
    assert _number(one, "typical-epsilon") == 0.2 and _number(one, "typical-delta") == 0.4
    assert page.input_value("#sp-stop_strings textarea") == "\\nend"
    assert page.input_value("#sp-banned textarea") == " the"
    assert not page.is_checked("#sp-chat input") and not page.is_checked("#sp-baseline input")
    assert page.locator("#sp-share .sp-notice").count() == 0
    one.tab("Reckon")
    assert _link(one) == "?" + query  # what was opened is what is written again
    runs = address[1]
    assert runs.library._loaded.keys() <= set(_started_with(address)) and not runs._runs


def _started_with(address: tuple[str, Runs]) -> list[str]:
    root = next(iter(address[1].library._loaded), "")
    return [root, root.replace("target", "assistant"), root.replace("assistant", "target")]


def test_an_assistant_that_is_not_the_usual_one_is_kept(open_at: Any) -> None:
    one = open_at("?strategy=universal&assistant=smollm2-drafter&target=smollm2-135m-instruct")
    _wait_for(one, "#sp-universal-method >> visible=true")
    one.page.wait_for_timeout(500)  # whatever else the change sets off
    assert one.page.input_value("#sp-assistant input") == "SmolLM2 drafter"
    one.page.click("#sp-strategy label:has-text('EAGLE head')")  # a person chooses: the usual one
    one.page.wait_for_function("document.querySelector('#sp-assistant input').value === 'SmolLM2 EAGLE head'")


def test_the_link_is_written_into_the_address_bar_and_copied(open_at: Any) -> None:
    one = open_at("?__theme=light&utm_source=talk&junk=1")
    _wait_for(one, ALERT)
    one.page.fill("#sp-prompt textarea", "Hello & <b>you</b>")
    one.page.fill("#sp-k input[type=number]", "9")
    one.page.press("#sp-k input[type=number]", "Tab")
    one.page.wait_for_timeout(300)
    one.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    query = _link(one)
    assert "strategy=assistant" in query and "k=9" in query and "prompt=Hello%20%26%20%3Cb%3Eyou%3C/b%3E" in query
    assert "lang=en" in query and "tab=run" in query
    assert "__theme=light" in query and "utm_source=talk" in query and "junk" not in query
    assert one.page.evaluate("navigator.clipboard.readText()") == one.page.evaluate("location.href")
    status = one.text(STATUS)
    assert "in the address bar and on the clipboard" in status
    assert "is a folder of this machine" in status  # the page of the tests runs on folders
    one.page.click(f"{STATUS} button")
    assert one.page.locator(STATUS).count() == 0
    assert one.page.evaluate("document.activeElement.id") == "sp-link"
    one.page.reload()
    _wait_for(one, ".sp-ready")
    one.page.wait_for_function("document.querySelector('#sp-k input[type=number]').value === '9'")
    assert one.page.locator(ALERT).count() == 0


def test_without_a_clipboard_the_link_is_in_the_address_bar_all_the_same(open_page: Visit) -> None:
    open_page.page.evaluate(
        """() => {
            Object.defineProperty(navigator, 'clipboard', { value: undefined });
            document.execCommand = () => false;
        }"""
    )
    assert "strategy=assistant" in _link(open_page)
    assert "in the address bar: copy it from there" in open_page.text(STATUS)


def test_what_is_wrong_is_named_in_a_notice_that_is_text_and_goes_away(open_at: Any) -> None:
    hostile = "<img src=x onerror='window.hit=1'><script>window.hit=2</script>"
    one = open_at(f"?k=99&{quote(hostile)}=1&target=/etc&t=NaN&strategy=prompt-lookup&tab={quote(hostile)}&prompt=kept")
    _wait_for(one, ALERT)
    text = one.text(ALERT)
    assert "k is '99' in the address; it must be a whole number from 1 to 32." in text
    assert hostile[:50] in text and "target is '/etc'" in text and "t is 'NaN'" in text
    assert one.page.locator(f"{ALERT} img, {ALERT} script").count() == 0
    assert one.page.evaluate("window.hit") is None
    assert one.page.input_value("#sp-prompt textarea") == "kept"
    assert one.page.is_checked("#sp-strategy label:has-text('Prompt lookup') >> nth=0 >> input")
    assert _number(one, "k") == Form(prompt="").k
    one.page.focus(f"{ALERT} button")
    one.page.keyboard.press("Enter")
    assert one.page.locator(ALERT).count() == 0


def test_too_long_a_prompt_makes_no_link_and_says_what_to_do(open_page: Visit) -> None:
    open_page.page.fill("#sp-prompt textarea", "é" * 3000)
    open_page.page.wait_for_timeout(300)
    open_page.page.click("#sp-link")
    _wait_for(open_page, ALERT)
    assert "at most 8,000 are read" in open_page.text(ALERT) and "save the run as a trace" in open_page.text(ALERT)
    assert open_page.page.evaluate("location.search") == ""


def test_too_long_an_address_leaves_the_page_as_it_is(open_at: Any) -> None:
    one = open_at("?k=7&prompt=" + "a" * 20_000)
    _wait_for(one, ALERT)
    assert "none of it was used" in one.text(ALERT)
    assert one.page.input_value("#sp-prompt textarea") == "Once upon a time"


@pytest.mark.parametrize("length", [REFUSED + 1, 60_000])
def test_far_too_long_an_address_gets_a_sentence_and_runs_nothing(length: int, address: tuple[str, Runs]) -> None:
    answer = httpx.get(f"{address[0]}?{'a' * length}")
    assert answer.status_code == 414
    assert answer.text == f"The address is {length:,} characters long, and at most 8,000 are read: nothing was opened."


def test_the_notice_and_the_button_fit_on_a_phone(open_at: Any) -> None:
    one = open_at("?k=99&" + "&".join(f"unknown{i}={'x' * 30}" for i in range(40)), width=360, height=740)
    _wait_for(one, ALERT)
    assert one.page.evaluate("document.documentElement.scrollWidth") <= 360
    box = one.page.locator(ALERT).bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 360 and box["height"] <= 740 * 0.5
    assert one.page.locator("#sp-link").is_visible()


def test_the_code_follows_the_controls_and_can_be_copied(open_page: Visit) -> None:
    page = open_page.page
    assert not page.locator("#sp-snippet").is_visible()
    page.click("#sp-code > button")
    _wait_for(open_page, "#sp-snippet .cm-content")
    page.fill("#sp-prompt textarea", 'Say "hello"\'s')
    page.click("#sp-strategy label:has-text('Prompt lookup') >> nth=0")
    lines = "[...document.querySelectorAll('#sp-snippet .cm-line')].map(row => row.textContent).join('\\n')"
    page.wait_for_function(f"{lines}.includes('prompt_lookup_num_tokens=3') && {lines}.includes('Say')", timeout=20_000)
    code = page.evaluate(lines)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#sp-snippet button[aria-label*=opy], #sp-snippet button[title*=opy]")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert 'Say "hello"\'s' in [n.value for n in ast.walk(ast.parse(copied)) if isinstance(n, ast.Constant)]
    assert "from the first match" in " ".join(copied.replace("#", "").split())  # what transformers does otherwise
    assert code.split("\n")[0] in copied
    assert page.get_attribute("#sp-snippet .cm-content", "contenteditable") != "true" or page.evaluate(
        "document.querySelector('#sp-snippet .cm-content').getAttribute('aria-readonly') === 'true'"
    )


# What needs no browser.


@pytest.fixture(scope="module")
def components() -> Any:
    """The page's components by their ids, and its settings' ranges."""
    demo = build(Library("float32"))
    return {block.elem_id: block for block in demo.blocks.values() if getattr(block, "elem_id", None)}


@pytest.mark.parametrize("name", LIMITS)
def test_the_limits_of_an_address_are_those_of_the_controls(name: str, components: Any) -> None:
    control = components[f"sp-{name}"]
    if hasattr(control, "step") and control.minimum is not None:
        assert (control.minimum, control.maximum) == LIMITS[name]


@settings(max_examples=30)
@given(forms(), st.sampled_from(["en", "pt-BR"]))
def test_any_form_has_code_that_python_reads(form: Form, language: str) -> None:
    ast.parse(snippet(form, language))
