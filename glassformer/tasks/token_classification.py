"""token-classification: a label for each token, and the entities that adjacent tokens form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..data.labels import find_label
from ..errors import InputError, nearest
from ..nn.loss import IGNORED, summed_label_loss
from ..text.base.encoding_options import check_choice, check_whole_number
from ..text.base.text_inputs import describe
from .batch import Batch, Example
from .breakdown import Breakdown, entity_breakdown
from .inputs import Columns, Row
from .metrics import begins, entities, entity_scores, split_tag
from .tag_sequences import KINDS, TagScores, TagSequences, logits_of, positions_of_words
from .task_options import TextOptions, check_bool

STRATEGIES = ("none", "simple", "first", "average", "max")
OUTSIDE = "O"


@dataclass(frozen=True, kw_only=True)
class TokenClassificationOptions(TextOptions):
    """Options for words, tags and entities.

    Attributes:
        aggregation_strategy: How tokens become entities: "none", "simple", "first", "average" or "max"; the last
            three never split a word.
        ignore_labels: Labels that are left out of answers.
        stride: How many tokens two windows of a long text share; None: a quarter of a window.
        is_split_into_words: A list of texts is one row, given as its words.
        delimiter: What joins such words to the text that offsets refer to; None: a space.
        crf: Give the model a conditional random field over tags where it is loaded: True, False or "unconstrained";
            None keeps what it has.
        constrained_decoding: Answer only with sequences of tags that their scheme allows, also without a CRF.
    """

    aggregation_strategy: str = "none"
    ignore_labels: Sequence[str] = (OUTSIDE,)
    stride: int | None = None
    is_split_into_words: bool = False
    delimiter: str | None = None
    crf: bool | str | None = None
    constrained_decoding: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("aggregation_strategy", self.aggregation_strategy, STRATEGIES)
        check_bool("is_split_into_words", self.is_split_into_words)
        check_bool("constrained_decoding", self.constrained_decoding)
        check_choice("crf", self.crf, KINDS)
        if self.stride is not None:
            check_whole_number("stride", self.stride, 0)
        if isinstance(self.ignore_labels, str) or not isinstance(self.ignore_labels, Sequence):
            raise InputError(f"ignore_labels must be a list of labels, got {self.ignore_labels!r}")


class Token(NamedTuple):
    """A token of the text with the model's scores."""

    word: str
    scores: Tensor
    start: int
    end: int
    index: int
    number: int  # the index of its word


class TokenClassification(TagSequences):
    """Label tokens, for example with named entities or parts of speech.

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

    # --- rows to tensors ---------------------------------------------------------------------------------------

    def is_single_row(self, given: Any) -> bool:
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
            present = ", ".join(map(str, given)) or "nothing"
            raise InputError(f"{self.name} needs either text or tokens; the row has {present}")
        tags = row.get("tags")
        if tags is not None and (row.get("tokens") is None or len(tags) != len(row["tokens"])):
            raise InputError(f"tags need as many tokens, got {len(tags)} and {len(row.get('tokens') or ())}")

    def encode(self, row: Row) -> list[Example]:
        words = row.get("tokens")
        available = self.limit - self.tokenizer.num_special_tokens_to_add()
        stride = available // 4 if self.options.stride is None else self.options.stride
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
        """The label of every word at its first token, ignored where the previous window contains it (before `seen`)."""
        labels = []
        position = example.encoded.spans[0][0]  # counted in the tokens of the entire text
        before = example.encoded.texts[0].words[position - 1] if position else None
        for word in example.encoded.words():
            if word is None:
                labels.append(IGNORED)
                continue
            labels.append(self.tag_id(tags[word]) if word != before and position >= seen else IGNORED)
            before, position = word, position + 1
        return labels

    def tag_id(self, tag: Any) -> int:
        names = self.label_ids
        number = find_label(tag, names)
        if number is None:
            raise InputError(f"tag {tag!r} is not one of {', '.join(list(names)[:20])}{nearest(str(tag), names)}")
        return number

    # --- tensors to answers ------------------------------------------------------------------------------------

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> list[dict[str, Any]]:
        text, starts = self.join_words(row)
        if self.decodes_together:
            return self.answer_together(row, examples, outputs)
        found = []
        for example, logits in zip(examples, outputs, strict=True):
            entities = self.entities(list(self.tokens(example, logits.softmax(-1), text, starts)))
            window = {"window": example.window} if len(examples) > 1 else {}
            found += [{**entity, **window} for entity in entities if not self.is_ignored(entity)]
        return without_overlaps(found) if len(examples) > 1 else found

    def answer_together(
        self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor | TagScores]
    ) -> list[dict[str, Any]]:
        """The same for tags that are decoded together: one for each word, with its marginal probability as score."""
        text, starts = self.join_words(row)
        names, places = self.tags, positions_of_words(examples)
        best, probabilities = self.decode(examples, outputs, max(places, default=-1) + 1)
        tokens = {
            token.index: token
            for example, output in zip(examples, outputs, strict=True)  # windows overlap
            for token in self.tokens(example, logits_of(output), text, starts)
        }
        tagged = []
        for word in group_words([tokens[index] for index in sorted(tokens)]):
            number = word[0].number
            entity = self.entity(word, names[best[number]], float(probabilities[number, best[number]]))
            window = {"window": places[number][0]} if len(examples) > 1 else {}
            tagged.append(({**entity, **window}, word[0].index))
        if self.options.aggregation_strategy == "none":
            order = ("entity", "score", "index", "word", "start", "end", "window")
            entries = [{**entity, "index": index} for entity, index in tagged]
            found = [{name: entry[name] for name in order if name in entry} for entry in entries]
        else:
            found = [self.merge(group) for group in group_entities([entity for entity, _ in tagged])]
        return [entity for entity in found if not self.is_ignored(entity)]

    def is_ignored(self, entity: Mapping[str, Any]) -> bool:
        return entity.get("entity", entity.get("entity_group")) in self.options.ignore_labels

    def join_words(self, row: Row) -> tuple[str, list[int] | None]:
        """The text that offsets refer to, and the start of each of its words if it was given as words."""
        words = row.get("tokens")
        if words is None:
            return row["text"], None
        delimiter = " " if self.options.delimiter is None else self.options.delimiter
        starts, position = [], 0
        for word in words:
            starts.append(position)
            position += len(word) + len(delimiter)
        return delimiter.join(words), starts

    def tokens(self, example: Example, scores: Tensor, text: str, starts: list[int] | None) -> Iterator[Token]:
        encoded = example.encoded
        first = encoded.spans[0][0]  # the number of tokens before this window
        ids, offsets, words = encoded.ids(), encoded.offsets(), encoded.words()
        special = encoded.special_tokens_mask()
        for position, (token_id, (start, end), word) in enumerate(zip(ids, offsets, words, strict=True)):
            if special[position]:
                continue
            shift = 0 if starts is None else starts[word]
            start, end = start + shift, end + shift
            unknown = self.tokenizer.unk_token is not None and token_id == self.tokenizer.unk_token_id
            name = text[start:end] if unknown else self.tokenizer.convert_ids_to_tokens(token_id)
            yield Token(name, scores[position], start, end, first + position, word)

    def entities(self, tokens: list[Token]) -> list[dict[str, Any]]:
        """Tokens aggregated by the strategy: each alone, or grouped."""
        strategy = self.options.aggregation_strategy
        if strategy in ("none", "simple"):
            tagged = [self.best_entity([token], token.scores) for token in tokens]
        else:
            tagged = [self.best_entity(word, word_scores(word, strategy)) for word in group_words(tokens)]
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
        return [self.merge(entities) for entities in group_entities(tagged)]

    def best_entity(self, tokens: list[Token], scores: Tensor) -> dict[str, Any]:
        """One token or word with its best label."""
        best = int(scores.argmax())
        return self.entity(tokens, self.model.config.id2label[best], float(scores[best]))

    def entity(self, tokens: list[Token], tag: str, score: float) -> dict[str, Any]:
        """One token or word with its tag."""
        word = self.text_of([token.word for token in tokens])
        return {"entity": tag, "score": score, "word": word, "start": tokens[0].start, "end": tokens[-1].end}

    def merge(self, entities: list[dict[str, Any]]) -> dict[str, Any]:
        """Adjacent tokens of the same entity as one entry."""
        return {
            "entity_group": split_tag(entities[0]["entity"])[1] or entities[0]["entity"],
            "score": sum(entity["score"] for entity in entities) / len(entities),
            "word": self.text_of([entity["word"] for entity in entities]),
            "start": entities[0]["start"],
            "end": entities[-1]["end"],
            **{name: entities[0][name] for name in ("window",) if name in entities[0]},
        }

    def text_of(self, words: list[str]) -> str:
        """Tokens or words as text, without spaces before English punctuation."""
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
        return summed_label_loss(logits, labels[labels != IGNORED], self.class_weights, self.label_smoothing)

    @property
    def metric_names(self) -> tuple[str, ...]:
        return ("f1", "precision", "recall", "accuracy")

    def predict(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> list[str]:
        """The tag of every word, predicted by its first token in the window that has the most context around it."""
        places, names = positions_of_words(examples), self.model.config.id2label
        count = len(row["tokens"]) if row.get("tokens") is not None else max(places, default=-1) + 1
        if self.decodes_together:
            return [names[label] for label in self.decode(examples, outputs, count).best]
        default = OUTSIDE if OUTSIDE in names.values() else names[0]
        best = [logits.argmax(-1).tolist() for logits in outputs]
        found = {word: names[best[window][position]] for word, (window, position) in places.items()}
        return [found.get(word, default) for word in range(count)]

    def reference(self, row: Row) -> list[str]:
        return [self.model.config.id2label[self.tag_id(tag)] for tag in row["tags"]]

    def compute_metrics(self, predictions: Sequence[list[str]], references: Sequence[list[str]]) -> dict[str, float]:
        return entity_scores(predictions, references)

    def breakdown(self, predictions: Sequence[list[str]], references: Sequence[list[str]]) -> Breakdown:
        return entity_breakdown(predictions, references)

    def describe_prediction(self, row: Row, prediction: list[str]) -> str:
        """The entities with their types."""
        words = row["tokens"]
        found = [
            f"{name} {' '.join(words[a : b + 1])}" for name, a, b in sorted(entities(prediction), key=itemgetter(1))
        ]
        return "; ".join(found) or "no entity"


def group_words(tokens: list[Token]) -> list[list[Token]]:
    """Tokens grouped by word."""
    words: list[list[Token]] = []
    for token in tokens:
        if words and token.number == words[-1][-1].number:
            words[-1].append(token)
        else:
            words.append([token])
    return words


def group_entities(tagged: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Tagged tokens or words grouped by entity."""
    groups: list[list[dict[str, Any]]] = []
    for entity in tagged:
        if groups and not begins(entity["entity"], groups[-1][-1]["entity"]):
            groups[-1].append(entity)
        else:
            groups.append([entity])
    return groups


def word_scores(word: list[Token], strategy: str) -> Tensor:
    """The scores of a word: those of its first token, of its most confident token, or the mean over its tokens."""
    if strategy == "first":
        return word[0].scores
    if strategy == "max":
        return max(word, key=lambda token: float(token.scores.max())).scores
    return torch.stack([token.scores for token in word]).mean(0)


def without_overlaps(entities: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The longest of the entities that overlapping windows found at the same place; of equally long ones the best."""
    selected: list[dict[str, Any]] = []
    for entity in sorted(entities, key=lambda each: each["start"]):
        if not selected or entity["start"] >= selected[-1]["end"]:
            selected.append(entity)
            continue
        last = selected[-1]
        size, last_size = entity["end"] - entity["start"], last["end"] - last["start"]
        if (size, entity["score"]) > (last_size, last["score"]):
            selected[-1] = entity
    return selected
