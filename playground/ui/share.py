"""A link that holds all settings, and what a page does that was opened with one. Opening runs nothing and loads
nothing: it sets the controls, which check themselves when a run begins."""

import json
import secrets
from typing import Any

import gradio as gr
from gradio.context import Context
from starlette.responses import PlainTextResponse

from playground.address import FOREIGN, LONGEST, Problem, from_query, to_query
from playground.catalogue import CATALOGUE
from playground.scripts import bundle
from playground.ui.form import Form
from playground.ui.parts import Page
from playground.view import dump

MODULES = ("words.js", "share.js")
TOO_LONG = (
    "These settings make a link of {length} characters, and at most {most} are read. Shorten the prompt, or save the "
    "run as a trace and share the file."
)
FOLDER = "{model} is a folder of this machine. A link opens no folder: whoever opens it is told so."
REFUSED = 32_000  # characters of a query that no page is sent for: gradio breaks at twice as many
_MOUNT = "mountShare(element, { ...PARTS, watch, value: () => props.value });"


def link_button() -> gr.Button:
    """The button that makes the link."""
    return gr.Button("Link", elem_id="sp-link", size="sm", scale=0, min_width=56)


def build(page: Page, link: gr.Button, defaults: Form) -> None:
    """What `link` does, and what an address does when the page opens. An address leaves out what is as in `defaults`,
    which every page takes for the same."""
    tabs = [str(tab.id) for tab in page.tabs.children if isinstance(tab, gr.Tab)]
    start = page.form([one.value for one in page.inputs])
    models = [name for name in (start.target, start.assistant) if name]
    notices = gr.HTML(
        value=None,
        html_template="<div></div>",
        js_on_load=f"{bundle(MODULES)}\nconst PARTS = {json.dumps({'foreign': f'^(?:{FOREIGN})$'})};\n{_MOUNT}",
        apply_default_css=False,
        elem_id="sp-share",
    )
    known = gr.Textbox(visible=False)  # what only the page's script knows: its open tab, or its address

    def make(tab: str, language: str, *values: Any) -> str:
        form = page.form(values)
        query = to_query(form, defaults, tab if tab in tabs else None, language)
        if len(query) > LONGEST:
            return _message(problems=[(TOO_LONG, {"length": f"{len(query):,}", "most": f"{LONGEST:,}"})])
        folders = [name for name in (form.target, form.assistant) if name and name not in CATALOGUE]
        return _message(link=query, notes=[(FOLDER, {"model": name}) for name in folders])

    def open_address(query: str) -> list[Any]:
        opened = from_query(query, defaults, tabs, models)
        values = page.values(opened.form) if opened.form is not None else [gr.skip()] * len(page.inputs)
        tab = gr.update(selected=opened.tab) if opened.tab else gr.skip()
        problems = _message(problems=opened.problems) if opened.problems else gr.skip()
        return [problems, tab, *values]

    private: dict[str, Any] = {"queue": False, "api_visibility": "private", "show_progress": "hidden"}
    link.click(
        make, [known, page.language, *page.inputs], notices,
        js="(tab, ...rest) => [window.playgroundShare.tab(), ...rest]", **private,
    )  # fmt: skip
    blocks = Context.root_block
    assert blocks is not None, "a page is being built"
    blocks.load(open_address, known, [notices, page.tabs, *page.inputs], js="() => [location.search]", **private)


def _message(**content: list[Problem] | tuple[Problem, ...] | str) -> str:
    """What the script is told; never twice the same, or it would not notice. Gradio warns of what looks like HTML."""
    return dump({"id": secrets.token_hex(4), **content}).replace("<", "\\u003c")


class ShortAddresses:
    """The server's door: an address that is far too long gets a sentence in the place of a page."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Refuse it, or hand it on."""
        length = len(scope.get("query_string", b""))
        if scope["type"] != "http" or length <= REFUSED:
            await self._app(scope, receive, send)
            return
        text = f"The address is {length:,} characters long, and at most {LONGEST:,} are read: nothing was opened."
        await PlainTextResponse(text, status_code=414)(scope, receive, send)
