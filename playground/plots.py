"""Numbers to plotly figures. An empty figure is the skeleton that the page fills while a run goes on.

A trace's `meta` names its colour (a CSS variable of the page), so that light and dark, tokens and plots agree.
This file knows no run and no page.
"""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

Number = float | None
PARTS = ("prompt", "draft", "target pass", "sampling", "observing")
_PART_COLOURS = ("prompt", "draft", "target", "sampling", "observing")


def acceptance(tokens: Sequence[int] = (), rolling: Sequence[Number] = (), total: Sequence[Number] = ()) -> go.Figure:
    """Acceptance rate over emitted tokens: of the last 20 rounds, and of the run so far."""
    figure = _figure("emitted tokens", "guesses kept (%)")
    figure.add_trace(_line("last 20 rounds", tokens, _percent(rolling), "muted", width=1.5))
    figure.add_trace(_line("so far", tokens, _percent(total), "accepted", width=2.5))
    figure.update_yaxes(range=[0, 100])
    return figure


def speedup(tokens: Sequence[int] = (), measured: Sequence[Number] = (), predicted: Sequence[Number] = ()) -> go.Figure:
    """Speedup over emitted tokens, measured and predicted (theorem 3.8); 1 is plain decoding."""
    figure = _figure("emitted tokens", "times plain decoding")
    figure.add_trace(_line("predicted", tokens, predicted, "muted", width=1.5, dash="dash"))
    figure.add_trace(_line("measured", tokens, measured, "bonus", width=2.5))
    figure.add_hline(y=1, line_width=1, line_dash="dot")
    figure.update_yaxes(rangemode="tozero")
    return figure


def timeline(
    rows: Sequence[str] = (), starts: Sequence[float] = (), seconds: Sequence[float] = (), is_draft: Sequence[bool] = ()
) -> go.Figure:
    """Bars of drafting and of target passes along each lane's decoding clock; `rows` are lane titles."""
    figure = _figure("decoding time (s)", "")
    for name, colour, wanted in (("draft", "draft", True), ("target pass", "target", False)):
        chosen = [i for i, draft in enumerate(is_draft) if draft is wanted]
        figure.add_trace(
            go.Bar(
                name=name, orientation="h", y=[rows[i] for i in chosen], x=[seconds[i] for i in chosen],
                base=[starts[i] for i in chosen], meta={"colour": colour}, hovertemplate="%{x:.4f} s",
            )
        )  # fmt: skip
    figure.update_layout(barmode="overlay", bargap=0.35)
    return figure


def lengths(counts: Sequence[int] = ()) -> go.Figure:
    """How many rounds kept 0, 1, 2, ... guesses."""
    figure = _figure("accepted tokens in a round", "rounds")
    figure.add_trace(go.Bar(name="rounds", x=list(range(len(counts))), y=list(counts), meta={"colour": "accepted"}))
    figure.update_layout(showlegend=False, bargap=0.3)
    figure.update_xaxes(dtick=1)
    return figure


def positions(unconditional: Sequence[Number] = (), conditional: Sequence[Number] = ()) -> go.Figure:
    """Acceptance at each position of a draft: of all rounds that drafted so far, and of those that came so far."""
    figure = _figure("position in the draft", "kept (%)")
    for name, values, colour in (
        ("of all drafts", unconditional, "accepted"),
        ("where all before were kept", conditional, "muted"),
    ):
        x = list(range(1, len(values) + 1))
        figure.add_trace(go.Bar(name=name, x=x, y=_percent(values), meta={"colour": colour}))
    figure.update_layout(barmode="group", bargap=0.25)
    figure.update_xaxes(dtick=1)
    figure.update_yaxes(range=[0, 100])
    return figure


def time(rows: Sequence[str] = (), seconds: Sequence[Sequence[float]] = ()) -> go.Figure:
    """Seconds of each part of the work, a bar a lane. `seconds[lane]` is in the order of PARTS."""
    figure = _figure("seconds", "")
    for i, (part, colour) in enumerate(zip(PARTS, _PART_COLOURS, strict=True)):
        figure.add_trace(
            go.Bar(
                name=part, orientation="h", y=list(rows), x=[s[i] for s in seconds], meta={"colour": colour},
                hovertemplate="%{x:.3f} s",
            )
        )  # fmt: skip
    figure.update_layout(barmode="stack", bargap=0.4)
    return figure


def skeletons() -> dict[str, dict[str, Any]]:
    """The empty figures by panel name, as plain JSON values."""
    empty = {
        "acceptance": acceptance(), "speedup": speedup(), "timeline": timeline(),
        "lengths": lengths(), "positions": positions(), "time": time(),
    }  # fmt: skip
    return {name: figure.to_plotly_json() for name, figure in empty.items()}


def _figure(x: str, y: str) -> go.Figure:
    figure = go.Figure()
    figure.update_layout(
        template=None,
        margin={"l": 46, "r": 10, "t": 24, "b": 38},
        legend={
            "orientation": "h",
            "x": 1,
            "xanchor": "right",
            "y": 1.02,
            "yanchor": "bottom",
            "traceorder": "normal",
            "itemwidth": 30,
            "font": {"size": 10},
        },
        showlegend=True,
        hovermode="closest",
        dragmode=False,
    )
    figure.update_xaxes(title_text=x, title_standoff=6, fixedrange=True, zeroline=False)
    figure.update_yaxes(title_text=y, title_standoff=6, fixedrange=True, zeroline=False)
    return figure


def _line(name: str, x: Sequence[int], y: Sequence[Number], colour: str, width: float, dash: str = "solid") -> Any:
    line = {"width": width, "dash": dash}
    return go.Scatter(name=name, x=list(x), y=list(y), mode="lines", line=line, meta={"colour": colour})


def _percent(values: Sequence[Number]) -> list[Number]:
    return [None if v is None else 100 * v for v in values]
