"""Text while it is generated: each piece is emitted as soon as it is certain, and never taken back.

`decode` needs the full sequence. Here the same is done token by token, in stages that each hold back only what the next
token could still change: an incomplete character, trailing space, the beginning of a string that is replaced.
"""

from __future__ import annotations

import codecs
from collections.abc import Generator, Iterator, Sequence
from queue import Queue
from typing import TYPE_CHECKING, Any, Protocol

import torch

from ..errors import InputError, refuse_unknown
from ..text.base.decoding import ENGLISH_SPACING, Decoding
from ..text.bert_tokenizer import BertTokenizer
from ..text.bpe.byte_level_tokenizer import ByteLevelTokenizer
from ..text.openai_gpt_tokenizer import OpenAIGPTTokenizer
from ..text.wordpiece.spacing import stand_together
from .generation import Generation
from .prompts import encode_prompt

if TYPE_CHECKING:
    from torch import Tensor

    from ..text.tokenizer import PreTrainedTokenizer
    from .request import SearchResult

DECODE_OPTIONS = ("skip_special_tokens", "clean_up_tokenization_spaces", "spaces_between_special_tokens")


# --- stages -----------------------------------------------------------------------------------------------------------


class Stage(Protocol):
    """From text or tokens to text, as much of it as is certain."""

    def put(self, text: str) -> str: ...

    def end(self) -> str: ...


class StreamReplace:
    """`str.replace`: holds back an end that may be the beginning of the replaced string."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new, self.held = old, new, ""

    def put(self, text: str) -> str:
        *done, rest = (self.held + text).split(self.old)
        longest = min(len(self.old) - 1, len(rest))
        held = next((size for size in range(longest, 0, -1) if self.old.startswith(rest[-size:])), 0)
        self.held = rest[len(rest) - held :]
        return self.new.join([*done, rest[: len(rest) - held]])

    def end(self) -> str:
        held, self.held = self.held, ""
        return held


class StreamStrip:
    """`str.strip`: holds back white space until something follows it."""

    def __init__(self) -> None:
        self.started, self.held = False, ""

    def put(self, text: str) -> str:
        text = self.held + text if self.started else text.lstrip()
        self.started = self.started or bool(text)
        certain = text.rstrip()
        self.held = text[len(certain) :]
        return certain

    def end(self) -> str:
        return ""


class ByteLevelJoiner:
    """Byte-level tokens: holds back the bytes of an incomplete character."""

    def __init__(self, tokenizer: ByteLevelTokenizer) -> None:
        self.to_bytes = tokenizer.convert_tokens_to_bytes
        self.decoder = codecs.getincrementaldecoder("utf-8")(tokenizer.errors)

    def put(self, token: str) -> str:
        return self.decode(self.to_bytes([token]))

    def end(self) -> str:
        return self.decode(b"", final=True)

    def decode(self, data: bytes, final: bool = False) -> str:
        try:
            return self.decoder.decode(data, final)
        except UnicodeDecodeError as error:
            raise InputError(
                f"the tokens are no valid text: {error.reason}; errors='replace' decodes them anyway"
            ) from None


class WordPieceJoiner:
    """WordPiece tokens: a space is emitted with the word after it."""

    def __init__(self, tokenizer: BertTokenizer) -> None:
        self.special = frozenset(tokenizer.all_special_tokens)
        self.previous: str | None = None

    def put(self, token: str) -> str:
        previous = self.previous
        if previous is not None and token.startswith("##"):
            self.previous = token if len(token) > 2 else previous
            return token[2:]
        self.previous = token
        if previous is None or (not {previous, token} & self.special and stand_together(previous[-1:], token[:1])):
            return token
        return " " + token

    def end(self) -> str:
        return ""


class Chain:
    """Stages, one after the other."""

    def __init__(self, *stages: Stage) -> None:
        self.stages = stages

    def put(self, text: str) -> str:
        for stage in self.stages:
            text = stage.put(text)
        return text

    def end(self) -> str:
        text = ""
        for stage in self.stages:
            text = stage.put(text) + stage.end()
        return text


# The streaming version of each tokenizer's `convert_tokens_to_string`.
JOINERS = {
    ByteLevelTokenizer.convert_tokens_to_string: ByteLevelJoiner,
    BertTokenizer.convert_tokens_to_string: lambda tokenizer: Chain(WordPieceJoiner(tokenizer), StreamStrip()),
    OpenAIGPTTokenizer.convert_tokens_to_string: lambda tokenizer: Chain(
        StreamReplace(tokenizer.end_of_word, " "), StreamStrip()
    ),
}


# --- ids to text ------------------------------------------------------------------------------------------------------


class TextStream:
    """From the ids of one sequence to its text; all pieces together equal `decode` of all ids.

    For a tokenizer class with its own way to join tokens, all text comes at the end.
    """

    def __init__(self, tokenizer: PreTrainedTokenizer, **decoding: Any) -> None:
        refuse_unknown(decoding, DECODE_OPTIONS, type(self).__name__)
        self.tokenizer, self.decoding = tokenizer, decoding
        self.skips_special = decoding.get("skip_special_tokens", False)
        self.space = " " if decoding.get("spaces_between_special_tokens", True) else ""
        clean = decoding.get("clean_up_tokenization_spaces")
        clean = getattr(tokenizer, "clean_up_tokenization_spaces", False) if clean is None else clean
        self.cleaning = Chain(*(StreamReplace(*pair) for pair in ENGLISH_SPACING) if clean else ())
        kind = type(tokenizer)
        is_custom = any(
            getattr(kind, name, None) is not getattr(Decoding, name) for name in ("decode", "clean_up_tokenization")
        )
        self.make_joiner = None if is_custom else JOINERS.get(kind.convert_tokens_to_string)
        self.joiner: Stage | None = None  # of the current run of plain tokens
        self.started = False
        self.waiting: list[int] = []  # ids that are decoded at the end
        self.skipped = 0  # characters of the prompt that are still to be dropped

    def begin(self, prompt: Sequence[int]) -> None:
        """Add a prompt without its text: later pieces are what follows `decode(prompt)`."""
        text = self.tokenizer.decode(list(prompt), **self.decoding)
        self.skipped = len(text) - len(self.put(prompt))

    def put(self, ids: Sequence[int]) -> str:
        """Add ids and return the text that has become certain."""
        if self.make_joiner is None:
            self.waiting += ids
            return ""
        tokens = self.tokenizer.convert_ids_to_tokens(list(ids), skip_special_tokens=self.skips_special)
        return self.drop_prompt(self.cleaning.put("".join(map(self.join, tokens))))

    def end(self) -> str:
        """The text that was held back."""
        if self.make_joiner is None:
            return self.drop_prompt(self.tokenizer.decode(self.waiting, **self.decoding))
        return self.drop_prompt(self.cleaning.put(self.end_run()) + self.cleaning.end())

    def join(self, token: str) -> str:
        is_added = token in self.tokenizer.added_tokens_encoder  # literal text
        text = self.end_run() if is_added else ""
        if self.joiner is None:
            text += self.space if self.started else ""
            self.started = True
        if is_added:
            return text + token
        self.joiner = self.joiner or self.make_joiner(self.tokenizer)
        return text + self.joiner.put(token)

    def end_run(self) -> str:
        """End the current run of plain tokens, if there is one."""
        joiner, self.joiner = self.joiner, None
        return "" if joiner is None else joiner.end()

    def drop_prompt(self, text: str) -> str:
        rest, self.skipped = text[self.skipped :], max(self.skipped - len(text), 0)
        return rest


def stream_text(model: Any, tokenizer: PreTrainedTokenizer, prompt: str, **settings: Any) -> Iterator[str]:
    """The continuation of a prompt, piece by piece; settings are those of `generate`.

    Together the pieces are `tokenizer.decode(new tokens, skip_special_tokens=True)`; none is an incomplete character.

    >>> for piece in stream_text(model, tokenizer, "Once upon a time", max_new_tokens=40):  # doctest: +SKIP
    ...     print(piece, end="", flush=True)
    """
    ids = torch.tensor([encode_prompt(tokenizer, prompt)], dtype=torch.long)
    generation = Generation(model, ids, attention_mask=torch.ones_like(ids), tokenizer=tokenizer, **settings)
    resolved = generation.request.settings
    if resolved.num_beams > 1:
        raise InputError(f"a beam search has no text before its end: pass num_beams=1, got {resolved.num_beams}")
    if resolved.num_return_sequences > 1:
        raise InputError(f"one text is streamed at a time, got num_return_sequences {resolved.num_return_sequences}")
    return stream_pieces(generation, TextStream(tokenizer, skip_special_tokens=True))


def stream_pieces(generation: Generation, stream: TextStream) -> Generator[str, None, SearchResult]:
    """The text of a generation of one sequence; returns the result of the search."""
    steps = generation.steps()
    while True:
        try:
            pairs = next(steps)
        except StopIteration as end:
            rest = stream.end()
            if rest:
                yield rest
            return end.value
        text = stream.put([token for _, token in pairs])
        if text:
            yield text


# --- streamers, as `model.generate(..., streamer=...)` takes them -----------------------------------------------------


class TextStreamer:
    """Prints a text while it is generated.

    >>> model.generate(ids, streamer=TextStreamer(tokenizer, skip_prompt=True))  # doctest: +SKIP

    Further keywords are those of `decode`. A subclass can do something else with the pieces in
    `on_finalized_text(text, stream_end)`.
    """

    def __init__(self, tokenizer: PreTrainedTokenizer, skip_prompt: bool = False, **decode_kwargs: Any) -> None:
        refuse_unknown(decode_kwargs, DECODE_OPTIONS, type(self).__name__)
        self.tokenizer, self.skip_prompt, self.decode_kwargs = tokenizer, skip_prompt, decode_kwargs
        self.stream: TextStream | None = None  # None between two texts

    def put(self, value: Tensor | Sequence[int]) -> None:
        """Receive the prompt first, then the new tokens."""
        ids = torch.as_tensor(value)
        if ids.dim() > 1 and len(ids) > 1:
            raise InputError(f"a streamer takes one sequence at a time, got {len(ids)}")
        is_prompt = self.stream is None
        if is_prompt:
            self.stream = TextStream(self.tokenizer, **self.decode_kwargs)
        if is_prompt and self.skip_prompt:
            return
        text = self.stream.put(ids.flatten().tolist())
        if text:
            self.on_finalized_text(text)

    def end(self) -> None:
        """Print what was held back; the next `put` begins another text."""
        rest = "" if self.stream is None else self.stream.end()
        self.stream = None
        self.on_finalized_text(rest, stream_end=True)

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        print(text, end="\n" if stream_end else "", flush=True)


class TextIteratorStreamer(TextStreamer):
    """Iterates over a text while another thread generates it.

    >>> streamer = TextIteratorStreamer(tokenizer, skip_prompt=True)                     # doctest: +SKIP
    >>> Thread(target=model.generate, args=(ids,), kwargs={"streamer": streamer}).start()  # doctest: +SKIP
    >>> for piece in streamer: print(piece, end="")                                      # doctest: +SKIP

    After `timeout` seconds without a piece `queue.Empty` is raised; without it a thread that fails leaves its reader
    waiting. `stream_text` needs no thread.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizer,
        skip_prompt: bool = False,
        timeout: float | None = None,
        **decode_kwargs: Any,
    ) -> None:
        super().__init__(tokenizer, skip_prompt, **decode_kwargs)
        self.text_queue: Queue[str | None] = Queue()
        self.stop_signal = None
        self.timeout = timeout

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        if text:
            self.text_queue.put(text, timeout=self.timeout)
        if stream_end:
            self.text_queue.put(self.stop_signal, timeout=self.timeout)

    def __iter__(self) -> TextIteratorStreamer:
        return self

    def __next__(self) -> str:
        text = self.text_queue.get(timeout=self.timeout)
        if text is self.stop_signal:
            raise StopIteration
        return text
