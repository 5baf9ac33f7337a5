"""Tiny checkpoints with a vocabulary of their own, which glassformer and transformers both read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer

from ..models.architectures import tiny_bert
from .tiny import VOCAB

TEXTS = [
    "today is so bad",
    "the cat sat on the mat in the park .",
    "so good !",
    "John Smith lives in New York , and playing on the mat is unaffable .",
    "我爱北京天安门",
    "the film",
]


def save(folder: Path, model: glassformer.PreTrainedModel, **settings: Any) -> Path:
    """A folder with the model and a tokenizer of the small vocabulary."""
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(VOCAB) + "\n", encoding="utf-8")
    settings = {"model_max_length": model.base_model.max_length or 40, **settings}
    is_distilbert = model.config.model_type == "distilbert"
    kind = glassformer.DistilBertTokenizer if is_distilbert else glassformer.BertTokenizer
    kind.from_pretrained(folder, **settings).save_pretrained(folder)
    return folder


@pytest.fixture
def checkpoint(tmp_path) -> Callable[..., Path]:
    """Makes a folder: checkpoint(glassformer.BertForMaskedLM, num_labels=3)."""

    def make(kind: type[glassformer.PreTrainedModel], name: str = "model", **fields: Any) -> Path:
        torch.manual_seed(0)
        model = kind(tiny_bert(**{"vocab_size": len(VOCAB), "hidden_act": "gelu", **fields})).eval()
        for parameter in model.parameters():  # biases start at zero, and then nothing is seen of them
            parameter.data += 0.1 * torch.randn_like(parameter)
        return save(tmp_path / name, model)

    return make


def theirs(task: str, folder: Path, **options: Any) -> Any:
    """The same task in transformers."""
    library = pytest.importorskip("transformers")
    return library.pipeline(task, model=str(folder), device="cpu", **options)


def close(ours: Any, reference: Any, tolerance: float = 1e-5) -> None:
    """Assert that two nested results are equal, numbers within a tolerance."""
    if isinstance(reference, dict):
        assert ours.keys() == reference.keys()
        for name in reference:
            close(ours[name], reference[name], tolerance)
    elif isinstance(reference, list | tuple):
        assert len(ours) == len(reference), (ours, reference)
        for mine, other in zip(ours, reference, strict=True):
            close(mine, other, tolerance)
    elif isinstance(reference, str | int | None):
        assert ours == reference
    else:
        assert isinstance(ours, float)
        assert abs(ours - float(reference)) <= tolerance, (ours, reference)
