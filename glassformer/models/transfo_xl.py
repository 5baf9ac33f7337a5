"""Transformer-XL (Dai et al. 2019): a causal stack that remembers the hidden states of the text before.

Scores depend on distances, not on positions, so that nothing limits a text: it is read part by part, and each part sees
what the layers made of the one before (`mems`). Word vectors and softmax are adaptive: see nn/adaptive_softmax.py. The
layers are in `transfo_xl_layers.py`, the heads in `transfo_xl_heads.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from ..checkpoints.config_fields import boolean, checked, choice, integer, number, typed
from ..checkpoints.keymap import KeyMap, Row
from ..checkpoints.pretrained_config import PretrainedConfig
from ..errors import ConfigError, InputError, shown
from ..nn.adaptive_softmax import AdaptiveEmbedding, ProjectedAdaptiveLogSoftmax
from ..nn.cache import Cache
from ..nn.context import Context
from ..nn.dropout import Dropout
from ..nn.layer_inputs import check_flags
from ..nn.layout import Layout
from ..nn.quantize import refuse_quantized
from .base.body import Body
from .base.embeddings import Embeddings
from .base.memory import check_mems
from .base.outputs import BodyOutput, ModelOutput, TransfoXLModelOutput
from .base.pretrained_model import PreTrainedModel
from .base.signature import OUTPUTS, takes
from .transfo_xl_layers import Memory, TransfoXLEncoder, TransfoXLSelfAttention

INPUTS = ("input_ids", "mems", "head_mask", "inputs_embeds")
MORE = ("attention_mask", "use_mems", "mem_len")  # behind those of the original, which has none of them
CUTOFFS = (20_000, 40_000, 200_000)

CONFIG = {
    "d_model": "hidden_size",
    "d_embed": "embedding_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "d_inner": "intermediate_size",
    "dropout": "hidden_dropout_prob",
    "dropatt": "attention_probs_dropout_prob",
    "init_std": "initializer_range",
    "layer_norm_epsilon": "layer_norm_eps",
}

THEIRS, OURS = "layers.{i}.dec_attn.", "encoder.layer.{i}.attention."
BIASES = {"r_w_bias": "content_bias", "r_r_bias": "position_bias"}
ROWS = (
    Row("word_emb.emb_layers.{i}.weight", "embeddings.word_embeddings.emb_layers.{i}.weight"),
    Row("word_emb.emb_projs.{i}", "embeddings.word_embeddings.emb_projs.{i}"),
    Row(
        THEIRS + "qkv_net.weight",
        tuple(f"{OURS}self.{part}.weight" for part in ("query", "key", "value")),
    ),
    Row(THEIRS + "r_net.weight", OURS + "self.position_key.weight"),
    Row(THEIRS + "o_net.weight", OURS + "output.dense.weight"),
    Row(THEIRS + "layer_norm.*", OURS + "output.LayerNorm.*"),
    Row("layers.{i}.pos_ff.CoreNet.0.*", "encoder.layer.{i}.intermediate.dense.*"),
    Row("layers.{i}.pos_ff.CoreNet.3.*", "encoder.layer.{i}.output.dense.*"),
    Row("layers.{i}.pos_ff.layer_norm.*", "encoder.layer.{i}.output.LayerNorm.*"),
)


@cache
def weights_of(layers: int, untie_r: bool) -> KeyMap:
    """The table of weights; unless they are untied, files have the biases of distances once for all layers."""
    if untie_r:
        biases = tuple(Row(THEIRS + theirs, f"{OURS}self.{ours}") for theirs, ours in BIASES.items())
    else:
        biases = tuple(
            Row(
                theirs,
                f"encoder.layer.0.attention.self.{ours}",
                same_in_file=tuple(f"layers.{i}.dec_attn.{theirs}" for i in range(layers)),
                same_in_model=tuple(f"encoder.layer.{i}.attention.self.{ours}" for i in range(1, layers)),
                write_copies=True,
            )
            for theirs, ours in BIASES.items()
        )
    return KeyMap(
        prefix="transformer.",
        body=("word_emb", "layers", "pos_emb", "r_w_bias", "r_r_bias"),
        rows=(*ROWS, *biases),
        leftovers=(r"pos_emb\.inv_freq",),
    )


def check_cutoffs(name: str, value: Any) -> list[int] | None:
    """Rising numbers of words; None: those of the original that the vocabulary has."""
    if value is None:
        return None
    numbers = list(value) if isinstance(value, list | tuple) else None
    if numbers is None or any(isinstance(each, bool) or not isinstance(each, int) or each < 1 for each in numbers):
        raise ConfigError(f"{name} must be a list of numbers of words, got {shown(value)}")
    if sorted(set(numbers)) != numbers:
        raise ConfigError(f"{name} must rise, got {shown(value)}")
    return numbers


def check_tied(name: str, value: Any) -> list[bool] | None:
    if value is not None and not (isinstance(value, list | tuple) and all(isinstance(each, bool) for each in value)):
        raise ConfigError(f"{name} must be a list of true and false, got {shown(value)}")
    return None if value is None else list(value)


@dataclass(repr=False, eq=False)
class TransfoXLConfig(PretrainedConfig):
    """The shape of a Transformer-XL; the defaults are transfo-xl-wt103. Names of files such as `d_model` work too."""

    model_type = "transfo-xl"
    FILE_NAMES = CONFIG

    vocab_size: int = integer(267735)
    cutoffs: list[int] = checked(None, check_cutoffs)  # never None once the config is made
    hidden_size: int = integer(1024)
    embedding_size: int = integer(1024)  # of the most frequent words
    num_attention_heads: int = integer(16)
    d_head: int = integer(64)
    intermediate_size: int = integer(4096)
    div_val: int = integer(4)  # by which the vectors of each cluster of words are narrower
    pre_lnorm: bool = boolean(False)
    num_hidden_layers: int = integer(18, high=10_000)
    mem_len: int = integer(1600, low=0)  # how many tokens are remembered
    clamp_len: int = integer(1000, low=-1)  # the distance from which on all are alike; -1, 0: none
    same_length: bool = boolean(True)  # every token sees equally many, itself included: mem_len
    proj_share_all_but_first: bool = boolean(True)
    attn_type: int = integer(0, low=0)
    sample_softmax: int = integer(-1, low=-(2**31))
    adaptive: bool = boolean(True)
    hidden_dropout_prob: float = number(0.1, 0, 1)
    attention_probs_dropout_prob: float = number(0.0, 0, 1)
    untie_r: bool = boolean(True)  # whether each layer has biases of its own
    init: str = choice("normal", ("normal", "uniform"))
    init_range: float = number(0.01, 0, 1e6)
    proj_init_std: float = number(0.01, 0, 1e6)
    initializer_range: float = number(0.02, 0, 1e6)
    layer_norm_eps: float = number(1e-5, 0, 1)
    eos_token_id: int | list[int] | None = typed(0, (int, list))
    _: KW_ONLY
    tie_projs: list[bool] = checked(None, check_tied)  # which clusters share the projection of their word vectors

    def __post_init__(self) -> None:
        if self.cutoffs is None:
            self.cutoffs = [each for each in CUTOFFS if each < self.vocab_size]
        if self.tie_projs is None:
            self.tie_projs = [False, *[self.proj_share_all_but_first] * len(self.cutoffs)]
        super().__post_init__()

    def validate(self) -> None:
        if self.attn_type:
            raise ConfigError(
                f"attn_type must be 0, attention to distances as Transformer-XL has it; got {self.attn_type}"
            )
        if self.cutoffs and self.cutoffs[-1] >= self.vocab_size:
            raise ConfigError(f"cutoffs must be less than vocab_size {self.vocab_size}, got {self.cutoffs}")
        if len(self.tie_projs) != len(self.cutoffs) + 1:
            raise ConfigError(f"tie_projs must say it for {len(self.cutoffs) + 1} clusters, got {self.tie_projs}")
        if self.embedding_size // self.div_val ** len(self.cutoffs) < 1:
            raise ConfigError(
                f"d_embed {self.embedding_size} is too small for {len(self.cutoffs) + 1} clusters, each narrower by "
                f"div_val {self.div_val}"
            )
        if self.hidden_size % 2:
            raise ConfigError(f"d_model must be even, got {self.hidden_size}")
        if self.same_length and not self.mem_len:
            raise ConfigError("mem_len=0: with same_length=True a token would not see itself; set same_length=False")
        for name in ("is_decoder", "add_cross_attention"):
            if getattr(self, name):
                raise ConfigError(f"{name}=True: a Transformer-XL is causal by itself, and has no cross-attention")


class TransfoXLPreTrainedModel(PreTrainedModel):
    """What every Transformer-XL has: its configuration, its table of weights and how they are initialised."""

    config_class = TransfoXLConfig
    base_model_prefix = "transformer"

    @property
    def keymap(self) -> KeyMap:  # type: ignore[override]
        return weights_of(self.config.num_hidden_layers, self.config.untie_r)

    def tied_names(self) -> dict[str, str]:
        if self.config.untie_r:
            return {}
        prefix = "" if self.base_model is self else f"{self.base_model_prefix}."
        name = prefix + "encoder.layer.{}.attention.self.{}"
        layers = range(1, self.config.num_hidden_layers)
        return {name.format(i, bias): name.format(0, bias) for i in layers for bias in BIASES.values()}

    def _init_weights(self, module: nn.Module) -> None:
        config = self.config

        def fill(weight: Tensor) -> None:
            if config.init == "uniform":
                weight.data.uniform_(-config.init_range, config.init_range)
            else:
                weight.data.normal_(0.0, config.initializer_range)

        super()._init_weights(module)
        if isinstance(module, nn.Linear | nn.Embedding):
            fill(module.weight)
        elif isinstance(module, nn.LayerNorm):
            module.weight.data.normal_(1.0, config.initializer_range)
        elif isinstance(module, TransfoXLSelfAttention):
            fill(module.content_bias)
            fill(module.position_bias)
        elif isinstance(module, AdaptiveEmbedding | ProjectedAdaptiveLogSoftmax):
            is_input = isinstance(module, AdaptiveEmbedding)
            for projection in module.emb_projs if is_input else module.out_projs:
                projection.data.normal_(0.0, config.proj_init_std)
            if not is_input and module.cluster_count > 1:
                fill(module.cluster_weight)
                module.cluster_bias.data.zero_()

    def reset_memory_length(self, mem_len: int) -> None:
        """Remember so many tokens from now on; the config, and what is saved, stay as they are."""
        body = self.base_model
        body.mem_len = body.encoder.mem_len = integer_length(mem_len)

    def resize_token_embeddings(self, new_num_tokens: int | None = None, layer: int = -1) -> AdaptiveEmbedding:  # type: ignore[override]
        """Resize the vocabulary by resizing one cluster of words, by default that of the rarest."""
        embeddings: AdaptiveEmbedding = self.get_input_embeddings()  # type: ignore[assignment]
        tables = embeddings.emb_layers
        if new_num_tokens is None or new_num_tokens == embeddings.num_embeddings:
            return embeddings
        refuse_quantized(self, "resized")
        if not -1 <= layer < len(tables):
            raise InputError(f"layer must be a cluster of words, from 0 to {len(tables) - 1}, got {layer}")
        cluster = layer % len(tables)
        old = tables[cluster].weight.data
        size = new_num_tokens - embeddings.num_embeddings + len(old)
        least = 1 if len(tables) > 1 or not self.config.cutoffs else self.config.cutoffs[-1] + 1
        if size < least:
            rest = embeddings.num_embeddings - len(old)
            raise InputError(f"the vocabulary must have at least {rest + least} tokens, got {new_num_tokens}")
        new = embeddings.resize(cluster, size)
        self._init_weights(new)
        shared = min(size, len(old))
        new.weight.data[:shared] = old[:shared]
        bounds = embeddings.bounds[1:]
        self._resize_clusters(cluster, bounds)
        cutoffs = bounds[:-1] if len(tables) > 1 else self.config.cutoffs
        self.config.record_change(vocab_size=new_num_tokens, cutoffs=cutoffs)
        self.tie_weights()
        return embeddings

    def _resize_clusters(self, cluster: int, bounds: Sequence[int]) -> None:
        """Resize the softmax, in models that have one."""


def integer_length(mem_len: Any) -> int:
    """A number of tokens that are remembered."""
    if isinstance(mem_len, bool) or not isinstance(mem_len, int) or mem_len < 0:
        raise InputError(f"mem_len is the number of tokens that are remembered, at least 0; got {shown(mem_len)}")
    return mem_len


class TransfoXLModel(TransfoXLPreTrainedModel, Body):
    """Tokens in, causal contextual vectors out, with a memory of what was read before.

    >>> shape = {"d_model": 24, "d_embed": 24, "n_head": 2, "d_head": 12, "d_inner": 48, "n_layer": 2}
    >>> model = TransfoXLModel(TransfoXLConfig(vocab_size=50, **shape, mem_len=8)).eval()
    >>> first = model(torch.tensor([[7, 9, 4, 3]]))
    >>> first.last_hidden_state.shape, len(first.mems), first.mems[0].shape
    (torch.Size([1, 4, 24]), 2, torch.Size([8, 1, 24]))
    >>> second = model(torch.tensor([[5, 1]]), mems=first.mems)
    """

    extra_inputs = ("mems", "use_mems", "mem_len")
    max_length = None  # type: ignore[assignment]
    keeps_memory = True  # between calls: hidden states, not keys and values

    def __init__(self, config: TransfoXLConfig):
        super().__init__(config)
        self.is_decoder = True
        self.mem_len = config.mem_len
        self.embeddings = TransfoXLEmbeddings(self.config)
        self.encoder = TransfoXLEncoder(self.config)
        self.post_init()

    def init_mems(self, batch: int) -> list[Tensor] | None:
        """The memory of texts that nothing has been read of: zeros, S B C for each layer."""
        weight = self.embeddings.word_embeddings.weight
        if not self.mem_len:
            return None
        return [weight.new_zeros(self.mem_len, batch, self.config.hidden_size) for _ in range(self.layer_count)]

    @takes(*INPUTS, *OUTPUTS, *MORE)
    def forward(self, inputs: dict[str, Any], return_dict: bool | None = None) -> ModelOutput | tuple:
        """Run the model on a batch B T; padded positions come back as zeros.

        `mems` (one tensor S B C for each layer) are those that an earlier call returned; without them a text begins
        behind `mem_len` zeros, as in the original. The memory of a padded text is that of the text alone. `mem_len`
        replaces the config's in this call, and `use_mems=False` returns no memory.
        """
        return self.as_output(TransfoXLModelOutput, self.encode(**inputs), return_dict)

    def encode(  # type: ignore[override]
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        mems: Sequence[Tensor] | None = None,
        use_mems: bool | None = None,
        mem_len: int | None = None,
        use_cache: bool | None = None,
        past_key_values: Cache | None = None,
        **inputs: Any,
    ) -> BodyOutput:
        """The pass from a batch to rows of the stream and their layout; `use_cache` is another name of `use_mems`.

        The engine of generation gives a `Cache`, in which keys and values of the text stand for its memory.
        """
        check_flags(use_mems=use_mems, use_cache=use_cache)
        use_mems = use_cache if use_mems is None else use_mems
        if past_key_values is not None and not isinstance(past_key_values, Cache):
            raise InputError("a Transformer-XL remembers hidden states, not keys and values: give mems")
        extras = {"mems": mems, "mem_len": mem_len, "use_mems": use_mems is not False and past_key_values is None}
        return super().encode(
            input_ids, attention_mask, use_cache=False, past_key_values=past_key_values, **extras, **inputs
        )

    def pack_extras(self, extras: dict[str, Any], layout: Layout) -> Memory:
        size = self.mem_len if extras["mem_len"] is None else integer_length(extras["mem_len"])
        mems, device = extras["mems"], self.embeddings.word_embeddings.weight.device
        if mems is not None:
            mems = check_mems(mems, layout.batch, self.layer_count, self.config.hidden_size, device)
        return Memory(size, mems, keeps=extras["use_mems"] and size > 0)

    def run_layers(self, x: Tensor, context: Context) -> Tensor:
        memory = context.extras
        if memory is not None:
            memory.wants_states = context.output_hidden_states
            context.output_hidden_states = memory.wants_states or memory.keeps
        return super().run_layers(x, context)

    def as_body_output(self, rows: Tensor, context: Context) -> BodyOutput:
        memory, states, layout = context.extras, context.hidden_states, context.layout
        if not memory.wants_states:
            context.hidden_states = None
        out = super().as_body_output(rows, context)
        out.past_key_values = None
        if memory.keeps and states is not None:
            before = self.remembered_rows(memory, layout.batch, rows)
            kept = [remember(layout, state, past, memory.size) for state, past in zip(states, before, strict=False)]
            out.past_key_values = kept  # type: ignore[assignment]
        return out

    def remembered_rows(self, memory: Memory, batch: int, like: Tensor) -> Sequence[Tensor]:
        """What every layer read as memory: S B C."""
        if memory.mems is not None:
            return memory.mems
        return [like.new_zeros(memory.size, batch, self.config.hidden_size)] * self.layer_count


@torch.no_grad()
def remember(layout: Layout, rows: Tensor, past: Tensor, size: int) -> Tensor:
    """The last `size` rows of every text, those of its past included: S B C, without gradients.

    Where texts are padded, what a shorter one remembers more of its past is as much as it has fewer tokens.
    """
    new = layout.unpack(rows.detach()).transpose(0, 1)  # T B C
    both = torch.cat((past.to(new.dtype), new))
    count = min(size, len(both))
    if layout.index is None:
        return both[len(both) - count :]
    ends = torch.zeros(layout.batch, dtype=torch.long, device=rows.device)
    lengths = torch.zeros_like(ends)
    for run in layout.runs:
        members = list(run.members)
        ends[members], lengths[members] = run.column + run.length, run.length
    steps = torch.arange(count - 1, -1, -1, device=rows.device)[:, None]  # S 1: how far before the last token
    places = torch.where(steps < lengths, len(past) + ends - 1 - steps, len(past) + lengths - 1 - steps)  # S B
    kept = both.gather(0, places.clamp(min=0)[..., None].expand(-1, -1, both.shape[-1]))
    return kept.masked_fill((places < 0)[..., None], 0.0)


class TransfoXLEmbeddings(Embeddings):
    """Word vectors: adaptive, scaled, without positions."""

    def __init__(self, config: TransfoXLConfig):
        super().__init__()
        sizes = config.vocab_size, config.embedding_size, config.hidden_size
        self.word_embeddings = AdaptiveEmbedding(*sizes, config.cutoffs, config.div_val)  # type: ignore[assignment]
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        return self.dropout(self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds)
