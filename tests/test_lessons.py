"""Lessons: every file is whole, every step can be set up, and a bad file says what is wrong."""

import re
from pathlib import Path
from typing import Any

import pytest

from playground.lessons import LESSONS, BadLesson, Lesson, Step, lessons, read
from playground.models import Library
from playground.trace import InvalidRequest
from playground.ui.lessons import checked, step_forms
from playground.words import ENGLISH, languages

ALL = lessons(ENGLISH)
STEPS = [(lesson, step) for lesson in ALL for step in lesson.steps]
NAMES = [f"{lesson.name}-{i}" for lesson in ALL for i, _ in enumerate(lesson.steps)]
TABS = ("run", "compare", "reckon", "prove")
TOPICS = (
    "why guessing ahead works", "reading the colours", "k too small and too large", "why it can be slower", "copying",
    "its own drafter", "two tokenizers", "exactness for speed",
)  # fmt: skip


def words(html: str) -> int:
    return len(re.sub(r"<[^>]+>", " ", html).split())


def test_every_topic_has_its_lesson_in_order() -> None:
    assert [lesson.name for lesson in ALL] == [f"{i}-{topic.replace(' ', '-')}" for i, topic in enumerate(TOPICS, 1)]
    assert all(2 <= lesson.minutes <= 6 for lesson in ALL)


@pytest.mark.parametrize(("lesson", "step"), STEPS, ids=NAMES)
def test_a_step_is_short_and_only_the_last_asks(lesson: Lesson, step: Step) -> None:
    asks = step is lesson.steps[-1]
    assert (step.answer is not None) is asks
    assert (20 if asks else 40) <= words(step.html) <= 90
    assert step.answer is None or 40 <= words(step.answer) <= 110


def test_every_lesson_runs_something_and_points_at_something() -> None:
    for lesson in ALL:
        assert any(step.action.run for step in lesson.steps)
        assert all(step.action.point for step in lesson.steps)


def test_every_step_can_be_set_up_and_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: Any) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(Library, "load", load)
    forms = step_forms(ALL, TABS)
    assert set(forms) == {
        (lesson.name, i) for lesson in ALL for i, s in enumerate(lesson.steps) if s.action.settings is not None
    }


@pytest.mark.parametrize("language", languages())
def test_a_language_has_every_lesson_with_the_same_actions(language: str) -> None:
    translated = lessons(language)
    assert [lesson.name for lesson in translated] == [lesson.name for lesson in ALL]
    actions = [[step.action for step in lesson.steps] for lesson in translated]
    assert actions == [[step.action for step in lesson.steps] for lesson in ALL]


@pytest.mark.parametrize("language", languages())
def test_a_language_has_a_file_of_its_own_for_every_lesson(language: str) -> None:
    # Above, English would stand in for a file that is missing.
    assert {path.stem for path in (LESSONS / language).glob("*.md")} == {lesson.name for lesson in ALL}


def test_settings_lie_over_those_of_a_preset() -> None:
    form = checked({"preset": "early-exit", "settings": {"exit_layer": 5}, "temperature": 0.5})
    assert (form.target, form.strategy, form.temperature) == ("story-teller", "early-exit", 0.5)
    assert form.settings == {"exit_layer": 5, "confidence": 0.0}
    # With another strategy the preset's own settings say nothing, and its assistant is the usual one again.
    form = checked({"preset": "early-exit", "strategy": "assistant"})
    assert form.assistant == "story-drafter"
    assert "exit_layer" not in form.settings


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"preset": "turbo"}, "preset is 'turbo'"),
        ({"strategy": "magic"}, "strategy is 'magic'"),
        ({"verifier": "hope"}, "verifier is 'hope'"),
        ({"target": "gpt-9"}, "gpt-9"),
        ({"speed": 3}, "'speed' is no setting"),
        ({"k": 0}, "K is 0"),
        ({"temperature": "hot"}, "temperature is 'hot'"),
        ({"prompt": " "}, "prompt is empty"),
        ({"settings": {"exit_layer": 2}}, "no setting 'exit_layer'"),
        ({"settings": 3}, "settings is 3"),
        ({"preset": 3}, "preset is 3"),
        ({"preset": "early-exit", "settings": {"exit_layer": 16}}, "exit_layer is 16"),
        ({"preset": "ensemble", "verifier_settings": {"weight": 2}}, "weight is 2"),
        ({"preset": "prompt-lookup", "verifier": "ensemble"}, "which mixes the drafter's probabilities in"),
        ({"preset": "universal", "assistant": "smollm2-drafter"}, "the controls set 'story-drafter'"),
    ],
)
def test_settings_that_cannot_be_set_up_are_refused_by_name(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(said)):
        checked(settings)


GOOD_ACTION = '```json\n{"settings": {"k": 2}, "run": true, "point": ["#sp-k"]}\n```\n'
GOOD = (
    "---\ntitle: A lesson\nminutes: 3\n---\n\n## One\n\nSee [K](#1).\n\n" + GOOD_ACTION
    + "\n## Two\n\nText.\n\n## Three\n\nText.\n\n## Question\n\nWhy?\n\n> Because.\n"
)  # fmt: skip


def written(folder: Path, text: str, name: str = "1-a.md", language: str = ENGLISH) -> Path:
    path = folder / language / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_good_file_is_read(tmp_path: Path) -> None:
    lesson = read(written(tmp_path, GOOD))
    assert (lesson.name, lesson.title, lesson.minutes) == ("1-a", "A lesson", 3)
    assert [step.title for step in lesson.steps] == ["One", "Two", "Three", "Question"]
    assert lesson.steps[0].html == '<p>See <a href="#1">K</a>.</p>'
    assert lesson.steps[0].action.settings == {"k": 2}
    assert lesson.steps[0].action.point == ("#sp-k",)
    assert lesson.steps[-1].html == "<p>Why?</p>"
    assert lesson.steps[-1].answer == "<p>Because.</p>"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("---\ntitle", "title", "it must begin with ---"),
        ("title: A lesson\n", "", "it has no title"),
        ("minutes: 3", "minutes: few", "minutes is 'few'"),
        ("minutes: 3", "minutes: 3\nlevel: 1", "'level: 1'"),
        ("## Two", "Hello\n\n# Two", "'Two' must be one of a step"),
        ("## One", "Hello\n\n## One", "nothing may stand before the first step"),
        ("## Two\n\nText.\n\n## Three\n\nText.\n\n", "", "it has 2 sections"),
        ("## Two\n\nText.", "## Two", "step 'Two': it has no text"),
        ("> Because.", "", "step 'Question': the last section is the question"),
        ("## Two\n\nText.", "## Two\n\nText.\n\n> So.", "step 'Two': only the last section"),
        ("> Because.", "> Because.\n\nMore.", "step 'Question': the answer (>) must be the end"),
        ("[K](#1)", "[K](#2)", "step 'One': the link '#2' must be one of #1"),
        ("[K](#1)", "[K](https://example.org)", "step 'One': the link 'https://example.org'"),
        ("[K](#1)", "[K](data:image/png;base64,x) [K](#1)", "step 'One': the link 'data:"),
        ("[K](#1)", "K", "step 'One': it points at '#sp-k'"),
        ("```json", "```yaml", "step 'One': it may have one block of code"),
        ('"run": true', '"run": 1', "step 'One': run is 1"),
        ('"run": true', '"run": true, "run": false', "step 'One': its json cannot be read: a name stands"),
        ('"k": 2', '"k": NaN', "step 'One': its json cannot be read: NaN"),
        ('{"k": 2}', "[]", "step 'One': settings is []"),
        ('"settings": {"k": 2}, ', "", "step 'One': run is True"),
        ('"run"', '"jump"', "step 'One': its json has 'jump'"),
        ('["#sp-k"]', '"#sp-k"', "step 'One': point is '#sp-k'"),
        ('["#sp-k"]', '["#sp-k", 1]', "step 'One': point is ['#sp-k', 1]"),
    ],
)  # fmt: skip
def test_a_bad_file_says_which_step_and_what(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(BadLesson, match=re.escape(said)) as error:
        read(written(tmp_path, GOOD.replace(old, new)))
    assert "en/1-a.md" in str(error.value)


def test_a_step_that_cannot_be_set_up_names_lesson_and_step(tmp_path: Path) -> None:
    bad = read(written(tmp_path, GOOD.replace('{"k": 2}', '{"k": 999}')))
    with pytest.raises(BadLesson, match="1-a, step 'One': K is 999"):
        step_forms([bad], TABS)
    tab = read(written(tmp_path, GOOD.replace('"run": true', '"tab": "moon"')))
    with pytest.raises(BadLesson, match="1-a, step 'One': tab is 'moon'"):
        step_forms([tab], TABS)


HOSTILE = (
    "<script>alert(1)</script> <img src=x onerror=alert(1)> <https://example.org>\n\n"
    "<div onclick=alert(1)>x</div>\n\n<iframe src=x></iframe>\n\n`<b>`"
)


def test_no_html_of_the_file_reaches_the_page(tmp_path: Path) -> None:
    hostile = GOOD.replace("Text.", HOSTILE, 1).replace("Because.", "<script>alert(1)</script> so")
    lesson = read(written(tmp_path, hostile))
    for html in (lesson.steps[1].html, lesson.steps[-1].answer or ""):
        assert set(re.findall(r"<\s*/?\s*([a-z0-9]+)", html)) <= {"p", "code", "em", "strong"}
        assert "&lt;script&gt;" in html
    with pytest.raises(BadLesson):
        read(written(tmp_path, GOOD.replace("Text.", "![x](https://example.org/x.png)", 1)))


def test_a_translation_takes_its_actions_from_the_english_file(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    written(tmp_path, GOOD, "2-b.md")
    written(tmp_path, GOOD.replace(GOOD_ACTION, "").replace("A lesson", "Uma"), language="pt")
    first, second = lessons("pt", tmp_path)
    assert (first.title, second.title) == ("Uma", "A lesson")
    assert first.steps[0].action == second.steps[0].action
    assert lessons("../en", tmp_path)[0].title == "A lesson"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"k": 2', '"k": 3', "pt/1-a.md, step 'One': its json differs"),
        ("## Two\n\nText.\n\n", "## Two\n\nText.\n\n## More\n\nText.\n\n", "pt/1-a.md: it has 5 sections"),
        ("[K](#1)", "K", "pt/1-a.md, step 'One': it points at '#sp-k'"),
    ],
)
def test_a_translation_that_does_not_fit_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    written(tmp_path, GOOD)
    written(tmp_path, GOOD.replace(old, new), language="pt")
    with pytest.raises(BadLesson, match=re.escape(said)):
        lessons("pt", tmp_path)


def test_a_file_with_another_kind_of_name_is_refused(tmp_path: Path) -> None:
    written(tmp_path, GOOD, "Intro.md")
    with pytest.raises(BadLesson, match="Intro.md"):
        lessons(ENGLISH, tmp_path)
