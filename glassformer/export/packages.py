"""What exporting needs beside torch."""

from __future__ import annotations

import importlib.util

from ..errors import InputError


def require(packages: tuple[str, ...], use: str) -> None:
    """Raise unless all these packages are installed.

    >>> require(("torch",), "an example")
    """
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"{use} needs {', '.join(missing)}: pip install 'glassformer[export]'")
