"""Configurations: checked when made, when assigned and when read; what is not understood is refused or kept."""

from __future__ import annotations

import json
import socket

import pytest
import torch

import glassformer
from glassformer import ArgumentError, AutoConfig, BertConfig, BertModel, ConfigError, GPT2Config

from ..models.architectures import tiny_bert


def write(folder, **values):
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", **values}))
    return folder


@pytest.mark.parametrize("value", [[1.5], [["a"]], "BertModel", [None]])
def test_architectures_are_names(value):
    with pytest.raises(ConfigError, match="architectures must be a list of names"):
        BertConfig.from_dict({"architectures": value})


def test_defaults_are_bert_base():
    config = BertConfig()
    assert (config.vocab_size, config.hidden_size, config.num_hidden_layers) == (30522, 768, 12)
    assert (config.num_labels, config.chunk_size_feed_forward, config.is_decoder) == (2, 0, False)
    assert config.id2label == {0: "LABEL_0", 1: "LABEL_1"}
    assert config.use_return_dict
    assert BertConfig(100).vocab_size == 100


def test_fields_as_arguments(tmp_path):
    write(tmp_path, hidden_size=96)
    config = BertConfig.from_pretrained(
        tmp_path, output_attentions=True, output_hidden_states=True, return_dict=True, cache_dir=tmp_path
    )
    assert config.output_attentions and config.output_hidden_states and config.hidden_size == 96
    config.max_position_embeddings = 128
    assert config.max_position_embeddings == 128
    assert AutoConfig.from_pretrained(tmp_path, num_labels=5).num_labels == 5


def test_labels_follow_their_number():
    config = BertConfig(num_labels=3)
    assert config.id2label == {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}
    config.id2label = {"0": "no", "1": "yes"}
    assert (config.num_labels, config.label2id) == (2, {"no": 0, "yes": 1})
    config.num_labels = 4
    assert config.label2id["LABEL_3"] == 3
    assert json.loads(config.to_json_string())["id2label"]["3"] == "LABEL_3"


def test_labels_that_contradict_each_other():
    with pytest.raises(ConfigError, match="num_labels is 3, but id2label names 2 labels"):
        BertConfig(num_labels=3, id2label={0: "a", 1: "b"})
    assert AutoConfig.for_model("bert", hidden_size=24).hidden_size == 24


def test_prints_as_class_and_json():
    text = str(BertConfig(num_labels=3))
    assert text.startswith('BertConfig {\n  "attention_probs_dropout_prob": 0.1,')
    assert json.loads(text.removeprefix("BertConfig "))["hidden_size"] == 768


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("hidden_size", 0, "from 1 to"),
        ("hidden_size", -768, "from 1 to"),
        ("hidden_size", "768", "an integer"),
        ("hidden_size", 768.0, "an integer"),
        ("hidden_size", True, "an integer"),
        ("hidden_size", 2**40, "from 1 to"),
        ("num_attention_heads", 0, "from 1 to"),
        ("num_attention_heads", 7, "multiple of num_attention_heads"),
        ("num_hidden_layers", 10**9, "from 1 to 10000"),
        ("num_labels", 10**9, "from 1 to 100000"),
        ("vocab_size", None, None),
        ("vocab_size", [1], "an integer"),
        ("hidden_dropout_prob", 1.5, "from 0 to 1"),
        ("hidden_dropout_prob", float("nan"), "from 0 to 1"),
        ("layer_norm_eps", "small", "must be a number"),
        ("hidden_act", "swoosh", "one of gelu"),
        ("hidden_act", {"module": "os"}, "one of gelu"),
        ("position_embedding_type", "rotary", "absolute, relative_key"),
        ("is_decoder", "yes", "true or false"),
        ("pruned_heads", {"a": [1]}, "layers to lists"),
        ("pruned_heads", 3, "layers to lists"),
        ("id2label", ["a", "b"], "integers to names"),
        ("problem_type", "guess", "regression"),
        ("auto_map", {"AutoModel": "evil--code.Model"}, "run code that came with the checkpoint"),
        ("quantization_config", {"bits": 4}, "changes the computation"),
        ("rotary_value", True, "changes the computation"),
        ("num_hidden_layer", 3, "did you mean 'num_hidden_layers'"),
        ("model_type", "gpt2", "model_type is 'gpt2'"),
    ],
)
def test_hostile_config_files(tmp_path, monkeypatch, field, value, says):
    """A typed error that names the file: nothing imported, no connection, nothing allocated."""
    monkeypatch.setattr(socket, "socket", lambda *a, **k: pytest.fail("a socket was opened"))
    write(tmp_path, **{field: value})
    if says is None:
        assert BertConfig.from_pretrained(tmp_path).vocab_size == 30522  # null stands for the default
        return
    with pytest.raises(ConfigError, match=says) as caught:
        BertConfig.from_pretrained(tmp_path)
    assert "config.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_names_raise_and_suggest():
    with pytest.raises(ArgumentError, match="did you mean 'hidden_size'"):
        BertConfig(hiden_size=10)
    config = BertConfig()
    with pytest.raises(ConfigError, match="did you mean 'num_labels'"):
        config.num_label = 3
    with pytest.raises(AttributeError, match="did you mean 'vocab_size'"):
        _ = config.vocabsize
    with pytest.raises(ConfigError, match="true or false"):
        config.is_decoder = 1
    assert config.is_decoder is False


def test_harmless_keys_are_kept_and_written_back(tmp_path):
    write(
        tmp_path, pooler_type="first_token_transform", my_note={"a": [1]}, gradient_checkpointing=False, rope_theta=None
    )
    config = BertConfig.from_pretrained(tmp_path)
    assert config.pooler_type == "first_token_transform"
    config.save_pretrained(tmp_path / "again")
    saved = json.loads((tmp_path / "again/config.json").read_text())
    assert saved["my_note"] == {"a": [1]}
    assert "_name_or_path" not in saved
    assert BertConfig.from_pretrained(tmp_path / "again") == config


def test_auto_config_refuses_what_it_does_not_know(tmp_path):
    write(tmp_path, model_type="berd")
    with pytest.raises(ConfigError, match="did you mean 'bert'"):
        AutoConfig.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="no model_type"):
        AutoConfig.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"a": ')
    with pytest.raises(glassformer.DamagedFileError, match=r"config\.json"):
        AutoConfig.from_pretrained(tmp_path)
    with pytest.raises(TypeError, match="from_pretrained"):
        glassformer.AutoModel()
    with pytest.raises(ConfigError, match="takes a config, such as BertConfig, got <object"):
        glassformer.AutoModel.from_config(object())


def test_sizes_are_bounded_by_the_file(tmp_path):
    """A config that promises a giant is refused before anything of that size is made."""
    BertModel(tiny_bert()).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config.update(hidden_size=2**20, num_attention_heads=4, vocab_size=2**31 - 1, intermediate_size=2**30)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(glassformer.WeightsError, match="do not fit the model"):
        BertModel.from_pretrained(tmp_path)


def test_a_failed_assignment_changes_nothing():
    config = BertConfig()
    with pytest.raises(ConfigError):
        config.hidden_size = -1
    assert config.hidden_size == 768
    assert torch.float32 is not None and BertConfig() == config


def test_labels_are_never_none():
    config = BertConfig(id2label={0: "bad", 1: "good", 2: "both"})
    assert config.label2id == {"bad": 0, "good": 1, "both": 2}
    config.label2id = None
    assert config.label2id == {"bad": 0, "good": 1, "both": 2}
    config.id2label = None
    assert config.id2label == {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}
    assert config.label2id == {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2}


def test_labels_follow_from_label2id_alone():
    expected = {0: "bad", 1: "good", 2: "both"}
    label2id = {"good": 1, "both": 2, "bad": 0}
    for config in (BertConfig(label2id=label2id), BertConfig.from_dict({}, label2id=label2id)):
        assert (config.num_labels, config.id2label) == (3, expected)
        assert list(config.label2id) == list(expected.values())
    config.label2id = {"fine": 0, "bad": 1, "both": 2}  # names that were given are kept
    assert config.id2label == expected
    several_names = BertConfig(label2id={"bad": 0, "poor": 0, "good": 1})
    assert several_names.id2label == {0: "LABEL_0", 1: "LABEL_1"}
    with pytest.raises(ConfigError, match="num_labels is 2, but label2id names 3 labels"):
        BertConfig.from_dict({}, label2id=label2id, num_labels=2)


def test_the_class_alone_says_the_model_type():
    with pytest.raises(ArgumentError, match="BertConfig has no field 'model_type'"):
        BertConfig(model_type="gpt2")
    with pytest.raises(ConfigError, match="BertConfig has no field 'model_type'"):
        BertConfig().model_type = "gpt2"
    assert BertConfig().model_type == "bert"


def test_a_null_says_that_there_is_none_where_there_may_be_none():
    """A model of whole words has no token for the beginning; read again, it must not get that of GPT-2."""
    config = GPT2Config(vocab_size=10, bos_token_id=None, eos_token_id=0)
    again = GPT2Config.from_dict(json.loads(config.to_json_string()))
    assert again.bos_token_id is None and again.eos_token_id == 0
    assert GPT2Config.from_dict({"n_layer": None}).num_hidden_layers == 12


def test_half_a_character_in_a_label_survives(tmp_path):
    config = glassformer.BertConfig(id2label={0: "\ud800", 1: "好"})
    config.save_pretrained(tmp_path)
    assert glassformer.BertConfig.from_pretrained(tmp_path).id2label == {0: "\ud800", 1: "好"}
    assert "好" in (tmp_path / "config.json").read_text("utf-8")
