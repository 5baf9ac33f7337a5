"""A checkpoint and a file that was exported from it, compared on texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from ..errors import InputError
from ..tasks.sentences.sentence_encoder import SentenceEncoder
from .export_folder import TEXTS, TOLERANCE, example_inputs, load_for_export
from .gguf_file import LlamaModel
from .onnx_file import OnnxModel, differences, outputs_of_both

ROUNDED = 0.05  # llama.cpp keeps keys, values and most matrices in 16 bits


@dataclass
class ExportComparison:
    """What was compared, and how far the two are apart."""

    model_class: str
    runtime: str
    tolerance: float  # the usual one
    differences: dict[str, float]
    same_ids: bool | None = None  # where the file has a tokenizer of its own

    def agrees(self, tolerance: float) -> bool:
        return self.same_ids is not False and all(value <= tolerance for value in self.differences.values())


def compare_exported(folder: str | PathLike[str], file: str, texts: Sequence[str] = ()) -> ExportComparison:
    """Run texts through the model of a folder and through a file that was made from it."""
    path, texts = Path(file), texts or TEXTS
    if path.suffix not in (".onnx", ".gguf"):
        raise InputError(f"an exported file is called NAME.onnx or NAME.gguf, got {file!r}")
    model, tokenizer = load_for_export(folder)
    kind = type(model).__name__
    if path.suffix == ".gguf":
        return ExportComparison(kind, "llama.cpp", ROUNDED, *compare_in_llama(model, tokenizer, path, texts))
    compared = outputs_of_both(model, OnnxModel(path), example_inputs(model, tokenizer, texts))
    return ExportComparison(kind, "onnxruntime", TOLERANCE, differences(*compared))


def compare_in_llama(model: Any, tokenizer: Any, path: Path, texts: Sequence[str]) -> tuple[dict[str, float], bool]:
    """Vectors of texts, or the logits of every next word; and whether llama.cpp reads the same tokens."""
    llama = LlamaModel(path, makes_vectors=isinstance(model, SentenceEncoder))
    found, same_ids = 0.0, True
    for text in texts:
        ids = tokenizer(text, truncation=True, max_length=llama.limit)["input_ids"]
        same_ids &= llama.tokenize(text)[: llama.limit] == ids
        with torch.no_grad():
            if isinstance(model, SentenceEncoder):
                ours = {"vector": F.normalize(torch.as_tensor(model.encode(text)), dim=-1)}
                theirs = {"vector": F.normalize(llama.vector(text), dim=-1)}
            else:
                ours, theirs = {"logits": model(torch.tensor([ids])).logits[0]}, {"logits": llama.logits(ids)}
        name, difference = next(iter(differences(ours, theirs).items()))
        found = max(found, difference)
    return {name: found}, same_ids
