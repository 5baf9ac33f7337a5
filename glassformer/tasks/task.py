"""A task is one object: the rows it reads, how they become tensors, its head, its loss, its metric, its answer.

`pipeline()`, prediction, evaluation and training use the same object, so that they cannot disagree. Its methods stand
in the order in which data flows:

    read -> encode -> collate -> forward -> answer
                              -> loss

Three of its parts have files of their own: inputs.py reads what a user hands in, truncation.py makes texts fit the
model, objectives.py holds loss and metrics. A new task says its name, head and columns, `encode` and `answer`; to be
trained, a loss; to be judged, `predict`, `reference` and `metric`.
"""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..models import auto
from ..models.base import PreTrainedModel
from ..models.untrained import learnt_otherwise
from ..nn.prepared import prepared
from ..text.auto_tokenizer import AutoTokenizer
from ..text.tokenizer import PreTrainedTokenizer
from .batch import Batch, Example, label_tensor, padded
from .inputs import ReadsRows, Row
from .objectives import Learns
from .registry import task_class
from .truncation import FitsTexts

log = logging.getLogger("glassformer")

SPARE = 256  # rows that a model may have beyond its tokenizer's tokens: sizes are rounded up
SomeTask = TypeVar("SomeTask", bound="Task")


class Task(ReadsRows, FitsTexts, Learns):
    """What all tasks share. A task adds what it reads, what it asks the model, and what it makes of the outputs."""

    aliases: ClassVar[tuple[str, ...]] = ()
    head: ClassVar[str]  # the Auto class that loads its model
    taught_by: ClassVar[str | None] = None  # the task whose rows teach it, if not its own
    unwraps_one: ClassVar[bool] = False  # a list of one row is answered as the row alone
    needs_special_tokens: ClassVar[bool] = False  # texts of files keep theirs too
    written_columns: ClassVar[tuple[str, ...]] = ()  # texts that the model writes, with words of its vocabulary too
    draws: ClassVar[bool] = False  # numbers at random, so that batches must be read one after the other

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizer, **options: Any) -> None:
        if self.head == "AutoModel" and model.config.is_encoder_decoder:
            raise InputError(f"{self.name} takes a model that reads one text; {type(model).__name__} writes another")
        self.model = model
        self.tokenizer = tokenizer
        self.kept = {}
        self.options = self.Options()
        self.options = self.asked(**options).options
        self.compare_vocabularies()

    @classmethod
    def from_pretrained(
        cls: type[SomeTask],
        name_or_path: str | PathLike[str],
        tokenizer: PreTrainedTokenizer | str | PathLike[str] | None = None,
        *,
        hub: Mapping[str, Any] | None = None,
        model_arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> SomeTask:
        """The task with a model and tokenizer from a folder or by a hub name.

        `hub` holds the arguments for finding files (`revision`, `cache_dir`, ...), `model_arguments` further ones for
        the model's own `from_pretrained`.
        """
        hub = dict(hub or {})
        model = getattr(auto, cls.head).from_pretrained(name_or_path, **hub, **(model_arguments or {}))
        if tokenizer is None or not isinstance(tokenizer, PreTrainedTokenizer):
            tokenizer = AutoTokenizer.from_pretrained(name_or_path if tokenizer is None else tokenizer, **hub)
        return cls(model, tokenizer, **options)

    @property
    def trainable(self) -> nn.Module:
        """What training changes, and hands to `loss`, perhaps wrapped: the model, and what else learns."""
        return self.model

    def prepared(self) -> Task:
        """The same task on prepared weights, for many batches without gradients."""
        with torch.no_grad():
            ready = copy.copy(self)
            ready.model = prepared(self.model)
        return ready

    @classmethod
    def new_config(cls, tokenizer: PreTrainedTokenizer) -> dict[str, Any]:
        """What the config of a new model must say to go with a tokenizer."""
        ids = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
        return {"vocab_size": len(tokenizer), **ids}

    def save_tokenizers(self, folder: str | PathLike[str]) -> None:
        """Write what turns texts into ids beside the model, as `from_pretrained` reads it."""
        self.tokenizer.save_pretrained(folder)

    @property
    def label_ids(self) -> dict[str, int]:
        """The names of the model's labels, each with its number."""
        return {label: number for number, label in self.model.config.id2label.items()}

    # --- rows to tensors ---------------------------------------------------------------------------------------

    def encode(self, row: Row) -> list[Example]:
        """The model's inputs for one row; several when a long text is read in windows."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it encodes")

    def encode_all(self, rows: Sequence[Row]) -> list[list[Example]]:
        """`encode` for many rows, where a task has a quicker way for them together."""
        return [self.encode(row) for row in rows]

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Examples as one padded batch."""
        ids = [example.encoded.ids() for example in examples]
        pad_id = 0 if self.tokenizer.pad_token is None else self.tokenizer.pad_token_id
        inputs = {"input_ids": padded(ids, pad_id), "attention_mask": padded([[1] * len(row) for row in ids], 0)}
        if "token_type_ids" in self.tokenizer.model_input_names and takes(self.model.base_model, "token_type_ids"):
            inputs["token_type_ids"] = padded([example.encoded.type_ids() for example in examples], 0)
        known = [name for name in examples[0].labels if all(name in example.labels for example in examples)]
        labels = {name: label_tensor([example.labels[name] for example in examples]) for name in known}
        batch = Batch(inputs, labels, examples)
        batch.targets_count = self.count_targets(batch) if labels else 0
        batch.targets_per_example = batch.targets_count / len(examples)
        return batch

    # --- tensors to answers ------------------------------------------------------------------------------------

    def call(self, model: nn.Module, inputs: Mapping[str, Tensor]) -> Any:
        """The model's outputs, without what no task reads."""
        extra = {"use_cache": False} if takes(model, "use_cache") else {}
        return model(**inputs, **extra, return_dict=True)

    def forward(self, batch: Batch) -> list[Any]:
        """What the model says of each example. A task that writes text asks `model.generate` here."""
        return list(self.call(self.model, batch.inputs).logits.float().cpu())

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Any]) -> Any:
        """What the user gets for one row."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it answers")

    def wrap(self, answer: Any, given: Any, asked: Iterable[str]) -> Any:
        """The answer as it is returned for one row alone; `asked` names the options of that call."""
        return answer

    # --- what is learnt from -----------------------------------------------------------------------------------

    def pieces(self, rows: Sequence[Any], learning: bool = True) -> Sequence[Any]:
        """What is learnt from, and counted as rows: the rows themselves, or pieces of the text of all of them."""
        return rows

    def may_begin(self, row: Any) -> bool:
        """Whether rows that are read together may begin with this one, or it belongs to the one before it."""
        return True

    def learn_from(self, row: Any, seed: Sequence[int]) -> list[Example]:
        """What one of `pieces` teaches. What is drawn at random depends on `seed` alone: of the run, epoch and row."""
        examples = self.encode(self.read(row))
        if any(example.encoded.truncated for example in examples):
            self.tell_cut("text", self.limit)
        return examples

    # --- honesty -----------------------------------------------------------------------------------------------

    def compare_vocabularies(self) -> None:
        """Say that the tokenizer seems to be another model's, whose ids mean other words."""
        known, words = self.model.get_input_embeddings().num_embeddings, len(self.tokenizer)
        if words > known or known - words >= SPARE:
            told = "the tokenizer has %d tokens and the model %d: if they do not belong together, answers are wrong"
            log.warning(told, words, known)

    def refuse_untrained(self) -> None:
        """Raise if an answer would come from weights that were drawn and learnt nothing, or learnt something else."""
        model, config = self.model, self.model.config
        mine, where = type(model).__name__, config.name_or_path or "the checkpoint"
        teacher = task_class(self.taught_by) if self.taught_by else self
        way = f"by {self.taught_by} " if self.taught_by else ""
        remedy = f"{way}on rows with {', '.join(teacher.columns.all)}, or load a checkpoint of {mine}"
        if learnt_otherwise(mine, config):
            raise InputError(
                f"{where} is a {config.architectures[0]}: its classifier fits a {mine} by shape and has "
                f"learnt something else than {self.name}; train it {remedy}"
            )
        drawn = [part for part in model.untrained if self.depends_on(part)]
        if not drawn:
            return
        told = f"{where if model.is_loaded else f'this {mine}'} has no trained {', '.join(drawn)}"
        if not model.is_loaded and model.base_model_prefix in drawn:
            told = f"this {mine} was made from a config and has learnt nothing"
        elif {*drawn} <= {*model.load_report.replaced}:
            told = f"the {', '.join(drawn)} of {where} had another shape and was drawn anew"
        raise InputError(f"{told}, so {self.name} would answer at random: train the model {remedy}")

    def depends_on(self, part: str) -> bool:
        """Whether an answer depends on a part of the model: vectors of tokens do on the body, without its pooler."""
        inner = part.removeprefix(self.model.keymap.prefix)
        is_of_body = self.model.base_model is self.model or inner != part or part == self.model.base_model_prefix
        return self.head != "AutoModel" or (is_of_body and inner != "pooler")


def takes(model: nn.Module, name: str) -> bool:
    """Whether a model's forward has this argument."""
    return name in inspect.signature(model.forward).parameters
