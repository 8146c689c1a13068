"""The numbers of a run: folds over its rounds, and nothing that is not in a round.

A `Tally` holds sums only, so that a live view can add a round at a time; every number is derived
from it when asked for, and is None where it is not defined. DEFINITIONS is what the page says.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from playground import theory
from playground.trace import VERDICTS, Round, Started, Token

DEFINITIONS: dict[str, tuple[str, str]] = {
    "acceptance_rate": (
        "acceptance rate",
        "accepted / drafted: the share of all guesses that were kept, discarded ones counted as guesses "
        "(vLLM's definition).",
    ),
    "tested_acceptance_rate": (
        "tested acceptance rate",
        "accepted / (accepted + rejected): of the guesses that were tested, the share that passed; "
        "discarded ones are left out (llama.cpp's definition).",
    ),
    "alpha": (
        "alpha",
        "mean over tested positions of sum(min(p, q)) = 1 - TV(p, q): how likely a guess is to pass under the verifier "
        "exact, from the two distributions themselves; only where the drafter has a distribution q and the verifier "
        "weighs it.",
    ),
    "predicted_acceptance": (
        "predicted acceptance",
        "mean over tested positions of the chance to pass under the run's own verifier, from p and q: alpha under "
        "exact; 1 - w TV(p, q) under ensemble; q's share of the tokens that pass under typical; the chance that both "
        "draw the guess under coupled, where (1 - TV) / (1 + TV) is the least on average. Beside it stands the "
        "tested acceptance rate.",
    ),
    "tv": (
        "TV to the target",
        "how far a lossy verifier is from the target: mean over tested positions of the total variation between p and "
        "the law of the token that is written there ((1 - w) TV(p, q) under ensemble). At temperature 0 the share of "
        "tested positions that get another token than the target's first choice. Not shown where it is 0 by design.",
    ),
    "tokens_per_pass": (
        "tokens per target pass",
        "emitted tokens / rounds, corrected and bonus tokens included. Plain decoding is 1.00.",
    ),
    "cost_ratio": (
        "cost ratio c",
        "seconds to draft one token / seconds of a one-token target pass.",
    ),
    "tokens_per_second": (
        "tokens per second",
        "emitted tokens / (draft + verify + sample seconds). Reading the prompt, observing and drawing are left out.",
    ),
    "measured_speedup": (
        "measured speedup",
        "plain seconds per token / speculative seconds per token: same prompt, same process, interleaved round by "
        "round, prefill left out.",
    ),
    "predicted_speedup": (
        "predicted speedup",
        "(1 - a^(K+1)) / ((1 - a)(K c + 1)) with a the predicted acceptance (or the tested acceptance rate where there "
        "is none) and c the measured cost ratio. Leviathan et al. 2023, theorem 3.8.",
    ),
    "predicted_speedup_verify": (
        "predicted speedup, measured verify cost",
        "theorem 3.8 with the measured cost of the wider checking pass in place of 1.",
    ),
    "efficiency": ("efficiency", "measured speedup / predicted speedup (theorem 3.8)."),
    "passes_saved": (
        "target passes saved",
        "emitted tokens - target passes: plain decoding would have needed one pass a token.",
    ),
}


def _ratio(a: float, b: float) -> float | None:
    return a / b if b > 0 and math.isfinite(a / b) else None


@dataclass(slots=True)
class Tally:
    """Sums over the rounds of one run. Add rounds in order; read numbers at any time."""

    prefill_seconds: float = 0.0
    calibrated_pass_seconds: float | None = None
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VERDICTS, 0))
    rounds: int = 0
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    sample_seconds: float = 0.0
    observe_seconds: float = 0.0
    overlap_sum: float = 0.0
    overlap_count: int = 0
    expected_sum: float = 0.0
    expected_count: int = 0
    tv_sum: float = 0.0
    tv_count: int = 0
    one_token_seconds: float = 0.0
    one_token_passes: int = 0
    draft_lengths: dict[int, int] = field(default_factory=dict)
    accepted_lengths: dict[int, int] = field(default_factory=dict)
    accepted_at: list[int] = field(default_factory=list)
    drafted_at: list[int] = field(default_factory=list)
    tested_at: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, rounds: Iterable[Round], started: Started | None = None) -> "Tally":
        """The tally of whole rounds."""
        tally = cls()
        if started is not None:
            tally.start(started)
        for one in rounds:
            tally.add(one)
        return tally

    def start(self, started: Started) -> None:
        """Take in what was measured before the first round."""
        self.prefill_seconds = started.prefill_seconds + started.draft_prefill_seconds
        self.calibrated_pass_seconds = started.pass_seconds

    def add(self, one: Round) -> None:
        """Take in one round; the cost does not grow with the run."""
        self.rounds += 1
        self.draft_seconds += one.draft_seconds
        self.verify_seconds += one.verify_seconds
        self.sample_seconds += one.sample_seconds
        self.observe_seconds += one.observe_seconds
        for token in one.tokens:
            self.counts[token.verdict] += 1
            if token.verdict in ("accepted", "rejected"):
                self._add_tested(token)
        if one.width == 1:
            self.one_token_seconds += one.verify_seconds
            self.one_token_passes += 1
        drafted, accepted = len(one.drafted), one.accepted
        self.draft_lengths[drafted] = self.draft_lengths.get(drafted, 0) + 1
        self.accepted_lengths[accepted] = self.accepted_lengths.get(accepted, 0) + 1
        while len(self.drafted_at) < drafted:
            self.drafted_at.append(0)
            self.accepted_at.append(0)
            self.tested_at.append(0)
        for i, token in enumerate(one.drafted):
            self.drafted_at[i] += 1
            self.accepted_at[i] += token.verdict == "accepted"
            self.tested_at[i] += token.verdict != "discarded"

    def _add_tested(self, token: Token) -> None:
        if token.overlap is not None:
            self.overlap_sum += token.overlap
            self.overlap_count += 1
        expected = token.overlap if token.expected is None else token.expected
        if expected is not None:
            self.expected_sum += expected
            self.expected_count += 1
        if token.tv is not None:
            self.tv_sum += token.tv
            self.tv_count += 1

    @property
    def emitted(self) -> int:
        """accepted + corrected + bonus + plain."""
        return sum(self.counts[v] for v in ("accepted", "corrected", "bonus", "plain"))

    @property
    def drafted(self) -> int:
        """accepted + rejected + discarded."""
        return sum(self.counts[v] for v in ("accepted", "rejected", "discarded"))

    @property
    def acceptance_rate(self) -> float | None:
        """accepted / drafted."""
        return _ratio(self.counts["accepted"], self.drafted)

    @property
    def tested_acceptance_rate(self) -> float | None:
        """accepted / (accepted + rejected)."""
        return _ratio(self.counts["accepted"], self.counts["accepted"] + self.counts["rejected"])

    @property
    def alpha(self) -> float | None:
        """Mean sum(min(p, q)) over tested positions; None where the drafter has no q."""
        return _ratio(self.overlap_sum, self.overlap_count)

    @property
    def predicted_acceptance(self) -> float | None:
        """Mean chance to pass of tested positions, from p and q; None where it is not known."""
        return _ratio(self.expected_sum, self.expected_count)

    @property
    def tv(self) -> float | None:
        """Mean total variation between what is written at tested positions and p; None where it is 0 by design."""
        return _ratio(self.tv_sum, self.tv_count)

    @property
    def tokens_per_pass(self) -> float | None:
        """Emitted tokens per round (tau)."""
        return _ratio(self.emitted, self.rounds)

    @property
    def decode_seconds(self) -> float:
        """Draft + verify + sample."""
        return self.draft_seconds + self.verify_seconds + self.sample_seconds

    @property
    def tokens_per_second(self) -> float | None:
        """Emitted tokens over decoding seconds."""
        return _ratio(self.emitted, self.decode_seconds)

    @property
    def passes_saved(self) -> int:
        """Emitted tokens less target passes."""
        return self.emitted - self.rounds

    def pass_seconds(self, plain: "Tally | None" = None) -> float | None:
        """Seconds of a one-token target pass: from the plain lane if there is one, else as calibrated
        before the run, else from this run's own one-token passes."""
        if plain is not None and plain.one_token_passes:
            return plain.one_token_seconds / plain.one_token_passes
        if self.calibrated_pass_seconds is not None:
            return self.calibrated_pass_seconds
        return _ratio(self.one_token_seconds, self.one_token_passes)

    def cost_ratio(self, plain: "Tally | None" = None) -> float | None:
        """c: seconds per drafted token / seconds of a one-token target pass."""
        one = self.pass_seconds(plain)
        return _ratio(self.draft_seconds, self.drafted * (one or 0.0))

    def verify_ratio(self, plain: "Tally | None" = None) -> float | None:
        """Mean seconds of this run's target passes / seconds of a one-token target pass."""
        one = self.pass_seconds(plain)
        return _ratio(self.verify_seconds, self.rounds * (one or 0.0))

    def measured_speedup(self, plain: "Tally | None") -> float | None:
        """Plain seconds per token / this run's seconds per token; None without a plain lane."""
        if plain is None or not plain.decode_seconds:
            return None
        return _ratio(plain.decode_seconds * self.emitted, plain.emitted * self.decode_seconds)

    def predicted_speedup(self, plain: "Tally | None" = None, measured_verify: bool = False) -> float | None:
        """Theorem 3.8 on this run's predicted acceptance (tested acceptance rate where there is none), draft lengths
        and cost ratio; with `measured_verify` also on its verify cost."""
        predicted = self.predicted_acceptance
        alpha = self.tested_acceptance_rate if predicted is None else predicted
        c = self.cost_ratio(plain)
        verify = self.verify_ratio(plain) if measured_verify else 1.0
        if alpha is None or c is None or verify is None:
            return None
        return theory.predicted_speedup_of_rounds(alpha, self.draft_lengths, c, verify)

    def acceptance_at(self) -> tuple[list[float], list[float | None]]:
        """Acceptance at positions 1, 2, ...: unconditional (rounds accepting at least i / rounds drafting at
        least i) and conditional (rounds accepting at least i / rounds that tested position i, which are those
        that accepted i - 1 and went on)."""
        unconditional = [a / d for a, d in zip(self.accepted_at, self.drafted_at, strict=True)]
        conditional = [_ratio(a, t) for a, t in zip(self.accepted_at, self.tested_at, strict=True)]
        return unconditional, conditional

    def numbers(self, plain: "Tally | None" = None) -> dict[str, float | None]:
        """Every number of DEFINITIONS by name; None where it is not defined."""
        measured, predicted = self.measured_speedup(plain), self.predicted_speedup(plain)
        return {
            "acceptance_rate": self.acceptance_rate,
            "tested_acceptance_rate": self.tested_acceptance_rate,
            "alpha": self.alpha,
            "predicted_acceptance": self.predicted_acceptance,
            "tv": self.tv,
            "tokens_per_pass": self.tokens_per_pass,
            "cost_ratio": self.cost_ratio(plain),
            "tokens_per_second": self.tokens_per_second,
            "measured_speedup": measured,
            "predicted_speedup": predicted,
            "predicted_speedup_verify": self.predicted_speedup(plain, measured_verify=True),
            "efficiency": None if measured is None or not predicted else measured / predicted,
            "passes_saved": self.passes_saved,
        }

    def seconds(self) -> dict[str, float]:
        """prefill, draft, verify, sample, observe and their total."""
        parts = {
            "prefill": self.prefill_seconds,
            "draft": self.draft_seconds,
            "verify": self.verify_seconds,
            "sample": self.sample_seconds,
            "observe": self.observe_seconds,
        }
        return {**parts, "total": sum(parts.values())}
