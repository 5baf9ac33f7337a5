"""Runs a decoder for a search: the prefill of the prompts, then one token of every continuation in each decode step.

A sequence can have several continuations ("branches"). They share one KV cache, which holds the prompt once: each
branch attends to its own columns only, and a dropped branch leaves columns that no branch attends to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..models.base.outputs import BodyOutput
from ..nn.cache import Cache
from ..nn.context import Source
from ..nn.finite import check_scores
from ..nn.layout import Layout
from ..nn.mask import mask_to_bias
from ..nn.prepared import prepared
from .request import GenerationRequest

PREPARE_FROM_STEPS = 16  # as many decode steps of a batch make up for the time to prepare the weights


class CheckedScores:
    """The part of every runner that scores the next words."""

    def __init__(self, model, source: dict[str, Tensor]):
        self.unprepared = self.model = model
        self.source = source  # what cross-attention reads

    def score(self, rows: Tensor, repeat: Callable[[Any], Tensor]) -> Tensor:
        """The logits of rows (N C -> N V); where they are NaN, `repeat` computes the rows again with a given body."""
        logits = self.model.word_logits(rows)
        model = self.unprepared
        check_scores(logits, model, lambda: model.word_logits(repeat(model.decoding_body)))
        return logits


class CachedRunner(CheckedScores):
    """With a KV cache: a decode step computes the new tokens only."""

    def __init__(self, model, max_steps: int, source: dict[str, Tensor] | None = None):
        super().__init__(model, source or {})
        self.model = prepared(model) if max_steps >= PREPARE_FROM_STEPS else model
        self.body = self.model.decoding_body
        self.max_steps = max_steps
        self.cache: Cache | None = None
        self.visible: Tensor | None = None  # B G capacity: the columns of each branch's past; None when all are
        self.next_position: Tensor | None = None  # B
        self.states: Tensor | None = None  # B G C: the last hidden states that the head scored

    def prefill(self, prompts: list[list[int]], branches: int = 1) -> Tensor:
        """The logits of the token after each prompt (B V)."""
        ids, real = pad_right(prompts, self.model.device)
        longest = ids.shape[1]
        self.cache = Cache(self.body.layer_count, longest + branches * self.max_steps)
        out = self.body.encode(ids, real, past_key_values=self.cache, **self.source)
        self.next_position = real.sum(1)
        if branches > 1 or not bool(real.all()):
            shape = (len(prompts), branches, self.cache.capacity)
            self.visible = torch.zeros(shape, dtype=torch.bool, device=ids.device)
            self.visible[:, :, :longest] = real[:, None]
        self.prompt_states = out.last_hidden_state  # B T C
        self.states = out.layout.last(out.rows)[:, None]  # B 1 C
        return self.score(self.states[:, 0], lambda body: last_rows(body.encode(ids, real, **self.source)))

    def decode_step(self, tokens: Tensor, parents: Tensor | None = None) -> Tensor:
        """The logits (B G V) after one token of every branch (B G), which extends the branch in `parents` (B G)."""
        batch, branches = tokens.shape
        filled = self.cache.length
        if self.visible is not None:
            if parents is not None:
                self.visible = self.visible.gather(1, parents[:, :, None].expand(-1, -1, self.visible.shape[2]))
                filled = self.compact_cache()
            own = torch.eye(branches, dtype=torch.bool, device=tokens.device)
            self.visible[:, :, filled : filled + branches] = own
        visible = None if self.visible is None else self.visible[:, :, : filled + branches]
        mask = None if visible is None else mask_to_bias(visible, self.model.stream_dtype)[:, None]
        positions = self.next_position[:, None].expand(-1, branches)
        source = self.cached_source()
        rows = self.body.decode_step(tokens, positions, self.cache, mask, source)
        self.next_position = self.next_position + 1
        self.states = rows.view(batch, branches, -1)

        def repeat(body) -> Tensor:
            self.cache.length = filled
            return body.decode_step(tokens, positions, self.cache, mask, source)

        return self.score(rows, repeat).view(batch, branches, -1)

    def cached_source(self) -> Source | None:
        """The source of a decode step: its keys and values are in the cache."""
        if not self.source:
            return None
        states, real = self.source["encoder_hidden_states"], self.source.get("encoder_attention_mask")
        mask = None if real is None or bool(real.all()) else mask_to_bias(real[:, None, None], self.model.stream_dtype)
        return Source(None, Layout.full(*states.shape[:2], mask=mask))  # the mask B 1 1 S

    def compact_cache(self) -> int:
        """Drop columns that no branch attends to, once they are the majority; the new length of the cache."""
        filled = self.cache.length
        alive = self.visible[:, :, :filled].any(1)  # B S
        kept = int(alive.sum(1).max())
        if filled - kept > max(kept, 64):
            columns = alive.int().sort(dim=1, descending=True, stable=True).indices[:, :kept]
            self.cache.gather(columns)
            self.visible[:, :, :kept] = self.visible.gather(2, columns[:, None].expand(-1, self.visible.shape[1], -1))
            self.visible[:, :, kept:] = False
        return self.cache.length

    def select(self, rows: Tensor) -> None:
        """Continue these sequences only; one that is listed more than once continues in several copies."""
        self.cache.select(rows)
        self.next_position = self.next_position[rows]
        self.states = self.states[rows]
        self.visible = None if self.visible is None else self.visible[rows]
        self.source = {name: value[rows] for name, value in self.source.items()}


class RecurrentRunner(CheckedScores):
    """For a recurrent decoder, whose state takes the place of the cache; every branch has its own."""

    def __init__(self, model, max_steps: int, source: dict[str, Tensor]):
        super().__init__(model, source)
        self.body = model.decoding_body
        self.memory: Tensor | None = None  # B G layers state
        self.states: Tensor | None = None  # B G C: the last hidden states that the head scored

    def prefill(self, prompts: list[list[int]], branches: int = 1) -> Tensor:
        ids, real = pad_right(prompts, self.model.device)
        source = dict(self.source)
        out = self.body.encode(ids, real, **source)
        self.memory = out.pooled[:, None].expand(-1, branches, -1, -1)
        self.source.pop("state")
        self.prompt_states = out.last_hidden_state
        self.states = out.layout.last(out.rows)[:, None]
        return self.score(self.states[:, 0], lambda body: last_rows(body.encode(ids, real, **source)))

    def decode_step(self, tokens: Tensor, parents: Tensor | None = None) -> Tensor:
        batch, branches = tokens.shape
        if parents is not None:
            self.memory = self.memory[torch.arange(batch, device=tokens.device)[:, None], parents]
        source = {name: value.repeat_interleave(branches, 0) for name, value in self.source.items()}
        source["state"] = self.memory.flatten(0, 1)
        out = self.body.encode(tokens.reshape(-1, 1), **source)
        self.memory = out.pooled.unflatten(0, (batch, branches))
        self.states = out.rows.view(batch, branches, -1)
        logits = self.score(out.rows, lambda body: body.encode(tokens.reshape(-1, 1), **source).rows)
        return logits.view(batch, branches, -1)

    def select(self, rows: Tensor) -> None:
        self.memory, self.states = self.memory[rows], self.states[rows]
        self.source = {name: value[rows] for name, value in self.source.items()}


class UncachedRunner(CheckedScores):
    """Without a cache: every step computes the full sequences again. Slow and simple; `CachedRunner` must equal it."""

    def __init__(self, model, max_steps: int, source: dict[str, Tensor] | None = None):
        super().__init__(model, source or {})
        self.body = model.decoding_body
        self.sequences: list[list[list[int]]] = []  # the tokens of each sequence's branches
        self.states: Tensor | None = None

    def prefill(self, prompts: list[list[int]], branches: int = 1) -> Tensor:
        self.sequences = [[list(prompt)] for prompt in prompts]
        logits = self.compute_logits()[:, 0]
        self.sequences = [[list(prompt) for _ in range(branches)] for prompt in prompts]
        return logits

    def decode_step(self, tokens: Tensor, parents: Tensor | None = None) -> Tensor:
        for row, (branches, new) in enumerate(zip(self.sequences, tokens.tolist(), strict=True)):
            extended = range(len(branches)) if parents is None else parents[row].tolist()
            self.sequences[row] = [[*branches[parent], token] for parent, token in zip(extended, new, strict=True)]
        return self.compute_logits()

    def compute_logits(self) -> Tensor:
        batch, branches = len(self.sequences), len(self.sequences[0])
        ids, real = pad_right([tokens for row in self.sequences for tokens in row], self.model.device)
        source = {name: value.repeat_interleave(branches, 0) for name, value in self.source.items()}
        out = self.body.encode(ids, real, use_cache=False, **source)
        self.prompt_states = out.last_hidden_state
        rows = last_rows(out)
        self.states = rows.view(batch, branches, -1)
        logits = self.score(rows, lambda body: last_rows(body.encode(ids, real, use_cache=False, **source)))
        return logits.view(batch, branches, -1)

    def select(self, rows: Tensor) -> None:
        self.sequences = [[list(tokens) for tokens in self.sequences[row]] for row in rows.tolist()]
        self.source = {name: value[rows] for name, value in self.source.items()}


Runner = CachedRunner | RecurrentRunner | UncachedRunner
RunnerFactory = Callable[[int], Runner]  # from the maximum number of decode steps


def max_decode_steps(request: GenerationRequest, sequences: list[list[int]]) -> int:
    """How many tokens can follow these sequences within the maximum lengths and the context."""
    limits = zip(request.max_lengths, request.prompts, strict=True)
    steps = max(length - len(prompt) for length, prompt in limits)
    context = request.context_length
    return steps if context is None else min(steps, context - min(map(len, sequences)) + 1)


def last_rows(out: BodyOutput) -> Tensor:
    """The last hidden state of every sequence: B C."""
    return out.layout.last(out.rows)


def pad_right(sequences: Sequence[Sequence[int]], device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Token ids padded on the right (B T), and which of them are real (B T)."""
    rows = [torch.tensor(sequence, dtype=torch.long, device=device) for sequence in sequences]
    ids = pad_sequence(rows, batch_first=True)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return ids, torch.arange(ids.shape[1], device=device) < lengths[:, None]
