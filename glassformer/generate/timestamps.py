"""The rules of times in what a model of speech writes (Whisper: Radford et al. 2022).

A text stands between two times, its start and its end, and the end of one is followed by the start of the next. Times
never go back, and a text takes some time. Where all times together are likelier than any single word, a time is next.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .token_sequence import TokenSequence


class TimestampRules:
    """Forbids what would break these rules. Ids from `begin` on are times, those from `end` up to it are no words."""

    def __init__(self, begin: int, end: int, max_initial: int | None) -> None:
        self.begin, self.end, self.max_initial = begin, end, max_initial

    def __call__(self, sequences: list[TokenSequence], scores: Tensor) -> Tensor:
        scores, begin = scores.clone(), self.begin
        scores[:, begin - 1] = -torch.inf  # the token that says that there are no times
        for row, sequence in zip(scores, sequences, strict=True):
            self.forbid(row, sequence.new)
        highest_time = scores[:, begin:].logsumexp(-1)
        words = scores[:, :begin]
        words[highest_time > words.max(-1).values] = -torch.inf
        return scores

    def forbid(self, row: Tensor, new: list[int]) -> None:
        """Forbid, in the scores of one sequence, what cannot follow its new tokens."""
        begin = self.begin
        if not new:  # the first is a time, and not a late one
            row[:begin] = -torch.inf
            if self.max_initial is not None:
                row[begin + self.max_initial + 1 :] = -torch.inf
            return
        is_time = new[-1] >= begin
        closes = is_time and len(new) > 1 and new[-2] < begin  # the end of a text
        if closes:
            row[: self.end] = -torch.inf
        elif is_time:
            row[begin:] = -torch.inf
        last = next((token for token in reversed(new) if token >= begin), None)
        if last is not None:
            row[begin : last if closes else last + 1] = -torch.inf
