"""A conditional random field over labels in a row (Lafferty et al. 2001): exact losses, best paths and marginals.

Chains are sequences of positions that each get one label. They stand one after the other in a stream, N rows for all
of them, and each recurrence takes one step for all chains that are long enough for it, so that no padding is computed.

    score(path) = start[first] + sum of emissions + sum of transitions + end[last]
    p(path)     = exp(score(path)) / the sum of exp(score) over all paths

Letters: `N` rows of the stream, `L` labels, `K` chains.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

FORBIDDEN = -1e30  # the score of what no path may do; finite, so that gradients through it are zero and not NaN


class AllowedPaths(NamedTuple):
    """What a path may do: masks, true where something is allowed."""

    start: Tensor  # L: begin with a label
    transitions: Tensor  # L L: from the label of the row to that of the column
    end: Tensor  # L: end with a label


class PathScores(NamedTuple):
    """What the scores of a path consist of, beside the emissions."""

    start: Tensor  # L
    transitions: Tensor  # L L: from the label of the row to that of the column
    end: Tensor  # L

    @classmethod
    def zero(cls, labels: int) -> PathScores:
        """Scores that prefer no path."""
        return cls(torch.zeros(labels), torch.zeros(labels, labels), torch.zeros(labels))

    def within(self, allowed: AllowedPaths | None) -> PathScores:
        """The same scores, but only for the allowed paths."""
        if allowed is None:
            return self
        pairs = zip(self, allowed, strict=True)
        return PathScores(*(each.masked_fill(~mask.to(each.device), FORBIDDEN) for each, mask in pairs))

    def to(self, like: Tensor) -> PathScores:
        """The scores in the type and on the device of a tensor."""
        return PathScores(*(each.to(like) for each in self))


class ConditionalRandomField(nn.Module):
    """The learnt scores of paths; names and orientation are those of other implementations."""

    def __init__(self, num_labels: int):
        super().__init__()
        self.start_transitions = nn.Parameter(torch.zeros(num_labels))
        self.transitions = nn.Parameter(torch.zeros(num_labels, num_labels))
        self.end_transitions = nn.Parameter(torch.zeros(num_labels))

    def forward(self) -> PathScores:
        """The scores in new tensors, of float32 at least."""
        dtype = torch.promote_types(self.transitions.dtype, torch.float32)
        scores = (self.start_transitions, self.transitions, self.end_transitions)
        return PathScores(*(each.to(dtype, copy=True) for each in scores))


class Chains:
    """Where each step of all chains stands in the stream. Inside, longer chains come first."""

    def __init__(self, lengths: Sequence[int], device: torch.device | str = "cpu"):
        order = sorted((k for k, length in enumerate(lengths) if length), key=lambda k: -lengths[k])
        size = torch.tensor([lengths[k] for k in order], dtype=torch.long)
        starts = torch.tensor(lengths, dtype=torch.long).cumsum(0)[order] - size  # K
        columns = torch.arange(int(size.max()) if order else 0)[:, None]
        running = columns < size  # steps K
        self.count = len(lengths)
        self.order = torch.tensor(order, dtype=torch.long, device=device)
        self.index = (starts + columns)[running].to(device)  # N: the rows in the order of the steps
        self.sizes: list[int] = running.sum(1).tolist()  # how many chains reach each step

    def steps(self, rows: Tensor) -> Sequence[Tensor]:
        """N ... -> for each step, the rows of the chains that reach it."""
        return rows[self.index].split(self.sizes)

    def stream(self, steps: Sequence[Tensor]) -> Tensor:
        """The inverse of `steps`."""
        rows = torch.cat(list(steps))
        return torch.empty_like(rows).index_copy_(0, self.index, rows)

    def each(self, values: Tensor) -> Tensor:
        """Values of the chains in their own order: K, 0 for those without a position."""
        return values.new_zeros(self.count).index_copy(0, self.order, values)


def forward_scores(steps: Sequence[Tensor], scores: PathScores, relative: bool = False) -> list[Tensor]:
    """For each step, the logarithm of the sum over all paths up to every label there: each k L.

    `relative` ones are probabilities of the labels, so that nothing grows with the length.
    """
    alphas = [scores.start + steps[0]]
    for step in steps[1:]:
        before = alphas[-1][: len(step)]
        before = before.log_softmax(1) if relative else before
        alphas.append((before[:, :, None] + scores.transitions).logsumexp(1) + step)
    return alphas


def backward_scores(steps: Sequence[Tensor], scores: PathScores) -> list[Tensor]:
    """For each step, the logarithm of the sum over all continuations after every label, less a constant: each k L."""
    betas = [scores.end.expand(len(steps[-1]), -1)]
    for step, after in zip(reversed(steps[:-1]), reversed(steps[1:]), strict=True):
        following = (after + betas[-1]).log_softmax(1)
        continued = (scores.transitions + following[:, None, :]).logsumexp(2)
        betas.append(torch.cat((continued, scores.end.expand(len(step) - len(after), -1))))
    return betas[::-1]


def last_of(steps: Sequence[Tensor]) -> Tensor:
    """Of values at each step, those at the last step of every chain, the longest chain first: K ..."""
    ending = [step[len(after) :] for step, after in pairwise(steps)]
    return torch.cat((steps[-1], *reversed(ending)))


def log_partition(emissions: Tensor, chains: Chains, scores: PathScores) -> Tensor:
    """The logarithm of the sum over all paths of each chain, by the forward algorithm: N L -> K."""
    if not chains.sizes:
        return emissions.new_zeros(chains.count)
    alphas = forward_scores(chains.steps(emissions), scores)
    return chains.each((last_of(alphas) + scores.end).logsumexp(1))


def transition_parts(labels: Tensor, lengths: Sequence[int], scores: PathScores) -> Tensor:
    """What the way into each position, and out of the last one, adds to the score of a path: N -> N."""
    rows = torch.arange(len(labels), device=labels.device)
    sizes = torch.tensor([length for length in lengths if length], device=labels.device, dtype=torch.long)
    lasts = sizes.cumsum(0) - 1
    is_last, is_first = torch.isin(rows, lasts), torch.isin(rows, lasts + 1 - sizes)
    into = torch.where(is_first, scores.start[labels], scores.transitions[labels.roll(1), labels])
    return torch.where(is_last, into + scores.end[labels], into)


def crf_losses(
    emissions: Tensor, labels: Tensor, lengths: Sequence[int], scores: PathScores, allowed: AllowedPaths | None = None
) -> Tensor:
    """The negative log-likelihood of the labels of each chain: N L and N -> K.

    Only allowed paths share the probability. Labels that are not such a path would have none of it; their chain is
    compared with all paths.
    """
    emissions = emissions.to(torch.promote_types(emissions.dtype, torch.float32))
    chains, free = Chains(lengths, emissions.device), scores.to(emissions)
    constrained = free.within(allowed)
    # All paths are scored relative to this one, so that a small loss is not the difference of two large numbers.
    relative = emissions - emissions.gather(1, labels[:, None])
    relative = relative - transition_parts(labels, lengths, constrained)[:, None]
    losses = log_partition(relative, chains, constrained)
    broken = losses.detach() > -FORBIDDEN / 2  # K
    if allowed is None or not broken.any():
        return losses
    kept = torch.repeat_interleave(broken, torch.tensor(lengths, device=broken.device))  # N
    fewer = [length for length, is_broken in zip(lengths, broken.tolist(), strict=True) if is_broken]
    return losses.masked_scatter(broken, crf_losses(emissions[kept], labels[kept], fewer, scores))


def best_paths(emissions: Tensor, lengths: Sequence[int], scores: PathScores) -> Tensor:
    """The labels of the path with the highest score of each chain, by Viterbi's algorithm: N L -> N."""
    chains = Chains(lengths, emissions.device)
    if not chains.sizes:
        return emissions.new_zeros(0, dtype=torch.long)
    scores, (first, *others) = scores.to(emissions), chains.steps(emissions)
    best, origins = [scores.start + first], []
    for step in others:
        before = best[-1][: len(step)]
        before = before - before.amax(1, keepdim=True)  # what all paths share would only be rounded
        reached, origin = (before[:, :, None] + scores.transitions).max(1)
        best.append(reached + step)
        origins.append(origin)  # k L: the label before each label
    path = [(best[-1] + scores.end).argmax(1)]
    for step, origin in zip(reversed(best[:-1]), reversed(origins), strict=True):
        before = origin.gather(1, path[-1][:, None])[:, 0]
        path.append(torch.cat((before, (step[len(before) :] + scores.end).argmax(1))))
    return chains.stream(path[::-1])


def marginals(emissions: Tensor, lengths: Sequence[int], scores: PathScores) -> Tensor:
    """The probability of every label at every position, all paths considered, by forward-backward: N L -> N L."""
    chains = Chains(lengths, emissions.device)
    if not chains.sizes:
        return emissions
    steps, scores = chains.steps(emissions), scores.to(emissions)
    pairs = zip(forward_scores(steps, scores, relative=True), backward_scores(steps, scores), strict=True)
    return chains.stream([alpha + beta for alpha, beta in pairs]).softmax(1)
