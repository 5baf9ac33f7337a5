"""Second names: the tutorials call the same parts and arguments differently, and both names are understood."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

from torch import nn

from ..errors import ArgumentError, refuse_unknown

Function = TypeVar("Function", bound=Callable[..., Any])


class SecondNames(nn.Module):
    """A module whose parts have further names; the module tree and the names of weights know only the first.

    >>> class Pair(SecondNames):
    ...     second_names = {"fc1": "first"}
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.first = nn.Linear(2, 3)
    >>> pair = Pair()
    >>> pair.fc1 is pair.first, list(pair.state_dict())
    (True, ['first.weight', 'first.bias'])
    """

    # Second name -> the place of the part; several places hold the same part, and an assignment replaces all of them.
    second_names: ClassVar[Mapping[str, str | tuple[str, ...]]] = {}

    def __getattr__(self, name: str) -> Any:
        places = type(self).second_names.get(name)
        if places is None:
            return super().__getattr__(name)
        return attrgetter(places if isinstance(places, str) else places[0])(self)

    def __setattr__(self, name: str, value: Any) -> None:
        places = type(self).second_names.get(name, name)
        for place in (places,) if isinstance(places, str) else places:
            owner, _, leaf = place.rpartition(".")
            module = self.get_submodule(owner) if owner else self
            if isinstance(value, nn.Module) and isinstance(getattr(type(module), leaf, None), property):
                raise ArgumentError(f"{type(self).__name__}.{name} is made of other parts: assign those instead")
            if module is self:
                super().__setattr__(leaf, value)
            else:
                setattr(module, leaf, value)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *type(self).second_names]


def second_keywords(**firsts: str) -> Callable[[Function], Function]:
    """Decorate a function so that its keyword arguments have second names, each given with the first.

    >>> @second_keywords(memory="source")
    ... def decode(source): return source
    >>> decode(memory=3)
    3
    >>> decode(memroy=3)
    Traceback (most recent call last):
    glassformer.errors.ArgumentError: decode has no argument 'memroy', did you mean 'memory'?
    """

    def decorate(function: Function) -> Function:
        valid = [name for name in inspect.signature(function).parameters if name != "self"] + [*firsts]
        owner = function.__qualname__.removesuffix(".forward").removesuffix(".call_directly")

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            refuse_unknown(kwargs, valid, owner)
            named: dict[str, Any] = {}
            given: dict[str, str] = {}
            for name, value in kwargs.items():
                first = firsts.get(name, name)
                if first in given:
                    raise ArgumentError(f"{given[first]} and {name} are the same; give one of them")
                given[first], named[first] = name, value
            return function(*args, **named)

        return call  # type: ignore[return-value]

    return decorate
