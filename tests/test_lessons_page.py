"""The lessons on the page: open, walk, set up, run, point; with the keyboard, on a phone, without anything of another
host."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browsing import Visit, needs_chromium, visit
from served import endless_pair, served

from playground.lessons import Lesson, lessons
from playground.ui import lessons as page_lessons
from playground.ui.form import Form
from playground.ui.lessons import step_forms
from playground.words import ENGLISH

pytestmark = needs_chromium
ALL = lessons(ENGLISH)
FORMS = step_forms(ALL, ("run", "compare", "reckon", "prove"))
# The run that a test puts in the place of a real one says nothing at all, and the page says that it was lost.
ENDED = "!window.playground.running && !document.querySelector('.sp-error').hidden"
OPENED = "window.playgroundLessons?.open && window.playgroundLessons.lessons.length"


@pytest.fixture(scope="module")
def classroom(browser: Any, address: tuple[str, Any]) -> Iterator[Visit]:
    """One page for all that only looks; it must not complain, nor ask another host for anything."""
    one = visit(browser, address)
    yield one
    one.page.close()
    assert one.complaints == []
    assert one.hosts == {address[0].split("/")[2]}


def open_lessons(one: Visit) -> None:
    one.page.wait_for_selector("#sp-lessons-open")
    if one.page.get_attribute("#sp-lessons-open", "aria-expanded") == "false":
        one.page.click("#sp-lessons-open")
    one.page.wait_for_function(OPENED)


def go(one: Visit, lesson: int, step: int) -> None:
    open_lessons(one)
    one.page.evaluate(f"window.playgroundLessons.go([{lesson}, {step}])")


def set_up(one: Visit, button: str = ".sp-lesson-set") -> None:
    one.page.click(button)
    one.page.wait_for_function("document.querySelector('.sp-lesson-said').textContent !== ''")


def pointed(one: Visit) -> list[str]:
    found = one.page.evaluate(
        "[...document.querySelectorAll('[data-sp-point]')].map((part) => part.getAttribute('data-sp-point'))"
    )
    return sorted(found)


def test_closed_it_takes_one_button_and_no_room(classroom: Visit) -> None:
    page = classroom.page
    page.wait_for_selector("#sp-lessons-open")
    assert page.get_attribute("#sp-lessons-open", "aria-expanded") == "false"
    assert not page.is_visible("#sp-lessons")
    assert page.evaluate("document.getElementById('sp-lessons-place').getBoundingClientRect().height") == 0
    assert pointed(classroom) == []
    bottom = page.evaluate("document.querySelector('.sp-plots').getBoundingClientRect().top")
    assert bottom < 720


@pytest.mark.parametrize("number", range(len(ALL)), ids=[lesson.name for lesson in ALL])
def test_a_step_runs_exactly_its_settings_and_what_it_points_at_is_there(
    classroom: Visit, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    heard: list[Form] = []

    def stream(_: str, form: Form, *__: Any) -> Iterator[str]:
        heard.append(form)
        yield from ()

    monkeypatch.setattr(type(classroom.runs), "stream", lambda _, *given: stream(*given))
    lesson = ALL[number]
    for i, step in enumerate(lesson.steps):
        go(classroom, number, i)
        assert classroom.text(".sp-lesson-text h3") == step.title
        assert classroom.page.is_visible(".sp-lesson-set") is (step.action.settings is not None)
        assert classroom.page.is_visible(".sp-lesson-run") is step.action.run
        if step.action.settings is not None:
            before = classroom.page.evaluate("window.playground.run")
            set_up(classroom, ".sp-lesson-run" if step.action.run else ".sp-lesson-set")
            if not step.action.run:
                assert heard == []
                classroom.page.click("#sp-run")
            classroom.page.wait_for_function(f"(before) => window.playground.run !== before && {ENDED}", arg=before)
            assert heard == [FORMS[lesson.name, i][0]]
            heard.clear()
        for selector in step.action.point:
            assert classroom.page.query_selector(selector) is not None, f"{lesson.name}, {step.title}: {selector}"
        if any(classroom.page.is_visible(selector) for selector in step.action.point):
            classroom.page.wait_for_function("document.querySelectorAll('[data-sp-point]').length > 0", timeout=5000)


def test_next_and_back_walk_all_steps_and_say_where_one_is(classroom: Visit) -> None:
    go(classroom, 0, 0)
    page = classroom.page
    first = ALL[0]
    assert page.is_disabled(".sp-lesson-back")
    assert classroom.text(".sp-lessons-progress") == f"Step 1 of {len(first.steps)}"
    for i in range(1, len(first.steps)):
        page.click(".sp-lesson-next")
        assert classroom.text(".sp-lessons-progress") == f"Step {i + 1} of {len(first.steps)}"
    assert classroom.text(".sp-lesson-next") == "Next lesson"
    page.click(".sp-lesson-next")
    assert classroom.text(".sp-lessons-title") == f"2. {ALL[1].title}"
    page.click(".sp-lessons-all")
    assert page.locator(".sp-lessons-entry").count() == len(ALL)
    assert pointed(classroom) == []


def test_the_answer_is_folded_away_until_it_is_asked_for(classroom: Visit) -> None:
    go(classroom, 2, len(ALL[2].steps) - 1)
    page = classroom.page
    assert not page.is_visible(".sp-lesson-answer")
    page.click(".sp-lesson-text summary")
    assert page.is_visible(".sp-lesson-answer")
    assert "discarded" in classroom.text(".sp-lesson-answer")


def test_a_part_has_its_number_and_loses_it_with_the_step(classroom: Visit) -> None:
    go(classroom, 2, 0)
    set_up(classroom)
    page = classroom.page
    page.wait_for_function("document.querySelectorAll('[data-sp-point]').length === 3")
    assert pointed(classroom) == ["1", "2", "3"]
    badge = "getComputedStyle(document.querySelector('#sp-k'), '::before').content"
    outline = "getComputedStyle(document.querySelector('#sp-k')).outlineStyle"
    assert (page.evaluate(badge), page.evaluate(outline)) == ('"1"', "dashed")
    page.click(".sp-lesson-text a[href='#2']")
    assert "#2" not in page.url
    assert page.evaluate("document.querySelector('.sp-here').dataset.number") == "tokens_per_pass"
    page.click(".sp-lessons-close")
    assert pointed(classroom) == []
    assert page.evaluate("document.querySelectorAll('.sp-here').length") == 0


def test_the_panel_stays_in_sight_when_it_points_far_down(classroom: Visit) -> None:
    go(classroom, 2, 1)
    page = classroom.page
    inside = """(selector) => {
        const { top, bottom } = document.querySelector(selector).getBoundingClientRect();
        return top >= 0 && bottom <= innerHeight;
    }"""
    page.wait_for_function(inside, arg="[data-panel=positions]")
    assert page.evaluate(inside, "#sp-lessons")
    assert page.evaluate("document.getElementById('sp-lessons').getBoundingClientRect().height") <= 170
    assert page.evaluate("document.getElementById('sp-side').getBoundingClientRect().top") == 0


def test_all_that_a_step_points_at_comes_into_sight_beside_the_panel(classroom: Visit) -> None:
    go(classroom, 5, 0)
    set_up(classroom)
    go(classroom, 5, 4)
    both = """() => {
        const clear = document.getElementById("sp-lessons").getBoundingClientRect().bottom;
        const [a, b] = ["#sp-early-exit-exit_layer", "[data-number=acceptance_rate]"].map(
            (selector) => document.querySelector(selector).getBoundingClientRect());
        return a.top >= 0 && a.bottom <= innerHeight && b.top >= clear && b.bottom <= innerHeight;
    }"""
    classroom.page.wait_for_function(both, timeout=5000)


def test_it_can_be_done_with_the_keyboard_alone(open_page: Visit) -> None:
    page = open_page.page
    page.wait_for_selector("#sp-lessons-open")
    page.focus("#sp-lessons-open")
    page.keyboard.press("Enter")
    page.wait_for_function(OPENED)
    active = "document.activeElement.className"
    assert page.evaluate(active) == "sp-lessons-title"
    page.keyboard.press("Tab")  # close
    page.keyboard.press("Tab")  # the first lesson
    page.keyboard.press("Enter")
    assert open_page.text(".sp-lessons-title") == f"1. {ALL[0].title}"
    assert page.evaluate(active) == "sp-lessons-title"
    page.focus(".sp-lesson-next")
    page.keyboard.press("Enter")
    assert open_page.text(".sp-lessons-progress") == f"Step 2 of {len(ALL[0].steps)}"
    assert page.evaluate(active) == "sp-lesson-next"
    page.keyboard.press("Escape")
    assert not page.is_visible("#sp-lessons")
    assert page.evaluate("document.activeElement.id") == "sp-lessons-open"


def test_on_a_phone_it_lies_at_the_foot_and_nothing_sticks_out(browser: Any, address: tuple[str, Any]) -> None:
    one = visit(browser, address, 360, 740)
    go(one, 0, 1)
    box = one.page.locator("#sp-lessons").bounding_box()
    assert (box["x"], box["width"]) == (0, 360)
    assert round(box["y"] + box["height"]) == 740
    assert one.page.evaluate("document.documentElement.scrollWidth") == 360
    assert one.page.evaluate("document.querySelector('#sp-settings > button').dataset.spPoint") == "1 2"
    one.page.close()


def test_another_language_is_said_at_the_same_step(classroom: Visit) -> None:
    go(classroom, 1, 2)
    speak = """(texts) => {
        window.playgroundTexts = texts;
        document.dispatchEvent(new CustomEvent("playground:language", { detail: "xx" }));
    }"""
    classroom.page.evaluate(speak, {"Back": "Zurück", "Step {n} of {all}": "Schritt {n} von {all}"})
    classroom.page.wait_for_function("document.querySelector('.sp-lesson-back').textContent === 'Zurück'")
    classroom.page.wait_for_function("document.querySelector('.sp-lessons-progress').textContent === 'Schritt 3 von 5'")
    assert classroom.text(".sp-lesson-text h3") == ALL[1].steps[2].title  # no such language: English
    classroom.page.evaluate(speak, {})
    classroom.page.wait_for_function("document.querySelector('.sp-lesson-back').textContent === 'Back'")


def with_tiny_target(folder: str, all_lessons: tuple[Lesson, ...]) -> tuple[Lesson, ...]:
    """The lessons with a tiny target, and drafts from the text itself."""

    def tiny(step: Any) -> Any:
        if step.action.settings is None:
            return step
        settings = {"preset": "prompt-lookup", "target": folder, "chat": False, "k": 5, "max_new_tokens": 24}
        return replace(step, action=replace(step.action, settings=settings))

    return tuple(replace(lesson, steps=tuple(map(tiny, lesson.steps))) for lesson in all_lessons)


def test_set_up_and_run_runs_what_was_set_up_and_ends_the_run_before(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = endless_pair(tmp_path)
    real = page_lessons.lessons
    monkeypatch.setattr(page_lessons, "lessons", lambda language: with_tiny_target(str(pair[0]), real(language)))
    with served(pair, max_new_tokens=1024) as address:
        one = visit(browser, address)
        page = one.page
        page.click("#sp-run")
        page.wait_for_function("window.playground.running && window.playground.next > 1")
        before = page.evaluate("window.playground.run")
        go(one, 0, 1)
        set_up(one, ".sp-lesson-run")
        page.wait_for_function(f"window.playground.run !== '{before}' && !window.playground.running", timeout=30_000)
        assert one.text(".sp-lane:last-child .sp-title").startswith("Prompt lookup")
        assert page.evaluate("window.playground.written") == [24, 24]
        assert one.complaints == []
        page.close()
