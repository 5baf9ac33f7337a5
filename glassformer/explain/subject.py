"""A model with its tokenizer, as the views look at it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..generate.conditioning import condition
from ..models import auto
from ..models.base import PreTrainedModel
from ..models.heads import ForNextSentencePrediction, ForSequenceClassification, ForTokenClassification, LastTokenModel
from ..models.outputs import BodyOutput
from ..tasks.next_sentence import LABELS as NEXT_OR_NOT
from ..tasks.text_classification import function_for
from ..text.auto_tokenizer import AutoTokenizer
from ..text.tokenizer import PreTrainedTokenizer
from .addressing import attention_of, heads_of, layers_of, slots_of
from .capture import observe
from .reading import Part, Reading, side_of, spelt

HEADS = {  # how the class names of checkpoints end -> what loads them, head and all
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForPreTraining": "AutoModelForMaskedLM",
    "ForCausalLM": "AutoModelForCausalLM",
    "LMHeadModel": "AutoModelForCausalLM",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForNextSentencePrediction": "AutoModelForNextSentencePrediction",
    "ForTokenClassification": "AutoModelForTokenClassification",
    "ForQuestionAnswering": "AutoModelForQuestionAnswering",
    "ForMultipleChoice": "AutoModelForMultipleChoice",
}


class Subject:
    """A model with its tokenizer."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizer, name: str = "") -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.writes_with = tokenizer  # the tokenizer of the words that it predicts
        self.name = name or model.config.name_or_path or type(model).__name__

    @staticmethod
    def of(model: PreTrainedModel, tokenizer: PreTrainedTokenizer) -> Subject:
        """A model that reads one text, or an encoder-decoder."""
        if not model.config.is_encoder_decoder:
            return Subject(model, tokenizer)
        from ..tasks.generation.translation import Translation
        from .encoder_decoder_subject import pair_subject

        return pair_subject(Translation(model, tokenizer))

    @classmethod
    def load(cls, name: str | Path) -> Subject:
        """A checkpoint with the head that it was trained with, or without one."""
        config = auto.AutoConfig.from_pretrained(name)
        if config.is_encoder_decoder:
            from ..tasks.generation.translation import Translation
            from .encoder_decoder_subject import pair_subject

            return pair_subject(Translation.from_pretrained(name), Path(name).name)
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
        """What its head answers: "mask" a hidden word, "next" the next word, "label" a label of the text, "tag" one of
        a token, "none" nothing that can be shown so."""
        if hasattr(self.model, "word_logits"):
            return "next" if self.is_decoder else "mask"
        if isinstance(self.model, ForTokenClassification):
            return "tag"
        labels = (ForSequenceClassification, LastTokenModel, ForNextSentencePrediction)
        return "label" if isinstance(self.model, labels) else "none"

    @property
    def function(self) -> str:
        """How its scores become what people read: "softmax", "sigmoid", or "none" for a number that it measures."""
        return function_for(self.model.config) if self.kind == "label" else "softmax"

    @property
    def heads(self) -> list[list[int]]:
        """The heads of every layer, numbered as in the unpruned model."""
        return [heads_of(layer.attention) for layer in layers_of(self.model)]

    def heads_of_part(self, part: Part) -> dict[int, list[int]]:
        return {layer: heads_of(attention_of(self.model, layer, part.kind)) for layer in part.layers}

    def slots(self, layer: int, heads: Any, kind: str) -> list[int]:
        """Where the tensors of an attention hold some of its heads."""
        return slots_of(attention_of(self.model, layer, kind), heads)

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
            encoding = self.tokenizer(text, pair or None, return_token_type_ids=True, verbose=False)
            ids, segments = encoding["input_ids"], encoding["token_type_ids"]
        if not ids:
            raise InputError("the text has no token")
        return self.of_ids(ids, segments, text, pair or None)

    def of_ids(self, ids: list[int], segments: list[int], text: str = "", pair: str | None = None) -> Reading:
        return Reading(self, text, pair, side_of(self.tokenizer, ids), segments)

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
        most = self.model.reading_body.max_length
        if most is not None and len(reading) > most:
            raise InputError(f"the text has {len(reading)} tokens, and this model reads at most {most}: shorten it")
        with self.watched(reading):
            body = self.forward(reading, output_hidden_states=True)
        reading.body = body
        reading.hidden = [state[0] for state in body.hidden_states]
        return reading

    def forward(self, reading: Reading, copies: int = 1, output_hidden_states: bool = False) -> BodyOutput:
        inputs = {name: given.expand(copies, -1) for name, given in self.inputs(reading).items()}
        return self.model.base_model.encode(**inputs, output_hidden_states=output_hidden_states, use_cache=False)

    def finish(self, states: Tensor) -> Tensor:
        """What the head reads if these vectors come from the last layer."""
        return self.model.base_model.encoder.finish(states)

    def again(self, reading: Reading) -> Reading:
        """The same ids, not read yet."""
        return self.of_ids(reading.ids, reading.segments, reading.text, reading.pair)

    def write(self, text: str, settings: Mapping[str, Any]) -> tuple[Reading, int]:
        """A text with what the model writes behind it, and where that begins."""
        start = self.encode(text).ids
        ids = self.model.generate(torch.tensor([start], device=self.model.device), num_beams=1, **settings)[0].tolist()
        return self.of_ids(ids, [0] * len(ids), text), len(start)

    @contextmanager
    def watched(self, reading: Reading) -> Iterator[None]:
        """Keep what every attention computes with."""
        by_module = {
            attention_of(self.model, layer, part.kind).self: partial(reading.looks.__setitem__, (part.kind, layer))
            for part in reading.parts.values()
            for layer in part.layers
        }
        with ExitStack() as undo:
            undo.callback(observe(by_module))
            yield

    def scores(self, reading: Reading, body: BodyOutput, place: int) -> Tensor:
        """What the head says of one or several runs over a text, or of a place in it: B L, or B V."""
        if self.kind == "label":
            return self.label_scores(reading, body)
        rows = body.last_hidden_state[:, place]
        return self.model.classifier(rows) if self.kind == "tag" else self.model.word_logits(rows)

    def label_scores(self, reading: Reading, body: BodyOutput) -> Tensor:
        """B L"""
        if isinstance(self.model, ForNextSentencePrediction):
            return self.model.cls(body.pooled)
        if not isinstance(self.model, LastTokenModel):
            return self.model.text_logits(body)
        pads = self.model.config.pad_token_id is not None
        ids = torch.tensor([reading.ids], device=self.model.device).expand(body.layout.batch, -1)
        return self.model.score(self.model.last_tokens(body, ids if pads else None))

    def names(self, answers: list[int]) -> list[str]:
        """Words or labels that it predicts, as people can read them."""
        if self.kind in ("mask", "next"):
            return spelt(self.writes_with, answers)
        if isinstance(self.model, ForNextSentencePrediction):
            return [NEXT_OR_NOT[i] for i in answers]
        return [str(self.model.config.id2label.get(i, i)) for i in answers]
