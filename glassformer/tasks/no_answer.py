"""The figures of SQuAD 2.0, where some questions have no answer, by the names of its official script.

HasAns and NoAns are the questions with and without a correct answer. `best_exact` and `best_f1` are the highest scores
that any threshold for "no answer" reaches, and `best_exact_thresh` and `best_f1_thresh` these thresholds: a question
is left unanswered where the log-odds of "no answer" against the best span are above.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .metrics import answer_score, check_lengths, ratio


class SpanPrediction(NamedTuple):
    """What was predicted for a question."""

    answer: str  # what is returned: "" if "no answer" is allowed and more probable
    span: str  # the best span of the context
    no_answer_odds: float  # the log-odds of "no answer" against that span


def no_answer_scores(predictions: Sequence[SpanPrediction], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Exact match and F1 of questions with and without an answer, and at the best thresholds for "no answer".

    An empty list of correct answers means that there is none.
    """
    check_lengths(predictions, references)
    scores = [answer_score(each.answer, correct) for each, correct in zip(predictions, references, strict=True)]
    found: dict[str, float] = {}
    for kind, has_answer in (("HasAns", True), ("NoAns", False)):
        chosen = [score for score, correct in zip(scores, references, strict=True) if bool(correct) is has_answer]
        if chosen:
            exact, f1 = (sum(each) for each in zip(*chosen, strict=True))
            found |= {f"{kind}_exact": exact / len(chosen), f"{kind}_f1": f1 / len(chosen)}
            found[f"{kind}_total"] = len(chosen)
    spans = [answer_score(each.span, correct) for each, correct in zip(predictions, references, strict=True)]
    for index, name in enumerate(("exact", "f1")):
        best, threshold = best_threshold(predictions, references, [score[index] for score in spans])
        found |= {f"best_{name}": best, f"best_{name}_thresh": threshold}
    return found


def best_threshold(
    predictions: Sequence[SpanPrediction], references: Sequence[Sequence[str]], scores: Sequence[float]
) -> tuple[float, float]:
    """The highest mean score that a threshold reaches, and the lowest such threshold; `scores` are those of the spans.

    From "no question is answered" on, questions are answered one by one, the surest first.
    """
    total = best = sum(not correct for correct in references)
    threshold = 0.0
    for number in sorted(range(len(predictions)), key=lambda number: predictions[number].no_answer_odds):
        if references[number]:
            total += scores[number]
        elif predictions[number].span:
            total -= 1
        if total > best:
            best, threshold = total, predictions[number].no_answer_odds
    return ratio(best, len(predictions)), threshold
