"""Requests that are refused: each with a status, the field at fault, and one line that says what to do."""

from __future__ import annotations

import re

import msgspec

from ...errors import GlassformerError

RETRY_SECONDS = 1
FIELD = re.compile(r" - at `(?:key in )?\$\.?(.*?)`$")
NAMED = re.compile(r"(?:required|unknown) field `(.*?)`")
KINDS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 503: "unavailable_error"}


class Refusal(GlassformerError):
    """A request that is not answered; `field` names the part of it that is wrong."""

    def __init__(self, status: int, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status, self.field = status, field

    @property
    def headers(self) -> dict[str, str]:
        if self.status == 401:
            return {"WWW-Authenticate": "Bearer"}
        return {"Retry-After": str(RETRY_SECONDS)} if self.status in (429, 503) else {}

    def body(self, openai: bool) -> bytes:
        """The error as OpenAI's clients read it, or as those of text-embeddings-inference and Hugging Face do."""
        kind = KINDS.get(self.status, "internal_error" if self.status >= 500 else "invalid_request_error")
        if openai:
            error = {"message": str(self), "type": kind, "param": self.field, "code": None}
            return msgspec.json.encode({"error": error})
        return msgspec.json.encode({"error": str(self), "error_type": kind, "field": self.field})


def refusal_of(error: Exception, field: str | None = None) -> Refusal:
    """The refusal of a request that raised one of our errors, or one of the JSON decoder's."""
    if isinstance(error, Refusal):
        return error
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, msgspec.ValidationError):
        place, name = FIELD.search(text), NAMED.search(text)
        parts = [part[1] for part in (place, name) if part is not None and part[1]]
        return Refusal(422, text.replace(" - at `$.", " - at `"), ".".join(parts) or None)
    if isinstance(error, GlassformerError):
        return Refusal(422, text, field)
    return Refusal(400, f"the body is not JSON: {text[:200]}")
