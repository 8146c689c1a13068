"""Figures of the tab Reckon, as plain plotly dictionaries: theory's curves, its map, the parts of a round.

A trace's `meta` names its colour (a CSS variable of the page), a shape's or an annotation's `name` likewise: the page
puts the colours in. The page's plotly has bars and lines alone, so that the cells of the map are bars.
"""

import math
from collections.abc import Sequence
from typing import Any

from playground import theory
from playground.reckon import MOST_K, Measured, Setting, short
from playground.words import say

NEIGHBOUR = 0.1  # how far the thin curves are from the chosen alpha
COLUMNS = 40  # of the map, over alpha
COST_ROWS = 20  # of the map over c
OVER_K, OVER_C = "k", "c"
SCALE = (-1.0, 3.0)  # of the map's colours: log2 of the speedup
Figure = dict[str, Any]


def speedup_over_k(language: str, now: Setting, run: Measured | None) -> Figure:
    """Predicted speedup at every K for the chosen alpha and its neighbours, the best K, the run's own point."""
    ks = list(range(1, MOST_K + 1))
    alphas = [a for a in (now.alpha - NEIGHBOUR, now.alpha + NEIGHBOUR) if 0 <= a <= 1]
    traces, labels, tops = [], [], []
    for alpha, chosen in [*((a, False) for a in alphas), (now.alpha, True)]:
        values = [round(theory.round_speedup(alpha, k, now.c, now.v), 4) for k in ks]
        tops += values
        name = say(language, "predicted, alpha {alpha}", alpha=short(alpha))
        traces.append(_line(name, ks, values, "ink" if chosen else "muted", 2.5 if chosen else 1))
        end = {"x": MOST_K, "y": values[-1], "xanchor": "left", "xshift": 4, "showarrow": False}
        labels.append({"text": f"α {short(alpha)}", "name": "ink" if chosen else "muted", **end})
    if theory.can_speed_up(now.alpha, now.c, now.v):
        best, speedup = now.best_k, theory.round_speedup(now.alpha, now.best_k, now.c, now.v)
        tops.append(speedup)
        name = say(language, "best K, predicted")
        traces.append(_point(name, best, speedup, "accepted", "star", 14))
        text = say(language, "best K = {k}", k=best)
        labels.append(
            {
                "text": text,
                "name": "accepted",
                "x": best,
                "y": speedup,
                "yshift": 17,
                "showarrow": False,
                "bgcolor": "paper",
            }
        )
    if run is not None and run.speedup is not None:
        tops.append(run.speedup)
        traces.append(_point(say(language, "your run, measured"), run.k, run.speedup, "bonus", "diamond", 9))
    traces.append(_point(say(language, "your sliders, predicted"), now.k, now.speedup, "ink", "circle-open", 17))
    top = max(1.5, 1.18 * max(tops))
    last = max(MOST_K, 0.0 if run is None else run.k)
    layout = _layout(say(language, "K, tokens drafted in a round"), say(language, "times plain decoding"))
    layout["xaxis"] |= {"range": [0.5, last + 2.7], "tickvals": [1, *range(2, MOST_K + 1, 2)]}
    layout["yaxis"] |= {"range": [0, top]}
    layout["shapes"] = [_band(0.5, last + 2.7, 0, 1, "rejected"), _level(0.5, last + 2.7, 1)]
    slow = {"text": say(language, "slower than plain decoding"), "name": "rejected", "x": 0.7, "y": 0}
    layout["annotations"] = [*labels, {**slow, "xanchor": "left", "yanchor": "bottom", "showarrow": False}]
    return {"data": traces, "layout": layout}


def speedup_map(language: str, now: Setting, run: Measured | None, over: str) -> Figure:
    """Predicted speedup over alpha and K (`over` is "k") or c ("c"), with the line at which it is 1."""
    rows, height = _rows(over)
    base, colour, texts, x = [], [], [], []
    for row in rows:
        for column in range(COLUMNS):
            alpha = (column + 0.5) / COLUMNS
            k, c = (row, now.c) if over == OVER_K else (now.k, row)
            speedup = theory.round_speedup(alpha, k, c, now.v)
            x.append(round(alpha, 4))
            base.append(round(row - height / 2, 4))
            colour.append(round(math.log2(speedup), 3))
            texts.append([short(row), f"{speedup:.2f}"])
    cells = {
        "type": "bar", "name": say(language, "predicted"), "x": x, "y": [height] * len(x), "base": base,
        "width": 1 / COLUMNS, "customdata": texts,
        "hovertemplate": f"alpha %{{x:.2f}}, {'K' if over == OVER_K else 'c'} %{{customdata[0]}}: %{{customdata[1]}}×"
        "<extra></extra>",
        "meta": {"colour": "bonus", "below": "rejected"},
        "marker": {
            "color": colour, "cmin": SCALE[0], "cmax": SCALE[1], "line": {"width": 0}, "showscale": True,
            "colorbar": {
                "thickness": 9, "len": 1, "outlinewidth": 0, "xpad": 6, "ypad": 0,
                "tickvals": [-1, 0, 1, 2, 3], "ticktext": ["0.5×", "1×", "2×", "4×", "8×"],
            },
        },
    }  # fmt: skip
    points = []
    if run is not None:
        name = say(language, "your run, measured")
        points.append(_point(name, run.alpha, _place(run, over), "ink", "diamond", 9))
        if run.speedup is not None:
            points[-1]["hovertemplate"] = f"{run.speedup:.2f}×"
    name = say(language, "your sliders, predicted")
    points.append(_point(name, now.alpha, _place(now, over), "ink", "circle-open", 17))
    ends = [rows[0] - height / 2, rows[-1] + height / 2]
    title = (
        say(language, "K, tokens drafted in a round")
        if over == OVER_K
        else say(language, "c, cost of a drafted token (passes)")
    )
    layout = _layout(say(language, "alpha, chance that a guess passes"), title)
    layout["xaxis"] |= {"range": [0, 1], "showgrid": False}
    layout["yaxis"] |= {"range": ends, "showgrid": False}
    if over == OVER_K:
        layout["yaxis"]["tickvals"] = [1, *range(4, MOST_K + 1, 4)]
    layout |= {"barmode": "overlay", "bargap": 0}
    return {"data": [cells, _even_line(language, now, over, ends), *points], "layout": layout}


def _rows(over: str) -> tuple[list[float], float]:
    if over == OVER_K:
        return [float(k) for k in range(1, MOST_K + 1)], 1.0
    return [(row + 0.5) / COST_ROWS for row in range(COST_ROWS)], 1 / COST_ROWS


def _place(one: Setting | Measured, over: str) -> float:
    return one.k if over == OVER_K else one.c


def _even_line(language: str, now: Setting, over: str, ends: Sequence[float]) -> Figure:
    """Exact, not taken from the cells: over c the c that breaks even at each alpha, over K the alpha for each K."""
    x: list[float] = []
    y: list[float] = []
    if over == OVER_K:
        for step in range(61):
            k = ends[0] + (ends[1] - ends[0]) * step / 60
            alpha = theory.break_even_alpha(k, now.c, now.v)
            if alpha is not None:
                x.append(round(alpha, 4))
                y.append(round(k, 4))
    else:
        for step in range(101):
            c = theory.break_even_cost(step / 100, now.k) - now.v
            if c >= 0:
                x.append(step / 100)
                y.append(round(c, 4))
    name = say(language, "as fast as plain decoding")
    return _line(name, x, y, "ink", 2, dash="dash") | {"hoverinfo": "skip"}


PARTS = (("draft", "draft"), ("target pass", "target"), ("sampling", "sampling"))


def round_time(language: str, now: Setting, run: Measured | None) -> Figure:
    """A round and what plain decoding takes for as many tokens, in one-token target passes: as predicted for the
    sliders, and as measured in the run."""
    predicted = [now.k * now.c, theory.wider_pass(now.k, now.v), 0.0]
    bars: list[tuple[list[float], float]] = [(predicted, now.tokens), ([0.0, now.tokens, 0.0], now.tokens)]
    if run is not None:
        bars.append(([run.draft, run.verify, run.sample], run.tokens))
        if run.plain is not None:
            bars.append(([0.0, *(run.tokens * part for part in run.plain)], run.tokens))
    rows = [
        say(language, "round, predicted"), say(language, "plain, predicted"),
        say(language, "round, measured"), say(language, "plain, measured"),
    ]  # fmt: skip
    places = [len(rows) - 1 - i for i in range(len(bars))]  # the first on top
    seconds = None if run is None else run.pass_seconds
    names = (say(language, "draft"), say(language, "target pass"), say(language, "sampling"))
    traces = []
    for part, (name, (_, colour)) in enumerate(zip(names, PARTS, strict=True)):
        lengths = [round(parts[part], 4) for parts, _ in bars]
        times = ["" if seconds is None or i < 2 else f" = {1000 * n * seconds:.3g} ms" for i, n in enumerate(lengths)]
        traces.append(
            {
                "type": "bar", "orientation": "h", "name": name, "y": places, "x": lengths, "customdata": times,
                "hovertemplate": "%{x:.2f}%{customdata}", "meta": {"colour": colour},
            }
        )  # fmt: skip
    longest = max(sum(parts) for parts, _ in bars)
    layout = _layout(say(language, "one-token target passes"), "")
    layout["xaxis"] |= {"range": [0, 1.45 * longest]}
    layout["yaxis"] |= {
        "range": [-0.5, len(rows) - 0.5], "tickvals": list(range(len(rows))), "ticktext": rows[::-1], "showgrid": False,
    }  # fmt: skip
    layout |= {"barmode": "stack", "bargap": 0.35}
    notes = [
        {"text": say(language, "{n} tokens", n=f"{tokens:.2f}"), "x": sum(parts), "y": place, "xanchor": "left",
         "xshift": 4, "showarrow": False, "name": "ink"}
        for (parts, tokens), place in zip(bars, places, strict=True)
    ]  # fmt: skip
    layout["annotations"] = notes + _missing(language, run)
    return {"data": traces, "layout": layout}


def _missing(language: str, run: Measured | None) -> list[Figure]:
    """What would stand in the rows that have no bar."""
    if run is None:
        text, place = say(language, "The rounds of your run stand here."), 0.5
    elif run.plain is None:
        text, place = say(language, "The run had no plain lane."), 0
    else:
        return []
    return [{"text": text, "x": 0, "xanchor": "left", "xshift": 6, "y": place, "showarrow": False, "name": "muted"}]


def _layout(x: str, y: str) -> Figure:
    axis = {"fixedrange": True, "zeroline": False}
    return {
        "showlegend": False, "hovermode": "closest", "dragmode": False,
        "xaxis": {"title": {"text": x, "standoff": 6}, **axis}, "yaxis": {"title": {"text": y, "standoff": 6}, **axis},
    }  # fmt: skip


def _line(name: str, x: Sequence[float], y: Sequence[float], colour: str, width: float, dash: str = "solid") -> Figure:
    line = {"width": width, "dash": dash}
    hover = "%{y:.2f}× · K %{x}"
    return {
        "type": "scatter", "mode": "lines", "name": name, "x": list(x), "y": list(y), "line": line,
        "hovertemplate": hover, "meta": {"colour": colour},
    }  # fmt: skip


def _point(name: str, x: float, y: float, colour: str, symbol: str, size: int) -> Figure:
    return {
        "type": "scatter", "mode": "markers", "name": name, "x": [x], "y": [y], "meta": {"colour": colour},
        "marker": {"symbol": symbol, "size": size, "line": {"width": 2}}, "cliponaxis": False,
        "hovertemplate": "%{x:.2f}, %{y:.2f}",
    }  # fmt: skip


def _band(x0: float, x1: float, y0: float, y1: float, colour: str) -> Figure:
    return {"type": "rect", "x0": x0, "x1": x1, "y0": y0, "y1": y1, "layer": "below", "name": colour,
            "opacity": 0.13, "line": {"width": 0}}  # fmt: skip


def _level(x0: float, x1: float, y: float) -> Figure:
    return {"type": "line", "x0": x0, "x1": x1, "y0": y, "y1": y, "name": "ink", "line": {"width": 1.5, "dash": "dash"}}
