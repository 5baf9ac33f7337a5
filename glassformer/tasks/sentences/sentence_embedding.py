"""The vector of a text as a task: what `SentenceEncoder` and sentence-similarity run."""

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
from ..truncation import least, positions_of

if TYPE_CHECKING:
    from .sentence_encoder import SentenceEncoder


class Embedded(NamedTuple):
    """The vector of a text, and whether the text had to be cut for it."""

    vector: Tensor
    truncated: bool


@dataclass(frozen=True, kw_only=True)
class EmbeddingOptions(TruncationOptions):
    truncation: bool | str = True
    prompt: str = ""  # written before every text

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.prompt, str):
            raise InputError(f"prompt must be a text, got {self.prompt!r}")


class Embedding(TextTask):
    """A text to its vector."""

    name = "sentence-embedding"
    head = BODY
    columns = Columns(("text",))
    Options = EmbeddingOptions

    def __init__(self, encoder: SentenceEncoder, **options: Any) -> None:
        self.encoder = encoder
        super().__init__(encoder.model, encoder.tokenizer, **options)

    @property
    def limit(self) -> int:
        return least(positions_of(self.model), self.encoder.max_seq_length, self.options.max_length)

    def prepared(self) -> Embedding:
        with torch.no_grad():
            ready = copy.copy(self)
            ready.encoder = prepared(self.encoder)
        ready.model = ready.encoder.model
        return ready

    @property
    def trainable(self) -> nn.Module:
        return self.encoder

    def encode(self, row: Row) -> list[Example]:
        return [Example(each) for each in self.encoded([row["text"]])]

    def encode_all(self, rows: Sequence[Row]) -> list[list[Example]]:
        return [[Example(each)] for each in self.encoded([row["text"] for row in rows])]

    def encoded(self, texts: list[str]) -> list[Encoded]:
        texts = [self.options.prompt + text for text in texts]
        return self.fit_all(
            [text.lower() for text in texts] if self.encoder.do_lower_case else texts, cut=self.options.cut
        )

    @property
    def prompt_length(self) -> int:
        """How many positions the prompt takes at the start of every text, with the special tokens before it."""
        if not self.options.prompt:
            return 0
        (encoded,) = self.encoded([""])
        ends = encoded.special_tokens_mask()[::-1]
        return len(encoded) - (ends.index(0) if 0 in ends else 0)

    def outputs(self, model: nn.Module, batch: Batch) -> Tensor:
        return model(**batch.inputs, prompt_length=self.prompt_length)  # B C

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> Any:
        return Embedded(outputs[0], examples[0].encoded.truncated)
