"""Every strategy: batched equals single, cached equals uncached."""

from __future__ import annotations

import pytest
import torch

from glassformer import BertConfig, BertLMHeadModel, GPT2Config, GPT2LMHeadModel, InputError
from glassformer.generate.generation import Generation
from glassformer.generate.model_runner import PREPARE_FROM_STEPS

STRATEGIES = {
    "greedy": {},
    "sampling": {"do_sample": True, "temperature": 1.3, "top_k": 20, "top_p": 0.9},
    "open sampling": {"do_sample": True, "top_k": 0, "min_p": 0.01, "typical_p": 0.95},
    "several samples": {"do_sample": True, "num_return_sequences": 3},
    "beams": {"num_beams": 4, "num_return_sequences": 3},
    "early beams": {"num_beams": 3, "early_stopping": True, "length_penalty": 2.0},
    "patient beams": {"num_beams": 3, "early_stopping": "never", "length_penalty": 0.5},
    "beams over new tokens": {"num_beams": 3, "length_penalty_counts": "new"},
    "beam sampling": {"num_beams": 3, "do_sample": True, "temperature": 1.5},
    "diverse beams": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0, "num_return_sequences": 4},
    "contrastive": {"penalty_alpha": 0.6, "top_k": 4},
    "penalties": {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2, "bad_words_ids": [[7], [8, 9]]},
    "at least": {"min_new_tokens": 6, "eos_token_id": [3, 4, 5, 11, 17]},
    "penalised beams": {"num_beams": 3, "no_repeat_ngram_size": 2, "min_length": 9},
}
PROMPTS = [[12, 30, 7, 9, 41], [25], [8, 8, 33], [50, 21, 14, 40, 2, 19, 28, 35, 6]]


def gpt2(**fields) -> GPT2LMHeadModel:
    torch.manual_seed(0)
    shape = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
    tokens = {"bos_token_id": 1, "eos_token_id": 3, "pad_token_id": 0, "max_position_embeddings": 64}
    return GPT2LMHeadModel(GPT2Config(**{**shape, **tokens, "initializer_range": 0.4, **fields})).double().eval()


def bert(**fields) -> BertLMHeadModel:
    torch.manual_seed(0)
    shape = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    rest = {"intermediate_size": 48, "max_position_embeddings": 64, "initializer_range": 0.4, "is_decoder": True}
    return BertLMHeadModel(BertConfig(**{**shape, **rest, "eos_token_id": 3, **fields})).double().eval()


MODELS = {
    "gpt2": gpt2,
    "bert": bert,
    "relative bert": lambda: bert(position_embedding_type="relative_key_query"),
}


def padded(prompts: list[list[int]], side: str) -> dict[str, torch.Tensor]:
    longest = max(map(len, prompts))
    rows = [(p, [0] * (longest - len(p))) for p in prompts]
    ids = torch.tensor([p + fill if side == "right" else fill + p for p, fill in rows])
    ones = [([1] * len(p), fill) for p, fill in rows]
    mask = torch.tensor([one + fill if side == "right" else fill + one for one, fill in ones])
    return {"input_ids": ids, "attention_mask": mask}


def seeds(strategy: dict, prompts: list[int]) -> dict:
    """A seed for each sampled sequence, the same whether its prompt is alone or not."""
    if not strategy.get("do_sample"):
        return {}
    each = 1 if strategy.get("num_beams", 1) > 1 else strategy.get("num_return_sequences", 1)
    return {"generator": [100 * prompt + copy for prompt in prompts for copy in range(each)]}


def new_tokens(model, inputs: dict, **settings) -> list[list[int]]:
    """The new tokens of every sequence, up to and including the first end token."""
    out = model.generate(**inputs, max_new_tokens=14, **settings)
    eos = settings.get("eos_token_id", model.generation_config.eos_token_id)
    ends = eos if isinstance(eos, list) else [eos]
    rows = []
    for row in out[:, inputs["input_ids"].shape[1] :].tolist():
        end = next((i + 1 for i, token in enumerate(row) if token in ends), len(row))
        rows.append(row[:end])
    return rows


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", MODELS)
def test_batched_equals_single(name, strategy):
    model, settings = MODELS[name](), STRATEGIES[strategy]
    alone = [
        row
        for number, prompt in enumerate(PROMPTS)
        for row in new_tokens(model, {"input_ids": torch.tensor([prompt])}, **settings, **seeds(settings, [number]))
    ]
    assert len({tuple(row) for row in alone}) > 2, "the prompts should have different continuations"
    for side in ("left", "right"):
        together = new_tokens(model, padded(PROMPTS, side), **settings, **seeds(settings, list(range(len(PROMPTS)))))
        assert together == alone, side


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", MODELS)
def test_cached_equals_uncached(name, strategy):
    model, settings = MODELS[name](), STRATEGIES[strategy]
    given = {**padded(PROMPTS, "left"), "max_new_tokens": 14, "return_dict_in_generate": True, "output_scores": True}
    results = [
        model.generate(**given, **settings, **seeds(settings, list(range(len(PROMPTS)))), use_cache=kept)
        for kept in (True, False)
    ]
    with_cache, without = results
    assert torch.equal(with_cache.sequences, without.sequences)
    assert with_cache.finish_reasons == without.finish_reasons
    for one, other in zip(with_cache.scores, without.scores, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_fast_decode_step_equals_the_modules(name, dtype):
    """A decode step without modules gives the scores of one with them, which a hook requests."""
    model = MODELS[name]().to(dtype)
    given = {**padded(PROMPTS, "left"), "max_new_tokens": 14, "return_dict_in_generate": True, "output_scores": True}
    for settings in ({}, {"num_beams": 4}):
        given["max_new_tokens"] = PREPARE_FROM_STEPS  # enough for packed weights, with four beams of four prompts
        fast = model.generate(**given, **settings)
        calls = []
        handle = model.base_model.encoder.layer[1].register_forward_hook(lambda *_, calls=calls: calls.append(1))
        plain = model.generate(**given, **settings)
        handle.remove()
        assert len(calls) >= 14
        assert torch.equal(fast.sequences, plain.sequences)
        for one, other in zip(fast.scores, plain.scores, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-10 if dtype == torch.float64 else 1e-4)


def test_token_types_must_be_zero():
    model, ids = gpt2(), torch.tensor([PROMPTS[0]])
    plain = model.generate(ids, max_new_tokens=4)
    assert torch.equal(model.generate(input_ids=ids, token_type_ids=torch.zeros_like(ids), max_new_tokens=4), plain)
    with pytest.raises(InputError, match="token_type_ids"):
        model.generate(input_ids=ids, token_type_ids=torch.ones_like(ids), max_new_tokens=4)


def test_more_candidates_than_the_vocabulary():
    model = gpt2()
    assert model.generate(torch.tensor([PROMPTS[0]]), penalty_alpha=0.5, top_k=500, max_new_tokens=3).shape == (1, 8)


def test_dropped_beams_leave_the_cache(monkeypatch):
    """A long beam search keeps little more than the tokens of its beams, with the same result."""
    model = gpt2(max_position_embeddings=400, eos_token_id=None)
    settings = {"num_beams": 4, "max_new_tokens": 300, "use_cache": True}
    runners = []
    make_runner = Generation.make_runner
    monkeypatch.setattr(
        Generation, "make_runner", lambda self, steps: runners.append(make_runner(self, steps)) or runners[-1]
    )
    ids = torch.tensor([PROMPTS[0], PROMPTS[0][::-1]])
    compacted = model.generate(ids, **settings)
    assert runners[0].cache.length < 5 + 4 * 300 * 0.8, "columns of dropped beams are still in the cache"
    monkeypatch.setattr("glassformer.generate.model_runner.CachedRunner.compact_cache", lambda self: self.cache.length)
    assert torch.equal(compacted, model.generate(ids, **settings))


def test_the_cache_holds_the_prompt_once():
    model = gpt2()
    generation = Generation(model, torch.tensor([PROMPTS[3]]), num_beams=4, max_new_tokens=5)
    runner = generation.make_runner(5)
    with torch.no_grad():
        runner.prefill(generation.request.prompts, branches=4)
        assert runner.cache.length == len(PROMPTS[3])
        runner.decode_step(torch.tensor([[5, 6, 7, 8]]), torch.zeros(1, 4, dtype=torch.long))
    assert runner.cache.length == len(PROMPTS[3]) + 4
    assert runner.cache[0].self_attention.keys.shape[0] == 1


def test_a_finished_sequence_is_not_computed(monkeypatch):
    model = gpt2()
    sizes = []
    plain = type(model.transformer.embeddings).forward
    monkeypatch.setattr(
        type(model.transformer.embeddings),
        "forward",
        lambda self, ids, *rest: sizes.append(len(ids)) or plain(self, ids, *rest),
    )
    # the first token of each greedy continuation ends it: sequences finish one after the other
    firsts = [row[:1] for row in new_tokens(model, padded(PROMPTS, "left"), eos_token_id=59)]
    sizes.clear()
    model.generate(**padded(PROMPTS, "left"), max_new_tokens=6, eos_token_id=firsts[0])
    assert sizes[0] == sum(map(len, PROMPTS)) and sizes[1] < 4


def test_a_shared_generator_samples_as_transformers_does():
    model = gpt2()
    inputs = padded(PROMPTS, "left")
    sampled = model.generate(**inputs, do_sample=True, max_new_tokens=8, generator=5)
    again = model.generate(**inputs, do_sample=True, max_new_tokens=8, generator=torch.Generator().manual_seed(5))
    assert torch.equal(sampled, again)
    assert not torch.equal(sampled, model.generate(**inputs, do_sample=True, max_new_tokens=8, generator=6))
    torch.manual_seed(5)
    assert torch.equal(sampled, model.generate(**inputs, do_sample=True, max_new_tokens=8))


def test_finish_reasons():
    model = gpt2()
    out = model.generate(**padded(PROMPTS, "left"), max_new_tokens=3, return_dict_in_generate=True)
    for row, reason in zip(out.sequences[:, 9:].tolist(), out.finish_reasons, strict=True):
        assert reason == ("eos" if 3 in row else "length")


def test_an_empty_prompt_begins_with_bos():
    model = gpt2()
    expected = model.generate(torch.tensor([[1]]), max_new_tokens=5)
    assert torch.equal(model.generate(max_new_tokens=5), expected)
    assert torch.equal(model.generate(torch.zeros(1, 0, dtype=torch.long), max_new_tokens=5), expected)
    model.generation_config.bos_token_id = None
    with pytest.raises(InputError, match="empty prompt"):
        model.generate(max_new_tokens=5)


def test_padding_without_a_mask_is_detected_and_reported(caplog):
    model = gpt2()
    inputs = padded(PROMPTS, "left")
    with_mask = model.generate(**inputs, max_new_tokens=4)
    assert torch.equal(model.generate(inputs["input_ids"], max_new_tokens=4), with_mask)
    assert "taken for padding" in caplog.text


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"input_ids": torch.tensor([[5, 6, 7]]), "attention_mask": torch.tensor([[1, 0, 1]])}, "holes in prompt 0"),
        ({"input_ids": torch.tensor([5, 6])}, "shape B T"),
        ({"input_ids": torch.tensor([[5, 60]])}, "60 at"),
        ({"input_ids": torch.tensor([[5, 6]]), "attention_mask": torch.tensor([[1]])}, "attention_mask must have"),
        ({"input_ids": [[5, 6]]}, "must be a tensor"),
        ({"input_ids": torch.tensor([[5, 6]]), "generator": [1, 2], "do_sample": True}, "one for each of the 1"),
        ({"input_ids": torch.tensor([[5] * 64])}, "64"),
    ],
)
def test_bad_prompts_are_refused(inputs, message):
    with pytest.raises(InputError, match=message):
        gpt2().generate(**inputs, max_new_tokens=2)


def test_an_encoder_is_refused():
    with pytest.raises(InputError, match="is_decoder=True"):
        bert(is_decoder=False).generate(torch.tensor([[5, 6]]), max_new_tokens=2)


def test_generation_stops_at_the_context():
    model = gpt2(max_position_embeddings=12, eos_token_id=None)
    out = model.generate(torch.tensor([PROMPTS[0]]), max_new_tokens=50, return_dict_in_generate=True)
    assert out.sequences.shape[1] == 12
    assert out.finish_reasons == ("length",)


def test_sliding_beyond_the_context():
    model = gpt2(max_position_embeddings=12, eos_token_id=None)
    settings = {"max_new_tokens": 30, "on_full_context": "slide"}
    out = model.generate(torch.tensor([PROMPTS[0]]), **settings)
    assert out.shape[1] == 35
    assert torch.equal(out[:, :12], model.generate(torch.tensor([PROMPTS[0]]), max_length=12))
    # what follows a full context is what follows its newer half
    halves = out[:, 13 - 6 : 13]
    assert torch.equal(out[:, 13:19], model.generate(halves, max_new_tokens=6)[:, 6:])
    assert torch.equal(out, model.generate(torch.tensor([PROMPTS[0]]), use_cache=False, **settings))
    together = model.generate(**padded(PROMPTS, "right"), **settings)
    assert torch.equal(together[0, 9:], out[0, 5:])


def test_training_mode_is_restored():
    model = gpt2().train()
    in_training = model.generate(torch.tensor([PROMPTS[0]]), max_new_tokens=5)
    assert model.training
    assert torch.equal(in_training, model.eval().generate(torch.tensor([PROMPTS[0]]), max_new_tokens=5))
    for _ in Generation(model, torch.tensor([PROMPTS[0]]), max_new_tokens=2).steps():
        assert torch.is_grad_enabled()


def test_cross_attention():
    model = gpt2(add_cross_attention=True)
    torch.manual_seed(1)
    source = {
        "encoder_hidden_states": torch.randn(4, 5, 32, dtype=torch.double),
        "encoder_attention_mask": torch.tensor([[1] * 5, [1] * 3 + [0] * 2, [1] * 4 + [0], [1] * 5]),
    }
    for settings in ({}, {"num_beams": 3}):
        results = [
            model.generate(**padded(PROMPTS, "left"), **source, max_new_tokens=9, use_cache=kept, **settings)
            for kept in (True, False)
        ]
        assert torch.equal(*results)
        other = model.generate(
            **padded(PROMPTS, "left"),
            **{**source, "encoder_hidden_states": torch.zeros(4, 5, 32).double()},
            max_new_tokens=9,
        )
        assert not torch.equal(results[0], other)
