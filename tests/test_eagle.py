"""What the strategy eagle promises beyond what all do: its head, its vocabulary, its cache, its training."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import byte_tokenizer, pair_for, tiny_head, tiny_llama, tiny_loaded
from runs import request_for, run

from playground.eagle_head import EagleHead, HeadModel, head_config, rotary_table, save_head
from playground.models import Loaded, load, wrap
from playground.sampling import Law
from playground.trace import InvalidRequest
from playground.training import eagle_data, eagle_train, prompts
from playground.training.eagle_data import Extract, Text
from strategies import STRATEGIES, Context
from strategies.base import drafter_rng
from strategies.eagle import EagleDrafter

PROMPT = (72, 101, 108, 108, 111)


def drafter(target: Loaded, head: Loaded, **values: Any) -> tuple[EagleDrafter, Any]:
    """A drafter alone, and the target that it watches."""
    request = request_for("eagle", **values)
    follower = target.follow()
    return EagleDrafter(Context(request, follower, head.follow(), Law(request), drafter_rng(request))), follower


@pytest.mark.parametrize("k", [1, 3, 5])
def test_greedy_text_is_that_of_plain_decoding(k: int) -> None:
    target, head = pair_for("eagle")
    one = run("eagle", target, head, k=k, max_new_tokens=40)
    assert one.ids == run("plain", target, max_new_tokens=40).ids
    assert any(r.drafted for r in one.rounds)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_only_the_draft_vocabulary_is_drafted_and_q_is_zero_outside(temperature: float) -> None:
    target, head = pair_for("eagle")
    few = set(head.draft_vocabulary or ())
    one = run("eagle", target, head, max_new_tokens=30, temperature=temperature)
    assert few and {t.id for r in one.rounds for t in r.drafted} <= few
    made, follower = drafter(target, head, temperature=temperature)
    with torch.inference_mode():
        follower.logits(PROMPT[:-1], keep=1)
        made.prepare(PROMPT)
        proposal = made.propose(PROMPT, 4)
    assert len(proposal.ids) == 4 and proposal.q is not None and proposal.scores is not None
    outside = [i for i in range(target.model.config.vocab_size) if i not in few]
    assert torch.allclose(proposal.q.sum(-1), torch.ones(4)) and float(proposal.q[:, outside].sum()) == 0
    assert bool((proposal.scores[:, outside] == -torch.inf).all())


def test_drafts_with_kept_rows_equal_those_that_read_everything_anew() -> None:
    target, head = pair_for("eagle")
    text = list(PROMPT)
    kept, follower = drafter(target, head)
    with torch.inference_mode():
        follower.logits(text[:-1], keep=1)
        kept.prepare(text)
        for step in range(5):
            draft = list(kept.propose(text, 3).ids)
            anew, other = drafter(target, head)
            other.logits(text[:-1], keep=1)
            assert draft == list(anew.propose(text, 3).ids)
            follower.logits(text + draft, keep=4)
            text += [*draft[: step % 4], 65 + step]  # some accepted, then another


def test_a_row_of_the_cache_is_that_of_a_chain_in_training() -> None:
    target, head = pair_for("eagle")
    model: Any = target.model
    ids = torch.tensor([[72, 101, 108, 108, 111, 32, 65, 66, 67, 68]])
    with torch.no_grad():
        hidden = model.model(input_ids=ids).last_hidden_state
        empty = torch.zeros(1, ids.shape[1], eagle_train.KEEP)
        batch = eagle_train.Batch(ids, hidden, empty.long(), empty, torch.zeros_like(ids))
        teacher = eagle_train.Teacher(
            model.model.embed_tokens.weight, model.lm_head.weight, rotary_table(model.config, 32, torch.float32)
        )
        starts = torch.tensor([1, 4])
        steps = [made for made, _ in eagle_train.chain(head.model, teacher, batch, starts)]
        for place, start in enumerate(starts.tolist()):
            cached = HeadModel(head.model, "head", None)
            embeds = model.model.embed_tokens(ids[0])
            made = cached.read(embeds[1 : start + 2], hidden[0, : start + 1])
            assert torch.allclose(made, steps[0][0, : start + 1], atol=1e-5)
            for step in (1, 2):
                made = cached.read(embeds[start + 1 + step : start + 2 + step], made[-1:])
                assert torch.allclose(made[0], steps[step][0, place], atol=1e-5)
            cached.crop(start + 1)
            again = cached.read(embeds[start + 2 : start + 3], steps[0][0, start : start + 1])
            assert torch.allclose(again[0], steps[1][0, place], atol=1e-5)


def test_other_targets_and_other_assistants_are_refused_by_name() -> None:
    check = STRATEGIES["eagle"].check
    target, head = pair_for("eagle")
    with pytest.raises(InvalidRequest, match="needs an assistant .* and none was chosen: choose smollm2-eagle"):
        check(target, None)
    with pytest.raises(InvalidRequest, match="tiny is none: choose smollm2-eagle"):
        check(target, tiny_loaded())
    with pytest.raises(InvalidRequest, match=r"hidden size 32, and wide is a llama of 64.*smollm2-135m-instruct"):
        check(tiny_loaded("wide", hidden=64), head)
    fewer = byte_tokenizer()
    fewer.add_tokens(["<|more|>"])
    with pytest.raises(InvalidRequest, match="do not share a vocabulary"):
        check(replace(target, tokenizer=fewer), head)
    with pytest.raises(InvalidRequest, match=r"tiny-head \(EagleHead\).*choose the strategy eagle"):
        run("assistant", target, head)


def test_where_all_its_tokens_are_banned_it_drafts_none() -> None:
    target, head = pair_for("eagle")
    banned = tuple(head.draft_vocabulary or ())
    for temperature in (0.0, 1.0):
        one = run("eagle", target, head, banned_ids=banned, max_new_tokens=8, temperature=temperature)
        assert not any(r.drafted for r in one.rounds)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_folder_is_loaded_as_it_was_saved(dtype: str, tmp_path: Path) -> None:
    _, head = pair_for("eagle")
    save_head(head.model, tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    (tmp_path / "draft_vocabulary.json").write_text("[0, 1, 2, 65, 66]")
    loaded = load("head", tmp_path, dtype)
    assert loaded.draft_vocabulary == (0, 1, 2, 65, 66) and loaded.dtype == dtype
    for name, weight in loaded.model.state_dict().items():
        assert torch.equal(weight, head.model.state_dict()[name].to(weight.dtype))
    wide = wrap("target", tiny_llama().to(loaded.model.dtype), byte_tokenizer())
    one = run("eagle", wide, loaded, max_new_tokens=12)
    assert {t.id for r in one.rounds for t in r.drafted} <= {0, 1, 2, 65, 66}
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(InvalidRequest, match="head could not be loaded as a drafting head"):
        load("head", tmp_path, dtype)


# --- training -----------------------------------------------------------------------------------------------


def extract_of(model: Any, seed: int, held: bool = False) -> Extract:
    """That of a random text."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 64, (20,), generator=generator).int()
    with torch.no_grad():
        hidden = model.model(input_ids=ids[None, :-1].long()).last_hidden_state[0]
        logits = model.lm_head(hidden[4:])
    best = logits.topk(32)
    return Extract(seed, "corpus", held, 5, ids, hidden, best.indices.int(), best.values.half(), logits.logsumexp(-1))


def test_a_shard_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = tiny_llama(vocab=64, eos=None)
    made = [extract_of(model, seed, held=seed == 1) for seed in range(3)]
    path = eagle_data.write(made)
    assert eagle_data.keys(path) == [0, 1, 2] and not list(path.parent.glob("*.tmp"))
    for one, other in zip(made, eagle_data.read(path), strict=True):
        assert (one.key, one.source, one.held, one.prompt) == (other.key, other.source, other.held, other.prompt)
        for name in ("ids", "hidden", "top_ids", "top_logits", "logsumexp"):
            assert torch.equal(getattr(one, name), getattr(other, name))
    assert len(eagle_train.Pool(torch.arange(64)).rescan()) == 2
    assert [e.key for e in eagle_train.Pool(torch.arange(64), held=True).rescan()] == [1]


def test_texts_of_the_evaluation_and_those_done_are_left_out_and_sources_are_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    bench = json.loads(prompts.BENCH.read_text(encoding="utf-8").splitlines()[0])["prompt"]
    rows = [{"prompt": p, "response": "Once upon a time.", "complete": True} for p in (bench, "A", "B", "C", "D", "E")]
    lines = "".join(json.dumps(row) + "\n" for row in rows) + '{"prompt": "half wri'
    eagle_data.told().parent.mkdir(parents=True)
    eagle_data.told().write_text(lines)
    (tmp_path / "corpus.jsonl").write_text(lines.replace("Once", "Never"))
    tokenizer = byte_tokenizer()
    every = eagle_data.texts(tmp_path / "corpus.jsonl", tokenizer, 400, set())
    assert len(every) == 10 and {t.source for t in every[:3]} == {"stories", "corpus"}
    assert all(t.response[-1] == tokenizer.eos_token_id for t in every)
    assert bench not in "".join(tokenizer.decode(t.prompt.tolist()) for t in every)
    rest = eagle_data.texts(tmp_path / "corpus.jsonl", tokenizer, 400, {t.key for t in every[:4]})
    assert {t.key for t in rest} == {t.key for t in every[4:]}


def test_texts_of_a_group_are_of_similar_lengths_and_none_is_lost() -> None:
    import numpy as np

    window = [Text("corpus", False, np.zeros(5, np.uint16), np.full(n, n, np.uint16)) for n in range(8, 60)]
    groups = list(eagle_data.groups(window, 256))
    assert sorted(len(t.response) for g in groups for t in g) == list(range(8, 60))
    assert all(len(g) == 1 or len(g) * max(5 + len(t.response) for t in g) <= 256 for g in groups)


def test_the_loss_counts_the_targets_of_the_draft_vocabulary_only_and_its_gradient_is_right() -> None:
    logits = torch.randn(4, 8, dtype=torch.float32, requires_grad=True)
    top, p = torch.randint(0, 8, (4, 3)), torch.rand(4, 3)
    p[0] = 0
    own: Any = eagle_train._Agreement.apply(logits, top, p)
    plain = -(p * logits.log_softmax(-1).gather(1, top)).sum()
    assert torch.allclose(own, plain, atol=1e-5)
    (one,), (other,) = torch.autograd.grad(own, logits), torch.autograd.grad(plain, logits)
    assert torch.allclose(one, other, atol=1e-5) and float(one[0].abs().sum()) == 0


def test_training_raises_agreement_at_every_step() -> None:
    torch.manual_seed(0)
    model = tiny_llama(vocab=64, eos=None, spread=0.3)
    place = eagle_train.places(list(range(48)), 64)
    batch = eagle_train.collate([extract_of(model, seed) for seed in range(8)], place)
    assert set(batch.labels[:, :4].unique().tolist()) == {-100}
    assert bool((batch.p.sum(-1)[batch.labels >= 0] <= 1.01).all())
    teacher = eagle_train.teacher_of(model, list(range(48)), 64)
    head = EagleHead(head_config(model.config))
    before = eagle_train.agreement(head, teacher, [batch])
    optimiser = torch.optim.Adam(head.parameters(), 3e-3)
    for _ in range(60):
        optimiser.zero_grad()
        loss = eagle_train.loss_of(head, teacher, batch, feature=0.1)
        loss.backward()
        optimiser.step()
    after = eagle_train.agreement(head, teacher, [batch])
    assert all(a > b + 0.1 for a, b in zip(after, before, strict=True)) and after[0] >= after[1] >= after[2]


def test_a_new_head_starts_as_the_targets_last_layer() -> None:
    model = tiny_llama(vocab=64, eos=None)
    teacher = eagle_train.teacher_of(model, list(range(64)), 64)
    head = eagle_train.new_head(model, teacher, [extract_of(model, seed) for seed in range(6)])
    assert torch.equal(head.down.weight, model.model.layers[-1].mlp.down_proj.weight)
    assert torch.isfinite(head.fc.weight).all() and float(head.fc.weight.detach().abs().sum()) > 0
    assert sum(p.numel() for p in head.parameters()) == sum(p.numel() for p in tiny_head(model).parameters())
