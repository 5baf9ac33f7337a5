"""XLNet (Yang et al. 2019): a stack that predicts words in any order of the tokens.

Scores depend on distances and segments, not on positions: nothing limits a text, and hidden states of an earlier part
(`mems`) can be read as its memory. For predictions there is a second stream, which knows where a word is and not which.
Its layers are in `xlnet_layers.py`, its heads in `xlnet_heads.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..checkpoints.config_fields import activation, boolean, choice, integer, number
from ..checkpoints.keymap import KeyMap, Row
from ..checkpoints.pretrained_config import PretrainedConfig
from ..errors import ConfigError, InputError
from ..nn.activation import ACTIVATIONS
from ..nn.attention import head_size
from ..nn.context import Context
from ..nn.dropout import Dropout
from ..nn.layer_inputs import check_flags
from ..nn.layout import Layout
from ..nn.mask import make_layout, mask_to_bias
from ..nn.tensor_inputs import as_dtype, as_index, check_mask, check_tensor
from .base.body import Body, pack_ids, recorded_by_layers
from .base.embeddings import Embeddings
from .base.memory import check_mems
from .base.outputs import BodyOutput, ModelOutput, XLNetModelOutput
from .base.pretrained_model import PreTrainedModel
from .base.sequence_summary import SUMMARY_TYPES
from .base.signature import OUTPUTS, takes
from .xlnet_layers import XLNetEncoder, XLNetSelfAttention

INPUTS = (
    *("input_ids", "attention_mask", "mems", "perm_mask", "target_mapping", "token_type_ids", "input_mask"),
    *("head_mask", "inputs_embeds"),
)

CONFIG = {
    "d_model": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "d_inner": "intermediate_size",
    "ff_activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
}

THEIRS, OURS = "layer.{i}.rel_attn.", "encoder.layer.{i}.attention."
WEIGHTS = KeyMap(
    prefix="transformer.",
    body=("word_embedding", "mask_emb", "layer"),
    rows=(
        Row("word_embedding.*", "embeddings.word_embeddings.*"),
        Row("mask_emb", "embeddings.mask_emb"),
        *(
            Row(THEIRS + theirs, f"{OURS}self.{ours}.weight", transpose=(1, 2, 0), merge=0, heads="num_attention_heads")
            for theirs, ours in {"q": "query", "k": "key", "v": "value", "r": "position_key"}.items()
        ),
        Row(THEIRS + "o", OURS + "output.dense.weight", merge=1, heads="num_attention_heads"),
        Row(THEIRS + "r_w_bias", OURS + "self.content_bias"),
        Row(THEIRS + "r_r_bias", OURS + "self.position_bias"),
        Row(THEIRS + "r_s_bias", OURS + "self.segment_bias"),
        Row(THEIRS + "seg_embed", OURS + "self.segment_vectors"),
        Row(THEIRS + "layer_norm.*", OURS + "output.LayerNorm.*"),
        Row("layer.{i}.ff.layer_1.*", "encoder.layer.{i}.intermediate.dense.*"),
        Row("layer.{i}.ff.layer_2.*", "encoder.layer.{i}.output.dense.*"),
        Row("layer.{i}.ff.layer_norm.*", "encoder.layer.{i}.output.LayerNorm.*"),
    ),
    old_names=((".gamma", ".weight"), (".beta", ".bias")),
)


@dataclass(repr=False, eq=False)
class XLNetConfig(PretrainedConfig):
    """The shape of an XLNet; the defaults are xlnet-large-cased. Names of files such as `d_model` work too."""

    model_type = "xlnet"
    FILE_NAMES = CONFIG
    summary_proj_to_labels = False
    summary_first_dropout = 0.0

    vocab_size: int = integer(32000)
    hidden_size: int = integer(1024)
    num_hidden_layers: int = integer(24, high=10_000)
    num_attention_heads: int = integer(16)
    intermediate_size: int = integer(4096)
    hidden_act: str | Callable = activation("gelu")
    attn_type: str = choice("bi", ("bi", "uni"))  # every token sees all others, or those before it
    initializer_range: float = number(0.02, 0, 1e6)
    layer_norm_eps: float = number(1e-12, 0, 1)
    hidden_dropout_prob: float = number(0.1, 0, 1)
    mem_len: int | None = integer(512, low=0, optional=True)  # how many tokens are remembered; None, 0: all
    reuse_len: int | None = integer(None, low=0, optional=True)  # how many of a call's tokens are; None, 0: all
    use_mems_eval: bool = boolean(True)
    use_mems_train: bool = boolean(False)
    bi_data: bool = boolean(False)
    clamp_len: int = integer(-1, low=-1)  # the distance from which on all are alike; -1, 0: none
    same_length: bool = boolean(False)  # of "uni": every token sees equally many
    summary_type: str = choice("last", SUMMARY_TYPES)
    summary_use_proj: bool = boolean(True)
    summary_activation: str | None = choice("tanh", (None, *ACTIVATIONS))
    summary_last_dropout: float = number(0.1, 0, 1)
    start_n_top: int = integer(5)
    end_n_top: int = integer(5)
    _: KW_ONLY
    d_head: int | None = integer(None, optional=True)
    pad_token_id: int | None = integer(5, low=0, optional=True)
    bos_token_id: int | None = integer(1, low=0, optional=True)
    eos_token_id: int | list[int] | None = integer(2, low=0, optional=True)

    def validate(self) -> None:
        size = head_size(self.hidden_size, self.num_attention_heads)
        if self.d_head not in (None, size):
            raise ConfigError(f"d_head must be d_model / n_head, {size}, got {self.d_head}")
        if self.bi_data:
            raise ConfigError("bi_data=True: batches whose second half is read backwards are not computed")
        if self.hidden_size % 2:
            raise ConfigError(f"d_model must be even, got {self.hidden_size}")
        for name in ("is_decoder", "add_cross_attention"):
            if getattr(self, name):
                raise ConfigError(f"{name}=True: an XLNet has no cross-attention; attn_type='uni' makes it causal")

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in super().to_dict().items() if name != "d_head" or value is not None}


class XLNetPreTrainedModel(PreTrainedModel):
    """What every XLNet has: its configuration and its table of weights."""

    config_class = XLNetConfig
    base_model_prefix = "transformer"
    keymap = WEIGHTS

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, XLNetSelfAttention | XLNetEmbeddings):
            for parameter in module.parameters(recurse=False):
                parameter.data.normal_(0.0, self.config.initializer_range)


class XLNetModel(XLNetPreTrainedModel, Body):
    """Tokens in, contextual vectors out.

    >>> model = XLNetModel(XLNetConfig(d_model=24, n_layer=2, n_head=2, d_inner=48, vocab_size=50)).eval()
    >>> out = model(torch.tensor([[7, 9, 4, 3]]))
    >>> out.last_hidden_state.shape, len(out.mems), out.mems[0].shape
    (torch.Size([1, 4, 24]), 2, torch.Size([4, 1, 24]))
    """

    is_decoder = False
    extra_inputs = ("mems", "perm_mask", "target_mapping", "input_mask", "use_mems")
    max_length = None  # type: ignore[assignment]

    def __init__(self, config: XLNetConfig):
        super().__init__(config)
        self.embeddings = XLNetEmbeddings(self.config)
        self.encoder = XLNetEncoder(self.config)
        self.post_init()

    @takes(*INPUTS, "use_mems", *OUTPUTS)
    def forward(self, inputs: dict[str, Any], return_dict: bool | None = None) -> ModelOutput | tuple:
        """Run the model on a padded batch B T; padded positions come back as zeros.

        `mems` (one tensor S B C for each layer) are those that an earlier call returned. `perm_mask` (B T T) is 1 where
        a token must not see another; `target_mapping` (B P T) is 1 at the token that a prediction is for, and the
        output then holds predictions, B P C. `input_mask` is 1 - `attention_mask`.

        Unless `use_mems` says otherwise, `mems` are returned as the config wants it and where no sequence is padded:
        they would remember padding too. With `use_mems=True` they do, and it is computed.
        """
        return self.as_output(XLNetModelOutput, self.encode(**inputs), return_dict)

    def encode(  # type: ignore[override]
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        mems: Sequence[Tensor] | None = None,
        perm_mask: Tensor | None = None,
        target_mapping: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        input_mask: Tensor | None = None,
        head_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        use_mems: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        keep_padding: bool = False,
        use_cache: bool | None = None,
    ) -> BodyOutput:
        """The pass from a padded batch to rows of the stream (or of predictions) and their layout.

        `use_cache` is another name of `use_mems`.
        """
        check_flags(use_mems=use_mems, use_cache=use_cache)
        use_mems = use_cache if use_mems is None else use_mems
        inputs = self.check_inputs(input_ids, inputs_embeds)
        batch, length = inputs.shape[:2]
        if input_mask is not None:
            if attention_mask is not None:
                raise InputError("give either attention_mask or input_mask, not both")
            check_mask(input_mask, batch, length, name="input_mask")
            attention_mask = 1 - input_mask.long()
        past = self.check_mems(mems, batch)
        head_mask = self.head_masks(head_mask)
        per_position = head_mask is not None and max(head_mask.shape[-2:]) > 1
        layout, target_mask = self.make_layouts(
            batch,
            length,
            attention_mask,
            perm_mask,
            past,
            two_streams=target_mapping is not None,
            keep_padding=bool(keep_padding or use_mems or past or per_position),
        )
        if input_ids is None:
            inputs = as_dtype(inputs, self.stream_dtype, "inputs_embeds")
        ids = None if input_ids is None else layout.pack(as_index(input_ids))
        types = pack_ids(token_type_ids, layout, "token_type_ids", inputs.device)
        columns = layout.columns(inputs.device)
        self.embeddings.check(ids, types, columns, layout, self.ids_name)
        x = self.embeddings(ids, None, columns, None if inputs_embeds is None else layout.pack(inputs))  # N C
        streams = self.encoder.make_streams(max(run.length for run in layout.runs), x, past)
        if types is not None:
            kinds, of_token = torch.cat((types, types.new_zeros(1))).unique(return_inverse=True)  # memory has type 0
            one_hot = nn.functional.one_hot(of_token, len(kinds)).to(x.dtype)
            streams.segments, streams.past_segments = one_hot[:-1], one_hot[-1]
        if target_mapping is not None:
            streams.targets = self.check_targets(target_mapping, batch, length).to(x.dtype)
            streams.target_layout = Layout.full(batch, length, mask=target_mask)
            x = torch.cat((x, self.embeddings.predictions(batch * streams.targets.shape[1])))  # N + BP C
        if use_mems is None:
            use_mems = self.config.use_mems_train if self.training else self.config.use_mems_eval
            use_mems = use_mems and layout.index is None
        wants_states = self.resolve_flag("output_hidden_states", output_hidden_states)
        context = Context(
            layout,
            cache=tuple(map(self.remember, self.layers, mems)) if past else None,
            extras=streams,
            head_mask=head_mask,
            output_attentions=self.resolve_flag("output_attentions", output_attentions),
            output_hidden_states=wants_states or use_mems,
        )
        rows = self.run_layers(x, context)
        states = context.hidden_states if wants_states else None
        out = BodyOutput(rows, layout, **recorded_by_layers(context))
        out.past_key_values = None
        if use_mems:
            out.past_key_values = tuple(self.memory(mems, i, context) for i in range(self.layer_count))
        if streams.targets is not None:
            out.rows = rows[layout.rows :]
            out.layout = Layout.full(batch, streams.targets.shape[1])
        if states is not None:
            out.hidden_states = tuple(
                each for state in states for each in self.unpack_streams(state, layout, out.layout)
            )
        return out

    def make_layouts(
        self,
        batch: int,
        length: int,
        attention_mask: Tensor | None,
        perm_mask: Tensor | None,
        past: int,
        two_streams: bool,
        keep_padding: bool,
    ) -> tuple[Layout, Tensor | None]:
        """The layout of the content, and the mask of predictions.

        A token sees itself, even if it is padding or `perm_mask` hides it; a prediction must not see its token.
        """
        device, causal = self.device, self.config.attn_type == "uni"
        settings = {"dtype": self.stream_dtype, "device": device, "causal": causal}
        keep_padding = keep_padding or two_streams or perm_mask is not None or (causal and self.config.same_length)
        layout = make_layout(batch, length, attention_mask, keep_padding=keep_padding, **settings)
        if not keep_padding and layout.mask is None:
            return layout, None
        hidden = torch.zeros(1, length, past + length, dtype=torch.bool, device=device)  # B T S
        if causal:
            every = torch.ones(length, past + length, dtype=torch.bool, device=device)
            hidden = hidden | every.triu(past + 1)
            if self.config.same_length:
                hidden = hidden | nn.functional.pad(every[:, :length].tril(-1), (0, past))
        for name, mask in (("attention_mask", attention_mask), ("perm_mask", perm_mask)):
            if mask is None:
                continue
            if name == "perm_mask":
                check_tensor(mask, name, device=device)
                if tuple(mask.shape) != (batch, length, length):
                    raise InputError(f"perm_mask must have the shape {[batch, length, length]}, got {list(mask.shape)}")
            unseen = mask > 0 if name == "perm_mask" else (mask == 0).view(batch, -1, length)
            hidden = hidden | nn.functional.pad(unseen, (past, 0))
        itself = torch.ones(length, length, dtype=torch.bool, device=device).logical_not().fill_diagonal_(True)
        itself = nn.functional.pad(itself, (past, 0))
        content, predictions = (mask_to_bias(~each, self.stream_dtype)[:, None] for each in (hidden & ~itself, hidden))
        return Layout.full(batch, length, mask=content if bool(hidden.any()) else None), predictions

    def check_mems(self, mems: Sequence[Tensor] | None, batch: int) -> int:
        """How many tokens are remembered."""
        if mems is None or (isinstance(mems, list | tuple) and (not mems or mems[0] is None)):
            return 0
        device = self.embeddings.word_embeddings.weight.device
        return len(check_mems(mems, batch, self.layer_count, self.config.hidden_size, device)[0])

    def check_targets(self, target_mapping: Tensor, batch: int, length: int) -> Tensor:
        device = self.embeddings.word_embeddings.weight.device
        check_tensor(target_mapping, "target_mapping", device=device)
        shape = list(target_mapping.shape)
        if len(shape) != 3 or shape[0] != batch or shape[2] != length or not shape[1]:
            raise InputError(f"target_mapping must have the shape [{batch}, predictions, {length}], got {shape}")
        return target_mapping

    def remember(self, layer: nn.Module, mem: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (each B H S D) of what a layer remembers, S B C."""
        attention, rows = layer.attention.self, mem.transpose(0, 1).to(self.stream_dtype)  # B S C
        return attention.transpose_for_scores(attention.key(rows)), attention.transpose_for_scores(
            attention.value(rows)
        )

    def memory(self, mems: Sequence[Tensor] | None, layer: int, context: Context) -> Tensor:
        """What a layer remembers for the next call: S B C, without gradients."""
        layout = context.layout
        new = layout.unpack(context.hidden_states[layer][: layout.rows]).transpose(0, 1)  # T B C
        new = new[: self.config.reuse_len or None]
        if mems is not None and context.cache is not None:
            new = torch.cat((mems[layer], new))
        return new[-(self.config.mem_len or 0) :].detach()

    def unpack_streams(self, state: Tensor, content: Layout, predictions: Layout) -> list[Tensor]:
        """The hidden states of the content, B T C, and of the predictions if there are any, B P C."""
        parts = [content.unpack(state[: content.rows])]
        return parts if content is predictions else [*parts, predictions.unpack(state[content.rows :])]


class XLNetEmbeddings(Embeddings):
    """Word vectors, and the one vector with which every prediction begins."""

    def __init__(self, config: XLNetConfig):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.mask_emb = nn.Parameter(torch.zeros(1, 1, config.hidden_size))
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        return self.dropout(self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds)

    def predictions(self, count: int) -> Tensor:
        """N C"""
        return self.dropout(self.mask_emb[0].expand(count, -1))

    @property
    def type_count(self) -> int:
        """Segments are compared with each other: any number is one."""
        return 2**31
