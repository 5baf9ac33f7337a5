"""How good predictions are: small formulas, each a fraction between 0 and 1 or a correlation between -1 and 1."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

Entity = tuple[str, int, int]  # tag, first and last word


def check_lengths(predictions: Sequence, references: Sequence) -> None:
    if len(predictions) != len(references):
        raise ValueError(f"{len(predictions)} predictions cannot be held against {len(references)} references")


def ratio(part: float, whole: float) -> float:
    """A fraction, which is 0 where there is nothing to divide by."""
    return part / whole if whole else 0.0


def f1_of(hits: float, predicted: float, wanted: float) -> float:
    """The harmonic mean of precision and recall."""
    return ratio(2 * hits, predicted + wanted)


# --- labels -----------------------------------------------------------------------------------------------------------


def classification(predictions: Sequence[int], references: Sequence[int], labels: int) -> dict[str, float]:
    """Accuracy; F1 of label 1 when there are two labels, else the mean F1 of all that occur; Matthews' correlation."""
    check_lengths(predictions, references)
    hits = Counter(a for a, b in zip(predictions, references, strict=True) if a == b)
    predicted, wanted = Counter(predictions), Counter(references)
    scores = {label: f1_of(hits[label], predicted[label], wanted[label]) for label in predicted.keys() | wanted.keys()}
    f1 = scores.get(1, 0.0) if labels == 2 else ratio(sum(scores.values()), len(scores))
    return {
        "accuracy": ratio(hits.total(), len(references)),
        "f1": f1,
        "matthews": matthews(hits.total(), predicted, wanted),
    }


def matthews(hits: int, predicted: Counter, wanted: Counter) -> float:
    """The correlation of two labellings: 1 equal, 0 by chance."""
    count = wanted.total()
    together = sum(predicted[label] * wanted[label] for label in wanted)
    spread = (count**2 - sum(n * n for n in predicted.values())) * (count**2 - sum(n * n for n in wanted.values()))
    return ratio(hits * count - together, math.sqrt(spread))


def multi_label(predictions: Sequence[Sequence[int]], references: Sequence[Sequence[int]]) -> dict[str, float]:
    """Rows of 0 and 1: how many rows are right in full, F1 over all labels together, and the mean of each label's."""
    check_lengths(predictions, references)
    hits = [sum(a and b for a, b in zip(*columns, strict=True)) for columns in by_label(predictions, references)]
    sizes = [(sum(a), sum(b)) for a, b in by_label(predictions, references)]
    each = [f1_of(hit, *size) for hit, size in zip(hits, sizes, strict=True)]
    right = sum(list(a) == list(b) for a, b in zip(predictions, references, strict=True))
    return {
        "accuracy": ratio(right, len(references)),
        "f1_micro": f1_of(sum(hits), sum(a for a, _ in sizes), sum(b for _, b in sizes)),
        "f1_macro": ratio(sum(each), len(each)),
    }


def by_label(
    predictions: Sequence[Sequence[int]], references: Sequence[Sequence[int]]
) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    return zip(zip(*predictions, strict=True), zip(*references, strict=True), strict=True)


# --- numbers ----------------------------------------------------------------------------------------------------------


def correlation(predictions: Sequence[float], references: Sequence[float]) -> dict[str, float]:
    """How well numbers follow each other: in value (Pearson) and in order (Spearman)."""
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
    """The place of each value in order; equal values share the mean of their places.

    >>> ranks([0.5, 0.1, 0.5])
    [1.5, 0.0, 1.5]
    """
    places: dict[float, list[int]] = {}
    for place, value in enumerate(sorted(values)):
        places.setdefault(value, []).append(place)
    means = {value: sum(held) / len(held) for value, held in places.items()}
    return [means[value] for value in values]


# --- entities ---------------------------------------------------------------------------------------------------------

STARTS, ENDS = "BSU", "ESLU"  # tags of one letter and a name: these begin an entity, these end one
LETTERS = {*STARTS, *ENDS, *"IM"}


def split_tag(tag: str) -> tuple[str, str]:
    """The letter and the name of a tag; one without a letter continues what stands before it.

    Where all entities are of one kind, the letter stands alone.

    >>> split_tag("B-PER"), split_tag("E-LOC"), split_tag("B"), split_tag("NOUN")
    (('B', 'PER'), ('E', 'LOC'), ('B', ''), ('I', 'NOUN'))
    """
    letter, _, name = tag.partition("-")
    return (letter, name) if letter in LETTERS else ("I", tag)


def begins(tag: str, before: str | None) -> bool:
    """Whether an entity begins at a tag, and does not go on from the one before it."""
    if before is None:
        return True
    (letter, name), (last, last_name) = split_tag(tag), split_tag(before)
    return name != last_name or letter in STARTS or last in ENDS


def entities(tags: Sequence[str], outside: Collection[str] = ("O",)) -> list[Entity]:
    """The entities of a sentence, in any scheme of B, I, M, E, S, L and U.

    >>> entities(["B-PER", "I-PER", "O", "S-LOC", "B-LOC", "E-LOC"])
    [('PER', 0, 1), ('LOC', 3, 3), ('LOC', 4, 5)]
    """
    found: list[Entity] = []
    before: str | None = None
    for place, tag in enumerate(tags):
        if tag in outside:
            before = None
            continue
        if begins(tag, before):
            found.append((split_tag(tag)[1], place, place))
        else:
            found[-1] = (*found[-1][:2], place)
        before = tag
    return found


def entity_scores(predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """F1, precision and recall of whole entities, and the accuracy of single tags."""
    check_lengths(predictions, references)
    hits = predicted = wanted = right = words = 0
    for mine, theirs in zip(predictions, references, strict=True):
        check_lengths(mine, theirs)
        a, b = set(entities(mine)), set(entities(theirs))
        hits, predicted, wanted = hits + len(a & b), predicted + len(a), wanted + len(b)
        right += sum(x == y for x, y in zip(mine, theirs, strict=True))
        words += len(theirs)
    return {
        "f1": f1_of(hits, predicted, wanted),
        "precision": ratio(hits, predicted),
        "recall": ratio(hits, wanted),
        "accuracy": ratio(right, words),
    }


# --- answers ----------------------------------------------------------------------------------------------------------

ARTICLES = re.compile(r"\b(a|an|the)\b")
CHINESE = re.compile(r"[㐀-䶿一-鿿豈-﫿]")
PUNCTUATION = {*string.punctuation}
CHINESE_PUNCTUATION = {*PUNCTUATION, *"，。！？；：、“”‘’（）《》〈〉【】「」『』…—～·"}


def answer_words(text: str) -> list[str]:
    """An answer as it is compared: lower case, no punctuation, no English articles, one word per Chinese character.

    Without Chinese it is what SQuAD's script makes of it, which removes ASCII punctuation alone.

    >>> answer_words("The cat's 北京，2008"), answer_words("the “cat”")
    (['cats', '北', '京', '2008'], ['“cat”'])
    """
    marks = CHINESE_PUNCTUATION if CHINESE.search(text) else PUNCTUATION
    plain = "".join(letter for letter in text.lower() if letter not in marks)
    return CHINESE.sub(lambda letter: f" {letter[0]} ", ARTICLES.sub(" ", plain)).split()


def answer_scores(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Exact match and the F1 of words, each the best over a question's right answers; none means there is no answer."""
    check_lengths(predictions, references)
    exact = f1 = 0.0
    for prediction, right in zip(predictions, references, strict=True):
        mine = answer_words(prediction)
        theirs = [words for words in map(answer_words, right) if words] or [[]]
        exact += any(mine == words for words in theirs)
        f1 += max(word_f1(mine, words) for words in theirs)
    return {"exact_match": ratio(exact, len(references)), "f1": ratio(f1, len(references))}


def word_f1(mine: list[str], theirs: list[str]) -> float:
    if not mine or not theirs:
        return float(mine == theirs)
    return f1_of((Counter(mine) & Counter(theirs)).total(), len(mine), len(theirs))


# --- words ------------------------------------------------------------------------------------------------------------


def perplexity(loss: float) -> float:
    """Among how many words a model hesitates, by its mean loss for each; finite, however bad it is.

    >>> round(perplexity(math.log(50)))
    50
    """
    return math.exp(min(loss, 700.0))


# --- texts that are written -------------------------------------------------------------------------------------------


class Signed(float):
    """A number with the exact terms that it was measured on."""

    signature: str

    def __new__(cls, value: float, signature: str) -> Signed:
        made = super().__new__(cls, value)
        made.signature = signature
        return made


def exact_match(predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """How many texts are right to the letter, spaces at the ends aside."""
    check_lengths(predictions, references)
    right = sum(a.strip() == b.strip() for a, b in zip(predictions, references, strict=True))
    return {"exact_match": ratio(right, len(references))}


def machine_translation(
    predictions: Sequence[str], references: Sequence[str], tokenize: str = "13a", lowercase: bool = False
) -> dict[str, float]:
    """BLEU and chrF from 0 to 100, as sacrebleu measures them over the whole corpus."""
    from sacrebleu.metrics import BLEU, CHRF

    check_lengths(predictions, references)
    found: dict[str, float] = {}
    cut = tokenize == "none"  # asked for, with text that was cut before: no word about that
    for name, metric in (("bleu", BLEU(tokenize=tokenize, lowercase=lowercase, force=cut)), ("chrf", CHRF())):
        score = metric.corpus_score(list(predictions), [list(references)]).score
        found[name] = Signed(score, str(metric.get_signature()))
    return found


WORD = re.compile(r"[a-z0-9]+|[\u3400-\u9fff]")  # a Chinese character is a word of its own


def rouge(predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """The mean F1 of words, of pairs of words, and of the longest common subsequence (Lin 2004)."""
    check_lengths(predictions, references)
    totals = {"rouge1": 0.0, "rouge2": 0.0, "rougeL": 0.0}
    for predicted, wanted in zip(predictions, references, strict=True):
        said, due = (WORD.findall(text.lower()) for text in (predicted, wanted))
        totals["rouge1"] += f1_of(common(said, due, 1), len(said), len(due))
        totals["rouge2"] += f1_of(common(said, due, 2), max(len(said) - 1, 0), max(len(due) - 1, 0))
        totals["rougeL"] += f1_of(longest_common(said, due), len(said), len(due))
    return {name: ratio(total, len(references)) for name, total in totals.items()}


def common(said: Sequence[str], due: Sequence[str], size: int) -> int:
    """How many runs of `size` words two texts share, each as often as it stands in both."""
    counts = [Counter(zip(*(words[i:] for i in range(size)), strict=False)) for words in (said, due)]
    return (counts[0] & counts[1]).total()


def longest_common(said: Sequence[str], due: Sequence[str]) -> int:
    """How many words two texts share in the same order.

    >>> longest_common("the cat sat".split(), "the old cat".split())
    2
    """
    row = [0] * (len(due) + 1)
    for word in said:
        before = 0
        for place, other in enumerate(due, 1):
            before, row[place] = row[place], before + 1 if word == other else max(row[place], row[place - 1])
    return row[-1]
