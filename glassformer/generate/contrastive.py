"""Contrastive search (Su et al. 2022): of the likeliest words, the one that says least what was said before."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F

from .job import Job, Progress
from .search import ReaderMaker, room


def contrast(job: Job, make_reader: ReaderMaker) -> Iterator[list[tuple[int, int]]]:
    """Continue all prompts step by step, as `search.one_by_one` does.

    The candidates of a step are read as leaves of one sequence; those that are not chosen are given up.
    """
    settings = job.settings
    progress = Progress(job)
    reader = make_reader(room(job, job.prompts))
    width = min(settings.top_k, job.words)
    scores = reader.begin(job.prompts, width)  # B V
    states = reader.prompt_states
    before = F.normalize(states, dim=-1)  # B T C: what was said
    padding = torch.where((states == 0).all(-1), -float("inf"), 0.0)  # B T
    parent = torch.zeros(len(before), dtype=torch.long, device=scores.device)
    while True:
        scores = job.apply_rules(progress.open_texts(), scores)
        progress.note(scores)
        chances, candidates = scores.softmax(-1).topk(width)  # B K
        following = reader.read(candidates, parent[:, None].expand_as(candidates))  # B K V
        states = F.normalize(reader.states, dim=-1)  # B K C
        likeness = (states @ before.transpose(1, 2) + padding[:, None]).amax(-1)  # B K
        chosen = ((1 - settings.penalty_alpha) * chances - settings.penalty_alpha * likeness).argmax(-1)  # B
        said, kept = progress.say(candidates.gather(1, chosen[:, None])[:, 0])
        yield said
        if not progress.rows:
            return progress.found()
        parent = chosen[kept]
        scores = following[kept, parent]
        before = torch.cat((before[kept], states[kept, parent][:, None]), 1)
        padding = torch.cat((padding[kept], padding.new_zeros(len(kept), 1)), 1)
        if len(kept) < len(said):
            reader.select(kept)
