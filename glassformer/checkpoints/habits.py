"""Arguments of `from_pretrained` that people pass by habit and that have nothing to do here.

A value that would change nothing is taken; any other is refused, with the reason. Arguments that do something
(`token`, `device_map`, `use_safetensors`) are parameters of the methods themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import ArgumentError


class Habit(NamedTuple):
    """One such argument."""

    idle: tuple[Any, ...]  # the values that change nothing
    otherwise: str  # what to say of all others


OFF = (None, False)
ANY = (None, False, True)

HABITS = {
    "force_download": Habit(
        OFF, "a cached file is used only if it is of the commit that the hub names; to fetch it anew, delete it"
    ),
    "mirror": Habit((None,), "pass its address, or several in the order to try, as endpoint="),
    "proxies": Habit((None, {}), "set HTTPS_PROXY in the environment"),
    "resume_download": Habit(ANY, "what was fetched in part is always resumed; leave it out"),
    "trust_remote_code": Habit(OFF, "no code is ever loaded from a checkpoint"),
}
MODEL_HABITS = {
    **HABITS,
    "attn_implementation": Habit(
        (None, "sdpa", "eager"),
        "attention is torch's fused kernel, and the plain formula where weights are asked for; 'sdpa', 'eager' and "
        "None all stand for that",
    ),
    "from_flax": Habit(OFF, "weights are read from safetensors and pytorch_model.bin"),
    "from_tf": Habit(OFF, "weights are read from safetensors and pytorch_model.bin"),
    "low_cpu_mem_usage": Habit(ANY, "weights are always mapped from their file, never drawn first; leave it out"),
}
TOKENIZER_HABITS = {
    **HABITS,
    "use_fast": Habit(ANY, "there is one kind of tokenizer, fast and exact; leave it out"),
}


def settle_habits(
    arguments: dict[str, Any], owner: str, token: str | bool | None = None, habits: Mapping[str, Habit] = HABITS
) -> str | bool | None:
    """Take the idle arguments out of `arguments`, refusing values that ask for something; returns the token.

    The token has an old name too, `use_auth_token`.

    >>> settle_habits({"trust_remote_code": True}, "AutoModel.from_pretrained")
    Traceback (most recent call last):
    glassformer.errors.ArgumentError: AutoModel.from_pretrained: trust_remote_code cannot be True: no code is ever \
loaded from a checkpoint
    """
    for name in [name for name in arguments if name in habits]:
        value = arguments.pop(name)
        if value not in habits[name].idle:
            raise ArgumentError(f"{owner}: {name} cannot be {value!r}: {habits[name].otherwise}")
    old = arguments.pop("use_auth_token", None)
    if None not in (old, token) and old != token:
        raise ArgumentError(f"{owner}: token and use_auth_token are the same argument, and their values differ")
    return old if token is None else token
