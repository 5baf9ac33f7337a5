"""The tags of a row as one decision: a conditional random field over its words, or decoding by the tags' scheme alone.

A chain is made of the words of a row, each judged by its first token, through all windows of a long text.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from ..errors import GlassformerError, InputError
from ..models.base.heads import ForTokenClassification
from ..models.base.pretrained_model import PreTrainedModel
from ..models.base.tag_schemes import allowed_paths, first_break
from ..nn.crf import AllowedPaths, PathScores, best_paths, crf_losses, marginals
from ..nn.loss import IGNORED
from ..text.tokenizer import PreTrainedTokenizer
from .batch import Batch, Example, examples_per_row
from .objectives import LOSS, Objective
from .text_task import TextTask

log = logging.getLogger("glassformer")

KINDS = (None, True, False, "constrained", "unconstrained")  # of the option `crf`; True is "constrained"
SomeTask = TypeVar("SomeTask", bound="TagSequences")


class TagScores(NamedTuple):
    """The outputs of a model with a conditional random field: the emissions, and what it adds to them."""

    logits: Tensor  # B T L of a batch, T L of an example
    scores: PathScores


class DecodedTags(NamedTuple):
    """The tags of a row's words."""

    best: list[int]  # the most probable sequence
    probabilities: Tensor  # W L: of every tag at every word, all sequences considered


class TagSequences(TextTask):
    """The part of token classification that looks at more than one tag at a time."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizer, **options: Any) -> None:
        crf = options.pop("crf", None)
        super().__init__(model, tokenizer, **options)
        self.options = replace(self.options, crf=crf)  # checks its value
        if crf and model.config.crf is None:
            if not isinstance(model, ForTokenClassification):
                raise InputError(f"crf is for the package's own token classifiers, and {type(model).__name__} is none")
            model.add_crf(crf)
        elif crf is None and model.config.crf is None and "crf.transitions" in model.load_report.unused:
            raise InputError(
                f"{model.config.name_or_path} has the weights of a conditional random field, and its config.json does "
                "not say of which kind: load it with crf='constrained', crf='unconstrained', or without it, crf=False"
            )
        self.options = self.with_options().options

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
        if options.get("crf") is not None:
            model_arguments = {**(model_arguments or {}), "crf": options["crf"]}
        return super().from_pretrained(name_or_path, tokenizer, hub=hub, model_arguments=model_arguments, **options)

    def with_options(self: SomeTask, **options: Any) -> SomeTask:
        task = super().with_options(**options)
        given, present = task.options.crf, task.model.config.crf
        if given is not None and (present is None if given is True else present != (given or None)):
            raise InputError(
                f"crf is {given!r}, and that of the model is {present!r}: give it where the model is loaded"
            )
        if task.options.constrained_decoding and task.allowed_paths is None:
            names = ", ".join(list(task.label_ids)[:20])
            raise InputError(
                f"constrained_decoding needs tags of a scheme such as BIO or BMES, and the labels are {names}"
            )
        strategy = task.options.aggregation_strategy
        if task.decodes_together and strategy in ("average", "max"):
            raise InputError(
                f"aggregation_strategy {strategy!r} combines all tokens of a word, and sequences of tags are decoded "
                "from the first token of each: it must be 'none', 'simple' or 'first'"
            )
        return task

    @property
    def decodes_together(self) -> bool:
        """Whether the tags of a row are one decision, and not one for each token."""
        return self.model.config.crf is not None or self.options.constrained_decoding

    @property
    def allowed_paths(self) -> AllowedPaths | None:
        """Which sequences of tags are possible; None if they are not constrained."""
        if self.model.config.crf != "constrained" and not self.options.constrained_decoding:
            return None
        return allowed_paths(self.tags)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags in the order of the model's labels."""
        return tuple(self.model.config.id2label[i] for i in range(self.model.config.num_labels))

    # --- training ----------------------------------------------------------------------------------------------

    @property
    def supports_label_smoothing(self) -> bool:
        return self.model.config.crf is None

    supports_class_weights = supports_distillation = supports_label_smoothing

    @property
    def title(self) -> str:
        return self.name if self.model.config.crf is None else f"{self.name} with a conditional random field"

    def prepare_rows(self, rows: Sequence[Any], training: bool = True) -> Sequence[Any]:
        if training and self.model.config.crf == "constrained":
            self.report_broken_tags(rows)
        return rows

    def report_broken_tags(self, rows: Sequence[Any]) -> None:
        """Warn of rows whose tags the constraints exclude."""
        broken: list[tuple[Any, tuple[str, str]]] = []
        for number, given in enumerate(rows):
            try:
                row = self.read(given)
                tags = self.reference(row) if row.get("tags") is not None else []
            except GlassformerError:
                continue  # reported, with its place, when it is encoded
            found = first_break(tags, self.tags)
            if found is not None:
                broken.append((getattr(given, "place", f"row {number}"), found))
        if broken:
            place, (before, tag) = broken[0]
            self.warn_once(
                "broken tags",
                "in %d of %d rows the tags break their scheme, the first in %s: %s after %s. Their loss is computed "
                "without the constraints; if your tags are like that, crf='unconstrained' has none",
                *(len(broken), len(rows), place, tag, before),
            )

    def outputs(self, model: nn.Module, batch: Batch) -> Tensor | TagScores:
        logits = super().outputs(model, batch)
        return logits if self.model.config.crf is None else TagScores(logits, model.path_scores())

    def objectives_of(self, outputs: Any, batch: Batch) -> dict[str, Objective]:
        if not isinstance(outputs, TagScores):
            return super().objectives_of(outputs, batch)
        labels = batch.labels["labels"]  # B T
        counted = labels != IGNORED
        per_row = counted.sum(1).cpu().split(examples_per_row(batch.examples))
        lengths = [int(windows.sum()) for windows in per_row]
        allowed = allowed_paths(self.tags) if self.model.config.crf == "constrained" else None
        losses = crf_losses(outputs.logits[counted], labels[counted], lengths, outputs.scores, allowed)
        return {LOSS: Objective(losses.sum(), batch.targets_count)}

    def select_outputs(self, outputs: Any, batch: Batch, examples: Sequence[int]) -> Any:
        if not isinstance(outputs, TagScores):
            return super().select_outputs(outputs, batch, examples)
        return outputs._replace(logits=outputs.logits[list(examples)])

    # --- decoding ----------------------------------------------------------------------------------------------

    def split(self, outputs: Tensor | TagScores, batch: Batch) -> list[Any]:
        if not isinstance(outputs, TagScores):
            return batch.unpad(outputs.float())  # each T L
        scores = PathScores(*(each.cpu() for each in outputs.scores))
        return [TagScores(logits, scores) for logits in batch.unpad(outputs.logits.float())]

    def decode(self, examples: Sequence[Example], outputs: Sequence[Tensor | TagScores], words: int) -> DecodedTags:
        """The tags of the words of a row, from the outputs of its windows. A word without a token says nothing."""
        logits = list(map(logits_of, outputs))
        emissions = torch.zeros(words, len(self.tags))  # W L
        for word, (window, position) in positions_of_words(examples).items():
            emissions[word] = logits[window][position]
        first = outputs[0]
        scores = first.scores if isinstance(first, TagScores) else PathScores.zero(len(self.tags))
        scores = scores.within(self.allowed_paths)
        return DecodedTags(best_paths(emissions, [words], scores).tolist(), marginals(emissions, [words], scores))


def logits_of(output: Tensor | TagScores) -> Tensor:
    return output.logits if isinstance(output, TagScores) else output


def positions_of_words(examples: Sequence[Example]) -> dict[int, tuple[int, int]]:
    """Where each word is read: the window with the most context around its first token, and the position in it."""
    found: dict[int, tuple[int, int, int]] = {}
    for window, example in enumerate(examples):
        words = example.encoded.words()
        for position, word in enumerate(words):
            if word is None or word == words[position - 1]:
                continue
            context = min(position, len(words) - 1 - position)
            if word not in found or context > found[word][0]:
                found[word] = (context, window, position)
    return {word: (window, position) for word, (_, window, position) in found.items()}
