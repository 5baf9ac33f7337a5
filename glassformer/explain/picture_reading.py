"""What a model sees in a picture: the weights of attention among its patches, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..images.picture_files import is_picture, pillow, read_picture, upright
from ..models import auto
from ..models.base.evaluation_mode import evaluation_mode
from ..registry import ARCHITECTURES
from ..tasks.images.image_classification import ImageClassification
from ..tasks.images.image_feature_extraction import ImageFeatureExtraction
from ..tasks.images.image_task import ImageTask
from ..tasks.task_registry import task_of
from .addressing import SELF, attention_of, heads_of
from .analysis.attention_rollout import attention_rollout

LONGEST = 512  # pixels of a side of the picture that is shown
ANSWERS = 5


@dataclass(frozen=True)
class PictureReading:
    """A picture that a model has seen."""

    model: str
    picture: np.ndarray  # as it is shown: height width 3
    grid: tuple[int, int]  # patches from top to bottom, and from left to right
    weights: dict[tuple[int, int], Tensor]  # (layer, head) -> T T; token 0 is [CLS]
    rollout: tuple[Tensor, ...]  # of each layer, T T
    answers: list[dict[str, Any]]  # labels with scores, of a classifier

    @property
    def tokens(self) -> list[str]:
        """A name for each token: its row and column in the grid."""
        rows, columns = self.grid
        return ["[CLS]", *(f"{row},{column}" for row in range(rows) for column in range(columns))]


def reads_pictures(name: str | Path) -> bool:
    """Whether a checkpoint is of an architecture that reads pictures."""
    known = ARCHITECTURES.get(auto.AutoConfig.from_pretrained(name).model_type)
    return known is not None and known.image_processor is not None


def load_image_task(name: str | Path) -> ImageTask:
    """The task of a checkpoint that reads pictures: what it was trained for."""
    saved = auto.AutoConfig.from_pretrained(name).architectures
    kind = ImageClassification if task_of(saved[0] if saved else None, str(name)) == ImageClassification.name else None
    return (kind or ImageFeatureExtraction).from_pretrained(name)


@torch.no_grad()
def read_attention(task: ImageTask, image: Any) -> PictureReading:
    """Let a model see a picture, and keep the weights of all its heads."""
    row = task.read(image)
    (example,) = task.encode(row)
    batch = task.collate([example]).to(task.model.device)
    with evaluation_mode(task.model), task.model.capture(True) as captured:
        outputs = task.forward(batch)
    attentions = [captured.attention[layer].float().cpu() for layer in sorted(captured.attention)]  # each 1 H T T
    heads = [heads_of(attention_of(task.model, layer, SELF)) for layer in range(len(attentions))]
    weights = {
        (layer, head): attentions[layer][0, slot] for layer, kept in enumerate(heads) for slot, head in enumerate(kept)
    }
    pixels = batch.inputs["pixel_values"]
    grid = task.model.base_model.embeddings.patch_embeddings.grid_of((pixels.shape[2], pixels.shape[3]))
    answers: list[dict[str, Any]] = []
    if isinstance(task, ImageClassification) and not task.model.untrained:
        count = min(ANSWERS, task.model.config.num_labels)
        answers = task.with_options(top_k=count).answer(row, [example], outputs)
    return PictureReading(
        model=Path(task.model.config.name_or_path).name or type(task.model).__name__,
        picture=shown_picture(example.encoded.source),
        grid=grid,
        weights=weights,
        rollout=tuple(each[0] for each in attention_rollout(attentions)),
        answers=answers,
    )


def shown_picture(source: Any) -> np.ndarray:
    """The picture as a page shows it: height width 3, small enough for a page."""
    if isinstance(source, str | Path | bytes):
        picture = read_picture(source)
    elif is_picture(source):
        picture = upright(source)
    else:
        raise InputError("a picture that is shown is a file or a picture of Pillow's")
    picture.thumbnail((LONGEST, LONGEST), resample=pillow().Resampling.LANCZOS)
    return np.array(picture)
