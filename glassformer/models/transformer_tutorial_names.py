"""What two tutorials call the weights and the arguments of their `Transformer`, both read and written.

They are known by the name that their attention gives its first layer: one has `W_q`, the other `W_Q`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from ..checkpoints.keymap import KeyMap, Row
from ..errors import ArgumentError, ConfigError, WeightsError, nearest

if TYPE_CHECKING:
    from .transformer_tutorial import Transformer

Function = TypeVar("Function", bound=Callable[..., Any])

POSITIONS = "pos_encoding.pe"  # computed, and saved all the same
WHOLE = {
    "src_embedding.weight": "encoder.embeddings.word_embeddings.weight",
    "tgt_embedding.weight": "decoder.embeddings.word_embeddings.weight",
    "fc_out.*": "fc_out.*",
}
NORMS_OF_ENCODER = {"norm1": "attention.LayerNorm", "norm2": "LayerNorm"}
NORMS_OF_DECODER = {"norm1": "attention.LayerNorm", "norm2": "crossattention.LayerNorm", "norm3": "LayerNorm"}
# The positional arguments after the number of heads.
ORDERS = (
    ("num_encoder_layers", "num_decoder_layers", "d_ff", "max_seq_len", "dropout"),
    ("n_layers", "d_ff", "dropout", "max_len"),
)
DEFAULT_LAYERS = 6  # of both tutorials, in the encoder and in the decoder


def tutorial_table(projections: Sequence[str], own: str, cross: str, widen: str, narrow: str) -> KeyMap:
    """The names of weights in one tutorial; `own` and `cross` are the attentions of its decoder."""

    def attention(theirs: str, ours: str) -> dict[str, str]:
        parts = ("self.query", "self.key", "self.value", "output.dense")
        return {f"{theirs}.{name}": f"{ours}.{part}" for name, part in zip(projections, parts, strict=True)}

    feed_forward = {widen: "intermediate.dense", narrow: "output.dense"}
    layers = {
        "encoder": attention("self_attn", "attention") | feed_forward | NORMS_OF_ENCODER,
        "decoder": attention(own, "attention") | attention(cross, "crossattention") | feed_forward | NORMS_OF_DECODER,
    }
    rows = [Row(theirs, ours) for theirs, ours in WHOLE.items()]
    for half, names in layers.items():
        rows += [Row(f"{half}_layers.{{i}}.{a}.*", f"{half}.layer.{{i}}.{b}.*") for a, b in names.items()]
    return KeyMap(
        prefix="",
        body=("src_embedding", "tgt_embedding", "pos_encoding", "encoder_layers", "decoder_layers", "fc_out"),
        rows=tuple(rows),
        leftovers=(r"pos_encoding\.pe",),
    )


TUTORIALS = {
    "W_q": tutorial_table(("W_q", "W_k", "W_v", "W_o"), "masked_self_attn", "enc_dec_attn", "ffn.fc1", "ffn.fc2"),
    "W_Q": tutorial_table(("W_Q", "W_K", "W_V", "W_O"), "self_attn", "cross_attn", "ff.0", "ff.3"),
}


def table_of(names: Mapping[str, Any]) -> KeyMap | None:
    """The tutorial that calls weights so; None for names that are ours."""
    for first, table in TUTORIALS.items():
        if any(name.startswith(("encoder_layers.", "decoder_layers.")) and f".{first}." in name for name in names):
            return table
    return None


def to_our_names(model: Transformer, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """A `state_dict` of a tutorial's model under our names; any other as it is."""
    table = table_of(state)
    if table is None:
        return state
    if POSITIONS in state:
        check_positions(model, state[POSITIONS])
    sources, twice = table.read(state, prefixed=False)
    if twice:
        raise WeightsError(f"these weights have the same meaning as others of the file: {', '.join(twice)}")
    return {ours: state[source.name] for ours, source in sources.items()}


def check_positions(model: Transformer, table: Tensor) -> None:
    """Refuse position vectors that are not those of the formula: the model computes its own."""
    own = model.pos_encoding
    if own is None:
        return
    length = min(table.shape[-2], own.pe.shape[-2])
    given, computed = table[..., :length, :].float().cpu(), own.pe[..., :length, :].float().cpu()
    if given.shape != computed.shape or not torch.allclose(given, computed, atol=torch.finfo(table.dtype).eps * 8):
        raise WeightsError(
            f"{POSITIONS} must hold the sines and cosines that the model computes, shape {list(own.pe.shape)}; "
            f"got {list(table.shape)} with other values"
        )


def to_tutorial_names(model: Transformer, attention: str) -> dict[str, Tensor]:
    """Our weights by the names of the tutorial whose attention calls its first layer so."""
    if attention not in TUTORIALS:
        hint = nearest(str(attention), TUTORIALS)
        raise ArgumentError(f"attention must be one of {', '.join(TUTORIALS)}; got {attention!r}{hint}")
    config, table = model.config, TUTORIALS[attention]
    if (config.hidden_act, config.layer_norm_eps) != ("relu", 1e-5):
        found = f"{config.hidden_act!r} and {config.layer_norm_eps}"
        raise ConfigError(
            f"the tutorials compute with hidden_act 'relu' and layer_norm_eps 1e-05, this model has {found}"
        )
    written = table.to_file(model.state_dict(), prefixed=False)
    unknown = [name for name in written if name.split(".", 1)[0] not in table.body]
    if unknown or "fc_out.bias" not in written:
        lacking = f"no place for {', '.join(unknown)}" if unknown else "a bias in fc_out, which this model has not"
        raise ConfigError(f"the tutorials' model has {lacking}")
    return written | {POSITIONS: model.pos_encoding.pe}


# -- arguments -----------------------------------------------------------------------------------------------------


def names_positional_arguments(constructor: Function) -> Function:
    """Decorate the constructor so that positional arguments after the number of heads get their names."""

    @functools.wraps(constructor)
    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        constructor(self, *args[:4], **kwargs, **name_sizes(args[4:]))

    return call  # type: ignore[return-value]


def name_sizes(values: Sequence[Any]) -> dict[str, Any]:
    """The names of positional arguments after the number of heads, where the two tutorials do not contradict.

    >>> name_sizes((2, 64, 0.1, 50))
    {'n_layers': 2, 'd_ff': 64, 'dropout': 0.1, 'max_len': 50}
    >>> name_sizes((2, 1, 64, 50, 0.1))
    {'num_encoder_layers': 2, 'num_decoder_layers': 1, 'd_ff': 64, 'max_seq_len': 50, 'dropout': 0.1}
    """
    if not values:
        return {}
    if tuple(values) == (DEFAULT_LAYERS,):
        return {"n_layers": DEFAULT_LAYERS}
    fitting = [
        dict(zip(order, values, strict=False))
        for order in ORDERS
        if len(values) <= len(order) and all(map(is_possible, order, values))
    ]
    if len(fitting) != 1:
        either = " or ".join(", ".join(order[: len(values)]) for order in ORDERS)
        found = ", ".join(map(repr, values))
        raise ArgumentError(f"after n_heads the tutorials go on with {either}: give these by name, got {found}")
    return fitting[0]


def is_possible(name: str, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value < 1 if name == "dropout" else isinstance(value, int) and value >= 1
