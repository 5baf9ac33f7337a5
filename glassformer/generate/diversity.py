"""Measures of generated texts: how varied they are, how much they repeat, how likely the model finds them.

A text is a list of tokens here, ids or words. A measure is None where it is undefined.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..errors import InputError
from ..models.base.evaluation_mode import evaluation_mode
from .model_runner import pad_right

if TYPE_CHECKING:
    from ..models.base.pretrained_model import PreTrainedModel

Text = Sequence[Hashable]

BATCH = 8  # sequences for each forward pass
ROWS = 256  # tokens that are scored at once: logits are as wide as the vocabulary


def ngrams(text: Text, size: int) -> list[tuple]:
    """All n-grams of `size` tokens."""
    return [tuple(text[i : i + size]) for i in range(len(text) - size + 1)]


def distinct(texts: Sequence[Text], size: int) -> float | None:
    """The share of distinct n-grams among all n-grams of `size` tokens (Li et al. 2016).

    >>> distinct(["to be or not to be".split()], 1)
    0.6666666666666666
    """
    grams = [gram for text in texts for gram in ngrams(text, size)]
    return len(set(grams)) / len(grams) if grams else None


def repetition(texts: Sequence[Text], size: int = 4) -> float | None:
    """The share of tokens inside an n-gram of `size` tokens that occurs more than once in its text.

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
    """How many tokens at the end repeat one sequence twice or more: the loop that a search got caught in.

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
    """How much of a text occurs in the references, from 0 to 1 (Papineni et al. 2002).

    The geometric mean of the n-gram precisions for 1 to `order` tokens, with the brevity penalty. A size without a
    match counts as half a match, the next one as a quarter, and so on (smoothing); sizes longer than the text do not
    count.

    >>> bleu("the cat sat on a mat".split(), ["the cat sat on the mat".split()])
    0.537...
    """
    precisions, missed = [], 0
    for size in range(1, min(order, len(text)) + 1):
        own = Counter(ngrams(text, size))
        most: Counter[tuple] = Counter()
        for reference in references:
            most |= Counter(ngrams(reference, size))
        matches = (own & most).total()
        if not matches:
            if size == 1:
                return 0.0
            missed += 1
        precisions.append((matches or 0.5**missed) / own.total())
    if not precisions or not references:
        return 0.0
    nearest = min((abs(len(reference) - len(text)), len(reference)) for reference in references)[1]
    brevity = min(0.0, 1 - nearest / len(text))
    return math.exp(brevity + sum(map(math.log, precisions)) / len(precisions))


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

    Prompts are ids and not empty. Settings such as the temperature have no influence.
    """
    if not all(prompts):
        raise InputError("an empty prompt cannot predict the first token: begin it with the model's bos_token_id")
    log_probs: list[list[float]] = []
    for first in range(0, len(prompts), BATCH):
        pairs = list(zip(prompts[first : first + BATCH], continuations[first : first + BATCH], strict=True))
        ids, real = pad_right([[*prompt, *new] for prompt, new in pairs], model.device)  # B T
        with torch.no_grad(), evaluation_mode(model):
            states = model.base_model.encode(ids, real, use_cache=False).last_hidden_state  # B T C
            for row, (prompt, new) in enumerate(pairs):
                before = states[row, len(prompt) - 1 : len(prompt) - 1 + len(new)]  # N C
                log_probs.append(score_tokens(model, before, list(new)))
    return log_probs


def score_tokens(model: PreTrainedModel, states: Tensor, tokens: list[int]) -> list[float]:
    """The log-probability of each token, from the hidden state (N C) that predicts it."""
    targets = torch.tensor(tokens, dtype=torch.long, device=states.device)
    scores: list[float] = []
    for rows, target in zip(states.split(ROWS), targets.split(ROWS), strict=True):
        log_probs = model.word_logits(rows).float().log_softmax(-1)  # N V
        scores += log_probs.gather(1, target[:, None])[:, 0].tolist()
    return scores
