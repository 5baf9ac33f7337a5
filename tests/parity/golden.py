"""Reading a recorded case: its model, its calls, and how far a result may be from the record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

import glassformer


def follow(value: Any, path: str) -> Any:
    """The value at an attribute path such as `past_key_values.0.1`."""
    for step in path.split("."):
        value = value[int(step)] if step.isdigit() else getattr(value, step)
    return value


class Case:
    """One recorded case: a checkpoint folder, and calls with their results."""

    def __init__(self, folder: Path):
        self.record = json.loads((folder / "case.json").read_text())
        self.tensors = load_file(folder / "io.safetensors")
        self.model = getattr(glassformer, self.record["class"]).from_pretrained(folder)
        self.calls = [("", self.record), *((f"then{i}.", call) for i, call in enumerate(self.record.get("then", [])))]

    def run(self):
        """Make every call in order; yields (call, prefix of its tensors, result)."""
        results = []
        for prefix, call in self.calls:
            inputs = {name: self.tensors[f"{prefix}in.{name}"] for name in call["inputs"]}
            for name, (number, path) in call.get("carry", {}).items():
                inputs[name] = follow(results[number], path)
            method = getattr(self.model, call.get("method", "__call__"))
            with torch.no_grad():
                results.append(method(**inputs, **call["call"]))
            yield call, prefix, results[-1]

    def difference(self, call: dict, prefix: str, result: Any, path: str) -> tuple[float, float, float]:
        """The largest difference over the entries that count, the tolerance the record's README calls fair, and the
        largest value."""
        got = result if isinstance(result, torch.Tensor) and path == "sequences" else follow(result, path)
        want = self.tensors[f"{prefix}out.{path}"]
        assert got.shape == want.shape, path
        counts = torch.ones((), dtype=torch.bool)
        if path in call.get("valid", {}):
            name, axes = call["valid"][path]
            mask = self.tensors[f"{prefix}mask.{name}"]
            shape = [1] * want.dim()
            for axis, size in zip(axes, mask.shape, strict=True):
                shape[axis] = size
            counts = mask.view(shape)
        forbidden = want == -float("inf")  # a word that a rule forbids: the same ones must be
        assert torch.equal(torch.where(counts, got == -float("inf"), forbidden), forbidden), path
        away = torch.where(counts & ~forbidden, (got - want).abs(), 0.0).max().item()
        size = want.masked_fill(forbidden, 0).abs().max().item()
        return away, max(2e-5 * size, 20 * call["noise"].get(path, 0.0)), size
