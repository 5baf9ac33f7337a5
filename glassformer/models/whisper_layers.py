"""The parts of Whisper: embeddings of sound and of text, layers, and the hiding of parts of spectrograms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..nn.activation import GELUActivation
from ..nn.attention import SelfAttention, prune_attention
from ..nn.context import Context, ContextModule
from ..nn.dropout import Dropout
from ..nn.feedforward import Intermediate, Project, can_overwrite_output
from ..nn.linear import Linear
from ..nn.tensor_inputs import FLOATING, check_tensor
from .base.embeddings import Embeddings

if TYPE_CHECKING:
    from .whisper import WhisperConfig

STRIDE = 2  # columns of the spectrogram for one vector


def sines_and_cosines(length: int, size: int) -> Tensor:
    """Sines of every position in the first half of the columns, cosines in the second: T C

    >>> sines_and_cosines(2, 4)[0].tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    step = math.log(10000) / (size // 2 - 1)
    angles = torch.arange(length)[:, None] * torch.exp(-step * torch.arange(size // 2))
    return torch.cat((angles.sin(), angles.cos()), dim=1)


class WhisperSoundEmbeddings(nn.Module):
    """Two convolutions over time, the second of which halves it; and the places of what they give."""

    def __init__(self, config: WhisperConfig):
        super().__init__()
        width = config.hidden_size
        self.columns = config.columns
        self.conv1 = nn.Conv1d(config.num_mel_bins, width, kernel_size=3, padding=1)
        self.conv2 = nn.Conv1d(width, width, kernel_size=3, stride=STRIDE, padding=1)
        self.position_embeddings = nn.Embedding(config.max_source_positions, width)
        self.position_embeddings.requires_grad_(False)
        self.activation = GELUActivation()
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, input_features: Tensor) -> Tensor:
        """B bands columns -> B T C"""
        weight = self.conv1.weight
        check_tensor(input_features, "input_features", FLOATING, "B bands columns", weight.device)
        batch, *shape = input_features.shape
        if shape != [weight.shape[1], self.columns] or not batch:
            raise InputError(
                f"input_features must have the shape B {weight.shape[1]} {self.columns} (a WhisperFeatureExtractor "
                f"fills up to that with silence), got {list(input_features.shape)}"
            )
        x = input_features.to(weight.dtype)
        for convolution in (self.conv1, self.conv2):
            x = self.activate(convolution(x), convolution)
        return self.dropout(x.transpose(1, 2) + self.position_embeddings.weight)

    def activate(self, x: Tensor, made_by: nn.Module) -> Tensor:
        if can_overwrite_output(made_by) and can_overwrite_output(self.activation):
            return self.activation.overwrite(x)
        return self.activation(x)


class WhisperEmbeddings(Embeddings):
    """Word and position vectors, added."""

    def __init__(self, config: WhisperConfig):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        input_ids: Tensor | None,
        token_type_ids: Tensor | None,
        position_ids: Tensor,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        """N -> N C"""
        words = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        return self.dropout(words + self.position_embeddings(position_ids))


def hide_parts(features: Tensor, config: WhisperConfig) -> Tensor:
    """A spectrogram (B bands columns) with random runs of columns and of bands set to zero (SpecAugment)."""
    for dim, name in ((2, "time"), (1, "feature")):
        share, length, least = (getattr(config, f"mask_{name}_{what}") for what in ("prob", "length", "min_masks"))
        size = features.shape[dim]
        count = max(int(share * size / length + float(torch.rand(()))), least) if share > 0 else 0
        count = min(count, size // length)
        if not count:
            continue
        begins = torch.stack([torch.randperm(size - length + 1)[:count] for _ in range(len(features))])
        places = torch.arange(size)
        hidden = ((places >= begins[..., None]) & (places < begins[..., None] + length)).any(1).to(features.device)
        features = features.masked_fill(hidden[:, None] if dim == 2 else hidden[:, :, None], 0.0)
    return features


class WhisperLayer(ContextModule):
    """Attention, in the decoder also to the sound, then feed-forward; each normalises its input first."""

    def __init__(self, config: WhisperConfig, is_decoder: bool):
        super().__init__()
        wide = config.decoder_width if is_decoder else config.intermediate_size
        self.layerdrop = config.decoder_layerdrop if is_decoder else config.encoder_layerdrop
        self.attention = WhisperAttention(config, is_decoder)
        if is_decoder:
            self.crossattention = WhisperAttention(config, is_decoder)
        self.intermediate = WhisperIntermediate(config, wide)
        self.dropout = Dropout(config.activation_dropout)
        self.output = Project(wide, config.hidden_size, config.hidden_dropout_prob)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        if self.training and self.layerdrop and float(torch.rand(())) < self.layerdrop:
            return x
        x = x + self.attention(x, context)
        if context.cross is not None:
            x = x + self.crossattention(x, context.cross)
        return x + self.output(self.dropout(self.intermediate(x)))


class WhisperAttention(ContextModule):
    """Normalise, attend, project; heads can be cut out of it."""

    is_attention = True

    def __init__(self, config: WhisperConfig, is_decoder: bool):
        super().__init__()
        width, heads = config.hidden_size, config.decoder_heads if is_decoder else config.num_attention_heads
        self.LayerNorm = nn.LayerNorm(width)
        self.self = SelfAttention(width, heads, config.attention_probs_dropout_prob)
        self.self.key = Linear(width, width, bias=False)
        self.output = Project(width, width, config.hidden_dropout_prob)
        self.pruned_heads: set[int] = set()

    def prune_heads(self, heads: list[int] | set[int]) -> None:
        prune_attention(self, set(heads))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.output(self.self(self.LayerNorm(x), context))


class WhisperIntermediate(Intermediate):
    """Normalise, widen and activate."""

    def __init__(self, config: WhisperConfig, wide: int):
        super().__init__(config.hidden_size, wide, config.hidden_act)
        self.LayerNorm = nn.LayerNorm(config.hidden_size)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return super().forward(self.LayerNorm(hidden_states))
