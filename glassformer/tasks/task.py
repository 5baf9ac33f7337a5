"""A task is one object: the rows it reads, how its processor turns them into arrays, its head, its objectives, its
metric, its answer.

`pipeline()`, prediction, evaluation and training use the same object, so that they cannot disagree. Its methods stand
in the order in which data flows:

    read -> encode -> collate -> outputs -> split -> answer
                                         -> objectives_of

Three of its parts have files of their own: inputs.py reads what a user hands in, processor.py turns values into arrays,
objectives.py holds losses and metrics. A new task says its name, head and columns, `encode` and `answer`; to be
trained, `loss_of`; to be evaluated, `predict`, `reference` and `metric`. Tasks that read text start from `TextTask`.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..models.base import PreTrainedModel
from ..models.untrained import learnt_otherwise
from ..nn.prepared import prepared
from ..registry import BODY
from .batch import Batch, Example, compact_label, label_tensor
from .inputs import Row, RowReader
from .objectives import Objectives
from .processor import Processor
from .registry import task_class


class Task(RowReader, Objectives):
    """What all tasks share. A task adds what it reads, what it asks the model, and what it makes of the outputs."""

    aliases: ClassVar[tuple[str, ...]] = ()
    head: ClassVar[str]  # what its model has on top of the body: one of `registry.HEADS`
    taught_by: ClassVar[str | None] = None  # the task whose rows teach it, if not its own
    unwraps_one: ClassVar[bool] = False  # a list of one row is answered as the row alone
    written_columns: ClassVar[tuple[str, ...]] = ()  # what the model generates, with words of its vocabulary too
    predicts_from_encoding: ClassVar[bool] = False  # `predict` reads more of an encoded text than its ids
    draws: ClassVar[bool] = False  # numbers at random, so that batches must be read one after the other

    def __init__(self, model: PreTrainedModel, processor: Processor, **options: Any) -> None:
        self.model = model
        self.processor = processor
        self.kept = {}
        self.options = self.Options()
        self.options = self.with_options(**options).options

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

    def save_processor(self, folder: str | PathLike[str]) -> None:
        """Write what turns rows into arrays beside the model, as `from_pretrained` reads it."""
        self.processor.save_pretrained(folder)

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
        """Examples as one batch."""
        known = [name for name in examples[0].labels if all(name in example.labels for example in examples)]
        labels = {name: label_tensor([example.labels[name] for example in examples]) for name in known}
        batch = Batch(self.collate_inputs(examples, labels), labels, examples)
        batch.positions = self.count_positions(batch)
        batch.counts = self.count_targets(batch) if labels else {}
        return batch

    def collate_inputs(self, examples: Sequence[Example], labels: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors that the model takes, by the names of its arguments."""
        return self.processor.collate([example.encoded for example in examples])

    def count_positions(self, batch: Batch) -> int:
        """How much room a batch takes with its padding."""
        return sum(batch.lengths)

    def compact(self, example: Example) -> Example:
        """The same example in little memory, for training, which reads it in every epoch."""
        labels = {name: compact_label(value) for name, value in example.labels.items()}
        return replace(example, encoded=self.processor.compact(example.encoded), labels=labels)

    # --- tensors to answers ------------------------------------------------------------------------------------

    def call(self, model: nn.Module, inputs: Mapping[str, Tensor]) -> Any:
        """The model's outputs, without what no task reads."""
        extra = {"use_cache": False} if takes(model, "use_cache") else {}
        return model(**inputs, **extra, return_dict=True)

    def forward(self, batch: Batch) -> list[Any]:
        """The model's outputs for each example. A task that generates text calls `model.generate` here."""
        return self.split(self.outputs(self.trainable, batch), batch)

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
        return self.encode(self.read(row))

    # --- honesty -----------------------------------------------------------------------------------------------

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
        return self.head != BODY or (is_of_body and inner != "pooler")


def takes(model: nn.Module, name: str) -> bool:
    """Whether a model's forward has this argument."""
    return name in inspect.signature(model.forward).parameters
