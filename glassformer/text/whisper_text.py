"""What Whisper writes as texts with times, and what counts as a difference between two transcriptions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

TIMES_OF_A_WINDOW = 1500  # steps of its times
# Letters that do not come apart into a plain one and a mark.
PLAIN = dict(zip("œŒøØæÆßẞđĐðÐþÞłŁ", "oe OE o O ae AE ss SS d D d D th th l L".split(), strict=True))
BRACKETS = (re.compile(r"[<\[][^>\]]*[>\]]"), re.compile(r"\([^)]+?\)"))


class TimedText(NamedTuple):
    """The words between two times, which count steps from the beginning of the first window."""

    ids: Sequence[int]
    start: int
    end: int

    @classmethod
    def between_times(cls, ids: Sequence[int], begin: int) -> list[TimedText]:
        """The texts of ids, `begin` being the first of those that are times. What has no time is left out."""
        times = [place for place, token in enumerate(ids) if token >= begin]
        cuts = [after for before, after in pairwise(times) if after == before + 1]
        if not cuts and len(times) <= 1:
            return []
        if times[-1] + 1 not in cuts:
            cuts.append(times[-1] + 1)
        texts, first, highest, shift = [], times[0], 0, 0
        for cut in cuts:
            part = ids[first:cut]
            if len(part) > 1:
                start, end = part[0] - begin, part[-1] - begin
                if start < highest:  # the next window has begun
                    ended_early = first >= 2 and not (ids[first - 2] >= begin and ids[first - 1] >= begin)
                    shift += TIMES_OF_A_WINDOW if ended_early else highest
                highest = end
                words = [token for token in part if token < begin]
                texts.append(cls(words, start + shift, end + shift))
            first = cut
        return texts


def timed_texts(ids: Sequence[int], begin: int, precision: float) -> list[str | list[int]]:
    """Words (as ids) and times (as text) in turn; times of a further window go on from those of the last."""
    parts: list[str | list[int]] = [[]]
    last, highest, shift = 0.0, 0.0, 0.0
    for place, token in enumerate(ids):
        if token < begin:
            parts[-1].append(token)  # type: ignore[union-attr]
            continue
        time = (token - begin) * precision
        if time < highest:  # the next window has begun
            if place >= 2 and not (ids[place - 1] >= begin and ids[place - 2] >= begin):
                shift += precision * TIMES_OF_A_WINDOW
            else:  # the last window ended before its last, unfinished text
                highest = last
                shift += last
                parts = parts[:-2]
        last, highest = highest, time
        parts += [f"<|{time + shift:.2f}|>", []]
    return parts


def basic_normalize(text: str, remove_diacritics: bool = False) -> str:
    """A text in small letters, without brackets, signs and double spaces; on request without marks on letters.

    >>> basic_normalize("Well -- [noise] Élan, 5 € (sic)!", remove_diacritics=True)
    'well elan 5 '
    """
    text = text.lower()
    for pattern in BRACKETS:
        text = pattern.sub("", text)
    text = without_diacritics(text) if remove_diacritics else without_signs(text)
    return re.sub(r"\s+", " ", text.lower())


def without_signs(text: str) -> str:
    """Marks, symbols and punctuation become spaces."""
    normal = unicodedata.normalize("NFKC", text)
    return "".join(" " if unicodedata.category(char)[0] in "MSP" else char for char in normal)


def without_diacritics(text: str, keep: str = "") -> str:
    """The same, but marks on letters leave no space, and letters that hold one become plain."""
    plain = []
    for char in unicodedata.normalize("NFKD", text):
        category = unicodedata.category(char)
        if char in keep:
            plain.append(char)
        elif char in PLAIN:
            plain.append(PLAIN[char])
        elif category != "Mn":
            plain.append(" " if category[0] in "MSP" else char)
    return "".join(plain)
