"""One text as a model read it: its tokens, and what happened inside, to be looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, nn

from ..errors import InputError
from ..models.outputs import BodyOutput
from ..text.tokenizer import PreTrainedTokenizer
from .addressing import SELF

if TYPE_CHECKING:
    from .subject import Subject


class Side(NamedTuple):
    """The tokens that look, or that are looked at."""

    ids: list[int]
    tokens: list[str]  # as they are shown
    special: list[bool]
    separators: list[bool]  # the first token aside


class Words(NamedTuple):
    """Tokens that a model reads, and where it looks their vectors up."""

    side: Side
    table: nn.Embedding
    tokenizer: PreTrainedTokenizer


class Part(NamedTuple):
    """One kind of attention: who looks at whom, in which layers."""

    kind: str  # what a layer calls it
    left: Side
    right: Side
    layers: list[int]
    is_causal: bool  # nobody sees what comes after
    has_vectors: bool = True  # its weights come from queries and keys, which the neuron view shows


@dataclass
class Reading:
    """One text as the model read it; the weights of a head are computed when somebody looks at them."""

    subject: Subject
    text: str
    pair: str | None
    side: Side
    segments: list[int]
    looks: dict[tuple[str, int], Any] = field(default_factory=dict)  # by kind of attention and layer
    hidden: list[Tensor] = field(default_factory=list)  # T C each: before the first layer, behind every layer
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
        """The kinds of attention that there are to see."""
        layers = list(range(len(self.subject.heads)))
        return {"all": Part(SELF, self.side, self.side, layers, self.subject.is_decoder)}

    @property
    def words(self) -> list[Words]:
        """All tokens that the model reads."""
        return [Words(self.side, self.subject.model.get_input_embeddings(), self.subject.tokenizer)]

    def look(self, layer: int, kind: str = SELF) -> Any:
        """What an attention computed with (AttentionInputs), or what stands for it."""
        if (kind, layer) not in self.looks:
            there = sorted(number for of, number in self.looks if of == kind)
            raise InputError(f"there are layers {there[0]} to {there[-1]}, got {layer!r}")
        return self.looks[kind, layer]

    def weights(self, layer: int, heads: Any = True, kind: str = SELF) -> Tensor:
        """H T S, of the heads that are asked for, numbered as in the unpruned model."""
        look = self.look(layer, kind)
        return look.weights(self.subject.slots(layer, heads, kind))[0]

    def vectors(self, layer: int, head: int, kind: str = SELF) -> tuple[Tensor, Tensor]:
        """The queries (T D) and keys (S D) of one head."""
        look = self.look(layer, kind)
        (slot,) = self.subject.slots(layer, [head], kind)
        return look.q[:, slot], look.k[:, slot]

    def logits(self, position: int) -> Tensor:
        """What the head says where `position` is, or of the text: the scores of all words or labels."""
        return self.subject.scores(self, self.body, self.place(position))[0]

    def place(self, position: int) -> int:
        if not isinstance(position, int) or not -len(self) <= position < len(self):
            raise InputError(f"there are positions 0 to {len(self) - 1}, got {position!r}")
        return position % len(self)


def side_of(tokenizer: PreTrainedTokenizer, ids: list[int]) -> Side:
    special, marks = set(tokenizer.all_special_ids), {tokenizer.sep_token_id, tokenizer.eos_token_id} - {None}
    separators = [place > 0 and i in marks for place, i in enumerate(ids)]
    return Side(ids, spelt(tokenizer, ids), [i in special for i in ids], separators)


def spelt(tokenizer: PreTrainedTokenizer, ids: list[int]) -> list[str]:
    """Tokens as people can read them: bytes as the characters they spell, or as numbers if they spell no whole ones."""
    tokens = tokenizer.convert_ids_to_tokens(ids)
    if not hasattr(tokenizer, "convert_tokens_to_bytes"):
        return tokens
    return [written(tokenizer.convert_tokens_to_bytes([token])) or token for token in tokens]


def written(spelt_by: bytes) -> str:
    r"""Text, or the bytes of half a character, which no letter should stand for.

    >>> written(" 北".encode()), written("北".encode()[:2])
    (' 北', '\\xe5\\x8c')
    """
    try:
        return spelt_by.decode()
    except UnicodeDecodeError:
        return "".join(f"\\x{byte:02x}" for byte in spelt_by)
