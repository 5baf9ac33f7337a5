"""DistilBERT: its config as the tutorial prints it, its files, heads and tokenizer, and the sentiment walk-through."""

from __future__ import annotations

import json
import types

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import glassformer
from glassformer import (
    DistilBertConfig,
    DistilBertForMaskedLM,
    DistilBertForMultipleChoice,
    DistilBertForQuestionAnswering,
    DistilBertForSequenceClassification,
    DistilBertForTokenClassification,
    DistilBertModel,
    DistilBertTokenizer,
)

from ..parity.test_transformers4 import old_library
from .architectures import tiny_distilbert, tokens

PRINTED = """DistilBertConfig {
  "_name_or_path": "distilbert-base-uncased-finetuned-sst-2-english",
  "activation": "gelu",
  "architectures": [
    "DistilBertForSequenceClassification"
  ],
  "attention_dropout": 0.1,
  "dim": 768,
  "dropout": 0.1,
  "finetuning_task": "sst-2",
  "hidden_dim": 3072,
  "id2label": {
    "0": "NEGATIVE",
    "1": "POSITIVE"
  },
  "initializer_range": 0.02,
  "label2id": {
    "NEGATIVE": 0,
    "POSITIVE": 1
  },
  "max_position_embeddings": 512,
  "model_type": "distilbert",
  "n_heads": 12,
  "n_layers": 6,
  "output_past": true,
  "pad_token_id": 0,
  "qa_dropout": 0.1,
  "seq_classif_dropout": 0.2,
  "sinusoidal_pos_embds": false,
  "tie_weights_": true,
  "transformers_version": "4.30.2",
  "vocab_size": 30522
}
"""
SETTINGS = json.loads(PRINTED.removeprefix("DistilBertConfig "))
SENTENCES = ["today is not that bad", "today is so bad", "so good"]


@pytest.fixture
def batch() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    mask = (torch.arange(7) < torch.tensor([[7], [4]])).long()
    return {"input_ids": tokens(2, 7) * mask, "attention_mask": mask}


# -- config ---------------------------------------------------------------------------------------------------------


def test_the_config_prints_as_in_the_tutorial(tmp_path, monkeypatch):
    name = SETTINGS["_name_or_path"]
    (tmp_path / name).mkdir()
    (tmp_path / name / "config.json").write_text(json.dumps({**SETTINGS, "_name_or_path": None}))
    monkeypatch.chdir(tmp_path)
    config = glassformer.AutoConfig.from_pretrained(name)
    assert str(config) == PRINTED
    for field, value in SETTINGS.items():
        if field not in ("_name_or_path", "id2label"):
            assert getattr(config, field) == value, field
    assert config.id2label == {0: "NEGATIVE", 1: "POSITIVE"}
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (768, 6, 12)
    assert (config.intermediate_size, config.classifier_dropout, config.layer_norm_eps) == (3072, 0.2, 1e-12)
    config.save_pretrained("again")
    assert glassformer.AutoConfig.from_pretrained("again") == config


def test_both_sets_of_names():
    config = DistilBertConfig(dim=48, n_layers=2, num_attention_heads=4, hidden_dim=30)
    assert config.hidden_size == config.dim == 48
    config.n_heads = 6
    assert config.num_attention_heads == 6
    assert config == DistilBertConfig(hidden_size=48, num_hidden_layers=2, n_heads=6, intermediate_size=30)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dim": 50, "n_heads": 4}, "multiple of num_attention_heads, got 50 and 4"),
        ({"is_decoder": True}, "is_decoder=True: a DistilBERT only encodes"),
        ({"add_cross_attention": True}, "add_cross_attention=True: a DistilBERT only encodes"),
        ({"activation": "gleu"}, "hidden_act must be a function of a tensor or one of gelu"),
    ],
)
def test_unsupported_settings_are_refused(fields, message):
    with pytest.raises(glassformer.ConfigError, match=message):
        DistilBertConfig(**fields)
    with pytest.raises(glassformer.ArgumentError, match="no field 'type_vocab_size'"):
        DistilBertConfig(type_vocab_size=2)


# -- files ----------------------------------------------------------------------------------------------------------


def test_files_have_the_original_names(tmp_path):
    torch.manual_seed(0)
    model = DistilBertForMaskedLM(tiny_distilbert())
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    layer, before = model.distilbert.encoder.layer[1], "distilbert.transformer.layer.1."
    for theirs, ours in {
        "attention.q_lin": layer.attention.self.query,
        "attention.k_lin": layer.attention.self.key,
        "attention.v_lin": layer.attention.self.value,
        "attention.out_lin": layer.attention.output.dense,
        "sa_layer_norm": layer.attention.output.LayerNorm,
        "ffn.lin1": layer.intermediate.dense,
        "ffn.lin2": layer.output.dense,
        "output_layer_norm": layer.output.LayerNorm,
    }.items():
        assert torch.equal(tensors[before + theirs + ".weight"], ours.weight)
    assert len(tensors) == 4 + 3 * 16 + 5  # the scores of words have a bias, and the weights of the embeddings
    assert "vocab_projector.weight" not in tensors

    tensors["distilbert.embeddings.position_ids"] = torch.arange(40)[None]
    tensors["vocab_projector.weight"] = tensors["distilbert.embeddings.word_embeddings.weight"].clone()
    bare = {name.removeprefix("distilbert."): tensor for name, tensor in tensors.items()}
    for given in (tensors, bare):
        save_file(given, tmp_path / "model.safetensors", {"format": "pt"})
        for kind, prefix in ((DistilBertForMaskedLM, ""), (DistilBertModel, "distilbert.")):
            again = kind.from_pretrained(tmp_path)
            assert not again.load_report.initialised
            assert len(again.load_report.leftovers) == 1
            for name, value in again.state_dict().items():
                assert torch.equal(value, model.state_dict()[prefix + name]), name
    del tensors["distilbert.transformer.layer.2.ffn.lin1.bias"]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(glassformer.WeightsError, match=r"layer\.2\.intermediate\.dense\.bias: missing"):
        DistilBertModel.from_pretrained(tmp_path)


def test_every_auto_class_loads_it(tmp_path, caplog):
    torch.manual_seed(0)
    DistilBertForMaskedLM(tiny_distilbert()).save_pretrained(tmp_path)
    for name, kind in {
        "AutoModel": DistilBertModel,
        "AutoModelForMaskedLM": DistilBertForMaskedLM,
        "AutoModelForPreTraining": DistilBertForMaskedLM,
    }.items():
        assert type(getattr(glassformer, name).from_pretrained(tmp_path)) is kind
    assert not caplog.records
    for name, kind, new in (
        ("SequenceClassification", DistilBertForSequenceClassification, ["pre_classifier", "classifier"]),
        ("MultipleChoice", DistilBertForMultipleChoice, ["pre_classifier", "classifier"]),
        ("TokenClassification", DistilBertForTokenClassification, ["classifier"]),
        ("QuestionAnswering", DistilBertForQuestionAnswering, ["qa_outputs"]),
    ):
        model = getattr(glassformer, f"AutoModelFor{name}").from_pretrained(tmp_path)
        assert type(model) is kind
        assert model.load_report.initialised == new
        assert f"has no trained {', '.join(new)}" in caplog.text
    assert type(glassformer.AutoModel.from_config(tiny_distilbert())) is DistilBertModel
    with pytest.raises(glassformer.ConfigError, match=r"is for models of the type .* is a distilbert"):
        glassformer.AutoModelForCausalLM.from_pretrained(tmp_path)


# -- calls ----------------------------------------------------------------------------------------------------------


def test_layers_can_be_called_directly(batch):
    torch.manual_seed(0)
    model = DistilBertModel(tiny_distilbert()).eval()
    ids = batch["input_ids"][:1]
    out = model(ids, output_hidden_states=True, output_attentions=True)
    assert list(out) == ["last_hidden_state", "hidden_states", "attentions"]
    x = model.embeddings(ids)
    assert torch.allclose(x, out.hidden_states[0], atol=1e-6)
    for layer, state in zip(model.encoder.layer, out.hidden_states[1:], strict=True):
        x = layer(x)[0]
        assert torch.allclose(x, state, atol=1e-5)
    mask = batch["attention_mask"]
    masked = model(batch["input_ids"], mask, torch.zeros(3, 4))  # the third argument is that of the old library
    assert torch.equal(masked[0], model(**batch, head_mask=torch.zeros(3, 4))[0])


def test_token_types_are_refused(batch):
    segments = torch.zeros_like(batch["input_ids"])
    with pytest.raises(glassformer.ArgumentError, match="DistilBertModel has no argument 'token_type_ids'"):
        DistilBertModel(tiny_distilbert())(**batch, token_type_ids=segments)
    with pytest.raises(glassformer.InputError, match="leave token_type_ids out, as DistilBertTokenizer does"):
        DistilBertForSequenceClassification(tiny_distilbert())(**batch, token_type_ids=segments)
    with pytest.raises(glassformer.InputError, match="are for decoders"):
        DistilBertForMaskedLM(tiny_distilbert())(**batch, encoder_hidden_states=torch.zeros(2, 3, 48))


def test_texts_are_classified_by_their_first_token(batch):
    torch.manual_seed(0)
    model = DistilBertForSequenceClassification(tiny_distilbert(num_labels=3)).eval()
    logits = model(**batch).logits
    first = model.distilbert(**batch)[0][:, 0]
    by_hand = model.classifier(F.relu(model.pre_classifier(first)))
    assert torch.allclose(logits, by_hand, atol=1e-6)
    left = {name: torch.stack((value[0], value[1].roll(3))) for name, value in batch.items()}
    positions = torch.stack((torch.arange(7), torch.arange(7).roll(3)))
    assert torch.allclose(model(**left, position_ids=positions).logits, logits, atol=1e-5)


def test_every_head_uses_its_own_dropout(batch):
    config = tiny_distilbert(dropout=0.0, attention_dropout=0.0, qa_dropout=0.4, seq_classif_dropout=0.5)
    rates = {
        DistilBertForSequenceClassification: 0.5,
        DistilBertForMultipleChoice: 0.5,
        DistilBertForTokenClassification: 0.0,
        DistilBertForQuestionAnswering: 0.4,
    }
    for kind, rate in rates.items():
        torch.manual_seed(0)
        model = kind(config).train()
        assert model.dropout.p == rate
        given = {k: v[:, None] if kind is DistilBertForMultipleChoice else v for k, v in batch.items()}
        assert torch.equal(model(**given)[0], model(**given)[0]) == (rate == 0.0)


@torch.no_grad()
def test_multiple_choice_equals_the_reference(tmp_path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = DistilBertForMultipleChoice(tiny_distilbert()).double().eval()
    model.save_pretrained(tmp_path)
    reference = transformers.DistilBertForMultipleChoice.from_pretrained(tmp_path, dtype=torch.float64).eval()
    mask = (torch.arange(7) < torch.tensor([[7], [4], [5], [2], [1], [7]])).long().view(2, 3, 7)
    given = {"input_ids": tokens(6, 7).view(2, 3, 7) * mask, "attention_mask": mask, "labels": torch.tensor([2, 0])}
    ours, theirs = model(**given), reference(**given)
    assert ours.logits.shape == (2, 3)
    for name in ("loss", "logits"):
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("tied", [True, False])
def test_resizing_the_vocabulary(tied):
    torch.manual_seed(0)
    model = DistilBertForMaskedLM(tiny_distilbert(tie_word_embeddings=tied)).eval()
    model.vocab_projector.bias.data.normal_()
    ids = tokens(1, 5)
    before = model(ids).logits
    for size in (64, 55):
        model.resize_token_embeddings(size)
        assert (model.vocab_projector.weight is model.get_input_embeddings().weight) == tied
        after = model(ids).logits
        assert after.shape[-1] == size
        assert torch.allclose(after[..., :55], before[..., :55], atol=1e-5)


# -- what today's library has dropped -------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize(
    ("kind", "fields", "pruned"),
    [
        (DistilBertModel, {"sinusoidal_pos_embds": True}, {}),
        (DistilBertForMaskedLM, {}, {0: [1], 1: [2], 2: [3]}),
        (DistilBertForSequenceClassification, {"num_labels": 5}, {0: [0], 1: [0], 2: [0]}),
        (DistilBertForQuestionAnswering, {"activation": "relu"}, {}),
    ],
)
def test_head_masks_and_pruning_equal_the_old_library(kind, fields, pruned, batch, tmp_path):
    torch.manual_seed(0)
    model = kind(tiny_distilbert(**fields)).eval()
    model.prune_heads(pruned)
    model.save_pretrained(tmp_path / "ours")
    heads = 3 if pruned else 4
    batch["head_mask"] = torch.rand(3, heads).round(decimals=1)
    theirs, saved = old_library(kind.__name__, tmp_path / "ours", batch, tmp_path)
    again = kind.from_pretrained(saved)
    assert again.config.pruned_heads == pruned
    mask = batch["attention_mask"]
    for result in (model(**batch), again(**batch)):
        for name, value in result.items():
            seen = mask.bool() if value.shape[:2] == mask.shape else slice(None)
            torch.testing.assert_close(value[seen], theirs[name][seen], rtol=1e-5, atol=1e-5)
    for name, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_sinusoidal_positions_are_not_trained(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = tiny_distilbert(sinusoidal_pos_embds=True)
    model = DistilBertModel(config)
    positions = model.embeddings.position_embeddings
    places = torch.arange(40.0)
    assert torch.allclose(positions.weight[:, 0], places.sin(), atol=1e-6)
    assert torch.allclose(positions.weight[:, 47], (places / 10000 ** (46 / 48)).cos(), atol=1e-6)
    assert not positions.weight.requires_grad
    reference = transformers.DistilBertModel(transformers.DistilBertConfig(**config.to_diff_dict()))
    torch.testing.assert_close(positions.weight, reference.embeddings.position_embeddings.weight.detach())
    model.save_pretrained(tmp_path)
    again = DistilBertModel.from_pretrained(tmp_path)
    assert torch.equal(again.embeddings.position_embeddings.weight, positions.weight)
    assert not again.embeddings.position_embeddings.weight.requires_grad


# -- tokenizer and tutorial -----------------------------------------------------------------------------------------


def test_its_tokenizer_gives_no_token_types(shared, tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer = DistilBertTokenizer.from_pretrained(shared / "vocab/bert-base-uncased")
    assert tokenizer.model_input_names == ["input_ids", "attention_mask"]
    reference = transformers.DistilBertTokenizer.from_pretrained(shared / "vocab/bert-base-uncased")
    bert = glassformer.BertTokenizer.from_pretrained(shared / "vocab/bert-base-uncased")
    for given in ((SENTENCES,), ("so good", "not that bad")):
        ours = tokenizer(*given, padding=True)
        assert dict(ours) == dict(reference(*given, padding=True))
        assert list(ours) == ["input_ids", "attention_mask"]
        with_types = bert(*given, padding=True)
        assert tokenizer(*given, padding=True, return_token_type_ids=True) == with_types

    tokenizer.save_pretrained(tmp_path)
    assert type(glassformer.AutoTokenizer.from_pretrained(tmp_path)) is DistilBertTokenizer
    assert transformers.AutoTokenizer.from_pretrained(tmp_path)(SENTENCES[0]) == reference(SENTENCES[0])
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    del settings["tokenizer_class"]  # as the published folders have it: the model's own config tells
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "distilbert"}))
    assert type(glassformer.AutoTokenizer.from_pretrained(tmp_path)) is DistilBertTokenizer


@pytest.fixture(scope="module")
def sentiment(shared, tmp_path_factory):
    """A folder like the tutorial's: the original vocabulary and labels, and a small model of random weights."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("distilbert-small-sst-2")
    settings = {**SETTINGS, "dim": 48, "n_layers": 2, "n_heads": 4, "hidden_dim": 96, "initializer_range": 0.3}
    DistilBertForSequenceClassification(DistilBertConfig.from_dict(settings)).save_pretrained(folder)
    tokenizer = DistilBertTokenizer.from_pretrained(shared / "vocab/bert-base-uncased", model_max_length=512)
    tokenizer.save_pretrained(folder)
    return folder


def walk_through(library: types.ModuleType, model_name: str) -> tuple:
    """The tutorial's code."""
    tokenizer = library.AutoTokenizer.from_pretrained(model_name)
    model = library.AutoModelForSequenceClassification.from_pretrained(model_name)
    batch_input = tokenizer(SENTENCES, truncation=True, padding=True, return_tensors="pt")
    with torch.no_grad():
        outputs = model(**batch_input)
        scores = F.softmax(outputs.logits, dim=1)
        labels = torch.argmax(scores, dim=1)
        labels = [model.config.id2label[id] for id in labels.tolist()]
    return batch_input, outputs, scores, labels


def test_the_sentiment_walk_through(sentiment, monkeypatch):
    monkeypatch.chdir(sentiment.parent)
    batch, outputs, scores, labels = walk_through(glassformer, sentiment.name)
    assert list(batch) == ["input_ids", "attention_mask"]
    assert batch["input_ids"].tolist()[2] == [101, 2061, 2204, 102, 0, 0, 0]
    assert isinstance(outputs, glassformer.SequenceClassifierOutput)
    assert str(outputs).startswith("SequenceClassifierOutput(loss=None, logits=tensor([[")
    assert str(outputs).endswith("]]), hidden_states=None, attentions=None)")
    assert torch.allclose(scores.sum(1), torch.ones(3))

    transformers = pytest.importorskip("transformers")
    *_, their_scores, their_labels = walk_through(transformers, sentiment.name)
    torch.testing.assert_close(scores, their_scores)
    assert labels == their_labels
    assert set(labels) <= {"NEGATIVE", "POSITIVE"}
