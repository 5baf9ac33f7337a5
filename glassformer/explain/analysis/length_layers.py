"""The layers whose costs are compared: recurrent, convolutional, and attention to all words or to some."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...models.transformer_layers import EncoderLayer
from ...nn.attention import SelfAttention
from ...nn.attention_patterns import Blocks, Pattern, Window
from ...nn.context import Context
from ...nn.random_features import RandomFeatures

HEADS, KERNEL = 4, 3
WINDOW = 256  # words that a window shows on each side
BLOCK, RANDOM_BLOCKS = 64, 3


class Recurrent(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.rnn = nn.GRU(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0]


class Convolutional(nn.Module):
    """With a `dilation`, the words that one convolution sees stand so far apart."""

    def __init__(self, width: int, dilation: int = 1) -> None:
        super().__init__()
        padding = KERNEL // 2 * dilation
        self.convolution = nn.Conv1d(width, width, KERNEL, padding=padding, dilation=dilation)
        self.activation = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.convolution(x.transpose(1, 2))).transpose(1, 2)


class PatternAttention(SelfAttention):
    """Sees what a pattern shows."""

    def __init__(self, width: int, heads: int, make_pattern: Callable[[int, int], Pattern]) -> None:
        super().__init__(width, heads, 0.0)
        self.make_pattern = make_pattern

    def pattern(self, context: Context) -> Pattern:
        return self.make_pattern(context.layout.batch, context.layout.length)


def attention_layer(attention: Callable[[int], SelfAttention]) -> Callable[[int], nn.Module]:
    """A layer of the Transformer with another self-attention."""

    def make(width: int) -> nn.Module:
        layer = EncoderLayer(width, HEADS, 4 * width, 0.0)
        layer.attention.self = attention(width)
        return layer

    return make


def window(batch: int, length: int) -> Pattern:
    return Window(WINDOW)


@lru_cache(8)
def global_window(batch: int, length: int) -> Pattern:
    """The first word is global, as [CLS] is."""
    first = torch.zeros(batch, length, dtype=torch.bool)
    first[:, 0] = True
    return Window(WINDOW, global_tokens=first.flatten())


@lru_cache(8)
def random_blocks(length: int) -> Tensor:
    """Of every head and block: heads blocks r."""
    blocks = -(-length // BLOCK)
    return torch.randint(blocks, (HEADS, blocks, RANDOM_BLOCKS), generator=torch.Generator().manual_seed(0))


def blocks(batch: int, length: int) -> Pattern:
    return Blocks(BLOCK, random=random_blocks, dense_up_to=(5 + 2 * RANDOM_BLOCKS) * BLOCK)


class Kind(NamedTuple):
    """A kind of layer, and what is said of it for n words of the width d: k of them seen at once, r features."""

    make: Callable[[int], nn.Module]  # width -> layer
    cost: str
    sequential: str
    path: str
    make_stacked: Callable[[int, int], nn.Module] | None = None  # width, number in a stack -> layer


KINDS = {
    "recurrent": Kind(Recurrent, "O(n d²)", "O(n)", "O(n)"),
    "convolutional": Kind(Convolutional, "O(k n d²)", "O(1)", "O(n/k)"),
    "dilated": Kind(
        Convolutional, "O(k n d²)", "O(1)", "O(log n)", lambda width, layer: Convolutional(width, 2 ** min(layer, 20))
    ),
    "attention": Kind(lambda width: EncoderLayer(width, HEADS, 4 * width, 0.0), "O(n² d)", "O(1)", "O(1)"),
    "window": Kind(attention_layer(lambda width: PatternAttention(width, HEADS, window)), "O(k n d)", "O(1)", "O(n/k)"),
    "longformer": Kind(
        attention_layer(lambda width: PatternAttention(width, HEADS, global_window)), "O(k n d)", "O(1)", "O(1)"
    ),
    "bigbird": Kind(attention_layer(lambda width: PatternAttention(width, HEADS, blocks)), "O(k n d)", "O(1)", "O(1)"),
    "performer": Kind(
        attention_layer(lambda width: SelfAttention(width, HEADS, 0.0, features=RandomFeatures(width // HEADS))),
        "O(r n d)",
        "O(1)",
        "O(1)",
    ),
}
