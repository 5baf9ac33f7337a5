"""Text while it is generated: every piece is shown the moment it is certain, and none is ever taken back.

`decode` looks at a whole sequence. Here the same is done token by token, in stages that each hold back only what the
next token could still change: half a character, a space at the end, the beginning of something that is replaced.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from queue import Queue
from typing import TYPE_CHECKING, Any, Protocol

import torch

from ..errors import InputError, refuse_unknown
from ..text.base.decoding import ENGLISH_SPACING, Decoding
from ..text.bert_tokenizer import BertTokenizer
from ..text.bpe.byte_level_tokenizer import ByteLevelTokenizer
from ..text.openai_gpt_tokenizer import OpenAIGPTTokenizer
from ..text.wordpiece.spacing import stand_together
from .conditioning import condition
from .engine import Generation

if TYPE_CHECKING:
    from torch import Tensor

    from ..text.tokenizer import PreTrainedTokenizer

DECODING = ("skip_special_tokens", "clean_up_tokenization_spaces", "spaces_between_special_tokens")


# --- stages -----------------------------------------------------------------------------------------------------------


class Stage(Protocol):
    """Takes text or tokens in and gives text out, as much of it as is certain."""

    def put(self, text: str) -> str: ...

    def end(self) -> str: ...


class Replaced:
    """`str.replace`: holds back an end that could be the beginning of what is replaced."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new, self.held = old, new, ""

    def put(self, text: str) -> str:
        *done, rest = (self.held + text).split(self.old)
        most = min(len(self.old) - 1, len(rest))
        held = next((size for size in range(most, 0, -1) if self.old.startswith(rest[-size:])), 0)
        self.held = rest[len(rest) - held :]
        return self.new.join([*done, rest[: len(rest) - held]])

    def end(self) -> str:
        held, self.held = self.held, ""
        return held


class Stripped:
    """`str.strip`: holds back white space until something follows it."""

    def __init__(self) -> None:
        self.begun, self.held = False, ""

    def put(self, text: str) -> str:
        text = self.held + text if self.begun else text.lstrip()
        self.begun = self.begun or bool(text)
        certain = text.rstrip()
        self.held = text[len(certain) :]
        return certain

    def end(self) -> str:
        return ""


class Characters:
    """Tokens of bytes: holds back the bytes of a character until it is whole."""

    def __init__(self, tokenizer: ByteLevelTokenizer) -> None:
        self.to_bytes = tokenizer.convert_tokens_to_bytes
        self.decoder = codecs.getincrementaldecoder("utf-8")(tokenizer.errors)

    def put(self, token: str) -> str:
        return self.decode(self.to_bytes([token]))

    def end(self) -> str:
        return self.decode(b"", final=True)

    def decode(self, found: bytes, final: bool = False) -> str:
        try:
            return self.decoder.decode(found, final)
        except UnicodeDecodeError as error:
            raise InputError(f"the tokens make no text: {error.reason}; with errors='replace' they would") from None


class WordPieces:
    """Tokens of BERT: a space comes with the word behind it, once it is known to be one (see `put_together`)."""

    def __init__(self, tokenizer: BertTokenizer) -> None:
        self.special = frozenset(tokenizer.all_special_tokens)
        self.before: str | None = None

    def put(self, token: str) -> str:
        before = self.before
        if before is not None and token.startswith("##"):
            self.before = token if len(token) > 2 else before
            return token[2:]
        self.before = token
        if before is None or (not {before, token} & self.special and stand_together(before[-1:], token[:1])):
            return token
        return " " + token

    def end(self) -> str:
        return ""


class Chain:
    """One stage behind the other."""

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


# How a tokenizer's `convert_tokens_to_string` works when the tokens come one by one.
JOINING = {
    ByteLevelTokenizer.convert_tokens_to_string: Characters,
    BertTokenizer.convert_tokens_to_string: lambda tokenizer: Chain(WordPieces(tokenizer), Stripped()),
    OpenAIGPTTokenizer.convert_tokens_to_string: lambda tokenizer: Chain(
        Replaced(tokenizer.end_of_word, " "), Stripped()
    ),
}


# --- ids to text ------------------------------------------------------------------------------------------------------


class TextStream:
    """The ids of one sequence in, its text out; all pieces together are what `decode` makes of all ids.

    Of a tokenizer that puts its tokens together in a way of its own, the text comes whole at the end.
    """

    def __init__(self, tokenizer: PreTrainedTokenizer, **decoding: Any) -> None:
        refuse_unknown(decoding, DECODING, type(self).__name__)
        self.tokenizer, self.decoding = tokenizer, decoding
        self.skips_special = decoding.get("skip_special_tokens", False)
        self.space = " " if decoding.get("spaces_between_special_tokens", True) else ""
        clean = decoding.get("clean_up_tokenization_spaces")
        clean = getattr(tokenizer, "clean_up_tokenization_spaces", False) if clean is None else clean
        self.cleaning = Chain(*(Replaced(*pair) for pair in ENGLISH_SPACING) if clean else ())
        kind = type(tokenizer)
        own_ways = [
            getattr(kind, name, None) is not getattr(Decoding, name) for name in ("decode", "clean_up_tokenization")
        ]
        self.make_joiner = None if any(own_ways) else JOINING.get(kind.convert_tokens_to_string)
        self.joiner: Stage | None = None  # of the run of plain tokens that is open
        self.begun = False
        self.waiting: list[int] = []  # ids whose text comes at the end
        self.skipped = 0  # characters of a prompt that are still to come

    def begin(self, prompt: Sequence[int]) -> None:
        """Read a prompt without giving its text: what comes then is what follows `decode(prompt)`."""
        whole = self.tokenizer.decode(list(prompt), **self.decoding)
        self.skipped = len(whole) - len(self.put(prompt))

    def put(self, ids: Sequence[int]) -> str:
        """Add ids; the text that has become certain with them."""
        if self.make_joiner is None:
            self.waiting += ids
            return ""
        tokens = self.tokenizer.convert_ids_to_tokens(list(ids), skip_special_tokens=self.skips_special)
        return self.unskipped(self.cleaning.put("".join(map(self.spell, tokens))))

    def end(self) -> str:
        """The text that was held back, now that nothing follows."""
        if self.make_joiner is None:
            return self.unskipped(self.tokenizer.decode(self.waiting, **self.decoding))
        return self.unskipped(self.cleaning.put(self.close()) + self.cleaning.end())

    def spell(self, token: str) -> str:
        is_added = token in self.tokenizer.added_tokens_encoder  # text as it stands, not a piece of it
        text = self.close() if is_added else ""
        if self.joiner is None:
            text += self.space if self.begun else ""
            self.begun = True
        if is_added:
            return text + token
        self.joiner = self.joiner or self.make_joiner(self.tokenizer)
        return text + self.joiner.put(token)

    def close(self) -> str:
        """End the run of plain tokens that is open, if one is."""
        joiner, self.joiner = self.joiner, None
        return "" if joiner is None else joiner.end()

    def unskipped(self, text: str) -> str:
        shown, self.skipped = text[self.skipped :], max(self.skipped - len(text), 0)
        return shown


def stream_text(model: Any, tokenizer: PreTrainedTokenizer, prompt: str, **settings: Any) -> Iterator[str]:
    """What a model writes behind a prompt, piece by piece; settings are those of `generate`.

    Together the pieces are `tokenizer.decode(new tokens, skip_special_tokens=True)`; none is ever half a character.

    >>> for piece in stream_text(model, tokenizer, "Once upon a time", max_new_tokens=40):  # doctest: +SKIP
    ...     print(piece, end="", flush=True)
    """
    ids = torch.tensor([condition(tokenizer, prompt)], dtype=torch.long)
    generation = Generation(model, ids, attention_mask=torch.ones_like(ids), tokenizer=tokenizer, **settings)
    chosen = generation.job.settings
    if chosen.num_beams > 1:
        raise InputError(f"a beam search knows its text only at the end: pass num_beams=1, got {chosen.num_beams}")
    if chosen.num_return_sequences > 1:
        raise InputError(f"one text is streamed at a time, got num_return_sequences {chosen.num_return_sequences}")
    return pieces(generation, TextStream(tokenizer, skip_special_tokens=True))


def pieces(generation: Generation, stream: TextStream) -> Iterator[str]:
    """The text of a generation of one sequence; returns what was found."""
    steps = generation.steps()
    while True:
        try:
            said = next(steps)
        except StopIteration as end:
            rest = stream.end()
            if rest:
                yield rest
            return end.value
        text = stream.put([token for _, token in said])
        if text:
            yield text


# --- streamers, as `model.generate(..., streamer=...)` takes them -----------------------------------------------------


class TextStreamer:
    """Prints a text while it is generated.

    >>> model.generate(ids, streamer=TextStreamer(tokenizer, skip_prompt=True))  # doctest: +SKIP

    Further keywords are those of `decode`. A class of your own can do something else with the pieces:
    `on_finalized_text(text, stream_end)`.
    """

    def __init__(self, tokenizer: PreTrainedTokenizer, skip_prompt: bool = False, **decode_kwargs: Any) -> None:
        refuse_unknown(decode_kwargs, DECODING, type(self).__name__)
        self.tokenizer, self.skip_prompt, self.decode_kwargs = tokenizer, skip_prompt, decode_kwargs
        self.stream: TextStream | None = None  # None between two texts

    def put(self, value: Tensor | Sequence[int]) -> None:
        """Take the prompt first, then the new tokens as they come."""
        given = torch.as_tensor(value)
        if given.dim() > 1 and len(given) > 1:
            raise InputError(f"a streamer takes one sequence at a time, got {len(given)}")
        is_prompt = self.stream is None
        if is_prompt:
            self.stream = TextStream(self.tokenizer, **self.decode_kwargs)
        if is_prompt and self.skip_prompt:
            return
        text = self.stream.put(given.flatten().tolist())
        if text:
            self.on_finalized_text(text)

    def end(self) -> None:
        """Show what was held back; the next `put` begins another text."""
        rest = "" if self.stream is None else self.stream.end()
        self.stream = None
        self.on_finalized_text(rest, stream_end=True)

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        print(text, end="\n" if stream_end else "", flush=True)


class TextIteratorStreamer(TextStreamer):
    """Gives a text while another thread generates it.

    >>> streamer = TextIteratorStreamer(tokenizer, skip_prompt=True)                     # doctest: +SKIP
    >>> Thread(target=model.generate, args=(ids,), kwargs={"streamer": streamer}).start()  # doctest: +SKIP
    >>> for piece in streamer: print(piece, end="")                                      # doctest: +SKIP

    `timeout` is how many seconds a piece is waited for before `queue.Empty` is raised; without it a thread that fails
    leaves its reader waiting. `stream_text` needs no thread.
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
