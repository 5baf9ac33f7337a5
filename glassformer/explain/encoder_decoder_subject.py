"""An encoder-decoder with its tokenizers, as the views look at it: a source, and what is written beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from ..errors import InputError
from ..models.outputs import BodyOutput
from ..tasks.generation.text_to_text import TextToText
from .addressing import CROSS, SELF, crossing_layers, layers_of
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
    reading_class: ClassVar[type[PairReading]] = PairReading
    asked: ClassVar[dict[str, bool]] = {}  # what else its decoder is asked for

    def __init__(self, task: TextToText, name: str = "") -> None:
        super().__init__(task.model, task.tokenizer, name)
        self.task, self.writes_with = task, task.target_tokenizer

    def encode(self, text: str, pair: str | None = None) -> Reading:
        """A source, and a target; without one, that which the model writes itself."""
        if not isinstance(text, str) or not (pair is None or isinstance(pair, str)):
            raise InputError("text and pair must be strings")
        source = self.source_of(text)
        words = self.task.words_of(pair) if pair else self.written(source.ids, LONGEST, do_sample=False)
        return self.reading([self.model.start_token(), *words[:-1]], source, text, pair)

    def source_of(self, text: str) -> Side:
        batch = self.task.collate(self.task.encode(self.task.read({"source": text})))
        return side_of(self.tokenizer, batch.inputs["input_ids"][0].tolist())

    def reading(self, read: list[int], source: Side, text: str, pair: str | None) -> PairReading:
        target = side_of(self.writes_with, read)
        return self.reading_class(self, text, pair, target, [0] * len(read), source=source)

    def again(self, reading: Reading) -> Reading:
        return self.reading(reading.ids, reading.source, reading.text, reading.pair)

    def written(self, ids: list[int], max_new_tokens: int, **settings: Any) -> list[int]:
        """What the model writes for a source, without the token that it starts with."""
        settings["max_new_tokens"] = min(max_new_tokens, self.model.decoder.max_length - 1)
        words = self.model.generate(torch.tensor([ids], device=self.model.device), num_beams=1, **settings)[0].tolist()
        return words[1:] if words[:1] == [self.model.start_token()] else words

    def write(self, text: str, settings: Mapping[str, Any]) -> tuple[Reading, int]:
        source = self.source_of(text)
        return self.reading([self.model.start_token(), *self.written(source.ids, **settings)], source, text, None), 1

    def forward(self, reading: Reading, copies: int = 1, output_hidden_states: bool = False) -> BodyOutput:
        both = (reading.source.ids, reading.ids)
        source, target = (torch.tensor([ids], device=self.model.device).expand(copies, -1) for ids in both)
        memory = self.model.encoder.encode(source)
        return self.model.decoder.encode(target, memory=memory, output_hidden_states=output_hidden_states, **self.asked)

    def finish(self, states: Tensor) -> Tensor:
        norm = self.model.decoder.LayerNorm
        return states if norm is None else norm(states)


# --- recurrent translators --------------------------------------------------------------------------------------------


class RecurrentReading(PairReading):
    """It has one kind of attention, with one head: from each word that is written to the source."""

    @property
    def parts(self) -> dict[str, Part]:
        return {"cross": Part(CROSS, self.side, self.source, [0], False, has_vectors=False)}


class Weights(NamedTuple):
    """Weights that the model itself tells, in the place of what they could be computed with."""

    held: Tensor  # 1 H T S

    def weights(self, heads: list[int]) -> Tensor:
        return self.held[:, heads]


class RecurrentSubject(PairSubject):
    """An encoder-decoder that reads word by word, and looks back at the source."""

    reading_class = RecurrentReading
    asked: ClassVar = {"output_attentions": True}

    def __init__(self, task: TextToText, name: str = "") -> None:
        super().__init__(task, name)
        if task.model.decoder.attention is None:
            raise InputError(f"this {type(task.model).__name__} never looks at the source: it has no attention to show")

    def heads_of_part(self, part: Part) -> dict[int, list[int]]:
        return {0: [0]}

    def slots(self, layer: int, heads: Any, kind: str) -> list[int]:
        if heads not in (True, None, [0]):
            raise InputError(f"a recurrent translator has one head, 0, got {heads!r}")
        return [0]

    @contextmanager
    def watched(self, reading: Reading) -> Iterator[None]:
        yield  # the decoder tells its weights

    def run(self, reading: Reading) -> Reading:
        super().run(reading)
        reading.looks[CROSS, 0] = Weights(reading.body.cross_attentions[0])
        return reading


def pair_subject(task: TextToText, name: str = "") -> PairSubject:
    """The view of an encoder-decoder, with layers of attention or a recurrent one."""
    return (PairSubject if crossing_layers(task.model) else RecurrentSubject)(task, name)
