"""A task whose rows hold little images: trained, evaluated and answered by the same code as those that read texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from glassformer import InputError, PretrainedConfig, PreTrainedModel, Trainer, TrainSettings, evaluate
from glassformer.checkpoints.keymap import KeyMap
from glassformer.nn.loss import summed_label_loss
from glassformer.tasks.batch import Example
from glassformer.tasks.inputs import Columns
from glassformer.tasks.metrics import classification
from glassformer.tasks.pipeline import Pipeline
from glassformer.tasks.processor import Processor
from glassformer.tasks.task import Task


@dataclass(repr=False, eq=False)
class ImageConfig(PretrainedConfig):
    model_type = "toy-image"


class ImageModel(PreTrainedModel):
    """The mean of an image's rows of pixels, and a linear classifier of it."""

    is_body = True
    config_class = ImageConfig
    base_model_prefix = "image"
    keymap = KeyMap(prefix="image.", body=("pixels", "classifier"))
    layers: Sequence[nn.Module] = ()

    def __init__(self, config: ImageConfig) -> None:
        super().__init__(config)
        self.pixels, self.classifier = nn.Linear(4, 8), nn.Linear(8, 2)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.5)
            nn.init.zeros_(module.bias)

    def forward(self, pixel_values: Tensor, row_mask: Tensor, return_dict: bool = True) -> SimpleNamespace:
        seen = torch.tanh(self.pixels(pixel_values)) * row_mask[..., None]  # B R C
        return SimpleNamespace(logits=self.classifier(seen.sum(1) / row_mask.sum(1, keepdim=True)))


class ImageProcessor(Processor):
    """Images of 4 columns and any number of rows; their rows are their length."""

    def collate(self, encoded: Sequence[np.ndarray]) -> dict[str, Tensor]:
        most = max(map(len, encoded))
        pixels, mask = np.zeros((len(encoded), most, 4), np.float32), np.zeros((len(encoded), most), np.float32)
        for place, image in enumerate(encoded):
            pixels[place, : len(image)], mask[place, : len(image)] = image, 1
        return {"pixel_values": torch.from_numpy(pixels), "row_mask": torch.from_numpy(mask)}

    def compact(self, encoded: np.ndarray) -> np.ndarray:
        return encoded.astype(np.float32)

    def content(self, encoded: np.ndarray) -> bytes:
        return encoded.tobytes()


class ImageClassification(Task):
    name = "toy-image-classification"
    head = "toy-image"
    columns = Columns(("image",), (), ("label",))

    def encode(self, row: dict[str, Any]) -> list[Example]:
        if row["image"].shape[1:] != (4,):
            raise InputError(f"an image has 4 columns, got {row['image'].shape}")
        return [Example(row["image"], {} if row.get("label") is None else {"labels": row["label"]})]

    def loss_of(self, logits: Tensor, batch: Any) -> Tensor:
        return summed_label_loss(logits, batch.labels["labels"])

    def answer(self, row: Any, examples: Sequence[Example], outputs: Sequence[Tensor]) -> dict[str, Any]:
        return {"label": int(outputs[0].argmax()), "score": float(outputs[0].softmax(-1).max())}

    metric_names = ("accuracy",)

    def predict(self, row: Any, examples: Sequence[Example], outputs: Sequence[Tensor]) -> int:
        return int(outputs[0].argmax())

    def reference(self, row: dict[str, Any]) -> int:
        return row["label"]

    def compute_metrics(self, predictions: Sequence[int], references: Sequence[int]) -> dict[str, float]:
        return classification(predictions, references, 2)


def images(count: int) -> list[dict[str, Any]]:
    """Bright ones have the label 1."""
    draw = np.random.default_rng(0)
    return [{"image": draw.normal(i % 2, 0.3, (1 + i % 5, 4)).astype(np.float32), "label": i % 2} for i in range(count)]


@pytest.fixture
def task() -> ImageClassification:
    torch.manual_seed(0)
    return ImageClassification(ImageModel(ImageConfig()), ImageProcessor())


def settings(folder, **others) -> TrainSettings:
    return TrainSettings(output_dir=str(folder), learning_rate=0.05, tokens_per_batch=12, **others)


def test_images_are_trained_evaluated_and_answered(task, tmp_path):
    rows = images(60)
    with pytest.raises(InputError, match="is not trained"):
        Pipeline(task)
    trainer = Trainer(task, rows, rows[:20], settings(tmp_path / "run", num_train_epochs=3))
    lengths = [len(row["image"]) for row in rows]
    assert trainer.batches.lengths == lengths
    assert all(sum(lengths[row] for row in rows) <= 12 for step in trainer.batches.plan(0) for rows in step)
    trainer.train()
    assert trainer.evaluate()["accuracy"] == evaluate(task, rows[:20])["accuracy"] == 1.0
    pipe = Pipeline(task)
    assert [pipe(row)["label"] for row in rows[:6]] == [0, 1, 0, 1, 0, 1]
    assert [answer["label"] for answer in pipe([{"image": row["image"]} for row in rows])] == [0, 1] * 30
    with pytest.raises(AttributeError, match="has no tokenizer"):
        _ = pipe.tokenizer
    with pytest.raises(InputError, match=r"an image has 4 columns, got \(3, 5\)"):
        pipe({"image": np.zeros((3, 5), np.float32)})


def test_images_resume_exactly(task, tmp_path):
    rows = images(30)
    plain = {name: value.clone() for name, value in task.model.state_dict().items()}
    Trainer(task, rows, None, settings(tmp_path / "whole", max_steps=6, save_steps=3)).train()
    whole = {name: value.clone() for name, value in task.model.state_dict().items()}
    task.model.load_state_dict(plain)
    again = Trainer(task, rows, None, settings(tmp_path / "again", max_steps=6))
    again.train(resume=tmp_path / "whole" / "checkpoint-3")
    assert all(torch.equal(whole[name], value) for name, value in task.model.state_dict().items())
