"""The figures of a comparison: speedup against K, and acceptance by position. Estimates to plotly dictionaries.

A trace's `meta` names its colour (a CSS variable of the page), what it shows and its best K: the page puts colours,
names and the label of the best K in. It knows no run and no page.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from playground.compare import Combination, Result
from playground.compare_results import Estimate, best_k, bootstrap, by_task, of_each, positions

COLOURS = ("bonus", "draft", "accepted", "corrected", "target", "rejected", "ink", "muted")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "pentagon")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
Figure = dict[str, Any]
Series = tuple[str, str]  # a strategy and a verifier


def speedup_over_k(results: Sequence[Result]) -> Figure:
    """The median speedup of each strategy and verifier at each K with its interval, the best K as a star."""
    found = of_series(results)
    traces = []
    for series, by_k in found.items():
        speedups = {k: e for k, own in by_k.items() if (e := bootstrap(by_task(own, "measured_speedup")))}
        if speedups:
            traces.append(_curve(series, speedups, look(series, found)))
    figure = _figure("K, tokens drafted in a round", "times plain decoding", traces)
    tops = [y + e for t in traces for y, e in zip(t["y"], t["error_y"]["array"], strict=True)]
    last = max((max(t["x"]) for t in traces), default=1)
    figure["layout"]["xaxis"] |= {"range": [0.5, last + 0.5], "dtick": 1 if last <= 12 else 4}
    figure["layout"]["yaxis"]["range"] = [0, max(1.5, 1.15 * max(tops, default=1))]
    one = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1}
    figure["layout"]["shapes"] = [{**one, "line": {"width": 1, "dash": "dot"}}]
    return figure


def acceptance_by_position(results: Sequence[Result]) -> dict[str, Figure]:
    """For each strategy and verifier, at its largest K: `unconditional` of all drafts, `conditional` of those whose
    guesses before were all kept."""
    traces: dict[str, list[dict[str, Any]]] = {"unconditional": [], "conditional": []}
    found = of_series(results)
    for series, by_k in found.items():
        k = max(by_k)
        for name, rates in zip(traces, positions(by_k[k]), strict=True):
            y = [None if rate is None else 100 * rate for rate in rates]
            own = _trace(series, list(range(1, len(y) + 1)), y, look(series, found))
            own["meta"]["k"] = k
            own["hovertemplate"] = "%{x}: %{y:.0f} %<extra></extra>"
            traces[name].append(own)
    figures = {name: _figure("position in the draft", "kept (%)", own) for name, own in traces.items()}
    for figure in figures.values():
        last = max((len(t["x"]) for t in figure["data"]), default=1)
        figure["layout"]["xaxis"] |= {"range": [0.5, last + 0.5], "dtick": 1 if last <= 12 else 4}
        figure["layout"]["yaxis"]["range"] = [0, 103]
    return figures


def of_series(results: Sequence[Result]) -> dict[Series, dict[int, list[Result]]]:
    """The results by strategy and verifier, then by K; plain decoding is left out."""
    found: dict[Series, dict[int, list[Result]]] = {}
    for way, own in of_each(results).items():
        if way.strategy != "plain":
            found.setdefault(_series(way), {})[way.k] = own
    return found


def _series(way: Combination) -> Series:
    return way.strategy, way.verifier


def look(series: Series, among: Mapping[Series, object]) -> tuple[str, str, str]:
    """Colour and marker, which a strategy keeps under every verifier, and the dash of the verifier."""
    strategies = list(dict.fromkeys(strategy for strategy, _ in among))
    verifiers = list(dict.fromkeys(verifier for _, verifier in among))
    place = strategies.index(series[0])
    dash = DASHES[verifiers.index(series[1]) % len(DASHES)]
    return COLOURS[place % len(COLOURS)], SYMBOLS[place % len(SYMBOLS)], dash


def _curve(series: Series, speedups: Mapping[int, Estimate], look: tuple[str, str, str]) -> dict[str, Any]:
    ks = sorted(speedups)
    trace = _trace(series, ks, [speedups[k].median for k in ks], look)
    trace["error_y"] = {
        "type": "data", "symmetric": False, "thickness": 1, "width": 3,
        "array": [speedups[k].high - speedups[k].median for k in ks],
        "arrayminus": [speedups[k].median - speedups[k].low for k in ks],
    }  # fmt: skip
    best = best_k(speedups)
    trace["marker"]["symbol"] = ["star" if k == best else look[1] for k in ks]
    trace["marker"]["size"] = [15 if k == best else 7 for k in ks]
    trace["meta"]["best"] = best
    trace["hovertemplate"] = "K = %{x}: %{y:.2f}×<extra></extra>"
    return trace


def _trace(series: Series, x: list[int], y: Sequence[float | None], look: tuple[str, str, str]) -> dict[str, Any]:
    colour, symbol, dash = look
    return {
        "type": "scatter", "mode": "lines+markers", "x": x, "y": list(y), "line": {"width": 2, "dash": dash},
        "marker": {"symbol": symbol, "size": 7},
        "meta": {"colour": colour, "symbol": symbol, "dash": dash, "strategy": series[0], "verifier": series[1]},
    }  # fmt: skip


def _figure(x: str, y: str, traces: list[dict[str, Any]]) -> Figure:
    axis = {"title": {"standoff": 6}, "fixedrange": True, "zeroline": False}
    layout = {
        "margin": {"l": 44, "r": 10, "t": 10, "b": 38}, "showlegend": False, "dragmode": False, "hovermode": "closest",
        "xaxis": {**axis, "title": {"text": x, "standoff": 6}}, "yaxis": {**axis, "title": {"text": y, "standoff": 6}},
    }  # fmt: skip
    return {"data": traces, "layout": layout}
