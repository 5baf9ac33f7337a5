"""The text of a completion while it grows: cut before a stop string, and never taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...generate.streaming import TextStream
from ...text.bpe.byte_level_tokenizer import ByteLevelTokenizer
from ...text.tokenizer import PreTrainedTokenizer

if TYPE_CHECKING:
    from .generation_worker import Step, TokenScores


class CompletionText:
    """Tokens in, text out. An end that may be the beginning of a stop string is held back."""

    def __init__(self, tokenizer: PreTrainedTokenizer, prompt: Sequence[int], stops: Sequence[str], echo: str = ""):
        self.stream = TextStream(tokenizer, skip_special_tokens=True)
        self.stream.begin(prompt)
        self.stops = list(stops)
        self.full = echo  # all that was returned
        self.held = ""
        self.is_cut = False  # at a stop string

    def put(self, token: int) -> str:
        return self._add(self.stream.put([token]), at_end=False)

    def end(self) -> str:
        return self._add(self.stream.end(), at_end=True)

    def _add(self, text: str, at_end: bool) -> str:
        if self.is_cut:
            return ""
        text = self.held + text
        found = [place for place in (text.find(stop) for stop in self.stops) if place >= 0]
        self.is_cut = bool(found)
        size = min(found) if found else len(text) if at_end else len(text) - self._possible_stop(text)
        piece, self.held = text[:size], text[size:]
        self.full += piece
        return piece

    def _possible_stop(self, text: str) -> int:
        """The length of the longest end of a text that a stop string begins with."""
        longest = max((len(stop) - 1 for stop in self.stops), default=0)
        sizes = range(min(longest, len(text)), 0, -1)
        return next((size for size in sizes if any(stop.startswith(text[-size:]) for stop in self.stops)), 0)


def token_scores(
    tokenizer: PreTrainedTokenizer,
    prompt: Sequence[int],
    prompt_scores: Sequence[TokenScores],
    steps: Sequence[Step],
    text: str,
    begin: int = 0,
) -> dict[str, Any]:
    """Log-probabilities as OpenAI reports them: four lists of one entry for each token of a text.

    The first token of a text has none. Tokens that a stop string cut off are left out.
    """
    scored = [(token, None) for token in prompt[:1]] + list(zip(prompt[1:], prompt_scores, strict=True))
    scored += [(step.token, step.scores) for step in steps]
    found: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    stream = TextStream(tokenizer)
    offset = begin
    for token, scores in scored:
        if offset > len(text) or (offset == len(text) and found["tokens"] and token not in tokenizer.all_special_ids):
            break
        found["tokens"].append(token_text(tokenizer, token))
        found["text_offset"].append(offset)
        found["token_logprobs"].append(None if scores is None else scores[0])
        best = None if scores is None else {token_text(tokenizer, each): score for each, score in scores[1]}
        found["top_logprobs"].append(best)
        if token not in tokenizer.all_special_ids:
            offset += len(stream.put([token]))
    return found


def token_text(tokenizer: PreTrainedTokenizer, token: int) -> str:
    """One token as text; a part of a character as its bytes."""
    text = tokenizer.decode([token])
    if "\ufffd" not in text or not isinstance(tokenizer, ByteLevelTokenizer):
        return text
    data = tokenizer.convert_tokens_to_bytes(tokenizer.convert_ids_to_tokens([token]))
    return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
