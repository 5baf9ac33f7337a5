"""One text as a model read it: its tokens, and what the model computed for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, nn

from ..errors import InputError
from ..models.base.outputs import BodyOutput
from ..text.tokenizer import PreTrainedTokenizer
from .addressing import CROSS, SELF

if TYPE_CHECKING:
    from .subject import Subject

WEIGHTS_AT_ONCE = 1 << 25  # a head of 4,096 tokens has half as many


class Side(NamedTuple):
    """The tokens on one side of an attention: those of its queries, or those of its keys."""

    ids: list[int]
    tokens: list[str]  # readable
    special: list[bool]
    separators: list[bool]  # except the first token


class EmbeddedTokens(NamedTuple):
    """Tokens that a model reads, and the table with their vectors."""

    side: Side
    table: nn.Embedding
    tokenizer: PreTrainedTokenizer


class Part(NamedTuple):
    """One kind of attention: from which tokens to which, in which layers."""

    kind: str  # the name of the attention in a layer
    left: Side
    right: Side
    layers: list[int]
    is_causal: bool  # no token attends to those after it
    has_vectors: bool = True  # its weights come from queries and keys, which the neuron view shows


@dataclass
class Reading:
    """One text as the model read it, beside its `source` if the model is an encoder-decoder.

    The weights of a head are computed when they are requested.
    """

    subject: Subject
    text: str
    pair: str | None
    side: Side
    segments: list[int]
    source: Side | None = None
    attention: dict[tuple[str, int], Any] = field(default_factory=dict)  # inputs, by kind of attention and layer
    hidden: list[Tensor] = field(default_factory=list)  # T C each: before the first layer, after every layer
    body: BodyOutput | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def ids(self) -> list[int]:
        return self.side.ids

    @property
    def tokens(self) -> list[str]:
        return self.side.tokens

    @property
    def parts(self) -> dict[str, Part]:
        """The kinds of attention that the model has."""
        layers = list(range(len(self.subject.model.layers)))
        if self.source is None:
            return {"all": Part(SELF, self.side, self.side, layers, self.subject.is_decoder)}
        if self.subject.is_recurrent:
            return {"cross": Part(CROSS, self.side, self.source, [0], False, has_vectors=False)}
        first = self.subject.model.encoder.layer_count
        return {
            "encoder": Part(SELF, self.source, self.source, layers[:first], False),
            "decoder": Part(SELF, self.side, self.side, layers[first:], True),
            "cross": Part(CROSS, self.side, self.source, layers[first:], False),
        }

    @property
    def embedded_tokens(self) -> list[EmbeddedTokens]:
        """All tokens that the model reads: the source's before the target's."""
        subject, model = self.subject, self.subject.model
        if self.source is None:
            return [EmbeddedTokens(self.side, model.get_input_embeddings(), subject.tokenizer)]
        return [
            EmbeddedTokens(self.source, model.encoder.embeddings.word_embeddings, subject.tokenizer),
            EmbeddedTokens(self.side, model.decoding_body.embeddings.word_embeddings, subject.target_tokenizer),
        ]

    def attention_inputs(self, layer: int, kind: str = SELF) -> Any:
        """What an attention computed with (AttentionInputs), or the weights that it returned."""
        if (kind, layer) not in self.attention:
            present = sorted(number for of, number in self.attention if of == kind)
            raise InputError(f"there are layers {present[0]} to {present[-1]}, got {layer!r}")
        return self.attention[kind, layer]

    def weights(self, layer: int, heads: Any = True, kind: str = SELF, queries: range | None = None) -> Tensor:
        """H T S, of the requested heads, numbered as in the unpruned model; of some `queries` alone, H t S."""
        inputs, slots = self.attention_inputs(layer, kind), self.subject.slots(layer, heads, kind)
        if queries is None:
            return inputs.weights(slots)[0]
        return inputs.weights(slots, queries)[0]

    def weights_in_parts(self, layer: int, part: Part) -> Iterator[Tensor]:
        """The weights of all heads of a layer, H T S, a few heads at a time: those of a long text take much memory."""
        heads = self.subject.heads_of_part(part)[layer]
        at_once = max(1, WEIGHTS_AT_ONCE // (len(part.left.ids) * len(part.right.ids)))
        for first in range(0, len(heads), at_once):
            yield self.weights(layer, heads[first : first + at_once], part.kind)

    def vectors(self, layer: int, head: int, kind: str = SELF) -> tuple[Tensor, Tensor]:
        """The queries (T D) and keys (S D) of one head."""
        inputs = self.attention_inputs(layer, kind)
        (slot,) = self.subject.slots(layer, [head], kind)
        return inputs.q[:, slot], inputs.k[:, slot]

    def logits(self, position: int) -> Tensor:
        """The head's scores of all words or labels at `position`, or of all labels of the text."""
        return self.subject.scores(self, self.body, self.index(position))[0]

    def index(self, position: int) -> int:
        """A position counted from the start; a negative one counts from the end."""
        return resolve_position(position, len(self))


def resolve_position(position: int, length: int) -> int:
    if not isinstance(position, int) or not -length <= position < length:
        raise InputError(f"there are positions 0 to {length - 1}, got {position!r}")
    return position % length


def side_of(tokenizer: PreTrainedTokenizer, ids: list[int]) -> Side:
    special, marks = set(tokenizer.all_special_ids), {tokenizer.sep_token_id, tokenizer.eos_token_id} - {None}
    separators = [index > 0 and i in marks for index, i in enumerate(ids)]
    return Side(ids, readable_tokens(tokenizer, ids), [i in special for i in ids], separators)


def readable_tokens(tokenizer: PreTrainedTokenizer, ids: list[int]) -> list[str]:
    """Tokens as people can read them: bytes as their characters, or as numbers if they are not complete characters."""
    tokens = tokenizer.convert_ids_to_tokens(ids)
    if not hasattr(tokenizer, "convert_tokens_to_bytes"):
        return tokens
    return [decode_or_escape(tokenizer.convert_tokens_to_bytes([token])) or token for token in tokens]


def decode_or_escape(encoded: bytes) -> str:
    r"""UTF-8 as text; the bytes of an incomplete character as escapes.

    >>> decode_or_escape(" 北".encode()), decode_or_escape("北".encode()[:2])
    (' 北', '\\xe5\\x8c')
    """
    try:
        return encoded.decode()
    except UnicodeDecodeError:
        return "".join(f"\\x{byte:02x}" for byte in encoded)
