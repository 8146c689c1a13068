"""Stepping, slow motion and replay in headless Chromium, on tiny models."""

from typing import Any

import pytest
from browsing import Visit, needs_chromium, visit
from test_page import synthetic

pytestmark = needs_chromium
OURS = ".sp-lane:last-child .sp-text .t"
SPANS = """() => window.playground.active.map(lane => [...lane.box.querySelectorAll('.t')]
    .map(t => t.textContent + t.className.replace(/ (fresh|chosen|round)/g, '')))"""
STATE = "(() => { const p = window.playground.player; return [p.at, p.steps.length, p.playing, p.explaining]; })()"


def wait(page: Any, condition: str) -> None:
    page.wait_for_function(condition, timeout=30_000)


def sampled(one: Visit) -> None:
    one.page.fill("#sp-temperature input[type=number]", "1")
    one.page.keyboard.press("Tab")


def test_step_begins_a_run_paused_and_walks_through_its_first_round(open_page: Visit) -> None:
    page = open_page.page
    page.click("#sp-step")
    wait(page, "window.playground.stage.open && (window.playground.stage.walk(-9), true)")  # its clock stops
    assert page.locator(OURS).count() == 0  # not in the text before its last phase
    assert "guesses" in page.inner_text(".sp-stage-phases [aria-current=step]")
    assert page.locator(".sp-stage-row .guess").count() == 3
    seen = []
    while page.is_enabled(".sp-stage-next"):
        seen.append(page.inner_text(".sp-stage-phases [aria-current=step]"))
        page.click(".sp-stage-next")
    seen.append(page.inner_text(".sp-stage-phases [aria-current=step]"))
    assert list(dict.fromkeys(seen)) == [
        "The drafter guesses", "One target pass scores all", "Guesses are tested in order", "The target adds its own",
    ]  # fmt: skip
    drafted = page.eval_on_selector_all(f"{OURS}", "spans => spans.map(s => s.playground.round[1])")
    assert set(drafted) == {0}
    page.click(".sp-stage-close")
    assert page.locator(".sp-stage").is_hidden()
    open_page.wait()


def test_a_pause_holds_the_page_and_not_the_engine_and_play_shows_all(open_page: Visit) -> None:
    page = open_page.page
    page.click("#sp-step")
    open_page.wait()  # the engine has ended although one round at most is shown
    at, steps, playing, _ = page.evaluate(STATE)
    assert at < steps and not playing
    page.click("[data-player=play]")
    wait(page, "window.playground.player.behind === 0 && !window.playground.player.playing")
    assert "same 48 tokens" in open_page.text(".sp-status")
    assert page.inner_text("[data-player=play]") == "Play again"


def test_each_press_of_step_shows_one_round_more_with_what_the_other_lane_did(open_page: Visit) -> None:
    page = open_page.page
    open_page.run()
    last = page.evaluate(SPANS)
    page.evaluate("window.playground.player.seek(0)")
    rounds = page.evaluate("window.playground.player.steps.filter(s => s.rounds[0]?.[0] === 1).length")
    for n in range(1, rounds + 1):
        page.click("[data-player=step]")
        page.click("[data-player=step]")
        shown = page.eval_on_selector_all(OURS, "spans => spans.map(s => s.playground.round[1])")
        assert max(shown) == n - 1
    page.click("[data-player=play]")
    wait(page, "window.playground.player.behind === 0 && !window.playground.player.playing")
    assert page.evaluate(SPANS) == last


def test_going_back_and_forth_ends_where_the_run_ended(open_page: Visit) -> None:
    page = open_page.page
    open_page.run()
    assert page.inner_text("[data-player=play]") == "Play again"
    spans, numbers = page.evaluate(SPANS), open_page.text(".sp-strip")
    page.evaluate("window.playground.player.seek(5)")
    assert page.evaluate(SPANS) != spans
    half = page.evaluate(SPANS)
    page.evaluate("window.playground.player.seek(12)")
    page.evaluate("window.playground.player.seek(5)")
    assert page.evaluate(SPANS) == half
    page.evaluate("window.playground.player.seek(1e9)")
    assert page.evaluate(SPANS) == spans and open_page.text(".sp-strip") == numbers


def test_a_slower_speed_takes_longer_by_the_lanes_own_clocks(open_page: Visit) -> None:
    page = open_page.page
    open_page.run()
    page.select_option("[data-player=speed]", "0.2")
    begin = page.evaluate("performance.now()")
    page.click("[data-player=play]")
    wait(page, "!window.playground.player.playing")
    took = (page.evaluate("performance.now()") - begin) / 1000
    clock = page.evaluate("Math.max(...window.playground.player.times)")
    assert took > 0.9 * clock / 0.2


def test_the_bars_of_a_refused_token_are_p_q_and_what_p_has_beyond_q(open_page: Visit) -> None:
    page = open_page.page
    sampled(open_page)
    open_page.run()
    page.evaluate("window.playground.player.seek(0)")
    for _ in range(40):
        page.evaluate("window.playground.step()")
        page.evaluate("() => { const s = window.playground.stage; while (s.phase < s.phases.length - 1) s.walk(1); }")
        if page.locator(".sp-stage-bars tbody tr").count():
            break
    shares = page.eval_on_selector_all(
        ".sp-stage-bars tbody tr",
        """rows => rows.map(r => [...r.querySelectorAll('.sp-bar')]
            .map(b => Number(b.style.getPropertyValue('--share'))))""",
    )
    assert len(shares) >= 2
    assert all(rest == pytest.approx(max(0.0, p - q), abs=1e-4) for p, q, rest in shares)
    assert shares[0][1] > shares[0][0]  # the refused one: q held it likelier than p
    text = page.inner_text(".sp-stage-row")
    assert "≥" in text and "rejected" in text


def test_without_motion_wanted_all_phases_are_there_at_once(browser: Any, address: Any) -> None:
    one = visit(browser, address)
    one.page.emulate_media(reduced_motion="reduce")
    one.page.click("#sp-step")
    wait(one.page, "window.playground.stage.open")
    assert one.page.is_disabled(".sp-stage-next")
    one.wait()
    one.page.close()


def test_a_replay_keeps_up_with_sixty_rounds_a_second(open_page: Visit) -> None:
    page = open_page.page
    for text in synthetic(page, 320):
        page.evaluate("(text) => window.playground.receive(text)", text)
    times = page.evaluate("window.playground.player.times")
    assert len(times) == 320
    costs = page.evaluate(
        """async () => { const view = window.playground, p = view.player; view.setRunning(false); p.end();
            p.times = p.times.map((_, i) => (i + 1) / 60);
            const costs = [], show = p.show;
            p.show = (step) => { const begin = performance.now(); show(step); costs.push(performance.now() - begin); };
            p.play();
            while (p.playing) await new Promise(requestAnimationFrame);
            return costs; }"""
    )
    assert len(costs) == 320  # none is left out
    assert sorted(costs)[160] < 1000 / 60 / 2


def test_a_replay_is_refused_while_a_run_goes_on(open_page: Visit) -> None:
    page = open_page.page
    open_page.run()
    assert page.evaluate(
        """() => { const view = window.playground, kept = { ...view.head, steps: view.player.steps };
            view.setRunning(true); const first = view.replay(kept);
            view.setRunning(false); return [first, view.replay(kept)]; }"""
    ) == [False, True]
    assert "Replayed" in open_page.text(".sp-status")
