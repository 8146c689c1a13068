"""Figures: what they show of given numbers, and that the page's skeletons are the same figures, empty."""

import json
import re

import pytest

from playground import plots
from playground.html import PANELS, STRIP, legend, live_view
from playground.metrics import DEFINITIONS
from playground.models import ASSETS
from playground.trace import VERDICTS

CSS = (ASSETS / "style" / "tokens.css").read_text(encoding="utf-8")
FILLED = {
    "acceptance": plots.acceptance([4, 8], [0.5, None], [0.5, 0.75]),
    "speedup": plots.speedup([4, 8], [1.2, 1.4], [1.5, None]),
    "timeline": plots.timeline(["Plain", "Lookup"], [0.0, 0.0], [0.1, 0.02], [False, True]),
    "lengths": plots.lengths([3, 0, 2]),
    "positions": plots.positions([0.9, 0.5], [0.9, None]),
    "time": plots.time(["Plain", "Lookup"], [[0.1, 0, 1, 0, 0], [0.1, 0.2, 0.5, 0, 0]]),
}


def test_every_panel_of_the_page_has_a_skeleton() -> None:
    assert set(plots.skeletons()) == {name for name, _, _ in PANELS} == set(FILLED)


@pytest.mark.parametrize("name", sorted(FILLED))
def test_a_skeleton_is_the_figure_without_its_numbers(name: str) -> None:
    empty, full = plots.skeletons()[name], FILLED[name].to_plotly_json()
    assert [t.get("name") for t in empty["data"]] == [t.get("name") for t in full["data"]]
    assert empty["layout"] == full["layout"]
    json.dumps(empty)


@pytest.mark.parametrize("name", sorted(FILLED))
def test_every_axis_of_numbers_says_what_it_is(name: str) -> None:
    layout = FILLED[name].layout
    assert layout.xaxis.title.text
    horizontal = any(t.type == "bar" and t.orientation == "h" for t in FILLED[name].data)
    assert layout.yaxis.title.text or horizontal


@pytest.mark.parametrize("name", sorted(FILLED))
def test_every_trace_has_a_colour_of_the_page_in_light_and_in_dark(name: str) -> None:
    for trace in FILLED[name].data:
        assert len(re.findall(rf"--sp-{trace.meta['colour']}:", CSS)) == 2


def test_rates_are_drawn_in_percent_and_gaps_stay_gaps() -> None:
    assert list(FILLED["acceptance"].data[0].y) == [50.0, None]
    assert list(FILLED["positions"].data[1].y) == [90.0, None]


def test_draft_and_target_time_have_colours_of_their_own() -> None:
    colours = {t.name: t.meta["colour"] for t in FILLED["timeline"].data}
    assert colours == {"draft": "draft", "target pass": "target"}
    assert not set(colours.values()) & set(VERDICTS)


def _colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"--sp-([\w-]+):\s*(#[0-9a-f]{6})", block))


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _mix(colour: str, paper: str, share: float) -> str:
    pairs = [(int(colour[i : i + 2], 16), int(paper[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02x}" for a, b in pairs)


def _contrast(a: str, b: str) -> float:
    light, dark = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_colours_stand_out_4_5_to_1_from_what_is_behind_them(mode: str) -> None:
    light, dark = CSS.split(".dark {")
    colours = _colours(light if mode == "light" else dark.split("}")[0])
    tint = 0.09 if mode == "light" else 0.14
    for name in ("accepted", "rejected", "discarded", "corrected", "bonus", "ink", "muted"):
        assert _contrast(colours[name], colours["paper"]) >= 4.5, name
    for name in ("accepted", "rejected"):
        assert _contrast(colours[name], _mix(colours[name], colours["paper"], tint)) >= 4.5, name
    for name in ("ink", "muted"):
        assert _contrast(colours[name], colours["panel"]) >= 4.5, name
    for name in ("draft", "target"):  # bars: 3 to 1, and apart from each other
        assert _contrast(colours[name], colours["paper"]) >= 3, name


def test_every_verdict_has_a_look_of_its_own_and_a_line_in_the_legend() -> None:
    for verdict in VERDICTS:
        assert f".sp-live .{verdict} {{" in CSS
        assert f'class="t {verdict}">{verdict}</span>' in legend()


def test_every_number_of_the_strip_carries_its_definition() -> None:
    from html import escape

    page = live_view()
    for key, _ in STRIP:
        assert escape(DEFINITIONS["measured_speedup" if key == "speedup" else key][1]) in page
