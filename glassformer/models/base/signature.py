"""The arguments of `forward`, in the order of the tutorials.

A forward names its arguments once: `@takes(*TEXT, "labels", *OUTPUTS)`. Arguments that it has parameters for are passed
by name; all others are for the body and are passed as one dictionary, `inputs`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ...errors import ArgumentError

TEXT = ("input_ids", "attention_mask", "token_type_ids", "position_ids", "head_mask", "inputs_embeds")
SOURCE = ("encoder_hidden_states", "encoder_attention_mask")  # of the cross-attention
CACHE = ("past_key_values", "use_cache")
OUTPUTS = ("output_attentions", "output_hidden_states", "return_dict")


def takes(*names: str) -> Callable[[Callable], Callable]:
    """Let a forward be called with these arguments, by position or by name, each of them optional.

    >>> @takes("input_ids", "labels")
    ... def forward(self, inputs, labels=None):
    ...     return inputs, labels
    >>> forward(None, "ids", labels=3)
    ({'input_ids': 'ids'}, 3)
    """

    def decorate(forward: Callable) -> Callable:
        own = frozenset(list(inspect.signature(forward).parameters)[2:])

        @functools.wraps(forward)
        def bound(self: Any, *args: Any, **kwargs: Any) -> Any:
            if len(args) > len(names):
                raise ArgumentError(f"{type(self).__name__} takes {len(names)} arguments, got {len(args)}")
            inputs: dict[str, Any] = {}
            parameters: dict[str, Any] = {}
            for name, value in zip(names, args, strict=False):
                if name in kwargs:
                    raise ArgumentError(f"{type(self).__name__} got two values for {name}")
                (parameters if name in own else inputs)[name] = value
            for name, value in kwargs.items():
                (parameters if name in own else inputs)[name] = value
            return forward(self, {name: value for name, value in inputs.items() if value is not None}, **parameters)

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(name, kind, default=None) for name in names]
        bound.__signature__ = inspect.Signature([inspect.Parameter("self", kind), *parameters])  # type: ignore[attr-defined]
        return bound

    return decorate


def reordered(forward: Callable, *names: str) -> Callable:
    """A forward with other names of arguments, or in another order.

    >>> @takes("input_ids", "labels")
    ... def forward(self, inputs, labels=None):
    ...     return inputs, labels
    >>> reordered(forward, "labels", "input_ids")(None, 3, "ids")
    ({'input_ids': 'ids'}, 3)
    """
    return takes(*names)(inspect.unwrap(forward))
