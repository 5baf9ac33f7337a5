"""One vector for each sequence, from the token or tokens that `summary_type` of a config names."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...checkpoints.pretrained_config import PretrainedConfig
from ...errors import InputError
from ...nn.activation import ACTIVATIONS
from ...nn.dropout import Dropout
from ...nn.layout import sequence_lengths
from ...nn.tensor_inputs import WHOLE, as_index, check_tensor
from .outputs import BodyOutput

SUMMARY_TYPES = ("last", "first", "mean", "cls_index")


class SequenceSummary(nn.Module):
    """Picks or averages hidden states of each sequence, then projects and activates: rows of the stream -> B C or B L.

    Padding is no token: "last" is the last real token of a sequence, and "mean" the mean of the real ones.
    """

    def __init__(self, config: PretrainedConfig):
        super().__init__()
        self.summary_type = config.summary_type
        width = config.num_labels if config.summary_proj_to_labels and config.num_labels > 0 else config.hidden_size
        self.summary = nn.Linear(config.hidden_size, width) if config.summary_use_proj else nn.Identity()
        self.activation = ACTIVATIONS[config.summary_activation]() if config.summary_activation else nn.Identity()
        self.first_dropout = Dropout(config.summary_first_dropout)
        self.last_dropout = Dropout(config.summary_last_dropout)

    def forward(self, body: BodyOutput, index: Tensor | None = None) -> Tensor:
        """`index` (B) names the token of each sequence where `summary_type` is "cls_index"; the last one if None."""
        vectors = self.activation(self.summary(self.first_dropout(self.pick(body, index))))
        return self.last_dropout(vectors)

    def pick(self, body: BodyOutput, index: Tensor | None) -> Tensor:
        """One hidden state for each sequence: B C."""
        layout = body.layout
        if self.summary_type == "cls_index" and index is not None:
            return pick_tokens(body, index)
        if self.summary_type == "first":
            return layout.first(body.rows)
        if self.summary_type == "mean":
            lengths = torch.tensor(sequence_lengths(layout), dtype=body.rows.dtype, device=body.rows.device)
            return layout.unpack(body.rows).sum(1) / lengths[:, None]
        return layout.last(body.rows)


def pick_tokens(body: BodyOutput, index: Tensor) -> Tensor:
    """The hidden state of one token of each sequence (index B): B C."""
    check_tensor(index, "the index of a token", WHOLE, device=body.rows.device)
    index = as_index(index)
    layout = body.layout
    if index.shape != (layout.batch,) or not bool(((index >= 0) & (index < layout.length)).all()):
        raise InputError(f"the index of a token in each of {layout.batch} texts is from 0 to {layout.length - 1}")
    sequences = torch.arange(layout.batch, device=index.device)
    is_token = layout.unpack(torch.ones_like(body.rows[:, 0]))[sequences, index]
    if not bool(is_token.all()):
        raise InputError(f"the index of a token names padding in text {int(is_token.argmin())}")
    return body.last_hidden_state[sequences, index]
