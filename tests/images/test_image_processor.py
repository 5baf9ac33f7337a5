"""The image processors give the numbers of transformers, bit for bit, on real pictures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer
from glassformer import AutoImageProcessor, ConfigError, InputError, ViTImageProcessor, ViTImageProcessorFast
from glassformer.errors import ArgumentError

from ..conftest import SHARED
from ..parity.test_transformers4 import PEER

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

SETTINGS = [
    {},
    {"resample": 3},
    {"resample": 0},
    {"size": {"height": 32, "width": 64}},
    {"do_normalize": False},
    {"do_rescale": False},
    {"do_resize": False},
    {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "rescale_factor": 1 / 127.5},
]


@pytest.fixture(scope="module")
def pictures() -> dict[str, np.ndarray]:
    samples = pytest.importorskip("sklearn.datasets").load_sample_images().images
    return {"temple": samples[0][::2, ::2], "flower": samples[1][3:120, 5:343]}


def forms(picture: np.ndarray):
    """The same picture in all types and orders."""
    first = np.ascontiguousarray(np.moveaxis(picture, -1, 0))
    yield picture
    yield first
    yield Image.fromarray(picture)
    yield torch.tensor(first)
    yield picture.astype(np.float32)
    yield torch.tensor(first).float() / 255


def assert_same(ours, theirs):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("settings", [*SETTINGS, {"resample": 1}, {"size": {"shortest_edge": 50}}], ids=str)
def test_numbers_are_those_of_transformers(settings, pictures):
    reference = pytest.importorskip("transformers.models.vit.image_processing_pil_vit").ViTImageProcessorPil
    for picture in pictures.values():
        for given in forms(picture):
            ours = ViTImageProcessor()(given, **settings)["pixel_values"][0]
            assert_same(ours, reference(**settings)(given)["pixel_values"][0])


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_fast_numbers_are_those_of_transformers_with_torchvision(settings, pictures):
    pytest.importorskip("torchvision", exc_type=ImportError)
    from transformers import ViTImageProcessor as Reference

    for picture in pictures.values():
        for given in forms(picture):
            ours = ViTImageProcessorFast(**settings)(given)["pixel_values"][0]
            assert_same(ours, Reference(**settings)(given)["pixel_values"][0])


def test_fast_numbers_are_those_of_torchs_kernel_and_close_to_pillows(pictures):
    picture = pictures["temple"]
    tensor = torch.tensor(np.moveaxis(picture, -1, 0))
    small = torch.nn.functional.interpolate(tensor[None], size=(224, 224), mode="bilinear", antialias=True)
    fast = ViTImageProcessorFast()(picture, return_tensors="pt")["pixel_values"]
    assert torch.equal(fast, (small.float() - 127.5) / 127.5)
    slow = ViTImageProcessor()(picture, return_tensors="pt")["pixel_values"]
    assert 0 < (fast - slow).abs().max() < 0.01
    with pytest.raises(InputError, match=r"resamples by 0 .*got 1"):
        ViTImageProcessorFast(resample=1)(picture)


def test_numbers_are_those_of_transformers_4(pictures, tmp_path):
    if not (PEER / "transformers").is_dir():
        pytest.skip("transformers 4.30.2 is not in .peers/transformers4 (./test.sh puts it there)")
    floats = {f"{name} as floats": picture.astype(np.float32) / 255 for name, picture in pictures.items()}
    np.savez(tmp_path / "pictures.npz", **pictures, **floats)
    (tmp_path / "cases.json").write_text(json.dumps(SETTINGS))
    run = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("old_image_processor.py")), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(PEER)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    theirs = np.load(tmp_path / "results.npz")
    for number, settings in enumerate(SETTINGS):
        for name, picture in {**pictures, **floats}.items():
            if picture.dtype == np.uint8 and settings == {"do_rescale": False}:
                continue  # that release divides whole numbers by 0.5 rounded to a whole number
            ours = ViTImageProcessor(**settings)(picture)["pixel_values"][0]
            np.testing.assert_allclose(ours, theirs[f"{number}.{name}"], rtol=1e-6, atol=1e-6)


def test_lists_files_and_bytes(pictures, tmp_path):
    processor = ViTImageProcessor(size=16)
    file = tmp_path / "temple.png"
    Image.fromarray(pictures["temple"]).save(file)
    expected = processor(pictures["temple"], return_tensors="pt")["pixel_values"]
    for given in (str(file), file, file.read_bytes(), [file], [[str(file)]], pictures["temple"][None]):
        assert torch.equal(processor(given, return_tensors="pt").pixel_values, expected)
    batch = processor([file, Image.open(file), pictures["flower"]], return_tensors="np")
    assert batch["pixel_values"].shape == (3, 3, 16, 16) and batch["pixel_values"].dtype == np.float32
    last = processor(file, data_format="channels_last")["pixel_values"][0]
    assert np.array_equal(last, np.moveaxis(expected[0].numpy(), 0, -1))
    with pytest.raises(InputError, match="make no tensor: resize them"):
        processor(list(pictures.values()), do_resize=False, return_tensors="pt")


def test_modes_of_pictures(caplog):
    colour = Image.new("RGBA", (5, 6), (255, 0, 0, 0))  # red, and completely transparent
    processor = ViTImageProcessor(size=4, do_convert_rgb=True, do_rescale=False, do_normalize=False)
    reference = pytest.importorskip("transformers.models.vit.image_processing_pil_vit").ViTImageProcessorPil
    grey = Image.new("L", (5, 6), 9)
    for given in (
        colour,
        grey,
        colour.convert("P"),
        np.array(colour),
        np.array(grey)[..., None],
        np.array(colour) / 255,
    ):
        ours = processor(given)["pixel_values"][0]
        theirs = reference(size={"height": 4, "width": 4}, do_convert_rgb=True, do_rescale=False, do_normalize=False)
        assert_same(ours, theirs(given)["pixel_values"][0])
    assert processor(colour)["pixel_values"][0].min() == 255
    for given, channels in ((colour, 4), (grey, 1), (np.zeros((5, 6)), 1)):
        with pytest.raises(InputError, match=f"a picture has {channels} channels, .*do_convert_rgb=True"):
            ViTImageProcessor()(given)
    one = ViTImageProcessor(size=4, image_mean=0.5, image_std=0.25)  # for any number of channels
    assert one(grey)["pixel_values"][0].shape == (1, 4, 4) and one(colour)["pixel_values"][0].shape == (4, 4, 4)
    assert not caplog.records
    one(np.full((5, 6), 0.3))
    one(np.full((5, 6), 0.3))
    assert [record.getMessage() for record in caplog.records] == [
        "pixels from 0 to 1 are multiplied by 0.0039216 once more: do_rescale=False leaves them as they are"
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "the batch is empty"),
        (np.zeros((0, 4, 4, 3)), "the batch is empty"),
        (np.zeros(4), r"two or three dimensions with pixels in them, got \[4\]"),
        (np.zeros((4, 0, 3)), "with pixels in them"),
        (np.zeros((7, 7, 7)), "input_data_format"),
        (np.full((5, 6, 3), np.nan), "must be finite"),
        (np.full((5, 6, 3), 300.0), "these are from 300 to 300"),
        (np.full((5, 6, 3), -0.5), "these are from -0.5 to -0.5"),
        (np.array([["a"]]), "are numbers, got <U1"),
        (5, "a picture is a picture of Pillow's"),
        (None, "a picture is a picture of Pillow's"),
        ({"image": 1}, "got dict"),
    ],
    ids=str,
)
def test_what_is_no_picture_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        ViTImageProcessor()(given)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 0}, "size.height must be an integer from 1"),
        ({"size": {"height": 4}}, "size must be a number of pixels"),
        ({"size": {"longest_edge": 4}}, "size must be a number of pixels"),
        ({"resample": 9}, r"resample must be one of 0 \(nearest\)"),
        ({"image_std": [0.5, 0, 0.5]}, r"image_std\[1\] must be a number from"),
        ({"image_mean": "grey"}, "image_mean must be a number"),
        ({"do_resize": "yes"}, "do_resize must be true or false"),
        ({"rescale_factor": float("nan")}, "rescale_factor must be a number"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        ViTImageProcessor(**settings)
    with pytest.raises(ConfigError, match=message):
        ViTImageProcessor()(np.zeros((5, 6, 3)), **settings)


def test_arguments_that_nobody_reads_are_refused():
    with pytest.raises(ArgumentError, match=r"do_resise.*did you mean 'do_resize'"):
        ViTImageProcessor(do_resise=True)
    with pytest.raises(ArgumentError, match=r"'sise'.*did you mean 'size'"):
        ViTImageProcessor()(np.zeros((5, 6, 3)), sise=3)
    with pytest.raises(InputError, match="return_tensors must be"):
        ViTImageProcessor()(np.zeros((5, 6, 3)), return_tensors="tf")
    with pytest.raises(InputError, match="data_format must be"):
        ViTImageProcessor()(np.zeros((5, 6, 3)), data_format="last")


def test_files_are_those_of_transformers(tmp_path):
    reference = pytest.importorskip("transformers.models.vit.image_processing_pil_vit").ViTImageProcessorPil
    settings = {"size": {"height": 20, "width": 30}, "resample": 3, "image_mean": [0.1, 0.2, 0.3], "do_rescale": False}
    ViTImageProcessor(**settings).save_pretrained(tmp_path / "ours")
    read = reference.from_pretrained(tmp_path / "ours")
    assert dict(read.size) == {"height": 20, "width": 30} and tuple(read.image_mean) == (0.1, 0.2, 0.3)
    reference(**settings).save_pretrained(tmp_path / "theirs")
    for folder in ("ours", "theirs"):
        for kind in (ViTImageProcessor, AutoImageProcessor):
            again = kind.from_pretrained(tmp_path / folder)
            assert type(again) is ViTImageProcessor and again.to_dict() == ViTImageProcessor(**settings).to_dict()
    assert type(AutoImageProcessor.from_pretrained(tmp_path / "ours", use_fast=True)) is ViTImageProcessorFast
    assert type(AutoImageProcessor.from_pretrained(tmp_path / "ours", backend="pil")) is ViTImageProcessor
    assert AutoImageProcessor.from_pretrained(tmp_path / "ours", size=7).size == {"height": 7, "width": 7}
    with pytest.raises(ArgumentError, match="contradict"):
        AutoImageProcessor.from_pretrained(tmp_path / "ours", use_fast=True, backend="pil")


def test_files_of_other_releases_and_of_other_processors(tmp_path):
    def write(**values) -> Path:
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(values))
        return tmp_path

    old = {"feature_extractor_type": "ViTFeatureExtractor", "size": 384, "resample": 2, "feature_of_tomorrow": 7}
    processor = AutoImageProcessor.from_pretrained(write(**old))
    assert processor.size == {"height": 384, "width": 384} and processor.to_dict()["feature_of_tomorrow"] == 7
    with pytest.raises(ConfigError, match="needs a CLIPImageProcessor, which is not supported"):
        AutoImageProcessor.from_pretrained(write(image_processor_type="CLIPImageProcessor"))
    with pytest.raises(ConfigError, match="do_center_crop is true"):
        AutoImageProcessor.from_pretrained(write(do_center_crop=True))
    with pytest.raises(ConfigError, match=r"preprocessor_config.json: size.height must be an integer"):
        AutoImageProcessor.from_pretrained(write(size="large"))
    shutil.copy(write(image_processor={"size": 8}) / "preprocessor_config.json", tmp_path / "processor_config.json")
    (tmp_path / "preprocessor_config.json").unlink()
    assert AutoImageProcessor.from_pretrained(tmp_path).size == {"height": 8, "width": 8}
    (tmp_path / "processor_config.json").unlink()
    with pytest.raises(ConfigError, match=r"holds no preprocessor_config.json"):
        AutoImageProcessor.from_pretrained(tmp_path)


PUBLISHED = sorted(SHARED.glob("data/configs/preprocessor_config/*.json"))


@pytest.mark.skipif(not PUBLISHED, reason="../shared/data/configs is not there")
def test_published_files_are_read_and_written_back(tmp_path):
    read = 0
    for file in PUBLISHED:
        values = json.loads(file.read_text("utf-8"))
        if values.get("image_processor_type") != "ViTImageProcessor":
            continue
        shutil.copy(file, tmp_path / "preprocessor_config.json")
        AutoImageProcessor.from_pretrained(tmp_path).save_pretrained(tmp_path / "again")
        assert json.loads((tmp_path / "again/preprocessor_config.json").read_text("utf-8")) == values
        read += 1
    assert read


def test_without_pillow_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(InputError, match=r"pip install 'glassformer\[images\]'"):
        ViTImageProcessor()(np.zeros((5, 6, 3), np.uint8))
    assert ViTImageProcessor(do_resize=False)(np.zeros((5, 6, 3), np.uint8))["pixel_values"][0].min() == -1
    assert ViTImageProcessorFast(size=2)(np.zeros((5, 6, 3), np.uint8))["pixel_values"][0].shape == (3, 2, 2)


def test_processors_print_what_is_not_usual():
    assert repr(ViTImageProcessor()) == "ViTImageProcessor()"
    assert repr(glassformer.ViTImageProcessor(size=8)) == "ViTImageProcessor(size={'height': 8, 'width': 8})"
