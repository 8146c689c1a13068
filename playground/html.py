"""The page's static HTML: the live view's empty skeleton, the legend, the heading. Everything is escaped here;
tokens never pass through, the page's script writes them as text."""

from html import escape

from playground.metrics import DEFINITIONS
from playground.trace import VERDICTS, Verdict

VERDICT_MEANINGS: dict[Verdict, str] = {
    "accepted": "guessed, tested, kept",
    "rejected": "guessed, tested, refused",
    "discarded": "guessed after a refusal or past the end, never tested",
    "corrected": "the target's own, in the refused one's place",
    "bonus": "the target's own, after a draft kept whole",
    "plain": "the target's own, nothing was guessed",
}

# Key in a message's numbers, what stands under the number, where its definition is.
STRIP: tuple[tuple[str, str], ...] = (
    ("speedup", "speedup"),
    ("acceptance_rate", "acceptance rate"),
    ("tokens_per_pass", "tokens per target pass"),
    ("tokens_per_second", "tokens per second"),
    ("passes_saved", "target passes saved"),
)

PANELS: tuple[tuple[str, str, str], ...] = (
    ("acceptance", "Acceptance rate", "How many of the guesses were kept: in the last 20 rounds, and so far."),
    ("speedup", "Speedup over plain decoding", "Measured against the plain lane, and what theory predicts."),
    ("timeline", "Time line of recent rounds", "Which model was at work when: drafts and target passes."),
    ("lengths", "Accepted tokens in a round", "How often a round kept none, one, two … of its guesses."),
    ("positions", "Acceptance by position", "How well the first, second, third … guess of a draft fares."),
    ("time", "Where the time went", "Seconds for drafting, target passes, sampling and observing, a lane."),
)


SPEEDS: tuple[tuple[str, str], ...] = (
    ("4", "4 times as fast"),
    ("1", "real time"),
    ("0.5", "half as fast"),
    ("0.2", "5 times slower"),
    ("0.05", "20 times slower"),
    ("inside", "inside each round"),
)
"""How a run is played: as a factor of the lanes' own clocks, or phase by phase."""


def heading() -> str:
    """The page's h1 and what it is about."""
    return (
        '<div class="sp-heading"><h1>Speculative decoding playground</h1>'
        "<p>A drafter guesses tokens ahead; the target checks them in one pass.</p></div>"
    )


def live_view() -> str:
    """The live view before any run: two lanes, legend, numbers, plots, the card of a token."""
    return (
        '<div class="sp-line"><p class="sp-error" role="alert" hidden></p><p class="sp-status" role="status"></p>'
        f'<div class="sp-aside"><p class="sp-machine"></p>{_player()}</div></div>'
        f'<div class="sp-lanes">{_lane(0)}{_lane(1)}</div>'
        f'<div class="sp-below">{_stage()}{legend()}</div>'
        f"{_strip()}{_plots()}{_card()}"
    )


def _player() -> str:
    speeds = "".join(
        f'<option value="{value}"{" selected" * (value == "1")}>{escape(name)}</option>' for value, name in SPEEDS
    )
    return (
        '<div class="sp-player" role="group" aria-label="Playback">'
        '<button type="button" data-player="play">Pause</button>'
        '<button type="button" data-player="step">One round</button>'
        f'<select data-player="speed" aria-label="Speed of play">{speeds}</select>'
        '<input type="range" min="0" max="0" step="1" value="0" data-player="scrub" aria-label="Rounds shown">'
        '<span data-player="place"></span></div>'
    )


def _stage() -> str:
    return (
        '<section class="sp-stage" aria-label="One round in slow motion" hidden><header>'
        '<h2 class="sp-stage-title"></h2><ol class="sp-stage-phases"></ol>'
        '<button type="button" class="sp-stage-back" aria-label="Phase before">‹</button>'
        '<button type="button" class="sp-stage-next" aria-label="Next phase">›</button>'
        '<button type="button" class="sp-stage-close" aria-label="Close the slow motion">×</button></header>'
        '<p class="sp-stage-text" aria-live="polite"></p><div class="sp-stage-body">'
        '<div class="sp-stage-row"></div><table class="sp-stage-bars" hidden><thead></thead><tbody></tbody></table>'
        "</div></section>"
    )


def _lane(index: int) -> str:
    return (
        f'<section class="sp-lane" data-lane="{index}" aria-label="Lane {index + 1}">'
        '<header><h2 class="sp-title"></h2>'
        f'<span class="sp-lossy" tabindex="0" title="{escape(DEFINITIONS["tv"][1])}" hidden></span>'
        '<span class="sp-speed" title="Emitted tokens over decoding seconds"></span>'
        '<span class="sp-clock" title="Decoding seconds of this lane: drafting, target passes and sampling; '
        'reading the prompt, observing and drawing are left out"></span></header>'
        '<div class="sp-text" tabindex="0" role="group" aria-label="Tokens; arrow keys walk them"></div>'
        '<footer class="sp-end"></footer></section>'
    )


def legend() -> str:
    """Every verdict in its own look, with what it means."""
    items = "".join(
        f'<li><span class="t {v}">{v}</span> <span class="sp-meaning">{escape(VERDICT_MEANINGS[v])}</span></li>'
        for v in VERDICTS
    )
    return f'<ul class="sp-legend" aria-label="Legend">{items}</ul>'


def _strip() -> str:
    cells = []
    for key, name in STRIP:
        definition = DEFINITIONS["measured_speedup" if key == "speedup" else key][1]
        other = _both_definitions() if key == "speedup" else ""
        cells.append(
            f'<div class="sp-number" data-number="{key}" tabindex="0" data-tip="{escape(definition)}"{other}>'
            f'<dd>–</dd><dt>{escape(name)} <span class="sp-kind">measured</span></dt></div>'
        )
    return f'<dl class="sp-strip" aria-label="Numbers of the run">{"".join(cells)}</dl>'


def _both_definitions() -> str:
    # What the tooltip says depends on which of the two is shown.
    both = (("measured", "measured_speedup"), ("predicted", "predicted_speedup"))
    return "".join(f' data-{name}="{escape(DEFINITIONS[key][1])}"' for name, key in both)


def _plots() -> str:
    figures = "".join(
        f'<figure class="sp-panel" data-panel="{name}"><figcaption>{escape(title)}</figcaption>'
        f'<ul class="sp-keys"></ul><div class="sp-plot"></div><p class="sp-empty">{escape(about)}</p></figure>'
        for name, title, about in PANELS
    )
    return f'<div class="sp-plots">{figures}</div>'


def _card() -> str:
    return (
        '<div class="sp-card" role="dialog" aria-label="Token" aria-live="polite" hidden>'
        '<header><code class="sp-card-token"></code><span class="sp-card-verdict t"></span>'
        '<span class="sp-card-where"></span>'
        '<button type="button" class="sp-card-close" aria-label="Close the card">×</button></header>'
        '<p class="sp-card-why"></p>'
        '<dl class="sp-card-values"></dl>'
        '<div class="sp-card-bars"><section><h3></h3><ol></ol></section><section><h3></h3><ol></ol></section></div>'
        '<p class="sp-card-note"></p></div>'
    )
