"""Longformer (Beltagy et al. 2020): RoBERTa for long texts, whose tokens attend to a window around them.

A few global tokens, such as the first one or those of a question, attend to all tokens and are seen by all; they have
queries, keys and values of their own. The cost grows with the length of a text, not with its square.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..checkpoints.config_fields import activation, checked, integer, number
from ..checkpoints.pretrained_config import PretrainedConfig
from ..errors import ConfigError, InputError, shown
from ..nn.attention import head_size
from ..nn.context import Context
from ..nn.layout import Layout
from ..nn.tensor_inputs import check_tensor
from .base.body import Body
from .base.outputs import BodyOutput, LongformerBaseModelOutputWithPooling, ModelOutput
from .base.signature import OUTPUTS, takes
from .bert import BertPooler, BertPreTrainedModel
from .longformer_layers import GlobalTokens, LongformerEncoder
from .roberta import WEIGHTS as ROBERTA_WEIGHTS
from .roberta import RobertaEmbeddings

log = logging.getLogger("glassformer")

INPUTS = (
    "input_ids",
    "attention_mask",
    "global_attention_mask",
    "head_mask",
    "token_type_ids",
    "position_ids",
    "inputs_embeds",
)
WEIGHTS = replace(ROBERTA_WEIGHTS, prefix="longformer.")
# Which tokens are global unless the caller says so: from ids (None with inputs_embeds) and the mask, B T, to B T.
ChooseGlobalTokens = Callable[[Tensor | None, Tensor], Tensor | None]


def per_layer(default: int, is_allowed: Callable[[int], bool], what: str) -> Any:
    """A number for all layers, or a list with one for each."""

    def check(name: str, value: Any) -> int | list[int]:
        values = value if isinstance(value, list | tuple) else [value]
        if not values or not all(type(each) is int and is_allowed(each) for each in values):
            raise ConfigError(f"{name} must be {what}, or a list of them, one for each layer; got {shown(value)}")
        return list(values) if isinstance(value, tuple) else value

    return checked(default, check)


@dataclass(repr=False, eq=False)
class LongformerConfig(PretrainedConfig):
    """The shape of a Longformer. longformer-base-4096 has 4,098 positions and one token type.

    A token sees `attention_window` / 2 tokens on either side; with an `attention_dilation` of d, every d-th of so many
    more.
    """

    model_type = "longformer"
    position_embedding_type = "absolute"
    classifier_dropout = None  # hidden_dropout_prob

    attention_window: int | list[int] = per_layer(512, lambda n: n > 0 and n % 2 == 0, "an even number of tokens")
    sep_token_id: int | None = integer(2, low=0, optional=True)  # ends a question
    pad_token_id: int = integer(1, low=0)  # positions begin behind it
    bos_token_id: int | None = integer(0, low=0, optional=True)
    eos_token_id: int | None = integer(2, low=0, optional=True)
    vocab_size: int = integer(30522)
    hidden_size: int = integer(768)
    num_hidden_layers: int = integer(12, high=10_000)
    num_attention_heads: int = integer(12)
    intermediate_size: int = integer(3072)
    hidden_act: str | Callable = activation("gelu")
    hidden_dropout_prob: float = number(0.1, 0, 1)
    attention_probs_dropout_prob: float = number(0.1, 0, 1)
    max_position_embeddings: int = integer(512)
    type_vocab_size: int = integer(2)
    initializer_range: float = number(0.02, 0, 1e6)
    layer_norm_eps: float = number(1e-12, 0, 1)
    _: KW_ONLY
    attention_dilation: int | list[int] = per_layer(1, lambda n: n > 0, "a number from 1 on")

    def validate(self) -> None:
        head_size(self.hidden_size, self.num_attention_heads)
        for name in ("attention_window", "attention_dilation"):
            value = getattr(self, name)
            if isinstance(value, list) and len(value) != self.num_hidden_layers:
                raise ConfigError(f"{name} is a list of {len(value)}, for {self.num_hidden_layers} layers")
        for name in ("is_decoder", "add_cross_attention"):
            if getattr(self, name):
                raise ConfigError(f"{name}=True: a Longformer only encodes")

    def of_layer(self, name: str, layer: int) -> int:
        """The value of a field that may have another value in every layer."""
        value = getattr(self, name)
        return value[layer] if isinstance(value, list) else value


class LongformerPreTrainedModel(BertPreTrainedModel):
    """What every Longformer has: its configuration and its table of weights."""

    config_class = LongformerConfig
    base_model_prefix = "longformer"
    keymap = WEIGHTS


class LongformerModel(LongformerPreTrainedModel, Body):
    """Tokens in, contextual vectors out.

    >>> shape = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 50}
    >>> model = LongformerModel(LongformerConfig(**shape, attention_window=4))
    >>> ids, first = torch.arange(3, 23)[None], torch.zeros(1, 20).long().index_fill(1, torch.tensor([0]), 1)
    >>> model(ids, global_attention_mask=first).last_hidden_state.shape
    torch.Size([1, 20, 24])
    """

    extra_inputs = ("global_attention_mask",)
    embeddings: RobertaEmbeddings

    def __init__(
        self, config: LongformerConfig, add_pooling_layer: bool = True, global_tokens: ChooseGlobalTokens | None = None
    ):
        """`global_tokens` chooses the tokens that are global if a call has no `global_attention_mask`; None: none."""
        super().__init__(config)
        self.is_decoder = False
        self.embeddings = RobertaEmbeddings(self.config)
        self.encoder = LongformerEncoder(self.config)
        self.pooler = BertPooler(self.config) if add_pooling_layer else None
        self.global_tokens = global_tokens
        self.post_init()

    @property
    def max_length(self) -> int:
        return self.config.max_position_embeddings - self.embeddings.first_position

    def positions(self, places: Tensor, layout: Layout, input_ids: Tensor | None = None, past: int = 0) -> Tensor:
        if input_ids is None:
            return places + self.embeddings.first_position
        return layout.pack(self.embeddings.positions_of(input_ids, past))

    def pool(self, rows: Tensor, layout: Layout) -> Tensor | None:
        return None if self.pooler is None else self.pooler(rows, layout)

    @takes(*INPUTS, *OUTPUTS)
    def forward(self, inputs: dict[str, Any], return_dict: bool | None = None) -> ModelOutput | tuple:
        """Run the model on a padded batch B T; padded positions come back as zeros. Arguments as in `BertModel`.

        `global_attention_mask` (B T) is 1 for tokens that see all and are seen by all. Of the output, `attentions` are
        B H T G+W+1: to the global tokens of a text, then to those of the window; `global_attentions` (B H T G) are
        those of the global tokens to all. No text is padded to a multiple of the window.
        """
        return self.as_output(LongformerBaseModelOutputWithPooling, self.encode(**inputs), return_dict)

    def encode(  # type: ignore[override]
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **inputs: Any
    ) -> BodyOutput:
        if inputs.get("global_attention_mask") is None and self.global_tokens is not None:
            given = self.check_inputs(input_ids, inputs.get("inputs_embeds"))
            mask = torch.ones(given.shape[:2], device=given.device) if attention_mask is None else attention_mask
            check_tensor(mask, "attention_mask", device=given.device)
            if mask.shape == given.shape[:2]:
                inputs["global_attention_mask"] = self.global_tokens(input_ids, mask)
        return super().encode(input_ids, attention_mask, **inputs)

    def pack_extras(self, extras: dict[str, Any], layout: Layout) -> GlobalTokens | None:
        mask = extras.get("global_attention_mask")
        if mask is None:
            return None
        check_tensor(mask, "global_attention_mask", device=self.device)
        if tuple(mask.shape) != (layout.batch, layout.length):
            shape = [layout.batch, layout.length]
            raise InputError(f"global_attention_mask must have the shape {shape}, got {list(mask.shape)}")
        if bool(((mask != 0) & (mask != 1)).any()):
            raise InputError("global_attention_mask takes 1 (sees all) and 0 (sees its window)")
        return GlobalTokens.of(layout, layout.pack(mask != 0))

    def as_body_output(self, rows: Tensor, context: Context) -> BodyOutput:
        out = super().as_body_output(rows, context)
        if context.output_attentions and context.extras is not None:
            out.global_attentions = tuple(context.extras.weights[i] for i in range(self.layer_count))
        return out


def first_token(ids: Tensor | None, mask: Tensor) -> Tensor:
    """The first token of every text, by which it is classified."""
    columns = torch.arange(mask.shape[1], device=mask.device)
    return (columns == mask.bool().int().argmax(1, keepdim=True)).long()


class BesideSeparator:
    """The tokens before the first separator of a text, or those behind the second: a question, or an answer."""

    def __init__(self, separator: int | None, before: bool):
        self.separator, self.before = separator, before

    def __call__(self, ids: Tensor | None, mask: Tensor) -> Tensor | None:
        if ids is None or self.separator is None:
            log.warning("without input_ids and config.sep_token_id no token is global: give a global_attention_mask")
            return None
        found = ids == self.separator
        missing = (~found.any(1)).nonzero()
        if len(missing):
            raise InputError(
                f"text {int(missing[0])} has no separator (token {self.separator}) that ends the question: encode "
                "question and text as a pair, or give a global_attention_mask"
            )
        columns, end = torch.arange(ids.shape[1], device=ids.device), found.int().argmax(1, keepdim=True)
        return ((columns < end) if self.before else (columns > end + 1)).long()
