"""Adapters: what peft computes and writes is what is computed and written here, in both directions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer import LoraConfig, add_lora, load_lora, merge_lora, unmerge_lora
from glassformer.checkpoints.keymap import KeyMap, Row
from glassformer.errors import CheckpointError, ConfigError, InputError, WeightsError
from glassformer.models.bert import BertModel
from glassformer.models.lora import adapter_tensors, lora_layers

from ..train.small import bert, gpt2

peft = pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")

DISTILBERT = {"vocab_size": 60, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 40}
KINDS = {
    "bert": (
        lambda: glassformer.BertForSequenceClassification(bert(num_labels=3)),
        "AutoModelForSequenceClassification",
        ["query", "value"],
        ["classifier"],
    ),
    "bert, every layer": (
        lambda: glassformer.BertForTokenClassification(bert(num_labels=3)),
        "AutoModelForTokenClassification",
        ["dense", "key"],
        ["classifier"],
    ),
    "distilbert": (
        lambda: glassformer.DistilBertForQuestionAnswering(glassformer.DistilBertConfig(**DISTILBERT)),
        "AutoModelForQuestionAnswering",
        ["q_lin", "lin1"],
        ["qa_outputs"],
    ),
    "gpt2": (
        lambda: glassformer.GPT2LMHeadModel(gpt2(initializer_range=0.2)),
        "AutoModelForCausalLM",
        ["c_attn", "c_proj"],
        None,
    ),
}
IDS = torch.tensor([[5, 6, 7, 8, 9], [10, 11, 12, 13, 14]])


def scores(model) -> torch.Tensor:
    with torch.no_grad():
        out = model.eval()(input_ids=IDS)
    return out.logits if "logits" in out else torch.stack((out.start_logits, out.end_logits))


def shake(model) -> None:
    """Give adapters and heads something that was learnt."""
    torch.manual_seed(7)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data += 0.3 * torch.randn_like(parameter)


@pytest.fixture(params=KINDS)
def kind(request, tmp_path):
    make, auto, targets, saved = KINDS[request.param]
    torch.manual_seed(0)
    make().save_pretrained(tmp_path / "base")
    return tmp_path, auto, targets, saved


def theirs(folder: Path, auto: str):
    return getattr(transformers, auto).from_pretrained(folder / "base")


def ours(folder: Path, auto: str):
    return getattr(glassformer, auto).from_pretrained(folder / "base")


@pytest.mark.parametrize("use_rslora", [False, True])
def test_peft_reads_ours(kind, use_rslora):
    folder, auto, targets, saved = kind
    model = ours(folder, auto)
    config = LoraConfig(
        r=4, lora_alpha=6, target_modules=targets, modules_to_save=saved, use_rslora=use_rslora,
    )  # fmt: skip
    add_lora(model, config)
    shake(model)
    model.save_pretrained(folder / "adapter")
    right = peft.PeftModel.from_pretrained(theirs(folder, auto), folder / "adapter")
    assert torch.allclose(scores(model), scores(right), atol=1e-5)
    assert not torch.allclose(scores(model), scores(ours(folder, auto)), atol=1e-2)


def test_we_read_pefts(kind):
    folder, auto, targets, saved = kind
    settings = {"r": 4, "lora_alpha": 6, "target_modules": targets, "modules_to_save": saved}
    right = peft.get_peft_model(theirs(folder, auto), peft.LoraConfig(**settings))
    shake(right)
    right.save_pretrained(folder / "adapter")
    model = getattr(glassformer, auto).from_pretrained(folder / "adapter")  # finds what it stands on
    assert torch.allclose(scores(model), scores(right), atol=1e-5)
    model.save_pretrained(folder / "again")
    again = peft.PeftModel.from_pretrained(theirs(folder, auto), folder / "again")
    assert torch.allclose(scores(again), scores(right), atol=1e-5)
    learning = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert all("lora_" in name or name.startswith(tuple(saved or ("-",))) for name in learning) and learning


def test_gradients_are_pefts(kind):
    """What one tensor of the file holds shares its A, so that training goes the same way too."""
    folder, auto, targets, saved = kind
    settings = {"r": 4, "lora_alpha": 6, "target_modules": targets, "modules_to_save": saved}
    right = peft.get_peft_model(theirs(folder, auto), peft.LoraConfig(**settings))
    shake(right)
    right.save_pretrained(folder / "adapter")
    model = getattr(glassformer, auto).from_pretrained(folder / "adapter")
    for each in (model, right):
        out = each.eval()(input_ids=IDS)
        (out.logits if "logits" in out else out.start_logits + out.end_logits).square().sum().backward()
    with torch.no_grad():
        for each in (model, right):
            for parameter in each.parameters():
                if parameter.grad is not None:
                    parameter -= 1e-4 * parameter.grad
    assert torch.allclose(scores(model), scores(right), atol=1e-4)
    assert not torch.allclose(scores(model), scores(ours(folder, auto)), atol=1e-2)


def test_merging_and_back(kind):
    folder, auto, targets, saved = kind
    model = ours(folder, auto)
    add_lora(model, LoraConfig(r=2, target_modules=targets, modules_to_save=saved))
    shake(model)
    before, weights = scores(model), {name: layer.weight.clone() for name, layer in lora_layers(model)}
    merge_lora(model, keep=True)
    assert torch.allclose(scores(model), before, atol=1e-5)
    name, layer = next(lora_layers(model))
    assert not torch.equal(layer.weight, weights[name])
    unmerge_lora(model)
    assert all(torch.equal(layer.weight, weights[name]) for name, layer in lora_layers(model))
    assert torch.equal(scores(model), before)
    merge_lora(model)
    assert not list(lora_layers(model)) and torch.allclose(scores(model), before, atol=1e-5)
    model.save_pretrained(folder / "merged")
    plain = getattr(transformers, auto).from_pretrained(folder / "merged")
    assert torch.allclose(scores(plain), before, atol=1e-5)


SAVED = {
    "bert, every norm": (
        lambda: glassformer.BertForSequenceClassification(bert(num_labels=3)),
        "AutoModelForSequenceClassification",
        ["query"],
        ["LayerNorm", "classifier"],
    ),
    "distilbert, both layers of its head": (
        lambda: glassformer.DistilBertForSequenceClassification(glassformer.DistilBertConfig(**DISTILBERT)),
        "AutoModelForSequenceClassification",
        ["q_lin"],
        ["classifier"],
    ),
    "gpt2, by names of its file": (KINDS["gpt2"][0], "AutoModelForCausalLM", ["c_attn"], ["ln_1"]),
}


@pytest.mark.parametrize("name", SAVED)
def test_modules_to_save_match_as_in_peft(tmp_path, name):
    make, auto, targets, saved = SAVED[name]
    torch.manual_seed(0)
    make().save_pretrained(tmp_path / "base")
    settings = {"r": 4, "target_modules": targets, "modules_to_save": saved}
    right = peft.get_peft_model(theirs(tmp_path, auto), peft.LoraConfig(**settings))
    shake(right)
    right.save_pretrained(tmp_path / "adapter")
    model = getattr(glassformer, auto).from_pretrained(tmp_path / "adapter")
    assert torch.allclose(scores(model), scores(right), atol=1e-5)
    shake(model)
    model.save_pretrained(tmp_path / "again")
    again = peft.PeftModel.from_pretrained(theirs(tmp_path, auto), tmp_path / "again")
    assert torch.allclose(scores(again), scores(model), atol=1e-5)


def test_weights_that_are_the_embeddings_too_are_not_merged(tmp_path):
    model = glassformer.GPT2LMHeadModel(gpt2())
    add_lora(model, LoraConfig(target_modules=["lm_head"]))
    for keep in (True, False):
        with pytest.raises(InputError, match="the weights of lm_head are tied to the word embeddings"):
            merge_lora(model, keep=keep)


def test_our_own_names_are_translated(tmp_path):
    """Queries and values of GPT-2, which its files keep with the keys in one tensor."""
    torch.manual_seed(0)
    glassformer.GPT2LMHeadModel(gpt2(initializer_range=0.2)).save_pretrained(tmp_path / "base")
    model = ours(tmp_path, "AutoModelForCausalLM")
    add_lora(model, LoraConfig(r=4, target_modules=["query", "value"]))
    shake(model)
    model.save_pretrained(tmp_path / "adapter")
    assert json.loads((tmp_path / "adapter/adapter_config.json").read_text())["target_modules"] == [
        "transformer.h.0.attn.c_attn", "transformer.h.1.attn.c_attn",
    ]  # fmt: skip
    right = peft.PeftModel.from_pretrained(theirs(tmp_path, "AutoModelForCausalLM"), tmp_path / "adapter")
    assert torch.allclose(scores(model), scores(right), atol=1e-5)
    again = glassformer.AutoModelForCausalLM.from_pretrained(tmp_path / "adapter")
    assert torch.allclose(scores(again), scores(model), atol=1e-6)


def fused_bert(**row) -> glassformer.BertModel:
    """A BERT whose files keep queries, keys and values in one tensor."""
    torch.manual_seed(0)
    model = glassformer.BertModel(bert()).eval()
    parts = tuple(f"encoder.layer.{{i}}.attention.self.{name}.*" for name in ("query", "key", "value"))
    model.keymap = KeyMap("bert.", BertModel.keymap.body, (Row("encoder.layer.{i}.attention.qkv.*", parts, **row),))
    return model


@pytest.mark.parametrize(
    "row", [{}, {"interleaved": True, "heads": "num_attention_heads"}], ids=["one after the other", "interleaved"]
)
@pytest.mark.parametrize("key_size", [16, 8], ids=["equal parts", "unequal parts"])
def test_an_adapter_of_a_fused_tensor_changes_what_a_merge_changes(tmp_path, row, key_size):
    models = [fused_bert(**row) for _ in range(2)]
    for model in models:
        for layer in model.encoder.layer:
            layer.attention.self.key = type(layer.attention.self.key)(16, key_size)
    model, again = models
    again.load_state_dict(model.state_dict())
    before = model.keymap.to_file(model.state_dict(), prefixed=False, config=model.config)
    add_lora(model, LoraConfig(r=4, lora_alpha=4, target_modules=["query", "value"]))
    shake(model)
    model.save_pretrained(tmp_path)
    load_lora(again, tmp_path)
    loaded = dict(lora_layers(again))
    for name, layer in lora_layers(model):
        assert torch.equal(loaded[name].lora_A, layer.lora_A) and torch.equal(loaded[name].lora_B, layer.lora_B)
    stored = adapter_tensors(model)
    merged = merge_lora(model).keymap.to_file(model.state_dict(), prefixed=False, config=model.config)
    name = "encoder.layer.1.attention.qkv"
    a, b = (stored[f"base_model.model.{name}.lora_{side}.weight"] for side in "AB")
    assert torch.allclose(merged[f"{name}.weight"], before[f"{name}.weight"] + b @ a, atol=1e-6)
    assert not torch.allclose(merged[f"{name}.weight"], before[f"{name}.weight"], atol=1e-2)


def test_a_layer_whose_tensor_has_no_place_for_an_adapter_is_refused():
    with pytest.raises(InputError, match=r"query cannot be adapted: the files keep .*attention\.qkv"):
        add_lora(fused_bert(dim=1), LoraConfig(target_modules=["query"]))


def test_a_model_with_an_adapter_generates(tmp_path):
    """Reading word by word goes past modules, and must not go past adapters."""
    torch.manual_seed(0)
    model = glassformer.GPT2LMHeadModel(gpt2(initializer_range=0.2)).eval()
    add_lora(model, LoraConfig(r=4, target_modules="all-linear"))
    shake(model)
    written = model.generate(IDS, max_new_tokens=8, do_sample=False, eos_token_id=None)
    assert torch.equal(written, merge_lora(model).generate(IDS, max_new_tokens=8, do_sample=False, eos_token_id=None))


def test_wrong_settings_are_reported(tmp_path, caplog):
    model = glassformer.BertForSequenceClassification(bert())
    with pytest.raises(InputError, match="no linear layer is named 'c_attn'; the names of linear layers end in"):
        add_lora(model, LoraConfig(target_modules=["c_attn"]))
    with pytest.raises(InputError, match="'query' is a pattern that matches no layer's full name; in a list it"):
        add_lora(model, LoraConfig(target_modules="query"))
    with pytest.raises(InputError, match="has no part 'clasifier', did you mean 'classifier'"):
        add_lora(model, LoraConfig(modules_to_save=["clasifier"]))
    assert not list(lora_layers(model)) and model.num_parameters(only_trainable=True) == model.num_parameters()
    with pytest.raises(InputError, match="has no adapter"):
        merge_lora(model)
    add_lora(glassformer.BertForSequenceClassification(bert()), LoraConfig(target_modules=["query", "vlaue"]))
    assert "no linear layer is named 'vlaue', did you mean 'value'?" in caplog.text
    add_lora(model)
    with pytest.raises(InputError, match="has an adapter already"):
        add_lora(model)
    with pytest.raises(InputError, match="merge_lora"):
        model.prune_heads({0: [1]})
    with pytest.raises(InputError, match="merge_lora"):
        glassformer.quantize(model)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    for change, told in (
        ({"use_dora": True}, "use_dora True is not supported"),
        ({"bias": "all"}, "bias 'all' is not supported"),
        ({"rank_pattern": {"query": 2}}, "rank_pattern .* is not supported"),
        ({"init_lora_weights": "olora"}, "init_lora_weights 'olora' changed the model's own weights, not supported"),
        ({"peft_type": "IA3"}, "peft_type must be 'LORA', got 'IA3'"),
    ):
        (tmp_path / "adapter_config.json").write_text(json.dumps({**config, **change}))
        with pytest.raises(ConfigError, match=told):
            load_lora(glassformer.BertForSequenceClassification(bert()), tmp_path)
    (tmp_path / "adapter_config.json").write_text(json.dumps({**config, "r": 3}))
    with pytest.raises(WeightsError, match=r"8 weights of the adapter .*\n.*lora_A.weight: \[8, 16\] in the file"):
        load_lora(glassformer.BertForSequenceClassification(bert()), tmp_path)


@pytest.mark.parametrize("value", [{"r": 0}, {"lora_dropout": 1.5}, {"lora_alpha": 0}, {"modules_to_save": "head"}])
def test_settings_are_checked(value):
    with pytest.raises(InputError, match=next(iter(value))):
        LoraConfig(**value)


def test_the_adapter_is_small_and_complete(tmp_path):
    model = glassformer.BertForSequenceClassification(bert())
    add_lora(model, LoraConfig(r=2, modules_to_save=["classifier"]))
    names = adapter_tensors(model)
    assert len(names) == 2 * 2 * 2 + 2 and "base_model.model.classifier.weight" in names
    model.save_pretrained(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "adapter_config.json", "adapter_model.safetensors", "config.json",
    ]  # fmt: skip


def trained_adapter(folder: Path, seed: int = 0) -> glassformer.BertForSequenceClassification:
    torch.manual_seed(seed)
    glassformer.BertForSequenceClassification(bert()).save_pretrained(folder / f"base{seed}")
    model = glassformer.BertForSequenceClassification.from_pretrained(folder / f"base{seed}")
    add_lora(model, LoraConfig(r=2, modules_to_save=["classifier"]))
    shake(model)
    return model


def grow(model) -> None:
    model.resize_token_embeddings(model.config.vocab_size + 3)


def change_a_row(model) -> None:
    model.bert.embeddings.word_embeddings.weight.data[5] += 1


def change_a_norm(model) -> None:
    model.bert.encoder.layer[1].output.LayerNorm.bias.data += 1e-6


@pytest.mark.parametrize("change", [grow, change_a_row, change_a_norm])
@pytest.mark.parametrize("when", ["before", "after", "between saves"])
def test_what_an_adapter_does_not_hold_is_not_lost_silently(tmp_path, change, when):
    torch.manual_seed(0)
    glassformer.BertForSequenceClassification(bert()).save_pretrained(tmp_path / "base")
    model = glassformer.BertForSequenceClassification.from_pretrained(tmp_path / "base")
    if when == "before":
        change(model)
    add_lora(model, LoraConfig(r=2, modules_to_save=["classifier"]))
    if when == "between saves":
        model.save_pretrained(tmp_path / "adapter")
    if when != "before":
        change(model)
    with pytest.raises(WeightsError, match=r"an adapter does not hold .*merge_lora"):
        model.save_pretrained(tmp_path / "adapter")
    expected = scores(merge_lora(model))
    model.save_pretrained(tmp_path / "merged")  # the way out that the error names
    again = glassformer.BertForSequenceClassification.from_pretrained(tmp_path / "merged")
    assert torch.equal(scores(again), expected)


def test_a_changed_body_that_is_saved_first_is_a_base(tmp_path):
    model = glassformer.BertForSequenceClassification(bert())
    grow(model)
    model.save_pretrained(tmp_path / "grown")
    add_lora(model, LoraConfig(r=2, modules_to_save=["classifier"]))
    shake(model)
    model.save_pretrained(tmp_path / "adapter")
    again = glassformer.BertForSequenceClassification.from_pretrained(tmp_path / "grown")
    load_lora(again, tmp_path / "adapter")
    assert torch.equal(scores(again), scores(model))


def test_an_adapter_remembers_its_base(tmp_path, caplog):
    trained_adapter(tmp_path).save_pretrained(tmp_path / "adapter")
    trained_adapter(tmp_path, seed=1)
    other = glassformer.BertForSequenceClassification.from_pretrained(tmp_path / "base1")
    with pytest.raises(WeightsError, match=r"was trained on another model than .*base1: the shapes are the same"):
        load_lora(other, tmp_path / "adapter")
    other = glassformer.BertForSequenceClassification.from_pretrained(tmp_path / "base1")
    load_lora(other, tmp_path / "adapter", check_base=False)
    for kind in ({}, {"dtype": torch.bfloat16}):
        same = glassformer.BertForSequenceClassification.from_pretrained(tmp_path / "base0", **kind)
        load_lora(same, tmp_path / "adapter")
        load_lora(same, tmp_path / "adapter")  # and once more, where it is in use
    tokens = glassformer.BertForTokenClassification.from_pretrained(tmp_path / "base0", ignore_mismatched_sizes=True)
    load_lora(tokens, tmp_path / "adapter")  # under another head it is the same body
    assert peft.PeftModel.from_pretrained(
        transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "base0"), tmp_path / "adapter"
    )


def test_an_adapter_and_a_model_do_not_share_a_folder(tmp_path, caplog):
    model = trained_adapter(tmp_path)
    with pytest.raises(CheckpointError, match=r"holds a model, model\.safetensors, and an adapter beside it"):
        model.save_pretrained(tmp_path / "base0")
    model.save_pretrained(tmp_path / "adapter")
    merge_lora(model).save_pretrained(tmp_path / "adapter", safe_serialization=False)
    again = glassformer.AutoModelForSequenceClassification.from_pretrained(tmp_path / "adapter")
    assert again.adapter is None and torch.equal(scores(again), scores(model))


def test_an_adapter_of_a_model_that_is_in_no_file_says_so(tmp_path, caplog):
    model = glassformer.BertForSequenceClassification(bert())
    add_lora(model, LoraConfig(r=2))
    model.save_pretrained(tmp_path)
    assert "was neither loaded nor saved" in caplog.text
