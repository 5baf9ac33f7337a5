"""A task is one object: the rows it reads, how they become tensors, its head, its loss, its metric, its answer.

`pipeline()`, prediction, evaluation and training use the same object, so that they cannot disagree. Its methods stand
in the order in which data flows:

    read -> encode -> collate -> forward -> answer
                              -> loss
"""

from __future__ import annotations

import copy
import difflib
import inspect
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from typing import Any, ClassVar, TypeVar

from torch import Tensor, nn

from ..data.columns import usual_names
from ..data.row import Row as FileRow
from ..errors import InputError, refuse_unknown, spelt
from ..models import auto
from ..models.base import PreTrainedModel
from ..models.drawn import learnt_otherwise
from ..nn.loss import IGNORED
from ..text.auto import AutoTokenizer
from ..text.encoding import Row as Encoded
from ..text.inputs import describe
from ..text.options import one_of
from ..text.tokenizer import PreTrainedTokenizer
from .batch import Batch, Example, label_tensor, padded
from .options import Options
from .registry import task_class

log = logging.getLogger("glassformer")

Row = dict[str, Any]
SPARE = 256  # rows that a model may have beyond its tokenizer's tokens: sizes are rounded up
SomeTask = TypeVar("SomeTask", bound="Task")


@dataclass(frozen=True)
class Columns:
    """The columns of a row: those it must have, those it may have, and what training and evaluation need beside."""

    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()  # those that hold a list of texts, and not one text

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.needed, *self.optional, *self.targets)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.needed, *self.optional)


class Task:
    """What all tasks share. A task adds what it reads, what it asks the model, and what it makes of the outputs."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    head: ClassVar[str]  # the Auto class that loads its model
    columns: ClassVar[Columns]
    Options: ClassVar[type[Options]] = Options
    taught_by: ClassVar[str | None] = None  # the task whose rows teach it, if not its own
    unwraps_one: ClassVar[bool] = False  # a list of one row is answered as the row alone
    needs_special_tokens: ClassVar[bool] = False  # texts of files keep theirs too
    nested_options: ClassVar[str | None] = None  # a dictionary of options that people pass under this name
    written_columns: ClassVar[tuple[str, ...]] = ()  # texts that the model writes, with words of its vocabulary too
    label_smoothing: float = 0.0  # the share of every target that training spreads over all labels
    label_weights: Tensor | None = None  # how much each label counts in training; None: all the same

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizer, **options: Any) -> None:
        if self.head == "AutoModel" and model.config.is_encoder_decoder:
            raise InputError(f"{self.name} takes a model that reads one text; {type(model).__name__} writes another")
        self.model = model
        self.tokenizer = tokenizer
        self.kept: dict[str, Any] = {}  # what is worked out once, for all copies of the task
        self.options: Any = self.Options()
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

    @classmethod
    def new_config(cls, tokenizer: PreTrainedTokenizer) -> dict[str, Any]:
        """What the config of a new model must say to go with a tokenizer."""
        ids = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
        return {"vocab_size": len(tokenizer), **ids}

    def save_tokenizers(self, folder: str | PathLike[str]) -> None:
        """Write what turns texts into ids beside the model, as `from_pretrained` reads it."""
        self.tokenizer.save_pretrained(folder)

    @property
    def smooths_labels(self) -> bool:
        """Whether its loss heeds `label_smoothing`."""
        return False

    @property
    def weighs_labels(self) -> bool:
        """Whether its loss heeds `label_weights`."""
        return False

    @property
    def chooses_labels(self) -> bool:
        """Whether it has `target_logits`, about which a teacher can tell something."""
        return False

    # --- options -----------------------------------------------------------------------------------------------

    @classmethod
    def option_names(cls) -> list[str]:
        nested = [] if cls.nested_options is None else [cls.nested_options]
        return [*(spec.name for spec in fields(cls.Options)), *nested]

    def asked(self: SomeTask, **options: Any) -> SomeTask:
        """The same task with other options; the model is shared."""
        options |= options.pop(self.nested_options, None) or {}
        refuse_unknown(options, self.option_names(), self.name)
        task = copy.copy(self)
        task.options = replace(self.options, **options)
        return task

    @property
    def marks_texts(self) -> bool:
        """Whether texts get the special tokens that the tokenizer puts around them."""
        return True

    @property
    def limit(self) -> int:
        """The most tokens that one input of the model may have."""
        return least(
            positions_of(self.model), self.tokenizer.model_max_length, getattr(self.options, "max_length", None)
        )

    @property
    def label_ids(self) -> dict[str, int]:
        """The names of the model's labels, each with its number."""
        return {label: number for number, label in self.model.config.id2label.items()}

    # --- what a user hands in ----------------------------------------------------------------------------------

    def take(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Take a call apart: what is to be answered, and the options."""
        columns = {name: value for name, value in named.items() if name in self.columns.all}
        options = {name: value for name, value in named.items() if name not in columns}
        refuse_unknown(
            options, ["inputs", "batch_size", "progress", *self.columns.all, *self.option_names()], self.name
        )
        if "inputs" in options and not inputs:
            inputs = (options.pop("inputs"),)
        placed = dict(zip(self.columns.needed, inputs, strict=False))
        if len(inputs) + len(columns) > 1 and len(placed) == len(inputs) and placed.keys().isdisjoint(columns):
            columns, inputs = {**placed, **columns}, ()
        if len(inputs) + bool(columns) != 1:
            raise InputError(
                f"{self.name} takes a row, a list of rows, or {' and '.join(self.columns.needed)} by name; "
                f"got {len(inputs)} values" + (f" and {', '.join(columns)}" if columns else "")
            )
        return (inputs[0] if inputs else spread(columns, self.columns.lists)), options

    def is_one(self, given: Any) -> bool:
        """Whether this is one row, and not many."""
        pair = isinstance(given, tuple) and len(self.columns.inputs) > 1
        return isinstance(given, str | Mapping) or (pair and all(isinstance(each, str) for each in given))

    def read(self, given: Any) -> Row:
        """A row from what a user may hand in: a text, a tuple in the order of the columns, or a dictionary."""
        if isinstance(given, str):
            given = (given,)
        if isinstance(given, list | tuple):
            names = self.columns.inputs
            if len(given) > len(names):
                raise InputError(f"{self.name} reads {', '.join(names)}, got {len(given)} values: {describe(given)}")
            given = dict(zip(names, given, strict=False))
        if not isinstance(given, Mapping):
            raise InputError(f"{self.name} reads rows with {', '.join(self.columns.needed)}, got {describe(given)}")
        if isinstance(given, FileRow):
            given = self.renamed(given)
        else:  # a file may hold more columns than one task reads
            refuse_unknown(given, self.columns.all, f"a row of {self.name}")
        row = {name: value for name, value in given.items() if name in self.columns.all}
        for name in self.columns.inputs:
            self.check_column(name, row.get(name))
        self.check_row(row, given)
        return row

    def read_unlabelled(self, given: Any) -> Row:
        """`read` for an answer: what only training and evaluation need is not looked at."""
        if isinstance(given, Mapping) and not given.keys().isdisjoint(self.columns.targets):
            kept = {name: value for name, value in given.items() if name not in self.columns.targets}
            given = given.but(kept) if isinstance(given, FileRow) else kept
        return self.read(given)

    def renamed(self, row: FileRow) -> FileRow:
        """A file's row with the names that this task reads, where it has usual ones in their place."""
        names = usual_names(row, self.columns.inputs)
        if names and "names" not in self.kept:
            self.kept["names"] = names
            told = " and ".join(f"{theirs!r} as {ours}" for theirs, ours in names.items())
            log.warning("%s has no column text: %s reads %s", row.file, self.name, told)
        return row.but({names.get(name, name): value for name, value in row.items()}) if names else row

    def check_row(self, row: Row, given: Mapping[str, Any]) -> None:
        """Refuse a row that lacks something."""
        for name in self.columns.needed:
            if row.get(name) is None:
                held = ", ".join(map(str, given)) or "nothing"
                hint = ""
                if isinstance(given, FileRow) and given:
                    close = difflib.get_close_matches(name, map(str, given.keys() - {*self.columns.all}), n=1)
                    column = spelt("column", name, close[0] if close else "...", file=given.file)
                    hint = f"; say which of them it is: {column}"
                raise InputError(f"{self.name} needs {name}; the row has {held}{hint}")

    def check_column(self, name: str, value: Any) -> None:
        if name in self.columns.lists:
            is_right = isinstance(value, list | tuple) and value and all(isinstance(each, str) for each in value)
            if value is not None and not is_right:
                raise InputError(f"{name} must be a list of one text or more, got {describe(value)}")
        elif value is not None and not isinstance(value, str):
            raise InputError(f"{name} must be a text, got {describe(value)}")

    def encode(self, row: Row) -> list[Example]:
        """The model's inputs for one row; several when a long text is read in windows."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it encodes")

    def encode_all(self, rows: Sequence[Row]) -> list[list[Example]]:
        """`encode` for many rows, where a task has a quicker way for them together."""
        return [self.encode(row) for row in rows]

    # --- rows to tensors ---------------------------------------------------------------------------------------

    def fit(self, text: Any, pair: str | None = None, *, cut: bool | str = False, words: bool = False) -> Encoded:
        """One text or pair as the model's input: cut when that is asked for, refused when it is too long."""
        return self.fit_all([text], None if pair is None else [pair], cut=cut, words=words)[0]

    def fit_all(
        self, texts: list[Any], pairs: list[str] | None = None, *, cut: bool | str = False, words: bool = False
    ) -> list[Encoded]:
        """Texts or pairs as the model's inputs."""
        encodings = self.tokenizer(
            texts,
            pairs,
            add_special_tokens=self.marks_texts,
            truncation=cut,
            max_length=self.limit if cut else None,
            is_split_into_words=words,
            split_special_tokens=self.options.split_special_tokens,
            verbose=False,
        ).encodings
        for text, encoded in zip(texts, encodings, strict=True):
            self.check_length(text, encoded)
        return encodings

    def compare_vocabularies(self) -> None:
        """Say that the tokenizer seems to be another model's, whose ids mean other words."""
        known, words = self.model.get_input_embeddings().num_embeddings, len(self.tokenizer)
        if words > known or known - words >= SPARE:
            told = "the tokenizer has %d tokens and the model %d: if they do not belong together, answers are wrong"
            log.warning(told, words, known)

    def tell_cut(self, encoded: Encoded) -> None:
        """Say once that texts are cut, where an answer has no place to say it in."""
        if encoded.truncated and "told" not in self.kept:
            self.kept["told"] = True
            log.warning("a text is longer than %d tokens and is cut, and so may be others after it", self.limit)

    def check_length(self, text: Any, encoded: Encoded) -> None:
        if len(encoded) == 0:
            raise InputError(f"the text {describe(text)} has no tokens to read")
        if len(encoded) > self.limit:
            raise InputError(
                f"a text has {len(encoded)} tokens and the model takes {self.limit}; pass "
                f"{spelt('option', 'truncation', True)} to cut it, which is then told"
            )

    def windows(
        self, text: Any, pair: str | None = None, *, limit: int, stride: int, cut: str = "longest_first", words=False
    ) -> list[Encoded]:
        """A text, or the second of a pair, in windows of at most `limit` tokens that overlap by `stride`."""
        encoded = self.tokenizer(
            text,
            pair,
            truncation=cut,
            max_length=limit,
            stride=stride,
            is_split_into_words=words,
            return_overflowing_tokens=True,
            split_special_tokens=self.options.split_special_tokens,
            verbose=False,
        ).encodings
        if len(encoded[0]) == 0:
            raise InputError(f"the text {describe(text)} has no tokens to read")
        return encoded

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

    def count_targets(self, batch: Batch) -> int:
        """How many values a summed loss is the sum of."""
        return sum(int((labels != IGNORED).sum()) for labels in batch.labels.values())

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

    # --- training and evaluation -------------------------------------------------------------------------------

    def pieces(self, rows: Sequence[Any], learning: bool = True) -> Sequence[Any]:
        """What is learnt from, and counted as rows: the rows themselves, or pieces of the text of all of them."""
        return rows

    def may_begin(self, row: Any) -> bool:
        """Whether rows that are read together may begin with this one, or it belongs to the one before it."""
        return True

    def learn_from(self, row: Any, seed: Sequence[int]) -> list[Example]:
        """What one of `pieces` teaches. What is drawn at random depends on `seed` alone: of the run, epoch and row."""
        return self.encode(self.read(row))

    def loss(self, model: nn.Module, batch: Batch, reduction: str = "sum") -> Tensor:
        """What training makes small: the "sum" over `batch.targets_count` values, or their "mean"."""
        one_of("reduction", reduction, ("sum", "mean"))
        if not batch.labels:
            wanted = ", ".join(self.columns.targets)
            raise InputError(f"{self.name} learns from rows with {wanted}" if wanted else f"{self.name} is not trained")
        total = self.summed_loss(model, batch)
        return total if reduction == "sum" else total / batch.targets_count

    def summed_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return self.loss_of(self.target_logits(model, batch), batch)

    def target_logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """The scores that the loss judges: a row for each target, or the same number of rows for each."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it learns")

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        """The loss of `target_logits`, summed over targets."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it learns")

    def tally(self, model: nn.Module, batch: Batch) -> dict[str, float]:
        """What evaluation sums over all batches: the loss, how many values it is the sum of, and what `rates` needs."""
        return {"loss": float(self.loss(model, batch, reduction="sum")), "targets": batch.targets_count}

    @property
    def rate_names(self) -> tuple[str, ...]:
        """The names of what `rates` tells."""
        return ()

    def rates(self, sums: Mapping[str, float]) -> dict[str, float]:
        """What the sums of `tally` over all batches tell beside the mean loss."""
        return {}

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of what `metric` reports, the first of them the one to choose by."""
        return ()

    def predict(self, row: Row, examples: Sequence[Example], outputs: Sequence[Any]) -> Any:
        """What evaluation holds against `reference(row)`."""
        raise NotImplementedError(f"{type(self).__name__} is not evaluated")

    def reference(self, row: Row) -> Any:
        """The right prediction, as the row tells it."""
        raise NotImplementedError(f"{type(self).__name__} is not evaluated")

    def metric(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """How good predictions are: a number for each name in `metrics`."""
        raise NotImplementedError(f"{type(self).__name__} is not evaluated")

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
        told = f"{where} has no trained {', '.join(drawn)}"
        if not model.is_loaded:
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


def positions_of(model: PreTrainedModel) -> int | None:
    """How many positions a model has, None if it does not count them."""
    return getattr(model.config, "max_position_embeddings", None)


def least(*limits: int | None) -> int:
    """The smallest of several limits, of which some may not be set."""
    return min(limit for limit in limits if limit is not None)


def spread(columns: Row, lists: Sequence[str]) -> Row | list[Row]:
    """Columns given by name as a row; as rows when some are lists, with what is no list repeated in each."""
    many = {
        name: len(value)
        for name, value in columns.items()
        if isinstance(value, list) and (name not in lists or (value and all(isinstance(each, list) for each in value)))
    }
    if not many:
        return columns
    if len(set(many.values())) > 1:
        counts = ", ".join(f"{count} of {name}" for name, count in many.items())
        raise InputError(f"columns given as lists must be equally long, got {counts}")
    return [
        {name: value[i] if name in many else value for name, value in columns.items()}
        for i in range(next(iter(many.values())))
    ]
