"""What all weight files have in common: names in a folder, dtype codes, descriptions of tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch

_DTYPE_NAMES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "C64": "complex64",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
DTYPES: dict[str, torch.dtype] = {
    code: getattr(torch, name) for code, name in _DTYPE_NAMES.items() if hasattr(torch, name)
}
CODES = {dtype: code for code, dtype in DTYPES.items()}


@dataclass(frozen=True)
class TensorInfo:
    """The description of one tensor in a file, known without reading its values."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    file: Path

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def is_unicode(text: str) -> bool:
    """Whether a tensor's name can be written as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def one_line(error: BaseException) -> str:
    """The first line of another library's error, shortened and printable, to stand inside one of ours."""
    first = (str(error) or type(error).__name__).split("\n")[0]
    shown = "".join(character if character.isprintable() else "?" for character in first[:160])
    return shown if len(first) <= 160 else shown + "..."
