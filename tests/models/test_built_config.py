"""The config of a built model: fields that each pass reads can be assigned, fields that shaped the model cannot."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import glassformer
from glassformer import BertConfig, BertForSequenceClassification, BertModel, BertPreTrainedModel, ConfigError
from glassformer.checkpoints.pretrained_config import ASSIGNABLE

from .architectures import ARCHITECTURES, tiny_bert, tokens
from .encoder_decoders import ENCODER_DECODERS, OF_SOUND


def models():
    for each in ARCHITECTURES:
        yield each.body(each.tiny())
        yield next(iter(each.heads))(each.tiny())
    for each in (*ENCODER_DECODERS, *OF_SOUND):
        yield each.model(each.tiny())


def other_values(value):
    """Values that differ from this one; a field accepts some of them."""
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int | float):
        return (value + 1, value * 2, value / 2, 0)
    return ("relu", "gelu", "gru", "lstm", "learned", "relative_key", "without", "luong_dot", True, 1, 0.5, {0: [1]})


@pytest.mark.parametrize("model", list(models()), ids=lambda each: type(each).__name__)
def test_no_field_that_shaped_a_model_can_be_assigned(model):
    config, free = model.config, copy.deepcopy(model.config)
    tried = set()
    for spec in dataclasses.fields(config):
        before = getattr(config, spec.name)
        if spec.name in ASSIGNABLE and spec.name not in config.SHAPING:
            continue
        for value in other_values(before):
            try:
                setattr(free, spec.name, value)
            except ConfigError:
                continue  # no value of this field
            if getattr(free, spec.name) == before:
                continue
            with pytest.raises(ConfigError, match=f"{spec.name} cannot become .* the model was built with"):
                setattr(config, spec.name, value)
            tried.add(spec.name)
        assert getattr(config, spec.name) == before
        setattr(config, spec.name, before)  # what changes nothing is no change
    assert {"is_decoder", "tie_word_embeddings", "vocab_size", "pruned_heads", "chunk_size_feed_forward"} <= tried
    assert {name for name in config.field_names() if "dropout" in name or "eps" in name or "act" in name} <= tried


def test_names_of_files_and_update_are_refused_too():
    model = glassformer.GPT2LMHeadModel(ARCHITECTURES[1].tiny())
    with pytest.raises(ConfigError, match="hidden_dropout_prob cannot become"):
        model.config.resid_pdrop = 0.7
    with pytest.raises(ConfigError, match="hidden_dropout_prob cannot become"):
        model.config.update({"resid_pdrop": 0.7})


def test_fields_that_a_pass_reads_take_effect():
    model = BertForSequenceClassification(tiny_bert()).eval()
    model.config.output_attentions = model.config.output_hidden_states = True
    assert len(model(tokens(1, 4)).attentions) == len(model(tokens(1, 4)).hidden_states) - 1 > 0
    model.config.return_dict = False
    assert isinstance(model(tokens(1, 4)), tuple)
    model.config.id2label = {0: "bad", 1: "good"}
    assert model.config.label2id == {"bad": 0, "good": 1}
    model.config.pad_token_id, model.config.eos_token_id = 3, [4, 5]
    model.config.problem_type, model.config.task_specific_params = "regression", {"summarization": {"max_length": 5}}


def test_the_padding_token_that_positions_begin_behind_cannot_be_assigned():
    model = glassformer.RobertaModel(next(each for each in ARCHITECTURES if each.model_type == "roberta").tiny())
    with pytest.raises(ConfigError, match="pad_token_id cannot become 0: the model was built with 1"):
        model.config.pad_token_id = 0
    model.config.pad_token_id = 1


def test_a_label_too_many_is_refused():
    model = BertForSequenceClassification(tiny_bert())
    for field, value in (("id2label", dict(enumerate("abc"))), ("num_labels", 3)):
        with pytest.raises(ConfigError, match="num_labels cannot become 3: the model was built with 2"):
            setattr(model.config, field, value)
    assert len(model.config.id2label) == 2


def test_a_config_can_be_changed_between_the_models_built_from_it():
    config = tiny_bert()
    small = BertModel(config)
    config.num_hidden_layers = 1
    large, again = BertModel(config), copy.deepcopy(small.config)
    again.num_hidden_layers = 5
    assert [len(each.layers) for each in (small, large, BertModel(again))] == [3, 1, 5]
    assert pickle.loads(pickle.dumps(small.config)).is_built is False


def test_copies_of_a_model_are_built_models():
    for model in (copy.deepcopy(BertModel(tiny_bert())), pickle.loads(pickle.dumps(BertModel(tiny_bert())))):
        with pytest.raises(ConfigError, match="hidden_act cannot become"):
            model.config.hidden_act = "relu"


def test_what_changes_a_model_changes_its_config():
    model = glassformer.BertForTokenClassification(tiny_bert())
    model.resize_token_embeddings(70)
    model.prune_heads({0: [1]})
    model.add_crf("unconstrained")
    assert (model.config.vocab_size, model.config.pruned_heads, model.config.crf) == (70, {0: [1]}, "unconstrained")
    with pytest.raises(ConfigError, match="vocab_size cannot become 60: the model was built with 70"):
        model.config.vocab_size = 60


def test_classes_of_users_have_one_config_and_their_own_fields_are_free():
    @dataclass(repr=False, eq=False)
    class OwnConfig(BertConfig):
        threshold: float = 0.5

    class Own(BertPreTrainedModel):
        config_class = OwnConfig

        def __init__(self, config):
            super().__init__(config)
            self.bert = BertModel(config)
            self.head = nn.Linear(config.hidden_size, 2)

        def forward(self, input_ids):
            return self.bert(input_ids)

    model = Own(OwnConfig(**{name: getattr(tiny_bert(), name) for name in ("hidden_size", "num_hidden_layers")}))
    model.config.threshold = 0.9
    model.config.output_hidden_states = True
    with torch.no_grad():
        assert model.eval()(tokens(1, 4)).hidden_states is not None
    with pytest.raises(ConfigError, match="layer_norm_eps cannot become"):
        model.config.layer_norm_eps = 0.1
