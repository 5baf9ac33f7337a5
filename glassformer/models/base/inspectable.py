"""Methods of every model for `explain/`: capture and change values inside a forward pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...explain.addressing import Heads
    from ...explain.capture import CapturedActivations
    from ...explain.patch import Factors, Patch


class Inspectable:
    """A model whose inner values can be captured and changed."""

    def capture(
        self,
        attention: Heads = None,
        *,
        cross: Heads = None,
        queries: bool = False,
        hidden: Iterable[int] | bool = (),
        modules: Iterable[str] = (),
    ) -> AbstractContextManager[CapturedActivations]:
        """Capture the requested values of the runs in a `with`; the rest stays fused. See `explain.capture.capture`."""
        from ...explain.capture import capture

        return capture(self, attention, cross=cross, queries=queries, hidden=hidden, modules=modules)

    def run_with_cache(self, *args: Any, names: Iterable[str] = ("*",), **kwargs: Any) -> tuple:
        """(the model's output, all captured values). See `explain.capture.run_with_cache`."""
        from ...explain.capture import run_with_cache

        return run_with_cache(self, *args, names=names, **kwargs)

    def patched(
        self,
        modules: Mapping[str, Patch] | None = None,
        *,
        heads: Factors | None = None,
        cross_heads: Factors | None = None,
        skip: Iterable[int] = (),
    ) -> AbstractContextManager[None]:
        """Change values in the runs inside a `with`. See `explain.patch.patched`."""
        from ...explain.patch import patched

        return patched(self, modules, heads=heads, cross_heads=cross_heads, skip=skip)
