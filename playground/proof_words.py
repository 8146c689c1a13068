"""What a proof says, in the reader's language: what was tested, what would show a fault, what was found.

Never more than was measured. Knows no HTML.
"""

from dataclasses import dataclass

from playground.fit import OUTSIDE, Fit, p_value
from playground.proof import ROUNDING, Agreement, Drawn, Proof, Texts, Written
from playground.sampling import VERIFIERS
from playground.words import say
from strategies import strategy

FEW = 50  # draws with which a difference that matters could hardly show: no tick for fewer
# What a section found: a difference where there may be none; none; a distance that was to be expected.
GOOD, BAD, LOSSY, OPEN = "good", "bad", "lossy", "open"


@dataclass(frozen=True, slots=True)
class Said:
    """A section's title, what it found (GOOD, BAD, LOSSY or OPEN) and in words, what was tested, what would be a
    fault."""

    title: str
    kind: str
    verdict: str
    tested: str
    fault: str


def named(text: str) -> str:
    """A token's text with its blanks made visible."""
    if text == "":
        return "◌"
    return text.replace(" ", "␣").replace("\r\n", "↵").replace("\n", "↵").replace("\t", "→")


def title_of(language: str, name: str) -> str:
    """The strategy's title."""
    return say(language, strategy(name).title)


def chance(value: float) -> str:
    """A p-value as it is written."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def about_texts(language: str, proof: Proof, texts: Texts) -> Said:
    """Of the texts side by side."""
    greedy = proof.request.temperature == 0
    kind, verdict = _texts_verdict(language, proof, texts)
    if greedy:
        title = (
            say(language, "Is it the same text at temperature 0?")
            if proof.lossless
            else say(language, "The difference that it makes at temperature 0")
        )
        tested = say(
            language,
            "Tested: the target alone and the strategy go on from this prompt; their texts are compared token for "
            "token.",
        )
    else:
        title = say(language, "The same text from shared noise")
        tested = say(
            language,
            "Tested: under the verifier coupled, one seed ({seed}) must give one text of {n} tokens at most, whoever "
            "drafts.",
            seed=proof.request.seed, n=texts.limit,
        )  # fmt: skip
    if not proof.lossless:
        fault = say(language, "Nothing here is a fault: this verifier may write what the target would not.")
    elif proof.dtype == "float32":
        fault = say(language, "A fault would be any difference: in float32 there must be none.")
    else:
        fault = say(
            language,
            "A fault would be a difference between tokens more than {gap} apart in the target's logits, which "
            "{dtype} does not explain.",
            gap=ROUNDING, dtype=proof.dtype,
        )  # fmt: skip
    return Said(title, kind, verdict, tested, fault)


def _texts_verdict(language: str, proof: Proof, texts: Texts) -> tuple[str, str]:
    parted = [(lane, a) for lane, a in zip(texts.lanes[1:], texts.agreements, strict=True) if a.parted]
    same = min(agreement.same for agreement in texts.agreements)
    if not proof.lossless:
        return LOSSY, " ".join(_lossy_text(language, texts, same, bool(parted)))
    if parted:
        worst = next(((lane, a) for lane, a in parted if not a.tie), parted[0])
        return (OPEN if worst[1].tie else BAD), " ".join(_parting(language, proof, *worst))
    if not same:
        if proof.stopped or proof.done:
            return OPEN, say(language, "Stopped before there was anything to compare.")
        return OPEN, say(language, "Writing both texts.")
    if texts.ended:
        return GOOD, say(language, "The same {n} tokens: no difference was found.", n=same)
    if proof.stopped:
        return OPEN, say(language, "Stopped: the first {n} tokens are the same.", n=same)
    return OPEN, say(language, "So far the same {n} tokens.", n=same)


def _lossy_text(language: str, texts: Texts, same: int, parted: bool) -> list[str]:
    said = [say(language, "Lossy by design: this verifier tests guesses against more than the target.")]
    if parted:
        said.append(say(language, "The texts part at token {index}.", index=same + 1))
    elif same:
        said.append(say(language, "Here it wrote the same {n} tokens.", n=same))
    tv = texts.lanes[1].tv
    if tv is not None:
        said.append(
            say(language, "{share} of the tested positions got a token other than the target's first choice.",
                share=f"{tv:.0%}")
        )  # fmt: skip
    return said


def _parting(language: str, proof: Proof, lane: Written, agreement: Agreement) -> list[str]:
    own, other = map(named, agreement.names)
    where = say(
        language,
        "The texts part at token {index}: the target alone wrote “{own}”, {strategy} wrote “{other}”.",
        index=agreement.same + 1,
        own=own,
        other=other,
        strategy=title_of(language, lane.strategy),
    )
    said = [where]
    if agreement.gap is None:
        said.append(say(language, "They are not both among the target's five likeliest: this is a fault."))
        return said
    gap = f"{agreement.gap:.2g}"
    if proof.request.temperature > 0:
        said.append(say(language, "In the target's logits, the noise included, the two are {gap} apart.", gap=gap))
    else:
        said.append(say(language, "In the target's logits the two are {gap} apart.", gap=gap))
    if agreement.tie:
        said.append(say(language, "That is a tie within the rounding of {dtype}, and no fault.", dtype=proof.dtype))
    elif proof.dtype == "float32":
        said.append(say(language, "In float32 this must not happen: it is a fault."))
    else:
        said.append(say(language, "The rounding of {dtype} does not explain that: it is a fault.", dtype=proof.dtype))
    return said


def about_draws(language: str, proof: Proof, drawn: Drawn | None) -> Said:
    """Of the draws."""
    verifier = say(language, VERIFIERS[proof.request.verifier].title)
    runs = drawn.done if proof.done and drawn is not None else proof.wanted
    tested = say(
        language,
        "Tested: the first two tokens of {n} runs with a seed each, against the target's own probabilities. Verifier: "
        "{verifier}.",
        n=runs, verifier=verifier,
    )  # fmt: skip
    if proof.lossless:
        title = say(language, "The same distribution")
        fault = say(
            language,
            "A fault would be a distance that draws from the target itself reach in fewer than one of {n} tests.",
            n=round(1 / OUTSIDE),
        )
    else:
        title = say(language, "The distance that it costs")
        fault = say(
            language,
            "A distance is no fault here: this verifier gives up exactness for speed. Noise is part of what is "
            "measured; more draws lessen it.",
        )
    kind, verdict = _draws_verdict(language, proof, drawn)
    return Said(title, kind, verdict, tested, fault)


def _draws_verdict(language: str, proof: Proof, drawn: Drawn | None) -> tuple[str, str]:
    if drawn is None or drawn.first is None:
        if proof.done:
            return OPEN, say(language, "Stopped before the first draw: there is nothing to compare.")
        return OPEN, say(language, "The draws come next.")
    if not proof.done:
        return OPEN, say(language, "So far {n} of {wanted} draws.", n=drawn.done, wanted=drawn.wanted)
    values = {
        "n": drawn.done, "tv": f"{drawn.first.tv:.2f}", "mean": f"{drawn.first.floor_mean:.2f}",
        "most": f"{drawn.first.floor_95:.2f}", "p": chance(p_value(drawn.fits)),
    }  # fmt: skip
    return _lossy_draws(language, proof, drawn, values) if not proof.lossless else _lossless_draws(
        language, proof, drawn, values
    )  # fmt: skip


def _lossless_draws(language: str, proof: Proof, drawn: Drawn, values: dict[str, object]) -> tuple[str, str]:
    if proof.finding == "within":
        return (OPEN if drawn.done < FEW else GOOD), say(
            language,
            "Within the noise: {n} draws show no difference from the target's distribution (p = {p}). A distance "
            "well below {most} would not show with so few.",
            **values,
        )  # fmt: skip
    if proof.finding == "doubtful":
        return OPEN, say(
            language,
            "Not clear: draws from the target itself differ so much in a share of {p} of such tests. Prove it again "
            "with more draws or another seed.",
            **values,
        )  # fmt: skip
    impossible = sum(one.impossible for one in drawn.fits)
    said = say(
        language, "Outside the noise (p = {p}, {n} draws): this is not the target's distribution. It is a fault.",
        **values,
    )  # fmt: skip
    if impossible:
        said = f"{said} " + say(
            language, "{count} of the tokens drawn are impossible for the target.", count=impossible
        )
    if proof.dtype != "float32":
        said = f"{said} " + say(
            language, "Only float32 excludes that the rounding of {dtype} has a part in it.", dtype=proof.dtype
        )
    return BAD, said


def _lossy_draws(language: str, proof: Proof, drawn: Drawn, values: dict[str, object]) -> tuple[str, str]:
    if proof.finding == "outside":
        said = say(
            language,
            "Lossy, and it shows: {n} draws are not the target's (p = {p}). The first token is at TV {tv}, where "
            "noise alone gives {mean}.",
            **values,
        )  # fmt: skip
    else:
        said = say(
            language,
            "Lossy by design, but {n} draws do not show it (p = {p}): the first token is at TV {tv}, where noise "
            "alone gives {mean}.",
            **values,
        )  # fmt: skip
    if drawn.estimate is not None:
        said = f"{said} " + say(
            language, "From p and q in the runs themselves: {estimate}.", estimate=f"{drawn.estimate:.2f}"
        )
    return LOSSY, said


def measure(language: str, one: Fit) -> str:
    """A fit in a sentence, for those who do not see its figure."""
    return say(
        language,
        "Total variation {tv} in {n} draws; noise alone gives {mean} on average and at most {most} in 19 of 20 "
        "tests.",
        tv=f"{one.tv:.3f}", n=one.n, mean=f"{one.floor_mean:.3f}", most=f"{one.floor_95:.3f}",
    )  # fmt: skip


def chi(language: str, one: Fit) -> str:
    """The chi-square test of a fit."""
    if one.chi_share is None:
        return say(language, "Chi-square: too few draws in more than one cell.")
    return say(
        language, "Chi-square {value} with {freedom} degrees of freedom: p = {p}.",
        value=f"{one.chi_square:.1f}", freedom=one.freedom, p=chance(one.chi_share),
    )  # fmt: skip
