"""AdamW and its groups: the tutorials' own rule and loops, and the decay by layers."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

import glassformer
from glassformer import AdamW, get_linear_schedule_with_warmup
from glassformer.errors import ArgumentError, ConfigError, InputError
from glassformer.train.optimizer import make_optimizer, parameter_groups

from ..models.architectures import tiny_bert
from .small import ROWS, classifier


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return glassformer.BertForSequenceClassification(tiny_bert(hidden_dropout_prob=0.0))


def batch(size: int = 4) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 50, (size, 9), generator=generator)
    return {"input_ids": ids, "labels": torch.arange(size) % 2}


def test_groups_follow_the_tutorials_rule(model):
    no_decay = ["bias", "LayerNorm.bias", "LayerNorm.weight"]
    decaying, others = parameter_groups(model, 1e-3, 0.01)
    assert decaying["weight_decay"] == 0.01 and others["weight_decay"] == 0.0
    by_rule = [name for name, _ in model.named_parameters() if not any(part in name for part in no_decay)]
    assert decaying["names"] == by_rule
    assert len(decaying["params"]) + len(others["params"]) == len(list(model.parameters()))


def test_the_tutorials_own_norm_does_not_decay():
    decaying, others = parameter_groups(nn.Sequential(nn.Linear(3, 2), glassformer.LayerNorm(2)), 1e-3, 0.01)
    assert (decaying["names"], others["names"]) == (["0.weight"], ["0.bias", "1.gamma", "1.beta"])


@pytest.mark.parametrize("fused", [None, False])
def test_updates_are_those_of_torch(model, fused):
    model = model.double().eval()
    other = copy.deepcopy(model)
    ours = AdamW(parameter_groups(model, 0.01, 0.1), lr=0.01, fused=fused)
    plain = [p for n, p in other.named_parameters() if "bias" in n or "LayerNorm" in n]
    rest = [p for n, p in other.named_parameters() if "bias" not in n and "LayerNorm" not in n]
    groups = [{"params": rest, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    theirs = torch.optim.AdamW(groups, lr=0.01, eps=1e-6, foreach=False)
    for _ in range(3):
        for each, optimizer in ((model, ours), (other, theirs)):
            each(**batch()).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    for mine, right in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.allclose(mine, right, rtol=0, atol=1e-9)  # keys have biases without gradient: noise


def test_the_fused_kernel_is_taken_where_it_can_be(model):
    assert AdamW(model.parameters()).defaults["fused"] is True
    assert AdamW([{"params": model.parameters()}]).defaults["fused"] is True
    assert AdamW(model.parameters(), fused=False).defaults["fused"] is False


def test_layers_near_the_input_have_lower_rates(model):
    groups = parameter_groups(model, 1.0, 0.01, layer_decay=0.5)
    rates = {name: group["lr"] for group in groups for name in group["names"]}
    assert rates["classifier.weight"] == rates["bert.pooler.dense.bias"] == 1.0
    assert [rates[f"bert.encoder.layer.{i}.output.dense.weight"] for i in (2, 1, 0)] == [0.5, 0.25, 0.125]
    assert rates["bert.embeddings.LayerNorm.weight"] == 0.0625


def test_a_decoder_stands_above_its_encoder():
    shape = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "num_hidden_layers": 2}
    config = glassformer.AutoConfig.for_model("transformer", vocab_size=9, tie_word_embeddings=False, **shape)
    model = glassformer.AutoModelForSeq2SeqLM.from_config(config)
    rates = {name: group["lr"] for group in parameter_groups(model, 1.0, 0.0, 0.5) for name in group["names"]}
    layers = [f"{side}.layer.{i}.output.dense.weight" for side in ("decoder", "encoder") for i in (1, 0)]
    assert [rates[name] for name in layers] == [0.5, 0.25, 0.125, 0.0625]
    assert {rates[name] for name in rates if "embeddings" in name} == {0.03125}


def test_biases_of_recurrent_layers_are_biases():
    model = glassformer.AutoModelForSeq2SeqLM.from_config(
        glassformer.AutoConfig.for_model("rnn", vocab_size=9, hidden_size=8)
    )
    decaying, others = parameter_groups(model, 1.0, 0.01)
    assert "encoder.rnn.bias_ih_l0" in others["names"] and not any("bias" in name for name in decaying["names"])


def test_frozen_parameters_are_left_out(model):
    glassformer.freeze(model, "bert")
    names = [name for group in parameter_groups(model, 1.0) for name in group["names"]]
    assert names == ["classifier.weight", "classifier.bias"]
    glassformer.freeze(model)
    with pytest.raises(InputError, match="every parameter of the model is frozen"):
        parameter_groups(model, 1.0)


def test_wrong_arguments_are_reported(model):
    with pytest.raises(ArgumentError, match="did you mean 'weight_decay'"):
        AdamW(model.parameters(), wieght_decay=0.1)
    with pytest.raises(ConfigError, match="correct_bias must be True"):
        AdamW(model.parameters(), correct_bias=False)
    with pytest.raises(InputError, match="got none"):
        AdamW(iter(()))


def test_the_tutorials_loop_runs_as_printed(model):
    """Decay groups, warm-up, accumulation, autocast with a scaler, clipping."""
    param_optimizer = list(model.named_parameters())
    no_decay = ["bias", "LayerNorm.bias", "LayerNorm.weight"]
    optimizer_grouped_parameters = [
        {"params": [p for n, p in param_optimizer if not any(nd in n for nd in no_decay)], "weight_decay": 0.01},
        {"params": [p for n, p in param_optimizer if any(nd in n for nd in no_decay)], "weight_decay": 0.0},
    ]
    optimizer = AdamW(optimizer_grouped_parameters, lr=2e-3)
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=2, num_training_steps=40)
    scaler = torch.amp.GradScaler("cpu")
    accumulation_steps = 4
    losses = []
    for i in range(80):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(**batch()).loss / accumulation_steps
        scaler.scale(loss).backward()
        if (i + 1) % accumulation_steps == 0:
            scaler.unscale_(optimizer)
            assert all(parameter.grad is not None for parameter in model.parameters())
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            optimizer.zero_grad()
        losses.append(float(loss))
    assert losses[-1] < 0.5 * losses[0]
    assert scheduler.get_last_lr()[0] == pytest.approx(2e-3 * 20 / 38)


def trained(name: str, steps: int = 5) -> list[torch.Tensor]:
    """Two weights, one with gradients a hundred times as large, after some steps with much weight decay."""
    weights = [nn.Parameter(torch.tensor([2.0])), nn.Parameter(torch.tensor([2.0]))]
    optimizer = make_optimizer(name, [{"params": weights, "weight_decay": 0.5}], lr=0.1, betas=(0.0, 0.9), eps=1e-8)
    for _ in range(steps):
        weights[0].grad, weights[1].grad = torch.tensor([1.0]), torch.tensor([100.0])
        optimizer.step()
    return [weight.detach() for weight in weights]


def test_adam_adds_the_decay_to_the_gradient():
    """Adam by hand; the weight with the larger gradients decays less, and with AdamW both decay alike."""
    for name, parts in (("adam", (1.0, 100.0)), ("adamw", (1.0, 100.0))):
        for weight, gradient in zip(trained(name), parts, strict=True):
            value, second = 2.0, 0.0
            for step in range(1, 6):
                slope = gradient + (0.5 * value if name == "adam" else 0.0)
                second = 0.9 * second + 0.1 * slope**2
                value -= 0.1 * 0.5 * value if name == "adamw" else 0.0
                value -= 0.1 * slope / (math.sqrt(second / (1 - 0.9**step)) + 1e-8)
            assert weight.item() == pytest.approx(value, rel=1e-4)
    small, large = trained("adamw")
    assert small.item() == pytest.approx(large.item(), rel=1e-5)
    small, large = trained("adam")
    assert small.item() != pytest.approx(large.item(), rel=1e-3)


def test_the_trainer_uses_the_optimizer_of_its_settings(tmp_path):
    kind = {"adamw": AdamW, "adam": torch.optim.Adam}
    for name, expected in kind.items():
        settings = glassformer.TrainSettings(output_dir=str(tmp_path), optimizer=name, weight_decay=0.3, max_steps=1)
        trainer = glassformer.Trainer(classifier(tmp_path / name), ROWS, None, settings)
        assert type(trainer.optimizer) is expected
        assert {group["weight_decay"] for group in trainer.optimizer.param_groups} == {0.0, 0.3}
    with pytest.raises(InputError, match="optimizer must be one of 'adamw', 'adam', got 'sgd'"):
        glassformer.TrainSettings(output_dir="run", optimizer="sgd")
