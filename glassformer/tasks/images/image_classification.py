"""image-classification: one label, several labels or a number for a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..batch import Example
from ..classification import Classification, LabelOptions
from ..inputs import Columns, Row
from .image_task import ImageOptions, ImageTask


@dataclass(frozen=True, kw_only=True)
class ImageClassificationOptions(LabelOptions, ImageOptions):
    """Options for the labels in an answer, and for the pictures."""

    top_k: int | str | None = 5


class ImageClassification(Classification, ImageTask):
    """Say what is in a picture.

    >>> pipe = pipeline("image-classification", model="./vit-base-patch16-224/")     # doctest: +SKIP
    >>> pipe("cat.png", top_k=2)                                                     # doctest: +SKIP
    [{'label': 'Egyptian cat', 'score': 0.937}, {'label': 'tabby, tabby cat', 'score': 0.038}]
    """

    name = "image-classification"
    head = "image-classification"
    columns = Columns(("image",), (), ("label",))
    Options = ImageClassificationOptions

    def encode(self, row: Row) -> list[Example]:
        labels = {} if row.get("label") is None else {"labels": self.target(row["label"])}
        return [Example(self.encode_image(row["image"]), labels)]

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> Any:
        return self.labelled(outputs)
