"""Continuous batching: whoever joins or leaves, each generation gets what it gets alone."""

from __future__ import annotations

import random

import pytest
import torch

from glassformer import GPT2Config, GPT2LMHeadModel
from glassformer.errors import NotFiniteError
from glassformer.generate.continuous_batching import ContinuousBatch, Member, can_join
from glassformer.generate.generation import Generation

from ..models.architectures import ARCHITECTURES

SETTINGS = [
    {},
    {"do_sample": True, "generator": 3},
    {"do_sample": True, "generator": [5, 6, 7], "num_return_sequences": 3, "temperature": 1.5, "top_k": 20},
    {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
    {"do_sample": True, "generator": 9, "num_return_sequences": 2, "top_p": 0.8},
    {"eos_token_id": [3, 7, 11, 19, 23]},
]


def tiny_gpt2(**fields) -> GPT2LMHeadModel:
    torch.manual_seed(0)
    shape = {"vocab_size": 60, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "initializer_range": 0.3}
    special = {"eos_token_id": None, "bos_token_id": None, "pad_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(**{**shape, **special, **fields})).eval()


def generations(model, count: int, seed: int = 0) -> list[tuple]:
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        prompt = torch.tensor([[rng.randrange(1, 60) for _ in range(rng.randrange(1, 20))]])
        found.append((prompt, {**rng.choice(SETTINGS), "max_new_tokens": rng.randrange(1, 25)}))
    return found


def alone(model, prompt, settings) -> list[list[int]]:
    out = model.generate(prompt, attention_mask=torch.ones_like(prompt), return_dict_in_generate=True, **settings)
    reasons = out.finish_reasons
    new = out.sequences[:, prompt.shape[1] :].tolist()
    return [
        row if reason == "length" else row[: row.index(end(row, settings)) + 1]
        for row, reason in zip(new, reasons, strict=True)
    ]


def end(row: list[int], settings: dict) -> int:
    return next(token for token in row if token in settings["eos_token_id"])


def make_member(model, prompt, settings) -> Member:
    return Member(Generation(model, prompt, attention_mask=torch.ones_like(prompt), **settings))


def run_randomly(model, members: list[Member], seed: int, max_rows: int) -> None:
    """Let members join at random steps."""
    rng, batch, waiting = random.Random(seed), ContinuousBatch(model, max_rows), list(members)
    while waiting or batch.members:
        joining = []
        while waiting and rng.random() < 0.5:
            rows = sum(len(each.batch.sequences) for each in [*joining, waiting[0]])
            if rows > batch.free_rows:
                break
            joining.append(waiting.pop(0))
        if joining:
            batch.join(joining)
        if batch.members:
            batch.step()
    assert not batch.rows


@pytest.mark.parametrize("max_rows", [3, 8])
def test_each_gets_what_it_gets_alone(max_rows):
    model = tiny_gpt2()
    given = generations(model, 24)
    expected = [alone(model, *each) for each in given]
    members = [make_member(model, *each) for each in given]
    assert all(can_join(each.generation) for each in members)
    run_randomly(model, members, 1, max_rows)
    for member, tokens, (_, settings) in zip(members, expected, given, strict=True):
        assert [each.tokens for each in member.result().continuations] == tokens, settings


@pytest.mark.parametrize(
    "architecture", [each for each in ARCHITECTURES if each.decoder is not None], ids=lambda each: each.model_type
)
def test_every_decoder_can_be_batched(architecture):
    torch.manual_seed(0)
    model = architecture.decoder(architecture.tiny(**architecture.decoder_fields)).eval()
    settings = {"max_new_tokens": 9, "eos_token_id": None, "pad_token_id": 0}
    prompts = [torch.tensor([[5, 6, 7, 8, 9]]), torch.tensor([[12]]), torch.tensor([[20, 21, 22]])]
    members = [make_member(model, prompt, settings) for prompt in prompts]
    batch = ContinuousBatch(model)
    batch.join(members[:1])
    batch.step()
    batch.step()
    batch.join(members[1:])
    while batch.members:
        batch.step()
    for prompt, member in zip(prompts, members, strict=True):
        (tokens,) = [each.tokens for each in member.result().continuations]
        assert [tokens] == alone(model, prompt, settings)


def test_a_member_can_be_taken_out():
    model = tiny_gpt2()
    given = generations(model, 4, seed=2)
    members = [make_member(model, *each) for each in given]
    batch = ContinuousBatch(model)
    batch.join(members)
    running = [each for each in members if not each.is_done]
    batch.drop(running[0])
    while batch.members:
        batch.step()
    assert not running[0].is_done
    for member, each in zip(members, given, strict=True):
        if member is not running[0]:
            assert [one.tokens for one in member.result().continuations] == alone(model, *each)


def test_scores_that_are_nan_end_only_the_one_that_has_them():
    model = tiny_gpt2()
    with torch.no_grad():
        model.transformer.embeddings.word_embeddings.weight[50] = float("nan")
        model.tie_weights()
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.nan_to_num())
    good, bad = torch.tensor([[5, 6]]), torch.tensor([[5, 50]])
    members = [make_member(model, prompt, {"max_new_tokens": 4}) for prompt in (good, bad)]
    batch = ContinuousBatch(model)
    done = batch.join(members)
    assert done == [members[1]] and isinstance(done[0].error, NotFiniteError)
    while batch.members:
        batch.step()
    assert [each.tokens for each in members[0].result().continuations] == alone(model, good, {"max_new_tokens": 4})


def test_what_cannot_join():
    model, prompt = tiny_gpt2(), torch.tensor([[5, 6]])

    def joins(**settings):
        return can_join(Generation(model, prompt, **settings))

    assert joins(max_new_tokens=3)
    assert not joins(max_new_tokens=3, num_beams=2)
    assert not joins(max_new_tokens=3, use_cache=False)
    assert not joins(max_new_tokens=200, on_full_context="slide")
