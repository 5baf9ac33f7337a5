"""Configurations as people publish them: every one of an architecture here loads and writes back what it had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer import AutoConfig, BertConfig, ConfigError, GPT2Config
from glassformer.errors import WeightsError
from glassformer.registry import ARCHITECTURES

from ..conftest import SHARED
from ..models.architectures import tiny_bert

PUBLISHED = SHARED / "data/configs/config"
FILES = sorted(path for kind in ARCHITECTURES for path in PUBLISHED.glob(f"{kind}/*.json"))
OF_OUR_OWN = ("transformers_version", "_name_or_path")  # what a writer says of itself
NEW_NAMES = {"dtype": "torch_dtype"}


@pytest.mark.skipif(not FILES, reason="../shared/data/configs is not there")
@pytest.mark.parametrize("path", FILES or [None], ids=lambda path: path and f"{path.parent.name}-{path.stem}")
def test_a_published_config_loads_and_writes_back_what_it_had(path, tmp_path):
    given = json.loads(path.read_text("utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(given))
    config = AutoConfig.from_pretrained(tmp_path)
    config.save_pretrained(tmp_path / "again")
    written = json.loads((tmp_path / "again/config.json").read_text("utf-8"))
    defaults = config.to_dict()
    for key, value in given.items():
        if key not in OF_OUR_OWN:
            name = NEW_NAMES.get(key, key)
            assert written.get(name, defaults.get(name)) == value, key
    assert AutoConfig.from_pretrained(tmp_path / "again") == config


ORIGINS = PUBLISHED.parent / "ORIGINS.tsv"
ALBERTS = sorted(  # of the first code, whose files do not name their architecture
    PUBLISHED.parent / line.split("\t")[0]
    for line in (ORIGINS.read_text("utf-8").splitlines() if ORIGINS.exists() else ())
    if line.startswith("config/without-model_type/") and "albert" in line.split("\t")[2]
)


@pytest.mark.skipif(not ALBERTS, reason="../shared/data/configs is not there")
@pytest.mark.parametrize("path", ALBERTS or [None], ids=lambda path: path and path.stem)
def test_an_albert_without_a_model_type_writes_back_what_it_had(path, tmp_path):
    given = json.loads(path.read_text("utf-8"))
    config = glassformer.AlbertConfig.from_dict(given)
    config.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text("utf-8"))
    assert {key: written[key] for key in given} == given
    assert glassformer.AlbertConfig.from_pretrained(tmp_path) == config


# --- keys of other programs, one by one -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keys",
    [
        {"eos_token_ids": 0},
        {"bos_token_ids": [1]},
        {"_num_labels": 2},
        {"_output_attentions": False},
        {"embedding_size": 64, "hidden_size": 64},
        {"num_key_value_heads": 12},
        {"pos_att_type": "none"},
        {"pos_att_type": ["none"]},
        {"relative_attention": False, "pos_att_type": []},
    ],
    ids=str,
)
def test_keys_that_change_nothing_are_kept(keys):
    sizes = {"num_attention_heads": 4} if "hidden_size" in keys else {}
    config = BertConfig.from_dict({**keys, **sizes})
    assert {name: config.to_diff_dict()[name] for name in keys} == keys
    assert BertConfig.from_dict(config.to_diff_dict()) == config


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"embedding_size": 128}, "embedding_size = 128 changes the computation in a way BertConfig does not know"),
        ({"num_key_value_heads": 4}, "num_key_value_heads = 4 changes the computation"),
        ({"pos_att_type": "c2p|p2c"}, "pos_att_type = 'c2p|p2c' changes the computation"),
        ({"use_relative_position": True}, "use_relative_position = True changes the computation"),
        ({"num_label": 3}, "config key 'num_label' is not known, did you mean 'num_labels'?"),
        (
            {"layer_norm_epsilon": 1e-5, "layer_norm_eps": 1e-12},
            "layer_norm_epsilon is 1e-05, but layer_norm_eps is 1e-12, and both name the same setting",
        ),
    ],
    ids=str,
)
def test_keys_that_contradict_the_model_are_refused(keys, message):
    with pytest.raises(ConfigError) as caught:
        BertConfig.from_dict(keys)
    assert message in str(caught.value)


def test_a_field_under_two_names_has_one_value():
    assert GPT2Config.from_dict({"n_embd": 24, "hidden_size": 24, "n_head": 2}).hidden_size == 24
    with pytest.raises(ConfigError, match="hidden_size is 12, but n_embd is 24, and both name the same"):
        GPT2Config.from_dict({"n_embd": 24, "hidden_size": 12})


def test_the_epsilon_of_other_programs_is_used(tmp_path):
    config = BertConfig.from_dict({"layer_norm_epsilon": 1e-5})
    assert config.layer_norm_eps == 1e-5
    assert config.to_diff_dict()["layer_norm_epsilon"] == config.to_diff_dict()["layer_norm_eps"] == 1e-5
    assert BertConfig.from_dict({"layer_norm_epsilon": 1e-5, "layer_norm_eps": 1e-5}).layer_norm_eps == 1e-5
    config.layer_norm_eps = 1e-7
    config.save_pretrained(tmp_path)
    assert BertConfig.from_pretrained(tmp_path).layer_norm_eps == 1e-7


def test_a_repeated_size_follows_its_field(tmp_path):
    """What is written can be read again after the field has changed."""
    config = BertConfig.from_dict({"embedding_size": 768}, hidden_size=24, num_attention_heads=2)
    config.save_pretrained(tmp_path)
    assert BertConfig.from_pretrained(tmp_path).hidden_size == 24


# --- biases of an output layer that is not tied -----------------------------------------------------------------------


def unequal(folder: Path, **fields: Any) -> Path:
    """A checkpoint whose two biases of the masked-word head differ, as transformers writes them if nothing is tied."""
    torch.manual_seed(0)
    model = glassformer.BertForMaskedLM(tiny_bert(**fields))
    model.save_pretrained(folder, safe_serialization=False)
    weights = torch.load(folder / "pytorch_model.bin")
    weights["cls.predictions.bias"] = torch.full_like(weights["cls.predictions.bias"], 1.0)
    weights["cls.predictions.decoder.bias"] = torch.full_like(weights["cls.predictions.bias"], 2.0)
    torch.save(weights, folder / "pytorch_model.bin")
    return folder


@torch.no_grad()
def test_without_ties_the_bias_of_the_decoder_counts(tmp_path):
    folder = unequal(tmp_path / "a", tie_word_embeddings=False)
    model, ids = glassformer.BertForMaskedLM.from_pretrained(folder), torch.tensor([[2, 7, 3]])
    assert model.cls.predictions.decoder.bias is model.cls.predictions.bias
    assert model.cls.predictions.bias.eq(2).all()
    theirs = pytest.importorskip("transformers")
    reference = theirs.BertForMaskedLM.from_pretrained(folder)
    torch.testing.assert_close(model(ids).logits, reference(ids).logits, rtol=0, atol=1e-5)
    model.save_pretrained(tmp_path / "b")
    for kind in (glassformer.BertForMaskedLM, theirs.BertForMaskedLM):
        again = kind.from_pretrained(tmp_path / "b")
        torch.testing.assert_close(again(ids).logits, reference(ids).logits, rtol=0, atol=1e-5)
    resized = glassformer.BertForMaskedLM.from_pretrained(tmp_path / "b")
    resized.resize_token_embeddings(model.config.vocab_size + 3)
    torch.testing.assert_close(resized(ids).logits[..., :-3], reference(ids).logits, rtol=0, atol=1e-5)


def test_with_ties_unequal_biases_are_an_error(tmp_path):
    with pytest.raises(WeightsError, match=r"decoder\.bias: differs from cls\.predictions\.bias"):
        glassformer.BertForMaskedLM.from_pretrained(unequal(tmp_path, tie_word_embeddings=True))


def test_a_file_with_one_of_the_biases_is_enough(tmp_path):
    folder = unequal(tmp_path, tie_word_embeddings=False)
    weights = torch.load(folder / "pytorch_model.bin")
    del weights["cls.predictions.decoder.bias"]
    torch.save(weights, folder / "pytorch_model.bin")
    assert glassformer.BertForMaskedLM.from_pretrained(folder).cls.predictions.decoder.bias.eq(1).all()
