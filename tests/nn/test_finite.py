"""Scores that are NaN raise, with the layer in which they begin, in every task and with every search."""

from __future__ import annotations

import re

import pytest
import torch

import glassformer
from glassformer import InputError, NotFiniteError
from glassformer.nn.finite import has_nan

from ..models.architectures import tiny_bert, tiny_gpt2, tokens
from ..models.encoder_decoders import ENCODER_DECODERS

SEARCHES = {
    "greedy": {},
    "greedy without a cache": {"use_cache": False},
    "sampling": {"do_sample": True, "num_return_sequences": 2},
    "beams": {"num_beams": 3},
    "beams without a cache": {"num_beams": 2, "use_cache": False},
    "diverse beams": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
    "beam sampling": {"num_beams": 2, "do_sample": True},
    "contrastive": {"penalty_alpha": 0.6, "top_k": 3},
    "constrained": {"num_beams": 2, "force_words_ids": [[7]]},
    "on prepared weights": {"max_new_tokens": 20},
}


def break_weight(model: torch.nn.Module, name: str, value: float = torch.nan) -> None:
    with torch.no_grad():
        model.get_parameter(name)[3] = value


@pytest.fixture
def gpt2():
    torch.manual_seed(0)
    return glassformer.GPT2LMHeadModel(tiny_gpt2()).eval()


@pytest.mark.parametrize("settings", SEARCHES.values(), ids=SEARCHES)
def test_generation_names_the_layer_where_nan_begins(gpt2, settings):
    settings = {"max_new_tokens": 5, "eos_token_id": None, "pad_token_id": 0, **settings}
    assert gpt2.generate(tokens(2, 4), **settings).shape[1] > 4
    break_weight(gpt2, "transformer.encoder.layer.1.intermediate.dense.bias")
    with pytest.raises(NotFiniteError, match=r"encoder\.layer\.1\.intermediate\.dense, whose bias is not finite"):
        gpt2.generate(tokens(2, 4), **settings)


@pytest.mark.parametrize("use_cache", (True, False))
def test_nan_that_begins_at_a_later_token_is_located_too(gpt2, use_cache):
    """Greedy search reads its own first token, whose embedding is NaN; the prompt is fine."""
    prompt = torch.tensor([[5, 6, 7]])
    plain = gpt2.generate(prompt, max_new_tokens=2, eos_token_id=None, pad_token_id=0)
    gpt2 = glassformer.GPT2LMHeadModel(tiny_gpt2(tie_word_embeddings=False)).eval()
    first = int(gpt2.generate(prompt, max_new_tokens=1, eos_token_id=None, pad_token_id=0)[0, -1])
    assert plain.shape == (1, 5) and first not in (5, 6, 7)
    with torch.no_grad():
        gpt2.transformer.embeddings.word_embeddings.weight[first] = torch.nan
    with pytest.raises(NotFiniteError, match=r"begin in transformer\.embeddings\.word_embeddings"):
        gpt2.generate(prompt, max_new_tokens=3, use_cache=use_cache, eos_token_id=None, pad_token_id=0)


@pytest.mark.parametrize("architecture", ENCODER_DECODERS, ids=lambda each: each.model_type)
def test_encoder_decoders_name_it_too(architecture):
    torch.manual_seed(0)
    model = architecture.model(architecture.tiny()).eval()
    names = {module: name for name, module in model.named_modules()}
    table = names[model.decoding_body.embeddings.word_embeddings]
    break_weight(model, f"{table}.weight")  # of token 3
    start = torch.full((2, 1), 3)
    for settings in ({}, {"num_beams": 2}):
        with pytest.raises(NotFiniteError, match=f"begin in {re.escape(table)}"):
            model.generate(tokens(2, 4), decoder_input_ids=start, max_new_tokens=4, **settings)


def test_scores_of_minus_infinity_are_scores():
    assert not has_nan(torch.tensor([0.0, -torch.inf]))
    assert not has_nan(torch.full((4,), torch.finfo(torch.float32).min))
    assert not has_nan(torch.full((4,), 30000.0, dtype=torch.float16))  # whose sum overflows
    assert has_nan(torch.tensor([0.0, torch.nan])) and has_nan(torch.tensor([torch.inf, -torch.inf]))
    assert not has_nan(torch.tensor([1, 2]))


def test_a_model_called_directly_returns_what_it_computed():
    model = glassformer.BertModel(tiny_bert()).eval()
    break_weight(model, "encoder.layer.0.output.dense.bias")
    assert model(tokens(1, 4)).last_hidden_state.isnan().any()


def test_an_input_error_is_still_one(gpt2):
    with pytest.raises(InputError):
        gpt2.generate(torch.tensor([[10_000]]), max_new_tokens=2)
