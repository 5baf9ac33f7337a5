"""token-classification: a label for each token, and the entities that labels of neighbours form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..data.labels import find_label
from ..errors import InputError, nearest
from ..nn.loss import IGNORED, summed_label_loss
from ..text.base.encoding_options import check_whole_number, one_of
from ..text.base.text_inputs import describe
from .batch import Batch, Example
from .inputs import Columns, Row
from .metrics import begins, entity_scores, split_tag
from .task_options import TextOptions, switch
from .text_task import TextTask

STRATEGIES = ("none", "simple", "first", "average", "max")
OUTSIDE = "O"


@dataclass(frozen=True, kw_only=True)
class TokenClassificationOptions(TextOptions):
    aggregation_strategy: str = "none"  # how tokens become entities; the last three never cut through a word
    ignore_labels: Sequence[str] = (OUTSIDE,)
    stride: int | None = None  # tokens that the windows of a long text share; None for a quarter of a window
    is_split_into_words: bool = False  # a list of texts is one row, given as its words
    delimiter: str | None = None  # what stands between such words in the text that offsets count in; None is a space

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("aggregation_strategy", self.aggregation_strategy, STRATEGIES)
        switch("is_split_into_words", self.is_split_into_words)
        if self.stride is not None:
            check_whole_number("stride", self.stride, 0)
        if isinstance(self.ignore_labels, str) or not isinstance(self.ignore_labels, Sequence):
            raise InputError(f"ignore_labels must be a list of labels, got {self.ignore_labels!r}")


class Token(NamedTuple):
    """A token of the text with what the model says of it."""

    word: str
    scores: Tensor
    start: int
    end: int
    index: int
    number: int  # of the word that it is part of


class TokenClassification(TextTask):
    """Which tokens are names, places, parts of speech?

    >>> pipe = pipeline("ner", model="./ner/", aggregation_strategy="simple")         # doctest: +SKIP
    >>> pipe("John lives in New York")                                                # doctest: +SKIP
    [{'entity_group': 'PER', 'score': 0.99, 'word': 'john', 'start': 0, 'end': 4}, ...]
    """

    name = "token-classification"
    aliases = ("ner",)
    head = "token-classification"
    columns = Columns(("text",), ("tokens",), ("tags",), lists=("tokens",))
    predicts_from_encoding = True
    Options = TokenClassificationOptions
    smooths_labels = weighs_labels = chooses_labels = True

    # --- rows to tensors ---------------------------------------------------------------------------------------

    def is_one(self, given: Any) -> bool:
        if isinstance(given, tuple | list) and self.options.is_split_into_words:
            return bool(given) and isinstance(given[0], str)
        return isinstance(given, str | Mapping)

    def read(self, given: Any) -> Row:
        if isinstance(given, list | tuple):
            if not self.options.is_split_into_words:
                raise InputError(
                    f"a row is a text, got {describe(given)}; for a text given as words pass is_split_into_words=True"
                )
            given = {"tokens": list(given)}
        return super().read(given)

    def check_row(self, row: Row, given: Mapping[str, Any]) -> None:
        if (row.get("text") is None) == (row.get("tokens") is None):
            held = ", ".join(map(str, given)) or "nothing"
            raise InputError(f"{self.name} needs either text or tokens; the row has {held}")
        tags = row.get("tags")
        if tags is not None and (row.get("tokens") is None or len(tags) != len(row["tokens"])):
            raise InputError(f"tags need as many tokens, got {len(tags)} and {len(row.get('tokens') or ())}")

    def encode(self, row: Row) -> list[Example]:
        words = row.get("tokens")
        room = self.limit - self.tokenizer.num_special_tokens_to_add()
        stride = room // 4 if self.options.stride is None else self.options.stride
        windows = self.windows(
            row["text"] if words is None else words, limit=self.limit, stride=stride, words=words is not None
        )
        examples = [Example(encoded, window=i) for i, encoded in enumerate(windows)]
        if row.get("tags") is not None:
            seen = 0
            for example in examples:
                example.labels["labels"] = self.targets(example, row["tags"], seen)
                seen = example.encoded.spans[0][1]
        return examples

    def targets(self, example: Example, tags: Sequence[str], seen: int) -> list[int]:
        """The label of every word at its first token; not again where the window before has read it already."""
        labels = []
        place = example.encoded.spans[0][0]  # counted in the tokens of the whole text
        before = example.encoded.texts[0].words[place - 1] if place else None
        for word in example.encoded.words():
            if word is None:
                labels.append(IGNORED)
                continue
            labels.append(self.tag_id(tags[word]) if word != before and place >= seen else IGNORED)
            before, place = word, place + 1
        return labels

    def tag_id(self, tag: Any) -> int:
        names = self.label_ids
        number = find_label(tag, names)
        if number is None:
            raise InputError(f"tag {tag!r} is not one of {', '.join(list(names)[:20])}{nearest(str(tag), names)}")
        return number

    # --- tensors to answers ------------------------------------------------------------------------------------

    def split(self, outputs: Tensor, batch: Batch) -> list[Tensor]:
        return batch.by_length(outputs.float())  # each T L

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> list[dict[str, Any]]:
        text, starts = self.joined(row)
        found = []
        for example, logits in zip(examples, outputs, strict=True):
            entities = self.entities(list(self.tokens(example, logits.softmax(-1), text, starts)))
            window = {"window": example.window} if len(examples) > 1 else {}
            found += [
                {**entity, **window}
                for entity in entities
                if entity.get("entity", entity.get("entity_group")) not in self.options.ignore_labels
            ]
        return without_overlaps(found) if len(examples) > 1 else found

    def joined(self, row: Row) -> tuple[str, list[int] | None]:
        """The text that offsets count in, and where each of its words starts if it was given as words."""
        words = row.get("tokens")
        if words is None:
            return row["text"], None
        delimiter = " " if self.options.delimiter is None else self.options.delimiter
        starts, place = [], 0
        for word in words:
            starts.append(place)
            place += len(word) + len(delimiter)
        return delimiter.join(words), starts

    def tokens(self, example: Example, scores: Tensor, text: str, starts: list[int] | None) -> Iterator[Token]:
        encoded = example.encoded
        moved = encoded.spans[0][0]  # tokens of the text before this window
        ids, offsets, words = encoded.ids(), encoded.offsets(), encoded.words()
        special = encoded.special_tokens_mask()
        for place, (token_id, (start, end), word) in enumerate(zip(ids, offsets, words, strict=True)):
            if special[place]:
                continue
            shift = 0 if starts is None else starts[word]
            start, end = start + shift, end + shift
            unknown = self.tokenizer.unk_token is not None and token_id == self.tokenizer.unk_token_id
            name = text[start:end] if unknown else self.tokenizer.convert_ids_to_tokens(token_id)
            yield Token(name, scores[place], start, end, place + moved, word)

    def entities(self, tokens: list[Token]) -> list[dict[str, Any]]:
        """Tokens as the strategy wants them: each alone, or grouped."""
        strategy = self.options.aggregation_strategy
        if strategy in ("none", "simple"):
            tagged = [self.tagged([token], token.scores) for token in tokens]
        else:
            tagged = [self.tagged(word, word_scores(word, strategy)) for word in words_of(tokens)]
        if strategy == "none":
            return [
                {
                    "entity": entity["entity"],
                    "score": entity["score"],
                    "index": token.index,
                    "word": token.word,
                    "start": token.start,
                    "end": token.end,
                }
                for token, entity in zip(tokens, tagged, strict=True)
            ]
        groups: list[list[dict[str, Any]]] = []
        for entity in tagged:
            if groups and not begins(entity["entity"], groups[-1][-1]["entity"]):
                groups[-1].append(entity)
            else:
                groups.append([entity])
        return [self.group(entities) for entities in groups]

    def tagged(self, tokens: list[Token], scores: Tensor) -> dict[str, Any]:
        """One token or word under its best label."""
        best = int(scores.argmax())
        words = [token.word for token in tokens]
        return {
            "entity": self.model.config.id2label[best],
            "score": float(scores[best]),
            "word": self.text_of(words),
            "start": tokens[0].start,
            "end": tokens[-1].end,
        }

    def group(self, entities: list[dict[str, Any]]) -> dict[str, Any]:
        """Neighbours that belong together, as one entity."""
        return {
            "entity_group": split_tag(entities[0]["entity"])[1] or entities[0]["entity"],
            "score": sum(entity["score"] for entity in entities) / len(entities),
            "word": self.text_of([entity["word"] for entity in entities]),
            "start": entities[0]["start"],
            "end": entities[-1]["end"],
        }

    def text_of(self, words: list[str]) -> str:
        """Tokens or words as text, without the spaces that English does not put before punctuation."""
        if len(words) == 1:
            return words[0]
        text = self.tokenizer.convert_tokens_to_string(words)
        for mark in ".?!," if self.tokenizer.clean_up_tokenization_spaces else "":
            text = text.replace(f" {mark}", mark)
        return text

    # --- training and evaluation -------------------------------------------------------------------------------

    def target_logits(self, outputs: Tensor, batch: Batch) -> Tensor:
        return outputs[batch.labels["labels"] != IGNORED]  # targets L

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        labels = batch.labels["labels"]
        return summed_label_loss(logits, labels[labels != IGNORED], self.label_weights, self.label_smoothing)

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("f1", "precision", "recall", "accuracy")

    def predict(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> list[str]:
        """The tag of every word, told by its first token in the window where most text stands around it."""
        names = self.model.config.id2label
        default = OUTSIDE if OUTSIDE in names.values() else names[0]
        found: dict[int, tuple[int, str]] = {}
        for example, logits in zip(examples, outputs, strict=True):
            best, words = logits.argmax(-1).tolist(), example.encoded.words()
            for place, word in enumerate(words):
                if word is None or word == words[place - 1]:
                    continue
                around = min(place, len(words) - 1 - place)
                if word not in found or around > found[word][0]:
                    found[word] = (around, names[best[place]])
        count = len(row["tokens"]) if row.get("tokens") is not None else max(found, default=-1) + 1
        return [found[word][1] if word in found else default for word in range(count)]

    def reference(self, row: Row) -> list[str]:
        return [self.model.config.id2label[self.tag_id(tag)] for tag in row["tags"]]

    def metric(self, predictions: Sequence[list[str]], references: Sequence[list[str]]) -> dict[str, float]:
        return entity_scores(predictions, references)


def words_of(tokens: list[Token]) -> list[list[Token]]:
    """Tokens, those of a word together."""
    words: list[list[Token]] = []
    for token in tokens:
        if words and token.number == words[-1][-1].number:
            words[-1].append(token)
        else:
            words.append([token])
    return words


def word_scores(word: list[Token], strategy: str) -> Tensor:
    """The scores of a word: its first token's, its surest token's, or the mean over its tokens."""
    if strategy == "first":
        return word[0].scores
    if strategy == "max":
        return max(word, key=lambda token: float(token.scores.max())).scores
    return torch.stack([token.scores for token in word]).mean(0)


def without_overlaps(entities: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of entities that windows found at the same place, the longest, and of equally long ones the surest."""
    kept: list[dict[str, Any]] = []
    for entity in sorted(entities, key=lambda each: each["start"]):
        if not kept or entity["start"] >= kept[-1]["end"]:
            kept.append(entity)
            continue
        last = kept[-1]
        size, last_size = entity["end"] - entity["start"], last["end"] - last["start"]
        if (size, entity["score"]) > (last_size, last["score"]):
            kept[-1] = entity
    return kept
