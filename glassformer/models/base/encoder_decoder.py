"""The encoder and the decoder of an encoder-decoder: bodies that are parts of one model."""

from __future__ import annotations

from typing import Any

import torch

from ...checkpoints.pretrained_config import PretrainedConfig
from ...errors import InputError
from ...nn.context import Source
from .body import Body


class Encoder(Body):
    """Encodes the source."""

    is_decoder = False
    masks_cross_heads = False
    config: PretrainedConfig

    @property
    def stream_dtype(self) -> torch.dtype:
        return next(self.embeddings.parameters()).dtype

    @property
    def device(self) -> torch.device:
        return next(self.embeddings.parameters()).device


class Decoder(Encoder):
    """Decodes the target, given the encoded source."""

    is_decoder = True
    ids_name = "decoder_input_ids"

    def source_of(self, *args: Any, **kwargs: Any) -> Source:
        source = super().source_of(*args, **kwargs)
        if source is None:
            raise InputError("this decoder reads a source: give encoder_hidden_states, or the memory of its encoder")
        return source
