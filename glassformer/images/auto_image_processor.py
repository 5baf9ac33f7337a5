"""Find out which image processor a folder or a hub name needs."""

from __future__ import annotations

from os import PathLike
from typing import Any

from ..errors import ArgumentError, ConfigError, refuse_unknown
from .image_processor import (
    FIELDS,
    FILE,
    HUB,
    PROCESSOR_FILE,
    ViTImageProcessor,
    ViTImageProcessorFast,
    processor_type,
    read_preprocessor,
)

# By the names that files give them.
CLASSES: dict[str, type[ViTImageProcessor]] = {
    "ViTImageProcessor": ViTImageProcessor,
    "ViTImageProcessorPil": ViTImageProcessor,
    "ViTImageProcessorFast": ViTImageProcessorFast,
    "ViTFeatureExtractor": ViTImageProcessor,
}
BACKENDS = {"pil": False, "torchvision": True}


class AutoImageProcessor:
    """Reads whichever image processor a folder holds."""

    def __init__(self) -> None:
        raise ArgumentError("AutoImageProcessor is not built directly; use AutoImageProcessor.from_pretrained(folder)")

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | PathLike[str],
        *,
        use_fast: bool | None = None,
        backend: str | None = None,
        **settings: Any,
    ) -> ViTImageProcessor:
        """The image processor of a folder or a hub name; settings as for the class it turns out to be.

        `use_fast=True`, or backend="torchvision", resizes with torch's kernel instead of Pillow's.
        """
        from ..checkpoints.hub import find_folder
        from ..checkpoints.ignored_arguments import resolve_ignored_arguments

        owner = "AutoImageProcessor.from_pretrained"
        settings["token"] = resolve_ignored_arguments(settings, owner, settings.get("token"))
        hub = {name: settings.pop(name) for name in HUB if name in settings}
        refuse_unknown(settings, [*FIELDS, *HUB, "use_fast", "backend"], owner)
        if backend is not None and backend not in BACKENDS:
            raise ArgumentError(f"{owner}: backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
        if None not in (use_fast, backend) and use_fast != BACKENDS[str(backend)]:
            raise ArgumentError(f"{owner}: use_fast={use_fast} and backend={backend!r} contradict each other")
        folder = find_folder(name_or_path, files=(FILE, PROCESSOR_FILE, "config.json"), **hub)
        fields = read_preprocessor(folder)
        name = processor_type(fields) or "ViTImageProcessor"
        if name not in CLASSES:
            known = ", ".join(CLASSES)
            raise ConfigError(f"{folder} needs a {name}, which is not supported yet; supported are {known}")
        fast = BACKENDS[backend] if backend is not None else use_fast
        kind = CLASSES[name] if fast is None else (ViTImageProcessorFast if fast else ViTImageProcessor)
        return kind.from_fields(fields, **settings)
