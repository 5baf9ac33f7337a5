"""Contrastive search (Su et al. 2022): of the likeliest tokens, the one least similar to the text so far."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .model_runner import RunnerFactory, max_decode_steps
from .request import GenerationRequest, Search, SequenceBatch


def contrastive_search(request: GenerationRequest, make_runner: RunnerFactory) -> Search:
    """Continue all prompts.

    The candidates of a step are branches of one sequence; all but the chosen one are dropped.
    """
    settings = request.settings
    batch = SequenceBatch(request)
    runner = make_runner(max_decode_steps(request, request.prompts))
    width = min(settings.top_k, request.vocab_size)
    logits = runner.prefill(request.prompts, width)  # B V
    states = runner.prompt_states
    previous = F.normalize(states, dim=-1)  # B T C
    padding = torch.where((states == 0).all(-1), -torch.inf, 0.0)  # B T
    parent = torch.zeros(len(previous), dtype=torch.long, device=logits.device)
    while True:
        scores = batch.process_logits(logits)
        batch.record_scores(scores)
        probs, candidates = scores.softmax(-1).topk(width)  # B K
        next_logits = runner.decode_step(candidates, parent[:, None].expand_as(candidates))  # B K V
        states = F.normalize(runner.states, dim=-1)  # B K C
        similarity = (states @ previous.transpose(1, 2) + padding[:, None]).amax(-1)  # B K
        chosen = ((1 - settings.penalty_alpha) * probs - settings.penalty_alpha * similarity).argmax(-1)  # B
        pairs, kept = batch.append(candidates.gather(1, chosen[:, None])[:, 0])
        yield pairs
        if not batch.active:
            return batch.result()
        parent = chosen[kept]
        logits = next_logits[kept, parent]
        previous = torch.cat((previous[kept], states[kept, parent][:, None]), 1)
        padding = torch.cat((padding[kept], padding.new_zeros(len(kept), 1)), 1)
        if len(kept) < len(pairs):
            runner.select(kept)
