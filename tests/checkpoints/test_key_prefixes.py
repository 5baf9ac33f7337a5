"""Weights whose names have a prefix: a wrapper's is removed, that of another module is reported."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer import BertForSequenceClassification, BertModel, WeightsError
from glassformer.checkpoints.key_prefixes import without_wrapper_prefix
from glassformer.checkpoints.weights import open_weights
from glassformer.cli.main import main

from ..models.architectures import tiny_bert


def are_equal(one, other):
    mine, theirs = one.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


def rename(folder, before):
    """Put something before every name in a folder's weights."""
    tensors = load_file(folder / "model.safetensors")
    save_file({before + name: tensor.clone() for name, tensor in tensors.items()}, folder / "model.safetensors")


@pytest.mark.parametrize("before", ["module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."])
def test_a_wrappers_prefix_is_removed_and_reported(tmp_path, caplog, before):
    model = BertForSequenceClassification(tiny_bert())
    model.save_pretrained(tmp_path)
    rename(tmp_path, before)
    again = BertForSequenceClassification.from_pretrained(tmp_path)
    assert are_equal(again, model)
    assert [before in record.message for record in caplog.records] == [True]
    assert before in again.load_report.notes[0]
    assert ("DataParallel" in caplog.text, "torch.compile" in caplog.text) == ("module." in before, "_mod." in before)
    again.save_pretrained(tmp_path)
    assert not any(name.startswith(before) for name in open_weights(tmp_path))


def test_what_the_wrappers_of_torch_save(tmp_path):
    model = BertModel(tiny_bert())
    model.config.save_pretrained(tmp_path)
    for wrapper in (torch.nn.DataParallel, torch.compile):
        torch.save(wrapper(model).state_dict(), tmp_path / "pytorch_model.bin")
        opened = open_weights(tmp_path)
        assert without_wrapper_prefix(opened).names() == list(model.state_dict()) != opened.names()
        assert are_equal(BertModel.from_pretrained(tmp_path), model)


def test_one_name_without_the_prefix_and_nothing_is_removed(tmp_path):
    BertModel(tiny_bert()).save_pretrained(tmp_path)
    rename(tmp_path, "module.")
    tensors = load_file(tmp_path / "model.safetensors")
    save_file({**tensors, "extra": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(WeightsError, match=r"its names begin with 'module\.'"):
        BertModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("before", ["model.", "net.encoder_model."])
def test_the_prefix_of_an_outer_module_is_reported(tmp_path, before, capsys):
    BertForSequenceClassification(tiny_bert()).save_pretrained(tmp_path)
    rename(tmp_path, before)
    with pytest.raises(WeightsError) as caught:
        BertModel.from_pretrained(tmp_path)
    first = str(caught.value).splitlines()[0]
    assert f"its names begin with {before!r}" in first and f"whole.{before}save_pretrained(folder)" in first
    assert "embeddings.word_embeddings.weight: missing" in str(caught.value)
    assert main(["inspect", str(tmp_path), "--json"]) == 1
    shown = capsys.readouterr()
    assert f"its names begin with {before!r}" in shown.err
    assert f"{before}bert.embeddings.word_embeddings.weight" in json.loads(shown.out)["tensors"]


def test_other_faults_bring_no_hint(tmp_path):
    BertModel(tiny_bert()).save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["other.encoder.layer.0.output.dense.bias"] = tensors.pop("encoder.layer.0.output.dense.bias")
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(WeightsError, match=r"1 weights in model\.safetensors do not fit the model:"):
        BertModel.from_pretrained(tmp_path)


def test_inspecting_a_model_saved_in_a_wrapper(tmp_path, capsys):
    BertModel(tiny_bert()).save_pretrained(tmp_path)
    rename(tmp_path, "module.")
    assert main(["inspect", str(tmp_path)]) == 0
    assert "every weight's name begins with 'module.', as DataParallel saves it" in capsys.readouterr().out
