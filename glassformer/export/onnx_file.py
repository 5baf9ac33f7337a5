"""Models as ONNX files: written, run in onnxruntime, and compared with the model they were made from.

Inputs and outputs have the names that are usual for such files: `input_ids`, `attention_mask`, and what else the
tokenizer gives; the names of the model's own outputs; with a KV cache `past_key_values.0.key` and `present.0.key`.
"""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import DamagedFileError, InputError
from ..models.base.pretrained_model import PreTrainedModel
from ..registry import head_of
from .packages import require
from .padded_model import PAST, PRESENT, ExportableModel, cache_names, tensor_outputs

TO_WRITE, TO_RUN = ("onnx", "onnxscript"), ("onnxruntime",)
FILE = "model.onnx"
VECTOR = "sentence_embedding"  # the output of a sentence encoder
PAST_OF_EXAMPLE = 3  # columns; an exporter takes a size of 0 or 1 for one that never changes
INPUTS = ("input_ids", "attention_mask", "token_type_ids", "task_type_ids")


def write_onnx(model: nn.Module, example: Mapping[str, Tensor], path: Path) -> list[str]:
    """Write a model into a file; returns the names of its outputs.

    `example` holds inputs as a tokenizer gives them, a padded batch of two texts or more. Sizes of batches, texts and
    pasts stay open in the file.
    """
    require(TO_WRITE, "writing ONNX")
    exportable, inputs = exportable_model(model, example)
    sizes = tuple(
        dict.fromkeys(range(each.dim()), torch.export.Dim.DYNAMIC) for each in inputs[: len(exportable.inputs)]
    )
    caches = [{0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}] * (2 * exportable.cached_layers)
    with silent_exporter():
        try:
            program = torch.onnx.export(
                exportable,
                tuple(inputs),
                dynamo=True,
                dynamic_shapes=((*sizes, *caches),),
                input_names=exportable.input_names,
                output_names=exportable.output_names,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            reason = str(error.__cause__ or error).strip().splitlines()[0]
            raise InputError(f"this {type(model).__name__} cannot be exported to ONNX: {reason}") from error
        name_sizes(program.model.graph)
        program.save(path)
    return exportable.output_names


def name_sizes(graph: Any) -> None:
    """Give the open sizes of inputs and outputs the names that readers of a file look for."""
    import onnx_ir

    names: dict[str, str] = {}
    is_cached = any(each.name.startswith(PAST) for each in graph.inputs)
    for each in graph.inputs:
        for size, name in zip(each.shape, size_names(each.name, len(each.shape), is_cached), strict=True):
            if isinstance(size, onnx_ir.SymbolicDim):
                names.setdefault(str(size.value), name)
    for each in (*graph.inputs, *graph.outputs):
        for number, size in enumerate(each.shape or ()):
            if isinstance(size, onnx_ir.SymbolicDim) and str(size.value) in names:
                each.shape[number] = names[str(size.value)]


def size_names(name: str, dimensions: int, is_cached: bool) -> tuple[str, ...]:
    """What the sizes of an input are called."""
    if name.startswith(PAST):
        return ("batch", "heads", "past_length", "head_size")
    length = "past_and_length" if is_cached and name == "attention_mask" else "length"
    return ("batch", length) if dimensions == 2 else ("batch", "choices", length)


def exportable_model(model: nn.Module, example: Mapping[str, Tensor]) -> tuple[ExportableModel, list[Tensor]]:
    """A model as a function of tensors, and the tensors of the example."""
    config = getattr(model, "config", None)
    if config is not None and config.is_encoder_decoder:
        raise InputError(f"{type(model).__name__} is an encoder-decoder, which cannot be exported to ONNX")
    inputs = dict(example)
    if not is_cached(model):
        with torch.no_grad():
            out = model(**inputs)
        outputs = [VECTOR] if isinstance(out, Tensor) else tensor_outputs(out)
        return ExportableModel(model, list(inputs), outputs), list(inputs.values())
    layers, past = len(model.layers), PAST_OF_EXAMPLE
    batch, length = inputs["input_ids"].shape
    inputs["attention_mask"] = torch.ones(batch, past + length, dtype=torch.long)
    inputs["position_ids"] = torch.arange(past, past + length).repeat(batch, 1)
    exportable = ExportableModel(model, list(inputs), ["logits"], layers)
    with torch.no_grad():
        start = model(torch.ones(batch, past, dtype=torch.long), use_cache=True)
    columns = [each for layer in start["past_key_values"] for each in layer]
    return exportable, [*inputs.values(), *columns]


def is_cached(model: nn.Module) -> bool:
    """Whether a model is exported with a KV cache: if it predicts the next word."""
    return isinstance(model, PreTrainedModel) and head_of(type(model)) == "causal-lm" and model.base_model.is_decoder


def accepted_inputs(model: nn.Module, encoding: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those of a tokenizer's arrays that the model takes, in the order of its arguments."""
    body = getattr(getattr(model, "model", model), "base_model", model)
    taken = inspect.signature(body.forward).parameters
    return {name: encoding[name] for name in INPUTS if name in encoding and name in taken}


@contextmanager
def silent_exporter() -> Any:
    """torch reports its progress, packages that it does not need, and how it renames what it renames."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    before = [each.level for each in loggers]
    try:
        for each in loggers:
            each.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for each, level in zip(loggers, before, strict=True):
            each.setLevel(level)


class OnnxModel:
    """An ONNX file in onnxruntime, with inputs and outputs by name."""

    def __init__(self, path: Path) -> None:
        require(TO_RUN, "running ONNX")
        import onnxruntime

        if not path.is_file():
            raise InputError(f"{path} is not a file")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        try:
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has no common class of its errors
            raise DamagedFileError(f"{path}: onnxruntime cannot read it: {str(error).splitlines()[0]}") from None
        self.path = path
        self.input_shapes = {each.name: each.shape for each in self.session.get_inputs()}
        self.output_names = [each.name for each in self.session.get_outputs()]

    @property
    def is_cached(self) -> bool:
        return cache_names(PAST, 1)[0] in self.input_shapes

    def __call__(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        missing = self.input_shapes.keys() - inputs.keys()
        if missing:
            raise InputError(f"{self.path} has inputs that are not given: {', '.join(sorted(missing))}")
        values = {name: inputs[name].numpy() for name in self.input_shapes}
        return dict(zip(self.output_names, map(torch.from_numpy, self.session.run(None, values)), strict=True))

    def run_from_start(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The outputs for a padded batch; with a KV cache, those of all words but the last and of the last behind
        them, put together."""
        if not self.is_cached:
            return self(inputs)
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        batch, length = ids.shape
        positions = torch.arange(length).repeat(batch, 1)
        past = {name: self.empty_past(name, batch) for name in self.input_shapes if name.startswith(PAST)}
        rows: list[Tensor] = []
        for start, end in ((0, length - 1), (length - 1, length)):
            part = {"input_ids": ids[:, start:end], "attention_mask": mask[:, :end]}
            out = self({**inputs, **part, "position_ids": positions[:, start:end], **past})
            past = {name: out[PRESENT + name.removeprefix(PAST)] for name in past}
            rows.append(out["logits"])
        return {"logits": torch.cat(rows, 1)}

    def empty_past(self, name: str, batch: int) -> Tensor:
        _, heads, _, size = self.input_shapes[name]
        return torch.zeros(batch, heads, 0, size)


def outputs_of_both(
    model: nn.Module, exported: OnnxModel, inputs: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The tensors that a model and its file return for a padded batch, at the real positions."""
    with torch.no_grad():
        out = model(**inputs)
    theirs = exported.run_from_start(inputs)
    ours = {VECTOR: out} if isinstance(out, Tensor) else {name: out[name] for name in tensor_outputs(out)}
    real = inputs["attention_mask"].bool()
    pick: Sequence[dict[str, Tensor]] = [
        {
            name: (value[real] if value.shape[: real.dim()] == real.shape else value).float()
            for name, value in each.items()
        }
        for each in (ours, {name: theirs[name] for name in theirs if name in ours})
    ]
    return pick[0], pick[1]


def differences(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> dict[str, float]:
    """The largest difference of each output, as a part of the largest value if that is above 1."""
    missing = ours.keys() - theirs.keys()
    if missing:
        raise InputError(
            f"the exported file has no output {', '.join(sorted(missing))}: it is of another model or head"
        )
    found = {}
    for name, value in ours.items():
        if value.shape != theirs[name].shape:
            shapes = f"{list(theirs[name].shape)} and the model's {list(value.shape)}"
            raise InputError(f"{name} of the exported file has the shape {shapes}: it is of another model")
        found[name] = (value - theirs[name]).abs().max().item() / max(1.0, value.abs().max().item())
    return found
