"""Claims about how the drafter was made and measured."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from playground.training import prompts, shards
from playground.training.data import Batch, collate, targets
from playground.training.distill import Schedule, distillation_loss, drafter_config
from playground.training.evaluate import BUNDLED, Rounds, simulate
from playground.training.sample import Task, continuations
from playground.training.slots import Slots, compiled_attention, top_logits
from playground.training.start import new_drafter


def _sample(response: int = 6, kind: str = "story", seed: int = 0) -> shards.Sample:
    rng = np.random.default_rng(seed)
    top = np.stack([rng.choice(500, 32, replace=False) for _ in range(response)])
    logits = np.sort(rng.normal(0, 3, (response, 32)))[:, ::-1].astype(np.float16)
    return shards.Sample(
        kind=kind,
        temperature=0.0,
        prompt=rng.integers(3, 500, 9).astype(np.uint16),
        response=top[:, 0].astype(np.uint16),
        top_ids=top.astype(np.uint16),
        top_logits=logits,
        logsumexp=(np.log(np.exp(logits.astype(np.float32)).sum(1)) + 0.1).astype(np.float32),
    )


def test_bench_has_six_prompts_of_each_kind() -> None:
    rows = [json.loads(line) for line in prompts.BENCH.read_text(encoding="utf-8").splitlines()]
    kinds = [row["kind"] for row in rows]
    assert {kind: kinds.count(kind) for kind in kinds} == dict.fromkeys(
        ("story", "explain", "rewrite", "code", "chat"), 6
    )
    assert len({row["prompt"] for row in rows}) == 30


def test_rewriting_prompts_hold_a_passage_of_80_to_150_words() -> None:
    for line in prompts.BENCH.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["kind"] == "rewrite":
            assert 80 <= len(row["prompt"].split("\n\n", 1)[1].split()) <= 150


def test_evaluation_prompts_are_excluded_however_they_are_written() -> None:
    bench = prompts.BenchFilter()
    for line in prompts.BENCH.read_text(encoding="utf-8").splitlines():
        prompt = json.loads(line)["prompt"]
        assert bench.excludes(prompt)
        assert bench.excludes(prompt.upper().replace(",", " ") + "!")
        if len(prompt.split()) > 12:
            assert bench.excludes("Please answer. " + prompt + " Thank you.")
    assert not bench.excludes("Write a short story about a fox who learns to swim.")


def test_templates_repeat_no_prompt_and_yield_none_of_the_evaluation() -> None:
    texts = ["The old mill stood by the river. " * 8 + "It was quiet. " * 12]
    bench, seen = prompts.BenchFilter(), set()
    stream = prompts.mixed_prompts(np.random.default_rng(3), texts, 0.0, seen)
    drawn = list(itertools.islice(stream, 1500))
    assert len({prompts.normal(prompt) for _, prompt in drawn}) == 1500
    assert not any(bench.excludes(prompt) for _, prompt in drawn)
    assert {kind for kind, _ in drawn} >= {"story", "explain", "code", "chat", "rewrite", "list"}


def test_an_evaluation_prompt_in_the_source_never_comes_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held_out = json.loads(prompts.BENCH.read_text(encoding="utf-8").splitlines()[0])["prompt"]
    pairs = itertools.cycle([("story", held_out), ("story", "Tell me about a fox.")])
    monkeypatch.setattr(prompts, "template_prompts", lambda rng, texts: pairs)
    stream = prompts.mixed_prompts(np.random.default_rng(0), (), 0.0, set())
    assert next(stream) == ("story", "Tell me about a fox.")


def test_a_shard_gives_back_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    samples = [_sample(6, seed=1), _sample(3, "code", seed=2)]
    path = shards.write_shard(samples, "test")
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    for wrote, read in zip(samples, shards.read_shard(path), strict=True):
        assert wrote.kind == read.kind
        for name in ("prompt", "response", "top_ids", "top_logits", "logsumexp"):
            assert np.array_equal(getattr(wrote, name), getattr(read, name)), name
    assert np.array_equal(shards.read_prompts(path)[1], samples[1].prompt)


def test_top_logits_are_those_of_topk() -> None:
    logits = torch.randn(5, 49152)
    values, ids = top_logits(logits)
    expected = logits.topk(32, -1)
    assert torch.equal(values, expected.values)
    assert torch.equal(logits.gather(1, ids), values)


def test_targets_are_at_most_one_and_keep_the_first_choice_on_top() -> None:
    ids, chances = targets(_sample(20))
    assert (chances.sum(1) <= 1 + 1e-4).all()
    assert (chances.argmax(1) == 0).all()
    assert ids.shape == chances.shape


def test_each_target_stands_at_the_position_before_its_token() -> None:
    samples = [_sample(6, seed=1), _sample(4, seed=2)]
    batch = collate(samples)
    flat = batch.ids.reshape(-1)
    after = [int(flat[w + 1]) for w in batch.where[:5]]
    assert after == samples[0].response[:5].tolist()
    assert int(flat[batch.where[0]]) == int(samples[0].prompt[-1])
    assert batch.where.shape == batch.weight.shape == batch.top_p.shape[:1] == (10,)


def _tiny() -> LlamaConfig:
    return drafter_config(hidden_size=64, intermediate_size=32, num_attention_heads=4, num_key_value_heads=4)


def test_the_loss_with_sampled_candidates_estimates_the_full_loss() -> None:
    torch.manual_seed(0)
    drafter = LlamaForCausalLM(_tiny())
    batch: Batch = collate([_sample(8, seed=s) for s in range(3)])
    with torch.inference_mode():
        full = float(distillation_loss(drafter, batch, 40_000))
        few = np.mean([float(distillation_loss(drafter, batch, 1000)) for _ in range(5)])
    assert few == pytest.approx(full, abs=0.02)


def test_the_schedule_warms_up_stays_and_ends_at_zero() -> None:
    schedule = Schedule(100)
    assert schedule.factor(0) < 0.1
    assert schedule.factor(10) == schedule.factor(60) == 1
    assert schedule.factor(100) == 0


def test_an_untrained_drafter_looks_up_what_followed_a_token_before() -> None:
    torch.manual_seed(0)
    target = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=49152,
            hidden_size=200,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            tie_word_embeddings=True,
        )
    )
    drafter = new_drafter(target, drafter_config()).eval()
    ids = torch.randint(100, 40_000, (1, 60))
    with torch.inference_mode():
        logits = drafter(torch.cat([ids, ids], 1)).logits[0, 60:-1]
    assert float((logits.argmax(-1) == ids[0, 1:]).float().mean()) > 0.9


@pytest.mark.parametrize(
    ("bits", "k", "rounds"),
    [
        ("1111", 4, Rounds(4, 0, 1, 4)),
        ("11110", 4, Rounds(4, 0, 1, 5)),
        ("0000", 4, Rounds(0, 4, 4, 4)),
        ("110110", 2, Rounds(4, 0, 2, 6)),
        ("101", 4, Rounds(2, 1, 2, 3)),
    ],
)
def test_rounds_follow_from_agreement(bits: str, k: int, rounds: Rounds) -> None:
    assert simulate([b == "1" for b in bits], k) == rounds


@pytest.mark.skipif(not BUNDLED.exists(), reason="no bundled drafter")
def test_the_bundled_drafter_is_small_and_speaks_the_targets_vocabulary() -> None:
    assert (BUNDLED / "model.safetensors").stat().st_size <= 25_000_000
    config = json.loads((BUNDLED / "config.json").read_text(encoding="utf-8"))
    assert config["vocab_size"] == 49152
    assert config["tie_word_embeddings"] is True


def _slots_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=4096,
        hidden_size=192,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=64,
        initializer_range=0.2,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).to(torch.bfloat16).eval()


def _kernel() -> bool:
    try:
        compiled_attention()
    except RuntimeError:
        return False
    return True


@pytest.mark.skipif(not _kernel(), reason="no g++ or no AVX512-BF16")
def test_slots_give_the_models_logits_and_do_not_see_each_other() -> None:
    model = _slots_model()
    slots = Slots(model, 4, 64, [7, 8, 9])
    prompts_ = [[5, 6], [10, 11, 12, 13, 14], [20], [30] * 20]
    first = slots.fill([2, 0, 1, 3], prompts_)
    tokens, positions = torch.zeros(4, dtype=torch.long), torch.zeros(4, dtype=torch.long)
    for slot, prompt in zip([2, 0, 1, 3], prompts_, strict=True):
        tokens[slot], positions[slot] = 40 + slot, 3 + len(prompt)
    second = slots.step(tokens, positions)
    for row, (slot, prompt) in enumerate(zip([2, 0, 1, 3], prompts_, strict=True)):
        ids = torch.tensor([[7, 8, 9, *prompt, 40 + slot]])
        with torch.inference_mode():
            expected = model(ids).logits[0, -2:].float()
        assert torch.nn.functional.cosine_similarity(first[row], expected[0], 0) > 0.999
        assert torch.nn.functional.cosine_similarity(second[slot], expected[1], 0) > 0.999


@pytest.mark.skipif(not _kernel(), reason="no g++ or no AVX512-BF16")
def test_every_task_is_finished_once_though_there_are_more_than_slots() -> None:
    slots = Slots(_slots_model(), 3, 64, [7, 8, 9])
    tasks = [Task("story", [5 + n], 0.0, 3 + n % 5) for n in range(11)]
    done = list(continuations(slots, iter(tasks), 511, torch.Generator().manual_seed(0)))
    assert sorted(map(id, done)) == sorted(map(id, tasks))
    for task in tasks:
        assert len(task.ids) == len(task.tops) == len(task.lse) <= task.limit
        assert task.ids == [int(top[0]) for top in task.tops]
