"""feature-extraction: the vectors of a text's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from ..registry import BODY
from ..text.base.encoding_options import check_choice
from .batch import Batch, Example
from .inputs import Columns, Row
from .task_options import TruncationOptions
from .text_task import TextTask


@dataclass(frozen=True, kw_only=True)
class FeatureExtractionOptions(TruncationOptions):
    """The form of the vectors.

    Attributes:
        return_tensors: True or "pt": a tensor instead of nested lists; "np": an array.
    """

    return_tensors: bool | str = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("return_tensors", self.return_tensors, (True, False, "pt", "np"))


class FeatureExtraction(TextTask):
    """Compute the last hidden states of texts.

    >>> pipe = pipeline("feature-extraction", model="./bert-base-uncased/")        # doctest: +SKIP
    >>> pipe("so good", return_tensors=True).shape                                 # doctest: +SKIP
    torch.Size([1, 4, 768])
    """

    name = "feature-extraction"
    head = BODY
    columns = Columns(("text",))
    Options = FeatureExtractionOptions
    nested_options = "tokenize_kwargs"

    def encode(self, row: Row) -> list[Example]:
        encoded = self.encode_text(row["text"], truncation=self.options.truncation_strategy)
        if encoded.truncated:
            self.warn_truncated("text", self.limit)
        return [Example(encoded)]

    def outputs(self, model: nn.Module, batch: Batch) -> Tensor:
        return self.call(self.model.base_model, batch.inputs).last_hidden_state  # B T C

    def split(self, outputs: Tensor, batch: Batch) -> list[Tensor]:
        return batch.unpad(outputs)  # each T C

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> Any:
        states = outputs[0][None]  # 1 T C
        if self.options.return_tensors == "np":
            return states.float().cpu().numpy()
        return states.clone() if self.options.return_tensors else states.float().tolist()
