"""What a pickle of torch describes: tensors and storages, without their values."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import torch

from .formats import DTYPES

RANK_LIMIT = 64

STORAGES = {
    "Untyped": torch.uint8,
    "Double": torch.float64,
    "Float": torch.float32,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Long": torch.int64,
    "Int": torch.int32,
    "Short": torch.int16,
    "Char": torch.int8,
    "Byte": torch.uint8,
    "Bool": torch.bool,
    "ComplexFloat": torch.complex64,
}
STORAGE_TYPES = {
    f"{module} {name}Storage": dtype for name, dtype in STORAGES.items() for module in ("torch", "torch.storage")
}
TYPES = {f"torch {str(dtype).removeprefix('torch.')}": dtype for dtype in DTYPES.values()}
REBUILDS = re.compile(r"torch\._utils _rebuild_(tensor|tensor_v2|tensor_v3|parameter)")
TABLE, SIZE = "collections OrderedDict", "torch Size"


class Name(str):
    """A function or class that a pickle names."""


class OrderedTable(dict):
    """An OrderedDict, with the attributes that the pickle gives it."""

    attributes: dict[Any, Any] = {}


@dataclass(frozen=True)
class StorageRef:
    """A row of values elsewhere in the file: `count` of them, of which a view begins at `begin`."""

    key: str
    dtype: torch.dtype
    count: int
    begin: int = 0


@dataclass(frozen=True)
class TensorRef:
    """A tensor that a pickle describes, without its values."""

    storage: StorageRef
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    @property
    def span(self) -> int:
        """How many values of the storage it reaches over."""
        if 0 in self.shape:
            return 0
        return 1 + sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def is_known(named: str) -> bool:
    """Whether a pickle of tensors may name this."""
    return named in (TABLE, SIZE) or named in STORAGE_TYPES or named in TYPES or bool(REBUILDS.fullmatch(named))


def kind_of(value: Any) -> str:
    """The name of a value's type in torch's world."""
    named = {TensorRef: "Tensor", OrderedTable: "OrderedDict", StorageRef: "storage", Name: "name of a function"}
    return named.get(type(value), type(value).__name__)


def check_key(key: Any) -> None:
    if not isinstance(key, str | int | float | bytes | None):
        raise ValueError(f"a {kind_of(key)} stands for a name")


def made_by(called: Name, arguments: tuple[Any, ...]) -> Any:
    """What a function of torch would return."""
    if called == TABLE:
        pairs = arguments[0] if arguments else []
        if len(arguments) > 1 or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
            raise ValueError("a table is made of something else than pairs")
        for key, _ in pairs:
            check_key(key)
        return OrderedTable(pairs)
    if called == SIZE:
        return whole_numbers(arguments[0])
    if not REBUILDS.fullmatch(called):
        raise ValueError(f"{called} is called")
    if called.endswith("parameter"):
        if not isinstance(arguments[0], TensorRef):
            raise ValueError("a parameter is made of something else than a tensor")
        return arguments[0]
    storage, offset, shape, stride = arguments[:4]
    dtype = TYPES[arguments[6]] if called.endswith("v3") else None
    return tensor_ref(storage, offset, shape, stride, dtype)


def tensor_ref(storage: Any, offset: Any, shape: Any, stride: Any, dtype: torch.dtype | None) -> TensorRef:
    if not isinstance(storage, StorageRef):
        raise ValueError("a tensor has no storage")
    dtype = dtype or storage.dtype
    (offset,) = whole_numbers((offset,))
    made = TensorRef(storage, offset, whole_numbers(shape), whole_numbers(stride), dtype)
    if len(made.shape) != len(made.stride) or len(made.shape) > RANK_LIMIT:
        raise ValueError(f"a tensor has {len(made.shape)} sizes and {len(made.stride)} strides")
    available = storage.count * storage.dtype.itemsize
    if math.prod(size for size in made.shape if size) >= 2**59:
        raise ValueError("a tensor has a shape that no tensor of torch can have")
    if made.span and (offset + made.span) * dtype.itemsize > available:
        raise ValueError(f"a tensor reaches beyond its storage of {available:,} bytes")
    return made


def storage_ref(described: Any) -> StorageRef:
    """A storage by what the pickle says of it: 'storage', its type, its key, its device, its size, and its view."""
    if type(described) is not tuple or len(described) not in (5, 6) or described[0] != "storage":
        raise ValueError("it refers to something else than a storage")
    _, kind, key, _, count, *view = described
    if not isinstance(kind, Name) or kind not in STORAGE_TYPES or not isinstance(key, str):
        raise ValueError("it refers to a storage of an unknown type")
    (count,) = whole_numbers((count,))
    if view and view[0] is not None:
        _, begin, size = view[0]
        begin, size = whole_numbers((begin, size))
        if begin + size > count:
            raise ValueError("a view reaches beyond its storage")
        return StorageRef(key, STORAGE_TYPES[kind], size, begin)
    return StorageRef(key, STORAGE_TYPES[kind], count)


def whole_numbers(values: Any) -> tuple[int, ...]:
    if type(values) is not tuple or any(type(value) is not int or not 0 <= value < 2**63 for value in values):
        raise ValueError("a size is no whole number")
    return values
