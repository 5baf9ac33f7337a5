"""Metrics as small formulas, each a fraction between 0 and 1 or a correlation between -1 and 1."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from ..models.base.tag_schemes import ENDS, STARTS, split_tag

Entity = tuple[str, int, int]  # tag, first and last word


def check_lengths(predictions: Sequence, references: Sequence) -> None:
    if len(predictions) != len(references):
        raise ValueError(f"{len(predictions)} predictions cannot be compared with {len(references)} references")


def ratio(part: float, total: float) -> float:
    """A fraction, 0 if the total is 0."""
    return part / total if total else 0.0


def f1_of(hits: float, predicted: float, expected: float) -> float:
    """The harmonic mean of precision and recall."""
    return ratio(2 * hits, predicted + expected)


# --- labels -----------------------------------------------------------------------------------------------------------


def classification(predictions: Sequence[int], references: Sequence[int], labels: int) -> dict[str, float]:
    """Accuracy; F1 of label 1 for two labels, else the mean F1 of all labels that occur; Matthews' correlation."""
    check_lengths(predictions, references)
    hits = Counter(a for a, b in zip(predictions, references, strict=True) if a == b)
    predicted, expected = Counter(predictions), Counter(references)
    occurring = predicted.keys() | expected.keys()
    scores = {label: f1_of(hits[label], predicted[label], expected[label]) for label in occurring}
    f1 = scores.get(1, 0.0) if labels == 2 else ratio(sum(scores.values()), len(scores))
    return {
        "accuracy": ratio(hits.total(), len(references)),
        "f1": f1,
        "matthews": matthews(hits.total(), predicted, expected),
    }


def matthews(hits: int, predicted: Counter, expected: Counter) -> float:
    """The correlation of two labellings: 1 if equal, 0 by chance."""
    count = expected.total()
    by_chance = sum(predicted[label] * expected[label] for label in expected)
    spread = (count**2 - sum(n * n for n in predicted.values())) * (count**2 - sum(n * n for n in expected.values()))
    return ratio(hits * count - by_chance, math.sqrt(spread))


def multi_label(predictions: Sequence[Sequence[int]], references: Sequence[Sequence[int]]) -> dict[str, float]:
    """For rows of 0 and 1: the fraction of exactly correct rows, F1 over all labels together, and the mean F1."""
    check_lengths(predictions, references)
    hits = [sum(a and b for a, b in zip(*columns, strict=True)) for columns in by_label(predictions, references)]
    sizes = [(sum(a), sum(b)) for a, b in by_label(predictions, references)]
    each = [f1_of(hit, *size) for hit, size in zip(hits, sizes, strict=True)]
    correct = sum(list(a) == list(b) for a, b in zip(predictions, references, strict=True))
    return {
        "accuracy": ratio(correct, len(references)),
        "f1_micro": f1_of(sum(hits), sum(a for a, _ in sizes), sum(b for _, b in sizes)),
        "f1_macro": ratio(sum(each), len(each)),
    }


def by_label(
    predictions: Sequence[Sequence[int]], references: Sequence[Sequence[int]]
) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    return zip(zip(*predictions, strict=True), zip(*references, strict=True), strict=True)


# --- numbers ----------------------------------------------------------------------------------------------------------


def correlation(predictions: Sequence[float], references: Sequence[float]) -> dict[str, float]:
    """The correlation of two series of numbers, by value (Pearson) and by rank (Spearman)."""
    check_lengths(predictions, references)
    return {
        "pearson": pearson(predictions, references),
        "spearman": pearson(ranks(predictions), ranks(references)),
    }


def pearson(first: Sequence[float], second: Sequence[float]) -> float:
    means = [math.fsum(values) / len(values) for values in (first, second)]
    a, b = ([value - mean for value in values] for values, mean in zip((first, second), means, strict=True))
    spread = math.sqrt(math.fsum(x * x for x in a) * math.fsum(y * y for y in b))
    return ratio(math.fsum(x * y for x, y in zip(a, b, strict=True)), spread)


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value; equal values share the mean of their ranks.

    >>> ranks([0.5, 0.1, 0.5])
    [1.5, 0.0, 1.5]
    """
    positions: dict[float, list[int]] = {}
    for position, value in enumerate(sorted(values)):
        positions.setdefault(value, []).append(position)
    means = {value: sum(equal) / len(equal) for value, equal in positions.items()}
    return [means[value] for value in values]


# --- entities ---------------------------------------------------------------------------------------------------------


def begins(tag: str, before: str | None) -> bool:
    """Whether an entity begins at a tag, instead of continuing from the one before it."""
    if before is None:
        return True
    (letter, name), (last, last_name) = split_tag(tag), split_tag(before)
    return name != last_name or letter in STARTS or last in ENDS


def entities(tags: Sequence[str], outside: Collection[str] = ("O",)) -> list[Entity]:
    """The entities of a sentence, in any tagging scheme of B, I, M, E, S, L and U.

    >>> entities(["B-PER", "I-PER", "O", "S-LOC", "B-LOC", "E-LOC"])
    [('PER', 0, 1), ('LOC', 3, 3), ('LOC', 4, 5)]
    """
    spans: list[Entity] = []
    before: str | None = None
    for position, tag in enumerate(tags):
        if tag in outside:
            before = None
            continue
        if begins(tag, before):
            spans.append((split_tag(tag)[1], position, position))
        else:
            spans[-1] = (*spans[-1][:2], position)
        before = tag
    return spans


def entity_scores(predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """F1, precision and recall of exactly matching entities, and the accuracy of single tags."""
    check_lengths(predictions, references)
    hits = predicted = expected = correct = words = 0
    for prediction, reference in zip(predictions, references, strict=True):
        check_lengths(prediction, reference)
        a, b = set(entities(prediction)), set(entities(reference))
        hits, predicted, expected = hits + len(a & b), predicted + len(a), expected + len(b)
        correct += sum(x == y for x, y in zip(prediction, reference, strict=True))
        words += len(reference)
    return {
        "f1": f1_of(hits, predicted, expected),
        "precision": ratio(hits, predicted),
        "recall": ratio(hits, expected),
        "accuracy": ratio(correct, words),
    }


# --- answers ----------------------------------------------------------------------------------------------------------

ARTICLES = re.compile(r"\b(a|an|the)\b")
CHINESE = re.compile(r"[㐀-䶿一-鿿豈-﫿]")
PUNCTUATION = {*string.punctuation}
CHINESE_PUNCTUATION = {*PUNCTUATION, *"，。！？；：、“”‘’（）《》〈〉【】「」『』…—～·"}


def answer_words(text: str) -> list[str]:
    """A normalised answer: lower case, without punctuation and English articles, each Chinese character as a word.

    Without Chinese this is the normalisation of SQuAD's script, which removes only ASCII punctuation.

    >>> answer_words("The cat's 北京，2008"), answer_words("the “cat”")
    (['cats', '北', '京', '2008'], ['“cat”'])
    """
    marks = CHINESE_PUNCTUATION if CHINESE.search(text) else PUNCTUATION
    plain = "".join(letter for letter in text.lower() if letter not in marks)
    return CHINESE.sub(lambda letter: f" {letter[0]} ", ARTICLES.sub(" ", plain)).split()


def answer_scores(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Exact match and word F1, each the best over a question's correct answers; an empty list means "no answer"."""
    check_lengths(predictions, references)
    scores = [answer_score(prediction, correct) for prediction, correct in zip(predictions, references, strict=True)]
    return {
        "exact_match": ratio(sum(exact for exact, _ in scores), len(references)),
        "f1": ratio(sum(f1 for _, f1 in scores), len(references)),
    }


def answer_score(prediction: str, correct: Sequence[str]) -> tuple[float, float]:
    """The exact match and the word F1 of one answer."""
    predicted = answer_words(prediction)
    expected = [words for words in map(answer_words, correct) if words] or [[]]
    return float(predicted in expected), max(word_f1(predicted, words) for words in expected)


def word_f1(predicted: list[str], expected: list[str]) -> float:
    if not predicted or not expected:
        return float(predicted == expected)
    return f1_of((Counter(predicted) & Counter(expected)).total(), len(predicted), len(expected))


# --- language models --------------------------------------------------------------------------------------------------


def perplexity(loss: float) -> float:
    """The exponential of the mean loss per token; always finite.

    >>> round(perplexity(math.log(50)))
    50
    """
    return math.exp(min(loss, 700.0))


# --- generated texts --------------------------------------------------------------------------------------------------


class SignedScore(float):
    """A score with sacrebleu's signature: the exact settings that it was computed with."""

    signature: str

    def __new__(cls, value: float, signature: str) -> SignedScore:
        score = super().__new__(cls, value)
        score.signature = signature
        return score


def exact_match(predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """The fraction of texts that are equal to their reference, except for spaces at the ends."""
    check_lengths(predictions, references)
    correct = sum(a.strip() == b.strip() for a, b in zip(predictions, references, strict=True))
    return {"exact_match": ratio(correct, len(references))}


def translation_scores(
    predictions: Sequence[str], references: Sequence[str], tokenize: str = "13a", lowercase: bool = False
) -> dict[str, float]:
    """BLEU and chrF of the corpus from 0 to 100, computed by sacrebleu."""
    from sacrebleu.metrics import BLEU, CHRF

    check_lengths(predictions, references)
    scores: dict[str, float] = {}
    is_tokenized = tokenize == "none"  # `force` suppresses the warning about texts that are tokenized already
    bleu = BLEU(tokenize=tokenize, lowercase=lowercase, force=is_tokenized)
    for name, metric in (("bleu", bleu), ("chrf", CHRF())):
        score = metric.corpus_score(list(predictions), [list(references)]).score
        scores[name] = SignedScore(score, str(metric.get_signature()))
    return scores


WORD = re.compile(r"[a-z0-9]+|[\u3400-\u9fff]")  # a Chinese character is a word of its own


def rouge(predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """The mean F1 of unigrams, of bigrams, and of the longest common subsequence (Lin 2004)."""
    check_lengths(predictions, references)
    totals = {"rouge1": 0.0, "rouge2": 0.0, "rougeL": 0.0}
    for prediction, reference in zip(predictions, references, strict=True):
        predicted, expected = (WORD.findall(text.lower()) for text in (prediction, reference))
        sizes = len(predicted), len(expected)
        bigrams = (max(size - 1, 0) for size in sizes)
        totals["rouge1"] += f1_of(common_ngrams(predicted, expected, 1), *sizes)
        totals["rouge2"] += f1_of(common_ngrams(predicted, expected, 2), *bigrams)
        totals["rougeL"] += f1_of(common_subsequence(predicted, expected), *sizes)
    return {name: ratio(total, len(references)) for name, total in totals.items()}


def common_ngrams(predicted: Sequence[str], expected: Sequence[str], size: int) -> int:
    """The number of n-grams that two texts share, each counted as often as it occurs in both."""
    counts = [Counter(zip(*(words[i:] for i in range(size)), strict=False)) for words in (predicted, expected)]
    return (counts[0] & counts[1]).total()


def common_subsequence(predicted: Sequence[str], expected: Sequence[str]) -> int:
    """The length of the longest common subsequence.

    >>> common_subsequence("the cat sat".split(), "the old cat".split())
    2
    """
    row = [0] * (len(expected) + 1)
    for word in predicted:
        diagonal = 0
        for i, other in enumerate(expected, 1):
            diagonal, row[i] = row[i], diagonal + 1 if word == other else max(row[i], row[i - 1])
    return row[-1]
