"""Tagging schemes of entities: what the letter of a tag says, and which tags may follow each other.

Known are BIO, BIOES, BMES and BILOU. B begins an entity, I and M continue it, E and L end it, S and U are one of a
single word. Tags without such a letter follow each other freely.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch

from ...nn.crf import AllowedPaths

STARTS, ENDS = "BSU", "ESLU"  # letters that begin an entity, and those that end one
LETTERS = {*STARTS, *ENDS, *"IM"}
CONTINUES, CLOSES = "IMEL", "EL"  # letters of a word that is not the first of its entity, and of its last one


def split_tag(tag: str) -> tuple[str, str]:
    """The letter and the type of a tag; one without a letter continues the tag before it.

    If there is only one type of entity, tags may consist of the letter alone.

    >>> split_tag("B-PER"), split_tag("E-LOC"), split_tag("B"), split_tag("NOUN")
    (('B', 'PER'), ('E', 'LOC'), ('B', ''), ('I', 'NOUN'))
    """
    letter, _, name = tag.partition("-")
    return (letter, name) if letter in LETTERS else ("I", tag)


class Scheme:
    """What the tags of a model say about each other."""

    def __init__(self, tags: Sequence[str]):
        letters: dict[str, set[str]] = {}
        for letter, name in map(split_tag, tags):
            letters.setdefault(name, set()).add(letter)
        self.begun = {name for name, found in letters.items() if "B" in found}  # types with a tag for the first word
        self.closed = {name for name in self.begun if letters[name] & {*CLOSES}}  # ... and one for the last

    def follows(self, tag: str | None, before: str | None) -> bool:
        """Whether a tag may follow another; None is the end of the text, or its beginning.

        >>> scheme = Scheme(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
        >>> scheme.follows("I-PER", "B-PER"), scheme.follows("I-PER", "B-LOC"), scheme.follows("I-PER", None)
        (True, False, False)
        """
        letter, name = ("", "") if tag is None else split_tag(tag)
        last, last_name = ("", "") if before is None else split_tag(before)
        inside = letter != "" and letter in CONTINUES and name in self.begun
        is_open = last != "" and last in "BIM" and last_name in self.begun
        if inside:
            return is_open and name == last_name
        return not (is_open and last_name in self.closed)


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # what is kept here serves training too
def allowed_paths(tags: tuple[str, ...]) -> AllowedPaths | None:
    """What paths of tags may do by their scheme; None if they follow none that restricts them.

    >>> allowed_paths(("O", "B-PER", "I-PER")).start.tolist(), allowed_paths(("NOUN", "VERB"))
    ([True, True, False], None)
    """
    scheme = Scheme(tags)
    allowed = AllowedPaths(
        torch.tensor([scheme.follows(tag, None) for tag in tags]),
        torch.tensor([[scheme.follows(tag, before) for tag in tags] for before in tags]),
        torch.tensor([scheme.follows(None, before) for before in tags]),
    )
    # A tag that can begin a text, repeat itself and end the text: with one of these a text of any length has a path.
    repeatable = bool((allowed.start & allowed.transitions.diagonal() & allowed.end).any())
    return allowed if repeatable and not all(bool(mask.all()) for mask in allowed) else None


def first_break(tags: Sequence[str], known: Sequence[str]) -> tuple[str, str] | None:
    """The first two adjacent tags that break the scheme of all `known` tags, in words; None if none do.

    >>> first_break(["B-PER", "O", "I-PER"], ["O", "B-PER", "I-PER"])
    ('O', 'I-PER')
    """
    scheme = Scheme(known)
    for before, tag in zip((None, *tags), (*tags, None), strict=True):
        if not scheme.follows(tag, before):
            return before or "the beginning", tag or "the end"
    return None
