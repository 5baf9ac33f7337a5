"""image-feature-extraction: the vectors of a picture's patches, or one vector for the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from ...errors import InputError
from ...registry import BODY
from ...text.base.encoding_options import check_choice
from ..batch import Batch, Example
from ..inputs import Columns, Row
from ..task_options import check_bool
from .image_task import ImageOptions, ImageTask


@dataclass(frozen=True, kw_only=True)
class ImageFeatureExtractionOptions(ImageOptions):
    """Options for the form of an answer.

    Attributes:
        return_tensors: True: a tensor, "np": an array; False: nested lists.
        pool: One vector for the picture, from the model's pooler, instead of one for [CLS] and each patch.
    """

    return_tensors: bool | str = False
    pool: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("return_tensors", self.return_tensors, (False, True, "pt", "np"))
        check_bool("pool", self.pool)


class ImageFeatureExtraction(ImageTask):
    """The vectors of a picture.

    >>> pipe = pipeline("image-feature-extraction", model="./vit-base-patch16-224/")   # doctest: +SKIP
    >>> pipe("cat.png", return_tensors=True).shape                                      # doctest: +SKIP
    torch.Size([1, 197, 768])
    """

    name = "image-feature-extraction"
    head = BODY
    columns = Columns(("image",))
    Options = ImageFeatureExtractionOptions

    def encode(self, row: Row) -> list[Example]:
        return [Example(self.encode_image(row["image"]))]

    def outputs(self, model: nn.Module, batch: Batch) -> Tensor:
        out = self.call(self.model.base_model, batch.inputs)
        if not self.options.pool:
            return out.last_hidden_state  # B T C
        if out.get("pooler_output") is None:
            raise InputError(f"pool=True needs a model with a pooler, and this {type(self.model).__name__} has none")
        return out.pooler_output  # B C

    def split(self, outputs: Tensor, batch: Batch) -> list[Tensor]:
        return list(outputs.cpu())

    def depends_on(self, part: str) -> bool:
        return super().depends_on(part) or (self.options.pool and part.endswith("pooler"))

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> Any:
        states = outputs[0][None]  # 1 T C, or 1 C
        if self.options.return_tensors == "np":
            return states.float().numpy()
        return states.clone() if self.options.return_tensors else states.float().tolist()
