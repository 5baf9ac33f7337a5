"""The limits of the service."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import InputError
from ...tasks.inference import BUDGET


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """What one process accepts.

    Attributes:
        api_key: Requests must carry it as "Authorization: Bearer KEY"; empty for none.
        max_queue: How many inputs wait or run at once; a request beyond them gets 429, alone or in a list.
        max_batch_tokens: How many tokens go through a model at once.
        max_body_bytes: The size of a request's body.
        request_seconds: In which a request must arrive, and a part of its response be read.
        drain_seconds: For accepted requests after SIGTERM or SIGINT.
        max_connections: Open connections; more get 429.
    """

    api_key: str = ""
    max_queue: int = 512
    max_batch_tokens: int = BUDGET
    max_body_bytes: int = 2_000_000
    request_seconds: float = 30.0
    drain_seconds: float = 30.0
    max_connections: int = 2000

    def __post_init__(self) -> None:
        for name in ("max_queue", "max_batch_tokens", "max_body_bytes", "max_connections"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
        for name in ("request_seconds", "drain_seconds"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be above 0, got {getattr(self, name)!r}")
        if not self.api_key.isascii():
            raise InputError("api_key must be ASCII")
