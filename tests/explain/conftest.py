"""The models and batches that are captured and patched."""

from __future__ import annotations

import pytest
import torch

import glassformer

from ..models.architectures import ARCHITECTURES, Architecture, tokens
from ..models.encoder_decoders import ENCODER_DECODERS

LENGTHS = (9, 4, 1, 7)


@pytest.fixture(params=ARCHITECTURES, ids=lambda a: a.model_type)
def architecture(request) -> Architecture:
    torch.manual_seed(0)
    return request.param


@pytest.fixture
def batch() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()
    return {"input_ids": tokens(*mask.shape) * mask, "attention_mask": mask}


@pytest.fixture(
    params=[(a, name) for a in ENCODER_DECODERS for name in a.variants], ids=lambda p: f"{p[0].model_type}-{p[1]}"
)
def seq2seq(request):
    torch.manual_seed(0)
    architecture, variant = request.param
    model = architecture.model(architecture.tiny(**architecture.variants[variant])).double().eval()
    if not model.layers:
        with pytest.raises(glassformer.InputError, match="no attention layers"), model.capture(True):
            pass
        pytest.skip("a model without attention layers has nothing to capture")
    return model
