"""BigBird (Zaheer et al. 2020): BERT for long texts, in blocks of tokens.

A token sees its block and its neighbours, the first block and the last, and blocks that are drawn at random; the first
and the last see all. A short text is read with full attention: each by itself, whatever was read before and beside it.

In training, blocks are drawn as the original library draws them, from the number of the layer. In evaluation that
library draws none, and reads the first block once more for every block that it would have drawn; so do the published
figures of its checkpoints, and so does this file.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..checkpoints.config_fields import activation, boolean, choice, integer, number
from ..checkpoints.pretrained_config import PretrainedConfig
from ..errors import ConfigError
from ..nn.attention import SelfAttention, head_size, prune_attention
from ..nn.attention_patterns import Blocks
from ..nn.context import Context, ContextModule
from ..nn.feedforward import in_chunks
from ..nn.layout import Layout
from .base.body import Body, LayerStack
from .base.outputs import BaseModelOutputWithPoolingAndCrossAttentions, ModelOutput
from .base.signature import CACHE, OUTPUTS, SOURCE, TEXT, takes
from .bert import WEIGHTS as BERT_WEIGHTS
from .bert import BertEmbeddings, BertPreTrainedModel
from .bert_layers import BertIntermediate, BertOutput, BertSelfOutput

log = logging.getLogger("glassformer")

FULL, SPARSE = "original_full", "block_sparse"
LENGTHS_OF_THE_PAPER = (1024, 3072, 4096)  # whose blocks are drawn among the first 1,024 tokens
WEIGHTS = replace(BERT_WEIGHTS, leftovers=(*BERT_WEIGHTS.leftovers, r"embeddings\.position_ids"))


@dataclass(repr=False, eq=False)
class BigBirdConfig(PretrainedConfig):
    """The shape of a BigBird; the defaults are bigbird-roberta-base."""

    model_type = "big_bird"
    position_embedding_type = "absolute"

    vocab_size: int = integer(50358)
    hidden_size: int = integer(768)
    num_hidden_layers: int = integer(12, high=10_000)
    num_attention_heads: int = integer(12)
    intermediate_size: int = integer(3072)
    hidden_act: str | Callable = activation("gelu_new")
    hidden_dropout_prob: float = number(0.1, 0, 1)
    attention_probs_dropout_prob: float = number(0.1, 0, 1)
    max_position_embeddings: int = integer(4096)
    type_vocab_size: int = integer(2)
    initializer_range: float = number(0.02, 0, 1e6)
    layer_norm_eps: float = number(1e-12, 0, 1)
    use_cache: bool = boolean(True)
    pad_token_id: int | None = integer(0, low=0, optional=True)
    bos_token_id: int | None = integer(1, low=0, optional=True)
    eos_token_id: int | None = integer(2, low=0, optional=True)
    sep_token_id: int | None = integer(66, low=0, optional=True)  # ends a question
    attention_type: str = choice(SPARSE, (FULL, SPARSE))
    use_bias: bool = boolean(True)  # of queries, keys and values
    rescale_embeddings: bool = boolean(False)
    block_size: int = integer(64)
    num_random_blocks: int = integer(3, low=0)
    classifier_dropout: float | None = number(None, 0, 1, optional=True)
    _: KW_ONLY

    def validate(self) -> None:
        head_size(self.hidden_size, self.num_attention_heads)
        if self.add_cross_attention and not self.is_decoder:
            raise ConfigError("add_cross_attention=True is for decoders: set is_decoder=True too")

    @property
    def dense_up_to(self) -> int:
        """The tokens of a text that are too few for blocks."""
        return (5 + 2 * self.num_random_blocks) * self.block_size


class BigBirdPreTrainedModel(BertPreTrainedModel):
    """What every BigBird has: its configuration and its table of weights."""

    config_class = BigBirdConfig
    base_model_prefix = "bert"  # as in its files
    keymap = WEIGHTS


class BigBirdModel(BigBirdPreTrainedModel, Body):
    """Tokens in, contextual vectors out.

    >>> shape = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 50}
    >>> model = BigBirdModel(BigBirdConfig(**shape, block_size=2, num_random_blocks=1))
    >>> model(torch.arange(2, 22)[None]).last_hidden_state.shape
    torch.Size([1, 20, 24])
    """

    has_reported_short_texts = False

    def __init__(self, config: BigBirdConfig, add_pooling_layer: bool = True):
        super().__init__(config)
        self.is_decoder = self.config.is_decoder
        self.embeddings = BigBirdEmbeddings(self.config)
        self.encoder = BigBirdEncoder(self.config)
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size) if add_pooling_layer else None
        self.post_init()

    def set_attention_type(self, value: str) -> None:
        """Read texts with full attention ("original_full"), or in blocks ("block_sparse")."""
        self.config.record_change(attention_type=value)
        for layer in self.encoder.layer:
            layer.attention.self.attention_type = value

    def pool(self, rows: Tensor, layout: Layout) -> Tensor | None:
        return None if self.pooler is None else self.pooler(layout.first(rows)).tanh()

    def run_layers(self, x: Tensor, context: Context) -> Tensor:
        config, shortest = self.config, min(run.length for run in context.layout.runs)
        is_full = self.is_decoder or shortest <= config.dense_up_to
        if config.attention_type == SPARSE and is_full and not self.has_reported_short_texts:
            self.has_reported_short_texts = True
            which = "all texts of a decoder" if self.is_decoder else f"texts of up to {config.dense_up_to} tokens"
            log.warning("%s are read with full attention; attention_type=%r is for others", which, SPARSE)
        return super().run_layers(x, context)

    @takes(*TEXT, *SOURCE, *CACHE, *OUTPUTS)
    def forward(self, inputs: dict[str, Any], return_dict: bool | None = None) -> ModelOutput | tuple:
        """Run the model on a padded batch B T; padded positions come back as zeros. Arguments as in `BertModel`.

        Blocks are counted in each text alone; no text is padded to a multiple of them.
        """
        return self.as_output(BaseModelOutputWithPoolingAndCrossAttentions, self.encode(**inputs), return_dict)


class BigBirdEmbeddings(BertEmbeddings):
    """BERT's, with dropout before the normalisation."""

    def __init__(self, config: BigBirdConfig):
        super().__init__(config)
        self.factor = config.hidden_size**0.5 if config.rescale_embeddings else 1.0

    def forward(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        """B T -> B T C, or N -> N C with the `position_ids` of every row."""
        x = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        types = self.token_type_embeddings
        x = x * self.factor + (types.weight[0] if token_type_ids is None else types(token_type_ids))
        return self.LayerNorm(self.dropout(x + self.position_embeddings(position_ids)))


class BigBirdEncoder(LayerStack):
    """The stack of layers."""

    def __init__(self, config: BigBirdConfig):
        super().__init__([BigBirdLayer(config, number) for number in range(config.num_hidden_layers)])


class BigBirdLayer(ContextModule):
    """Attention, then feed-forward; each is added to what it read and normalised ("post-norm")."""

    def __init__(self, config: BigBirdConfig, number: int):
        super().__init__()
        self.chunk_size_feed_forward = config.chunk_size_feed_forward
        self.attention = BigBirdAttention(config, number)
        if config.add_cross_attention:
            self.crossattention = BigBirdAttention(config, number)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        x = self.attention(x, context)
        if context.cross is not None:
            x = self.crossattention(x, context.cross)
        if self.chunk_size_feed_forward:
            return in_chunks(self.feed_forward_chunk, self.chunk_size_feed_forward, x, context.layout.batch)
        return self.feed_forward_chunk(x)

    def feed_forward_chunk(self, x: Tensor) -> Tensor:
        return self.output(self.intermediate(x), x)


class BigBirdAttention(ContextModule):
    """Attention with its output projection; heads can be cut out of it."""

    is_attention = True

    def __init__(self, config: BigBirdConfig, number: int):
        super().__init__()
        self.self = BigBirdSelfAttention(config, number)
        self.output = BertSelfOutput(config)
        self.pruned_heads: set[int] = set()

    def prune_heads(self, heads: Iterable[int]) -> None:
        prune_attention(self, set(heads))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.output(self.self(x, context), x)


class BigBirdSelfAttention(SelfAttention):
    """Attention to blocks; full attention in a decoder, to a source, and in short texts."""

    def __init__(self, config: BigBirdConfig, number: int):
        size, heads = config.hidden_size, config.num_attention_heads
        super().__init__(size, heads, config.attention_probs_dropout_prob, bias=config.use_bias)
        self.attention_type = config.attention_type
        self.is_decoder, self.dense_up_to = config.is_decoder, config.dense_up_to
        count, positions = config.num_random_blocks, config.max_position_embeddings
        self.random_blocks = RandomBlocks(config.block_size, heads, count, number, positions)

    def pattern(self, context: Context) -> Blocks | None:
        if self.attention_type == FULL or self.is_decoder or context.source is not None:
            return None
        heads, random = None if self.heads is None else tuple(self.heads), self.random_blocks
        random = random if self.training else replace(random, is_random=False)
        return Blocks(random.size, heads, random, self.dense_up_to, weight_dropout=False)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        y, mask, pattern = super().forward(x, context), context.layout.mask, self.pattern(context)
        if mask is None or mask.shape[-2] != 1 or pattern is None or pattern.sees_all(context.layout.length):
            return y
        seen = (mask[:, 0, 0] == 0).expand(context.layout.batch, context.layout.length)  # other positions see nothing
        return y * seen.reshape(*x.shape[:-1], 1)


@dataclass(frozen=True)
class RandomBlocks:
    """The blocks that the heads of a layer draw, or the first block in place of each of them."""

    size: int
    heads: int
    count: int  # for each block and head
    seed: int
    positions: int  # of the model
    is_random: bool = True

    def __call__(self, length: int) -> Tensor | None:
        return random_block_table(self, length)


@lru_cache(256)
def random_block_table(drawing: RandomBlocks, length: int) -> Tensor | None:
    """The numbers of the blocks that every head draws for every block of a text: heads blocks r."""
    blocks, r = math.ceil(length / drawing.size), drawing.count
    if not r:
        return None
    table = np.zeros((drawing.heads, blocks, r), dtype=np.int64)
    if drawing.is_random:
        random = np.random.RandomState(drawing.seed)
        draw = draw_near_the_start if blocks * drawing.size in LENGTHS_OF_THE_PAPER else draw_among_the_first
        draw(table, drawing, random)
    return torch.from_numpy(table)


def draw_near_the_start(table: np.ndarray, drawing: RandomBlocks, random: np.random.RandomState) -> None:
    """Blocks among the first 1,024 tokens, beside the window. Each head draws for all blocks of the longest text."""
    _, blocks, r = table.shape
    most = drawing.positions // drawing.size
    middle = np.arange(1, most - 1)
    last = 1024 // drawing.size - 1 if 2 * drawing.size < 1024 else most - 1
    for head in table:
        for block in range(1, most - 1):
            before = middle[: block - 2] if block - 2 <= last else middle[:last]
            if block <= 2:
                allowed = middle[block + 1 : last]
            elif block >= most - 3:
                allowed = middle[:last]
            elif block - 2 > last or block + 1 == last:
                allowed = before
            else:
                allowed = np.concatenate((before, middle[block + 1 : last]))
            chosen = random.permutation(allowed)[:r]
            if block < blocks - 1:
                head[block] = chosen


def draw_among_the_first(table: np.ndarray, drawing: RandomBlocks, random: np.random.RandomState) -> None:
    """Blocks among the first 2 r + 5, without the window, the first and the last of them."""
    heads, blocks, r = table.shape
    end = 2 * r + 5
    for block in range(1, blocks):
        hidden = {block - 1, block, block + 1, 0, end - 1}
        hidden |= {end - 2} if block == 1 else {1} if block == end - 2 else set()
        for head in range(heads):
            chosen = [each for each in random.permutation(end) if each not in hidden][:r]
            if block < blocks - 1:
                table[head, block] = chosen
