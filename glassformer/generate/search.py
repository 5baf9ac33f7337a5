"""One word at a time: the best one (greedy search), or one that is drawn (sampling)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from .job import Job, Progress
from .sampling import draw, narrow

ReaderMaker = Callable[[int], object]  # room for new tokens -> a reader


def one_by_one(job: Job, make_reader: ReaderMaker) -> Iterator[list[tuple[int, int]]]:
    """Continue all prompts step by step; yields the (sequence, token) pairs of each step and returns what was found.

    A sequence that ends is not read any further.
    """
    settings = job.settings
    copies = settings.num_return_sequences
    progress = Progress(job, copies)
    windows = [0] * len(progress.texts)  # where what the model sees begins
    reader = make_reader(room(job, job.prompts))
    scores = reader.begin(job.prompts)  # B V
    if copies > 1:
        scores = scores.repeat_interleave(copies, 0)
        reader.select(torch.arange(len(job.prompts), device=scores.device).repeat_interleave(copies))
    while True:
        scores = job.apply_rules(progress.open_texts(), scores)
        if settings.do_sample:
            scores = narrow(scores, settings)
            tokens = draw_rows(scores, progress.rows, len(progress.texts), job)
        else:
            tokens = scores.argmax(-1)
        progress.note(scores)
        said, kept = progress.say(tokens)
        yield said
        if not progress.rows:
            return progress.found()
        if len(kept) < len(said):
            reader.select(kept)
            tokens = tokens[kept]
        full = [row for row in progress.rows if job.is_full(len(progress.texts[row].tokens) - windows[row])]
        if full:  # only when sliding was asked for: limits stay inside the context otherwise
            for row in full:
                windows[row] = len(progress.texts[row].tokens) - job.context // 2
            texts = [progress.texts[row].tokens[windows[row] :] for row in progress.rows]
            reader = make_reader(room(job, texts))
            scores = reader.begin(texts)
        else:
            scores = reader.read(tokens[:, None])[:, 0]


def room(job: Job, texts: list[list[int]]) -> int:
    """How many tokens can be read behind texts, as far as the prompts' limits or the context allow."""
    most = max(limit - len(prompt) for limit, prompt in zip(job.limits, job.prompts, strict=True))
    return most if job.context is None else min(most, job.context - min(map(len, texts)) + 1)


def draw_rows(scores: Tensor, rows: list[int], total: int, job: Job) -> Tensor:
    """One word for each of the rows that go on.

    One generator for all draws for the ended ones too: what a sequence gets does not depend on when others end.
    """
    if isinstance(job.generators, list):
        return draw(scores, [job.generators[row] for row in rows])[:, 0]
    everyone = scores.new_zeros(total, scores.shape[1])
    everyone[rows] = scores
    return draw(everyone, job.generators)[rows, 0]
