"""Loading is strict: one error that names every wrong weight, and a report of whatever had to be decided."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file, save_file

import glassformer
from glassformer import (
    BertForMaskedLM,
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
    ConfigError,
    ViTModel,
    WeightsError,
)

from ..models.architectures import tiny_bert, tiny_vit
from .weight_files import memory_growth

IDS = torch.tensor([[2, 7, 9, 3]])


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    BertForPreTraining(tiny_bert()).save_pretrained(tmp_path)
    return tmp_path


def change(folder, **edits):
    """Rewrite the weights: a name -> new tensor, or None to drop it."""
    tensors = load_file(folder / "model.safetensors")
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    for name, tensor in edits.items():
        if tensor is None:
            del tensors[name]
        else:
            tensors[name] = tensor
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


QUERY = "bert.encoder.layer.1.attention.self.query.weight"
BIAS = "bert.encoder.layer.0.output.dense.bias"


def test_every_fault_in_one_error(folder):
    change(folder, **{QUERY: None, BIAS: torch.zeros(3)})
    with pytest.raises(WeightsError) as caught:
        BertModel.from_pretrained(folder)
    text = str(caught.value)
    assert "2 weights" in text
    assert "encoder.layer.1.attention.self.query.weight: missing" in text
    assert "encoder.layer.0.output.dense.bias: shape [3] in the file, [48] in the model" in text


def test_values_that_are_not_finite(folder):
    bad = torch.zeros(48)
    bad[5] = float("nan")
    worse = torch.full((48, 48), float("inf"))
    change(folder, **{BIAS: bad, QUERY: worse})
    with pytest.raises(WeightsError, match="NaN or infinite") as caught:
        BertModel.from_pretrained(folder)
    assert "output.dense.bias" in str(caught.value) and "query.weight" in str(caught.value)
    model = BertModel.from_pretrained(folder, tolerate=["*.output.dense.bias", "*query*"])
    assert len(model.load_report.tolerated) == 2


def test_huge_but_finite_values_load(folder):
    huge = torch.full((48,), 3e38)
    change(folder, **{BIAS: huge})
    assert torch.equal(BertModel.from_pretrained(folder).encoder.layer[0].output.dense.bias, huge)


def test_wrong_type(folder):
    change(folder, **{BIAS: torch.zeros(48, dtype=torch.int64)})
    with pytest.raises(WeightsError, match=r"type torch\.int64 in the file"):
        BertModel.from_pretrained(folder)


def test_more_layers_than_the_file(folder):
    with pytest.raises(WeightsError, match="16 weights"):
        BertModel.from_pretrained(folder, num_hidden_layers=4)


def test_tolerated_weights_are_initialised_and_reported(folder, caplog):
    change(folder, **{QUERY: None})
    model = BertModel.from_pretrained(folder, tolerate=["encoder.layer.1.*"])
    assert model.load_report.tolerated == ["encoder.layer.1.attention.self.query.weight"]
    assert "tolerated" in caplog.text
    assert model(IDS)[0].isfinite().all()


def test_a_missing_head_is_initialised_reported_and_remembered(folder, caplog):
    model = BertForSequenceClassification.from_pretrained(folder, num_labels=3)
    assert model.load_report.initialised == ["classifier"]
    assert "no trained classifier" in caplog.text
    assert "must be trained" in caplog.text
    assert model(IDS).logits.shape == (1, 3)
    assert len(caplog.records) == 1


def test_an_incomplete_head_is_an_error(folder):
    change(folder, **{"cls.predictions.transform.dense.bias": None})
    with pytest.raises(WeightsError, match=r"transform\.dense\.bias: missing"):
        BertForMaskedLM.from_pretrained(folder)


def test_unused_weights_are_listed(folder, caplog):
    with caplog.at_level(logging.INFO, logger="glassformer"):
        model = BertModel.from_pretrained(folder)
    assert "cls.seq_relationship.weight" in model.load_report.unused
    assert "are not used" in caplog.text
    _, info = BertModel.from_pretrained(folder, output_loading_info=True)
    assert info["unused"] == model.load_report.unused


def test_pooler_may_be_missing(folder, caplog):
    BertForMaskedLM.from_pretrained(folder).save_pretrained(folder)
    model = BertModel.from_pretrained(folder)
    assert model.load_report.initialised == ["pooler"]
    assert not BertModel.from_pretrained(folder, add_pooling_layer=False).load_report.initialised


def test_cross_attention_may_be_missing(folder):
    model = BertModel.from_pretrained(folder, is_decoder=True, add_cross_attention=True)
    assert model.load_report.initialised == [f"encoder.layer.{i}.crossattention" for i in range(3)]


def test_tied_copy_that_differs_is_refused(folder):
    change(folder, **{"cls.predictions.decoder.weight": torch.zeros(60, 48)})
    with pytest.raises(WeightsError, match=r"decoder\.weight: differs from bert\.embeddings"):
        BertForMaskedLM.from_pretrained(folder)
    apart = BertForMaskedLM.from_pretrained(folder, tie_word_embeddings=False)
    assert not apart.cls.predictions.decoder.weight.any()


def test_old_names_and_leftovers(folder):
    tensors = load_file(folder / "model.safetensors")
    old = {
        k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
        for k, v in tensors.items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(40)[None]
    save_file(old, folder / "model.safetensors", {"format": "pt"})
    model = BertForPreTraining.from_pretrained(folder)
    assert torch.equal(
        model.state_dict()["bert.embeddings.LayerNorm.weight"], tensors["bert.embeddings.LayerNorm.weight"]
    )
    assert not model.load_report.unused
    assert model.load_report.leftovers == ["bert.embeddings.position_ids"]
    old["bert.embeddings.LayerNorm.weight"] = torch.zeros(48)
    save_file(old, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(WeightsError, match="twice"):
        BertForPreTraining.from_pretrained(folder)


def test_the_weights_decide_the_number_of_labels(tmp_path, caplog):
    BertForSequenceClassification(tiny_bert(num_labels=3)).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config.update(num_labels=3, id2label={"0": "a", "1": "b"})
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = BertForSequenceClassification.from_pretrained(tmp_path)
    assert model.config.num_labels == 3
    assert "the classifier's 3 rows decide" in caplog.text
    config.update(num_labels=7, id2label={"0": "a", "1": "b", "2": "c"})
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert BertForSequenceClassification.from_pretrained(tmp_path).config.id2label == {0: "a", 1: "b", 2: "c"}


def test_token_ids_beyond_the_vocabulary_are_harmless_and_reported(tmp_path, caplog):
    BertModel(tiny_bert()).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "pad_token_id": 999, "bos_token_id": 30521}))
    assert BertModel.from_pretrained(tmp_path)(IDS)[0].isfinite().all()
    assert "pad_token_id 999 is beyond the vocabulary of 60" in caplog.text
    assert "bos_token_id 30521" in caplog.text


def test_a_token_id_in_a_config_without_a_vocabulary_is_nothing(tmp_path):
    ViTModel(tiny_vit()).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "pad_token_id": 999}))
    assert not ViTModel.from_pretrained(tmp_path).load_report.notes


def test_head_of_another_size(tmp_path, caplog):
    BertForSequenceClassification(tiny_bert(num_labels=3)).save_pretrained(tmp_path)
    with pytest.raises(WeightsError, match=r"classifier.weight: shape \[3, 48\] in the file, \[5, 48\]"):
        BertForSequenceClassification.from_pretrained(tmp_path, num_labels=5)
    model = BertForSequenceClassification.from_pretrained(tmp_path, num_labels=5, ignore_mismatched_sizes=True)
    assert model(IDS).logits.shape == (1, 5)
    assert model.load_report.initialised == model.load_report.replaced == ["classifier"]
    assert f"the classifier of {tmp_path} has another shape and is initialised anew; it must be trained" in caplog.text
    assert "has no trained" not in caplog.text


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_types(tmp_path, dtype):
    model = BertModel(tiny_bert()).to(dtype)
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["torch_dtype"] == str(dtype).removeprefix("torch.")
    assert BertModel.from_pretrained(tmp_path).dtype == torch.float32
    assert BertModel.from_pretrained(tmp_path, dtype="auto").dtype == dtype
    assert BertModel.from_pretrained(tmp_path, torch_dtype=torch.float16).dtype == torch.float16
    with pytest.raises(glassformer.ArgumentError, match="float33"):
        BertModel.from_pretrained(tmp_path, dtype="float33")


def test_a_load_uses_no_random_numbers_and_is_ready(folder):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    model = BertForPreTraining.from_pretrained(folder)
    assert torch.equal(torch.get_rng_state(), before)
    assert not model.training
    assert all(p.requires_grad and not p.is_meta for p in model.parameters())
    assert model.config.name_or_path == str(folder)


def test_callable_on_an_instance_and_relative_folders(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    for name in (f"./{folder.name}/", folder.name, folder):
        model = BertModel(tiny_bert()).from_pretrained(name, cache_dir=folder)
        assert isinstance(model, BertModel)
    with pytest.raises(glassformer.ArgumentError, match="did you mean 'output_hidden_states'"):
        BertModel.from_pretrained(folder, output_hidden_state=True)


def test_training_a_loaded_model_leaves_the_file_alone(folder):
    before = (folder / "model.safetensors").read_bytes()
    model = BertModel.from_pretrained(folder)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7.0)
    assert (folder / "model.safetensors").read_bytes() == before
    assert not torch.equal(
        BertModel.from_pretrained(folder).embeddings.word_embeddings.weight, model.embeddings.word_embeddings.weight
    )


def test_saving_over_the_folder_one_was_loaded_from(folder):
    model = BertModel.from_pretrained(folder)
    want = model(IDS)[0]
    model.save_pretrained(folder)
    assert torch.equal(BertModel.from_pretrained(folder)(IDS)[0], want)


def test_local_folders_open_no_connection(folder, monkeypatch):
    import socket

    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(socket, "socket", lambda *a, **k: pytest.fail("a socket was opened"))
    assert glassformer.AutoModel.from_pretrained(folder)(IDS)[0].isfinite().all()


def test_loads_deterministically_into_every_class(folder):
    for name in ("AutoModel", "AutoModelForPreTraining", "AutoModelForMaskedLM", "AutoModelForNextSentencePrediction"):
        model = getattr(glassformer, name).from_pretrained(folder)
        assert not model.load_report.initialised


def test_a_head_of_another_size_names_the_way_out(folder, caplog):
    BertForSequenceClassification.from_pretrained(folder).save_pretrained(folder)
    with pytest.raises(WeightsError, match="ignore_mismatched_sizes=True initialises them anew"):
        BertForSequenceClassification.from_pretrained(folder, num_labels=5)
    caplog.clear()
    BertForSequenceClassification.from_pretrained(folder, num_labels=5, ignore_mismatched_sizes=True)
    assert "classifier.bias: shape [2] in the file, [5] in the model; it is initialised anew" in caplog.text
    with pytest.raises(WeightsError) as caught:
        BertForSequenceClassification.from_pretrained(folder, num_labels=5, vocab_size=7)
    assert "ignore_mismatched_sizes" not in str(caught.value)


def test_a_head_that_fits_by_shape_alone_is_reported(folder, caplog):
    model = BertForSequenceClassification.from_pretrained(folder)
    model.classifier.weight.data += 1  # it learns
    model.save_pretrained(folder)
    caplog.clear()
    BertForSequenceClassification.from_pretrained(folder)
    assert not caplog.records
    glassformer.BertForTokenClassification.from_pretrained(folder)
    assert "is a BertForSequenceClassification: its classifier fits a BertForTokenClassification" in caplog.text


@pytest.mark.parametrize("safe", (True, False))
def test_a_loaded_model_does_not_follow_its_file(folder, tmp_path, safe):
    model = BertForPreTraining.from_pretrained(folder)
    model.save_pretrained(tmp_path / "own", safe_serialization=safe)
    torch.manual_seed(1)
    BertForPreTraining(tiny_bert()).save_pretrained(tmp_path / "other", safe_serialization=safe)
    name = "model.safetensors" if safe else "pytorch_model.bin"
    file = tmp_path / "own" / name
    model = BertForPreTraining.from_pretrained(tmp_path / "own")
    with torch.no_grad():
        before = model(IDS).prediction_logits
        shutil.copyfile(tmp_path / "other" / name, file)  # as `cp` does: into the file that is there
        assert torch.equal(model(IDS).prediction_logits, before)
        other = BertForPreTraining.from_pretrained(tmp_path / "own")
        assert not torch.equal(other(IDS).prediction_logits, before)
        os.truncate(file, 10)
        assert torch.equal(model(IDS).prediction_logits, before)  # a mapped file would have ended the process


def configure(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.parametrize(
    "fields, named",
    [
        ({"num_hidden_layers": 10_000}, "num_hidden_layers 10000"),
        ({"hidden_size": 10_000_000}, "word_embeddings"),
        ({"vocab_size": 2**31 - 1}, "word_embeddings"),
        ({"intermediate_size": 2**31 - 1}, "intermediate"),
        ({"max_position_embeddings": 2**31 - 1}, "position_embeddings"),
    ],
    ids=lambda value: "",
)
@pytest.mark.parametrize("kind", [BertModel, BertForSequenceClassification])
def test_sizes_are_held_against_the_files_before_anything_is_built(folder, fields, named, kind):
    BertModel.from_pretrained(folder)  # whatever is imported late
    configure(folder, **fields)

    def load():
        with pytest.raises(WeightsError, match=named):
            kind.from_pretrained(folder)

    begin = time.process_time()
    assert memory_growth(load) < 50 * 10**6
    assert time.process_time() - begin < 5  # it took 20 s to build 10,000 layers


def test_computed_tables_are_held_against_the_files_too(tmp_path):
    shape = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = glassformer.TransformerLMConfig(**shape, intermediate_size=16)
    glassformer.TransformerLMHeadModel(config).save_pretrained(tmp_path)
    configure(tmp_path, max_position_embeddings=2**31 - 1)

    def load():
        with pytest.raises(WeightsError, match="max_position_embeddings 2147483647"):
            glassformer.TransformerLMHeadModel.from_pretrained(tmp_path)

    assert memory_growth(load) < 50 * 10**6


def small(**fields):
    shape = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    return BertForSequenceClassification(glassformer.BertConfig(**shape, intermediate_size=8, **fields))


def test_weights_that_a_lenient_load_state_dict_leaves_random_are_counted(caplog, tmp_path):
    trained, model = small(), small()
    total = len(dict(model.named_parameters()))
    values = {f"model.{name}": value for name, value in trained.state_dict().items()}
    values |= {name: value for name, value in trained.state_dict().items() if name.startswith("classifier")}
    model.load_state_dict(values, strict=False)
    assert f"2 of {total} weights were loaded; {total - 2} kept their random values: bert.embeddings" in caplog.text
    assert f"{len(trained.state_dict())} of the given ones have no place: model.bert" in caplog.text
    assert model.untrained == ["bert", "bert.pooler"]  # one trained head made a trained model of it before
    caplog.clear()
    model.load_state_dict({k: v for k, v in trained.state_dict().items() if "pooler" not in k}, strict=False)
    assert model.untrained == ["bert.pooler"] and "2 kept their random values" in caplog.text
    model.load_state_dict(trained.state_dict())
    assert model.untrained == []


def test_a_lenient_load_into_a_loaded_model_leaves_it_trained(caplog, tmp_path):
    small().save_pretrained(tmp_path)
    model = BertForSequenceClassification.from_pretrained(tmp_path)
    head = {name: value for name, value in model.state_dict().items() if name.startswith("classifier")}
    caplog.clear()
    model.load_state_dict(head, strict=False)
    assert model.untrained == [] and not caplog.text


@pytest.mark.parametrize(
    "rows, labels, expected",
    [
        (2, {"1": "good", "2": "bad"}, {0: "good", 1: "bad"}),
        (3, {"1": "good", "2": "bad"}, {0: "LABEL_0", 1: "good", 2: "bad"}),
        (2, {"0": "good", "5": "bad"}, {0: "good", 1: "bad"}),
        (6, {"0": "good", "5": "bad"}, {0: "good", 1: "LABEL_1", 2: "LABEL_2", 3: "LABEL_3", 4: "LABEL_4", 5: "bad"}),
    ],
)
def test_labels_that_are_not_numbered_from_zero(tmp_path, caplog, rows, labels, expected):
    small(num_labels=rows).save_pretrained(tmp_path)
    for label2id in ({}, {"label2id": {label: int(number) for number, label in labels.items()}}):
        configure(tmp_path, id2label=labels, **label2id)
        model = BertForSequenceClassification.from_pretrained(tmp_path)
        assert model.config.id2label == expected and model.num_parameters() > 0
        assert model.config.label2id == {label: number for number, label in expected.items()}
        assert "id2label in config.json numbers its labels" in caplog.text
    model.save_pretrained(tmp_path / "again")
    assert BertForSequenceClassification.from_pretrained(tmp_path / "again").config.id2label == expected
    with pytest.raises(ConfigError, match="must number the labels from 0 on"):
        small(id2label={1: "good", 2: "bad"})


def test_a_load_imports_no_symbolic_algebra():
    """torch imports sympy, which takes as long as reading a small model, for some functions on the meta device."""
    script = (
        "import sys, glassformer as g\n"
        "for kind in (g.BertModel, g.GPT2LMHeadModel, g.RobertaModel):\n"
        "    kind.without_weights(kind.config_class())\n"
        "sys.exit('sympy' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
