"""Options that all configs share: an activation that is a function, gradient checkpointing from the start."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import glassformer
from glassformer import BertConfig, BertForMaskedLM, BertModel, ConfigError
from glassformer.nn.activation import ACTIVATIONS, name_of_function

from .architectures import ARCHITECTURES, tiny_bert

IDS = torch.tensor([[2, 7, 9, 3]])
TAKES_FUNCTIONS = [
    each for each in ARCHITECTURES if each.model_type not in ("openai-gpt", "transformer-lm", "transfo-xl")
]


def half(x: torch.Tensor) -> torch.Tensor:
    return x.relu() / 2


class Sine(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin()


@torch.no_grad()
@pytest.mark.parametrize("architecture", TAKES_FUNCTIONS, ids=lambda each: each.model_type)
def test_an_activation_can_be_a_function(architecture):
    torch.manual_seed(0)
    plain = architecture.body(architecture.tiny(hidden_act="relu")).eval()
    model = architecture.body(architecture.tiny(hidden_act=half)).eval()
    model.load_state_dict(plain.state_dict())
    for layer in plain.distinct_layers:
        layer.output.dense.weight.data /= 2  # half of every activation
    torch.testing.assert_close(model(IDS)[0], plain(IDS)[0], rtol=1e-4, atol=1e-5)
    assert model.config.hidden_act is half and "half" in repr(model.layer(0).intermediate)


@torch.no_grad()
def test_heads_and_transformers_use_the_same_function():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = BertForMaskedLM(tiny_bert(hidden_act=torch.sin)).double().eval()
    theirs = transformers.BertForMaskedLM(transformers.BertConfig(**tiny_bert().to_diff_dict())).double().eval()
    theirs.cls.predictions.transform.transform_act_fn = Sine()  # its version 5 takes names alone
    for layer in theirs.bert.encoder.layer:
        layer.intermediate.intermediate_act_fn = Sine()
    missing, unexpected = theirs.load_state_dict(model.state_dict(), strict=False)
    assert not missing and not unexpected
    torch.testing.assert_close(model(IDS).logits, theirs(IDS).logits, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("function", "name"),
    [(F.gelu, "gelu"), (torch.relu, "relu"), (nn.Tanh(), "tanh"), (nn.GELU(approximate="tanh"), "gelu_new")]
    + [(kind(), name) for name, kind in ACTIVATIONS.items() if name not in ("swish", "gelu_pytorch_tanh")],
    ids=lambda each: each if isinstance(each, str) else getattr(each, "__name__", type(each).__name__),
)
def test_a_function_with_a_name_is_stored_by_it(function, name, tmp_path):
    x = torch.linspace(-3, 3, 7)
    assert name_of_function(function) == name
    torch.testing.assert_close(ACTIVATIONS[name]()(x), function(x))
    config = tiny_bert(hidden_act=function)
    assert config.hidden_act == name
    config.save_pretrained(tmp_path)
    assert BertConfig.from_pretrained(tmp_path).hidden_act == name


def test_a_model_with_a_function_of_ones_own_cannot_be_saved_and_says_so_first(tmp_path):
    model = BertForMaskedLM(tiny_bert(hidden_act=half))
    message = "hidden_act is the function half, which config.json cannot hold"
    for save in (model.save_pretrained, model.config.save_pretrained):
        with pytest.raises(ConfigError, match=message):
            save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    tokenizer = glassformer.train_tokenizer(["a b c"], "wordpiece", vocab_size=20)
    task = glassformer.MaskedLanguageModeling(model, tokenizer)
    with pytest.raises(ConfigError, match=message):  # and not at the first checkpoint
        glassformer.Trainer(task, [{"text": "a b c"}], None, glassformer.TrainSettings(output_dir=str(tmp_path)))
    assert '"hidden_act": "half"' in repr(model.config) and model.config == tiny_bert(hidden_act=half)


def test_what_is_no_activation_is_refused():
    for wrong in ("gleu", 3, nn.ReLU):
        with pytest.raises(ConfigError, match="hidden_act must be a function of a tensor or one of gelu, gelu_new"):
            tiny_bert(hidden_act=wrong)
    with pytest.raises(ConfigError, match="a module with weights of its own"):
        tiny_bert(hidden_act=nn.PReLU())


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda each: each.model_type)
def test_checkpointing_can_be_a_field_of_the_config(architecture, tmp_path):
    torch.manual_seed(0)
    model = architecture.body(architecture.tiny(gradient_checkpointing=True))
    assert model.is_gradient_checkpointing and not architecture.body(architecture.tiny()).is_gradient_checkpointing
    head = next(iter(architecture.heads))(architecture.tiny(gradient_checkpointing=True))
    assert head.is_gradient_checkpointing
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["gradient_checkpointing"] is True
    assert architecture.body.from_pretrained(tmp_path).is_gradient_checkpointing
    assert not architecture.body.from_pretrained(tmp_path, gradient_checkpointing=False).is_gradient_checkpointing


def test_a_key_of_old_files_switches_checkpointing_on():
    assert BertModel(
        BertConfig.from_dict({**tiny_bert().to_dict(), "gradient_checkpointing": True})
    ).is_gradient_checkpointing
    with pytest.raises(ConfigError, match="gradient_checkpointing cannot become True: the model was built with False"):
        BertModel(tiny_bert()).config.gradient_checkpointing = True
