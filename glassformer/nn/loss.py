"""The losses of the heads. A label of -100 never counts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError
from .tensor_inputs import WHOLE, Kind, check_finite, check_tensor

IGNORED = -100
CLASSES = Kind("whole numbers, one for each class", WHOLE.dtypes | {torch.bool})


def summed_label_loss(
    logits: Tensor, labels: Tensor, weights: Tensor | None = None, label_smoothing: float = 0.0
) -> Tensor:
    """Cross-entropy summed over the labels that count: N V and N -> a number."""
    return F.cross_entropy(logits, labels, weights, reduction="sum", label_smoothing=label_smoothing)


def label_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy over all labels that count: ... V and ... -> a number; 0 if none does."""
    check_tensor(labels, "labels", CLASSES, device=logits.device)
    classes = logits.shape[-1]
    labels = labels.reshape(-1).long()
    if labels.numel() * classes != logits.numel():
        raise InputError(f"{logits.numel() // classes} labels are needed, got {labels.numel()}")
    check_label_range(labels, classes)
    return mean_label_loss(logits.reshape(-1, classes), labels, IGNORED)


def mean_label_loss(logits: Tensor, labels: Tensor, ignored: int) -> Tensor:
    """Mean cross-entropy over the labels that count; 0 where none does, of which the mean would be NaN."""
    reduction = "mean" if bool((labels != ignored).any()) else "sum"
    return F.cross_entropy(logits, labels, ignore_index=ignored, reduction=reduction)


def summed_replaced_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Binary cross-entropy summed over the labels that count, 0 or 1: N and N -> a number."""
    counted = labels != IGNORED
    return F.binary_cross_entropy_with_logits(logits[counted].float(), labels[counted].float(), reduction="sum")


def replaced_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean binary cross-entropy over all labels that count: N and N -> a number."""
    check_label_range(labels, 2)
    counted = labels != IGNORED
    return F.binary_cross_entropy_with_logits(logits[counted], labels[counted].to(logits))


def check_label_range(labels: Tensor, classes: int) -> None:
    """Raise for a label, of N, that is none of the classes."""
    wrong = ((labels != IGNORED) & ((labels < 0) | (labels >= classes))).nonzero()
    if len(wrong):
        raise InputError(f"label {int(labels[wrong[0]])} at place {int(wrong[0])} is not between 0 and {classes - 1}")


def sampled_softmax_loss(rows: Tensor, scorer: nn.Linear, labels: Tensor, count: int) -> Tensor:
    """The summed loss by sampled softmax, over `count` words instead of the full vocabulary: N C and N -> a number.

    Half of the words are the first of the vocabulary, which should begin with the most frequent ones; the others are
    sampled for each call and represent the rest. The estimate of the sum over the vocabulary is unbiased, and no word
    is its own negative.
    """
    size = scorer.out_features
    if count >= size:
        return summed_label_loss(scorer(rows), labels)
    common = count // 2
    rest = common + torch.randperm(size - common, device=rows.device)[: count - common]
    words = torch.cat((torch.arange(common, device=rows.device), rest))  # W
    bias, own_bias = (None, 0.0) if scorer.bias is None else (scorer.bias[words], scorer.bias[labels])
    own = (rows * scorer.weight[labels]).sum(-1).float() + own_bias  # N
    scores = F.linear(rows, scorer.weight[words], bias).float()  # N W
    places = torch.full((size,), -1, device=rows.device)
    places[words] = torch.arange(count, device=rows.device)
    place = places[labels]  # N: index of the target among the words, -1 if it is not one of them
    is_sampled, is_rare = place >= 0, labels >= common
    place = place.clamp(min=0)[:, None]
    masked = scores.gather(1, place).masked_fill(is_sampled[:, None], -math.inf)
    scores = scores.scatter(1, place, masked)
    factor = (size - common - is_rare.int()) / (count - common - (is_sampled & is_rare).int())  # N: words per sample
    others = torch.stack((own, scores[:, :common].logsumexp(1), scores[:, common:].logsumexp(1) + factor.log()), 1)
    return (others.logsumexp(1) - own).sum()


def cache_probabilities(states: Tensor, words: Tensor, sharpness: float) -> Tensor:
    """The probability of the word after each state by a continuous cache (Grave et al. 2017): B T C and B T -> B T.

    A word that followed an earlier state is the more likely the more similar that state is. The first state has
    probability 0.
    """
    similarity = sharpness / math.sqrt(states.shape[-1]) * (states @ states.mT)  # B T T
    later = torch.ones(similarity.shape[-2:], dtype=torch.bool, device=similarity.device).triu()
    weights = similarity.masked_fill(later, -math.inf).softmax(-1).nan_to_num(0.0)
    return (weights * (words[:, None, :] == words[:, :, None])).sum(-1)


def summed_mixture_loss(logits: Tensor, labels: Tensor, others: Tensor, weight: float) -> Tensor:
    """The summed loss of predictions that are mixed with `others`, probabilities of the right words: N V, N and N."""
    predicted = logits.softmax(-1).gather(1, labels[:, None])[:, 0]  # N
    return -torch.lerp(predicted, others, weight).log().sum()


def summed_choice_loss(scores: Sequence[Tensor], right: Sequence[Tensor]) -> Tensor:
    """Cross-entropy among the choices of each row, which may differ in number: a number.

    `right` is 1 at the right choice and 0 at the others.
    """
    return torch.stack([-(each.log_softmax(0) * one).sum() for each, one in zip(scores, right, strict=True)]).sum()


def text_loss(logits: Tensor, labels: Tensor, problem_type: str, reduction: str = "mean") -> Tensor:
    """The loss of a text classifier: `regression`, `single_label_classification`, `multi_label_classification`."""
    check_tensor(labels, "labels", device=logits.device)
    if problem_type == "regression":
        if labels.numel() != logits.numel():
            raise InputError(f"{logits.numel()} numbers are needed as labels, got {labels.numel()}")
        check_finite(labels, "labels")
        if logits.shape[-1] == 1:
            return F.mse_loss(logits.squeeze(-1), labels.reshape(-1).to(logits.dtype), reduction=reduction)
        return F.mse_loss(logits, labels.view_as(logits).to(logits.dtype), reduction=reduction)
    if problem_type == "single_label_classification":
        return label_loss(logits, labels) if reduction == "mean" else summed_label_loss(logits, labels)
    if labels.shape != logits.shape:
        raise InputError(
            f"multi-label classification takes labels of shape {list(logits.shape)}, got {list(labels.shape)}"
        )
    wrong = labels[~((labels >= 0) & (labels <= 1))]
    if len(wrong):
        raise InputError(f"multi-label classification takes labels from 0 to 1, got {wrong[0].item()}")
    return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction=reduction)


def span_loss(start_logits: Tensor, end_logits: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """The loss of extractive answers: positions beyond the text are left out, negative ones count as 0."""
    batch, length = start_logits.shape
    losses = []
    for name, logits, places in (("start", start_logits, starts), ("end", end_logits, ends)):
        check_tensor(places, f"{name}_positions", WHOLE, device=logits.device)
        if places.numel() != batch:
            raise InputError(f"{batch} {name}_positions are needed, got {list(places.shape)}")
        places = places.reshape(-1).long().clamp(0, length)
        losses.append(mean_label_loss(logits, places, length))
    return (losses[0] + losses[1]) / 2


def summed_span_loss(logits: Tensor, places: Tensor) -> Tensor:
    """The loss of extractive answers, summed over texts: the scores of all starts, then of all ends, 2B T and 2B."""
    return summed_label_loss(logits, places) / 2
