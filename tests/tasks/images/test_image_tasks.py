"""Pictures through the tasks: the answers of transformers, files in all forms, training that resumes exactly."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer
from glassformer import DataError, InputError, evaluate, pipeline
from glassformer.cli.main import main
from glassformer.data.readers import read_rows
from glassformer.tasks.images.augmentation import cut_out, mirrored
from glassformer.train.recipes.build_trainer import build_trainer
from glassformer.train.recipes.recipe import make_recipe

from ...models.architectures import tiny_vit

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

SHAPE = {"image_size": 16, "patch_size": 8, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """An untrained classifier that was saved as one that is trained."""
    path = tmp_path_factory.mktemp("vit")
    torch.manual_seed(0)
    model = glassformer.ViTForImageClassification(tiny_vit(num_labels=6))
    model.save_pretrained(path)
    glassformer.ViTImageProcessor(size=16).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[str]:
    """A colourful, a grey and a transparent picture."""
    path = tmp_path_factory.mktemp("files")
    colours = np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype(np.uint8)
    clear = Image.fromarray(colours)
    clear.putalpha(77)
    for name, picture in (("a", Image.fromarray(colours)), ("b", Image.fromarray(colours[..., 0])), ("c", clear)):
        picture.save(path / f"{name}.png")
    return sorted(map(str, path.glob("*.png")))


def assert_close(ours, theirs):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(a, list):
            assert_close(a, b)
        else:
            assert list(a) == list(b) == ["label", "score"]
            assert a["label"] == b["label"] and a["score"] == pytest.approx(b["score"], abs=1e-6)


def theirs(task: str, folder: Path):
    transformers = pytest.importorskip("transformers")
    processing = pytest.importorskip("transformers.models.vit.image_processing_pil_vit")
    processor = processing.ViTImageProcessorPil.from_pretrained(folder)
    return transformers.pipeline(task, model=str(folder), image_processor=processor)


def test_labels_are_those_of_transformers(folder, files):
    ours, reference = pipeline(model=folder), theirs("image-classification", folder)
    assert ours.task == "image-classification" and ours.image_processor.size == {"height": 16, "width": 16}
    assert_close(ours(files), reference(files))
    for file in files:
        assert_close(ours(file), reference(file))
        assert_close(ours(Image.open(file)), reference(Image.open(file)))
        for options in ({"top_k": 2}, {"function_to_apply": "sigmoid"}, {"function_to_apply": "none", "top_k": 9}):
            assert_close(ours(file, **options), reference(file, **options))
    array = np.array(Image.open(files[0]))
    assert_close(ours(array), reference(array))


def test_vectors_are_those_of_transformers(tmp_path, files):
    torch.manual_seed(0)
    glassformer.ViTModel(tiny_vit()).save_pretrained(tmp_path)
    glassformer.ViTImageProcessor(size=16).save_pretrained(tmp_path)
    ours, reference = pipeline(model=tmp_path), theirs("image-feature-extraction", tmp_path)
    assert ours.task == "image-feature-extraction"
    for options in ({}, {"pool": True}):
        for a, b in zip(ours(files, **options), reference(files, **options), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
    assert ours(files[0], return_tensors=True).shape == (1, 17, 48)
    assert ours(files[0], return_tensors="np", pool=True).shape == (1, 48)


def test_pictures_in_all_forms_have_one_answer(folder, files, tmp_path):
    pipe, file = pipeline("image-classification", model=folder), Path(files[0])
    expected, array = pipe(files[0]), np.array(Image.open(file))
    address = "data:image/png;base64," + base64.b64encode(file.read_bytes()).decode()
    first = np.moveaxis(array, -1, 0)
    for given in (file, file.read_bytes(), address, Image.open(file), array, torch.tensor(first), {"path": files[0]}):
        assert pipe(given) == expected
    for given in ({"image": files[0]}, {"image": {"bytes": file.read_bytes(), "path": None}}):
        assert pipe(given) == expected == pipe(image=given["image"])
    for several in (
        pipe([files[0], Image.open(file)]),
        pipe(np.stack([array, array])),
        list(pipe(iter(files[:1] * 2))),
    ):
        assert_close(several, [expected, expected])
    loaded = glassformer.ViTForImageClassification.from_pretrained(folder)
    assert pipeline("image-classification", loaded, image_processor=pipe.image_processor)(files[0]) == expected
    assert pipeline("image-classification", loaded, feature_extractor=str(folder))(files[0]) == expected


def test_pictures_of_files_of_rows(folder, files, tmp_path, caplog):
    pipe = pipeline("image-classification", model=folder)
    (tmp_path / "sub").mkdir()
    for place, file in enumerate(files):
        Image.open(file).save(tmp_path / f"sub/{place}.png")
    (tmp_path / "rows.csv").write_text("file_name,label\nsub/0.png,LABEL_1\nsub/1.png,LABEL_0\n")
    assert_close(list(pipe(tmp_path / "rows.csv")), pipe(files[:2]))  # paths are those from the folder of the file
    assert "has no column image: image-classification reads 'file_name' as it" in caplog.text
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = {"image": [{"bytes": Path(file).read_bytes(), "path": None} for file in files], "label": [0, 1, 2]}
    parquet.write_table(pyarrow.table(table), tmp_path / "rows.parquet")
    assert_close(list(pipe(tmp_path / "rows.parquet")), pipe(files))
    task = pipe.worker
    rows = list(read_rows(tmp_path / "rows.parquet"))
    assert evaluate(task, rows)["accuracy"] == evaluate(task, list(zip_labels(files)))["accuracy"]


def zip_labels(files):
    return [{"image": file, "label": f"LABEL_{number}"} for number, file in enumerate(files)]


def test_what_is_no_picture_is_refused(folder, files, tmp_path):
    pipe = pipeline("image-classification", model=folder)
    broken = tmp_path / "broken.png"
    broken.write_bytes(Path(files[0]).read_bytes()[:200])
    with pytest.raises(DataError, match=r"row 1: .*broken.png: damaged, or no picture"):
        pipe([files[0], str(broken)])
    for given, message in (
        ("no.png", "no.png: there is no such file"),
        (5, "reads a row, a list of rows or an iterable"),
        ([5], "row 0: image-classification reads rows with image, got int 5"),
        ([{"image": 5}], "row 0: image must be a picture of Pillow's, an array"),
        ([{"image": {"bytes": None}}], "has its bytes or its path"),
        ([{"picture": "a"}], "a row of image-classification has no argument 'picture'"),
    ):
        with pytest.raises((InputError, TypeError), match=message):
            pipe(given)
    with pytest.raises(InputError, match="takes an image_processor, and no tokenizer"):
        pipeline("image-classification", model=folder, tokenizer=str(folder))
    with pytest.raises(InputError, match="takes a tokenizer, and no image_processor"):
        pipeline("text-classification", model=folder, image_processor=str(folder))
    with pytest.raises(AttributeError, match="reads no texts, and has no tokenizer"):
        _ = pipe.tokenizer
    larger = glassformer.ViTImageProcessor(size=24)
    model = glassformer.ViTForImageClassification.from_pretrained(folder)
    with pytest.raises(InputError, match="24 x 24 pixels, and the model reads 16 x 16"):
        pipeline("image-classification", model, image_processor=larger)(files[0])
    stretched = pipeline("image-classification", model, image_processor=larger, interpolate_pos_encoding=True)
    pixels = larger(files[0], return_tensors="pt").pixel_values
    with torch.no_grad():
        expected = model(pixels, interpolate_pos_encoding=True).logits.softmax(-1).max()
    assert stretched(files[0])[0]["score"] == pytest.approx(float(expected), abs=1e-6)
    with pytest.raises(InputError, match="random_crop must be a share"):
        pipe(files[0], random_crop=0)


def test_use_fast_is_the_fast_processor(folder):
    assert pipeline("image-classification", model=folder, use_fast=True).image_processor.is_fast
    assert not pipeline("image-classification", model=folder, use_fast=False).image_processor.is_fast


# --- training ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stripes(tmp_path_factory) -> Path:
    """Pictures of stripes, which lie or stand: a folder for each class."""
    path, draw = tmp_path_factory.mktemp("stripes"), np.random.default_rng(0)
    for number in range(48):
        across = (np.arange(16) + draw.integers(4)) // 2 % 2 * 200
        pixels = np.broadcast_to(across[:, None], (16, 16)) + draw.integers(0, 50, (16, 16))
        kind = ("lying", "standing")[number % 2]
        (path / kind).mkdir(exist_ok=True)
        Image.fromarray((pixels if kind == "lying" else pixels.T).astype(np.uint8)).save(path / kind / f"{number}.png")
    return path


def recipe(data: Path, run: Path, **train):
    config = {**SHAPE, "num_channels": 1, "num_hidden_layers": 2}
    values = {"task": "image-classification", "model": "new:vit", "config": config, "data": {"train": str(data)}}
    train = {"learning_rate": 5e-3, "num_train_epochs": 16, "tokens_per_batch": 40, "device": "cpu", **train}
    return make_recipe({**values, "train": {**train, "output_dir": str(run)}})


def test_a_folder_per_class_is_learnt(stripes, tmp_path, capsys):
    trainer = build_trainer(recipe(stripes, tmp_path / "run"))
    assert trainer.task.model.config.id2label == {0: "lying", 1: "standing"}
    trainer.train()
    assert evaluate(trainer.task, list(read_rows(stripes)))["accuracy"] == 1.0
    file = str(next((stripes / "standing").iterdir()))
    assert main(["predict", "image-classification", str(tmp_path / "run"), file, "--option", "top_k=1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answer"][0]["label"] == "standing"
    assert main(["evaluate", "image-classification", str(tmp_path / "run"), "--data", str(stripes), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == 1.0
    again = glassformer.AutoImageProcessor.from_pretrained(tmp_path / "run")
    assert (again.size, again.image_mean) == ({"height": 16, "width": 16}, [0.5])


def test_flips_and_crops_are_new_in_each_epoch_and_resume_exactly(stripes, tmp_path):
    def run(folder: Path, **settings):
        made = recipe(stripes, folder, num_train_epochs=2, **settings)
        made.options.update(random_flip=True, random_crop=0.5)
        return build_trainer(made)

    batches = run(tmp_path / "looked at").batches
    first = next(batches)[0]
    seen = batches.collate(first).inputs["pixel_values"]
    assert torch.equal(seen, batches.collate(first).inputs["pixel_values"])  # one epoch: one look
    batches.current_epoch = 1
    assert not torch.equal(seen, batches.collate(first).inputs["pixel_values"])
    whole = run(tmp_path / "whole", save_steps=7)
    whole.train()
    again = run(tmp_path / "again")
    again.train(resume=tmp_path / "whole/checkpoint-7")
    for name, value in whole.task.model.state_dict().items():
        assert torch.equal(value, again.task.model.state_dict()[name]), name


def test_large_pictures_are_read_again_and_give_the_same(tmp_path, folder, files):
    task = glassformer.ImageClassification.from_pretrained(folder)
    (example,) = task.encode({"image": files[0], "label": "LABEL_2"})
    from glassformer.tasks.images import image_inputs

    small = task.compact(example)
    assert small.encoded.pixels is not None
    kept, image_inputs.KEPT = image_inputs.KEPT, 10
    try:
        large = task.compact(example)
    finally:
        image_inputs.KEPT = kept
    assert large.encoded.pixels is None and len(large) == 17
    assert torch.equal(task.collate([large]).inputs["pixel_values"], task.collate([example]).inputs["pixel_values"])
    assert task.processor.content(large.encoded) == task.processor.content(example.encoded)


def test_cuts_and_mirrors():
    pixels, draw = np.arange(3 * 40 * 60).reshape(3, 40, 60), np.random.default_rng(0)
    for _ in range(50):
        cut = cut_out(pixels, 0.3, draw)
        assert 0.28 <= cut.shape[1] * cut.shape[2] / 2400 <= 1.01
        top, left = divmod(int(cut[0, 0, 0]), 60)
        assert np.array_equal(cut, pixels[:, top : top + cut.shape[1], left : left + cut.shape[2]])
    sides = {bool((mirrored(pixels, draw) == pixels).all()) for _ in range(20)}
    assert sides == {True, False}


def test_recipes_for_pictures_name_no_tokenizer(stripes, tmp_path):
    values = {"task": "image-classification", "model": "new:vit", "data": {"train": str(stripes)}}
    with pytest.raises(glassformer.ConfigError, match="reads pictures, and has no tokenizer"):
        make_recipe({**values, "tokenizer": "new:words", "train": {"output_dir": str(tmp_path)}})
    trainer = build_trainer(make_recipe({**values, "config": SHAPE, "train": {"output_dir": str(tmp_path / "a")}}))
    assert trainer.task.model.config.num_channels == 3  # greys are read in colours
    fine = {**values, "model": str(tmp_path / "b"), "train": {"output_dir": str(tmp_path / "c"), "max_steps": 1}}
    trainer.task.model.save_pretrained(tmp_path / "b")
    trainer.task.save_processor(tmp_path / "b")
    tuned = build_trainer(make_recipe({**fine, "lora": {"r": 2}}))
    assert tuned.task.model.adapter is not None
