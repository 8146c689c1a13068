"""An assistant with another tokenizer: what is encoded again, which tokens are shared, and that it stays lossless."""

import json
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
import torch
from fakes import END, ScriptedTarget, byte_tokenizer, pair_for, tiny_llama, word_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import Run, collect, request_for, run
from test_lossless import LIMIT, LOSSLESS, chi_square, law_of
from tokenizers import Tokenizer, decoders, models, normalizers, processors
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from playground.alignment import Codec, Mirror, continuation, shared_tokens
from playground.engine import decode
from playground.models import wrap
from playground.run import Prepared
from playground.sampling import Law
from playground.text import IncrementalText, decode_all
from playground.trace import Finished, InvalidRequest, InvalidTrace, Round, Started, Trace, emitted_ids, trace_from_json
from playground.view import LaneInfo, Spoken, View
from strategies import Context
from strategies.base import drafter_rng
from strategies.universal import IntersectionDrafter, TextDrafter

BYTES, WORDS = byte_tokenizer(), word_tokenizer()
METHODS = ("text", "intersection")
STORY = "Hello there, the little girl and the park. 世界 🎉 a girl who liked 👩‍🚀 the the the the then! "


def metaspace_tokenizer() -> PreTrainedTokenizerFast:
    """As Llama 2's: a space is a visible character, a text begins with one, what is no token is spelled in bytes."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{n:02X}>" for n in range(256)), *"▁thelirg", "th", "the", "▁the", "▁l"]
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("▁", "l")]
    raw = Tokenizer(
        models.BPE({p: i for i, p in enumerate(pieces)}, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    raw.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    raw.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    raw.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


META = metaspace_tokenizer()
TOKENIZERS = {"bytes": BYTES, "words": WORDS, "metaspace": META}


def ids_of(tokenizer: Any, text: str) -> list[int]:
    """Without special tokens."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


# --- the same text in other tokens ----------------------------------------------------------------------


@pytest.mark.parametrize("source", TOKENIZERS)
@pytest.mark.parametrize("other", TOKENIZERS)
@pytest.mark.parametrize("lookbehind", [4, 10])
def test_a_window_encoded_again_gives_what_the_whole_text_would(source: str, other: str, lookbehind: int) -> None:
    ours, theirs = Codec(TOKENIZERS[source]), Codec(TOKENIZERS[other])
    ids = [*ours.opening, *ours.encode(8 * STORY + "  \n\n x\n" + 30 * "ab " + 30 * "🎉")]
    mirror, rng, n, widest = Mirror(ours, theirs, lookbehind), Random(0), 1, 0
    while n <= len(ids):
        mirrored, end = mirror.follow(ids[:n])
        text = ours.decode(ids[len(ours.opening) : end])
        assert mirrored == [*theirs.opening, *theirs.encode(text)]
        assert not text.endswith("\ufffd") and n - end <= 3
        widest = max(widest, n - mirror._start)
        n += rng.randint(1, 5)
    assert widest <= 4 * lookbehind + 40  # a window of many short characters waits for a place to begin anew


@settings(max_examples=60)
@given(st.text(max_size=60), st.lists(st.integers(1, 6), min_size=40, max_size=40))
def test_so_it_does_for_any_text(text: str, steps: list[int]) -> None:
    ours, theirs = Codec(BYTES), Codec(WORDS)
    ids = ours.encode(text.replace("<", ""))
    mirror, n = Mirror(ours, theirs, 4), 0
    for step in steps:
        n = min(len(ids), n + step)
        mirrored, end = mirror.follow(ids[:n])
        assert mirrored == theirs.encode(ours.decode(ids[:end]))


def test_ids_that_are_no_text_are_mirrored_all_the_same() -> None:
    rng = Random(1)
    ids = [rng.randrange(257) for _ in range(400)]
    mirror = Mirror(Codec(BYTES), Codec(WORDS), 4)
    for n in range(1, len(ids), 3):
        mirrored, end = mirror.follow(ids[:n])
        assert all(0 <= i < len(WORDS) for i in mirrored) and 0 <= n - end <= 3


def test_special_tokens_go_over_by_name_or_not_at_all() -> None:
    strange = word_tokenizer(end="<stop>")
    ids = [*ids_of(BYTES, "abc"), 256, *ids_of(BYTES, "abd")]
    assert Mirror(Codec(BYTES), Codec(WORDS), 10).follow(ids)[0] == ids_of(WORDS, f"abc{END}abd")
    assert Mirror(Codec(BYTES), Codec(strange), 10).follow(ids)[0] == ids_of(strange, "abcabd")
    begun = [1, *ids_of(META, "the")]
    assert Mirror(Codec(META), Codec(META), 10).follow(begun)[0] == begun  # one beginning, not two


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("known", ["the", "the girl", "Hello ", "a\n", "the th", "ab ab ab ab"])
@pytest.mark.parametrize("after", ["e", " little the", "\n\nthe", "  the", "rl who", "世界 🎉", " ab ab"])
def test_a_continuation_joins_to_the_text(name: str, known: str, after: str) -> None:
    codec = Codec(TOKENIZERS[name])
    ids = codec.encode(known)
    more = continuation(codec, ids, after, 10)
    assert more, "there is always a way to write it"
    assert codec.decode([*ids, *more]) == known + after


def test_a_continuation_completes_a_character_that_was_begun() -> None:
    codec = Codec(BYTES)
    begun = codec.encode("the 🎉")[:-2]
    assert codec.decode([*begun, *continuation(codec, begun, "🎉 girl", 10)]) == "the 🎉 girl"
    assert continuation(codec, begun, "girl", 10) == []


def test_shared_tokens_stand_for_the_same_text() -> None:
    assert shared_tokens(BYTES, BYTES) == {i: i for i in range(257)}
    shared = shared_tokens(WORDS, BYTES)
    assert len(shared) == 257 and shared[0] == 256  # every byte, and the stop token by its name
    meta = shared_tokens(WORDS, META)
    texts = {WORDS.convert_ids_to_tokens(i): META.convert_ids_to_tokens(j) for i, j in meta.items()}
    assert texts["Ġthe"] == "▁the" and texts["Ġ"] == "▁" and texts["t"] == "t" and texts["Ċ"] == "<0x0A>"
    assert len(set(meta.values())) == len(meta)
    assert "ð" in texts and texts["ð"] == "<0xF0>"


# --- a pair that writes the same text ----------------------------------------------------------------------


class Scribe:
    """An assistant that writes `text` in its own tokens, wherever in it the prefix ends."""

    def __init__(self, tokenizer: Any, text: str, context: int | None = None) -> None:
        self.name, self.context, self.vocab_size = "scribe", context, len(tokenizer)
        self._tokenizer, self._text = tokenizer, text
        self.fed: list[int] = []
        self.passes = 0

    def logits(self, ids: Sequence[int], keep: int) -> Tensor:
        """[1, V], sure of one token."""
        assert keep == 1
        self.passes += 1
        self.fed += ids
        plain = [i for i in ids if i not in self._tokenizer.all_special_ids]
        codec = Codec(self._tokenizer)
        written = codec.decode(plain[: codec.whole(plain)])
        rest = continuation(codec, plain, self._text[len(written) :], 10)
        return 9.0 * torch.nn.functional.one_hot(torch.tensor([rest[0] if rest else 0]), self.vocab_size)

    def release(self) -> None:
        """Nothing."""


def scripted(text: str, target: Any, assistant: Scribe, spoken: Any, k: int = 4, method: str = "text") -> Run:
    """A target that writes `text` after its first token, an assistant that writes it too."""
    script = ids_of(target, text)
    vocab = len(target)

    def logits_of(ids: tuple[int, ...]) -> Tensor:
        return 9.0 * torch.nn.functional.one_hot(torch.tensor(script[len(ids)]), vocab).float()

    request = request_for(
        "universal", prompt=tuple(script[:1]), max_new_tokens=len(script) - 2, k=k, settings={"method": method}
    )
    model: Any = ScriptedTarget(vocab, logits_of)
    model.name = "scripted"
    helper: Any = assistant
    context = Context(request, model, helper, Law(request), drafter_rng(request), target, spoken)
    drafter = (TextDrafter if method == "text" else IntersectionDrafter)(context)
    return collect(decode(request, model, drafter), request)


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("ours, theirs", [("bytes", "words"), ("words", "bytes"), ("words", "metaspace")])
def test_an_assistant_that_writes_the_same_is_believed_over_and_over(ours: str, theirs: str, k: int) -> None:
    target, spoken = TOKENIZERS[ours], TOKENIZERS[theirs]
    one = scripted(3 * STORY, target, Scribe(spoken, 3 * STORY), spoken, k)
    drafted = [t for r in one.rounds for t in r.drafted]
    rate = sum(t.verdict == "accepted" for t in drafted) / len(drafted)
    assert rate > 0.9
    assert len(one.ids) / len(one.rounds) > (k + 1) / 2
    assert max(len(r.drafted) for r in one.rounds) <= k  # case 9
    for each in one.rounds:
        assert bool(each.drafted_as) == bool(each.drafted)
        assert decode_all(target, [t.id for t in each.drafted]).strip("\ufffd") in "".join(each.drafted_as)


def test_case_15_no_draft_holds_a_replacement_character() -> None:
    text = "👩‍🚀 世界 🎉 héllo 🎉 世界 the 👩‍🚀 world 世界世界 🎉🎉🎉🎉 the girl "
    for k in (1, 2, 3, 4, 7):
        one = scripted(text, BYTES, Scribe(WORDS, text), WORDS, k)
        shown = IncrementalText(BYTES, window=4)
        pieces = [shown.push(i) for i in ids_of(BYTES, text)[:1] + list(one.ids)] + [shown.finish()]
        assert "\ufffd" not in "".join(pieces[:-1])
        replacement = ids_of(BYTES, "\ufffd")
        for each in one.rounds:
            ids = [t.id for t in each.drafted]
            assert "\ufffd" not in "".join(each.drafted_as)
            assert all(ids[i : i + 3] != replacement for i in range(len(ids)))


def test_case_8_special_tokens_of_either_side_end_a_draft() -> None:
    text = f"the girl {END} the girl and "
    meant = [*ids_of(BYTES, "the girl "), *(ord_of(c) for c in END), *ids_of(BYTES, " the girl and ")]
    assert 256 not in meant

    class Speller(Scribe):
        """Writes the stop token's name letter by letter."""

        def logits(self, ids: Sequence[int], keep: int) -> Tensor:
            """[1, V]."""
            return 9.0 * torch.nn.functional.one_hot(
                torch.tensor([spelled[min(len(ids), len(spelled) - 1)]]), len(WORDS)
            )

    spelled = [i for c in text for i in ids_of(WORDS, c)]
    request = request_for("universal", prompt=tuple(meant[:4]), k=32)
    target: Any = pair_for("universal")[0].follow()
    helper: Any = Speller(WORDS, text)
    made = TextDrafter(Context(request, target, helper, Law(request), drafter_rng(request), BYTES, WORDS))
    proposal = made.propose(meant[:4], 32)
    assert proposal.ids and 256 not in proposal.ids
    assert decode_all(BYTES, proposal.ids) in text

    # A tokenizer that puts a beginning of sequence before every text puts none into a draft or twice into a context.
    scribe = Scribe(META, STORY)
    one = scripted(STORY, WORDS, scribe, META)
    assert all(t.id not in WORDS.all_special_ids for r in one.rounds for t in r.drafted)
    back = scripted(STORY, META, Scribe(WORDS, STORY), WORDS)
    assert all(t.id not in META.all_special_ids for r in back.rounds for t in r.drafted)


def ord_of(character: str) -> int:
    """The byte tokenizer's id."""
    return int(BYTES.convert_tokens_to_ids(character))


def test_a_full_context_of_the_assistant_ends_its_drafts_and_not_the_run() -> None:
    one = scripted(STORY, BYTES, Scribe(WORDS, STORY, context=20), WORDS)
    assert one.rounds[1].drafted and not one.rounds[-1].drafted
    assert one.finished.reason == "length"


# --- models ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("lookbehind", [4, 10])
def test_greedy_output_is_the_targets_own(method: str, k: int, lookbehind: int) -> None:
    target, helper = pair_for("universal")
    for text in ("Hello the little girl", "abc abc abd", "🎉 世界"):
        values: dict[str, Any] = {"prompt": tuple(ids_of(BYTES, text)), "max_new_tokens": 60, "k": k}
        one = run("universal", target, helper, settings={"method": method, "lookbehind": lookbehind}, **values)
        assert one.ids == run("plain", target, **values).ids
        assert any(r.drafted for r in one.rounds)
        assert max(len(r.drafted) for r in one.rounds) <= k


@pytest.mark.parametrize("method", METHODS)
def test_greedy_output_is_that_of_transformers(method: str) -> None:
    target, helper = pair_for("universal", stops=False)
    for text in ("Hello the little girl", "abc abc abd"):
        prompt = ids_of(BYTES, text)
        theirs = target.model.generate(
            torch.tensor([prompt]), assistant_model=helper.model, tokenizer=BYTES, assistant_tokenizer=WORDS,
            do_sample=False, max_new_tokens=40, pad_token_id=0,
        )  # fmt: skip
        one = run("universal", target, helper, prompt=tuple(prompt), max_new_tokens=40, settings={"method": method})
        assert list(one.ids) == theirs[0, len(prompt) :].tolist()


@pytest.mark.parametrize("verifier", LOSSLESS)
@pytest.mark.parametrize("method", METHODS)
def test_both_methods_keep_the_targets_law(method: str, verifier: str) -> None:
    target, helper = pair_for("universal", vocab=20)
    runs = 400
    base: dict[str, Any] = {"prompt": (1, 2, 3, 4, 1, 2, 3), "max_new_tokens": 2, "k": 2, "verifier": verifier,
                            "temperature": 1.0, "top_k": 6, "settings": {"method": method}}  # fmt: skip
    counts: Counter[tuple[int, ...]] = Counter()
    drafted = 0
    for seed in range(runs):
        request = request_for("universal", seed=seed, **{**base, "settings": {"method": method}})
        rounds = [e for e in Prepared(request, target, helper).events() if isinstance(e, Round)]
        drafted += sum(len(r.drafted) for r in rounds)
        counts[emitted_ids(rounds)] += 1

    def logits_of(prefix: tuple[int, ...]) -> Tensor:
        with torch.inference_mode():
            return target.model(torch.tensor([prefix])).logits[0, -1].float()

    assert drafted > runs / 4
    assert chi_square(counts, law_of(request_for("universal", **base), logits_of, 2), runs) < LIMIT


def test_drafted_shared_tokens_come_with_the_law_they_were_drawn_from() -> None:
    target, helper = pair_for("universal")
    request = request_for("universal", temperature=1.0, top_k=5, banned_ids=(66,), settings={"method": "intersection"})
    context = Context(
        request, target.follow(), helper.follow(), Law(request), drafter_rng(request), BYTES, helper.tokenizer
    )
    prompt = ids_of(BYTES, "Hello the")
    made = IntersectionDrafter(context)
    with torch.inference_mode():
        proposal = made.propose(prompt, 3)
        logits = helper.model(torch.tensor([ids_of(WORDS, "Hello the")])).logits[0, -1].float()
    assert proposal.q is not None and proposal.q.shape == (3, 257)
    expected = torch.full((1, 257), -torch.inf)
    for ours, theirs in shared_tokens(BYTES, WORDS).items():
        expected[0, ours] = logits[theirs]
    law = Law(request)
    assert torch.allclose(proposal.q[0], law.probabilities(law.scores(expected, prompt))[0], atol=1e-5)
    assert float(proposal.q[0, 66]) == 0


@pytest.mark.parametrize("method", METHODS)
def test_neither_models_weights_nor_configuration_change(method: str) -> None:
    target, helper = pair_for("universal")
    before = {n: p.clone() for n, p in helper.model.state_dict().items()}
    config, modules = helper.model.config.to_json_string(), list(helper.model.named_modules())
    run("universal", target, helper, max_new_tokens=20, temperature=1.0, settings={"method": method})
    assert all(torch.equal(p, before[n]) for n, p in helper.model.state_dict().items())
    assert helper.model.config.to_json_string() == config and list(helper.model.named_modules()) == modules


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rows", [200, 300])
def test_case_13_no_id_outside_the_targets_rows_is_drafted(method: str, rows: int) -> None:
    target = wrap("rows", tiny_llama(vocab=rows, eos=None), BYTES)
    helper = pair_for("universal", stops=False)[1]
    one = run(
        "universal",
        target,
        helper,
        prompt=(40, 50, 60),
        max_new_tokens=40,
        temperature=1.0,
        settings={"method": method},
    )
    assert any(r.drafted for r in one.rounds)
    assert all(0 <= t.id < rows for r in one.rounds for t in r.tokens)


@pytest.mark.parametrize("method", METHODS)
def test_one_tokenizer_for_both_works_too(method: str) -> None:
    target = pair_for("universal")[0]
    one = run("universal", target, target, prompt=(72, 101, 108), settings={"method": method}, max_new_tokens=40)
    assert one.ids == run("plain", target, prompt=(72, 101, 108), max_new_tokens=40).ids
    assert "accepted" in {v for _, v in one.verdicts}


def test_too_few_shared_tokens_are_refused_with_their_number() -> None:
    target, helper = pair_for("universal", vocab=12)
    with pytest.raises(InvalidRequest, match=r"tiny-helper shares 12 tokens with tiny.*at least 16.*method 'text'"):
        run("universal", target, helper, prompt=(1, 2), settings={"method": "intersection"})


# --- what re-encoding did, for the page ----------------------------------------------------------------


def test_what_a_draft_was_drafted_as_is_in_trace_and_message() -> None:
    one = scripted(STORY, BYTES, Scribe(WORDS, STORY), WORDS)
    trace = Trace(one.request, Started(0.0), one.rounds, Finished("length", len(one.rounds), len(one.ids)))
    assert any(r.drafted_as for r in one.rounds)
    assert trace_from_json(trace.to_json()) == trace
    old = json.loads(trace.to_json())
    for each in old["rounds"]:
        del each["drafted_as"]
    assert all(r.drafted_as == () for r in trace_from_json(json.dumps(old)).rounds)
    old["rounds"][0]["drafted_as"] = [1]
    with pytest.raises(InvalidTrace, match="drafted_as"):
        trace_from_json(json.dumps(old))
    view = View([Spoken(BYTES)], (LaneInfo("Universal", True),), True)
    for each in one.rounds:
        view.add(0, each)
    sent = view.take()["rounds"]
    assert [tuple(r[5]) if len(r) > 5 else () for r in sent] == [r.drafted_as for r in one.rounds]
