"""A model with its tokenizer, as the views and analyses use it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..checkpoints.pretrained_config import PretrainedConfig
from ..errors import InputError
from ..generate.prompts import encode_prompt
from ..models import auto
from ..models.base.heads import (
    ForNextSentencePrediction,
    ForSequenceClassification,
    ForTokenClassification,
    LastTokenClassifier,
)
from ..models.base.outputs import BodyOutput
from ..models.base.pretrained_model import PreTrainedModel
from ..nn.scoped_hooks import HookScope
from ..registry import ARCHITECTURES, BODY, architecture_with, head_of, import_class, model_paths
from ..tasks.classification import function_for
from ..tasks.generation.text_to_text import TextToText
from ..tasks.generation.translation import Translation
from ..tasks.next_sentence import LABELS as NEXT_OR_NOT
from ..tasks.task_registry import task_class, task_of
from ..text.auto_tokenizer import AutoTokenizer
from ..text.tokenizer import PreTrainedTokenizer
from .addressing import CROSS, attention_of, heads_of, slots_of
from .capture import observe
from .reading import Part, Reading, Side, readable_tokens, side_of

log = logging.getLogger("glassformer")

MAX_TARGET = 64  # tokens that an encoder-decoder generates when no target is given


# Heads that an encoder-decoder's checkpoint may have on its encoder, without a decoder.
ENCODERS_ALONE = ("encoder", "token-classification")


def task_of_pair(config: PretrainedConfig) -> type[TextToText]:
    """How an encoder-decoder reads a source and a target."""
    writer = ARCHITECTURES[config.model_type].classes.get("seq2seq-lm", "").rpartition(".")[2]
    kind = task_class(task_of(writer, "the model")) if writer else Translation
    return kind if issubclass(kind, TextToText) else Translation


class RecordedWeights(NamedTuple):
    """Weights that a recurrent decoder returned; they do not come from queries and keys."""

    recorded: Tensor  # 1 H T S

    def weights(self, heads: list[int]) -> Tensor:
        return self.recorded[:, heads]


class Subject:
    """A model with its tokenizer.

    An encoder-decoder reads a source and a target, through its `task`; its layers are numbered through, those of the
    encoder first.
    """

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizer, name: str = "", task: TextToText | None = None
    ) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        is_pair = model.config.is_encoder_decoder and hasattr(model.base_model, "decoder")
        self.task = task_of_pair(model.config)(model, tokenizer) if task is None and is_pair else task
        self.target_tokenizer = tokenizer if self.task is None else self.task.target_tokenizer
        self.name = name or model.config.name_or_path or type(model).__name__
        if self.is_recurrent and model.decoder.attention is None:
            raise InputError(f"this {type(model).__name__} never looks at the source: it has no attention to show")
        if model.config.crf is not None and self.kind == "tag":
            warning = "%s has a conditional random field: the scores shown are those of each token before it is applied"
            log.warning(warning, self.name)

    @classmethod
    def load(cls, name: str | Path) -> Subject:
        """Load a checkpoint with the head that it was trained with, or without one."""
        config, label = auto.AutoConfig.from_pretrained(name), Path(name).name or str(name)
        if "speech-seq2seq" in ARCHITECTURES[config.model_type].classes:
            raise InputError(f"{name} hears sound: glass see MODEL FILE and glass transcribe --page draw its attention")
        saved = (config.architectures or [""])[0]
        if config.is_encoder_decoder and head_of(saved) not in ENCODERS_ALONE:
            task = task_of_pair(config).from_pretrained(name)
            return cls(task.model, task.tokenizer, label, task)
        is_registered = architecture_with(saved) is ARCHITECTURES.get(config.model_type)
        head = (head_of(saved) if is_registered else None) or BODY
        loader = auto.AUTO_CLASSES.get(head) or import_class(f"{model_paths()[saved]}.{saved}")
        return cls(loader.from_pretrained(name), AutoTokenizer.from_pretrained(name), label)

    @property
    def is_decoder(self) -> bool:
        """Whether it reads one text from left to right, and continues it."""
        return self.task is None and self.model.base_model.is_decoder

    @property
    def is_recurrent(self) -> bool:
        """Whether it is an encoder-decoder without layers of attention."""
        return self.task is not None and not self.model.layers

    @property
    def kind(self) -> str:
        """What its head predicts: "mask" a hidden word, "next" the next word, "label" a label of the text, "tag" one of
        a token, "none" nothing that can be shown."""
        if hasattr(self.model, "word_logits"):
            return "mask" if self.task is None and not self.is_decoder else "next"
        if isinstance(self.model, ForTokenClassification):
            return "tag"
        labels = (ForSequenceClassification, LastTokenClassifier, ForNextSentencePrediction)
        return "label" if isinstance(self.model, labels) else "none"

    @property
    def function(self) -> str:
        """How its scores become what people read: "softmax", "sigmoid", or "none" for a regression."""
        return function_for(self.model.config) if self.kind == "label" else "softmax"

    @property
    def heads(self) -> list[list[int]]:
        """The heads of every layer, numbered as in the unpruned model."""
        return [heads_of(layer.attention) for layer in self.model.layers]

    def heads_of_part(self, part: Part) -> dict[int, list[int]]:
        if self.is_recurrent:
            return {0: [0]}
        return {layer: heads_of(attention_of(self.model, layer, part.kind)) for layer in part.layers}

    def slots(self, layer: int, heads: Any, kind: str) -> list[int]:
        """The indices of some heads of an attention in its tensors."""
        if not self.is_recurrent:
            return slots_of(attention_of(self.model, layer, kind), heads)
        if heads not in (True, None, [0]):
            raise InputError(f"a recurrent translator has one head, 0, got {heads!r}")
        return [0]

    # --- text to ids -------------------------------------------------------------------------------------------

    def encode(self, text: str, pair: str | None = None) -> Reading:
        """A text as the model will read it. A decoder reads it without special tokens at its end.

        Of an encoder-decoder, `text` is the source and `pair` the target; without one, the target that it generates.
        """
        if not isinstance(text, str) or not (pair is None or isinstance(pair, str)):
            raise InputError("text and pair must be strings")
        if self.task is not None:
            source = self.encode_source(text)
            target = self.encode_target(pair) if pair else self.generate_target(source, MAX_TARGET, do_sample=False)
            return self.reading_of([self.model.start_token(), *target[:-1]], None, text, pair, source)
        if self.is_decoder:
            if pair:
                raise InputError("this model reads one text: it is a decoder")
            ids, segments = encode_prompt(self.tokenizer, text), None
            if not ids and self.tokenizer.bos_token_id is not None:
                ids = [self.tokenizer.bos_token_id]
        else:
            encoding = self.tokenizer(text, pair or None, return_token_type_ids=True, verbose=False)
            ids, segments = encoding["input_ids"], encoding["token_type_ids"]
        if not ids:
            raise InputError("the text has no token")
        return self.reading_of(ids, segments, text, pair or None)

    def encode_source(self, text: str) -> Side:
        batch = self.task.collate(self.task.encode(self.task.read({"source": text})))
        return side_of(self.tokenizer, batch.inputs["input_ids"][0].tolist())

    def encode_target(self, text: str) -> list[int]:
        ids, is_cut = self.task.encode_target(text)
        if is_cut:
            self.task.warn_truncated("target", len(ids))
        return ids

    def reading_of(
        self,
        ids: list[int],
        segments: list[int] | None = None,
        text: str = "",
        pair: str | None = None,
        source: Side | None = None,
    ) -> Reading:
        """A reading of ids that has not been run."""
        side = side_of(self.target_tokenizer, ids)
        return Reading(self, text, pair, side, [0] * len(ids) if segments is None else segments, source)

    # --- ids to hidden states and attention --------------------------------------------------------------------

    def inputs(self, reading: Reading) -> dict[str, Tensor]:
        """The tensors that a body reads."""
        inputs = {"input_ids": torch.tensor([reading.ids], device=self.model.device)}
        if "token_type_ids" in self.tokenizer.model_input_names and not self.is_decoder:
            inputs["token_type_ids"] = torch.tensor([reading.segments], device=self.model.device)
        return inputs

    def read(self, text: str, pair: str | None = None) -> Reading:
        return self.run(self.encode(text, pair))

    @torch.no_grad()
    def run(self, reading: Reading) -> Reading:
        """Run the model, and keep the inputs of every attention, from which the weights of any head can be computed."""
        limit = self.model.decoding_body.max_length
        if limit is not None and len(reading) > limit:
            raise InputError(f"the text has {len(reading)} tokens, and this model reads at most {limit}: shorten it")
        observers = {
            (part.kind, layer): partial(reading.attention.__setitem__, (part.kind, layer))
            for part in reading.parts.values()
            if part.has_vectors
            for layer in part.layers
        }
        with HookScope() as scope:
            observe(self.model, observers, scope)
            body = self.forward(reading, output_hidden_states=True, output_attentions=self.is_recurrent)
        if self.is_recurrent:
            reading.attention[CROSS, 0] = RecordedWeights(body.cross_attentions[0])
        reading.body = body
        reading.hidden = [state[0] for state in body.hidden_states]
        return reading

    def forward(self, reading: Reading, copies: int = 1, **outputs: bool) -> BodyOutput:
        if reading.source is None:
            inputs = {name: tensor.expand(copies, -1) for name, tensor in self.inputs(reading).items()}
            return self.model.base_model.encode(**inputs, use_cache=False, **outputs)
        pair = (reading.source.ids, reading.ids)
        source, target = (torch.tensor([ids], device=self.model.device).expand(copies, -1) for ids in pair)
        memory = self.model.as_source(self.model.encoder.encode(source))
        return self.model.decoding_body.encode(target, memory=memory, **outputs)

    def finish(self, states: Tensor) -> Tensor:
        """The input of the head if these vectors come from the last layer."""
        return self.model.decoding_body.stack.finish(states)

    def fresh_copy(self, reading: Reading) -> Reading:
        """The same ids, without results."""
        return self.reading_of(reading.ids, reading.segments, reading.text, reading.pair, reading.source)

    # --- generation --------------------------------------------------------------------------------------------

    def continue_text(self, text: str, settings: Mapping[str, Any]) -> tuple[Reading, int]:
        """A text with its continuation (of an encoder-decoder: the target that it generates), and where that begins."""
        if self.task is not None:
            source = self.encode_source(text)
            ids = [self.model.start_token(), *self.generate_target(source, **settings)]
            return self.reading_of(ids, text=text, source=source), 1
        prompt = self.encode(text).ids
        return self.reading_of(self.generate(prompt, settings), text=text), len(prompt)

    def generate_target(self, source: Side, max_new_tokens: int, **settings: Any) -> list[int]:
        """What an encoder-decoder generates for a source, without the token that it starts with."""
        limit = self.model.decoding_body.max_length
        settings["max_new_tokens"] = max_new_tokens if limit is None else min(max_new_tokens, limit - 1)
        ids = self.generate(source.ids, settings)
        return ids[1:] if ids[:1] == [self.model.start_token()] else ids

    def generate(self, ids: list[int], settings: Mapping[str, Any]) -> list[int]:
        input_ids = torch.tensor([ids], device=self.model.device)
        return self.model.generate(input_ids, num_beams=1, **settings)[0].tolist()

    # --- answers -----------------------------------------------------------------------------------------------

    def scores(self, reading: Reading, body: BodyOutput, index: int) -> Tensor:
        """The head's scores in one or several runs over a text, or at one token of it: B L, or B V."""
        if self.kind == "label":
            return self.label_scores(reading, body)
        rows = body.last_hidden_state[:, index]
        return self.model.classifier(rows) if self.kind == "tag" else self.model.word_logits(rows)

    def label_scores(self, reading: Reading, body: BodyOutput) -> Tensor:
        """B L"""
        if isinstance(self.model, ForNextSentencePrediction):
            return self.model.cls(body.pooled)
        if not isinstance(self.model, LastTokenClassifier):
            return self.model.text_logits(body)
        pads = self.model.config.pad_token_id is not None
        ids = torch.tensor([reading.ids], device=self.model.device).expand(body.layout.batch, -1)
        return self.model.score(self.model.last_tokens(body, ids if pads else None))

    def names(self, answers: list[int]) -> list[str]:
        """Words or labels that it predicts, as people can read them."""
        if self.kind in ("mask", "next"):
            return readable_tokens(self.target_tokenizer, answers)
        if isinstance(self.model, ForNextSentencePrediction):
            return [NEXT_OR_NOT[i] for i in answers]
        return [str(self.model.config.id2label.get(i, i)) for i in answers]
