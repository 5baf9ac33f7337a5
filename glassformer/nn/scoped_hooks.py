"""Hooks and observers that act only where they were opened: in one thread or asyncio task, and in the tasks it starts.

Modules are shared by all threads, and so are the hooks of torch. A hook that is registered here checks first whether
the running thread and task have opened it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from .attention import AttentionInputs, SelfAttention

# Called with the inputs of every attention; it changes nothing.
Observer = Callable[["SelfAttention", "AttentionInputs"], None]


class HookScope:
    """The hooks that one `with` registers; they are removed at its end.

    >>> layer, seen = nn.Linear(2, 2), []
    >>> with HookScope() as scope:
    ...     scope.after(layer, lambda module, inputs, out: seen.append(out))
    ...     _ = layer(torch.ones(1, 2))
    >>> _ = layer(torch.ones(1, 2))
    >>> len(seen)
    1
    """

    def __init__(self) -> None:
        self.is_open = False
        self.observers: list[Observer] = []
        self._handles: list[Any] = []
        self._followed: set[nn.Module] = set()

    def __enter__(self) -> HookScope:
        self.is_open = True
        open_scopes.set((*open_scopes.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False  # also for tasks that were started inside and still run
        for handle in self._handles:
            handle.remove()
        open_scopes.set(tuple(each for each in open_scopes.get() if each is not self))

    @property
    def is_active(self) -> bool:
        """Whether the running thread and task have opened it."""
        return self.is_open and self in open_scopes.get()

    def before(self, module: nn.Module, hook: Callable) -> None:
        """Call `hook(module, inputs)` before a module runs; what it returns replaces the inputs."""
        self._handles.append(module.register_forward_pre_hook(ScopedHook(self, hook)))

    def after(self, module: nn.Module, hook: Callable) -> None:
        """Call `hook(module, inputs, out)` after a module ran; what it returns replaces the output."""
        self._handles.append(module.register_forward_hook(ScopedHook(self, hook)))

    def only_in(self, layers: Sequence[nn.Module], number: int, hook: Callable) -> Callable:
        """`hook` for one of the layers: if the same module is several of them, it acts while that one runs."""
        if sum(each is layers[number] for each in layers) == 1:
            return hook
        for layer in dict.fromkeys(layers):
            if layer not in self._followed:
                self._followed.add(layer)
                self.before(layer, note_layer)
        return lambda *args: hook(*args) if running_layer.get() == number else None


class ScopedHook:
    """A hook that does nothing outside its scope."""

    def __init__(self, scope: HookScope, hook: Callable) -> None:
        self.scope, self.hook = scope, hook

    def __call__(self, *args: Any) -> Any:
        return self.hook(*args) if self.scope.is_active else None


def note_layer(_: nn.Module, inputs: tuple) -> None:
    """A hook that notes which layer begins to run."""
    running_layer.set(next((number for each in inputs if (number := getattr(each, "number", None)) is not None), None))


running_layer: ContextVar[int | None] = ContextVar("running layer", default=None)
open_scopes: ContextVar[tuple[HookScope, ...]] = ContextVar("open hook scopes", default=())


def observe_attention(module: SelfAttention, inputs: AttentionInputs) -> None:
    """Call the observers of the running thread and task."""
    for scope in open_scopes.get():
        if scope.is_open:
            for observer in scope.observers:
                observer(module, inputs)


def is_observed(module: nn.Module) -> bool:
    """Whether a hook or an observer acts on what passes through `module` in this thread and task."""
    hooks = torch.nn.modules.module
    if any(scope.is_open and scope.observers for scope in open_scopes.get()):
        return True
    if hooks._global_forward_hooks or hooks._global_forward_pre_hooks:
        return True
    return any(
        acts(hook)
        for part in list(module.modules())
        for table in (part._forward_hooks, part._forward_pre_hooks)
        if table
        for hook in list(table.values())  # another thread may add to the table meanwhile
    )


def acts(hook: Callable) -> bool:
    return not isinstance(hook, ScopedHook) or hook.scope.is_active
