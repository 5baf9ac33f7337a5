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
from .subject import Part, Reading, Side, Subject

LONGEST = 64  # tokens that it writes itself when no target is given


@dataclass
class PairReading(Reading):
    """A source, and a target as the decoder read it: its tokens are the target's."""

    source: Side = field(default_factory=lambda: Side([], [], []))

    @property
    def parts(self) -> dict[str, Part]:
        first, target = len(self.subject.model.encoder.layer), Side(self.ids, self.tokens, self.special)
        layers = list(range(len(layers_of(self.subject.model))))
        return {
            "encoder": Part(SELF, self.source, self.source, layers[:first], False),
            "decoder": Part(SELF, target, target, layers[first:], True),
            "cross": Part(CROSS, target, self.source, layers[first:], False),
        }


class PairSubject(Subject):
    """An encoder-decoder; its layers are numbered through, those of the encoder first."""

    kind = "next"
    is_decoder = False  # it reads two texts

    def __init__(self, task: TextToText, name: str = "") -> None:
        if not crossing_layers(task.model):
            raise InputError("this model has no attention layers to look into")
        super().__init__(task.model, task.tokenizer, name)
        self.task = task

    @classmethod
    def load(cls, name: str | Path) -> PairSubject:
        from ..tasks.translation import Translation

        return cls(Translation.from_pretrained(name), Path(name).name)

    def encode(self, text: str, pair: str | None = None) -> Reading:
        """A source, and a target; without one, that which the model writes itself."""
        if not isinstance(text, str) or not (pair is None or isinstance(pair, str)):
            raise InputError("text and pair must be strings")
        ids = self.task.collate(self.task.encode(self.task.read({"source": text}))).inputs["input_ids"][0].tolist()
        words = self.task.words_of(pair) if pair else self.written(ids, max_new_tokens=LONGEST, do_sample=False)
        source = Side(ids, self.task.tokenizer.convert_ids_to_tokens(ids), self.marks(self.task.tokenizer, ids))
        return self.reading([self.model.start_token(), *words[:-1]], source, text, pair)

    def reading(self, read: list[int], source: Side, text: str, pair: str | None) -> PairReading:
        tokenizer = self.task.target_tokenizer
        tokens, marks = tokenizer.convert_ids_to_tokens(read), self.marks(tokenizer, read)
        return PairReading(self, text, pair, read, tokens, marks, [0] * len(read), source=source)

    def again(self, reading: Reading) -> Reading:
        return self.reading(reading.ids, reading.source, reading.text, reading.pair)

    def marks(self, tokenizer: Any, ids: list[int]) -> list[bool]:
        special = set(tokenizer.all_special_ids)
        return [i in special for i in ids]

    def shown(self, ids: list[int]) -> list[str]:
        return self.task.target_tokenizer.convert_ids_to_tokens(ids)

    def written(self, ids: list[int], **settings: Any) -> list[int]:
        """What the model writes for a source, without the token that it starts with."""
        words = self.model.generate(torch.tensor([ids], device=self.model.device), num_beams=1, **settings)[0].tolist()
        return words[1:] if words[:1] == [self.model.start_token()] else words

    def write(self, text: str, settings: Mapping[str, Any]) -> tuple[Reading, int]:
        reading = self.encode(text, pair=" ")
        words = self.written(reading.source.ids, **settings)
        return self.reading([self.model.start_token(), *words], reading.source, text, None), 1

    def forward(self, reading: Reading, output_hidden_states: bool = False) -> BodyOutput:
        source, target = (torch.tensor([ids], device=self.model.device) for ids in (reading.source.ids, reading.ids))
        memory = self.model.encoder.run(source)
        return self.model.decoder.run(target, memory=memory, output_hidden_states=output_hidden_states)

    def finish(self, states: Tensor) -> Tensor:
        norm = self.model.decoder.LayerNorm
        return states if norm is None else norm(states)
