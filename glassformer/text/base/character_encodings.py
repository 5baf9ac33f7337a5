"""Bytes of text files -> lines of text: UTF-8, unless another character encoding is named.

What does not fit the encoding is an error that names the line and, where the bytes look like it, a likelier encoding.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator
from typing import BinaryIO

from ...errors import DataError, InputError, nearest, spelt
from .text_inputs import describe

UTF8 = "utf-8"
USUAL = (UTF8, "utf-16", "gbk", "gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "cp1252", "latin-1", "cp1251")
BYTE_ORDER_MARKS: dict[str, tuple[bytes, ...]] = {
    "utf-8": (codecs.BOM_UTF8,),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),  # before UTF-16, whose marks it begins with
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
# Characters of which every longer text of a language has many, and the share of them among all that are not ASCII from
# which on the encoding is likely: any byte is a character of the last three, which are therefore tried last.
HAN = "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里"
TRADITIONAL = "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡"
KANA = "のにはをたがでてとしれさあいうえおかきくけこすせそちつなぬねひふへほまみむめもやゆよらりるわんアイスト"
HANGUL = "이다는을가에의하고를은한지로기도자리사나서해들아그어있대인것수보시"
CYRILLIC = "оеаинтсрвлкмдпуя"
ACCENTED = "éèêëàâäáãåçñóòôöõúùûüíîïßøæœÉÀÄÖÜ‘’“”–—…«»°£€¿¡"
LIKELY = (
    ({"gbk": HAN, "gb18030": HAN, "big5": TRADITIONAL, "shift_jis": KANA, "euc_jp": KANA, "euc_kr": HANGUL}, 0.1),
    ({"cp1251": CYRILLIC, "koi8_r": CYRILLIC}, 0.5),
    ({"cp1252": ACCENTED}, 0.9),
)
SAMPLE = 2**16  # bytes


def check_encoding(encoding: str | None) -> str:
    """The usual name of an encoding of text; None is UTF-8."""
    if encoding is None:
        return UTF8
    try:
        found = codecs.lookup(encoding)
    except (LookupError, TypeError, ValueError):
        found = None
    if found is None or not getattr(found, "_is_text_encoding", True):
        hint = nearest(str(encoding).lower(), USUAL)
        raise InputError(f"encoding must be one of Python's for text, such as gbk, got {describe(encoding)}{hint}")
    return UTF8 if found.name == "utf-8-sig" else found.name


def has_plain_line_ends(encoding: str) -> bool:
    """Whether a line ends at the byte 0x0a, as in all encodings that extend ASCII."""
    return "\n".encode(encoding) == b"\n"


def read_text_lines(
    file: BinaryIO, name: str, encoding: str = UTF8, longest: int = -1, beginning: Callable[[], bytes] = bytes
) -> Iterator[tuple[int, str | DataError]]:
    """The numbered lines of a file with their ends, one at a time; for one that does not fit the encoding its error.

    `beginning` gives the first bytes of the file, which are looked at after an error. In an encoding that does not
    extend ASCII, such as UTF-16, nothing can be read after an error, which is raised.
    """
    if not has_plain_line_ends(encoding):
        yield from read_wide_lines(file, name, encoding, longest)
        return
    number, guess, is_checked = 0, "", encoding == UTF8
    while raw := file.readline(longest + 1 if longest > 0 else -1):
        number += 1
        if 0 < longest < len(raw):
            raise too_long(name, number, longest)
        if number == 1:
            raw = without_mark(raw, name, encoding)
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError as error:
            guess = guess or guess_encoding(sample_of(raw, beginning()), encoding)
            yield number, DataError(f"{name}, line {number}: {describe_decoding_error(error, encoding, guess)}")
            continue
        if not is_checked and not raw.isascii():
            is_checked = True
            refuse_utf8(sample_of(raw, beginning()), name, encoding)
        yield number, text


def sample_of(raw: bytes, beginning: bytes) -> bytes:
    """A line, and the beginning of its file if the line is not in it."""
    return beginning if raw in beginning else raw + beginning


def read_wide_lines(file: BinaryIO, name: str, encoding: str, longest: int) -> Iterator[tuple[int, str]]:
    """The lines of a file whose characters have two bytes or more."""
    reader = io.TextIOWrapper(file, encoding, newline="\n")
    number = 0
    try:
        while line := reader.readline(longest + 1 if longest > 0 else -1):
            number += 1
            if 0 < longest < len(line):
                raise too_long(name, number, longest)
            yield number, line.removeprefix("\ufeff") if number == 1 else line
    except UnicodeError as error:
        raise DataError(
            f"{name}, line {number + 1} or after it: {describe_decoding_error(error, encoding, '')}"
        ) from None
    finally:
        if not file.closed:  # by whoever reads no further
            reader.detach()


def decode_text(raw: bytes, name: str, encoding: str = UTF8) -> str:
    """A complete file as text."""
    if not has_plain_line_ends(encoding):
        try:
            return raw.decode(encoding).removeprefix("\ufeff")
        except UnicodeError as error:
            raise DataError(f"{name}: {describe_decoding_error(error, encoding, '')}") from None
    raw = without_mark(raw, name, encoding)
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        guess = guess_encoding(raw[error.start :][:SAMPLE], encoding) or guess_encoding(raw[:SAMPLE], encoding)
        raise DataError(f"{name}, line {line}: {describe_decoding_error(error, encoding, guess)}") from None
    if encoding != UTF8:
        refuse_utf8(raw, name, encoding)
    return text


def without_mark(raw: bytes, name: str, encoding: str) -> bytes:
    """The first bytes of a file without the byte order mark of UTF-8, which some editors write."""
    marked = next((found for found, marks in BYTE_ORDER_MARKS.items() if raw.startswith(marks)), None)
    if marked is not None and marked != encoding:
        raise other_encoding(name, f"is written in {marked.upper()}", marked)
    if encoding == UTF8 and raw[:4].count(0) in (2, 3):
        wide = "utf-16-le" if raw[1:2] == b"\0" else "utf-16-be"
        raise other_encoding(name, f"looks like {wide.upper()}, with a zero in every other byte", wide)
    return raw.removeprefix(codecs.BOM_UTF8)


def refuse_utf8(raw: bytes, name: str, encoding: str) -> None:
    """Raise for text that is UTF-8: bytes of other encodings are that by chance only in very short texts."""
    try:
        text = codecs.getincrementaldecoder(UTF8)().decode(raw)
    except UnicodeDecodeError:
        return
    if sum(not char.isascii() for char in text) >= 3:
        raise other_encoding(name, f"is written in UTF-8, not in {encoding}", UTF8)


def other_encoding(name: str, what: str, encoding: str) -> DataError:
    return DataError(f"{name} {what}; {spelt('reading', 'encoding', encoding)} reads it")


def too_long(name: str, number: int, longest: int) -> DataError:
    return DataError(f"{name}, line {number}: longer than {longest >> 20} MB, so it is no line of text")


def describe_decoding_error(error: UnicodeError, encoding: str, guess: str) -> str:
    """What is wrong with a line, and what to do about it."""
    where = f"byte 0x{error.object[error.start]:02x}, " if isinstance(error, UnicodeDecodeError) else ""
    reason = error.reason if isinstance(error, UnicodeDecodeError) else str(error)
    likely = f"it looks like {guess}: {spelt('reading', 'encoding', guess)} reads it; or " if guess else ""
    other = "" if guess else f" or name its encoding: {spelt('reading', 'encoding', '...')}"
    return f"not {encoding.upper()} ({where}{reason}); {likely}convert the file to UTF-8{other}"


def guess_encoding(sample: bytes, other_than: str = UTF8) -> str:
    """The encoding that a text is likely to be in, by the frequent characters of languages; "" if none is likely.

    >>> guess_encoding("这家饭店的菜很好吃，我们下次还会来".encode("gb18030"))
    'gbk'
    >>> guess_encoding("Das Frühstück war schön".encode("cp1252"))
    'cp1252'
    """
    for candidates, least in LIKELY:
        shares = {encoding: share_of(sample, encoding, frequent) for encoding, frequent in candidates.items()}
        best = max(shares, key=shares.__getitem__)
        if shares[best] >= least and best != other_than:
            return best
    return ""


def share_of(sample: bytes, encoding: str, frequent: str) -> float:
    """The share of frequent characters among those that are not ASCII; 0 if they are fewer than two."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return 0.0
    foreign = [char for char in text if not char.isascii()]
    known = sum(char in frequent for char in foreign)
    return known / len(foreign) if known > 1 else 0.0
