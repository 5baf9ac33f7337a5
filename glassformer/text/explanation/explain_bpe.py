"""How byte-pair encoding makes ids of a text: its parts, their bytes, and each merge with its rank.

Computed by the readable algorithm, and compared with the ids that the tokenizer itself gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..bpe.bpe import Merge
from ..encoding import Pieces
from .explain_wordpiece import (
    Explanation,
    Stretch,
    build_explanation,
    printable,
    quote,
    refuse_other_than_text,
    shorten_list,
    wrap_lines,
)

if TYPE_CHECKING:
    from ..bpe.bpe_tokenizer import BpeTokenizer

MAX_SHOWN = 40  # a part of more symbols is not repeated after each merge


@dataclass(frozen=True, slots=True)
class PartSteps:
    """One part of the text: its symbols, the merges in the order in which they were done, and what was left."""

    source: str  # as the text has it
    bytes: tuple[int, ...] | None  # None where symbols are letters and not bytes
    symbols: tuple[str, ...]
    start: int
    end: int
    merges: tuple[Merge, ...]
    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]
    note: str = ""

    def lines(self) -> list[str]:
        """The part in lines of a report."""
        found = wrap_lines("part     ", quote(self.source))
        if self.bytes is not None:
            found += wrap_lines(
                "    bytes  ", " ".join(shorten_list([f"{byte:02X}" for byte in self.bytes], MAX_SHOWN))
            )
        pieces = list(self.symbols)
        found += wrap_lines("    start  ", " ".join(shorten_list(list(map(printable, pieces)), MAX_SHOWN)))
        for number, merge in enumerate(self.merges):
            if len(self.symbols) > MAX_SHOWN and number == MAX_SHOWN:
                found += wrap_lines("           ", f"... {len(self.merges) - number} more merges ...")
                break
            shown_merge = f"{printable(merge.left)} + {printable(merge.right)} (rank {merge.rank})"
            if len(self.symbols) <= MAX_SHOWN:
                pieces = apply_merge(pieces, merge)
                shown_merge += f" -> {' '.join(map(printable, pieces))}"
            elif merge.times > 1:
                shown_merge += f", {merge.times} times"
            found += wrap_lines("    merge  ", shown_merge)
        if self.note:
            found += wrap_lines("           ", self.note)
        pairs = list(zip(self.tokens, self.ids, self.offsets, strict=True))
        given = [f"{printable(token)} {index} [{a}:{b}]" for token, index, (a, b) in pairs]
        return found + wrap_lines("    gives  ", "  ".join(shorten_list(given, MAX_SHOWN)))


def apply_merge(pieces: Sequence[str], merge: Merge) -> list[str]:
    """The pieces after a merge."""
    merged: list[str] = []
    place = 0
    while place < len(pieces):
        both = tuple(pieces[place : place + 2]) == (merge.left, merge.right)
        merged.append("".join(pieces[place : place + 1 + both]))
        place += 1 + both
    return merged


def explain_bpe(tokenizer: BpeTokenizer, text: str) -> Explanation:
    """Explain the tokenization of a text by a tokenizer with byte-pair encoding."""
    refuse_other_than_text(text)
    tokenizer._pieces([text])  # names bad input
    prefixed = tokenizer._prepared(text)
    added = len(prefixed) - len(text)
    stretches: list[Stretch] = []
    for start, end, token in tokenizer._split_at_special_tokens(prefixed):
        span = max(start - added, 0), max(end - added, 0)
        if token is not None:
            stretches.append(Stretch(text[slice(*span)], *span, tokenizer.convert_tokens_to_ids(token)))
            continue
        steps = []
        for symbols, origins in tokenizer._parts(prefixed[start:end]):
            places = [start + origin for origin in origins]
            steps.append(explain_part(tokenizer, prefixed, symbols, places, len(text)))
        stretches.append(Stretch(text[slice(*span)], *span, None, tuple(steps)))
    return build_explanation(tokenizer, text, stretches)


def explain_part(
    tokenizer: BpeTokenizer, prefixed: str, symbols: Sequence[str], origins: Sequence[int], length: int
) -> PartSteps:
    """The steps of one part. `prefixed` is the text, perhaps with a space before it."""
    start, end = origins[0], origins[-1] + 1
    added = len(prefixed) - length
    source = prefixed[start:end]
    merges: list[Merge] = []
    lost = [symbol for symbol in symbols if symbol not in tokenizer.vocab] if tokenizer._drops_unknown else []
    if lost:
        symbols, origins = tokenizer._known(symbols, origins)
    tokens = tokenizer.merges.apply(symbols, merges)
    ids = [tokenizer._id_or_unknown(token) for token in tokens]
    pieces = Pieces(ids, (tokenizer._offsets_of(tokens, origins), [0] * len(ids)), tokens)
    unknown = lost or [token for token in tokens if token not in tokenizer.vocab]
    fate = ", left out" if lost else ""
    return PartSteps(
        source,
        None if tokenizer.end_of_word else tuple(source.encode("utf-8")),
        tuple(symbols),
        max(start - added, 0),
        max(end - added, 0),
        tuple(merges),
        tuple(tokens),
        tuple(ids),
        tuple(tokenizer._with_original_offsets(pieces, length, added).offsets),
        f"not in the vocabulary{fate}: {' '.join(map(printable, unknown))}" if unknown else "",
    )
