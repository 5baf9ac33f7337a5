"""Sizes of new models by name, and the one that fits the data.

They are those of the published miniatures of BERT (Turc et al. 2019): heads of 64, and a feed-forward four times as
wide as the model. The size "base" is that of the architecture's own paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...checkpoints.pretrained_config import PretrainedConfig
from ...models import auto
from .recipe import SIZES

*SMALLER, BASE = SIZES
LAYERS_AND_WIDTH = dict(zip(SMALLER, ((2, 128), (4, 256), (4, 512)), strict=True))
# Of architectures whose config has the defaults of another size.
BASE_SHAPES = {"transformer-lm": (6, 512), "albert": (12, 768), "electra": (12, 768), "transfo-xl": (12, 768)}
BASE_FIELDS = {"electra": {"embedding_size": 768}}  # what else their base size has
MEMORY = 512  # tokens that a Transformer-XL of any size remembers
# Bytes of text up to which a size is the default; a larger model would learn so little text by heart.
FITS = dict(zip(SMALLER, (2_000_000, 50_000_000, 1_000_000_000), strict=True))
BYTES_PER_TOKEN = 4


def shape_of(model_type: str, size: str) -> dict[str, int]:
    """The fields of a config that a size determines; none if they are its defaults.

    >>> shape_of("gpt2", "tiny")
    {'num_hidden_layers': 2, 'hidden_size': 128, 'num_attention_heads': 2, 'intermediate_size': 512}
    """
    known = LAYERS_AND_WIDTH.get(size) or BASE_SHAPES.get(model_type)
    if known is None:
        return {}
    layers, width = known
    fields = {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": width // 64,
        "intermediate_size": 4 * width,
    }
    if model_type == "transfo-xl":
        fields |= {"embedding_size": width, "d_head": 64, "mem_len": MEMORY}
    if size == BASE:
        fields |= BASE_FIELDS.get(model_type, {})
    names = auto.config_class(model_type).field_names()
    return {name: value for name, value in fields.items() if name in names}


def fields_for(model_type: str, size: str | None, given: Mapping[str, Any]) -> dict[str, int]:
    """The fields of a size that the config of a recipe does not give itself, also under names of files."""
    if size is None:
        return {}
    names = auto.config_class(model_type).FILE_NAMES
    ours = {names.get(name, name) for name in given}
    return {name: value for name, value in shape_of(model_type, size).items() if name not in ours}


def gives_shape(model_type: str, given: Mapping[str, Any]) -> bool:
    """Whether the config of a recipe has a field that a size determines, other than the memory's."""
    given = {name: value for name, value in given.items() if name != "mem_len"}
    return len(fields_for(model_type, SMALLER[0], given)) < len(shape_of(model_type, SMALLER[0]))


def size_of(config: PretrainedConfig) -> str | None:
    """The name of a config's size, if it has one."""
    defaults = type(config)()
    for size in SIZES:
        names = shape_of(config.model_type, SMALLER[0])
        shape = shape_of(config.model_type, size) or {name: getattr(defaults, name) for name in names}
        if all(getattr(config, name) == value for name, value in shape.items()):
            return size
    return None


def size_for(count: int) -> str:
    """The size that fits so many bytes of text.

    >>> size_for(1_100_000), size_for(11_000_000)
    ('tiny', 'mini')
    """
    return next((size for size, most in FITS.items() if count <= most), BASE)


def count_bytes(rows: Iterable[Mapping[str, Any]]) -> int:
    """The bytes of all texts in the rows."""
    total = 0
    for row in rows:
        for value in row.values():
            for text in value if isinstance(value, list | tuple) else (value,):
                total += len(text.encode(errors="replace")) if isinstance(text, str) else 0
    return total
