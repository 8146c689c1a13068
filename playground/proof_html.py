"""A proof as escaped HTML: the texts side by side, the draws' figures, a verdict above each."""

from html import escape

from playground.fit import Fit
from playground.proof import Agreement, Bar, Drawn, Proof, Texts, Written
from playground.proof_words import GOOD, LOSSY, OPEN, Said, about_draws, about_texts, chi, measure, named, title_of
from playground.words import say

SIGNS = {GOOD: "✓", LOSSY: "≈", OPEN: "–"}
WRONG = "✗"
HEADROOM = 1.2  # of a gauge, beyond its largest value


def empty(language: str) -> str:
    """Before anything was tested."""
    lines = (
        say(
            language,
            "At temperature 0 the target's own text and the strategy's will stand here side by side, token for token; "
            "the first difference is marked.",
        ),
        say(
            language,
            "When sampling, the texts of one seed will stand here, and how far many draws are from the target's own "
            "distribution, beside what chance alone gives.",
        ),
        say(language, "Under a lossy verifier: the distance from the target that it costs."),
    )
    texts = "".join(f"<p>{escape(line)}</p>" for line in lines)
    return f'<div class="sp-live sp-proof"><div class="sp-proof-empty">{texts}</div></div>'


def picture(language: str, proof: Proof) -> str:
    """All of the proof, as far as it got."""
    sections = []
    if proof.texts is not None:
        sections.append(_section(about_texts(language, proof, proof.texts), _texts(language, proof.texts)))
    if proof.request.temperature > 0:
        body = "" if proof.drawn is None else _draws(language, proof, proof.drawn)
        sections.append(_section(about_draws(language, proof, proof.drawn), body))
    two = " sp-proof-two" if len(sections) == 2 else ""
    return f'<div class="sp-live sp-proof{two}" data-done="{str(proof.done).lower()}">{"".join(sections)}</div>'


def _section(said: Said, body: str) -> str:
    sign = SIGNS.get(said.kind, WRONG)
    return (
        f'<section class="sp-proof-section"><h2>{escape(said.title)}</h2>'
        f'<p class="sp-proof-verdict" data-kind="{said.kind}"><b aria-hidden="true">{sign}</b>'
        f"<span>{escape(said.verdict)}</span></p>"
        f'<p class="sp-proof-why">{escape(said.tested)} {escape(said.fault)}</p>{body}</section>'
    )


def _texts(language: str, texts: Texts) -> str:
    own, *others = texts.lanes
    least = min((a.same for a in texts.agreements if a.parted), default=None)
    target = say(language, "The target alone")
    lanes = [_lane(language, target, own, Agreement(len(own.tokens) if least is None else least, least is not None))]
    lanes += [
        _lane(language, title_of(language, lane.strategy), lane, agreement)
        for lane, agreement in zip(others, texts.agreements, strict=True)
    ]
    return f'<div class="sp-proof-lanes">{"".join(lanes)}</div>'


def _lane(language: str, title: str, lane: Written, agreement: Agreement) -> str:
    pieces = [*lane.pieces, lane.tail]
    same, rest = "".join(pieces[: agreement.same]), pieces[agreement.same :]
    spans = f'<span class="same">{escape(same)}</span>' if same else ""
    if agreement.parted and rest:
        label = escape(say(language, "the first difference"))
        shown = escape(named(rest[0]))
        spans += f'<mark title="{label}">{shown}</mark><span class="after">{escape("".join(rest[1:]))}</span>'
    else:
        spans += f"<span>{escape(''.join(rest))}</span>"
    count = escape(say(language, "{n} tokens", n=len(lane.tokens)))
    return (
        f'<article class="sp-proof-lane"><header><h3>{escape(title)}</h3><span>{count}</span></header>'
        f'<div class="sp-proof-text" tabindex="0" role="group" aria-label="{escape(title)}">{spans}</div></article>'
    )


def _draws(language: str, proof: Proof, drawn: Drawn) -> str:
    estimate = None if proof.lossless else drawn.estimate
    figures = []
    if drawn.first is not None:
        figures.append(_figure(language, say(language, "First token"), drawn.first, estimate, "", proof.done))
    after = ", ".join(f"“{named(name)}” ({count})" for name, count in drawn.after)
    if drawn.second is not None:
        note = say(language, "After: {tokens}.", tokens=after)
        figures.append(_figure(language, say(language, "Second token"), drawn.second, None, note, proof.done))
    elif proof.done:
        nothing = say(language, "Second token: no first token came often enough, or the text ended with it.")
        figures.append(f'<p class="sp-proof-why sp-proof-later">{escape(nothing)}</p>')
    else:
        later = say(language, "Second token: looked at after the draws, where a first token came often enough.")
        figures.append(f'<p class="sp-proof-why sp-proof-later">{escape(later)}</p>')
    notes = [
        say(language, "{ms} ms a draw.", ms=round(1000 * drawn.seconds / drawn.done)),
        say(language, "The prompt was read again for every draw.")
        if drawn.rereads
        else say(language, "The prompt was read once: every draw starts with a copy of its keys and values, and with "
                 "nothing else of the others."),
    ]  # fmt: skip
    return (
        f'<div class="sp-proof-draws">{"".join(figures)}{_bars(language, drawn.bars)}</div>'
        f'<p class="sp-proof-why">{escape(" ".join(notes))}</p>'
    )


def _figure(language: str, title: str, one: Fit, estimate: float | None, note: str, done: bool) -> str:
    most = HEADROOM * max(one.tv, one.floor_95, estimate or 0.0, 0.01)

    def at(value: float) -> str:
        return f"{100 * value / most:.2f}%"

    keys = [
        ("tv", say(language, "measured TV {value}", value=f"{one.tv:.3f}")),
        ("floor", say(language, "noise alone: {mean} on average, at most {most} in 19 of 20 tests",
                      mean=f"{one.floor_mean:.3f}", most=f"{one.floor_95:.3f}")),
    ]  # fmt: skip
    marks = (
        f'<i class="floor" style="left:0;width:{at(one.floor_95)}"></i>'
        f'<i class="mean" style="left:{at(one.floor_mean)}"></i><i class="tv" style="left:{at(one.tv)}"></i>'
    )
    if estimate is not None:
        marks += f'<i class="estimate" style="left:{at(estimate)}"></i>'
        keys.append(("estimate", say(language, "reckoned from p and q {value}", value=f"{estimate:.3f}")))
    legend = "".join(f'<li class="{kind}">{escape(text)}</li>' for kind, text in keys)
    below = " ".join(filter(None, [chi(language, one) if done else "", note]))
    count = escape(say(language, "1 draw") if one.n == 1 else say(language, "{n} draws", n=one.n))
    return (
        f'<figure class="sp-proof-figure"><figcaption>{escape(title)} <span>{count}</span></figcaption>'
        f'<div class="sp-proof-gauge" role="img" aria-label="{escape(measure(language, one))}">{marks}</div>'
        f'<div class="sp-proof-axis" aria-hidden="true"><span>0</span>'
        f"<span>{escape(say(language, 'total variation'))}</span><span>{most:.2f}</span></div>"
        f'<ul class="sp-proof-keys">{legend}</ul><p class="sp-proof-why">{escape(below)}</p></figure>'
    )


def _bars(language: str, bars: tuple[Bar, ...]) -> str:
    most = max((max(bar.p, bar.share) for bar in bars), default=1.0)
    rows = "".join(
        f'<tr><th scope="row"><code>{escape(named(bar.name))}</code></th>'
        f'<td><i class="p" style="width:{100 * bar.p / most:.1f}%"></i>'
        f'<i class="share" style="width:{100 * bar.share / most:.1f}%"></i></td>'
        f'<td class="n">{bar.p:.3f}</td><td class="n">{bar.share:.3f}</td></tr>'
        for bar in bars
    )
    heads = "".join(
        f'<th scope="col" class="{kind}">{escape(text)}</th>'
        for kind, text in (("", say(language, "token")), ("", ""), ("p", say(language, "target")),
                           ("share", say(language, "drawn")))
    )  # fmt: skip
    caption = escape(say(language, "The likeliest first tokens: the target's probability and the share of draws"))
    return (
        f'<table class="sp-proof-bars"><caption>{caption}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )
