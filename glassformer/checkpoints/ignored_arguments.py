"""Arguments of `from_pretrained` that other libraries have and that have no effect here.

A value that would change nothing is accepted; any other is refused, with the reason. Arguments that do something
(`token`, `device_map`, `use_safetensors`) are parameters of the methods themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import ArgumentError


class IgnoredArgument(NamedTuple):
    """One such argument."""

    accepted: tuple[Any, ...]  # the values that change nothing
    reason: str  # why all others are refused


OFF = (None, False)
ANY = (None, False, True)

IGNORED = {
    "force_download": IgnoredArgument(
        OFF, "a cached file is used only if it is of the commit that the hub names; to fetch it anew, delete it"
    ),
    "mirror": IgnoredArgument((None,), "pass its address, or several in the order to try, as endpoint="),
    "proxies": IgnoredArgument((None, {}), "set HTTPS_PROXY in the environment"),
    "resume_download": IgnoredArgument(ANY, "a partial download is always resumed; leave it out"),
    "trust_remote_code": IgnoredArgument(OFF, "no code is ever loaded from a checkpoint"),
}
IGNORED_BY_MODELS = {
    **IGNORED,
    "attn_implementation": IgnoredArgument(
        (None, "sdpa", "eager"),
        "attention is torch's fused kernel, and the plain formula where weights are requested; 'sdpa', 'eager' and "
        "None all stand for that",
    ),
    "from_flax": IgnoredArgument(OFF, "weights are read from safetensors and pytorch_model.bin"),
    "from_tf": IgnoredArgument(OFF, "weights are read from safetensors and pytorch_model.bin"),
    "low_cpu_mem_usage": IgnoredArgument(
        ANY, "weights are always read from their file, never initialised first; leave it out"
    ),
}
IGNORED_BY_TOKENIZERS = {
    **IGNORED,
    "use_fast": IgnoredArgument(ANY, "there is one kind of tokenizer, fast and exact; leave it out"),
}


def resolve_ignored_arguments(
    arguments: dict[str, Any],
    owner: str,
    token: str | bool | None = None,
    ignored: Mapping[str, IgnoredArgument] = IGNORED,
) -> str | bool | None:
    """Remove the ignored arguments from `arguments`, refusing values that would have an effect; returns the token.

    The token has an old name too, `use_auth_token`.

    >>> resolve_ignored_arguments({"trust_remote_code": True}, "AutoModel.from_pretrained")
    Traceback (most recent call last):
    glassformer.errors.ArgumentError: AutoModel.from_pretrained: trust_remote_code cannot be True: no code is ever \
loaded from a checkpoint
    """
    for name in [name for name in arguments if name in ignored]:
        value = arguments.pop(name)
        if value not in ignored[name].accepted:
            raise ArgumentError(f"{owner}: {name} cannot be {value!r}: {ignored[name].reason}")
    old = arguments.pop("use_auth_token", None)
    if None not in (old, token) and old != token:
        raise ArgumentError(f"{owner}: token and use_auth_token are the same argument, and their values differ")
    return old if token is None else token
