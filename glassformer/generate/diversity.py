"""Measures of generated texts: how varied they are, how much they repeat, how likely the model itself finds them.

A text is a list of tokens here, ids or words. A measure is None where there is nothing to measure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..errors import InputError
from .engine import evaluating

if TYPE_CHECKING:
    from ..models.base import PreTrainedModel

Text = Sequence[Hashable]

BATCH = 8  # sequences that are read at once
ROWS = 256  # words that are scored at once: every score is as wide as the vocabulary


def ngrams(text: Text, size: int) -> list[tuple]:
    """Every stretch of `size` tokens."""
    return [tuple(text[i : i + size]) for i in range(len(text) - size + 1)]


def distinct(texts: Sequence[Text], size: int) -> float | None:
    """Of all stretches of `size` tokens, the share of different ones (Li et al. 2016).

    >>> distinct(["to be or not to be".split()], 1)
    0.6666666666666666
    """
    found = [gram for text in texts for gram in ngrams(text, size)]
    return len(set(found)) / len(found) if found else None


def repetition(texts: Sequence[Text], size: int = 4) -> float | None:
    """The share of tokens that stand in a stretch of `size` tokens which its text says more than once.

    >>> repetition(["a b c d x a b c d y".split()])
    0.8
    """
    repeated = total = 0
    for text in texts:
        grams = ngrams(text, size)
        counts = Counter(grams)
        places = {i + j for i, gram in enumerate(grams) if counts[gram] > 1 for j in range(size)}
        repeated += len(places)
        total += len(text)
    return repeated / total if total else None


def repeated_tail(text: Text) -> int:
    """How many tokens at the end are one stretch said twice or more: the loop that a search got caught in.

    >>> repeated_tail("it was and was and was and".split())
    6
    """
    longest = 0
    for period in range(1, len(text) // 2 + 1):
        same = 0
        while same + period < len(text) and text[-1 - same] == text[-1 - same - period]:
            same += 1
        if same >= period:
            longest = max(longest, same + period)
    return longest


def bleu(text: Text, references: Sequence[Text], order: int = 4) -> float:
    """How much of a text is found in the references, from 0 to 1 (Papineni et al. 2002).

    The geometric mean of the shares of its stretches of 1 to `order` tokens, less if it is shorter than the references.
    Where no stretch of a length is found, half a stretch is counted, then a quarter, and so on (smoothing); lengths
    that the text is too short for do not count.

    >>> bleu("the cat sat on a mat".split(), ["the cat sat on the mat".split()])
    0.537...
    """
    shares, missed = [], 0
    for size in range(1, min(order, len(text)) + 1):
        own = Counter(ngrams(text, size))
        most: Counter[tuple] = Counter()
        for reference in references:
            most |= Counter(ngrams(reference, size))
        found = (own & most).total()
        if not found:
            if size == 1:
                return 0.0
            missed += 1
        shares.append((found or 0.5**missed) / own.total())
    if not shares or not references:
        return 0.0
    nearest = min((abs(len(reference) - len(text)), len(reference)) for reference in references)[1]
    brevity = min(0.0, 1 - nearest / len(text))
    return math.exp(brevity + sum(map(math.log, shares)) / len(shares))


def self_bleu(texts: Sequence[Text]) -> float | None:
    """How alike texts are: the mean BLEU of each against the others (Zhu et al. 2018); 1 means all the same."""
    if len(texts) < 2:
        return None
    scores = [bleu(text, [*texts[:i], *texts[i + 1 :]]) for i, text in enumerate(texts)]
    return sum(scores) / len(scores)


def log_probabilities(
    model: PreTrainedModel, prompts: Sequence[Sequence[int]], continuations: Sequence[Sequence[int]]
) -> list[list[float]]:
    """For each continuation the log-probability of its every token, given its prompt and the tokens before.

    Prompts are ids and not empty. What a setting such as the temperature does to the scores plays no part.
    """
    if not all(prompts):
        raise InputError("an empty prompt says nothing of the first word: begin it with the model's bos_token_id")
    found: list[list[float]] = []
    for first in range(0, len(prompts), BATCH):
        pairs = list(zip(prompts[first : first + BATCH], continuations[first : first + BATCH], strict=True))
        texts = [torch.tensor([*prompt, *new], device=model.device) for prompt, new in pairs]
        lengths = torch.tensor([len(text) for text in texts], device=model.device)
        ids = pad_sequence(texts, batch_first=True)  # B T
        real = torch.arange(ids.shape[1], device=model.device) < lengths[:, None]
        with torch.no_grad(), evaluating(model):
            states = model.base_model.encode(ids, real, use_cache=False).last_hidden_state  # B T C
            for row, (prompt, new) in enumerate(pairs):
                before = states[row, len(prompt) - 1 : len(prompt) - 1 + len(new)]  # N C
                found.append(scores_of(model, before, list(new)))
    return found


def scores_of(model: PreTrainedModel, states: Tensor, tokens: list[int]) -> list[float]:
    """The log-probability of each token behind the state (N C) that predicts it."""
    wanted = torch.tensor(tokens, dtype=torch.long, device=states.device)
    scores: list[float] = []
    for rows, said in zip(states.split(ROWS), wanted.split(ROWS), strict=True):
        chances = model.word_logits(rows).float().log_softmax(-1)  # N V
        scores += chances.gather(1, said[:, None])[:, 0].tolist()
    return scores
