"""zero-shot-classification: labels that the model was never trained on, by a head trained on entailment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, spelt
from ..models.base.pretrained_model import PreTrainedModel
from ..text.tokenizer import PreTrainedTokenizer
from .batch import Example, truncation_note
from .inputs import Columns, Row
from .task_options import TruncationOptions, check_bool, check_texts
from .text_task import TextTask


@dataclass(frozen=True, kw_only=True)
class ZeroShotOptions(TruncationOptions):
    """The labels, and the sentence that they are put into.

    Attributes:
        truncation: How a text that is too long is cut: "only_first" cuts the text and never the label, and the
            answer reports it.
        candidate_labels: The labels to choose from: a list, or words with commas between them.
        hypothesis_template: The sentence that a label makes, with {} in its place.
        multi_label: Whether several labels may be true at once.
    """

    truncation: bool | str = "only_first"
    candidate_labels: str | Sequence[str] | None = None
    hypothesis_template: str = "This example is {}."
    multi_label: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bool("multi_label", self.multi_label)
        if self.candidate_labels is not None:
            check_texts("candidate_labels", self.labels)
        try:
            is_filled = self.hypothesis_template.format("x") != self.hypothesis_template
        except (AttributeError, IndexError, KeyError, ValueError):
            is_filled = False
        if not is_filled:
            raise InputError(
                f"hypothesis_template must hold {{}} where the label goes, got {self.hypothesis_template!r}"
            )

    @property
    def labels(self) -> list[str]:
        given = self.candidate_labels
        if isinstance(given, str):
            return [label.strip() for label in given.split(",") if label.strip()]
        return list(given) if isinstance(given, list | tuple) else given


class ZeroShotClassification(TextTask):
    """Classify texts by any given labels.

    >>> pipe = pipeline("zero-shot-classification", model="./mnli/")                     # doctest: +SKIP
    >>> pipe("The team won the cup.", candidate_labels=["sports", "politics"])           # doctest: +SKIP
    {'sequence': 'The team won the cup.', 'labels': ['sports', 'politics'], 'scores': [0.98, 0.02]}
    """

    name = "zero-shot-classification"
    head = "sequence-classification"
    trained_as = "text-classification"
    columns = Columns(("text",))
    Options = ZeroShotOptions

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizer, **options: Any) -> None:
        super().__init__(model, tokenizer, **options)
        self.entailment_label_ids()  # a model without entailment labels raises now, and not at the first text

    def parse_call(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        named = dict(named)
        if not inputs and "sequences" in named:
            inputs = (named.pop("sequences"),)
        if len(inputs) == 2 and "candidate_labels" not in named:
            inputs, named["candidate_labels"] = inputs[:1], inputs[1]
        return super().parse_call(inputs, named)

    def encode(self, row: Row) -> list[Example]:
        if self.options.candidate_labels is None:
            how = spelt("option", "candidate_labels", "sports,politics")
            raise InputError(f"zero-shot-classification needs candidate_labels, the labels to choose from: {how}")
        hypotheses = [self.options.hypothesis_template.format(label) for label in self.options.labels]
        return [
            Example(self.encode_text(row["text"], hypothesis, truncation=self.options.truncation_strategy), window=i)
            for i, hypothesis in enumerate(hypotheses)
        ]

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> dict[str, Any]:
        entailment, contradiction = self.entailment_label_ids()
        logits = torch.stack(list(outputs))  # labels L
        labels = self.options.labels
        if self.options.multi_label or len(labels) == 1:
            scores = logits[:, [contradiction, entailment]].softmax(-1)[:, 1]
        else:
            scores = logits[:, entailment].softmax(-1)
        best = scores.argsort(descending=True).tolist()
        return {
            "sequence": row["text"],
            "labels": [labels[i] for i in best],
            "scores": scores[best].tolist(),
            **truncation_note(examples),
        }

    def entailment_label_ids(self) -> tuple[int, int]:
        """The ids of the labels for entailment and contradiction."""
        names = {label.lower(): number for label, number in self.label_ids.items()}
        entailment = next((number for label, number in names.items() if label.startswith("entail")), None)
        if entailment is None or len(names) < 2:
            raise InputError(
                "zero-shot-classification needs a model trained on entailment: one of its labels must begin with "
                f"'entail', and they are {', '.join(self.label_ids)}"
            )
        contradiction = next((number for label, number in names.items() if label.startswith("contradict")), None)
        if contradiction is None:  # such as "not_entailment"
            contradiction = max(names.values()) if entailment == 0 else 0
        return entailment, contradiction
