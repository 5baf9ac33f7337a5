"""The embedding of a text as a task, which `SentenceEncoder` and sentence-similarity run."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from ...errors import InputError
from ...nn.prepared import prepared
from ...registry import BODY
from ...text.encoding import EncodedRow as Encoded
from ..batch import Batch, Example
from ..inputs import Columns, Row
from ..task_options import TruncationOptions
from ..text_task import TextTask
from ..truncation import max_positions, smallest

if TYPE_CHECKING:
    from .sentence_encoder import SentenceEncoder


class EmbeddedText(NamedTuple):
    """The vector of a text, and whether the text was truncated."""

    vector: Tensor
    truncated: bool


@dataclass(frozen=True, kw_only=True)
class EmbeddingOptions(TruncationOptions):
    """Options for texts that become one vector.

    Attributes:
        truncation: Cut a text that is longer than the model accepts, and report it; False: it is an error.
        prompt: Prepended to every text.
    """

    truncation: bool | str = True
    prompt: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.prompt, str):
            raise InputError(f"prompt must be a text, got {self.prompt!r}")


class EmbeddingTask(TextTask):
    """Compute the vector of each text."""

    name = "sentence-embedding"
    head = BODY
    columns = Columns(("text",))
    Options = EmbeddingOptions

    def __init__(self, encoder: SentenceEncoder, **options: Any) -> None:
        self.encoder = encoder
        super().__init__(encoder.model, encoder.tokenizer, **options)

    @property
    def limit(self) -> int:
        return smallest(max_positions(self.model), self.encoder.max_seq_length, self.options.max_length)

    def prepared(self) -> EmbeddingTask:
        with torch.no_grad():
            ready = copy.copy(self)
            ready.encoder = prepared(self.encoder)
        ready.model, ready.unprepared = ready.encoder.model, self
        return ready

    @property
    def trainable(self) -> nn.Module:
        return self.encoder

    def encode(self, row: Row) -> list[Example]:
        return [Example(each) for each in self.encode_prompted([row["text"]])]

    def encode_all(self, rows: Sequence[Row]) -> list[list[Example]]:
        return [[Example(each)] for each in self.encode_prompted([row["text"] for row in rows])]

    def encode_prompted(self, texts: list[str]) -> list[Encoded]:
        """Texts as the model's inputs, with the prompt before each."""
        texts = [self.options.prompt + text for text in texts]
        if self.encoder.do_lower_case:
            texts = [text.lower() for text in texts]
        return self.encode_texts(texts, truncation=self.options.truncation_strategy)

    @property
    def prompt_length(self) -> int:
        """The number of positions of the prompt at the start of every text, with the special tokens before it."""
        if not self.options.prompt:
            return 0
        (encoded,) = self.encode_prompted([""])
        reversed_mask = encoded.special_tokens_mask()[::-1]
        return len(encoded) - (reversed_mask.index(0) if 0 in reversed_mask else 0)

    def outputs(self, model: nn.Module, batch: Batch) -> Tensor:
        return model(**batch.inputs, prompt_length=self.prompt_length)  # B C

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> Any:
        return EmbeddedText(outputs[0], examples[0].encoded.truncated)
