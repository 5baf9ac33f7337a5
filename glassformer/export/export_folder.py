"""A checkpoint's folder to a folder with an exported file, which is checked before it takes its place."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ..checkpoints.files import make_folder, replace_atomically
from ..checkpoints.folder_save import saved_together
from ..errors import CheckpointError, InputError
from ..models.base.pretrained_model import PreTrainedModel
from ..registry import head_of
from ..tasks.pipeline import task_of_folder
from ..tasks.sentences.pooling import Normalize
from ..tasks.sentences.sentence_encoder import SentenceEncoder
from ..tasks.task_registry import task_class
from ..tasks.text_task import TextTask
from ..text.tokenizer import PreTrainedTokenizer
from .gguf_file import write_gguf
from .onnx_file import FILE, OnnxModel, accepted_inputs, differences, outputs_of_both, write_onnx

TEXTS = (
    "The quick brown fox jumps over the lazy dog.",
    "Attention is all you need, isn't it? I like natural language processing!",
    "今天天气很好，我们去公园吧。",
)
TOLERANCE = 1e-4


def export_onnx(
    folder: str | PathLike[str],
    output: str | PathLike[str],
    task: str | None = None,
    texts: Sequence[str] = TEXTS,
    tolerance: float = TOLERANCE,
) -> dict[str, Any]:
    """Write the model of a folder as ONNX beside its config and tokenizer; nothing is written if it computes
    something else. Returns what was written, and the largest difference of each output."""
    model, tokenizer = load_for_export(folder, task)
    inputs = example_inputs(model, tokenizer, texts)
    with saved_together(output) as staged:
        write_onnx(model, inputs, staged / FILE)
        compared = differences(*outputs_of_both(model, OnnxModel(staged / FILE), inputs))
        beyond = {name: value for name, value in compared.items() if not value <= tolerance}
        if beyond:
            found = ", ".join(f"{name} by {value:.1e}" for name, value in beyond.items())
            raise CheckpointError(f"the exported model differs from {folder} beyond {tolerance:g}: {found}")
        config_of(model).save_pretrained(staged)
        tokenizer.save_pretrained(staged)
        size = (staged / FILE).stat().st_size
    return {
        "file": str(Path(output) / FILE),
        "model_class": type(model).__name__,
        "bytes": size,
        "inputs": list(inputs),
        "differences": compared,
    }


def load_for_export(folder: str | PathLike[str], task: str | None = None) -> tuple[nn.Module, PreTrainedTokenizer]:
    """The model that does a task: that of the folder's own class, if none is named."""
    kind = task_class(task or task_of_folder(folder, {}))
    if kind.name == "sentence-similarity":
        encoder = SentenceEncoder.from_pretrained(folder)
        return encoder, encoder.tokenizer
    if not issubclass(kind, TextTask):
        raise InputError(f"{kind.name} reads no texts, and cannot be exported to ONNX")
    loaded = kind.from_pretrained(folder)
    loaded.refuse_untrained()
    return loaded.model.eval(), loaded.tokenizer


def example_inputs(model: nn.Module, tokenizer: PreTrainedTokenizer, texts: Sequence[str]) -> dict[str, Tensor]:
    """A padded batch of the texts, as the model reads them."""
    if len(texts) < 2:
        raise InputError(f"give two texts or more, got {len(texts)}: sizes that do not vary would stay fixed")
    if tokenizer.pad_token_id is None:  # a GPT-2: what stands at padded positions is never read
        tokenizer = copy.deepcopy(tokenizer)  # the one that is saved stays as it is
        tokenizer.pad_token = tokenizer.eos_token
    config = config_of(model)
    limit = min(getattr(config, "max_position_embeddings", None) or 512, tokenizer.model_max_length, 512)
    encoded = tokenizer(list(texts), padding=True, truncation=True, max_length=limit, return_tensors="pt")
    inputs = accepted_inputs(model, encoded)
    if isinstance(model, PreTrainedModel) and head_of(type(model)) == "multiple-choice":
        inputs = {name: value[:, None].repeat(1, 2, 1) for name, value in inputs.items()}
    return inputs


def config_of(model: nn.Module) -> Any:
    return (model.model if isinstance(model, SentenceEncoder) else model).config


def export_gguf(folder: str | PathLike[str], output: str | PathLike[str], weights: str = "f16") -> dict[str, Any]:
    """Write a BERT or a GPT-2 as a GGUF file; returns what was written."""
    path = Path(output)
    if path.suffix != ".gguf":
        raise InputError(f"the file is called NAME.gguf, got {str(output)!r}")
    model, tokenizer = load_for_export(folder)
    pooling = None
    if isinstance(model, SentenceEncoder):
        pooling = gguf_pooling(model)
        model = model.model
    make_folder(path.parent)
    with replace_atomically(path) as written:
        write_gguf(model, tokenizer, written, weights, pooling, name=Path(folder).name)
    return {"file": str(path), "model_class": type(model).__name__, "bytes": path.stat().st_size, "weights": weights}


def gguf_pooling(encoder: SentenceEncoder) -> str:
    """The pooling of a sentence encoder, if GGUF has it; vectors come out of llama.cpp with length 1 on request."""
    pooling, *further = encoder.used_steps
    others = [type(step).__name__ for step in further if not isinstance(step, Normalize)]
    if others or len(pooling.modes) != 1:
        raise InputError(f"GGUF has one pooling and no {', '.join(others) or 'concatenated poolings'}")
    return pooling.modes[0]
