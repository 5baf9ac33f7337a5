"""From the times that a model of speech writes to segments, and from the times of words to better ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from .word_times import WordTiming, join_punctuation, median_duration, shorten_sentence_ends

if TYPE_CHECKING:
    from .transcription import Segment

Piece = tuple[float, float, list[int]]  # start and end in seconds of the window, and the tokens


class SegmentTimes:
    """The rules for times, and where the last word ended."""

    def __init__(self, seconds_of_vector: float, columns_per_second: float) -> None:
        self.step = seconds_of_vector  # of the times that are written
        self.columns_per_second = columns_per_second
        self.last_word_end = 0.0  # seconds from the beginning of the recording

    def split(self, tokens: Sequence[int], columns: int, begin: int) -> tuple[list[Piece], int, bool]:
        """The segments of a window; by how many columns to move on; whether it ends with one time alone.

        Two times in a row end one segment and begin the next. Words behind the last pair of times are not finished:
        the next window begins with them. A single time at the end says that nothing is said behind it.
        """
        times = [token >= begin for token in tokens]
        ends_with_time = times[-2:] == [False, True]
        cuts = [place for place, both in enumerate(pairwise(times), start=1) if all(both)]
        if not cuts:
            written = [token for token in tokens if token >= begin]
            seconds = columns / self.columns_per_second
            if written and written[-1] != begin:
                seconds = (written[-1] - begin) * self.step
            return [(0.0, seconds, list(tokens))], columns, ends_with_time
        bounds = [0, *cuts, *([len(tokens)] if ends_with_time else [])]
        pieces = [
            ((tokens[a] - begin) * self.step, (tokens[b - 1] - begin) * self.step, list(tokens[a:b]))
            for a, b in pairwise(bounds)
        ]
        if ends_with_time:
            return pieces, columns, True
        unfinished = tokens[cuts[-1] - 1] - begin  # where the last finished segment ends
        return pieces, round(unfinished * self.step * self.columns_per_second), False

    def add_words(
        self, segments: Sequence[Segment], texts: Sequence[Sequence[int]], words: list[WordTiming], offset: float
    ) -> None:
        """Give each segment the words that are made of its text tokens, and move its borders to theirs."""
        from .transcription import Word

        usual = median_duration(words)
        if any(word.start != word.end for word in words):
            shorten_sentence_ends(words, 2 * usual)
        join_punctuation(words)
        waiting = iter(words)
        for segment, text in zip(segments, texts, strict=True):
            segment.words, taken = [], 0
            while taken < len(text):
                word = next(waiting, None)
                if word is None:
                    break
                taken += len(word.tokens)
                if word.word:
                    start, end = round(offset + word.start, 2), round(offset + word.end, 2)
                    segment.words.append(Word(word.word, start, end, word.probability))
            if segment.words:
                self.fit(segment, usual)

    def fit(self, segment: Segment, usual: float) -> None:
        """Shorten words beside a pause that seem too long, and let segment and words begin and end together."""
        words, longest = segment.words, 2 * usual
        first, last = words[0], words[-1]
        second = words[1] if len(words) > 1 else None
        long_first = first.end - first.start > longest
        long_both = second is not None and second.end - first.start > 2 * longest
        if first.end - self.last_word_end > 4 * usual and (long_first or long_both):
            if second is not None and second.end - second.start > longest:
                first.end = second.start = max(second.end / 2, second.end - longest)
            first.start = max(0, first.end - longest)
        if segment.start < first.end and segment.start - 0.5 > first.start:
            first.start = max(0, min(first.end - usual, segment.start))
        else:
            segment.start = first.start
        if segment.end > last.start and segment.end + 0.5 < last.end:
            last.end = max(last.start + usual, segment.end)
        else:
            segment.end = last.end
        self.last_word_end = segment.end
