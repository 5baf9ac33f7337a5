"""Continuous batching: generations join a running batch between two steps, and leave it when they are done.

Each gets what it gets alone: settings, random numbers and stop criteria are its own. Every sequence has a row of one KV
cache, filled from the left; a decode step writes the new token of a row behind its own past.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..errors import NotFiniteError
from ..models.base.evaluation_mode import evaluation_mode
from ..nn.cache import AttentionCache, Cache
from ..nn.finite import has_nan
from ..nn.mask import mask_to_bias
from ..nn.prepared import prepared
from .generation import Generation
from .greedy_and_sampling import next_tokens
from .model_runner import pad_right
from .plan import GREEDY, SAMPLING
from .request import SearchResult, SequenceBatch

COLUMNS = 64  # a cache grows by multiples of this


class RowAttentionCache(AttentionCache):
    """Keys and values whose rows are filled to different lengths."""

    cache: RowCache

    def add(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write one column of every row (B H 1 D) behind its own past; returns all columns up to the longest row."""
        rows = len(keys)
        places = self.cache.lengths[:rows]
        index = torch.arange(rows, device=keys.device)
        self.keys[index, :, places] = keys[:, :, 0]
        self.values[index, :, places] = values[:, :, 0]
        return self.keys[:rows, :, : self.cache.width], self.values[:rows, :, : self.cache.width]

    def resize(self, rows: int, columns: int) -> None:
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = old.new_zeros(rows, old.shape[1], columns, old.shape[3])
            new[: len(old), :, : old.shape[2]] = old[:rows, :, :columns]
            setattr(self, name, new)

    def copy_from(self, other: AttentionCache, source: int, row: int, length: int) -> None:
        if self.keys is None:
            self.keys, self.values = (
                each.new_zeros(self.cache.rows, each.shape[1], self.cache.capacity, each.shape[3])
                for each in (other.keys, other.values)
            )
        self.keys[row, :, :length] = other.keys[source, :, :length]
        self.values[row, :, :length] = other.values[source, :, :length]


class RowCache(Cache):
    """A KV cache with a row for each sequence: the token at place p of a row is in column p."""

    def __init__(self, layers: int, rows: int, device: torch.device):
        super().__init__(layers, COLUMNS)
        for layer in self.layers:
            layer.self_attention = RowAttentionCache(self)
        self.rows = rows
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)
        self.width = 0  # of the longest row, with its next token

    def reserve(self, columns: int) -> None:
        """Make space for rows of so many columns."""
        if columns > self.capacity:
            self.capacity = max(-(-columns // COLUMNS) * COLUMNS, self.capacity * 3 // 2)
            for layer in self.layers:
                if layer.self_attention.keys is not None:
                    layer.self_attention.resize(self.rows, self.capacity)

    def fill(self, row: int, other: Cache, source: int, length: int) -> None:
        """Copy a sequence of another cache into a row."""
        for mine, theirs in zip(self.layers, other.layers, strict=True):
            mine.self_attention.copy_from(theirs.self_attention, source, row, length)
        self.lengths[row] = length

    def distances(self, positions: Tensor) -> Tensor:
        columns = torch.arange(self.width, device=positions.device)
        return self.lengths[: len(positions), None, None] - columns


@dataclass(eq=False)
class Member:
    """A generation in the batch, and what became of it."""

    generation: Generation
    owner: Any = None
    batch: SequenceBatch = field(init=False)
    error: Exception | None = None
    prompt_logits: Tensor | None = None  # T V, if requested
    keeps_prompt_logits: bool = False
    logits: Tensor | None = None  # of the last step, one row for each of its active sequences: R V
    pairs: list[tuple[int, int]] = field(default_factory=list)  # (sequence, token) of the last step

    def __post_init__(self) -> None:
        request = self.generation.request
        self.batch = SequenceBatch(request, request.settings.num_return_sequences)

    @property
    def prompt(self) -> list[int]:
        return self.generation.request.prompts[0]

    @property
    def columns(self) -> int:
        """How many tokens a sequence of it may get."""
        return max(self.generation.request.max_lengths)

    @property
    def is_done(self) -> bool:
        return self.error is not None or not self.batch.active

    def result(self) -> SearchResult:
        return self.batch.result()


def can_join(generation: Generation) -> bool:
    """Whether a generation can run in a continuous batch: one prompt, greedy or sampled, within the context."""
    request, model = generation.request, generation.model
    limit = request.context_length
    return (
        generation.plan.strategy in (GREEDY, SAMPLING)
        and len(request.prompts) == 1
        and request.settings.use_cache
        and not generation.source
        and not getattr(model.decoding_body, "keeps_state", False)
        and (limit is None or request.max_lengths[0] <= limit)
    )


class ContinuousBatch:
    """Generations of one model, each at a step of its own.

    >>> batch = ContinuousBatch(model)                                                   # doctest: +SKIP
    >>> batch.join([Member(Generation(model, ids, max_new_tokens=20))])                  # doctest: +SKIP
    >>> while batch.members: batch.step()                                                # doctest: +SKIP
    """

    def __init__(self, model: Any, max_rows: int = 32) -> None:
        self.model = model
        with torch.no_grad(), evaluation_mode(model):
            self.fast = prepared(model)
        self.max_rows = max_rows
        self.cache: RowCache | None = None
        self.rows: list[tuple[Member, int]] = []  # the sequence of each row of the cache
        self.members: list[Member] = []

    @property
    def free_rows(self) -> int:
        return self.max_rows - len(self.rows)

    def join(self, members: Sequence[Member]) -> list[Member]:
        """Compute the prompts of new members, and their first tokens; returns those that are done already."""
        body = self.fast.decoding_body
        with torch.inference_mode(), evaluation_mode(self.model):
            ids, real = pad_right([member.prompt for member in members], self.model.device)
            prompts = Cache(body.layer_count, ids.shape[1])
            out = body.encode(ids, real, past_key_values=prompts)
            logits = self.fast.word_logits(out.layout.last(out.rows))  # B V
            if self.cache is None:
                self.cache = RowCache(body.layer_count, self.max_rows, self.model.device)
            states = out.layout.unpack(out.rows)  # B T C
            for number, member in enumerate(members):
                if member.keeps_prompt_logits:
                    member.prompt_logits = self.fast.word_logits(states[number, : len(member.prompt)])
                self.members.append(member)
                self.cache.reserve(member.columns)
                for sequence in member.batch.active:
                    self.cache.fill(len(self.rows), prompts, number, len(member.prompt))
                    self.rows.append((member, sequence))
                self.choose(member, logits[number].expand(len(member.batch.active), -1))
            return self.leave()

    def step(self) -> list[Member]:
        """One more token for every sequence; returns the members that are done."""
        assert self.cache is not None
        body, count = self.fast.decoding_body, len(self.rows)
        with torch.inference_mode(), evaluation_mode(self.model):
            last = [member.batch.sequences[sequence].tokens[-1] for member, sequence in self.rows]
            lengths = self.cache.lengths[:count]
            self.cache.width = self.cache.length = int(lengths.max()) + 1
            visible = torch.arange(self.cache.width, device=lengths.device) <= lengths[:, None]  # B S
            mask = None if bool(visible.all()) else mask_to_bias(visible[:, None], self.model.stream_dtype)[:, None]
            tokens = torch.tensor(last, device=lengths.device)[:, None]
            rows = body.decode_step(tokens, lengths[:, None], self.cache, mask)
            self.cache.lengths[:count] += 1
            logits = self.fast.word_logits(rows)  # R V
            places: dict[int, list[int]] = {}
            for row, (member, _) in enumerate(self.rows):
                places.setdefault(id(member), []).append(row)
            for member in self.members:
                self.choose(member, logits[places[id(member)]])
            return self.leave()

    def choose(self, member: Member, logits: Tensor) -> None:
        """The next token of each active sequence of a member, from its logits (R V)."""
        member.logits = logits
        if has_nan(logits):
            model = type(self.model).__name__
            member.error = NotFiniteError(f"the scores of {model} for this text are NaN or infinite")
            return
        try:
            member.pairs, _ = member.batch.append(next_tokens(member.batch, logits))
        except Exception as error:  # such as that of a processor: it is this member's alone
            member.error = error

    def leave(self) -> list[Member]:
        """Free the rows of sequences that are finished, and take out members that are done."""
        keep = [
            row
            for row, (member, sequence) in enumerate(self.rows)
            if member.error is None and sequence in member.batch.active
        ]
        self._keep_rows(keep)
        done = [member for member in self.members if member.is_done]
        self.members = [member for member in self.members if not member.is_done]
        return done

    def drop(self, member: Member) -> None:
        """Take out a member before its end."""
        self.members.remove(member)
        self._keep_rows([row for row, (each, _) in enumerate(self.rows) if each is not member])

    def _keep_rows(self, keep: list[int]) -> None:
        """Keep these rows, in their order, without a gap."""
        assert self.cache is not None
        with torch.inference_mode():
            for new, old in enumerate(keep):
                if new != old:
                    self.cache.fill(new, self.cache, old, int(self.cache.lengths[old]))
        self.rows = [self.rows[row] for row in keep]
