"""The lessons on the page: a panel above the tabs that sets the controls and points at the parts."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import gradio as gr

from playground.catalogue import usual_assistant
from playground.lessons import BadLesson, Lesson, Step, lessons
from playground.models import Library, Loaded, Progress, layer_count
from playground.presets import preset
from playground.sampling import verifier_settings
from playground.scripts import bundle
from playground.trace import InvalidRequest
from playground.ui.form import Form
from playground.ui.parts import Page
from playground.ui.presets import form_of
from playground.words import ENGLISH, languages
from strategies import strategy

MODULES = ("words.js", "lessons.js")
USUAL_PRESET = "assistant"  # what a step's settings are laid over where they name no preset
RUN_TAB = "run"
# What must be known of a value before it is looked up; the rest is checked as that of any run.
_TYPES: tuple[tuple[tuple[str, ...], type, str], ...] = (
    (("preset", "target", "strategy", "assistant", "verifier"), str, "a text"),
    (("settings", "verifier_settings"), dict, "an object of names and values"),
)

_MOUNT = """
mountLessons(element, { server, apply: (step) => trigger("apply", step) });
"""


def build(page: Page) -> None:
    """The button, the panel, and what a step sets.

    Raises:
        BadLesson: a lesson's file is not as it must be, or a step cannot be set up.
    """
    tabs = {tab.id for tab in page.tabs.children if isinstance(tab, gr.Tab)}
    forms = step_forms(lessons(ENGLISH), tabs)
    for language in languages():
        lessons(language)

    def lessons_in(language: str) -> list[dict[str, Any]]:
        return [told(lesson) for lesson in lessons(language if language in languages() else ENGLISH)]

    part = gr.HTML(
        value=None,
        html_template="<div></div>",
        js_on_load=f"{bundle(MODULES)}\n{_MOUNT}",
        apply_default_css=False,
        server_functions=[lessons_in],
        elem_id="sp-lessons-part",
    )

    def apply(event: gr.EventData) -> list[Any]:
        form, tab = _chosen(forms, event._data)
        return [*page.values(form), gr.update(selected=tab)]

    private: dict[str, Any] = {"queue": False, "api_visibility": "private", "show_progress": "hidden"}
    part.apply(apply, None, [*page.inputs, page.tabs], **private).success(
        None, js="() => { window.playgroundLessons.applied(); }", **private
    )


def step_forms(all_lessons: Collection[Lesson], tabs: Collection[str]) -> dict[tuple[str, int], tuple[Form, str]]:
    """What each step that sets something sets, and the tab that it opens, by lesson and number of the step (from 0).

    Raises:
        BadLesson: a value is not allowed, or the page would not keep it.
    """
    found = {}
    for lesson in all_lessons:
        for i, step in enumerate(lesson.steps):
            where = f"{lesson.name}, step {step.title!r}"
            tab = step.action.tab or RUN_TAB
            if tab not in tabs:
                raise BadLesson(f"{where}: tab is {tab!r}; it must be one of {', '.join(sorted(tabs))}.")
            if step.action.settings is not None:
                try:
                    found[lesson.name, i] = checked(step.action.settings), tab
                except InvalidRequest as error:
                    raise BadLesson(f"{where}: {error}") from error
            elif step.action.tab is not None:
                raise BadLesson(f"{where}: tab is {tab!r}; a step without settings opens none.")
    return found


def checked(settings: Mapping[str, Any]) -> Form:
    """The form that a step's settings make: a preset's, with these fields in place of its own. Loads nothing.

    Raises:
        InvalidRequest: a name or a value is not allowed, or the controls would set another assistant.
    """
    fields = dict(settings)
    for names, kind, allowed in _TYPES:
        for name in names:
            if not isinstance(fields.get(name, kind()), kind):
                raise InvalidRequest(f"{name} is {fields[name]!r}; it must be {allowed}.")
    base = form_of(preset(fields.pop("preset", USUAL_PRESET)))
    form = base.with_more(fields)
    form = replace(form, settings=_settings(base, form, fields), verifier_settings=_rule(base, form, fields))
    if strategy(form.strategy).needs_assistant:
        usual = usual_assistant(form.target, form.strategy)
        if fields.get("assistant", usual) != usual:
            raise InvalidRequest(
                f"assistant is {form.assistant!r}; the controls set {usual!r} for {form.target} and {form.strategy}."
            )
        form = replace(form, assistant=usual)
    _check_layers(form)
    try:
        form.prepare(_NoModels())
    except _Reached:
        return form
    raise AssertionError("a run without models")


def _settings(base: Form, form: Form, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The strategy's settings: the preset's own count while its strategy does."""
    own = base.settings if base.strategy == form.strategy else {}
    return dict(strategy(form.strategy).settled({**own, **fields.get("settings", {})}))


def _rule(base: Form, form: Form, fields: Mapping[str, Any]) -> dict[str, Any]:
    own = base.verifier_settings if base.verifier == form.verifier else {}
    return dict(verifier_settings(form.verifier, {**own, **fields.get("verifier_settings", {})}))


def _check_layers(form: Form) -> None:
    layers, exit_layer = layer_count(form.target), form.settings.get("exit_layer")
    if layers is not None and isinstance(exit_layer, int) and exit_layer >= layers:
        raise InvalidRequest(f"exit_layer is {exit_layer}; it must be less than the {layers} layers of {form.target}.")


class _Reached(Exception):
    """Everything that can be checked without a model was."""


class _NoModels(Library):
    def load(self, name: str, progress: Progress | None = None) -> Loaded:
        raise _Reached


def told(lesson: Lesson) -> dict[str, Any]:
    """What the page's script is told of a lesson."""
    return {
        "name": lesson.name,
        "title": lesson.title,
        "minutes": lesson.minutes,
        "steps": [_told_step(step) for step in lesson.steps],
    }


def _told_step(step: Step) -> dict[str, Any]:
    action = step.action
    return {
        "title": step.title,
        "html": step.html,
        "answer": step.answer,
        "sets": action.settings is not None,
        "run": action.run,
        "point": list(action.point),
    }


def _chosen(forms: Mapping[tuple[str, int], tuple[Form, str]], asked: Any) -> tuple[Form, str]:
    """What the step that the page's script named sets.

    Raises:
        gr.Error: there is no such step.
    """
    named = asked if isinstance(asked, dict) else {}
    key = (named.get("lesson"), named.get("step"))
    if not (isinstance(key[0], str) and type(key[1]) is int and key in forms):
        raise gr.Error(f"There is no step {key[1]!r} of a lesson {key[0]!r} that sets anything.")
    return forms[key[0], key[1]]
