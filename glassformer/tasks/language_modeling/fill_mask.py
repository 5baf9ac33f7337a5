"""fill-mask: which words fit where a text has a mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import InputError
from ...nn.loss import IGNORED, summed_label_loss
from ...text.base.text_inputs import describe
from ..batch import Batch, Example, rows_at, truncation_note
from ..inputs import Columns, Row
from ..task_options import TruncationOptions, some, switch, texts
from ..text_task import TextTask


@dataclass(frozen=True, kw_only=True)
class FillMaskOptions(TruncationOptions):
    top_k: int = 5
    targets: str | Sequence[str] | None = None  # only these words are compared; their scores stay what they are
    whole_words: bool = False  # no pieces such as "##ing", no punctuation, no special tokens

    def __post_init__(self) -> None:
        super().__post_init__()
        some("top_k", self.top_k)
        switch("whole_words", self.whole_words)
        if self.targets is not None and not isinstance(self.targets, str):
            texts("targets", self.targets)


class FillMask(TextTask):
    """Which word is hidden?

    >>> pipe = pipeline("fill-mask", model="./bert-base-uncased/")           # doctest: +SKIP
    >>> pipe("The cat sat on the [MASK].", top_k=1)                          # doctest: +SKIP
    [{'score': 0.33, 'token': 2723, 'token_str': 'floor', 'sequence': 'the cat sat on the floor.'}]

    A text with several masks is answered by one list for each of them.
    """

    name = "fill-mask"
    head = "masked-lm"
    taught_by = "masked-language-modeling"
    columns = Columns(("text",), (), ("words",))
    Options = FillMaskOptions
    nested_options = "tokenizer_kwargs"
    unwraps_one = True
    needs_special_tokens = True
    smooths_labels = chooses_labels = True

    # --- rows to tensors ---------------------------------------------------------------------------------------

    @property
    def mask_id(self) -> int:
        if self.tokenizer.mask_token is None:
            raise InputError("fill-mask needs a mask token, and this tokenizer has none")
        return self.tokenizer.mask_token_id

    def encode(self, row: Row) -> list[Example]:
        encoded = self.fit(row["text"], cut=self.options.cut)
        ids = encoded.ids()
        masks = ids.count(self.mask_id)
        if not masks:
            why = " in the part that was not cut off" if encoded.truncated else ""
            raise InputError(f"the text has no {self.tokenizer.mask_token}{why}: {row['text']!r:.60}")
        if row.get("words") is None:
            return [Example(encoded)]
        words = iter(self.word_ids(row["words"], masks))
        return [Example(encoded, {"labels": [next(words) if i == self.mask_id else IGNORED for i in ids]})]

    def word_ids(self, words: Any, masks: int) -> list[int]:
        """The tokens that a row says are hidden, one for each mask."""
        if isinstance(words, str):
            words = [words]
        if not isinstance(words, list | tuple) or len(words) != masks:
            raise InputError(f"words must be a list with one word for each mask, {masks} in all, got {describe(words)}")
        return [self.word_id(word) for word in words]

    def word_id(self, word: str) -> int:
        """The one token that stands for a word; a mask cannot hold more."""
        known = self.tokenizer.get_vocab()
        if word in known:
            return known[word]
        pieces = self.tokenizer.tokenize(word)
        if len(pieces) == 1 and pieces[0] != self.tokenizer.unk_token:
            return known[pieces[0]]
        told = f"is {len(pieces)} tokens ({' '.join(pieces)})" if len(pieces) > 1 else "is not in the vocabulary"
        raise InputError(f"{word!r} {told}, and a mask stands for one token of the vocabulary")

    def learn_from(self, row: Any, seed: Sequence[int]) -> list[Example]:
        read = self.read(row)
        if read.get("words") is None:
            told = "one for each mask of the text; masked-language-modeling learns from plain text"
            raise InputError(f"{self.name} learns from rows with words, {told}")
        return self.encode(read)

    # --- tensors to answers ------------------------------------------------------------------------------------

    def masked_logits(self, model: nn.Module, batch: Batch, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """The scores of the vocabulary where `chosen` (B T) is true, M V, and the places of these rows in B T.

        Only these are computed: a vocabulary is many times wider than a model.
        """
        rows, places = rows_at(model.base_model.encode(**batch.inputs), chosen)
        return model.word_logits(rows), places

    def outputs(self, model: nn.Module, batch: Batch) -> tuple[Tensor, ...]:
        """`masked_logits` where there is a word to be learnt, or to be answered."""
        if batch.labels:
            return self.masked_logits(model, batch, batch.labels["labels"] != IGNORED)
        masks = batch.inputs["input_ids"] == self.mask_id
        return self.masked_logits(model, batch, masks & batch.inputs["attention_mask"].bool())

    def split(self, outputs: tuple[Tensor, ...], batch: Batch) -> list[Tensor]:
        (logits, places), ids = outputs, batch.inputs["input_ids"]
        counts = torch.bincount(places // ids.shape[1], minlength=len(ids)).tolist()
        return list(logits.float().cpu().split(counts))  # masks V, for each example

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> Any:
        encoded = examples[0].encoded
        ids = encoded.ids()
        masks = [place for place, token in enumerate(ids) if token == self.mask_id]
        cut = truncation_note(examples)
        choice = self.choice()
        found = []
        for place, scores in zip(masks, outputs[0].softmax(-1), strict=True):
            considered = scores if choice is None else scores[choice]
            values, tokens = considered.topk(min(self.options.top_k, len(considered)))
            tokens = tokens if choice is None else choice[tokens]
            found.append(
                [
                    {"score": value, **self.filled(ids, place, token, alone=len(masks) == 1), **cut}
                    for value, token in zip(values.tolist(), tokens.tolist(), strict=True)
                ]
            )
        return found[0] if len(found) == 1 else found

    def filled(self, ids: list[int], place: int, token: int, alone: bool) -> dict[str, Any]:
        """A text with one mask filled; the other masks stay visible."""
        sequence = self.tokenizer.decode([*ids[:place], token, *ids[place + 1 :]], skip_special_tokens=alone)
        return {"token": token, "token_str": self.tokenizer.decode([token]), "sequence": sequence}

    def choice(self) -> Tensor | None:
        """The tokens that may be answered, None for all."""
        targets = self.options.targets
        if targets is not None:
            targets = [targets] if isinstance(targets, str) else targets
            return torch.tensor(sorted({self.word_id(target) for target in targets}))
        if not self.options.whole_words:
            return None
        if "words" not in self.kept:
            size = self.model.config.vocab_size
            self.kept["words"] = torch.tensor([i for i in whole_words(self.tokenizer.get_vocab()) if i < size])
        return self.kept["words"]

    # --- training and evaluation -------------------------------------------------------------------------------

    def target_logits(self, outputs: tuple[Tensor, ...], batch: Batch) -> Tensor:
        return outputs[0]  # targets V

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        labels = batch.labels["labels"]
        labels = labels[labels != IGNORED]
        return summed_label_loss(logits, labels, label_smoothing=self.label_smoothing)

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("accuracy",)

    def predict(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> list[int]:
        return outputs[0].argmax(-1).tolist()

    def reference(self, row: Row) -> list[int]:
        return self.word_ids(row["words"], 1 if isinstance(row["words"], str) else len(row["words"]))

    def metric(self, predictions: Sequence[list[int]], references: Sequence[list[int]]) -> dict[str, float]:
        pairs = [pair for each in zip(predictions, references, strict=True) for pair in zip(*each, strict=True)]
        return {"accuracy": sum(mine == right for mine, right in pairs) / max(1, len(pairs))}


def whole_words(vocabulary: Mapping[str, int]) -> list[int]:
    """The tokens that are words of their own: no pieces, no punctuation, nothing in brackets."""
    has_pieces = any(token.startswith("##") for token in vocabulary)
    spaced = "" if has_pieces or not any(token.startswith("Ġ") for token in vocabulary) else "Ġ"
    return sorted(
        number
        for token, number in vocabulary.items()
        if token.startswith(spaced)
        and not token.startswith(("##", "[", "<"))
        and any(letter.isalnum() for letter in token.removeprefix(spaced))
    )
