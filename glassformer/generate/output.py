"""`GenerateOutput`: what `generate` returns."""

from __future__ import annotations

import torch
from torch import Tensor

from ..models.base.outputs import ModelOutput, output
from .config import GenerationConfig
from .request import SearchResult


@output
class GenerateOutput(ModelOutput):
    """`sequences` holds the prompts as they were given and their continuations; the rest only if requested."""

    sequences: Tensor | None = None  # R T
    scores: tuple[Tensor, ...] | None = None  # for each step R V, after all processors
    sequences_scores: Tensor | None = None  # R: of beam searches
    beam_indices: Tensor | None = None  # R new tokens, -1 after the end: of beam searches
    finish_reasons: tuple[str, ...] | None = None  # for each sequence "eos", "stop" or "length"


def make_output(prompts: Tensor, result: SearchResult, settings: GenerationConfig, pad: int) -> Tensor | GenerateOutput:
    """Prompts as they were given (B T), each followed by its continuations."""
    continuations = result.continuations
    longest = max(len(one.tokens) for one in continuations)
    new = [one.tokens + [pad] * (longest - len(one.tokens)) for one in continuations]
    copies = len(continuations) // prompts.shape[0]
    new_tokens = torch.tensor(new, dtype=prompts.dtype, device=prompts.device)
    sequences = torch.cat((prompts.repeat_interleave(copies, 0), new_tokens), 1)
    if not settings.return_dict_in_generate:
        return sequences
    has_scores = settings.output_scores and continuations[0].score is not None
    beams = [one.beam_indices + [-1] * (longest - len(one.beam_indices)) for one in continuations]
    scores = torch.tensor([one.score for one in continuations], device=prompts.device) if has_scores else None
    return GenerateOutput(
        sequences=sequences,
        scores=tuple(result.scores) if result.scores is not None else None,
        sequences_scores=scores,
        beam_indices=torch.tensor(beams, device=prompts.device) if has_scores else None,
        finish_reasons=tuple(one.finish_reason for one in continuations),
    )
