"""ViT (Dosovitskiy et al. 2020): an encoder whose tokens are the patches of a picture.

A picture is cut into squares, each of which one linear layer turns into a vector; a [CLS] token comes first, and learnt
positions say where each square was. Every patch is a real token, so all pictures of a batch are equally long. Layers
normalise their inputs ("pre-norm").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..checkpoints.config_fields import activation, boolean, checked, integer, number
from ..checkpoints.keymap import KeyMap, Row
from ..checkpoints.pretrained_config import PretrainedConfig
from ..errors import ConfigError, InputError, shown
from ..nn.activation import make_activation
from ..nn.attention import SelfAttention, head_size, prune_attention
from ..nn.context import Context, ContextModule
from ..nn.dropout import Dropout
from ..nn.feedforward import Intermediate, Project, in_chunks
from ..nn.layout import Layout
from ..nn.tensor_inputs import FLOATING, NUMBERS, check_flag, check_tensor
from .base.body import Body, LayerStack
from .base.outputs import BaseModelOutputWithPooling, BodyOutput, ModelOutput
from .base.pretrained_model import PreTrainedModel
from .base.signature import OUTPUTS, takes

Size = tuple[int, int]  # height, width


def check_size(name: str, value: Any) -> int | list[int]:
    """A side, or height and width."""
    sides = value if isinstance(value, list | tuple) and len(value) == 2 else [value]
    if any(isinstance(side, bool) or not isinstance(side, int) or not 1 <= side < 2**16 for side in sides):
        raise ConfigError(f"{name} must be a number of pixels or a pair [height, width], got {shown(value)}")
    return list(value) if isinstance(value, tuple) else value


def as_pair(size: int | list[int]) -> Size:
    """Height and width.

    >>> as_pair(224), as_pair([48, 64])
    ((224, 224), (48, 64))
    """
    return (size, size) if isinstance(size, int) else (size[0], size[1])


@dataclass(repr=False, eq=False)
class ViTConfig(PretrainedConfig):
    """The shape of a ViT; the defaults are vit-base-patch16-224."""

    model_type = "vit"

    hidden_size: int = integer(768)
    num_hidden_layers: int = integer(12, high=10_000)
    num_attention_heads: int = integer(12)
    intermediate_size: int = integer(3072)
    hidden_act: str | Callable = activation("gelu")
    hidden_dropout_prob: float = number(0.0, 0, 1)
    attention_probs_dropout_prob: float = number(0.0, 0, 1)
    initializer_range: float = number(0.02, 0, 1e6)
    layer_norm_eps: float = number(1e-12, 0, 1)
    image_size: int | list[int] = checked(224, check_size)  # a side, or height and width
    patch_size: int | list[int] = checked(16, check_size)
    num_channels: int = integer(3, high=4096)
    qkv_bias: bool = boolean(True)
    encoder_stride: int = integer(16, high=2**16)  # pixels on a side that masked image modelling makes of one patch
    _: KW_ONLY
    pooler_output_size: int | None = integer(None, optional=True)  # None: hidden_size
    pooler_act: str | Callable = activation("tanh")

    def validate(self) -> None:
        head_size(self.hidden_size, self.num_attention_heads)
        for name in ("is_decoder", "add_cross_attention"):
            if getattr(self, name):
                raise ConfigError(f"{name}=True: a ViT only encodes")
        if 0 in self.grid:
            raise ConfigError(f"image_size {self.image_size} holds no patch of patch_size {self.patch_size}")

    @property
    def grid(self) -> Size:
        """How many patches there are from top to bottom and from left to right."""
        height, width = as_pair(self.image_size)
        patch_height, patch_width = as_pair(self.patch_size)
        return height // patch_height, width // patch_width


LAYER = "encoder.layer.{i}."
WEIGHTS = KeyMap(
    prefix="vit.",
    body=("embeddings", "encoder", "layernorm", "pooler"),
    rows=(
        Row(LAYER + "attention.attention.query.*", LAYER + "attention.self.query.*"),
        Row(LAYER + "attention.attention.key.*", LAYER + "attention.self.key.*"),
        Row(LAYER + "attention.attention.value.*", LAYER + "attention.self.value.*"),
        Row("layernorm.*", "encoder.layernorm.*"),
    ),
    optional=("pooler", r"embeddings\.mask_token", "decoder"),
)


class ViTPreTrainedModel(PreTrainedModel):
    """What every ViT has: its configuration, its table of weights and how weights are initialised."""

    config_class = ViTConfig
    base_model_prefix = "vit"
    keymap = WEIGHTS

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        deviation = self.config.initializer_range
        if isinstance(module, nn.Conv2d):
            module.weight.data.normal_(0.0, deviation)
            if module.bias is not None:
                module.bias.data.zero_()
        if isinstance(module, ViTEmbeddings):
            nn.init.trunc_normal_(module.cls_token, 0.0, deviation)
            nn.init.trunc_normal_(module.position_embeddings, 0.0, deviation)
            if module.mask_token is not None:
                module.mask_token.data.zero_()

    def get_input_embeddings(self) -> nn.Module:  # type: ignore[override]
        """The layer that turns patches into vectors."""
        return self.base_model.embeddings.patch_embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:  # type: ignore[override]
        self.base_model.embeddings.patch_embeddings = value

    def resize_token_embeddings(self, new_num_tokens: int | None = None) -> nn.Embedding:
        raise InputError("a ViT has no vocabulary: its tokens are patches of pictures")


class ViTModel(ViTPreTrainedModel, Body):
    """Pictures in, a contextual vector for [CLS] and for each patch out.

    >>> shape = {"image_size": 8, "patch_size": 4, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    >>> out = ViTModel(ViTConfig(**shape))(torch.randn(1, 3, 8, 8))
    >>> out.last_hidden_state.shape, out.pooler_output.shape
    (torch.Size([1, 5, 24]), torch.Size([1, 24]))
    """

    is_decoder = False
    feature_inputs = ("pixel_values", "bool_masked_pos", "interpolate_pos_encoding")

    def __init__(self, config: ViTConfig, add_pooling_layer: bool = True, use_mask_token: bool = False):
        super().__init__(config)
        self.embeddings = ViTEmbeddings(self.config, use_mask_token)
        self.encoder = ViTEncoder(self.config)
        self.pooler = ViTPooler(self.config) if add_pooling_layer else None
        self.post_init()

    @property
    def layernorm(self) -> nn.LayerNorm:
        """The normalisation after the last layer."""
        return self.encoder.layernorm

    def run_layers(self, x: Tensor, context: Context) -> Tensor:
        return self.layernorm(self.encoder(x, context))

    def as_body_output(self, rows: Tensor, context: Context) -> BodyOutput:
        out = super().as_body_output(rows, context)
        out.last_hidden_state = context.layout.unpack(rows)  # hidden states end before the last normalisation
        return out

    def pool(self, rows: Tensor, layout: Layout) -> Tensor | None:
        return None if self.pooler is None else self.pooler(layout.first(rows))

    @takes(
        *("pixel_values", "bool_masked_pos", "head_mask", *OUTPUTS[:2], "interpolate_pos_encoding", "return_dict"),
        "attention_mask",
    )
    def forward(self, inputs: dict[str, Any], return_dict: bool | None = None) -> ModelOutput | tuple:
        """Run the model on pictures, B channels height width.

        `bool_masked_pos` (B P) replaces patches by the mask token. `interpolate_pos_encoding` stretches the positions
        to pictures of another size. `attention_mask` (B T, [CLS] first) leaves patches out.
        """
        return self.as_output(BaseModelOutputWithPooling, self.encode(**inputs), return_dict)


class ViTEmbeddings(nn.Module):
    """Vectors of [CLS] and of patches, and where they stand."""

    def __init__(self, config: ViTConfig, use_mask_token: bool = False):
        super().__init__()
        width, (rows, columns) = config.hidden_size, config.grid
        self.image_size, self.grid = as_pair(config.image_size), config.grid
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.mask_token = nn.Parameter(torch.zeros(1, 1, width)) if use_mask_token else None
        self.position_embeddings = nn.Parameter(torch.zeros(1, 1 + rows * columns, width))
        self.patch_embeddings = ViTPatchEmbeddings(config)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        pixel_values: Tensor,
        bool_masked_pos: Tensor | None = None,
        interpolate_pos_encoding: bool | None = None,
    ) -> Tensor:
        """B channels height width -> B T C, T being one more than there are patches."""
        check_flag(interpolate_pos_encoding, "interpolate_pos_encoding")
        x = self.patch_embeddings(pixel_values)  # B P C
        size: Size = (pixel_values.shape[2], pixel_values.shape[3])
        if size != self.image_size and not interpolate_pos_encoding:
            own = " x ".join(map(str, self.image_size))
            raise InputError(
                f"pixel_values are pictures of {size[0]} x {size[1]} pixels, and the model reads {own}: resize them, "
                f"or pass interpolate_pos_encoding=True"
            )
        if bool_masked_pos is not None:
            x = torch.where(self.check_mask(bool_masked_pos, x)[..., None], self.masked(), x)
        x = torch.cat((self.cls_token.expand(len(x), -1, -1), x), dim=1)  # B T C
        return self.dropout(x + self.positions_for(self.patch_embeddings.grid_of(size)))

    def masked(self) -> Tensor:
        if self.mask_token is None:
            raise InputError("bool_masked_pos needs a mask token: ViTModel(config, use_mask_token=True)")
        return self.mask_token

    def check_mask(self, mask: Tensor, patches: Tensor) -> Tensor:
        """Which patches are masked: B P."""
        check_tensor(mask, "bool_masked_pos", NUMBERS, device=patches.device)
        mask = mask.flatten(1) if mask.dim() == 3 else mask  # a grid of patches
        if mask.shape != patches.shape[:2]:
            raise InputError(f"bool_masked_pos must have the shape {list(patches.shape[:2])}, got {list(mask.shape)}")
        return mask.bool()

    def positions_for(self, grid: Size) -> Tensor:
        """The vectors of [CLS] and of the places of a grid of patches, 1 T C; stretched if it is another grid."""
        table = self.position_embeddings
        if grid == self.grid:
            return table
        places = table[:, 1:].unflatten(1, self.grid).permute(0, 3, 1, 2)  # 1 C rows columns
        places = F.interpolate(places, size=grid, mode="bicubic", align_corners=False)
        return torch.cat((table[:, :1], places.flatten(2).transpose(1, 2)), dim=1)


class ViTPatchEmbeddings(nn.Module):
    """Cuts pictures into patches and projects each of them."""

    def __init__(self, config: ViTConfig):
        super().__init__()
        self.patch_size, self.num_channels = as_pair(config.patch_size), config.num_channels
        self.num_patches = config.grid[0] * config.grid[1]
        self.projection = nn.Conv2d(self.num_channels, config.hidden_size, self.patch_size, stride=self.patch_size)

    def grid_of(self, size: Size) -> Size:
        """How many patches a picture has from top to bottom and from left to right; what is left over is cut off."""
        return size[0] // self.patch_size[0], size[1] // self.patch_size[1]

    def forward(self, pixel_values: Tensor) -> Tensor:
        """B channels height width -> B P C"""
        weight = self.projection.weight
        check_tensor(pixel_values, "pixel_values", FLOATING, "B channels height width", weight.device)
        batch, channels, *size = pixel_values.shape
        if channels != self.num_channels:
            raise InputError(
                f"pixel_values must have {self.num_channels} channels in dimension 1, got {list(pixel_values.shape)}"
            )
        if not batch or 0 in self.grid_of((size[0], size[1])):
            raise InputError(f"pixel_values hold no patch of {list(self.patch_size)}: {list(pixel_values.shape)}")
        return self.projection(pixel_values.to(weight.dtype)).flatten(2).transpose(1, 2)


class ViTEncoder(LayerStack):
    """The stack of layers; the body normalises after the last one."""

    def __init__(self, config: ViTConfig):
        super().__init__([ViTLayer(config) for _ in range(config.num_hidden_layers)])
        self.layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)


class ViTLayer(ContextModule):
    """Attention, then feed-forward; each reads normalised vectors and adds to the residual ("pre-norm")."""

    def __init__(self, config: ViTConfig):
        super().__init__()
        width = config.hidden_size
        self.chunk_size_feed_forward = config.chunk_size_feed_forward
        self.attention = ViTAttention(config)
        self.intermediate = Intermediate(width, config.intermediate_size, config.hidden_act)
        self.output = Project(config.intermediate_size, width, config.hidden_dropout_prob)
        self.layernorm_before = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.layernorm_after = nn.LayerNorm(width, eps=config.layer_norm_eps)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        x = x + self.attention(self.layernorm_before(x), context)
        if self.chunk_size_feed_forward:
            return in_chunks(self.feed_forward_chunk, self.chunk_size_feed_forward, x, context.layout.batch)
        return self.feed_forward_chunk(x)

    def feed_forward_chunk(self, x: Tensor) -> Tensor:
        return x + self.output(self.intermediate(self.layernorm_after(x)))


class ViTAttention(ContextModule):
    """Attend and project; heads can be cut out of it."""

    is_attention = True

    def __init__(self, config: ViTConfig):
        super().__init__()
        width, heads = config.hidden_size, config.num_attention_heads
        self.self = SelfAttention(width, heads, config.attention_probs_dropout_prob, bias=config.qkv_bias)
        self.output = Project(width, width, config.hidden_dropout_prob)
        self.pruned_heads: set[int] = set()

    def prune_heads(self, heads: Iterable[int]) -> None:
        prune_attention(self, set(heads))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.output(self.self(x, context))


class ViTPooler(nn.Module):
    """The vector of [CLS] through one more layer."""

    def __init__(self, config: ViTConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.pooler_output_size or config.hidden_size)
        self.activation = make_activation(config.pooler_act)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """B C, or B T C of a direct call -> B C"""
        first = hidden_states[:, 0] if hidden_states.dim() == 3 else hidden_states
        return self.activation(self.dense(first))
