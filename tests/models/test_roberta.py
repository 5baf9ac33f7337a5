"""RoBERTa: positions behind the padding index, its heads, and the relatives that have its files."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import glassformer
from glassformer import (
    RobertaConfig,
    RobertaForCausalLM,
    RobertaForMaskedLM,
    RobertaForSequenceClassification,
    RobertaModel,
)

from .architectures import tiny_relative, tokens

PADDING = 1
IDS = torch.tensor([[0, 7, 9, 2, 1, 1], [1, 1, 0, 7, 9, 2], [0, 7, 1, 9, 2, 5]])
POSITIONS = torch.tensor([[2, 3, 4, 5, 1, 1], [1, 1, 2, 3, 4, 5], [2, 3, 1, 4, 5, 6]])


def tiny(**fields) -> RobertaConfig:
    return tiny_relative("Roberta", **fields)


@pytest.fixture
def model() -> RobertaModel:
    torch.manual_seed(0)
    return RobertaModel(tiny()).double().eval()


def test_defaults_are_those_of_the_files():
    config = RobertaConfig()
    assert (config.vocab_size, config.pad_token_id, config.bos_token_id, config.eos_token_id) == (50265, 1, 0, 2)
    assert glassformer.XLMRobertaConfig().vocab_size == glassformer.CamembertConfig().vocab_size == 30522
    with pytest.raises(glassformer.ConfigError, match="pad_token_id must be an integer"):
        RobertaConfig(pad_token_id=None)
    assert RobertaConfig.from_dict({"pad_token_id": None}).pad_token_id == 1


@torch.no_grad()
def test_positions_count_the_tokens_that_are_no_padding(model):
    """With and without a mask, padding on either side or between; as if the caller had given the positions."""
    for given in ({}, {"attention_mask": (IDS != PADDING).long()}):
        counted, given_by_hand = model(IDS, **given), model(IDS, **given, position_ids=POSITIONS)
        assert torch.equal(counted.last_hidden_state, given_by_hand.last_hidden_state)
        by_column = model(IDS, **given, position_ids=torch.arange(2, 8).repeat(3, 1))
        assert torch.equal(by_column.last_hidden_state[0, :4], counted.last_hidden_state[0, :4]) == bool(given)
        assert not torch.allclose(by_column.last_hidden_state[1], counted.last_hidden_state[1])
    assert model.embeddings.positions_of(IDS).equal(POSITIONS)
    table = model.embeddings.position_embeddings.weight
    assert model.embeddings.position_embeddings.padding_idx == PADDING and not table[PADDING].any()


@torch.no_grad()
def test_vectors_have_positions_by_column(model):
    vectors = model.embeddings.word_embeddings(IDS)
    columns = torch.arange(2, 8).repeat(3, 1)
    out = model(inputs_embeds=vectors).last_hidden_state
    assert torch.equal(out, model(IDS, position_ids=columns).last_hidden_state)
    assert torch.allclose(model.embeddings(inputs_embeds=vectors), model.embeddings(IDS, position_ids=columns))
    assert torch.allclose(model.embeddings(IDS), model.embeddings(IDS, position_ids=POSITIONS))


def test_the_table_has_two_rows_more_than_tokens(model):
    assert model.max_length == 38
    assert RobertaModel(tiny(position_embedding_type="relative_key")).max_length == 40
    model(tokens(1, 38))
    with pytest.raises(glassformer.InputError, match="39 positions are more than the model's maximum of 38"):
        model(tokens(1, 39))
    with pytest.raises(glassformer.InputError, match="position_ids: position 40"):
        model(tokens(1, 2), position_ids=torch.tensor([[39, 40]]))


@torch.no_grad()
def test_a_padded_prompt_continues_as_it_does_alone():
    torch.manual_seed(0)
    writer = RobertaForCausalLM(tiny(is_decoder=True)).double().eval()
    ids = torch.where(torch.tensor([[1], [0]]).bool(), tokens(2, 6), tokens(2, 6))
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1]])
    padded = torch.where(mask.bool(), ids, PADDING)
    settings = {"max_new_tokens": 5, "eos_token_id": None, "do_sample": False}
    both = writer.generate(padded, attention_mask=mask, **settings)
    alone = writer.generate(ids[1:, 3:], **settings)
    assert torch.equal(both[1, -5:], alone[0, -5:])
    again = alone[:, :3]
    for _ in range(5):  # by hand, without a cache
        again = torch.cat((again, writer(again).logits[:, -1:].argmax(-1)), 1)
    assert torch.equal(again, alone)


@torch.no_grad()
def test_heads_by_hand(model):
    torch.manual_seed(0)
    classifier = RobertaForSequenceClassification(tiny(num_labels=3)).double().eval()
    ids, head = tokens(2, 5), classifier.classifier
    states = classifier.roberta(ids).last_hidden_state
    by_hand = F.linear(torch.tanh(F.linear(states[:, 0], head.dense.weight, head.dense.bias)), head.out_proj.weight)
    assert torch.allclose(classifier(ids).logits, by_hand + head.out_proj.bias)
    assert torch.allclose(head(states), classifier(ids).logits)
    words = RobertaForMaskedLM(tiny(hidden_act="relu")).double().eval()  # its head has a GELU all the same
    states, head = words.roberta(ids).last_hidden_state, words.lm_head
    by_hand = head.layer_norm(F.gelu(head.dense(states))) @ words.get_input_embeddings().weight.T + head.bias
    assert torch.allclose(words(ids).logits, by_hand)


@pytest.mark.parametrize("tied", [True, False])
def test_resizing_the_vocabulary(tied):
    torch.manual_seed(0)
    model = RobertaForMaskedLM(tiny(tie_word_embeddings=tied)).eval()
    model.lm_head.bias.data.normal_()
    ids = tokens(1, 5)
    before = model(ids).logits
    for size in (64, 55):
        model.resize_token_embeddings(size)
        assert (model.lm_head.decoder.weight is model.get_input_embeddings().weight) == tied
        assert model.lm_head.decoder.bias is model.lm_head.bias
        assert torch.allclose(model(ids).logits[..., :55], before[..., :55], atol=1e-5)


def test_files_with_the_second_names_of_tied_weights(tmp_path):
    torch.manual_seed(0)
    model = RobertaForMaskedLM(tiny())
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    assert "lm_head.decoder.weight" not in weights and "lm_head.bias" in weights
    weights["lm_head.decoder.weight"] = weights["roberta.embeddings.word_embeddings.weight"].clone()
    weights["lm_head.decoder.bias"] = weights["lm_head.bias"].clone()
    weights["roberta.embeddings.position_ids"] = torch.arange(40)[None]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    again = RobertaForMaskedLM.from_pretrained(tmp_path)
    assert not again.load_report.initialised and not again.load_report.unused
    assert torch.equal(again(IDS).logits, model.eval()(IDS).logits)


@pytest.mark.parametrize("kind", ["Roberta", "XLMRoberta", "Camembert"])
def test_every_auto_class_loads_it(kind, tmp_path):
    torch.manual_seed(0)
    getattr(glassformer, f"{kind}ForMaskedLM")(tiny_relative(kind)).save_pretrained(tmp_path)
    model_type = json.loads((tmp_path / "config.json").read_text())["model_type"]
    assert model_type == getattr(glassformer, f"{kind}Config").model_type
    for auto, head in (
        ("Model", "Model"),
        ("ModelForPreTraining", "ForMaskedLM"),
        ("ModelForMaskedLM", "ForMaskedLM"),
        ("ModelForCausalLM", "ForCausalLM"),
        ("ModelForSequenceClassification", "ForSequenceClassification"),
        ("ModelForMultipleChoice", "ForMultipleChoice"),
        ("ModelForTokenClassification", "ForTokenClassification"),
        ("ModelForQuestionAnswering", "ForQuestionAnswering"),
    ):
        model = getattr(glassformer, f"Auto{auto}").from_pretrained(tmp_path)
        assert type(model).__name__ == kind + head
        assert type(model.config).__name__ == f"{kind}Config"
    with pytest.raises(glassformer.ConfigError, match=f"model_type is '{model_type}', but BertConfig reads 'bert'"):
        glassformer.BertModel.from_pretrained(tmp_path)
