"""The tab Reckon: a run's numbers from its messages, what the figures and sentences say of them, and the page."""

import json
import math
import re
from typing import Any

import pytest
from browsing import Visit, needs_chromium
from fakes import byte_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from playground import theory
from playground.metrics import Tally
from playground.models import ASSETS
from playground.reckon import OWN, WHAT_IFS, Measured, Setting, measured, what_if
from playground.reckon_figures import OVER_C, OVER_K, round_time, speedup_map, speedup_over_k
from playground.reckon_words import costs_sentence, formulas, sentences, strip
from playground.trace import InvalidRequest, Round, Token, Verdict
from playground.view import LaneInfo, Spoken, View, dump

LANES = (LaneInfo("Plain decoding", False), LaneInfo("Assistant model, K = 3", True))
CSS = (ASSETS / "style" / "tokens.css").read_text(encoding="utf-8")
VALUES = st.floats(0, 1)
SETTINGS = st.builds(Setting, VALUES, VALUES, VALUES, st.integers(1, 16))


def one_round(index: int, *verdicts: Verdict, draft: float = 0.012, verify: float = 0.05) -> Round:
    q = None if verdicts == ("plain",) else 0.6
    made = tuple(Token(97, verdict, p=0.5, q=q, overlap=q) for verdict in verdicts)
    drafted = sum(v in ("accepted", "rejected", "discarded") for v in verdicts)
    return Round(index, made, draft if drafted else 0.0, verify, 0.001, 0.002, drafted + 1)


def rounds() -> list[list[Round]]:
    plain = [one_round(i, "plain", verify=0.04) for i in range(8)]
    ours = [
        one_round(0, "accepted", "accepted", "rejected", "corrected"),
        one_round(1, "rejected", "discarded", "discarded", "corrected"),
        one_round(2, "accepted", "accepted", "bonus", draft=0.008, verify=0.045),
        one_round(3, "plain", verify=0.04),
    ]
    return [plain, ours]


def messages(lanes: int = 2, steps: bool = False) -> list[str]:
    """Of a run of these rounds, as the page gets them: a message a round, or several in one."""
    view = View([Spoken(byte_tokenizer()) for _ in range(lanes)], LANES[-lanes:], True)
    made: list[dict[str, Any]] = [{"status": "Checking"}, view.begin()]
    taken = []
    for lane, ones in enumerate(rounds()[-lanes:]):
        for one in ones:
            view.add(lane, one)
            taken.append(json.loads(dump(view.take())))
    made += [{"steps": taken[:5]}, {"steps": taken[5:]}] if steps else taken
    return [dump({"run": "x", "seq": i, **one}) for i, one in enumerate(made)]


@pytest.mark.parametrize("steps", [False, True])
def test_a_runs_numbers_are_those_of_its_tally(steps: bool) -> None:
    plain, ours = map(Tally.of, rounds())
    got = measured(messages(steps=steps))
    assert got.alpha == pytest.approx(0.6) and got.from_p_and_q
    assert got.c == pytest.approx(ours.cost_ratio(plain), rel=1e-4)
    assert got.verify == pytest.approx(ours.verify_ratio(plain), rel=1e-3)
    assert got.k == 8 / 4 and got.tokens == pytest.approx(8 / 4)
    assert 1 + got.k * got.v == pytest.approx(got.verify)
    assert got.pass_seconds == pytest.approx(0.04, rel=1e-3)
    assert got.speedup == pytest.approx(ours.measured_speedup(plain), rel=1e-4)
    assert got.predicted == pytest.approx(ours.predicted_speedup(plain), rel=1e-4)
    assert got.predicted_wider == pytest.approx(ours.predicted_speedup(plain, measured_verify=True), rel=1e-4)
    assert got.efficiency == pytest.approx(ours.numbers(plain)["efficiency"], rel=1e-3)
    # The bars of the time of a round say the same speedup as the run.
    assert got.plain is not None and got.speedup is not None
    assert got.tokens * sum(got.plain) / (got.draft + got.verify + got.sample) == pytest.approx(got.speedup, rel=1e-3)


def test_without_a_plain_lane_nothing_is_called_a_measured_speedup() -> None:
    got = measured(messages(lanes=1))
    assert got.speedup is None and got.plain is None and got.efficiency is None
    said = " ".join(sentences("en", got.setting(), got))
    assert "no plain lane" in said and f"{got.predicted:.2f}× for it" in said
    assert [cell["value"] for cell in strip("en", got.setting(), got)][-1] == "–"
    assert not [t for t in speedup_over_k("en", got.setting(), got)["data"] if "measured" in t["name"]]


def test_where_there_is_no_run_or_no_draft_the_way_out_is_named() -> None:
    with pytest.raises(InvalidRequest, match="Press Run"):
        measured([])
    with pytest.raises(InvalidRequest, match="Press Run"):
        measured(messages()[:2])
    with pytest.raises(InvalidRequest, match="drafted nothing"):
        measured([*messages()[:2], _plain_message()])


def _plain_message() -> str:
    view = View([Spoken(byte_tokenizer())] * 2, LANES, True)
    view.add(0, one_round(0, "plain"))
    view.add(1, one_round(0, "plain"))
    return dump({"run": "x", "seq": 2, **view.take()})


def a_run(**values: Any) -> Measured:
    plain: dict[str, Any] = {
        "title": "Assistant", "alpha": 0.7, "from_p_and_q": True, "c": 0.1, "k": 3.0, "tokens": 2.4, "draft": 0.3,
        "verify": 1.2, "sample": 0.1, "pass_seconds": 0.04, "speedup": 1.4, "predicted": 1.6, "predicted_wider": 1.5,
        "plain": (1.0, 0.02),
    }  # fmt: skip
    return Measured(**plain | values)


def test_what_the_sliders_cannot_say_is_brought_to_their_ends_and_said() -> None:
    run = a_run(c=1.7, k=24.0, verify=0.9)
    now = run.setting()
    assert (now.c, now.k, now.v) == (1.0, 16, 0.0)
    said = costs_sentence("en", OWN, now, run)
    assert "1.7" in said and "measured" in said and "end at 1" in said


@pytest.mark.parametrize(
    ("name", "value"),
    [("alpha", 1.2), ("alpha", math.nan), ("c", -0.1), ("v", None), ("k", 0), ("k", 17), ("k", "3"), ("c", True)],
)
def test_a_bad_value_is_refused_by_name_with_what_is_allowed(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=rf"^{'K' if name == 'k' else name} is .*from \d to \d+"):
        Setting(**{name: value})


@settings(max_examples=40)
@given(SETTINGS)
def test_every_setting_has_its_figures_numbers_and_sentences(now: Setting) -> None:
    for run in (None, a_run()):
        for figure in (
            speedup_over_k("en", now, run), speedup_map("en", now, run, OVER_K), speedup_map("en", now, run, OVER_C),
            round_time("en", now, run),
        ):  # fmt: skip
            text = json.dumps(figure, allow_nan=False)
            assert "nan" not in text
            assert figure["layout"]["xaxis"]["title"]["text"]
        said = sentences("en", now, run)
        assert all(said) and not re.search(r"[{}]", " ".join(said))
        assert strip("en", now, run) and formulas("en", now, run)


@given(SETTINGS, st.sampled_from([OVER_K, OVER_C]))
def test_a_cell_has_the_colour_of_a_slowdown_exactly_where_theory_predicts_one(now: Setting, over: str) -> None:
    cells = speedup_map("en", now, None, over)["data"][0]
    for alpha, base, height, colour in zip(
        cells["x"][::7], cells["base"][::7], cells["y"][::7], cells["marker"]["color"][::7], strict=True
    ):
        row = base + height / 2
        k, c = (row, now.c) if over == OVER_K else (now.k, row)
        assert colour == pytest.approx(math.log2(theory.round_speedup(alpha, k, c, now.v)), abs=2e-3)


@given(SETTINGS, st.sampled_from([OVER_K, OVER_C]))
def test_on_the_contour_line_the_speedup_is_1(now: Setting, over: str) -> None:
    line = speedup_map("en", now, None, over)["data"][1]
    for alpha, y in zip(line["x"], line["y"], strict=True):
        k, c = (y, now.c) if over == OVER_K else (now.k, y)
        assert theory.round_speedup(alpha, k, c, now.v) == pytest.approx(1, abs=2e-3)


def test_the_marked_k_is_the_highest_point_of_the_thick_curve() -> None:
    for now in (Setting(), Setting(0.95, 0.02, 0.0, 2), Setting(0.3, 0.1, 0.05, 9)):
        traces = speedup_over_k("en", now, None)["data"]
        thick = next(t for t in traces if t["mode"] == "lines" and t["line"]["width"] > 2)
        star = next(t for t in traces if t["mode"] == "markers" and t["marker"]["symbol"] == "star")
        assert star["x"][0] == thick["x"][thick["y"].index(max(thick["y"]))]
        assert f"The best K is {star['x'][0]}:" in sentences("en", now, None)[0]


def test_where_no_k_gains_none_is_marked_and_the_page_says_to_draft_nothing() -> None:
    now = Setting(0.1, 0.2, 0.0, 3)
    assert not [t for t in speedup_over_k("en", now, None)["data"] if t["name"].startswith("best")]
    assert "draft nothing" in sentences("en", now, None)[0]
    assert strip("en", now, None)[0]["value"] == "–"


def test_every_colour_is_one_of_the_page_in_light_and_in_dark() -> None:
    run = a_run()
    for figure in (speedup_over_k("en", Setting(), run), speedup_map("en", Setting(), run, OVER_K),
                   round_time("en", Setting(), run)):  # fmt: skip
        layout = figure["layout"]
        named = [t["meta"]["colour"] for t in figure["data"]]
        named += [x["name"] for x in (*layout.get("shapes", ()), *layout.get("annotations", ()))]
        assert named and all(len(re.findall(rf"--sp-{name}:", CSS)) == 2 for name in named)


def test_every_what_if_is_called_assumed_and_never_measured() -> None:
    for name in WHAT_IFS:
        c, v = what_if(name, None)
        said = costs_sentence("en", name, Setting(c=c, v=v), None)
        assert "ssumed" in said and "measured" not in said and "{" not in said
    assert what_if("larger", a_run(c=0.3)) == (pytest.approx(0.03), pytest.approx(0.065))
    assert what_if("free", None)[0] == 0 and what_if("full", None)[1] == 1
    with pytest.raises(InvalidRequest, match="moon"):
        what_if("moon", None)


def test_a_full_gpu_makes_every_draft_lose() -> None:
    c, v = what_if("full", None)
    assert all(theory.round_speedup(alpha / 10, k, c, v) < 1 for alpha in range(11) for k in range(1, 17))


def test_every_formula_names_its_source() -> None:
    sources = " ".join(row["source"] for row in formulas("en", Setting(), None))
    for part in ("equation 1", "theorem 3.8", "corollary 3.9", "theorem 3.11", "section 3.4"):
        assert part in sources
    values = {row["name"]: row["value"] for row in formulas("en", Setting(0.5, 0.1, 0.0, 1), None)}
    assert values["Expected tokens of a round"] == "1.500"
    assert values["Speedup, a wider pass being free"] == f"{1.5 / 1.1:.3f}×"
    assert values["Operations per token"] == f"{2.1 / 1.5:.3f}×"


def opened(visit: Visit) -> Any:
    visit.tab("Reckon")
    visit.page.wait_for_selector(".sp-reckoning.sp-drawn", timeout=60_000)
    return visit.page


def wait_for_text(page: Any, selector: str, text: str) -> None:
    page.wait_for_function(
        "([selector, text]) => document.querySelector(selector).textContent.includes(text)", arg=[selector, text]
    )


def slider(page: Any, name: str) -> float:
    return float(page.input_value(f"#sp-reckon-{name} input[type=number]"))


@needs_chromium
def test_the_tab_shows_its_figures_at_once_and_says_what_to_do_without_a_run(open_page: Visit) -> None:
    page = opened(open_page)
    assert page.locator(".sp-reckoning .main-svg").count() >= 3
    assert "The best K is 3: 1.57×" in open_page.text(".sp-reckon-said")
    assert page.locator(".sp-reckoning .sp-panel").nth(1).bounding_box()["y"] + 100 < 720
    page.click("#sp-reckon-take")
    wait_for_text(page, ".sp-reckon-error", "Press Run")
    assert slider(page, "alpha") == 0.6


@needs_chromium
def test_the_numbers_of_the_last_run_move_the_sliders_and_its_point_is_drawn(open_page: Visit) -> None:
    open_page.run()
    page = opened(open_page)
    heights = "[...document.querySelectorAll('.sp-reckoning > *, .sp-reckoning .sp-panel')].map(e => e.offsetHeight)"
    before = page.evaluate(heights)
    page.click("#sp-reckon-take")
    wait_for_text(page, ".sp-reckon-costs", "measured")
    run = measured(open_page.runs.backfill(page.evaluate("window.playground.run"), 0))
    page.wait_for_function(
        "(alpha) => Number(document.querySelector('#sp-reckon-alpha input[type=number]').value) === alpha",
        arg=run.setting().alpha,
    )
    assert slider(page, "c") == run.setting().c and slider(page, "k") == 3
    assert f"{run.speedup:.2f}×, measured" in open_page.text(".sp-reckon-said")
    points = page.evaluate(
        "[...document.querySelectorAll('.sp-reckoning .sp-plot')].flatMap(p => p.data)"
        ".filter(d => d.name === 'your run, measured').map(d => [d.x[0], d.y[0]])"
    )
    assert points == [[run.k, run.speedup], [run.alpha, run.k]]
    assert page.evaluate(heights) == before
    bars = page.evaluate("document.querySelectorAll('.sp-reckoning .sp-plot')[2].data[1].x.length")
    assert bars == 4


@needs_chromium
def test_arrow_keys_on_a_slider_redraw_and_a_what_if_is_called_assumed(open_page: Visit) -> None:
    page = opened(open_page)
    page.focus("#sp-reckon-k input[type=range]")
    page.keyboard.press("ArrowRight")
    wait_for_text(page, ".sp-reckon-said", "At K = 4")
    page.click("#sp-reckon-if input")
    page.get_by_role("option", name="A GPU full of users").click()
    wait_for_text(page, ".sp-reckon-costs", "v = 1")
    wait_for_text(page, ".sp-reckon-said", "draft nothing")
    assert slider(page, "v") == 1 and "Assumed" in open_page.text(".sp-reckon-costs")
    # A value of one's own is no longer that what-if's.
    page.fill("#sp-reckon-v input[type=number]", "0")
    page.keyboard.press("Tab")
    wait_for_text(page, ".sp-reckon-costs", "what the sliders say")
    assert page.input_value("#sp-reckon-if input") == "Values of the sliders"
    page.locator("#sp-reckon-over input").nth(1).check()
    page.wait_for_function(
        "document.querySelectorAll('.sp-reckoning .sp-plot')[1].layout.yaxis.title.text.startsWith('c, cost')"
    )


@needs_chromium
def test_the_figures_follow_the_theme_and_nothing_sticks_out_of_a_phone(open_page: Visit) -> None:
    page = opened(open_page)
    colour = "document.querySelectorAll('.sp-reckoning .sp-plot')[0].layout.font.color"
    light = page.evaluate(colour)
    page.evaluate("document.body.classList.add('dark')")
    page.wait_for_function(f"{colour} !== {light!r}")
    page.set_viewport_size({"width": 360, "height": 740})
    # Plotly follows the width a moment later.
    page.wait_for_function(
        "[...document.querySelectorAll('#sp-reckon *')].every(e => e.getBoundingClientRect().right <= 361)"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    unnamed = page.evaluate(
        "[...document.querySelectorAll('#sp-reckon .sp-plot')].filter(e => !e.getAttribute('aria-label')).length"
    )
    assert unnamed == 0
