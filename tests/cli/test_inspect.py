"""glass inspect: counts, what a checkpoint holds and lacks, and damaged folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from glassformer import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
)
from glassformer.checkpoints.weights import open_weights, write_weights
from glassformer.cli.main import main
from glassformer.cli.verbs.inspect import inspect_checkpoint
from glassformer.registry import ARCHITECTURES as REGISTERED

from ..models.architectures import ARCHITECTURES

TINY = {"vocab_size": 40, "hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 20}


def inspected(folder: Path, capsys, *options: str, code: int = 0) -> dict:
    assert main(["inspect", str(folder), "--json", *options]) == code
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def masked(tmp_path) -> Path:
    BertForMaskedLM(BertConfig(**TINY)).save_pretrained(tmp_path / "masked")
    return tmp_path / "masked"


def test_bert_base_from_its_config_alone(tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"model_type": "bert", "architectures": ["BertForMaskedLM"]}')
    assert main(["inspect", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for text in ("109,482,240", "21.77 %", "77.69 %", "0.54 %", "109,514,298", "12 x BertLayer"):
        assert text in shown
    values = inspected(tmp_path, capsys)
    assert values["parameters"] == 109_482_240
    assert [(part["name"], part["share"]) for part in values["parts"]] == [
        ("embeddings", 21.77),
        ("encoder", 77.69),
        ("pooler", 0.54),
    ]
    assert values["class"] == "BertForMaskedLM"


def test_what_a_checkpoint_holds_and_lacks(masked, capsys):
    values = inspected(masked, capsys)
    status = {head["name"]: head["status"] for head in values["heads"]}
    assert values["lacks"] == ["pooler"]
    assert status["BertForMaskedLM"] == "complete"
    assert status["BertForQuestionAnswering"] == "lacks qa_outputs"
    assert status["BertForNextSentencePrediction"] == "lacks bert.pooler, cls.seq_relationship"
    assert values["dtypes"].keys() == {"float32"}
    assert values["files"].keys() == {"config.json", "model.safetensors"}
    assert values["unused"] == values["faults"] == []


def test_counts_are_those_of_the_loaded_model(tmp_path, capsys):
    model = BertModel(BertConfig(**TINY))
    model.prune_heads({1: [0]})
    model.save_pretrained(tmp_path)
    values = inspected(tmp_path, capsys)
    assert values["parameters"] == model.num_parameters() == values["tree"]["parameters"]
    layers = values["tree"]["children"][1]["children"][0]["children"]
    assert [layer["name"] for layer in layers] == ["0", "1", "2"]  # the pruned one stands out
    for name, part in zip(("embeddings", "encoder", "pooler"), values["parts"], strict=True):
        assert part["parameters"] == sum(p.numel() for p in getattr(model, name).parameters())
        assert part["found"] == part["tensors"]


def test_missing_parts_are_those_that_loading_initialises(masked):
    found = inspect_checkpoint(str(masked))
    model = BertForSequenceClassification.from_pretrained(masked)
    head = next(head for head in found.heads if head.name == "BertForSequenceClassification")
    assert head.lacks == model.load_report.initialised


def test_the_number_of_labels_is_that_of_the_classifier(tmp_path, capsys):
    BertForSequenceClassification(BertConfig(**TINY, num_labels=3)).save_pretrained(tmp_path)
    values = inspected(tmp_path, capsys)
    status = {head["name"]: head["status"] for head in values["heads"]}
    assert values["config"]["num_labels"] == 3
    assert status["BertForSequenceClassification"] == "complete"
    assert status["BertForTokenClassification"] == "fits by shape, and was trained as BertForSequenceClassification"
    assert status["BertForMultipleChoice"].startswith("does not fit: classifier.weight: shape [3, 12] in the file")


def test_old_names_leftovers_and_unknown_tensors(masked, capsys):
    weights = open_weights(masked)
    tensors = {name: weights.read(name).clone() for name in weights.names()}
    tensors["bert.embeddings.LayerNorm.gamma"] = tensors.pop("bert.embeddings.LayerNorm.weight")
    tensors["bert.embeddings.position_ids"] = torch.arange(512)[None]
    tensors["adapter.down.weight"] = torch.zeros(2, 2)
    write_weights(masked, tensors)
    values = inspected(masked, capsys)
    assert values["leftovers"] == ["bert.embeddings.position_ids"]
    assert values["unused"] == ["adapter.down.weight"]
    assert values["faults"] == []


def test_weights_that_do_not_fit_are_shown_and_refused(masked, capsys):
    config = json.loads((masked / "config.json").read_text())
    (masked / "config.json").write_text(json.dumps({**config, "vocab_size": 41, "num_hidden_layers": 4}))
    assert main(["inspect", str(masked)]) == 1
    shown = capsys.readouterr()
    assert "Module tree" in shown.out
    assert shown.err.count("\n") == 1
    assert "embeddings.word_embeddings.weight: shape [40, 12] in the file, [41, 12] in the model" in shown.err
    assert "encoder.layer.3.attention.self.query.weight: missing" in shown.err
    assert inspected(masked, capsys, code=1)["faults"]


def test_the_depth_of_the_tree_can_be_limited(masked, capsys):
    tree = inspected(masked, capsys, "--depth", "1")["tree"]
    assert [child["name"] for child in tree["children"]] == ["bert", "cls"]
    assert "children" not in tree["children"][0]
    assert "children" not in inspected(masked, capsys, "--depth", "0")["tree"]
    assert main(["inspect", str(masked), "--depth", "-1"]) == 1


def test_no_weight_is_read(masked, monkeypatch):
    from glassformer.checkpoints.weights import Weights

    def refuse(self, name):
        raise AssertionError(f"{name} was read")

    monkeypatch.setattr(Weights, "read", refuse)
    assert inspect_checkpoint(str(masked)).faults == []


def test_weights_without_a_config_are_listed(masked, capsys):
    (masked / "config.json").unlink()
    values = inspected(masked, capsys)
    assert values["tensors"]["bert.embeddings.word_embeddings.weight"] == [40, 12]
    assert "there is no config.json" in values["notes"][0]
    assert main(["inspect", str(masked)]) == 0


def test_the_tensors_of_an_unsupported_architecture_are_listed(masked, capsys):
    (masked / "config.json").write_text('{"model_type": "mamba", "architectures": ["MambaForCausalLM"]}')
    values = inspected(masked, capsys)
    assert "no architecture 'mamba'" in values["notes"][0]
    assert values["tensors"]


def damaged_config(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "bert",')


def impossible_config(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "bert", "hidden_size": 10, "num_attention_heads": 3}')


def truncated_weights(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])


def empty_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"")


def missing_shard(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"a": "model-00001-of-00001.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def only_a_pickle_with_code(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"cposix\nsystem\n(S'true'\ntR.")


def nothing(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damaged_config, "config.json is not valid JSON"),
        (impossible_config, "hidden_size must be a multiple of num_attention_heads, got 10 and 3"),
        (truncated_weights, "model.safetensors is truncated"),
        (empty_weights, "model.safetensors is empty"),
        (missing_shard, "names 'model-00001-of-00001.safetensors', which does not exist"),
        (only_a_pickle_with_code, "pytorch_model.bin"),
        (nothing, "holds neither config.json nor weights; it is empty"),
    ],
)
def test_a_damaged_folder_is_one_line(masked, damage, message, capsys):
    damage(masked)
    assert main(["inspect", str(masked)]) == 1
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert not shown.out


def test_a_missing_folder_is_reported(tmp_path, capsys):
    assert main(["inspect", str(tmp_path / "nowhere")]) == 1
    assert "does not exist" in capsys.readouterr().err


def test_the_real_checkpoint(minilm, capsys):
    values = inspected(minilm, capsys)
    assert values["parameters"] == 22_713_216
    assert values["heads"][0]["status"] == "complete"
    assert values["leftovers"] == ["embeddings.position_ids"]


@pytest.mark.parametrize("model_type", ["albert", "gpt2"])
def test_every_class_of_an_architecture_is_listed(model_type, tmp_path, capsys):
    architecture = next(each for each in ARCHITECTURES if each.model_type == model_type)
    torch.manual_seed(0)
    next(iter(architecture.heads))(architecture.tiny()).save_pretrained(tmp_path)
    values = inspected(tmp_path, capsys)
    names = {path.rpartition(".")[2] for path in REGISTERED[model_type].classes.values()}
    assert {head["name"] for head in values["heads"]} == names
    assert values["faults"] == values["unused"] == []


def test_layers_that_share_their_weights_are_counted_once(tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"model_type": "albert", "hidden_size": 768, "num_attention_heads": 12}')
    values = inspected(tmp_path, capsys)
    encoder = next(part for part in values["parts"] if part["name"] == "encoder")
    assert encoder["tensors"] == 16
    assert values["parameters"] == AlbertModel.without_weights(AlbertConfig.from_pretrained(tmp_path)).num_parameters()
