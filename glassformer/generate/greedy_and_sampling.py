"""Greedy search and sampling: the likeliest next token at every step, or a random one."""

from __future__ import annotations

import torch
from torch import Tensor

from .model_runner import RunnerFactory, max_decode_steps
from .request import GenerationRequest, Search, SequenceBatch
from .sampling import sample, warp_logits


def greedy_or_sample(request: GenerationRequest, make_runner: RunnerFactory) -> Search:
    """Continue all prompts. A sequence that has finished is not computed any further."""
    copies = request.settings.num_return_sequences
    batch = SequenceBatch(request, copies)
    window_starts = [0] * len(batch.sequences)  # of what the model reads
    runner = make_runner(max_decode_steps(request, request.prompts))
    logits = runner.prefill(request.prompts)  # B V
    if copies > 1:
        logits = logits.repeat_interleave(copies, 0)
        runner.select(torch.arange(len(request.prompts), device=logits.device).repeat_interleave(copies))
    while True:
        tokens = next_tokens(batch, logits)
        pairs, kept = batch.append(tokens)
        yield pairs
        if not batch.active:
            return batch.result()
        if len(kept) < len(pairs):
            runner.select(kept)
            tokens = tokens[kept]
        lengths = {row: len(batch.sequences[row].tokens) for row in batch.active}
        full = [row for row in batch.active if request.exceeds_context(lengths[row] - window_starts[row])]
        if full:  # only with on_full_context="slide": maximum lengths stay inside the context otherwise
            for row in full:
                window_starts[row] = lengths[row] - request.context_length // 2
            windows = [batch.sequences[row].tokens[window_starts[row] :] for row in batch.active]
            runner = make_runner(max_decode_steps(request, windows))
            logits = runner.prefill(windows)
        else:
            logits = runner.decode_step(tokens[:, None])[:, 0]


def next_tokens(batch: SequenceBatch, logits: Tensor) -> Tensor:
    """The next token of each active sequence, from its logits (R V)."""
    settings = batch.request.settings
    scores = batch.process_logits(logits)
    if settings.do_sample:
        scores = warp_logits(scores, settings)
        tokens = sample_active(scores, batch, batch.request)
    else:
        tokens = scores.argmax(-1)
    batch.record_scores(scores)
    return tokens


def sample_active(scores: Tensor, batch: SequenceBatch, request: GenerationRequest) -> Tensor:
    """One token for each active sequence.

    A shared generator samples for the finished ones too: what a sequence gets does not depend on when others finish.
    """
    if isinstance(request.generators, list):
        return sample(scores, [request.generators[row] for row in batch.active])[:, 0]
    all_scores = scores.new_zeros(len(batch.sequences), scores.shape[1])
    all_scores[batch.active] = scores
    return sample(all_scores, request.generators)[batch.active, 0]
