"""An encoder-decoder with its tokenizers, as the views look at it: a source, and what is written beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..models.outputs import BodyOutput
from ..tasks.text_to_text import TextToText
from .places import CROSS, SELF, crossing_layers, layers_of
from .reading import Part, Reading, Side, Words, side_of
from .subject import Subject

LONGEST = 64  # tokens that it writes itself when no target is given


@dataclass
class PairReading(Reading):
    """A source, and a target as the decoder read it: its tokens are the target's."""

    source: Side = field(kw_only=True)

    @property
    def parts(self) -> dict[str, Part]:
        first = len(self.subject.model.encoder.layer)
        layers = list(range(len(layers_of(self.subject.model))))
        return {
            "encoder": Part(SELF, self.source, self.source, layers[:first], False),
            "decoder": Part(SELF, self.side, self.side, layers[first:], True),
            "cross": Part(CROSS, self.side, self.source, layers[first:], False),
        }

    @property
    def words(self) -> list[Words]:
        """The source's, then the target's."""
        model, subject = self.subject.model, self.subject
        return [
            Words(self.source, model.encoder.embeddings.word_embeddings, subject.tokenizer),
            Words(self.side, model.decoder.embeddings.word_embeddings, subject.writes_with),
        ]


class PairSubject(Subject):
    """An encoder-decoder; its layers are numbered through, those of the encoder first."""

    kind = "next"
    is_decoder = False  # it reads two texts

    def __init__(self, task: TextToText, name: str = "") -> None:
        if not crossing_layers(task.model):
            raise InputError("this model has no attention layers to look into")
        super().__init__(task.model, task.tokenizer, name)
        self.task, self.writes_with = task, task.target_tokenizer

    @classmethod
    def load(cls, name: str | Path) -> PairSubject:
        from ..tasks.translation import Translation

        return cls(Translation.from_pretrained(name), Path(name).name)

    def encode(self, text: str, pair: str | None = None) -> Reading:
        """A source, and a target; without one, that which the model writes itself."""
        if not isinstance(text, str) or not (pair is None or isinstance(pair, str)):
            raise InputError("text and pair must be strings")
        source = self.source_of(text)
        words = self.task.words_of(pair) if pair else self.written(source.ids, max_new_tokens=LONGEST, do_sample=False)
        return self.reading([self.model.start_token(), *words[:-1]], source, text, pair)

    def source_of(self, text: str) -> Side:
        batch = self.task.collate(self.task.encode(self.task.read({"source": text})))
        return side_of(self.tokenizer, batch.inputs["input_ids"][0].tolist())

    def reading(self, read: list[int], source: Side, text: str, pair: str | None) -> PairReading:
        return PairReading(self, text, pair, side_of(self.writes_with, read), [0] * len(read), source=source)

    def again(self, reading: Reading) -> Reading:
        return self.reading(reading.ids, reading.source, reading.text, reading.pair)

    def written(self, ids: list[int], **settings: Any) -> list[int]:
        """What the model writes for a source, without the token that it starts with."""
        words = self.model.generate(torch.tensor([ids], device=self.model.device), num_beams=1, **settings)[0].tolist()
        return words[1:] if words[:1] == [self.model.start_token()] else words

    def write(self, text: str, settings: Mapping[str, Any]) -> tuple[Reading, int]:
        source = self.source_of(text)
        return self.reading([self.model.start_token(), *self.written(source.ids, **settings)], source, text, None), 1

    def forward(self, reading: Reading, copies: int = 1, output_hidden_states: bool = False) -> BodyOutput:
        both = (reading.source.ids, reading.ids)
        source, target = (torch.tensor([ids], device=self.model.device).expand(copies, -1) for ids in both)
        memory = self.model.encoder.run(source)
        return self.model.decoder.run(target, memory=memory, output_hidden_states=output_hidden_states)

    def finish(self, states: Tensor) -> Tensor:
        norm = self.model.decoder.LayerNorm
        return states if norm is None else norm(states)
