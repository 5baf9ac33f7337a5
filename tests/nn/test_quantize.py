"""8 bits: close to float, row by row, on every kernel; saved, copied and refused as a whole."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

import glassformer
from glassformer.errors import ConfigError, InputError
from glassformer.nn import quantize as module
from glassformer.nn.calibration import Calibration
from glassformer.nn.int4 import Int4Linear
from glassformer.nn.prepared import prepared
from glassformer.nn.quantize import Int8Linear, quantize

from ..train import small


@pytest.fixture
def linear():
    torch.manual_seed(0)
    return nn.Linear(256, 128).requires_grad_(False)


def away(layer, linear, x):
    exact = linear(x)
    return float((layer(x) - exact).norm() / exact.norm())


def by_hand(linear, x):
    """The same with whole numbers in float64, value by value."""
    scale = linear.weight.abs().amax(1, keepdim=True) / 127
    low, high = x.amin(1, keepdim=True), x.amax(1, keepdim=True)
    step = (high - low) / 255
    rows = ((x - low) / step).round() * step + low
    return rows.double() @ ((linear.weight / scale).round() * scale).double().t() + linear.bias


@pytest.mark.parametrize("rows", [1, 2, 9, 40])
def test_the_product_is_that_of_the_rounded_numbers(linear, rows):
    x = torch.randn(rows, 256)
    layer = Int8Linear.of(linear)
    torch.testing.assert_close(layer(x).double(), by_hand(linear, x), rtol=0, atol=2e-3)
    assert 0 < away(layer, linear, x) < 0.012
    torch.testing.assert_close(layer(x), torch.cat([layer(row[None]) for row in x]), rtol=0, atol=1e-5)
    assert layer(x.bfloat16()[None]).dtype == torch.bfloat16 and layer(x[None]).shape == (1, rows, 128)


def test_other_processors_lose_little_more_or_less(linear, monkeypatch):
    x = torch.randn(9, 256)
    usual = away(Int8Linear.of(linear), linear, x)
    with monkeypatch.context() as patch:
        patch.setattr(module, "has_vnni", lambda: False)
        assert usual < away(Int8Linear.of(linear), linear, x) < 0.02
    monkeypatch.setattr(module, "has_int8_kernel", lambda: False)
    layer = Int8Linear.of(linear)
    assert layer.packed is None and 0 < away(layer, linear, x) < usual


def test_rows_that_are_not_finite_are_not_hidden(linear):
    x = torch.randn(4, 256)
    x[1], x[2, 5] = torch.nan, torch.inf
    assert Int8Linear.of(linear)(x).isfinite().all(1).tolist() == [True, False, False, True]


def test_copies_are_complete(linear):
    layer, x = Int8Linear.of(linear), torch.randn(3, 256)
    loaded = Int8Linear(256, 128)
    loaded.load_state_dict(layer.state_dict())
    for each in (copy.deepcopy(layer), copy.copy(layer), pickle.loads(pickle.dumps(layer)), loaded, layer.half()):
        assert torch.equal(each(x), layer(x))


def test_layers_with_few_outputs_stay_in_float():
    shared = nn.Linear(32, 32)
    model = quantize(nn.Sequential(shared, nn.ReLU(), shared, nn.Linear(32, 2)))
    assert isinstance(model[0], Int8Linear) and model[0] is model[2] and type(model[3]) is nn.Linear
    with pytest.raises(InputError, match=r"int8. or .int4"):
        quantize(model, "int2")


def test_outliers_are_smoothed_and_sensitive_layers_left_in_float():
    torch.manual_seed(0)
    first, second = nn.Linear(64, 64), nn.Linear(64, 32)
    with torch.no_grad():
        second.weight[:, 0] *= 1e-4  # the outlier below carries nothing
    model = nn.Sequential(first, nn.Tanh(), second).requires_grad_(False)
    outliers = torch.ones(64)
    outliers[7] = 300
    batches = [torch.randn(40, 64) * outliers for _ in range(3)]
    found = Calibration.of(model, batches)
    assert first in found.input_scales and second not in found.input_scales and not found.sensitive
    plain, smoothed = quantize(copy.deepcopy(model)), quantize(copy.deepcopy(model), calibrate=batches)
    x = torch.randn(40, 64) * outliers
    assert away(smoothed[0], first, x) < 0.5 * away(plain[0], first, x)
    hard = nn.Sequential(nn.Linear(64, 32)).requires_grad_(False)
    hard[0].weight[:, :2] = torch.tensor([1.0, -1.0])  # two large channels that cancel
    cancelling = torch.randn(40, 64)
    cancelling[:, :2] = 1e5
    assert type(quantize(hard, calibrate=[cancelling])[0]) is nn.Linear
    with pytest.raises(InputError, match="at least one batch"):
        quantize(model, calibrate=[])


def test_a_calibrated_model_is_saved_with_its_choices(tmp_path):
    task = small.classifier(tmp_path / "vocabulary")
    model = task.model
    dense = model.base_model.encoder.layer[0].attention.output.dense
    ids = torch.randint(5, 20, (4, 6))
    quantize(model, calibrate=[{"input_ids": ids}], without=[dense])
    for layer in (model.base_model.encoder.layer[0].attention.self, model.base_model.encoder.layer[1].intermediate):
        for each in layer.children():
            if isinstance(each, Int8Linear):
                each.input_scale = torch.linspace(0.5, 2, each.in_features)
    model.save_pretrained(tmp_path / "small")
    again = type(model).from_pretrained(tmp_path / "small")
    assert type(again.base_model.encoder.layer[0].attention.output.dense) is type(dense)
    with torch.no_grad():
        assert torch.equal(again(ids).logits, model(ids).logits)
        assert prepared(again).base_model.encoder.layer[0].attention.self.fused is not None
        torch.testing.assert_close(prepared(again)(ids).logits, model(ids).logits, rtol=0, atol=1e-5)
    assert again.num_parameters() == model.num_parameters()


def test_a_float_folder_is_loaded_in_eight_bits(tmp_path):
    task = small.classifier(tmp_path / "vocabulary")
    task.model.save_pretrained(tmp_path / "model")
    kind = type(task.model)
    model = kind.from_pretrained(tmp_path / "model", dtype="int8")
    assert any(isinstance(each, Int8Linear) for each in model.modules()) and model.dtype == torch.float32
    assert quantize(copy.deepcopy(task.model)).untrained == task.model.untrained == ["bert", "classifier"]
    text = (tmp_path / "model" / "config.json").read_text().replace("{", '{"quantization_config": {"bits": 4},', 1)
    (tmp_path / "model" / "config.json").write_text(text)
    with pytest.raises(ConfigError, match=r"quantization_config = .* changes the computation"):
        kind.from_pretrained(tmp_path / "model")


def test_a_quantized_model_is_not_changed(tmp_path):
    task = small.classifier(tmp_path / "vocabulary")
    model = quantize(task.model)
    settings = glassformer.TrainSettings(output_dir=str(tmp_path / "run"))
    refused = "quantized to int8 and cannot be {}: do that with the model before quantize"
    for use, change in (
        ("given an adapter", lambda: glassformer.add_lora(model)),
        ("pruned", lambda: model.prune_heads({0: [1]})),
        ("resized", lambda: model.resize_token_embeddings(50)),
        ("trained", lambda: glassformer.Trainer(task, small.ROWS, None, settings)),
    ):
        with pytest.raises(InputError, match=refused.format(use)):
            change()
    assert [path.name for path in tmp_path.iterdir()] == ["vocabulary"] and not model.config.pruned_heads


def test_four_bits_are_near_and_copied(linear):
    x = torch.randn(3, 256)
    layer = Int4Linear.of(linear)
    assert 0.01 < away(layer, linear, x) < 0.08
    numbers = torch.stack((layer.dense() & 15, layer.dense() >> 4), -1).flatten(1).float()
    step, middle = (each.float().repeat_interleave(32, 1) for each in layer.weight_scale.unbind(-1))
    by_numbers = nn.functional.linear(x, (numbers - 8) * step + middle, linear.bias)
    torch.testing.assert_close(layer(x), by_numbers, rtol=0, atol=0.03)
    for each in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(each(x), layer(x))


@torch.no_grad()
def test_a_language_model_in_four_bits(tmp_path):
    torch.manual_seed(0)
    config = small.gpt2(n_embd=64, n_head=2, vocab_size=96)
    model = glassformer.GPT2LMHeadModel(config).eval()
    model.save_pretrained(tmp_path / "model")
    rounded = glassformer.GPT2LMHeadModel.from_pretrained(tmp_path / "model", dtype="int4")
    assert sum(type(each) is Int4Linear for each in rounded.modules()) == 12
    assert type(rounded.lm_head) is Int8Linear  # it is the embedding's too
    ids = torch.randint(5, 90, (2, 7))
    near = (rounded(ids).logits - model(ids).logits).norm() / model(ids).logits.norm()
    assert 0 < near < 0.2
    rounded.save_pretrained(tmp_path / "small")
    again = glassformer.GPT2LMHeadModel.from_pretrained(tmp_path / "small")
    torch.testing.assert_close(again(ids).logits, rounded(ids).logits, rtol=0, atol=1e-5)
    torch.testing.assert_close(prepared(again)(ids).logits, rounded(ids).logits, rtol=0, atol=1e-2)
    with pytest.raises(InputError, match="quantized to int4 and cannot be pruned"):
        again.prune_heads({0: [1]})
    with pytest.raises(InputError, match="calibrate is for int8"):
        quantize(model, "int4", calibrate=[ids])
