"""The language model of Transformer encoder layers: its variants against PyTorch's modules, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

import glassformer
from glassformer.errors import ConfigError, InputError
from glassformer.registry import architecture_for

from .architectures import tiny_transformer_lm, tokens
from .transformer_lm_reference import LanguageModel


@pytest.fixture
def batch():
    torch.manual_seed(0)
    return {"input_ids": tokens(3, 9), "attention_mask": torch.ones(3, 9).long()}


@torch.no_grad()
@pytest.mark.parametrize("fields", [{"norm_first": True}, {"tie_word_embeddings": False, "output_bias": True}])
def test_weights_of_pytorch_modules_give_the_same_scores(fields, batch, tmp_path):
    config = tiny_transformer_lm(**fields)
    theirs = LanguageModel({**config.to_dict(), **fields}).eval()
    config.save_pretrained(tmp_path)
    save_file(theirs.state_dict(), tmp_path / "model.safetensors")
    ours = glassformer.TransformerLMHeadModel.from_pretrained(tmp_path)
    torch.testing.assert_close(ours(**batch).logits, theirs(**batch).logits, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_no_word_attends_to_later_ones(batch):
    model = glassformer.TransformerLMHeadModel(tiny_transformer_lm()).eval()
    changed = batch["input_ids"].clone()
    changed[:, 5] = (changed[:, 5] + 1) % 50
    before, after = model(batch["input_ids"]).logits, model(changed).logits
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.equal(before[:, 5:], after[:, 5:])


def test_it_is_a_class_of_the_registry(tmp_path):
    config = tiny_transformer_lm(position_embedding_type="learned")
    model = glassformer.AutoModelForCausalLM.from_config(config)
    assert type(model) is glassformer.TransformerLMHeadModel
    model.save_pretrained(tmp_path)
    assert type(glassformer.AutoModelForCausalLM.from_pretrained(tmp_path)) is glassformer.TransformerLMHeadModel
    assert type(glassformer.AutoModel.from_pretrained(tmp_path)) is glassformer.TransformerLMModel
    assert architecture_for("transformer", "seq2seq-lm") == "transformer"
    assert architecture_for("transformer", "masked-lm") == "transformer"
    assert architecture_for("gpt2", "causal-lm") == "gpt2"


@pytest.mark.parametrize("fields", [{"is_decoder": False}, {"add_cross_attention": True}])
def test_what_it_cannot_be_is_refused(fields):
    with pytest.raises(ConfigError, match="transformer-lm"):
        tiny_transformer_lm(**fields)


def test_a_text_beyond_the_positions_is_refused():
    model = glassformer.TransformerLMModel(tiny_transformer_lm(max_position_embeddings=4))
    with pytest.raises(InputError, match="5 positions are more than max_position_embeddings 4"):
        model(torch.ones(1, 5).long())
