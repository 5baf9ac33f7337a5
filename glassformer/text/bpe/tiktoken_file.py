"""Vocabularies as OpenAI's tiktoken writes them: a line for each token, its bytes in base 64 and its rank.

The ranks say which pair is joined first, so that the list of merges follows from them: a token is the pair that joining
by lower ranks alone leaves of its bytes.
"""

from __future__ import annotations

import base64
import binascii
from itertools import pairwise
from pathlib import Path

from ...errors import TokenizerError, shown
from ..wordpiece.wordpiece_files import text_lines
from .bpe import SYMBOLS, Pair
from .bpe_files import BpeFile

SUFFIX = ".tiktoken"
EMPTY = "="  # the last token of the multilingual vocabulary, which stands for nothing


def read_tiktoken(path: Path) -> BpeFile:
    """The vocabulary of a file, with its merges."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(text_lines(path), start=1):
        if not line.strip():
            continue
        try:
            encoded, place = line.split()
            ranks[b"" if encoded == EMPTY else base64.b64decode(encoded, validate=True)] = int(place)
        except (ValueError, binascii.Error):
            raise TokenizerError(
                f"{path}, line {number}: a token in base 64 and its rank are needed, got {shown(line)}"
            ) from None
    if sorted(ranks.values()) != list(range(len(ranks))) or not ranks:
        raise TokenizerError(f"{path}: ranks must count the tokens from 0 on, each once")
    merges: list[Pair] = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) > 1:
            parts = joined_below(token, rank, ranks)
            if len(parts) != 2:
                raise TokenizerError(f"{path}: no two tokens of lower rank make the token {shown(token)}")
            merges.append((as_symbols(parts[0]), as_symbols(parts[1])))
    vocab = {as_symbols(token): rank for token, rank in ranks.items()}
    return BpeFile(vocab, str(path), merges=merges)


def as_symbols(token: bytes) -> str:
    return "".join(SYMBOLS[byte] for byte in token)


def joined_below(token: bytes, limit: int, ranks: dict[bytes, int]) -> list[bytes]:
    """The parts of a token when pairs are joined whose rank is below a limit, the lowest first."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        pairs = [(ranks.get(a + b, limit), i) for i, (a, b) in enumerate(pairwise(parts))]
        rank, place = min(pairs)
        if rank >= limit:
            break
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return parts
