"""The check of losslessness finds what is wrong and lets through what is right. Tiny models, float32, fixed seeds."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fakes import byte_tokenizer, pair_for, tiny_llama
from runs import DRAFTING, request_for

from playground import sampling
from playground.engine import Proposal
from playground.fit import Fit, Group, chi_square, distance, fit, judge, simulated, upper_tail
from playground.model_thread import in_model_thread
from playground.models import Library, wrap
from playground.proof import Agreement, Bar, Drawn, Proof, Prover, Texts, Written, check_draws
from playground.proof_html import picture
from playground.proof_words import BAD, GOOD, LOSSY, OPEN, about_draws, about_texts
from playground.run import Prepared
from playground.sampling import VERIFIERS, Chance, Verdicts, sample
from playground.trace import InvalidRequest, Round, Token, emitted_ids
from playground.ui.form import Form
from playground.ui.prove import Press
from strategies import STRATEGIES
from strategies.base import Context, Strategy

PROMPT = (1, 2, 3, 1, 2, 3, 1, 2)
P = np.array([0.5, 0.3, 0.15, 0.05, 0.0])


def prepared(strategy: str = "assistant", **values: Any) -> Prepared:
    target, helper = pair_for(strategy if strategy in DRAFTING else "assistant", vocab=12)
    request = request_for(strategy, **{"prompt": PROMPT, "max_new_tokens": 12, "k": 3, "temperature": 1.0} | values)
    return Prepared(request, target, helper if STRATEGIES[strategy].needs_assistant else None)


def proved(one: Prepared, draws: int = 200) -> Proof:
    prover = Prover(one, draws)
    for _ in prover.steps():
        pass
    return prover.proof()


# --- statistics ----------------------------------------------------------------------------------------


def test_the_distance_is_half_the_sum_of_all_differences() -> None:
    counts = Counter({0: 3, 1: 5, 4: 2})
    shares = np.array([counts[i] / 10 for i in range(5)])
    assert distance(Group(P, counts)) == pytest.approx(0.5 * np.abs(shares - P).sum())


def test_the_noise_floor_is_that_of_a_multinomial() -> None:
    rng = np.random.default_rng(1)
    ours = simulated(P, 40, 4000, rng)
    theirs = 0.5 * np.abs(rng.multinomial(40, P, size=4000) / 40 - P).sum(-1)
    assert ours.mean() == pytest.approx(theirs.mean(), rel=0.03)
    assert np.quantile(ours, 0.95) == pytest.approx(np.quantile(theirs, 0.95), rel=0.06)


def test_chi_square_pools_cells_until_each_is_expected_five_times() -> None:
    value, freedom = chi_square(Group(P, Counter({0: 12, 1: 5, 2: 2, 3: 1})))  # of 20: 10, 6, 3, 1 expected
    assert freedom == 1
    assert value == pytest.approx((12 - 10) ** 2 / 10 + (8 - 10) ** 2 / 10)
    value, freedom = chi_square(Group(P, Counter({0: 50, 1: 30, 2: 15, 3: 5})))
    assert (value, freedom) == (pytest.approx(0), 3)
    assert [upper_tail(3.841, 1), upper_tail(18.307, 10)] == pytest.approx([0.05, 0.05], abs=1e-4)


def test_draws_from_the_law_are_within_the_noise_and_others_outside() -> None:
    rng = np.random.default_rng(0)

    def found(law: np.ndarray, n: int) -> str:
        return judge([fit([Group(P, Counter(rng.choice(5, n, p=law).tolist()))], simulations=1000)])

    assert [found(P, 200) for _ in range(60)].count("outside") <= 1
    assert {found(np.array([0.25, 0.3, 0.3, 0.15, 0.0]), 200) for _ in range(20)} == {"outside"}
    assert found(np.array([0.5, 0.3, 0.1, 0.05, 0.05]), 200) == "outside"  # impossible tokens
    assert judge([]) == "untested"


# --- draws ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("strategy", "verifier"), [*((name, "exact") for name in DRAFTING), ("assistant", "coupled")])
def test_a_draw_from_a_prompt_read_once_is_that_of_a_run_of_its_own(strategy: str, verifier: str) -> None:
    one = prepared(strategy, verifier=verifier, repetition_penalty=1.1)
    prover = Prover(one, 6)
    for _ in prover.steps():
        pass
    for i, draw in enumerate(prover._draws):
        fresh = replace(one, request=replace(one.request, seed=i)).events()
        assert draw == emitted_ids([e for e in fresh if isinstance(e, Round)])[:2]


def test_the_prompt_is_read_once_where_that_can_be_and_the_proof_says_which() -> None:
    for strategy, again in (("assistant", False), ("prompt-lookup", False), ("early-exit", True), ("eagle", True)):
        drawn = proved(prepared(strategy), draws=3).drawn
        assert drawn is not None and drawn.rereads == again, strategy


@pytest.mark.parametrize(("strategy", "seed"), [("assistant", 0), ("prompt-lookup", 1000), ("prompt-lookup", 2000)])
def test_a_right_setting_is_within_the_noise(strategy: str, seed: int) -> None:
    found = proved(prepared(strategy, seed=seed))
    assert found.done and found.finding in ("within", "doubtful")
    assert found.texts is not None and {(a.same, a.parted) for a in found.texts.agreements} == {(12, False)}
    assert found.drawn is not None and found.drawn.done == 200 and len(found.drawn.fits) == 2
    assert about_texts("en", found, found.texts).kind == GOOD
    assert about_draws("en", found, found.drawn).kind in (GOOD, OPEN)


def liar(claim: Callable[[torch.Tensor], torch.Tensor]) -> Strategy:
    """Drafts from a distribution of its own and says that it was `claim` of it."""

    class Liar:
        def __init__(self, context: Context) -> None:
            self._rng = context.rng
            self._q = torch.tensor([8.0, 4.0, 2.0] + [0.1] * 9)
            self._q /= self._q.sum()

        def prepare(self, ids: Sequence[int]) -> None: ...

        def propose(self, ids: Sequence[int], k: int) -> Proposal:
            draft = tuple(sample(self._q, self._rng.random()) for _ in range(k))
            return Proposal(draft, claim(self._q).expand(k, -1))

        def release(self) -> None: ...

    return Strategy("liar", "Liar", "It lies.", "Never.", Liar)


@pytest.mark.parametrize(
    ("claim", "finding"), [(lambda q: q, "within"), (lambda q: torch.full_like(q, 1 / 12), "outside")]
)
def test_a_drafter_that_lies_about_q_is_found_out(
    claim: Callable[[torch.Tensor], torch.Tensor], finding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(STRATEGIES, "liar", liar(claim))
    found = proved(prepared("liar", seed=3))
    assert found.finding == finding
    assert found.drawn is not None
    said = about_draws("en", found, found.drawn)
    assert said.kind == (BAD if finding == "outside" else GOOD)


def keep_all(p: torch.Tensor, q: torch.Tensor | None, draft: Sequence[int], chance: Chance) -> Verdicts:
    """A verifier that keeps whatever is drafted."""
    tested = tuple(sampling.Tested(1.0, None) for _ in draft)
    return Verdicts(tested, len(draft), sample(p[len(draft)], chance.rng.random()))


def test_a_verifier_that_keeps_everything_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VERIFIERS, "match", replace(VERIFIERS["match"], verify=keep_all))
    assert proved(prepared(verifier="match")).finding == "outside"


@pytest.mark.parametrize("verifier", ["ensemble", "typical"])
def test_a_lossy_verifier_shows_its_distance_above_the_noise_and_near_its_estimate(
    verifier: str,
) -> None:
    found = proved(prepared(verifier=verifier), draws=120)
    assert found.texts is None and found.drawn is not None and found.drawn.first is not None
    first = found.drawn.first
    assert first.tv > first.floor_95 and found.finding == "outside"
    assert found.drawn.estimate == pytest.approx(first.tv, abs=0.08)
    assert about_draws("en", found, found.drawn).kind == LOSSY  # a distance, no fault


def test_stopping_keeps_the_draws_and_compares_them() -> None:
    prover = Prover(prepared(), 2000)
    for _ in prover.steps():
        if prover.progress[1] == 40:
            prover.stop()
    found = prover.proof()
    assert found.done and found.stopped and found.drawn is not None and found.drawn.done == 40
    assert found.drawn.second is not None
    assert about_draws("en", found, found.drawn).kind == OPEN  # too few for a tick, whatever they say


def test_a_text_of_one_token_has_no_second() -> None:
    found = proved(prepared(max_new_tokens=1), draws=20)
    assert found.drawn is not None and found.drawn.second is None and found.drawn.first is not None


# --- texts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", DRAFTING)
def test_at_temperature_0_every_strategy_writes_the_targets_text(strategy: str) -> None:
    found = proved(prepared(strategy, temperature=0.0))
    assert found.drawn is None and found.texts is not None
    assert found.texts.agreements == (Agreement(12),)
    assert about_texts("en", found, found.texts).verdict == "The same 12 tokens: no difference was found."


def test_the_first_difference_is_located_and_in_float32_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VERIFIERS, "match", replace(VERIFIERS["match"], verify=keep_all))
    one = prepared(temperature=0.0, verifier="match")

    def ids(run: Prepared) -> tuple[int, ...]:
        return emitted_ids([e for e in run.events() if isinstance(e, Round)])

    own, other = ids(one.plain()), ids(one)
    at = next(i for i, (a, b) in enumerate(zip(own, other, strict=True)) if a != b)
    found = proved(one)
    assert found.texts is not None
    agreement = found.texts.agreements[0]
    assert (agreement.same, agreement.parted, agreement.tie) == (at, True, False)
    names = tuple(byte_tokenizer().decode([ids[at]]) for ids in (own, other))
    assert agreement.names == names
    said = about_texts("en", found, found.texts)
    assert said.kind == BAD and f"part at token {at + 1}:" in said.verdict
    html = picture("en", found)
    assert html.count("<mark") == 2 and 'data-kind="bad"' in html


def parted(dtype: str, own: Token, other: Token) -> Agreement:
    target = wrap("tiny", tiny_llama(vocab=12, eos=None), byte_tokenizer())
    one = Prepared(request_for("prompt-lookup", prompt=PROMPT), replace(target, dtype=dtype), None)
    lanes = [Written("plain", (own,)), Written("prompt-lookup", (other,))]
    return Prover(one)._agreement(lanes[0], lanes[1], one.request)


def test_in_bfloat16_a_near_tie_is_named_and_no_fault() -> None:
    near = Token(1, "plain", p_top=((1, 0.5), (2, 0.5 * np.exp(-0.25))))
    far = Token(1, "plain", p_top=((1, 0.9), (2, 0.9 * np.exp(-2.0))))
    wide, none = Token(2, "accepted"), Token(3, "accepted")
    tie = parted("bfloat16", near, wide)
    assert tie.tie and tie.gap == pytest.approx(0.25)
    apart = parted("bfloat16", far, wide)
    assert not apart.tie and apart.gap == pytest.approx(2.0)
    assert parted("bfloat16", near, none) == replace(tie, names=('"', "$"), gap=None, tie=False)
    assert not parted("float32", near, wide).tie
    request = request_for("prompt-lookup", prompt=PROMPT)
    for agreement, kind, words in ((tie, OPEN, "0.25 apart. That is a tie within the rounding of bfloat16"),
                                   (apart, BAD, "does not explain")):  # fmt: skip
        texts = Texts("exact", (Written("plain", (near,)), Written("prompt-lookup", (wide,))), (agreement,), 12)
        said = about_texts("en", Proof(request, "bfloat16", True, texts), texts)
        assert said.kind == kind and words in said.verdict


# --- what a press of the button drives ------------------------------------------------------------------


def test_stop_does_not_wait_for_the_run_of_somebody_else(tiny_folders: tuple[Path, Path]) -> None:
    target, assistant = map(str, tiny_folders)
    form = Form("Hello", target=target, assistant=assistant, temperature=1.0, chat=False)
    press = Press(Library("float32"), form, 50)
    busy = threading.Event()
    other = threading.Thread(target=lambda: in_model_thread(busy.wait), daemon=True)
    other.start()
    try:
        said = []
        for text, _ in press.follow("en"):
            said.append(text)
            if text == "Waiting for another run to end":
                press.stop.set()
        assert press.prover is None and said[0] == "Checking the settings"
    finally:
        busy.set()
        other.join()


def test_at_the_time_limit_what_was_drawn_is_compared(tiny_folders: tuple[Path, Path]) -> None:
    target, assistant = map(str, tiny_folders)
    form = Form("Hello", target=target, assistant=assistant, temperature=1.0, chat=False, max_new_tokens=4)
    press = Press(Library("float32"), form, 2000, budget_seconds=1.0)
    for _ in press.follow("en"):
        pass
    assert press.ran_out and press.problem == ""
    assert press.last is not None and press.last.done and press.last.stopped


def test_what_cannot_be_run_is_said_before_anything_is_loaded() -> None:
    for values, words in (({"strategy": "plain"}, "nothing to prove"), ({"k": 99}, "K is 99")):
        press = Press(Library(), Form("Hello", **values), 50)
        assert [text for text, _ in press.follow("en")] == ["Checking the settings"]
        assert words in press.problem and press.prover is None


# --- what cannot be proved, and what is shown -----------------------------------------------------------


def test_plain_decoding_is_refused_in_words() -> None:
    with pytest.raises(InvalidRequest, match="nothing to prove"):
        Prover(prepared("plain"))


@pytest.mark.parametrize("draws", [0, 2001, 1.5, "many", None, True, float("nan")])
def test_a_number_of_draws_that_cannot_be_is_named(draws: Any) -> None:
    with pytest.raises(InvalidRequest, match="from 1 to 2,000"):
        check_draws(draws)


def test_what_the_models_wrote_is_escaped() -> None:
    evil = "<script>alert(1)</script>"
    lane = Written("assistant", (Token(1, "plain"), Token(2, "plain")), (evil, evil))
    texts = Texts("exact", (lane, lane), (Agreement(1, True, (evil, evil), 3.0),), 12)
    one = Fit(20, 0.1, 0.1, 0.2, 0.5, 1.0, 1, 0.4, 0)
    drawn = Drawn(20, 20, one, one, ((evil, 9),), None, (Bar(evil, 0.5, 0.4),), 1.0)
    request = request_for("assistant", prompt=PROMPT, temperature=1.0)
    html = picture("en", Proof(request, "float32", True, texts, drawn, "within", done=True))
    assert "<script" not in html and html.count("&lt;script&gt;") >= 7
