"""fill-mask: the most likely tokens at the masks of a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...data.masking import SPACES
from ...errors import InputError
from ...nn.loss import IGNORED, summed_label_loss
from ...text.base.text_inputs import describe
from ..batch import Batch, Example, truncation_note, vectors_at
from ..inputs import Columns, Row
from ..task_options import TruncationOptions, check_at_least, check_bool, check_texts
from ..text_task import TextTask


@dataclass(frozen=True, kw_only=True)
class FillMaskOptions(TruncationOptions):
    """Options for the words in an answer.

    Attributes:
        top_k: How many words are returned for each mask.
        targets: Rank only these words; their scores do not change.
        whole_words: Return no pieces of words such as "##ing", no punctuation and no special tokens.
    """

    top_k: int = 5
    targets: str | Sequence[str] | None = None
    whole_words: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least("top_k", self.top_k)
        check_bool("whole_words", self.whole_words)
        if self.targets is not None and not isinstance(self.targets, str):
            check_texts("targets", self.targets)


class FillMask(TextTask):
    """Predict masked tokens.

    >>> pipe = pipeline("fill-mask", model="./bert-base-uncased/")           # doctest: +SKIP
    >>> pipe("The cat sat on the [MASK].", top_k=1)                          # doctest: +SKIP
    [{'score': 0.33, 'token': 2723, 'token_str': 'floor', 'sequence': 'the cat sat on the floor.'}]

    A text with several masks returns one list for each of them.
    """

    name = "fill-mask"
    head = "masked-lm"
    trained_as = "masked-language-modeling"
    columns = Columns(("text",), (), ("words",), target_texts=("words",))
    Options = FillMaskOptions
    nested_options = "tokenizer_kwargs"
    unwraps_one = True
    needs_special_tokens = True
    supports_label_smoothing = supports_distillation = True

    # --- rows to tensors ---------------------------------------------------------------------------------------

    @property
    def mask_id(self) -> int:
        if self.tokenizer.mask_token is None:
            raise InputError("fill-mask needs a mask token, and this tokenizer has none")
        return self.tokenizer.mask_token_id

    def encode(self, row: Row) -> list[Example]:
        encoded = self.encode_text(row["text"], truncation=self.options.truncation_strategy)
        ids = encoded.ids()
        masks = ids.count(self.mask_id)
        if not masks:
            where = " in the part that was not truncated" if encoded.truncated else ""
            raise InputError(f"the text has no {self.tokenizer.mask_token}{where}: {row['text']!r:.60}")
        if row.get("words") is None:
            return [Example(encoded)]
        words = iter(self.word_ids(row["words"], masks))
        return [Example(encoded, {"labels": [next(words) if i == self.mask_id else IGNORED for i in ids]})]

    def word_ids(self, words: Any, masks: int) -> list[int]:
        """The correct tokens according to a row, one for each mask."""
        if isinstance(words, str):
            words = [words]
        if not isinstance(words, list | tuple) or len(words) != masks:
            raise InputError(f"words must be a list with one word for each mask, {masks} in all, got {describe(words)}")
        return [self.word_id(word) for word in words]

    def word_id(self, word: str) -> int:
        """The id of a word that is a single token, as a mask is."""
        vocabulary = self.tokenizer.get_vocab()
        if word in vocabulary:
            return vocabulary[word]
        tokens = self.tokenizer.tokenize(word)
        if len(tokens) == 1 and tokens[0] != self.tokenizer.unk_token:
            return vocabulary[tokens[0]]
        reason = f"is {len(tokens)} tokens ({' '.join(tokens)})" if len(tokens) > 1 else "is not in the vocabulary"
        raise InputError(f"{word!r} {reason}, and a mask stands for one token of the vocabulary")

    def training_examples(self, row: Any, seed: Sequence[int]) -> list[Example]:
        read = self.read(row)
        if read.get("words") is None:
            hint = "one for each mask of the text; masked-language-modeling is trained on plain text"
            raise InputError(f"{self.name} is trained on rows with words, {hint}")
        return self.encode(read)

    # --- tensors to answers ------------------------------------------------------------------------------------

    def masked_logits(self, model: nn.Module, batch: Batch, selected: Tensor) -> tuple[Tensor, Tensor]:
        """The logits of the vocabulary where `selected` (B T) is true, M V, and the indices of these rows in B T.

        Only these are computed: a vocabulary is many times wider than a model.
        """
        states, indices = vectors_at(model.base_model.encode(**batch.inputs), selected)
        return model.word_logits(states), indices

    def outputs(self, model: nn.Module, batch: Batch) -> tuple[Tensor, ...]:
        """`masked_logits` at the targets, or without targets at the masks."""
        if batch.labels:
            return self.masked_logits(model, batch, batch.labels["labels"] != IGNORED)
        masks = batch.inputs["input_ids"] == self.mask_id
        return self.masked_logits(model, batch, masks & batch.inputs["attention_mask"].bool())

    def split(self, outputs: tuple[Tensor, ...], batch: Batch) -> list[Tensor]:
        (logits, indices), ids = outputs, batch.inputs["input_ids"]
        counts = torch.bincount(indices // ids.shape[1], minlength=len(ids)).tolist()
        return list(logits.float().cpu().split(counts))  # masks V, for each example

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> Any:
        encoded = examples[0].encoded
        ids = encoded.ids()
        masks = [position for position, token in enumerate(ids) if token == self.mask_id]
        note = truncation_note(examples)
        candidates = self.candidates()
        answers = []
        for position, scores in zip(masks, outputs[0].softmax(-1), strict=True):
            considered = scores if candidates is None else scores[candidates]
            values, tokens = considered.topk(min(self.options.top_k, len(considered)))
            tokens = tokens if candidates is None else candidates[tokens]
            answers.append(
                [
                    {"score": value, **self.fill(ids, position, token, is_only=len(masks) == 1), **note}
                    for value, token in zip(values.tolist(), tokens.tolist(), strict=True)
                ]
            )
        return answers[0] if len(answers) == 1 else answers

    def fill(self, ids: list[int], position: int, token: int, is_only: bool) -> dict[str, Any]:
        """The text with one mask filled; other masks stay visible."""
        sequence = self.tokenizer.decode([*ids[:position], token, *ids[position + 1 :]], skip_special_tokens=is_only)
        return {"token": token, "token_str": self.tokenizer.decode([token]), "sequence": sequence}

    def candidates(self) -> Tensor | None:
        """The tokens that may be returned, None for all."""
        targets = self.options.targets
        if targets is not None:
            targets = [targets] if isinstance(targets, str) else targets
            return torch.tensor(sorted({self.word_id(target) for target in targets}))
        if not self.options.whole_words:
            return None
        if "whole_words" not in self.cache:
            size = self.model.config.vocab_size
            self.cache["whole_words"] = torch.tensor([i for i in whole_words(self.tokenizer.get_vocab()) if i < size])
        return self.cache["whole_words"]

    # --- training and evaluation -------------------------------------------------------------------------------

    def target_logits(self, outputs: tuple[Tensor, ...], batch: Batch) -> Tensor:
        return outputs[0]  # targets V

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        labels = batch.labels["labels"]
        labels = labels[labels != IGNORED]
        return summed_label_loss(logits, labels, label_smoothing=self.label_smoothing)

    @property
    def metric_names(self) -> tuple[str, ...]:
        return ("accuracy",)

    def predict(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> list[int]:
        return outputs[0].argmax(-1).tolist()

    def reference(self, row: Row) -> list[int]:
        return self.word_ids(row["words"], 1 if isinstance(row["words"], str) else len(row["words"]))

    def compute_metrics(self, predictions: Sequence[list[int]], references: Sequence[list[int]]) -> dict[str, float]:
        pairs = [pair for each in zip(predictions, references, strict=True) for pair in zip(*each, strict=True)]
        return {"accuracy": sum(predicted == correct for predicted, correct in pairs) / max(1, len(pairs))}

    def describe_prediction(self, row: Row, prediction: list[int]) -> str:
        return ", ".join(self.tokenizer.decode([token]) for token in prediction)

    def select_outputs(self, outputs: tuple[Tensor, ...], batch: Batch, examples: Sequence[int]) -> tuple[Tensor, ...]:
        logits, indices = outputs
        chosen = torch.tensor(list(examples), device=indices.device)
        mine = torch.isin(indices // batch.inputs["input_ids"].shape[1], chosen)
        return logits[mine], indices[mine]


def whole_words(vocabulary: Mapping[str, int]) -> list[int]:
    """The ids of tokens that are complete words: no subwords, no punctuation, nothing in brackets."""
    is_wordpiece = any(token.startswith("##") for token in vocabulary)
    marks = (mark for mark in SPACES if any(token.startswith(mark) for token in vocabulary))
    space = "" if is_wordpiece else next(marks, "")
    return sorted(
        number
        for token, number in vocabulary.items()
        if token.startswith(space)
        and not token.startswith(("##", "[", "<"))
        and any(character.isalnum() for character in token.removeprefix(space))
    )
