"""A decoder that reads on: prompts first, then one token of every continuation at a time.

A sequence can have several continuations ("leaves"). They stand in one cache, which holds the prompt once: each leaf
sees its own columns only, and a leaf that is given up costs nothing but columns that nobody sees any more.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..nn.cache import Cache
from ..nn.context import Source
from ..nn.layout import Layout
from ..nn.mask import mask_to_bias
from ..nn.prepared import prepared

LONG = 32  # steps from which on prepared weights pay


class Reader:
    """Reads with a cache: the cost of a step does not depend on what was read, but for the attention to it."""

    def __init__(self, model, room: int, source: dict[str, Tensor] | None = None):
        self.model = prepared(model) if room >= LONG else model
        self.body = self.model.decoding_body
        self.room = room  # how many tokens a continuation may add
        self.source = source or {}  # what cross-attention reads
        self.cache: Cache | None = None
        self.seen: Tensor | None = None  # B G capacity: which columns belong to a leaf's past; None when all do
        self.next: Tensor | None = None  # B: the position of the token that is read next
        self.states: Tensor | None = None  # B G C: what the head read last

    def begin(self, prompts: list[list[int]], leaves: int = 1) -> Tensor:
        """Read the prompts; the scores of the word that follows each (B V)."""
        device = self.model.device
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        longest = int(lengths.max())
        self.cache = Cache(self.body.layer_count, longest + leaves * self.room)
        places = torch.arange(self.cache.capacity, device=device)
        real = places[:longest] < lengths[:, None]  # B T
        ids = pad_sequence([torch.tensor(prompt, device=device) for prompt in prompts], batch_first=True)
        out = self.body.encode(ids, real, past_key_values=self.cache, **self.source)
        self.next = lengths
        if leaves > 1 or not bool(real.all()):
            self.seen = torch.zeros(len(prompts), leaves, self.cache.capacity, dtype=torch.bool, device=device)
            self.seen[:, :, :longest] = real[:, None]
        self.prompt_states = out.last_hidden_state  # B T C
        self.states = out.layout.last(out.rows)[:, None]  # B 1 C
        return self.model.word_logits(self.states[:, 0])

    def read(self, tokens: Tensor, parents: Tensor | None = None) -> Tensor:
        """Read one token of every leaf (B G), each behind the leaf that `parents` (B G) names; the scores of what
        follows (B G V)."""
        batch, leaves = tokens.shape
        filled = self.cache.length
        if self.seen is not None:
            if parents is not None:
                self.seen = self.seen.gather(1, parents[:, :, None].expand(-1, -1, self.seen.shape[2]))
                filled = self.drop_unseen()
            own = torch.eye(leaves, dtype=torch.bool, device=tokens.device)
            self.seen[:, :, filled : filled + leaves] = own
        seen = None if self.seen is None else self.seen[:, :, : filled + leaves]
        mask = None if seen is None else mask_to_bias(seen, self.model.dtype)[:, None]
        positions = self.next[:, None].expand(-1, leaves)
        rows = self.body.decode_step(tokens, positions, self.cache, mask, self.source_in_cache())
        self.next = self.next + 1
        self.states = rows.view(batch, leaves, -1)
        return self.model.word_logits(rows).view(batch, leaves, -1)

    def source_in_cache(self) -> Source | None:
        """The source as a step reads it: its keys and values stand in the cache."""
        if not self.source:
            return None
        states, real = self.source["encoder_hidden_states"], self.source.get("encoder_attention_mask")
        mask = None if real is None or bool(real.all()) else mask_to_bias(real[:, None, None], self.model.dtype)
        return Source(None, Layout.full(*states.shape[:2], mask=mask))  # the mask B 1 1 S

    def drop_unseen(self) -> int:
        """Make the cache smaller once most of its columns are in nobody's past; how many it holds then."""
        filled = self.cache.length
        alive = self.seen[:, :, :filled].any(1)  # B S
        kept = int(alive.sum(1).max())
        if filled - kept > max(kept, 64):
            columns = alive.int().sort(dim=1, descending=True, stable=True).indices[:, :kept]
            self.cache.gather(columns)
            self.seen[:, :, :kept] = self.seen.gather(2, columns[:, None].expand(-1, self.seen.shape[1], -1))
            self.seen[:, :, kept:] = False
        return self.cache.length

    def select(self, rows: Tensor) -> None:
        """Go on with these sequences only; one that is named more than once goes on in several ways."""
        self.cache.select(rows)
        self.next = self.next[rows]
        self.states = self.states[rows]
        self.seen = None if self.seen is None else self.seen[rows]
        self.source = {name: value[rows] for name, value in self.source.items()}


class StateReader:
    """Reads on from the state that a recurrent decoder keeps; every leaf has its own."""

    def __init__(self, model, room: int, source: dict[str, Tensor]):
        self.model, self.body = model, model.decoding_body
        self.source = source
        self.memory: Tensor | None = None  # B G layers state
        self.states: Tensor | None = None  # B G C: what the head read last

    def begin(self, prompts: list[list[int]], leaves: int = 1) -> Tensor:
        texts = [torch.tensor(prompt, device=self.model.device) for prompt in prompts]
        ids = pad_sequence(texts, batch_first=True)
        lengths = torch.tensor([len(text) for text in texts], device=ids.device)
        real = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        out = self.body.encode(ids, real, **self.source)
        self.memory = out.pooled[:, None].expand(-1, leaves, -1, -1)
        self.source.pop("state")
        self.prompt_states = out.last_hidden_state
        self.states = out.layout.last(out.rows)[:, None]
        return self.model.word_logits(self.states[:, 0])

    def read(self, tokens: Tensor, parents: Tensor | None = None) -> Tensor:
        batch, leaves = tokens.shape
        if parents is not None:
            self.memory = self.memory[torch.arange(batch, device=tokens.device)[:, None], parents]
        source = {name: value.repeat_interleave(leaves, 0) for name, value in self.source.items()}
        out = self.body.encode(tokens.reshape(-1, 1), state=self.memory.flatten(0, 1), **source)
        self.memory = out.pooled.unflatten(0, (batch, leaves))
        self.states = out.rows.view(batch, leaves, -1)
        return self.model.word_logits(out.rows).view(batch, leaves, -1)

    def select(self, rows: Tensor) -> None:
        self.memory, self.states = self.memory[rows], self.states[rows]
        self.source = {name: value[rows] for name, value in self.source.items()}


class Rereader:
    """Reads without a cache, everything again at every step: slow, simple, and what `Reader` must be equal to."""

    def __init__(self, model, room: int, source: dict[str, Tensor] | None = None):
        self.model = model
        self.body = model.decoding_body
        self.source = source or {}
        self.texts: list[list[list[int]]] = []  # for every sequence its leaves' tokens
        self.states: Tensor | None = None

    def begin(self, prompts: list[list[int]], leaves: int = 1) -> Tensor:
        self.texts = [[list(prompt)] for prompt in prompts]
        scores = self.score()[:, 0]
        self.texts = [[list(prompt) for _ in range(leaves)] for prompt in prompts]
        return scores

    def read(self, tokens: Tensor, parents: Tensor | None = None) -> Tensor:
        for row, (texts, new) in enumerate(zip(self.texts, tokens.tolist(), strict=True)):
            before = range(len(texts)) if parents is None else parents[row].tolist()
            self.texts[row] = [[*texts[parent], token] for parent, token in zip(before, new, strict=True)]
        return self.score()

    def score(self) -> Tensor:
        device, leaves = self.model.device, len(self.texts[0])
        texts = [torch.tensor(text, device=device) for row in self.texts for text in row]
        lengths = torch.tensor([len(text) for text in texts], device=device)
        real = torch.arange(int(lengths.max()), device=device) < lengths[:, None]
        source = {name: value.repeat_interleave(leaves, 0) for name, value in self.source.items()}
        out = self.body.encode(pad_sequence(texts, batch_first=True), real, use_cache=False, **source)
        self.prompt_states = out.last_hidden_state
        rows = out.layout.last(out.rows)
        self.states = rows.view(len(self.texts), leaves, -1)
        return self.model.word_logits(rows).view(len(self.texts), leaves, -1)

    def select(self, rows: Tensor) -> None:
        self.texts = [[list(text) for text in self.texts[row]] for row in rows.tolist()]
        self.source = {name: value[rows] for name, value in self.source.items()}
