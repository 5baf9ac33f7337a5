"""Attention in tiles: some queries and the keys that they see at a time, so that no T x T tensor exists.

A pattern (`attention_patterns.py`) says which tiles a sequence has. Nothing but queries, keys, values and outputs is
kept for the backward pass: it computes the weights of every tile again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..errors import InputError
from .dropout import drop
from .layout import Layout, Run

if TYPE_CHECKING:
    from .attention_patterns import Pattern

HIDDEN = 0.25  # of the type's lowest number, for a hidden key: several of them can be added up


class TileKeys(NamedTuple):
    """Some of the keys of a tile."""

    rows: slice | Tensor  # a range, m rows, or H m: other rows for every head; a row can be there more than once
    mask: Tensor | None = None  # added to the scores: b m, or H b m


class Tile(NamedTuple):
    """Queries of a sequence, and all keys that one of them sees.

    If tiles have queries in common, the last one counts.
    """

    queries: slice | Tensor
    keys: tuple[TileKeys, ...]


class Settings(NamedTuple):
    """What the tiles of a run have in common."""

    tiles: tuple[Tile, ...]
    scale: float
    mask: Tensor | None  # of the layout: broadcast to B H T S
    dropout: float
    seed: int


def hidden_score(dtype: torch.dtype) -> float:
    """What is added to the score of a key that a query does not see."""
    return torch.finfo(dtype).min * HIDDEN


def attend_sparsely(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layout: Layout,
    pattern: Pattern,
    *,
    scale: float | None = None,
    head_mask: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """The rows of `attend` (N H D) for a pattern."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    pieces = []
    for run, tiles in pattern.plan(layout, q):
        probability = dropout if pattern.drops_weights(run.length) else 0.0
        seed = int(torch.randint(1 << 62, ()).item()) if probability else 0
        settings = Settings(tiles, scale, mask_of_run(layout, run), probability, seed)
        y = TiledAttention.apply(fold_heads(q, run), fold_heads(k, run), fold_heads(v, run), settings)  # Z n D
        pieces.append(unfold_heads(y, run))
    y = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
    return y if head_mask is None else y * per_head(head_mask)[:, None]


def mask_of_run(layout: Layout, run: Run) -> Tensor | None:
    """The layout's mask of the sequences of a run, with a lowest number that can be added up."""
    mask = layout.mask
    if mask is None:
        return None
    mask = mask if len(mask) == 1 else mask[list(run.members)]
    return mask.clamp(min=hidden_score(mask.dtype))


def fold_heads(rows: Tensor, run: Run) -> Tensor:
    """The rows of a run, N H D, as one batch of its sequences and heads: Z n D."""
    block = rows[run.start : run.start + run.count * run.length].unflatten(0, (run.count, run.length))
    return block.transpose(1, 2).contiguous().flatten(0, 1)


def unfold_heads(rows: Tensor, run: Run) -> Tensor:
    """Z n D -> the rows of a run, N H D."""
    return rows.unflatten(0, (run.count, -1)).transpose(1, 2).flatten(0, 1)


def per_head(head_mask: Tensor) -> Tensor:
    """A mask of heads (1 H 1 1) as H."""
    if head_mask.dim() != 4 or head_mask.shape[0] != 1 or head_mask.shape[-2:] != (1, 1):
        raise InputError(
            f"attention that is sparse takes a head_mask of layers x heads, got weights of {list(head_mask.shape)}"
        )
    return head_mask.flatten()


def take(rows: Tensor, which: slice | Tensor) -> Tensor:
    """Some of the rows Z n D, perhaps others for every head."""
    if isinstance(which, slice) or which.dim() == 1:
        return rows[:, which]
    return rows.flatten(0, 1).index_select(0, flat_rows(which, rows)).unflatten(0, (len(rows), -1))


def flat_rows(which: Tensor, rows: Tensor) -> Tensor:
    """H m -> Z m: the places of rows in (Z n) D."""
    firsts = torch.arange(0, rows.shape[0] * rows.shape[1], rows.shape[1], device=rows.device)
    return (which.repeat(len(rows) // len(which), 1) + firsts[:, None]).flatten()


def add_rows(total: Tensor, which: slice | Tensor, rows: Tensor) -> None:
    """total[:, which] += rows, also where a row is there more than once; `total` is contiguous."""
    if isinstance(which, slice):
        total[:, which] += rows
    elif which.dim() == 1:
        total.index_add_(1, which, rows)
    else:
        total.view(-1, total.shape[-1]).index_add_(0, flat_rows(which, total), rows.flatten(0, 1))


def tile_weights(q: Tensor, k: Tensor, tile: Tile, settings: Settings) -> Tensor:
    """softmax(q kᵀ) of one tile: Z b m."""
    queries = q[:, tile.queries]
    scores = []
    for keys in tile.keys:
        bias = q.new_zeros(()) if keys.mask is None else keys.mask
        if bias.dim() == 3:
            bias = bias.repeat(len(q) // len(bias), 1, 1)
        beta = 0 if keys.mask is None else 1
        part = torch.baddbmm(bias, queries, take(k, keys.rows).mT, beta=beta, alpha=settings.scale)
        if settings.mask is not None:
            part = part + mask_of_tile(settings.mask, tile.queries, keys.rows, part)
        scores.append(part)
    return (scores[0] if len(scores) == 1 else torch.cat(scores, -1)).softmax(-1)


def mask_of_tile(mask: Tensor, queries: slice | Tensor, keys: slice | Tensor, like: Tensor) -> Tensor:
    """The part of a layout's mask (broadcast to B H T S) that belongs to a tile: Z b m."""
    part = mask[..., queries, :] if mask.shape[-2] > 1 else mask
    heads = like.shape[0] // mask.shape[0]
    part = part.expand(-1, heads, like.shape[1], -1).flatten(0, 1)  # Z b S
    if isinstance(keys, slice) or keys.dim() == 1:
        return part[..., keys]
    return part.gather(-1, keys.repeat(len(part) // len(keys), 1)[:, None].expand_as(like))


class TiledAttention(torch.autograd.Function):
    """Forward and backward, tile by tile; weights exist for one tile at a time."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, settings: Settings) -> Tensor:
        y = q.new_empty(q.shape)
        for number, tile in enumerate(settings.tiles):
            weights = tile_weights(q, k, tile, settings)
            if settings.dropout:
                weights = weights * dropout_factors(weights, settings, number)
            y[:, tile.queries] = sum_values(weights, v, tile)
        ctx.save_for_backward(q, k, v, y)
        ctx.settings = settings
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, y = ctx.saved_tensors
        settings, grad = ctx.settings, grad.contiguous()
        grad_q, grad_k, grad_v = (torch.zeros(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
        is_copied = False
        for number, tile in reversed(list(enumerate(settings.tiles))):
            weights = tile_weights(q, k, tile, settings)
            factors = dropout_factors(weights, settings, number) if settings.dropout else None
            here, queries = grad[:, tile.queries], q[:, tile.queries]
            mean = (here * y[:, tile.queries]).sum(-1, keepdim=True)  # Z b 1
            kept = weights if factors is None else weights * factors
            of_queries, first = None, 0
            for keys in tile.keys:
                k_part, v_part = take(k, keys.rows), take(v, keys.rows)
                columns = slice(first, first + k_part.shape[1])
                first = columns.stop
                add_rows(grad_v, keys.rows, kept[..., columns].mT @ here)
                of_weights = here @ v_part.mT  # Z b m
                if factors is not None:
                    of_weights *= factors[..., columns]
                of_scores = of_weights.sub_(mean).mul_(weights[..., columns]).mul_(settings.scale)
                add_rows(grad_k, keys.rows, of_scores.mT @ queries)
                part = of_scores @ k_part
                of_queries = part if of_queries is None else of_queries + part
            add_rows(grad_q, tile.queries, of_queries)
            if isinstance(tile.queries, Tensor):  # the tiles before it did not make these outputs
                grad = grad if is_copied else grad.clone()
                is_copied = True
                grad[:, tile.queries] = 0
        return grad_q, grad_k, grad_v, None


def sum_values(weights: Tensor, v: Tensor, tile: Tile) -> Tensor:
    """Z b m -> Z b D"""
    total, first = None, 0
    for keys in tile.keys:
        values = take(v, keys.rows)
        part = weights[..., first : first + values.shape[1]] @ values
        total, first = part if total is None else total + part, first + values.shape[1]
    return total


def dropout_factors(weights: Tensor, settings: Settings, number: int) -> Tensor:
    """What the weights of a tile are multiplied with, the same in the backward pass: 0, or 1 / (1 - p)."""
    generator = torch.Generator(weights.device).manual_seed(settings.seed + number)
    return drop(torch.ones_like(weights), settings.dropout, generator)


def sparse_attention_weights(
    q: Tensor,
    k: Tensor,
    layout: Layout,
    pattern: Pattern,
    scale: float | None = None,
    columns: range | None = None,
) -> Tensor:
    """The weights of the queries in some columns of the batch (all without `columns`): B H t S."""
    wanted = range(layout.length) if columns is None else columns
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    unpacked = q.new_zeros(layout.batch, q.shape[1], len(wanted), layout.length)
    for run, tiles in pattern.plan(layout, q):
        queries, keys = fold_heads(q, run), fold_heads(k, run)
        rows = range(max(wanted.start - run.column, 0), min(wanted.stop - run.column, run.length))
        if not len(rows):
            continue
        settings = Settings(tiles, scale, mask_of_run(layout, run), 0.0, 0)
        found = q.new_zeros(len(queries), len(rows), run.length)
        for tile in tiles:
            inside = rows_inside(tile.queries, rows, q.device)
            if len(inside):
                part = tile._replace(queries=inside, keys=rows_of_masks(tile, inside))
                weights = tile_weights(queries, keys, part, settings)
                found[:, inside - rows.start] = spread(weights, part, run.length)
        first = run.column + rows.start - wanted.start
        to, columns_of_run = slice(first, first + len(rows)), slice(run.column, run.column + run.length)
        unpacked[list(run.members), :, to, columns_of_run] = found.unflatten(0, (run.count, -1))
    return unpacked


def rows_inside(queries: slice | Tensor, rows: range, device: torch.device) -> Tensor:
    """Which queries of a tile are among some rows."""
    numbers = every_row(queries, device)
    return numbers[(numbers >= rows.start) & (numbers < rows.stop)]


def every_row(which: slice | Tensor, device: torch.device) -> Tensor:
    if isinstance(which, Tensor):
        return which
    return torch.arange(which.start, which.stop, which.step or 1, device=device)


def rows_of_masks(tile: Tile, inside: Tensor) -> tuple[TileKeys, ...]:
    """The keys of a tile, with masks for some of its queries alone."""
    numbers = every_row(tile.queries, inside.device)
    kept = torch.isin(numbers, inside)
    return tuple(keys._replace(mask=None if keys.mask is None else keys.mask[..., kept, :]) for keys in tile.keys)


def spread(weights: Tensor, tile: Tile, length: int) -> Tensor:
    """The weights of a tile, Z b m, among all keys of the sequence: Z b n. A key that is there twice has the sum."""
    total, first = weights.new_zeros(*weights.shape[:2], length), 0
    for keys in tile.keys:
        rows = every_row(keys.rows, weights.device)
        part = weights[..., first : first + rows.shape[-1]]
        first += rows.shape[-1]
        if rows.dim() == 1:
            total = total.index_add(2, rows, part)
        else:
            places = rows.repeat(len(weights) // len(rows), 1)[:, None].expand_as(part)
            total = total.scatter_add(2, places, part)
    return total
