"""The page in headless Chromium, on tiny models: what a person sees and does."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from browsing import Visit, needs_chromium, visit
from fakes import byte_tokenizer
from served import served

from playground.metrics import DEFINITIONS
from playground.models import ASSETS, CATALOGUE, DEFAULT_ASSISTANT, DEFAULT_TARGET
from playground.presets import PRESETS
from playground.race import race
from playground.trace import VERDICTS, Round, Token
from playground.ui import runs as runs_module
from playground.ui.runs import Runs
from playground.view import LaneInfo, Spoken, View, dump

pytestmark = needs_chromium
SPECULATING = ".sp-lane:last-child"


def test_a_run_shows_both_lanes_with_the_same_text_and_says_why_it_ended(open_page: Visit) -> None:
    open_page.run()
    texts = open_page.page.evaluate(
        """() => window.playground.lanes.map(lane => [...lane.box.querySelectorAll('.t')]
            .filter(t => !t.matches('.rejected, .discarded')).map(t => t.playground.token[0]).join(''))"""
    )
    assert texts[0] == texts[1] != ""
    assert "48 tokens: the limit on new tokens was reached." in open_page.text(f"{SPECULATING} .sp-end")
    assert "same 48 tokens" in open_page.text(".sp-status")
    assert "K = 3" in open_page.text(f"{SPECULATING} .sp-title")


def test_every_drafted_token_is_on_the_screen_with_its_verdict(open_page: Visit) -> None:
    open_page.run()
    counts = open_page.page.evaluate(
        """() => window.playground.lanes.map(lane =>
            Object.fromEntries(window.playground.verdicts.map(v => [v, lane.box.querySelectorAll('.' + v).length])))"""
    )
    plain, ours = counts
    assert plain == dict.fromkeys(VERDICTS, 0) | {"plain": 48}
    assert ours["accepted"] + ours["corrected"] + ours["bonus"] + ours["plain"] == 48
    assert ours["rejected"] > 0
    labels = open_page.page.eval_on_selector_all(
        f"{SPECULATING} .t", "spans => spans.map(s => [s.getAttribute('aria-label'), s.className])"
    )
    assert all(label.endswith(name.split()[1]) for label, name in labels)


def test_the_numbers_and_all_six_plots_are_filled_and_say_measured_or_predicted(open_page: Visit) -> None:
    open_page.run()
    open_page.page.wait_for_selector(".sp-drawn", timeout=60_000)
    assert open_page.page.locator(".sp-panel.sp-filled .main-svg").count() >= 6
    assert open_page.text("[data-number=speedup] dd").endswith("×")
    assert "measured" in open_page.text("[data-number=speedup] dt")
    assert open_page.text("[data-number=passes_saved] dd").endswith("of 48")


def test_without_the_baseline_the_speedup_is_called_predicted(open_page: Visit) -> None:
    open_page.page.uncheck("#sp-baseline input")
    open_page.run()
    assert open_page.page.locator(".sp-lane:visible").count() == 1
    label = open_page.text("[data-number=speedup] dt")
    assert "predicted" in label and "measured" not in label
    tip = open_page.page.get_attribute("[data-number=speedup]", "data-tip")
    assert tip == DEFINITIONS["predicted_speedup"][1]


def test_a_click_on_a_token_opens_its_card_and_nothing_moves(open_page: Visit) -> None:
    open_page.run()
    before = open_page.page.evaluate("[scrollY, document.documentElement.scrollHeight]")
    open_page.page.locator(f"{SPECULATING} .sp-text .rejected").last.click()
    card = open_page.text(".sp-card")
    assert "rejected" in card and "min(1, p/q)" in card and "drawn" in card and "one-hot" in card
    assert open_page.page.locator(".sp-card-bars li .sp-bar").count() == 10  # the top five of p and of q
    assert open_page.page.evaluate("[scrollY, document.documentElement.scrollHeight]") == before
    open_page.page.keyboard.press("Escape")
    assert not open_page.page.is_visible(".sp-card")


def test_the_card_tells_the_rule_of_the_verifier_and_the_place_in_the_draft(open_page: Visit) -> None:
    page = open_page.page
    for verifier, chance, why in (
        ("exact", "min(1, p/q)", "p has beyond q"),
        ("match", "chance kept", "drew another"),
        ("coupled", "chance kept", "With the same noise"),
        ("ensemble", "min(1, r/q)", "the mixture r"),
        ("typical", "p high enough", "drawn from p"),
    ):
        for text in synthetic(page, 1, greedy=False, verifier=verifier):
            page.evaluate("(text) => window.playground.receive(text)", text)
        page.locator(f"{SPECULATING} .sp-text .corrected").click()
        card = open_page.text(".sp-card")
        assert chance in card and why in card and "round 1, place 3" in card
        page.keyboard.press("Escape")


def choose_verifier(page: Any, title: str) -> None:
    page.click("#sp-verifier input")
    page.get_by_role("option", name=title).click()


def test_a_lossy_verifier_is_labelled_beside_its_text_and_shows_its_own_settings(open_page: Visit) -> None:
    page = open_page.page
    assert not page.is_visible("#sp-ensemble-weight") and not page.is_visible("#sp-typical-epsilon")
    choose_verifier(page, "Ensemble")
    page.wait_for_selector("#sp-ensemble-weight")
    assert not page.is_visible("#sp-typical-epsilon")
    page.fill("#sp-ensemble-weight input[type=number]", "0.1")
    page.keyboard.press("Tab")
    open_page.run()
    label = open_page.text(f"{SPECULATING} .sp-lossy")
    assert label.startswith("lossy · TV 0.") and not page.is_visible(".sp-lane:first-child .sp-lossy")
    assert page.get_attribute(f"{SPECULATING} .sp-lossy", "title") == DEFINITIONS["tv"][1]
    assert open_page.text(".sp-status").startswith("Lossy: the verifier ensemble")
    assert "predicted" in open_page.text("[data-number=acceptance_rate] dt")
    assert "exactly" not in open_page.text("#sp-page")
    choose_verifier(page, "Typical")
    page.wait_for_selector("#sp-typical-delta")
    assert not page.is_visible("#sp-ensemble-weight")
    choose_verifier(page, "Exact")
    open_page.run()
    assert not page.is_visible(".sp-lossy") and "same 48 tokens" in open_page.text(".sp-status")


def test_with_shared_noise_sampled_lanes_write_the_same_and_the_page_says_so(open_page: Visit) -> None:
    page = open_page.page
    page.fill("#sp-temperature input[type=number]", "0.8")
    page.keyboard.press("Tab")
    choose_verifier(page, "Coupled")
    open_page.run()
    assert "same 48 tokens, as they must with shared noise" in open_page.text(".sp-status")
    assert "exact" in open_page.text("[data-number=acceptance_rate] dt")


def test_a_run_stopped_before_it_wrote_says_so_and_names_no_speedup(open_page: Visit) -> None:
    page = open_page.page
    view = View(spoken(2), (LaneInfo("Plain", False), LaneInfo("Lookup", True)), True)
    name = page.evaluate("window.playground.begin()")
    page.evaluate("window.playground.stop()")
    assert open_page.text(".sp-status") == "Stopping"
    begun = view.begin()
    view.end("stopped")
    for seq, message in enumerate((begun, {"steps": [view.take()]})):
        page.evaluate("(text) => window.playground.receive(text)", dump({"run": name, "seq": seq, **message}))
    assert open_page.text(".sp-status") == "Stopped before anything was written."
    assert "predicted" not in open_page.text("[data-number=speedup] dt")


def test_a_run_stopped_while_another_decodes_ends_at_once(open_page: Visit) -> None:
    page = open_page.page
    name = page.evaluate("window.playground.begin()")
    messages: list[dict[str, Any]] = [{"status": "Waiting for another run to end"}, {"status": "Stopped", "done": True}]
    for seq, message in enumerate(messages):
        page.evaluate("(text) => window.playground.receive(text)", dump({"run": name, "seq": seq, **message}))
    assert open_page.text(".sp-status") == "Stopped before anything was written."
    assert page.is_enabled("#sp-run") and page.is_disabled("#sp-stop")


def test_an_emoji_of_several_tokens_is_shown_whole_in_the_last_of_them(open_page: Visit) -> None:
    page = open_page.page
    whole = ["a", "👩‍💻", "🇩🇪", "👍🏽", "b"]
    view = View(spoken(1), (LaneInfo("Plain", False),), True)
    name = page.evaluate("window.playground.begin()")
    begun = view.begin()
    for i, token in enumerate(byte_tokenizer()("".join(whole))["input_ids"]):
        view.add(0, Round(i, (Token(token, "plain", p=1.0),), 0.0, 0.1, 0.0, 0.0, 1))
    view.end("stopped")
    for seq, message in enumerate((begun, {"steps": [view.take()]})):
        page.evaluate("(text) => window.playground.receive(text)", dump({"run": name, "seq": seq, **message}))
    shown = page.locator(f"{SPECULATING} .sp-text .t").all_text_contents()
    assert [text for text in shown if text != "◌"] == whole


def test_a_seed_that_is_no_whole_number_is_refused_not_rounded(open_page: Visit) -> None:
    page = open_page.page
    page.fill("#sp-temperature input[type=number]", "0.8")
    page.keyboard.press("Tab")
    page.wait_for_selector("#sp-seed")
    page.fill("#sp-seed input", "1.5")
    page.keyboard.press("Tab")
    open_page.run()
    assert "1.5" in open_page.text(".sp-error")


def test_arrow_keys_walk_the_tokens_and_the_card_goes_along(open_page: Visit) -> None:
    open_page.run()
    open_page.page.focus(f"{SPECULATING} .sp-text")
    seen = []
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "End", "Home"):
        open_page.page.keyboard.press(key)
        seen.append(open_page.text(".sp-card-where"))
    assert "round 1, place 1" in seen[0] and seen[5] == seen[0]
    assert len(set(seen[:5])) >= 3
    focused = open_page.page.evaluate("document.activeElement.classList.contains('chosen')")
    assert focused


def test_refused_tokens_can_be_hidden_and_arrows_pass_them_by(open_page: Visit) -> None:
    open_page.run()
    open_page.page.check("#sp-hide input")
    open_page.page.wait_for_selector(".sp-hiding")
    assert open_page.page.locator(f"{SPECULATING} .sp-text .rejected:visible").count() == 0
    open_page.page.focus(f"{SPECULATING} .sp-text")
    for _ in range(8):
        open_page.page.keyboard.press("ArrowRight")
        assert open_page.text(".sp-card-verdict") not in ("rejected", "discarded")


def slowly(events: Iterator[Any]) -> Iterator[Any]:
    """The events, a hundredth of a second apart."""
    for event in events:
        time.sleep(0.01)
        yield event


def test_stop_ends_the_run_and_keeps_what_was_written(open_page: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    # A run that lasts: on a busy machine 400 tokens of a tiny model are written before a press arrives.
    monkeypatch.setattr(runs_module, "race", lambda lanes: slowly(race(lanes)))
    open_page.page.fill("#sp-max_new_tokens input[type=number]", "400")
    open_page.page.click("#sp-run")
    assert open_page.page.is_disabled("#sp-run")
    open_page.page.wait_for_selector(f"{SPECULATING} .sp-text .t", timeout=60_000)
    open_page.page.keyboard.press("Escape")
    open_page.wait()
    assert "you stopped it" in open_page.text(f"{SPECULATING} .sp-end")
    assert open_page.page.locator(f"{SPECULATING} .sp-text .t").count() > 0
    assert open_page.page.is_enabled("#sp-run") and open_page.page.is_disabled("#sp-stop")


def test_control_enter_runs(open_page: Visit) -> None:
    open_page.page.focus("#sp-prompt textarea")
    open_page.page.keyboard.press("Control+Enter")
    open_page.wait()
    assert open_page.text(f"{SPECULATING} .sp-end") != ""


def test_an_error_is_shown_beside_its_cause_and_everything_stays(open_page: Visit) -> None:
    open_page.run()
    written = open_page.page.text_content(f"{SPECULATING} .sp-text")
    open_page.page.fill("#sp-target input", "nowhere")
    open_page.page.keyboard.press("Enter")
    open_page.run()
    assert "nowhere" in open_page.text(".sp-error") and "choose one of" in open_page.text(".sp-error")
    assert "nowhere" in open_page.text("#sp-target .sp-field-error")
    assert open_page.page.text_content(f"{SPECULATING} .sp-text") == written != ""


def test_only_what_applies_to_the_strategy_is_shown(open_page: Visit) -> None:
    page = open_page.page
    assert page.is_visible("#sp-assistant") and page.is_visible("#sp-assistant-schedule")
    assert not page.is_visible("#sp-prompt-lookup-ngram") and not page.is_visible("#sp-top_k")
    page.click("#sp-strategy label:has-text('Prompt lookup')")
    page.wait_for_selector("#sp-prompt-lookup-ngram")
    assert not page.is_visible("#sp-assistant") and not page.is_visible("#sp-assistant-schedule")
    page.click("#sp-strategy label:has-text('Plain decoding')")
    page.wait_for_selector("#sp-k", state="hidden")
    page.fill("#sp-temperature input[type=number]", "0.8")
    page.keyboard.press("Tab")
    page.wait_for_selector("#sp-top_k")


def test_a_preset_sets_models_strategy_settings_and_prompt_and_says_when_it_wins(open_page: Visit) -> None:
    page, wanted = open_page.page, PRESETS["early-exit"]
    page.click("#sp-preset input")
    page.get_by_role("option", name=wanted.title).click()
    page.wait_for_function("document.querySelector('#sp-early-exit-exit_layer input[type=range]')?.offsetParent")
    assert page.input_value("#sp-prompt textarea") == wanted.prompt
    assert page.input_value("#sp-target input") == CATALOGUE[wanted.target].title
    assert page.is_checked(f"#sp-strategy input[value={wanted.strategy}]")
    assert page.input_value("#sp-k input[type=number]") == str(wanted.k)
    slider = page.locator("#sp-early-exit-exit_layer input[type=range]")
    assert slider.input_value() == str(wanted.settings["exit_layer"])
    assert slider.get_attribute("max") == str((CATALOGUE[wanted.target].layers or 0) - 1)
    assert wanted.when in open_page.text("#sp-preset")


def test_with_the_strategy_comes_the_assistant_that_suits_it(open_page: Visit) -> None:
    page = open_page.page
    page.click("#sp-preset input")
    page.get_by_role("option", name=PRESETS["mtp-drafter"].title).click()
    page.wait_for_function(f"""document.querySelector('#sp-assistant input').value ===
        {json.dumps(CATALOGUE["story-gemma-assistant"].title)}""")
    page.check("#sp-strategy input[value=assistant]", force=True)
    page.wait_for_function(f"""document.querySelector('#sp-assistant input').value ===
        {json.dumps(CATALOGUE["story-drafter"].title)}""")


def test_an_example_fills_the_prompt(open_page: Visit) -> None:
    open_page.page.click("#sp-examples button:has-text('code')")
    open_page.page.wait_for_function("document.querySelector('#sp-prompt textarea').value.includes('palindrome')")


def test_model_text_is_never_parsed_as_html(open_page: Visit) -> None:
    evil = "<img src=x onerror=alert(1)>"
    page = open_page.page
    made = [json.loads(text) for text in synthetic(page, 1)]
    first = made[1]["steps"][0]["rounds"][1][2][0]
    first[0] = first[8][0][0] = evil
    for message in made:
        page.evaluate("(text) => window.playground.receive(text)", json.dumps(message))
    assert open_page.page.locator(".sp-live img").count() == 0
    assert evil in page.text_content(f"{SPECULATING} .sp-text")
    open_page.page.locator(f"{SPECULATING} .sp-text .t").first.click()
    assert open_page.page.locator(".sp-card img").count() == 0


def test_a_message_that_went_missing_is_asked_for_again(open_page: Visit) -> None:
    page = open_page.page
    page.evaluate(
        """() => { const view = window.playground, receive = view.receive.bind(view); let n = 0;
            view.receive = (text) => { n += 1; if (n % 3 !== 2) receive(text); }; }"""
    )
    open_page.run()
    shown = page.evaluate("window.playground.lanes[0].box.querySelectorAll('.t').length")
    assert shown == 48


def test_at_1280_by_720_prompt_run_lanes_numbers_and_plot_tops_are_on_the_first_screen(open_page: Visit) -> None:
    selectors = ("#sp-prompt", "#sp-run", ".sp-lane:first-child", SPECULATING, ".sp-strip")
    for selector in selectors:
        box = open_page.page.locator(selector).bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 720, selector
    assert open_page.page.locator(".sp-panel").first.bounding_box()["y"] < 660
    assert open_page.page.locator("h1").count() == 1


def test_nothing_jumps_while_tokens_arrive(open_page: Visit) -> None:
    where = "[...document.querySelectorAll('.sp-lane, .sp-strip, .sp-panel')].map(e => e.getBoundingClientRect().y)"
    before = open_page.page.evaluate(where)
    open_page.page.click("#sp-run")
    open_page.page.wait_for_selector(f"{SPECULATING} .sp-text .t", timeout=60_000)
    assert open_page.page.evaluate(where) == before
    open_page.wait()
    assert open_page.page.evaluate(where) == before


@pytest.mark.parametrize("query", ["?__theme=light", "?__theme=dark"])
def test_on_a_phone_controls_fold_away_lanes_stack_and_nothing_sticks_out(
    browser: Any, address: tuple[str, Runs], query: str
) -> None:
    one = visit(browser, address, 360, 740, query)
    one.page.wait_for_selector("#sp-target", state="hidden")
    one.run()
    first, second = (one.page.locator(s).bounding_box() for s in (".sp-lane:first-child", SPECULATING))
    assert first["x"] == second["x"] and second["y"] > first["y"]
    assert one.page.evaluate("document.documentElement.scrollWidth") == 360
    dark = one.page.evaluate("getComputedStyle(document.querySelector('.sp-live')).color")
    assert (dark == "rgb(232, 235, 241)") == query.endswith("dark")
    one.page.close()
    assert one.complaints == []


def test_closing_the_tab_ends_the_run(browser: Any, address: tuple[str, Runs]) -> None:
    import threading
    import time

    one = visit(browser, address)
    one.page.fill("#sp-max_new_tokens input[type=number]", "450")
    one.page.click("#sp-run")
    one.page.wait_for_selector(f"{SPECULATING} .sp-text .t", timeout=60_000)
    one.page.close()
    deadline = time.monotonic() + 10
    while [t for t in threading.enumerate() if t.name == "run"] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [t for t in threading.enumerate() if t.name == "run"]


def test_a_round_costs_the_page_the_same_at_round_300_as_at_round_30(open_page: Visit) -> None:
    """Main-thread processor time, plots included, of the rounds around 30 and around 300, at 25 rounds a second."""
    page = open_page.page
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))

    made = synthetic(page, 340)
    costs: list[float] = []
    page.wait_for_timeout(1500)  # the page's own start is over
    for start, end in ((0, 10), (10, 90), (90, 260), (260, 340)):
        before = spent()
        page.evaluate(
            """async ([texts, pause]) => { for (const text of texts) { window.playground.receive(text);
                await new Promise(r => setTimeout(r, pause)); } }""",
            [made[start:end], 40],
        )
        costs.append(1000 * (spent() - before) / (end - start))
    sizes = [len(text) for text in made]
    early, late = max(sizes[10:90]), max(sizes[260:340])
    print(f"\nms a message: {[round(c, 2) for c in costs]}; bytes a message: {early} and {late}")
    assert late <= 1.2 * early
    assert costs[3] <= 1.2 * costs[1] + 0.5


@pytest.mark.skipif(not (ASSETS / "models" / DEFAULT_ASSISTANT / "model.safetensors").is_file(), reason="no drafter")
def test_the_untouched_page_runs_the_bundled_pair(browser: Any) -> None:
    with served((DEFAULT_TARGET, DEFAULT_ASSISTANT), prompt="", chat=True, max_new_tokens=12, dtype=None) as address:
        one = visit(browser, address)
        one.run()
        assert "12 tokens" in one.text(f"{SPECULATING} .sp-end")
        assert "SmolLM2-135M-Instruct" in one.text(".sp-machine")
        one.page.close()
        assert one.complaints == [] and len(one.hosts) == 1


def spoken(lanes: int) -> list[Spoken]:
    """The wordings of so many lanes of bytes."""
    return [Spoken(byte_tokenizer()) for _ in range(lanes)]


def synthetic(page: Any, rounds: int, greedy: bool = True, verifier: str = "exact") -> list[str]:
    """Messages of a run with five tokens a round, one message a round of each lane."""
    view = View(spoken(2), (LaneInfo("Plain", False), LaneInfo("Lookup", True)), greedy, verifier)
    name = page.evaluate("window.playground.begin()")
    top = tuple((x, 0.2) for x in range(97, 102))

    def token(character: str, verdict: Any) -> Token:
        return Token(ord(character), verdict, 0.5, 0.5, 1.0, 0.5, 0.5, 0.5, top, top)

    made = [json.loads(dump(view.begin()))]
    for i in range(rounds):
        view.add(0, Round(i, (token("ab d "[i % 5], "plain"),), 0.0, 0.03, 0.001, 0.001, 1))
        kinds = ("accepted", "accepted", "rejected", "discarded", "corrected")
        drafted = tuple(token(c, v) for c, v in zip("lo" + " xy" if i % 2 else "w rds", kinds, strict=True))
        view.add(1, Round(i, drafted, 0.01, 0.035, 0.001, 0.001, 5))
        made.append({"steps": [view.take()]})
    return [dump({"run": name, "seq": n, **message}) for n, message in enumerate(made)]
