"""A model with its tokenizer, as the views look at it, and one text as the model read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..generate.conditioning import condition
from ..models import auto
from ..models.base import PreTrainedModel
from ..models.outputs import BodyOutput
from ..nn.attention import Look
from ..text.auto import AutoTokenizer
from ..text.tokenizer import PreTrainedTokenizer
from .capture import watch
from .places import SELF, attention_of, heads_of, layers_of, slots_of

HEADS = {  # how the class names of checkpoints end -> what loads them, head and all
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForPreTraining": "AutoModelForMaskedLM",
    "ForCausalLM": "AutoModelForCausalLM",
    "LMHeadModel": "AutoModelForCausalLM",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
}


@dataclass
class Reading:
    """One text as the model read it; the weights of a head are computed when somebody looks at them."""

    subject: Subject
    text: str
    pair: str | None
    ids: list[int]
    tokens: list[str]  # as they are shown
    special: list[bool]
    segments: list[int]
    looks: dict[int, Look] = field(default_factory=dict)
    hidden: list[Tensor] = field(default_factory=list)  # T C each: before the first layer, behind every layer
    body: BodyOutput | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def weights(self, layer: int, heads: Any = True) -> Tensor:
        """H T S, of the heads that are asked for, numbered as in the unpruned model."""
        if layer not in self.looks:
            raise InputError(f"there are layers 0 to {len(self.looks) - 1}, got {layer!r}")
        return self.looks[layer].weights(slots_of(attention_of(self.subject.model, layer), heads))[0]

    def vectors(self, layer: int, head: int) -> tuple[Tensor, Tensor]:
        """The queries (T D) and keys (S D) of one head."""
        (slot,), look = slots_of(attention_of(self.subject.model, layer), [head]), self.looks[layer]
        return look.q[:, slot], look.k[:, slot]

    def logits(self, position: int) -> Tensor:
        """The scores of all words where `position` is: V."""
        return self.subject.model.word_logits(self.body.rows[[self.place(position)]])[0]

    def place(self, position: int) -> int:
        if not isinstance(position, int) or not -len(self) <= position < len(self):
            raise InputError(f"there are positions 0 to {len(self) - 1}, got {position!r}")
        return position % len(self)


class Subject:
    """A model with its tokenizer."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizer, name: str = "") -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.name = name or model.config.name_or_path or type(model).__name__

    @classmethod
    def load(cls, name: str | Path) -> Subject:
        """A checkpoint with the head that it was trained with, or without one."""
        config = auto.AutoConfig.from_pretrained(name)
        if config.is_encoder_decoder:
            raise InputError(f"{name} is an encoder-decoder, which reads two texts: glass see shows its attention")
        made_as = (config.architectures or [""])[0]
        kind = next((auto_class for ending, auto_class in HEADS.items() if made_as.endswith(ending)), "AutoModel")
        loader = getattr(auto, kind)
        if type(config) not in loader.models:
            loader = auto.AutoModel
        return cls(loader.from_pretrained(name), AutoTokenizer.from_pretrained(name), Path(name).name or str(name))

    @property
    def is_decoder(self) -> bool:
        return self.model.base_model.is_decoder

    @property
    def kind(self) -> str:
        """What its head answers: "mask" a hidden word, "next" the next word, "label" a label, "none" nothing."""
        if hasattr(self.model, "word_logits"):
            return "next" if self.is_decoder else "mask"
        return "label" if type(self.model).__name__.endswith("ForSequenceClassification") else "none"

    @property
    def heads(self) -> list[list[int]]:
        """The heads of every layer, numbered as in the unpruned model."""
        return [heads_of(layer.attention) for layer in layers_of(self.model)]

    # --- text to ids -------------------------------------------------------------------------------------------

    def encode(self, text: str, pair: str | None = None) -> Reading:
        """A text as the model will read it. A decoder reads it without special tokens at its end."""
        if not isinstance(text, str) or not (pair is None or isinstance(pair, str)):
            raise InputError("text and pair must be strings")
        if self.is_decoder:
            if pair:
                raise InputError("this model reads one text: it is a decoder")
            ids = condition(self.tokenizer, text)
            if not ids and self.tokenizer.bos_token_id is not None:
                ids = [self.tokenizer.bos_token_id]
            segments = [0] * len(ids)
        else:
            encoding = self.tokenizer(text, pair or None, return_token_type_ids=True)
            ids, segments = encoding["input_ids"], encoding["token_type_ids"]
        if not ids:
            raise InputError("the text has no token")
        return self.of_ids(ids, segments, text, pair or None)

    def of_ids(self, ids: list[int], segments: list[int], text: str = "", pair: str | None = None) -> Reading:
        special = set(self.tokenizer.all_special_ids)
        return Reading(self, text, pair, ids, self.shown(ids), [i in special for i in ids], segments)

    def shown(self, ids: list[int]) -> list[str]:
        """Tokens as people can read them: bytes as the characters they spell, where they spell whole ones."""
        shown = []
        for token in self.tokenizer.convert_ids_to_tokens(ids):
            spelt = token
            if hasattr(self.tokenizer, "convert_tokens_to_bytes"):
                spelt = self.tokenizer.convert_tokens_to_string([token])
                spelt = token if "\ufffd" in spelt or not spelt else spelt
            shown.append(spelt)
        return shown

    # --- ids to what happens inside ----------------------------------------------------------------------------

    def inputs(self, reading: Reading) -> dict[str, Tensor]:
        """The tensors that a body reads."""
        given = {"input_ids": torch.tensor([reading.ids], device=self.model.device)}
        if "token_type_ids" in self.tokenizer.model_input_names and not self.is_decoder:
            given["token_type_ids"] = torch.tensor([reading.segments], device=self.model.device)
        return given

    def read(self, text: str, pair: str | None = None) -> Reading:
        return self.run(self.encode(text, pair))

    @torch.no_grad()
    def run(self, reading: Reading) -> Reading:
        """Let the model read, and keep what is needed to see any head later."""
        with self.watched(reading):
            body = self.model.base_model.run(**self.inputs(reading), output_hidden_states=True, use_cache=False)
        reading.body = body
        reading.hidden = [state[0] for state in body.hidden_states]
        return reading

    @contextmanager
    def watched(self, reading: Reading) -> Iterator[None]:
        with ExitStack() as undo:
            for layer in range(len(layers_of(self.model))):
                module = attention_of(self.model, layer, SELF).self
                undo.callback(watch(module, lambda look, layer=layer: reading.looks.__setitem__(layer, look)))
            yield

    def label_logits(self, body: BodyOutput, inputs: Mapping[str, Tensor]) -> Tensor:
        """The scores of the labels: L."""
        if hasattr(self.model, "last_tokens"):
            return self.model.score(self.model.last_tokens(body, inputs["input_ids"]))[0]
        return self.model.text_logits(body)[0]

    def label(self, index: int) -> str:
        return str(self.model.config.id2label.get(index, index))
