"""The report of `glass inspect`, as tables and a tree, or as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .terminal import aligned, print_heading, print_table, size

SHAPE_FIELDS = {  # config field -> its name in the report
    "num_hidden_layers": "layers",
    "hidden_size": "wide",
    "num_attention_heads": "attention heads",
    "intermediate_size": "wide inside the feed-forward",
    "vocab_size": "tokens in the vocabulary",
    "max_position_embeddings": "positions",
    "type_vocab_size": "segments",
    "num_labels": "labels",
}
OTHER_FIELDS = ("hidden_act", "position_embedding_type", "is_decoder", "pruned_heads", "tie_word_embeddings")


@dataclass
class Node:
    """One module of the tree, or several equal ones in a row."""

    name: str
    kind: str
    parameters: int
    shapes: dict[str, list[int]] = field(default_factory=dict)  # of the parameters that are its own
    children: list[Node] = field(default_factory=list)
    alike: int = 1  # `parameters` counts all of them

    def to_dict(self, depth: int | None) -> dict[str, Any]:
        values: dict[str, Any] = {"name": self.name, "class": self.kind, "parameters": self.parameters}
        if self.alike > 1:
            values["alike"] = self.alike
        if self.shapes:
            values["shapes"] = self.shapes
        if self.children and depth != 0:
            values["children"] = [child.to_dict(None if depth is None else depth - 1) for child in self.children]
        return values

    def rows(self, depth: int | None, lead: str = "", branch: str = "") -> list[tuple[str, str, str, str]]:
        shapes = "  ".join(f"{name} {shape}" for name, shape in self.shapes.items())
        kind = f"{self.alike} x {self.kind}" if self.alike > 1 else self.kind
        rows = [(f"{lead}{branch}{self.name}", kind, f"{self.parameters:,}", shapes)]
        if depth == 0:
            return rows
        lead += {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        for child in self.children:
            last = child is self.children[-1]
            rows += child.rows(None if depth is None else depth - 1, lead, "└─ " if last else "├─ ")
        return rows


@dataclass
class Part:
    """A part of the body: its size by the config, and how many of its tensors the files hold."""

    name: str
    kind: str
    parameters: int
    share: float  # of the body, in percent
    tensors: int
    found: int | None = None  # None when there are no weight files


@dataclass
class Head:
    """One class of the family, and what of it the checkpoint has."""

    name: str
    parameters: int  # beyond the body, tied ones not counted
    lacks: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    weights_checked: bool = True  # False when there are no weight files
    trained_as: str = ""  # the class that these weights were trained as, where they fit this one by shape only

    @property
    def status(self) -> str:
        if not self.weights_checked:
            return "no weights"
        if self.faults:
            return f"does not fit: {self.faults[0]}"
        if self.lacks:
            return f"lacks {', '.join(self.lacks)}"
        return f"fits by shape, and was trained as {self.trained_as}" if self.trained_as else "complete"

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "parameters": self.parameters, "status": self.status, "lacks": self.lacks}


@dataclass
class Inspection:
    """The facts about a folder; `print` and `to_dict` report them."""

    folder: Path
    files: dict[str, int]
    model_type: str | None = None
    architectures: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    unread: dict[str, Any] = field(default_factory=dict)  # config keys that nothing reads
    class_name: str | None = None  # the class that the tree shows
    tree: Node | None = None
    body_name: str | None = None
    parameters: int = 0  # of the body
    parts: list[Part] = field(default_factory=list)
    heads: list[Head] = field(default_factory=list)
    tensors: dict[str, list[int]] = field(default_factory=dict)  # what the weight files hold, by their own names
    dtypes: dict[str, int] = field(default_factory=dict)  # -> bytes
    weight_files: dict[str, int] = field(default_factory=dict)
    lacks: list[str] = field(default_factory=list)  # optional parts of the body that would start from random weights
    unused: list[str] = field(default_factory=list)  # tensors that no class of the family reads
    leftovers: list[str] = field(default_factory=list)  # buffers of old files that are not needed
    faults: list[str] = field(default_factory=list)  # what loading would reject
    hint: str = ""  # at the common cause of the faults
    notes: list[str] = field(default_factory=list)

    def to_dict(self, depth: int | None = None) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "model_type": self.model_type,
            "architectures": self.architectures,
            "class": self.class_name,
            "body": self.body_name,
            "parameters": self.parameters,
            "parts": [{**vars(part), "share": round(part.share, 2)} for part in self.parts],
            "heads": [head.to_dict() for head in self.heads],
            "dtypes": self.dtypes,
            "files": self.files,
            "weight_files": self.weight_files,
            "tensors": self.tensors,
            "lacks": self.lacks,
            "unused": self.unused,
            "leftovers": self.leftovers,
            "faults": self.faults,
            "notes": self.notes,
            "config": self.config,
            "unread_config": self.unread,
            "tree": None if self.tree is None else self.tree.to_dict(depth),
        }

    def print(self, depth: int | None = None) -> None:
        print_heading(str(self.folder))
        for line in self.summary():
            print(line)
        if self.parts:
            print()
            print_heading(f"{self.body_name}: {self.parameters:,} parameters")
            parts = [
                (part.name, part.kind, f"{part.parameters:,}", f"{part.share:.2f} %", presence(part))
                for part in self.parts
            ]
            print_table(("part", "class", "parameters", "share", "in the files"), parts, right=(2, 3))
        if self.heads:
            print()
            print_heading("Classes for these weights" if self.tensors else "The class that the config names")
            heads = [(head.name, f"{head.parameters:,}" if head.parameters else "", head.status) for head in self.heads]
            print_table(("class", "beyond the body", "in the files"), heads, right=(1,))
        if self.tree is not None:
            print()
            print_heading("Module tree")
            for line in aligned(self.tree.rows(depth), right=(2,)):
                print(line)
        elif self.tensors:
            print()
            print_heading("Tensors")
            print_table(("name", "shape"), list(self.tensors.items()))
        print()
        print_heading("Files")
        print_table(("file", "size"), [(name, size(amount)) for name, amount in self.files.items()], right=(1,))

    def summary(self) -> list[str]:
        lines = [("model_type", self.model_type or "none given"), ("architectures", ", ".join(self.architectures))]
        shape = [f"{self.config[name]:,} {word}" for name, word in SHAPE_FIELDS.items() if self.config.get(name)]
        other = [f"{name} {self.config[name]}" for name in OTHER_FIELDS if self.config.get(name) not in (None, {})]
        lines += [("shape", ", ".join(shape)), ("other settings", ", ".join(other))]
        lines.append(("ignored config keys", ", ".join(f"{name} {value!r}" for name, value in self.unread.items())))
        if self.tensors:
            kinds = ", ".join(f"{name} {size(count)}" for name, count in self.dtypes.items())
            values = sum(math.prod(shape) for shape in self.tensors.values())
            lines.append(("weights", f"{len(self.tensors)} tensors of {values:,} values, {kinds}"))
        else:
            lines.append(("weights", "none: the counts come from the config"))
        lines.append(("lacks", ", ".join(self.lacks)))
        lines.append(("unused", some(self.unused)))
        lines.append(("leftovers", some(self.leftovers)))
        lines += [("note", note) for note in self.notes]
        return aligned([(name, text) for name, text in lines if text])


def presence(part: Part) -> str:
    if part.found is None:
        return "no weights"
    if part.found == part.tensors:
        return f"all {part.tensors} tensors"
    return f"{part.found} of {part.tensors} tensors"


def some(names: list[str], most: int = 6) -> str:
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
