"""GPT-2 (Radford et al. 2019): a stack of causal layers that normalise before each part.

Its files use other names, keep queries, keys and values in one tensor and matrices transposed: the two tables say so.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

from torch import Tensor, nn

from ..checkpoints.config import PretrainedConfig, choice, flag, kept, number, whole
from ..checkpoints.keymap import KeyMap, Row
from ..errors import InputError
from ..nn import bare
from ..nn.activation import ACTIVATIONS
from ..nn.attention import SelfAttention, head_size, prune_attention
from ..nn.cache import Room, own_and_crossed
from ..nn.dropout import Dropout
from ..nn.feedforward import Intermediate, Project, in_chunks
from ..nn.mask import check_ids
from ..nn.layout import Layout
from .base import PreTrainedModel
from .body import Body, LayerStack
from .outputs import BaseModelOutputWithPastAndCrossAttentions

CONFIG = {
    "n_positions": "max_position_embeddings",
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "activation_function": "hidden_act",
    "resid_pdrop": "hidden_dropout_prob",
    "embd_pdrop": "embedding_dropout_prob",
    "attn_pdrop": "attention_probs_dropout_prob",
    "layer_norm_epsilon": "layer_norm_eps",
}

LAYER = "encoder.layer.{i}."
WEIGHTS = KeyMap(
    prefix="transformer.",
    body=("wte", "wpe", "h", "ln_f"),
    rows=(
        Row("wte.*", "embeddings.word_embeddings.*"),
        Row("wpe.*", "embeddings.position_embeddings.*"),
        Row("h.{i}.ln_1.*", LAYER + "attention.LayerNorm.*"),
        Row(
            "h.{i}.attn.c_attn.*",
            tuple(LAYER + f"attention.self.{part}.*" for part in ("query", "key", "value")),
            transpose=True,
        ),
        Row("h.{i}.attn.c_proj.*", LAYER + "attention.output.dense.*", transpose=True),
        Row("h.{i}.ln_cross_attn.*", LAYER + "crossattention.LayerNorm.*"),
        Row("h.{i}.crossattention.q_attn.*", LAYER + "crossattention.self.query.*", transpose=True),
        Row(
            "h.{i}.crossattention.c_attn.*",
            tuple(LAYER + f"crossattention.self.{part}.*" for part in ("key", "value")),
            transpose=True,
        ),
        Row("h.{i}.crossattention.c_proj.*", LAYER + "crossattention.output.dense.*", transpose=True),
        Row("h.{i}.ln_2.*", LAYER + "intermediate.LayerNorm.*"),
        Row("h.{i}.mlp.c_fc.*", LAYER + "intermediate.dense.*", transpose=True),
        Row("h.{i}.mlp.c_proj.*", LAYER + "output.dense.*", transpose=True),
        Row("ln_f.*", "encoder.LayerNorm.*"),
    ),
    optional=(r"encoder\.layer\.\d+\.crossattention",),
    leftovers=(r"h\.\d+\.(attn|crossattention)\.(bias|masked_bias)",),
)


@dataclass(repr=False, eq=False)
class GPT2Config(PretrainedConfig):
    """The shape of a GPT-2; the defaults are the smallest published one. `n_embd` and its like answer too."""

    model_type = "gpt2"
    FILE_NAMES = CONFIG

    vocab_size: int = whole(50257)
    max_position_embeddings: int = whole(1024)
    hidden_size: int = whole(768)
    num_hidden_layers: int = whole(12, high=10_000)
    num_attention_heads: int = whole(12)
    intermediate_size: int | None = whole(None, optional=True)  # None: four times hidden_size
    hidden_act: str = choice("gelu_new", ACTIVATIONS)
    hidden_dropout_prob: float = number(0.1, 0, 1)
    embedding_dropout_prob: float = number(0.1, 0, 1)
    attention_probs_dropout_prob: float = number(0.1, 0, 1)
    layer_norm_eps: float = number(1e-5, 0, 1)
    initializer_range: float = number(0.02, 0, 1e6)
    _: KW_ONLY
    scale_attn_weights: bool = flag(True)
    scale_attn_by_inverse_layer_idx: bool = flag(False)
    reorder_and_upcast_attn: bool = flag(False)
    use_cache: bool = flag(True)
    is_decoder: bool = flag(True)
    bos_token_id: int | None = whole(50256, low=0, optional=True)
    eos_token_id: int | list[int] | None = kept(50256, (int, list))

    def validate(self) -> None:
        head_size(self.hidden_size, self.num_attention_heads)

    def attention_scale(self, layer: int) -> float | None:
        """What scores are multiplied with in one layer; None is 1 / sqrt(head size)."""
        if self.scale_attn_weights and not self.scale_attn_by_inverse_layer_idx:
            return None
        scale = head_size(self.hidden_size, self.num_attention_heads) ** -0.5 if self.scale_attn_weights else 1.0
        return scale / (layer + 1) if self.scale_attn_by_inverse_layer_idx else scale


class GPT2PreTrainedModel(PreTrainedModel):
    """What every GPT-2 has: its configuration, its table of weights and how weights are drawn."""

    config_class = GPT2Config
    base_model_prefix = "transformer"
    keymap = WEIGHTS

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data.normal_(0.0, self.config.initializer_range)
        if isinstance(module, (nn.Linear, nn.LayerNorm)) and module.bias is not None:
            module.bias.data.zero_()
        if isinstance(module, nn.LayerNorm):
            module.weight.data.fill_(1.0)
        if isinstance(module, Project):  # what is added to the residual is smaller the more layers add to it
            deviation = self.config.initializer_range / math.sqrt(2 * self.config.num_hidden_layers)
            module.dense.weight.data.normal_(0.0, deviation)


class GPT2Model(GPT2PreTrainedModel, Body):
    """Tokens in, vectors that know what came before out."""

    def __init__(self, config: GPT2Config):
        super().__init__(config)
        self.is_decoder = True
        self.embeddings = GPT2Embeddings(self.config)
        self.encoder = GPT2Encoder(self.config)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        past_key_values: tuple | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        head_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> BaseModelOutputWithPastAndCrossAttentions | tuple:
        """Run the model on a padded batch B T; padded positions come back as zeros. Arguments as in `BertModel`;
        `token_type_ids` are looked up among the word vectors."""
        body = self.run(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids,
            head_mask,
            inputs_embeds,
            encoder_hidden_states,
            encoder_attention_mask,
            past_key_values,
            use_cache,
            output_attentions,
            output_hidden_states,
        )
        out = BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=body.last_hidden_state,
            past_key_values=body.past_key_values,
            hidden_states=body.hidden_states,
            attentions=body.attentions,
            cross_attentions=body.cross_attentions,
        )
        return out.given_as(self.config.return_dict if return_dict is None else return_dict)


class GPT2Embeddings(nn.Module):
    """Word and position vectors, added."""

    def __init__(self, config: GPT2Config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.dropout = Dropout(config.embedding_dropout_prob)

    def forward(
        self,
        input_ids: Tensor | None,
        token_type_ids: Tensor | None,
        position_ids: Tensor,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        words = self.word_embeddings
        if inputs_embeds is None:
            check_ids(input_ids, words.num_embeddings, "input_ids: id")
            inputs_embeds = words(input_ids)
        check_ids(position_ids, self.position_embeddings.num_embeddings, "position_ids: position")
        embedded = inputs_embeds + self.position_embeddings(position_ids)
        if token_type_ids is not None:
            check_ids(token_type_ids, words.num_embeddings, "token_type_ids: type")
            embedded = embedded + words(token_type_ids)
        return self.dropout(embedded)


class GPT2Encoder(LayerStack):
    """The stack of layers, and the normalisation after the last one."""

    def __init__(self, config: GPT2Config):
        super().__init__([GPT2Layer(config, i) for i in range(config.num_hidden_layers)])
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def finish(self, hidden_states: Tensor) -> Tensor:
        return self.LayerNorm(hidden_states)


class GPT2Layer(nn.Module):
    """Attention, then feed-forward; each normalises what it reads and adds to what runs through ("pre-norm")."""

    def __init__(self, config: GPT2Config, index: int):
        super().__init__()
        self.chunk_size_feed_forward = config.chunk_size_feed_forward
        self.attention = GPT2Attention(config, index)
        if config.add_cross_attention:
            self.crossattention = GPT2Attention(config, index)
        self.add_cross_attention = config.add_cross_attention
        self.intermediate = GPT2Intermediate(config)
        self.output = Project(wide(config), config.hidden_size, config.hidden_dropout_prob)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        head_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_value: tuple | None = None,
        output_attentions: bool = False,
        use_cache: bool = False,
        layout: Layout | None = None,
        source: Layout | None = None,
    ) -> tuple:
        """(hidden states, then self and cross weights if asked for, then the cache if `use_cache`)"""
        own, crossed = own_and_crossed(past_key_value)
        wanted: dict[str, Any] = {"output_attentions": output_attentions, "use_cache": use_cache, "layout": layout}
        attended, *seen = self.attention(hidden_states, attention_mask, head_mask, past_key_value=own, **wanted)
        hidden_states = hidden_states + attended
        cache = seen.pop() if use_cache else ()
        if encoder_hidden_states is not None:
            if not self.add_cross_attention:
                raise InputError("encoder_hidden_states need a model with add_cross_attention=True")
            attended, *cross_seen = self.crossattention(
                hidden_states,
                None,
                head_mask,
                encoder_hidden_states,
                encoder_attention_mask,
                past_key_value=crossed,
                source=source,
                **wanted,
            )
            hidden_states = hidden_states + attended
            cache += cross_seen.pop() if use_cache else ()
            seen += cross_seen
        on_stream = hidden_states.dim() == 2
        rows = self.chunk_size_feed_forward * (layout.batch if on_stream else 1)
        hidden_states = in_chunks(self.feed_forward_chunk, rows, hidden_states, dim=0 if on_stream else 1)
        return (hidden_states, *seen, cache) if use_cache else (hidden_states, *seen)

    def feed_forward_chunk(self, hidden_states: Tensor) -> Tensor:
        return hidden_states + self.output(self.intermediate(hidden_states))

    def bare(self, copies: bare.Copies = bare.NO_COPIES) -> bare.Step:
        """`forward` for one token of every continuation, without its modules."""
        attend, normalise = bare.attention(self.attention.self, copies), bare.norm(self.attention.LayerNorm)
        project, normalise_again = (
            bare.linear(self.attention.output.dense, copies),
            bare.norm(self.intermediate.LayerNorm),
        )
        widen, narrow = bare.linear(self.intermediate.dense, copies), bare.linear(self.output.dense, copies)
        activate = bare.activation(self.intermediate.intermediate_act_fn)

        def step(x: Tensor, room: Room, mask: Tensor | None, batch: int) -> Tensor:
            x = x + project(attend(normalise(x), room, mask, batch))
            return x + narrow(activate(widen(normalise_again(x))))

        return step


class GPT2Attention(nn.Module):
    """Normalise, attend, project; heads can be cut out of it."""

    def __init__(self, config: GPT2Config, index: int):
        super().__init__()
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.self = SelfAttention(
            config.hidden_size,
            config.num_attention_heads,
            config.attention_probs_dropout_prob,
            scale=config.attention_scale(index),
        )
        self.output = Project(config.hidden_size, config.hidden_size, config.hidden_dropout_prob)
        self.pruned_heads: set[int] = set()

    def prune_heads(self, heads: list[int] | set[int]) -> None:
        prune_attention(self, set(heads))

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        head_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_value: tuple | None = None,
        output_attentions: bool = False,
        use_cache: bool = False,
        layout: Layout | None = None,
        source: Layout | None = None,
    ) -> tuple:
        context, *seen = self.self(
            self.LayerNorm(hidden_states),
            attention_mask,
            head_mask,
            encoder_hidden_states,
            encoder_attention_mask,
            past_key_value,
            output_attentions,
            use_cache,
            layout,
            source,
        )
        return self.output(context), *seen


class GPT2Intermediate(Intermediate):
    """Normalise, widen and activate."""

    def __init__(self, config: GPT2Config):
        super().__init__(config.hidden_size, wide(config), config.hidden_act)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return super().forward(self.LayerNorm(hidden_states))


def wide(config: GPT2Config) -> int:
    return config.intermediate_size or 4 * config.hidden_size
