"""Which heads link a word to a related one: a pronoun to its noun, a verb to its subject, a word to its modifier.

A head is scored by how often its strongest attention from a word goes to the related word (Clark et al. 2019). Words of
several pieces are joined: attention to a word is the sum over its pieces, attention from a word the mean. The word
itself and special tokens do not count. Beside every head stands position: always the word at the best fixed offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...data.file_row import Row
from ...data.readers import read_rows
from ...errors import InputError
from ...tasks.progress import show_progress
from ...text.wordpiece.wordpiece import is_chinese, is_punctuation
from ..reading import Reading
from ..subject import Subject

BUILT_IN = Path(__file__).with_name("relation_sentences.jsonl")
RELATIONS = {  # of the built-in sentences: from which word to which
    "pronoun": "from a pronoun to the noun that it stands for",
    "subject": "from a verb to its subject",
    "object": "from an object to its verb",
    "modifier": "from a word to its adjective or adverb",
    "auxiliary": "from a verb to its auxiliary",
}
LANGUAGES = ("en", "zh")  # of the built-in sentences
OPENING = "([{“‘（《「"  # no space stands behind these

HeadNumber = tuple[int, int]  # layer, head


class Link(NamedTuple):
    """Two related words of a sentence, by their numbers."""

    relation: str
    word: int
    related: int


@dataclass(frozen=True)
class AnnotatedSentence:
    """The words of a sentence, punctuation included, and which of them are related."""

    words: tuple[str, ...]
    links: tuple[Link, ...]
    place: str = "a sentence"  # where it was read

    @property
    def cases(self) -> dict[tuple[str, int], set[int]]:
        """The related words of every (relation, word); each of several is a right answer."""
        found: dict[tuple[str, int], set[int]] = {}
        for relation, word, related in self.links:
            found.setdefault((relation, word), set()).add(related)
        return found


class Case(NamedTuple):
    """One word with its related words, and the heads whose strongest attention goes to one of these."""

    sentence: int
    offsets: frozenset[int]  # of the related words
    hits: Tensor  # heads, bool


@dataclass(frozen=True)
class RelationScore:
    """How well the heads of a model find one relation."""

    relation: str
    cases: int
    offset: int  # the best fixed one, in words
    position: float  # the share of cases that it finds
    shares: dict[HeadNumber, float]  # that heads find
    held_out: float | None  # what the best head of one half of the sentences finds in the other half, both ways
    held_out_position: float | None  # the same of the best offset

    @property
    def best(self) -> HeadNumber:
        return max(self.shares, key=self.shares.__getitem__)

    @property
    def beyond_position(self) -> list[HeadNumber]:
        """The heads that find more than position does, best first."""
        better = [head for head, share in self.shares.items() if share > self.position]
        return sorted(better, key=lambda head: -self.shares[head])


@dataclass(frozen=True)
class RelationProbe:
    """The scores of all relations, and the sentences that could not be used."""

    sentences: int
    scores: list[RelationScore]
    left_out: list[str] = field(default_factory=list)  # each with the reason

    def to_dict(self) -> dict[str, Any]:
        scores = [
            {
                **{name: value for name, value in vars(score).items() if name != "shares"},
                "best": [*score.best, score.shares[score.best]],
                "heads": [[*head, share] for head, share in score.shares.items()],
            }
            for score in self.scores
        ]
        return {"sentences": self.sentences, "relations": scores, "left_out": self.left_out}


def read_relation_sentences(
    path: str | PathLike[str] | None = None, language: str | None = None, encoding: str | None = None
) -> list[AnnotatedSentence]:
    """Annotated sentences from a file, or those that are built in, by default the English ones.

    Every row has `words`, a list, and `links`, a list of {"relation": name, "from": number, "to": number}; numbers of
    words count from 0. With `language`, only rows whose `language` is that one are read.

    >>> sentence = read_relation_sentences()[0]
    >>> [sentence.words[i] for i in sentence.links[0][1:]]
    ['it', 'animal']
    """
    if path is None:
        language = language or LANGUAGES[0]
        if language not in LANGUAGES:
            raise InputError(f"there are built-in sentences in {' and '.join(LANGUAGES)}, got {language!r}")
    types = {"words": list, "links": list}
    rows = read_rows(path or BUILT_IN, needed=("words", "links"), types=types, encoding=encoding if path else None)
    found = [sentence_of(row) for row in rows if language is None or row.get("language") == language]
    if not found:
        which = "" if language is None else f" whose language is {language!r}"
        raise InputError(f"{path} has no sentence{which}")
    return found


def sentence_of(row: Row) -> AnnotatedSentence:
    words = row["words"]
    if not words or not all(isinstance(word, str) and word.strip() == word != "" for word in words):
        raise row.fault(f"words must be a list of words without spaces around them, got {words!r:.80}")
    links = []
    for link in row["links"]:
        if not isinstance(link, dict) or {*link} != {"relation", "from", "to"}:
            raise row.fault(f'a link is {{"relation": ..., "from": ..., "to": ...}}, got {link!r:.80}')
        relation, numbers = link["relation"], (link["from"], link["to"])
        if not isinstance(relation, str) or not relation:
            raise row.fault(f"a relation is a name, got {relation!r:.40}")
        for number in numbers:
            if type(number) is not int or not 0 <= number < len(words):
                raise row.fault(f"words are numbered 0 to {len(words) - 1}, got {number!r:.40}")
        if numbers[0] == numbers[1]:
            raise row.fault(f"word {numbers[0]} ({words[numbers[0]]}) is linked to itself")
        links.append(Link(relation, *numbers))
    return AnnotatedSentence(tuple(words), tuple(links), row.place)


def probe_relations(
    subject: Subject, sentences: Iterable[AnnotatedSentence] | None = None, *, progress: bool | None = None
) -> RelationProbe:
    """How often the strongest attention of every head goes from a word to the related word.

    Without `sentences`, the English ones that are built in are read. A sentence with a word that the tokenizer does not
    know is left out. `progress` shows how far it has come, None: in a terminal only.

    >>> probe = probe_relations(Subject.load("./bert-base-uncased"))                    # doctest: +SKIP
    >>> [(score.relation, score.best, score.position) for score in probe.scores]        # doctest: +SKIP
    """
    if subject.task is not None or not subject.heads:
        raise InputError(f"{subject.name} is an encoder-decoder: relations are probed in a model that reads one text")
    sentences = read_relation_sentences() if sentences is None else list(sentences)
    cases: dict[str, list[Case]] = {}
    left_out: list[str] = []
    for number, sentence in enumerate(show_progress(sentences, len(sentences), progress, "probe", unit="sentences")):
        text, spans = joined(sentence.words)
        reading = subject.encode(text)
        owners = word_of_tokens(subject, text, spans)
        unknown = unreadable(reading, owners, sentence)
        if unknown:
            left_out.append(f"{sentence.place}: {unknown}")
            continue
        answers = strongest_words(subject.run(reading), owners, len(spans))  # heads K
        for (relation, word), related in sentence.cases.items():
            hits = torch.isin(answers[:, word], torch.tensor(sorted(related)))
            cases.setdefault(relation, []).append(Case(number, frozenset(r - word for r in related), hits))
    if not cases:
        raise InputError(f"no sentence could be used: {left_out[0] if left_out else 'there is no link in any of them'}")
    heads = [(layer, head) for layer, numbers in enumerate(subject.heads) for head in numbers]
    scores = [score_of(relation, found, heads) for relation, found in cases.items()]
    return RelationProbe(len(sentences) - len(left_out), scores, left_out)


# --- words and tokens -------------------------------------------------------------------------------------------------


def joined(words: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """The text that words make, and where each stands in it: no space before punctuation, none in Chinese.

    >>> joined(["Yes", ",", "she", "did", "."])
    ('Yes, she did.', [(0, 3), (3, 4), (5, 8), (9, 12), (12, 13)])
    """
    text, spans = "", []
    for word in words:
        closes = is_punctuation(word[0]) and word[0] not in OPENING
        dense = is_chinese(word[0]) or (text and (is_chinese(text[-1]) or ord(text[-1]) >= 0x3000))
        text += "" if not text or closes or dense or text[-1] in OPENING else " "
        spans.append((len(text), len(text) + len(word)))
        text += word
    return text, spans


def word_of_tokens(subject: Subject, text: str, spans: Sequence[tuple[int, int]]) -> list[int]:
    """The number of the word of every token, the one with most of its characters; -1 for special tokens."""
    given = {"add_special_tokens": not subject.is_decoder, "return_offsets_mapping": True, "verbose": False}
    owners = []
    for start, end in subject.tokenizer(text, **given)["offset_mapping"]:
        shared = [min(end, last) - max(start, first) for first, last in spans]
        most = max(shared)
        owners.append(shared.index(most) if most > 0 else -1)
    return owners


def unreadable(reading: Reading, owners: Sequence[int], sentence: AnnotatedSentence) -> str:
    """Why a sentence cannot be used, or nothing."""
    unknown = reading.subject.tokenizer.unk_token_id
    for token, owner in zip(reading.ids, owners, strict=True):
        if owner >= 0 and token == unknown:
            return f"the tokenizer does not know {sentence.words[owner]!r}"
    missing = set(range(len(sentence.words))) - set(owners)
    return f"{sentence.words[min(missing)]!r} has no token of its own" if missing else ""


def strongest_words(reading: Reading, owners: Sequence[int], count: int) -> Tensor:
    """The word to which every head attends most from every word, -1 where it attends to no other: heads K"""
    owns = torch.zeros(count, len(owners))
    for token, owner in enumerate(owners):
        if owner >= 0:
            owns[owner, token] = 1.0
    found = [strongest(word_attention(reading.weights(layer).float().cpu(), owns)) for layer in layers_in(reading)]
    return torch.cat(found)


def layers_in(reading: Reading) -> list[int]:
    (part,) = reading.parts.values()
    return part.layers


def word_attention(weights: Tensor, owns: Tensor) -> Tensor:
    """Attention between words: H T T, and which tokens each word owns, K T -> H K K"""
    return (owns / owns.sum(1, keepdim=True)) @ (weights @ owns.T)


def strongest(attention: Tensor) -> Tensor:
    """H K K -> H K: the other word with most of the attention, -1 if no other has any."""
    others = attention.clone()
    others.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
    most, found = others.max(-1)
    return found.masked_fill(most <= 0, -1)


# --- scores -----------------------------------------------------------------------------------------------------------


def score_of(relation: str, cases: Sequence[Case], heads: Sequence[HeadNumber]) -> RelationScore:
    offset = best_offset(cases)
    shares = dict(zip(heads, (found_by_heads(cases) / len(cases)).tolist(), strict=True))
    return RelationScore(
        relation, len(cases), offset, found_at(offset, cases) / len(cases), shares, *held_out_shares(cases)
    )


def held_out_shares(cases: Sequence[Case]) -> tuple[float | None, float | None]:
    """What the head and the offset that are best in every second sentence find in the others, both ways."""
    halves = [[case for case in cases if case.sentence % 2 == half] for half in (0, 1)]
    if not all(halves):
        return None, None
    by_head = by_position = 0
    for chosen, judged in (halves, halves[::-1]):
        by_head += int(found_by_heads(judged)[found_by_heads(chosen).argmax()])
        by_position += found_at(best_offset(chosen), judged)
    return by_head / len(cases), by_position / len(cases)


def found_by_heads(cases: Sequence[Case]) -> Tensor:
    """In how many cases every head is right."""
    return torch.stack([case.hits for case in cases]).sum(0).double()


def found_at(offset: int, cases: Iterable[Case]) -> int:
    """In how many cases a related word stands at an offset."""
    return sum(offset in case.offsets for case in cases)


def best_offset(cases: Sequence[Case]) -> int:
    """The offset that finds most; of equally good ones the nearest."""
    offsets = sorted({offset for case in cases for offset in case.offsets}, key=lambda offset: (abs(offset), offset))
    return max(offsets, key=lambda offset: found_at(offset, cases))
