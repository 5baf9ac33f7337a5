"""A task is one object: the rows it reads, how its processor encodes them, its head, its objectives, its metrics, its
answers.

`pipeline()`, prediction, evaluation and training use the same object, so that they cannot disagree. Its methods are in
the order in which data flows:

    read -> encode -> collate -> outputs -> split -> answer
                                         -> objectives_of

Three of its parts have files of their own: inputs.py parses calls and rows, processor.py turns values into arrays,
objectives.py holds losses and metrics. A new task states its name, head and columns, `encode` and `answer`; to be
trained, `loss_of`; to be evaluated, `predict`, `reference` and `compute_metrics`. Tasks that read text start from
`TextTask`.
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
from ..models.base.pretrained_model import PreTrainedModel
from ..models.base.untrained import has_other_head
from ..nn.finite import check_scores
from ..nn.prepared import prepared
from ..registry import BODY
from .batch import Batch, Example, compact_label, label_tensor
from .inputs import Row, RowReader
from .objectives import Objectives
from .processor import Processor
from .task_registry import task_class


class Task(RowReader, Objectives):
    """What all tasks share. A subclass adds the rows it reads, the model call and the postprocessing of outputs."""

    aliases: ClassVar[tuple[str, ...]] = ()
    head: ClassVar[str]  # what its model has on top of the body: one of `registry.HEADS`
    trained_as: ClassVar[str | None] = None  # the task that trains its model, if it is another one
    unwraps_one: ClassVar[bool] = False  # a list of one row is answered like the row alone
    generated_columns: ClassVar[tuple[str, ...]] = ()  # those the model generates: they need its vocabulary too
    predicts_from_encoding: ClassVar[bool] = False  # `predict` needs more of an encoded text than its ids
    uses_random_numbers: ClassVar[bool] = False  # so that batches must run one after the other
    carries_memory: bool = False  # from one block of a text to the next, which must then run one after the other

    def __init__(self, model: PreTrainedModel, processor: Processor, **options: Any) -> None:
        self.model = model
        self.processor = processor
        self.unprepared: Task | None = None  # of a task on prepared weights: the task it was made from
        self.cache = {}
        self.warned = set()
        self.options = self.Options()
        self.options = self.with_options(**options).options

    @property
    def trainable(self) -> nn.Module:
        """The module that training updates and passes to `loss`, perhaps wrapped: the model and further layers."""
        return self.model

    @property
    def trained_models(self) -> Sequence[PreTrainedModel]:
        """The models that training updates, usually one."""
        return [self.model]

    def prepared(self) -> Task:
        """The same task on prepared weights, for many batches without gradients."""
        with torch.no_grad():
            ready = copy.copy(self)
            ready.model = prepared(self.model)
            ready.unprepared = self
        return ready

    def save_processor(self, folder: str | PathLike[str]) -> None:
        """Write the processor's files beside the model, as `from_pretrained` reads them."""
        self.processor.save_pretrained(folder)

    @property
    def preprocessor(self) -> Any:
        """The second argument of the constructor: a tokenizer, or an image processor."""
        raise NotImplementedError(f"{type(self).__name__} does not name its preprocessor")

    @property
    def label_ids(self) -> dict[str, int]:
        """The model's labels by name."""
        return {label: number for number, label in self.model.config.id2label.items()}

    # --- rows to tensors ---------------------------------------------------------------------------------------

    def encode(self, row: Row) -> list[Example]:
        """The model's inputs for one row; several when a long text is split into windows."""
        raise NotImplementedError(f"{type(self).__name__} does not implement encode")

    def encode_all(self, rows: Sequence[Row]) -> list[list[Example]]:
        """`encode` for many rows, for tasks that can encode them faster together."""
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
        """The model's input tensors, by argument name."""
        return self.processor.collate([example.encoded for example in examples])

    def count_positions(self, batch: Batch) -> int:
        """The size of a batch including padding."""
        return sum(batch.lengths)

    def compact(self, example: Example) -> Example:
        """The same example in less memory, for training, which holds all examples and reads them in every epoch."""
        labels = {name: compact_label(value) for name, value in example.labels.items()}
        return replace(example, encoded=self.processor.compact(example.encoded), labels=labels)

    # --- tensors to answers ------------------------------------------------------------------------------------

    def call(self, model: nn.Module, inputs: Mapping[str, Tensor]) -> Any:
        """The model's outputs, without a KV cache, which no task reads."""
        extra = {"use_cache": False} if takes(model, "use_cache") else {}
        return model(**inputs, **extra, return_dict=True)

    def forward(self, batch: Batch) -> list[Any]:
        """The model's outputs for each example. A task that generates text calls `model.generate` here."""
        return self.split(self.checked_outputs(batch), batch)

    def checked_outputs(self, batch: Batch) -> Any:
        """`outputs`; those that are NaN raise, with the layer in which they begin."""
        outputs, task = self.outputs(self.trainable, batch), self.unprepared or self
        check_scores(outputs, task.trainable, lambda: task.outputs(task.trainable, batch))
        return outputs

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Any]) -> Any:
        """The result for one row, as returned to the user."""
        raise NotImplementedError(f"{type(self).__name__} does not implement answer")

    def wrap(self, answer: Any, given: Any, requested: Iterable[str]) -> Any:
        """The answer as returned for a single row; `requested` names the options passed in that call."""
        return answer

    # --- training data -----------------------------------------------------------------------------------------

    def prepare_rows(self, rows: Sequence[Any], training: bool = True) -> Sequence[Any]:
        """The rows that examples are made of, one by one: the rows themselves, or blocks of their joined text."""
        return rows

    def starts_document(self, row: Any) -> bool:
        """Whether a block of rows may start with this one; False if it continues the document of the row before."""
        return True

    def training_examples(self, row: Any, seed: Sequence[int]) -> list[Example]:
        """The training examples of one of the prepared rows. Random choices depend on `seed` alone: run, epoch, row."""
        return self.encode(self.read(row))

    def evaluation_examples(self, row: Any, seed: Sequence[int]) -> list[Example]:
        """The examples by which a model is judged: those of training, unless an answer reads a row otherwise."""
        return self.training_examples(row, seed)

    @property
    def varies_examples(self) -> bool:
        """Whether training examples look different in each epoch."""
        return False

    def vary(self, example: Example, seed: Sequence[int]) -> Example:
        """A training example as it looks in one epoch; random choices depend on `seed` alone: run, epoch, row."""
        return example

    def memory_tensors(self) -> dict[str, Tensor]:
        """What training carries from step to step besides the weights, for a checkpoint."""
        return {}

    def load_memory(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue with the memory of a checkpoint."""

    def forget(self, training: bool) -> None:
        """Begin to read anew, in training or in an evaluation."""

    # --- untrained weights -------------------------------------------------------------------------------------

    def refuse_untrained(self) -> None:
        """Raise if answers would come from weights that are randomly initialised, or trained for another task."""
        model, config = self.model, self.model.config
        model_class, where = type(model).__name__, config.name_or_path or "the checkpoint"
        trainer = task_class(self.trained_as) if self.trained_as else self
        way = f"with {self.trained_as} " if self.trained_as else ""
        remedy = f"{way}on rows with {', '.join(trainer.columns.all)}, or load a checkpoint of {model_class}"
        if has_other_head(model_class, config):
            raise InputError(
                f"{where} is a {config.architectures[0]}: its classifier fits a {model_class} by shape but was "
                f"trained for something else than {self.name}; train it {remedy}"
            )
        untrained = [part for part in model.untrained if self.depends_on(part)]
        if not untrained:
            return
        reason = f"{where if model.is_loaded else f'this {model_class}'} has no trained {', '.join(untrained)}"
        if not model.is_loaded and model.base_model_prefix in untrained:
            reason = f"this {model_class} was made from a config and is not trained"
        elif {*untrained} <= {*model.load_report.replaced}:
            reason = f"the {', '.join(untrained)} of {where} had another shape and was newly initialised"
        raise InputError(f"{reason}, so {self.name} would answer at random: train the model {remedy}")

    def depends_on(self, part: str) -> bool:
        """Whether answers depend on a part of the model: token vectors need the body, without its pooler."""
        inner = part.removeprefix(self.model.keymap.prefix)
        is_of_body = self.model.base_model is self.model or inner != part or part == self.model.base_model_prefix
        return self.head != BODY or (is_of_body and inner != "pooler")


def takes(model: nn.Module, name: str) -> bool:
    """Whether a model's forward has this argument."""
    return name in inspect.signature(model.forward).parameters
