"""What `glass verify` compares: a model's outputs for some texts, and reference outputs."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import __version__
from ...errors import DamagedFileError, InputError

if TYPE_CHECKING:
    from torch import Tensor

    from ...models.base.pretrained_model import PreTrainedModel

METADATA, TENSORS = "reference.json", "reference.safetensors"
TEXTS = (
    "The quick brown fox jumps over the lazy dog.",
    "Attention is all you need, isn't it? I like natural language processing!",
    "今天天气很好，我们去公园吧。",
)
NOT_COMPARED = ("loss", "hidden_states", "attentions", "cross_attentions", "past_key_values", "last_hidden_state")


@dataclass
class Comparison:
    """Two sets of outputs for the same texts."""

    against: str
    model_class: str
    ids: list[list[int]]
    other_ids: list[list[int]]
    ours: dict[str, Tensor]
    other: dict[str, Tensor]

    def to_dict(self, tolerance: float) -> dict[str, Any]:
        if self.ours.keys() != self.other.keys():
            names = ", ".join(sorted(self.ours.keys() ^ self.other.keys()))
            raise InputError(f"only one of the two has {names}: they are not the same model")
        values = [difference(name, self.ours[name], self.other[name], tolerance) for name in self.ours]
        same_ids = self.ids == self.other_ids
        return {
            "against": self.against,
            "model_class": self.model_class,
            "agrees": same_ids and all(each["agrees"] for each in values),
            "same_ids": same_ids,
            "tokens": sum(map(len, self.ids)),
            "tolerance": tolerance,
            "values": values,
        }


def difference(name: str, ours: Tensor, other: Tensor, tolerance: float) -> dict[str, Any]:
    """The largest difference between two outputs, as a part of the largest value if that is above 1."""
    if ours.shape != other.shape:
        raise InputError(f"{name} has the shape {list(ours.shape)} and there {list(other.shape)}: not the same model")
    largest = other.abs().max().item()
    relative = (ours - other).abs().max().item() / max(1.0, largest)
    agrees = relative <= tolerance  # NaN does not agree
    return {"name": name, "difference": relative, "largest": largest, "agrees": agrees}


# --- our outputs ------------------------------------------------------------------------------------------------------


def load(folder: Path) -> PreTrainedModel:
    """Load the class that the folder names; its body alone if the weights of its head are missing."""
    import torch

    import glassformer

    from ..verbs.inspect import logs_silenced

    named = (glassformer.AutoConfig.from_pretrained(folder).architectures or [""])[0]
    kind = getattr(glassformer, named, None) if named in glassformer.__all__ else None
    with logs_silenced():
        model = (kind or glassformer.AutoModel).from_pretrained(folder, dtype=torch.float32)
        if kind is not None and model.load_report.initialised:
            model = glassformer.AutoModel.from_pretrained(folder, dtype=torch.float32)
    return model.eval()


def encode(tokenizer: Any, texts: Sequence[str], limit: int) -> list[list[int]]:
    return tokenizer(list(texts), truncation=True, max_length=limit)["input_ids"]


def takes_choices(model: PreTrainedModel) -> bool:
    """Whether a row of the model's input is a list of choices, by the table of the task."""
    from ...registry import head_of

    return head_of(type(model)) == "multiple-choice"


def outputs_of(model: Any, ids: list[list[int]], choices: bool, skip: Sequence[str] = ()) -> dict[str, Tensor]:
    """Every layer's states and the outputs of the head, at the real positions of a padded batch."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    rows = [torch.tensor(row) for row in ids]
    mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    inputs = {"input_ids": pad_sequence(rows, batch_first=True), "attention_mask": mask}
    if choices:
        inputs = {name: value[:, None] for name, value in inputs.items()}  # one choice each
    with torch.inference_mode():
        out = model(**inputs, output_hidden_states=True, return_dict=True)
    found = {}
    for number, states in enumerate(out["hidden_states"]):
        found[f"layer {number}" if number else "embeddings"] = states
    for name, value in out.items():
        if isinstance(value, torch.Tensor) and name not in (*NOT_COMPARED, *skip):
            found[name] = value
    real = mask.bool()
    return {
        name: (value[real] if value.shape[:2] == real.shape else value).float().contiguous()
        for name, value in found.items()
    }


def untrained_outputs(model: PreTrainedModel) -> list[str]:
    """Outputs that come from randomly initialised weights."""
    return ["pooler_output"] if "pooler" in model.load_report.initialised else []


def encode_with_ours(folder: Path, texts: Sequence[str]) -> tuple[PreTrainedModel, list[list[int]], int]:
    """The model, the ids of texts, and how many tokens a text may have."""
    from ... import AutoTokenizer

    model, tokenizer = load(folder), AutoTokenizer.from_pretrained(folder)
    limit = min(getattr(model.config, "max_position_embeddings", None) or 512, tokenizer.model_max_length, 512)
    ids = encode(tokenizer, texts, limit)
    if not all(ids):
        raise InputError("every text must have a token, and one has none")
    return model, ids, limit


# --- recorded ---------------------------------------------------------------------------------------------------------


def has_reference(folder: Path) -> bool:
    return (folder / METADATA).exists() or (folder / TENSORS).exists()


def write_reference(folder: Path, texts: Sequence[str]) -> dict[str, Any]:
    from safetensors.torch import save

    from ...checkpoints.files import write_atomically

    texts = list(texts or TEXTS)
    model, ids, limit = encode_with_ours(folder, texts)
    values = outputs_of(model, ids, takes_choices(model), untrained_outputs(model))
    data = save(values)
    metadata = {
        "glassformer": __version__,
        "model_class": type(model).__name__,
        "texts": texts,
        "limit": limit,
        "input_ids": ids,
        "values": list(values),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    write_atomically(folder / TENSORS, data)
    write_atomically(folder / METADATA, json.dumps(metadata, indent=2, ensure_ascii=False) + "\n")
    return {"folder": str(folder), "tensors": len(values), "texts": len(texts)}


def compare_with_recorded(folder: Path) -> Comparison:
    from safetensors.torch import load as read

    from ...checkpoints.files import open_regular, read_json

    metadata = read_json(folder / METADATA, METADATA)
    with open_regular(folder / TENSORS) as file:
        data = file.read()
    if hashlib.sha256(data).hexdigest() != metadata.get("sha256"):
        raise DamagedFileError(f"{folder / TENSORS} is not the file that {METADATA} describes; --record rewrites both")
    model, ids, _ = encode_with_ours(folder, metadata["texts"])
    stored = read(data)
    return Comparison(
        f"what glassformer {metadata['glassformer']} recorded",
        type(model).__name__,
        ids,
        metadata["input_ids"],
        outputs_of(model, metadata["input_ids"], takes_choices(model), untrained_outputs(model)),
        {name: stored[name] for name in metadata["values"]},
    )


# --- transformers -----------------------------------------------------------------------------------------------------


def compare_with_transformers(folder: Path, texts: Sequence[str]) -> Comparison:
    if importlib.util.find_spec("transformers") is None:
        raise InputError(
            f"{folder} has no {METADATA} to compare with, and transformers is not installed: pip install transformers, "
            "or record a reference with --record where you trust the numbers"
        )
    model, ids, limit = encode_with_ours(folder, texts or TEXTS)

    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    kind = getattr(transformers, type(model).__name__, None)
    if kind is None:
        raise InputError(f"transformers {transformers.__version__} has no {type(model).__name__}")
    other = kind.from_pretrained(folder, dtype=torch.float32).eval()
    other_ids = encode(transformers.AutoTokenizer.from_pretrained(folder), texts or TEXTS, limit)
    return Comparison(
        f"transformers {transformers.__version__}",
        type(model).__name__,
        ids,
        other_ids,
        outputs_of(model, ids, takes_choices(model), untrained_outputs(model)),
        outputs_of(other, ids, takes_choices(model), untrained_outputs(model)),
    )
