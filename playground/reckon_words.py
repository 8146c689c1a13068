"""What theory says of a setting, in numbers and sentences of the reader's language, as plain JSON values."""

from playground import theory
from playground.reckon import MOST_K, OWN, WHAT_IFS, Measured, Setting, short
from playground.words import say


def costs_sentence(language: str, name: str, now: Setting, run: Measured | None) -> str:
    """Where c and v come from: assumed, or measured in the run."""
    base = Setting() if run is None else run.setting()
    if name == OWN and run is not None and (now.c, now.v) == (base.c, base.v):
        if run.c > 1 or run.v > 1:
            return say(
                language,
                "c and v are your run's, measured: c = {c}, v = {v}; the sliders end at 1.",
                c=short(run.c), v=short(run.v),
            )  # fmt: skip
        return say(language, "c and v are your run's, measured, to the nearest step of the sliders.")
    if name == OWN:
        return say(language, "c and v are assumed: what the sliders say.")
    return say(language, WHAT_IFS[name].about, c=short(now.c), v=short(now.v), was=short(base.c))


def strip(language: str, now: Setting, run: Measured | None) -> list[dict[str, str]]:
    """The large numbers: value, name, kind (predicted, measured), definition."""
    predicted = say(language, "predicted")
    even = theory.break_even_alpha(now.k, now.c, now.v)
    gains = theory.can_speed_up(now.alpha, now.c, now.v)
    best = theory.round_speedup(now.alpha, now.best_k, now.c, now.v)
    efficiency = None if run is None else run.efficiency
    cells = (
        (
            str(now.best_k) if gains else "–",
            say(language, "best K"),
            predicted,
            say(language, "The K from 1 to {most} with the highest predicted speedup.", most=MOST_K),
        ),
        (
            f"{best:.2f}×" if gains else "–",
            say(language, "speedup at the best K"),
            predicted,
            say(language, "Expected tokens of a round / what the round costs, in one-token target passes."),
        ),
        (
            f"{now.speedup:.2f}×",
            say(language, "speedup at K = {k}", k=f"{now.k:g}"),
            predicted,
            say(language, "Expected tokens of a round / what the round costs, in one-token target passes."),
        ),
        (
            "–" if even is None else f"{even:.2f}",
            say(language, "break-even alpha"),
            predicted,
            say(language, "Below it, drafts of K = {k} tokens are slower than plain decoding.", k=f"{now.k:g}"),
        ),
        (
            f"{theory.operations_factor(now.alpha, now.k, now.c):.2f}×",
            say(language, "operations per token"),
            predicted,
            say(language, "Arithmetic for a token, as a multiple of plain decoding's, with c' = c (assumed)."),
        ),
        (
            "–" if efficiency is None else f"{100 * efficiency:.0f} %",
            say(language, "efficiency of the run"),
            say(language, "measured / predicted"),
            say(language, "Measured speedup of your last run / the speedup that theorem 3.8 predicts for it."),
        ),
    )
    return [dict(zip(("value", "name", "kind", "tip"), cell, strict=True)) for cell in cells]


def sentences(language: str, now: Setting, run: Measured | None) -> list[str]:
    """What the plots say, in words."""
    return [_best(language, now), _chosen(language, now), _break_even(language, now), *_of_run(language, run),
            _operations(language, now)]  # fmt: skip


def _best(language: str, now: Setting) -> str:
    if not theory.can_speed_up(now.alpha, now.c, now.v):
        return say(
            language,
            "No K is faster than plain decoding: alpha = {alpha} is not above c + v = {cost}. It is best to draft "
            "nothing.",
            alpha=short(now.alpha), cost=short(now.c + now.v),
        )  # fmt: skip
    best = theory.round_speedup(now.alpha, now.best_k, now.c, now.v)
    return say(
        language, "The best K is {k}: {speedup}× plain decoding, predicted.", k=now.best_k, speedup=f"{best:.2f}"
    )


def _chosen(language: str, now: Setting) -> str:
    return say(
        language,
        "At K = {k} a round writes {tokens} tokens and takes as long as {cost} one-token passes: {speedup}×, "
        "predicted.",
        k=f"{now.k:g}", tokens=f"{now.tokens:.2f}", cost=f"{now.tokens / now.speedup:.2f}",
        speedup=f"{now.speedup:.2f}",
    )  # fmt: skip


def _break_even(language: str, now: Setting) -> str:
    even = theory.break_even_alpha(now.k, now.c, now.v)
    k = f"{now.k:g}"
    if even is None:
        return say(
            language,
            "K = {k} loses at every alpha: a token that is drafted and checked costs more than a pass (c + v > 1).",
            k=k,
        )
    if even == 0:
        return say(language, "K = {k} never loses: drafting and checking cost nothing (c + v = 0).", k=k)
    return say(language, "K = {k} starts to lose where alpha is below {alpha}.", k=k, alpha=f"{even:.2f}")


def _of_run(language: str, run: Measured | None) -> list[str]:
    if run is None:
        return [say(language, "Take the numbers from a run to see its own point on the plots.")]
    values = {
        "title": run.title, "alpha": short(run.alpha), "c": short(run.c), "v": short(run.v), "k": f"{run.k:.2f}",
    }  # fmt: skip
    if run.from_p_and_q:
        own = say(
            language,
            "Your run ({title}), measured: alpha {alpha} from p and q, c {c}, v {v}, {k} tokens drafted a round.",
            **values,
        )
    else:
        own = say(
            language,
            "Your run ({title}), measured: alpha {alpha} (its tested acceptance rate), c {c}, v {v}, {k} tokens "
            "drafted a round.",
            **values,
        )
    if run.speedup is None or run.efficiency is None:
        unmeasured = say(
            language,
            "It had no plain lane, so its speedup was not measured. Theorem 3.8 predicts {predicted}× for it.",
            predicted=f"{run.predicted:.2f}",
        )
        return [own, unmeasured]
    reached = say(
        language,
        "It reached {speedup}×, measured: {share} % of the {predicted}× that theorem 3.8 predicts for it. With the "
        "measured cost of its wider passes the prediction is {wider}×.",
        speedup=f"{run.speedup:.2f}", share=f"{100 * run.efficiency:.0f}", predicted=f"{run.predicted:.2f}",
        wider=f"{run.predicted_wider:.2f}",
    )  # fmt: skip
    return [own, reached]


def _operations(language: str, now: Setting) -> str:
    factor = theory.operations_factor(now.alpha, now.k, now.c)
    passes = theory.target_passes(now.alpha, now.k)
    return say(
        language,
        "Compute and memory at K = {k}: {factor}× the arithmetic for each token, with c' = c (assumed), but the "
        "target's weights are read {reads} times a token instead of once.",
        k=f"{now.k:g}", factor=f"{factor:.2f}", reads=f"{passes:.2f}",
    )  # fmt: skip


def formulas(language: str, now: Setting, run: Measured | None) -> list[dict[str, str]]:
    """Every formula with its value for these numbers and its source. `^(…)` is an exponent."""
    even = theory.break_even_alpha(now.k, now.c, now.v)
    verdict = say(language, "yes") if theory.can_speed_up(now.alpha, now.c, now.v) else say(language, "no")
    wider = say(language, "the same, with 1 + K v for the target pass")
    efficiency = "–" if run is None or run.efficiency is None else f"{run.efficiency:.2f}"
    rows = (
        (say(language, "Expected tokens of a round"), "(1 − α^(K+1)) / (1 − α)",
         f"{now.tokens:.3f}", say(language, "equation 1")),
        (say(language, "Speedup, a wider pass being free"), "(1 − α^(K+1)) / ((1 − α)(K c + 1))",
         f"{theory.predicted_speedup(now.alpha, now.k, now.c):.3f}×", say(language, "theorem 3.8")),
        (say(language, "Speedup, with the cost of a wider pass"), "(1 − α^(K+1)) / ((1 − α)(K c + 1 + K v))",
         f"{now.speedup:.3f}×", f"{say(language, 'theorem 3.8')}; {wider}"),
        (say(language, "A speedup is possible"), "α > c + v",
         verdict, say(language, "corollary 3.9, where v = 0; the same proof holds with c + v")),
        (say(language, "The best K gives at least"), "(1 + α) / (1 + c + v)",
         f"{theory.least_best_speedup(now.alpha, now.c, now.v):.3f}×", say(language, "corollary 3.9, where v = 0")),
        (say(language, "Break-even alpha"), "(1 − α^(K+1)) / (1 − α) = K (c + v) + 1",
         "–" if even is None else f"{even:.3f}", say(language, "theorem 3.8, set to 1")),
        (say(language, "Operations per token"), "(1 − α)(K c' + K + 1) / (1 − α^(K+1))",
         f"{theory.operations_factor(now.alpha, now.k, now.c):.3f}×",
         say(language, "theorem 3.11; c' is the drafter's share of operations per token, here c' = c (assumed)")),
        (say(language, "Reads of the target's weights per token"), "(1 − α) / (1 − α^(K+1))",
         f"{theory.target_passes(now.alpha, now.k):.3f}", say(language, "section 3.4")),
        (say(language, "Efficiency of the run"), say(language, "measured speedup / predicted speedup"),
         efficiency, say(language, "this playground's own definition, against theorem 3.8")),
    )  # fmt: skip
    return [dict(zip(("name", "formula", "value", "source"), row, strict=True)) for row in rows]
