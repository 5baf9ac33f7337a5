"""What is ViT's own: pixels in place of ids, positions of other sizes, masked patches; and all of it beside
transformers 4.30.2 and 5.22.2."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import glassformer
from glassformer import ArgumentError, ConfigError, InputError, ViTForImageClassification, ViTModel

from ..conftest import ROOT
from ..parity.test_transformers4 import PEER
from .architectures import VIT, tiny_vit

SEEN = {"output_hidden_states": True, "output_attentions": True}


def pictures(*shape: int) -> torch.Tensor:
    return torch.randn(*(shape or (3, 3, 16, 16)), generator=torch.Generator().manual_seed(1))


def patches_masked() -> torch.Tensor:
    return torch.rand(3, 16, generator=torch.Generator().manual_seed(2)) > 0.5


CASES = {  # name -> class, fields, inputs
    "body": ("ViTModel", {}, {}),
    "head-mask": ("ViTModel", {}, {"head_mask": torch.tensor([[1.0, 0, 1, 0.5]] * 3)}),
    "no-bias": ("ViTModel", {"qkv_bias": False, "hidden_act": "relu"}, {}),
    "grey": ("ViTModel", {"num_channels": 1}, {"pixel_values": pictures(2, 1, 16, 16)}),
    "chunks": ("ViTModel", {"chunk_size_feed_forward": 3}, {}),
    "classifier": ("ViTForImageClassification", {"num_labels": 5}, {"labels": torch.tensor([4, 0, 2])}),
    "regression": ("ViTForImageClassification", {"num_labels": 1}, {"labels": torch.tensor([0.5, -1, 2])}),
    "masked-image": ("ViTForMaskedImageModeling", {}, {"bool_masked_pos": patches_masked()}),
    "reconstructed": ("ViTForMaskedImageModeling", {}, {}),
}


@pytest.fixture(scope="module")
def old_results(tmp_path_factory) -> Path:
    """What transformers 4.30.2 makes of all cases, in one process."""
    if not (PEER / "transformers").is_dir():
        pytest.skip("transformers 4.30.2 is not in .peers/transformers4 (./test.sh puts it there)")
    root = tmp_path_factory.mktemp("vit")
    for name, (kind, fields, inputs) in CASES.items():
        torch.manual_seed(0)
        getattr(glassformer, kind)(tiny_vit(**fields)).save_pretrained(root / name / "model")
        save_file({"pixel_values": pictures(), **inputs}, root / name / "batch.safetensors")
    cases = [{"name": name, "kind": kind, "split": 0, "flags": SEEN} for name, (kind, _, _) in CASES.items()]
    (root / "cases.json").write_text(json.dumps(cases))
    run = subprocess.run(
        [sys.executable, str(ROOT / "tests/parity/old_library_cases.py"), str(root)],
        env={**os.environ, "PYTHONPATH": str(PEER)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return root


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)], ids=str)
def test_values_are_those_of_transformers_4(name, dtype, tolerance, old_results):
    kind, _, inputs = CASES[name]
    theirs = load_file(old_results / name / "out.safetensors")
    model = getattr(glassformer, kind).from_pretrained(old_results / name / "saved", dtype=dtype)
    assert not model.load_report.initialised and not model.load_report.unused
    ours = model(**{"pixel_values": pictures(), **inputs}, **SEEN)
    for key, value in ours.items():
        for place, each in enumerate(value) if isinstance(value, tuple) else [(None, value)]:
            want = theirs[key if place is None else f"{key}.{place}"]
            assert each.dtype == dtype
            torch.testing.assert_close(each, want.to(dtype), rtol=tolerance, atol=tolerance)


@torch.no_grad()
@pytest.mark.parametrize("size", [(24, 20), (8, 16), (16, 17), (40, 40)], ids=str)
def test_positions_are_stretched_as_in_transformers(size, tmp_path):
    model = ViTForImageClassification(tiny_vit()).double().eval()
    model.save_pretrained(tmp_path)
    reference = VIT.reference.load("ViTForImageClassification", tmp_path)
    given = {"pixel_values": pictures(2, 3, *size), "interpolate_pos_encoding": True}
    torch.testing.assert_close(model(**given).logits, reference(**given).logits, rtol=1e-10, atol=1e-10)
    with pytest.raises(InputError, match=f"pictures of {size[0]} x {size[1]} pixels, and the model reads 16 x 16"):
        model(given["pixel_values"])


@torch.no_grad()
def test_pictures_that_are_not_square():
    model = ViTModel(tiny_vit(image_size=[8, 24], patch_size=(4, 8))).eval()
    assert model.config.grid == (2, 3) and model.embeddings.position_embeddings.shape == (1, 7, 48)
    assert model(pictures(2, 3, 8, 24)).last_hidden_state.shape == (2, 7, 48)
    assert model(pictures(1, 3, 12, 24), interpolate_pos_encoding=True).last_hidden_state.shape == (1, 10, 48)


@torch.no_grad()
def test_a_batch_equals_its_pictures_alone_and_hidden_patches_change_nothing():
    model = ViTModel(tiny_vit()).double().eval()
    given = pictures(4, 3, 16, 16)
    out = model(given, **SEEN)
    for row in range(4):
        alone = model(given[row : row + 1], **SEEN)
        torch.testing.assert_close(out.pooler_output[row], alone.pooler_output[0], rtol=1e-10, atol=1e-10)
    assert not torch.equal(out.hidden_states[-1], out.last_hidden_state)  # the last normalisation follows
    mask = torch.ones(4, 17).long()
    mask[1, 5:9] = 0
    hidden = model(given, attention_mask=mask).last_hidden_state
    other = given.clone()
    other[1, :, 4:8] = 0.5  # the second row of patches: 5 to 8
    changed = model(other, attention_mask=mask).last_hidden_state
    torch.testing.assert_close(hidden[mask.bool()], changed[mask.bool()], rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_inner_values_can_be_captured_and_changed():
    model = ViTForImageClassification(tiny_vit()).double().eval()
    expected = model(pictures(), **SEEN)
    with model.capture(True, queries=True, hidden=True, modules=["embeddings"]) as captured:
        observed = model(pictures()).logits
    assert torch.equal(observed, model(pictures()).logits)
    assert captured["embeddings"].shape == (3, 17, 48)
    for layer in range(3):
        torch.testing.assert_close(captured.attention[layer], expected.attentions[layer])
    for place in range(4):
        torch.testing.assert_close(captured.hidden[place], expected.hidden_states[place])
    mask = torch.ones(3, 4)
    mask[1, 2] = 0
    with model.patched(heads={1: [2]}):
        torch.testing.assert_close(model(pictures()).logits, model(pictures(), head_mask=mask).logits)


def test_adapters_quantized_weights_and_half_precision():
    model = ViTForImageClassification(tiny_vit()).eval()
    glassformer.add_lora(model, glassformer.LoraConfig(target_modules=["query", "value"]))
    assert sum(parameter.requires_grad for parameter in model.vit.parameters()) == 3 * 2 * 2
    plain = ViTForImageClassification(tiny_vit()).eval()
    with torch.no_grad():
        rounded = copy.deepcopy(plain).bfloat16()  # pixels are rounded too, as in transformers
        assert rounded(pictures()).logits.dtype == torch.bfloat16
        exact = plain(pictures()).logits
        assert 0 < (glassformer.quantize(plain)(pictures()).logits - exact).abs().max() < 0.2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give pixel_values, which ViTModel reads"),
        ({"pixel_values": torch.zeros(2, 16, 16, 3)}, r"must have 3 channels in dimension 1, got \[2, 16, 16, 3\]"),
        ({"pixel_values": torch.zeros(3, 16, 16)}, r"must have the shape B channels height width, got \[3, 16, 16\]"),
        ({"pixel_values": torch.zeros(1, 3, 16, 16).byte()}, "must be floating-point numbers, got torch.uint8"),
        ({"pixel_values": torch.zeros(0, 3, 16, 16)}, "hold no patch"),
        ({"pixel_values": torch.zeros(1, 3, 2, 16), "interpolate_pos_encoding": True}, "hold no patch"),
        ({"pixel_values": {"pixel_values": pictures()}}, "passed with two stars"),
        ({"pixel_values": pictures(), "bool_masked_pos": patches_masked()}, "use_mask_token=True"),
        ({"pixel_values": pictures(), "interpolate_pos_encoding": "yes"}, "must be True, False or None"),
        ({"pixel_values": pictures(), "head_mask": torch.ones(3)}, "head_mask must have the shape"),
    ],
)
def test_what_is_no_picture_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        ViTModel(tiny_vit())(**given)


def test_masks_and_arguments_that_do_not_fit_are_refused():
    model = ViTModel(tiny_vit(), use_mask_token=True)
    with pytest.raises(InputError, match=r"bool_masked_pos must have the shape \[3, 16\], got \[3, 15\]"):
        model(pictures(), bool_masked_pos=patches_masked()[:, 1:])
    grid = patches_masked().view(3, 4, 4)
    assert torch.equal(
        model(pictures(), bool_masked_pos=grid)[0], model(pictures(), bool_masked_pos=grid.flatten(1))[0]
    )
    with pytest.raises(ArgumentError, match="input_ids"):
        model(input_ids=torch.ones(1, 3).long())
    with pytest.raises(InputError, match="leave input_ids out"):
        model.encode(torch.ones(1, 3).long())
    with pytest.raises(InputError, match="a ViT has no vocabulary"):
        model.resize_token_embeddings(7)
    with pytest.raises(ConfigError, match="encoder_stride is 16"):
        glassformer.ViTForMaskedImageModeling(tiny_vit(encoder_stride=16))(pictures(), patches_masked())


@pytest.mark.parametrize("size", [0, -4, 1.5, True, "16", [16], [16, 16, 3], [8, 0]], ids=str)
def test_sizes_that_are_none_are_refused(size):
    with pytest.raises(ConfigError, match="image_size must be a number of pixels or a pair"):
        tiny_vit(image_size=size)
    with pytest.raises(ConfigError, match="holds no patch"):
        tiny_vit(image_size=3)


def test_what_a_checkpoint_lacks_is_initialised(tmp_path):
    model = ViTModel(tiny_vit(), add_pooling_layer=False)
    model.save_pretrained(tmp_path)
    assert ViTForImageClassification.from_pretrained(tmp_path).untrained == ["classifier"]
    masked = glassformer.AutoModelForMaskedImageModeling.from_pretrained(tmp_path)
    assert set(masked.untrained) == {"decoder", "vit.embeddings.mask_token"}
    assert glassformer.AutoModel.from_pretrained(tmp_path).untrained == ["pooler"]
    with pytest.raises(glassformer.WeightsError, match=r"embeddings\.cls_token"):
        weights = load_file(tmp_path / "model.safetensors")
        save_file({k: v for k, v in weights.items() if "cls" not in k}, tmp_path / "model.safetensors")
        ViTModel.from_pretrained(tmp_path)


def test_initial_weights_have_the_width_of_the_config():
    torch.manual_seed(0)
    model = ViTModel(glassformer.ViTConfig(hidden_size=96, num_hidden_layers=1, num_attention_heads=2, image_size=64))
    for weight in (model.embeddings.position_embeddings, model.embeddings.patch_embeddings.projection.weight):
        assert float(weight.detach().std()) == pytest.approx(0.02, rel=0.1)
    assert isinstance(model.get_input_embeddings().projection, nn.Conv2d) and model.layernorm is model.encoder.layernorm
