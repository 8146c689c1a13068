"""The page's language: from the address, the reader's last choice or the browser; the text of every component follows.

The English texts are those that the components were built with. What a component says only at some value of it is in
`speeches`.
"""

from collections.abc import Callable
from typing import Any

import gradio as gr
from gradio.components.api_component import Api

from playground.scripts import bundle
from playground.ui.controls import strategy_choices, verifier_info
from playground.ui.presets import preset_choices, preset_info
from playground.view import dump
from playground.words import ENGLISH, best, dictionary, languages, say

MODULES = ("words.js", "language.js", "projector.js")
TEXTS = ("label", "info", "placeholder")  # of a component, as a person reads them
# What is wanted, best first: the address's, then the last choice. What the browser wants is in its request.
_WANTED = """(_, ...rest) => {
  let last = "";
  try { last = localStorage.getItem("sp-language") ?? ""; } catch {}
  return [`${new URLSearchParams(location.search).get("lang") ?? ""},${last}`, ...rest];
}"""
_CHOSEN = """(code, ...rest) => {
  try { localStorage.setItem("sp-language", code); } catch {}
  const address = new URL(location.href);
  if (address.searchParams.has("lang")) {
    address.searchParams.set("lang", code);
    history.replaceState(history.state, "", address);
  }
  return [code, ...rest];
}"""
Speech = Callable[[str, Any], dict[str, Any]]  # a language and a component's value: the properties to set


def language_control() -> gr.Dropdown:
    """The switch, which is rendered where the page wants it."""
    return gr.Dropdown(
        [(name, code) for code, name in languages().items()], value=ENGLISH, label="Language", show_label=False,
        container=False, filterable=False, min_width=90, scale=0, elem_id="sp-language", render=False,
    )  # fmt: skip


def speak_everywhere(demo: gr.Blocks, language: gr.Dropdown, picked: gr.Dropdown, fields: dict[str, Any]) -> None:
    """Let `language` decide what every component of `demo` says. Called once all of them are built."""
    wanted = gr.Textbox(visible=False)
    texts = gr.HTML(
        html_template="<div></div>",
        js_on_load=f"{bundle(MODULES)}\nmountLanguage({{ watch, value: () => props.value }});\nmountProjector();",
        apply_default_css=False,
        elem_id="sp-words",
    )
    own = speeches(picked, fields)
    spoken = [block for block in demo.blocks.values() if block._id in own or properties(block)]
    valued = [block for block in spoken if block._id in own and isinstance(block, gr.components.FormComponent)]
    outputs: list[Any] = [language, texts, *spoken]

    def speak(code: str, *held: Any) -> list[Any]:
        values = {block._id: value for block, value in zip(valued, held, strict=True)}
        said = [_said(block, code, own.get(block._id), values.get(block._id)) for block in spoken]
        return [code, dump({"language": code, "texts": dictionary(code)}), *said]

    def greet(first: str, request: gr.Request, *held: Any) -> list[Any]:
        code = chosen(first, request.headers.get("accept-language", ""))
        return [gr.skip()] * len(outputs) if code == ENGLISH else speak(code, *held)

    private: dict[str, Any] = {"queue": False, "api_visibility": "private", "show_progress": "hidden"}
    demo.load(greet, [wanted, *valued], outputs, js=_WANTED, **private)
    language.input(speak, [language, *valued], outputs, js=_CHOSEN, **private)


def chosen(first: str, accepted: str) -> str:
    """The first known code of `first`, codes with commas between them; or what an Accept-Language header wants."""
    return next((code for code in first.split(",") if code in languages()), best(accepted))


def speeches(picked: gr.Dropdown, fields: dict[str, Any]) -> dict[int, Speech]:
    """By a component's id, what it says where that depends on its value, or is put together from several texts."""
    return {
        picked._id: lambda code, name: {"choices": preset_choices(code), "info": preset_info(code, name)},
        fields["strategy"]._id: lambda code, _: {"choices": strategy_choices(code)},
        fields["verifier"]._id: lambda code, name: {"info": verifier_info(code, name)},
    }


def properties(block: Any) -> dict[str, Any]:
    """The English texts of a component, by the property that holds them, each a text, or (text, value) pairs for
    `choices`, or a list of texts for an Examples' labels."""
    if not isinstance(block, gr.components.Component | gr.Tab | gr.Accordion) or isinstance(block, Api | gr.State):
        return {}
    found = {name: text for name in TEXTS if isinstance(text := getattr(block, name, None), str) and text}
    if isinstance(block, gr.Button | gr.DownloadButton | gr.UploadButton | gr.Markdown):
        name = "value" if isinstance(block, gr.Button | gr.Markdown) else "label"
        text = getattr(block, name)
        found = {name: text} if isinstance(text, str) and text else {}
    if choices := getattr(block, "choices", None):
        found["choices"] = choices
    if labels := getattr(block, "sample_labels", None):
        found["sample_labels"] = labels
    return found


def translated(properties: dict[str, Any], language: str) -> dict[str, Any]:
    """The same in `language`; values stay."""
    return {name: _in(language, held) for name, held in properties.items()}


def _in(language: str, held: Any) -> Any:
    if isinstance(held, str):
        return say(language, held)
    return [_in(language, one) if isinstance(one, str) else (say(language, one[0]), one[1]) for one in held]


def _said(block: Any, language: str, speech: Speech | None, value: Any) -> Any:
    own = {} if speech is None else speech(language, value)
    return gr.update(**translated(properties(block), language) | own)
