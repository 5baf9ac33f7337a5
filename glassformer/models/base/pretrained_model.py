"""The base class of all models: checks of inputs, tied weights, resizing, counting."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ...checkpoints.keymap import KeyMap
from ...checkpoints.pretrained_config import PretrainedConfig
from ...errors import ConfigError, InputError, refuse_unknown
from ...nn.linear import reduced_dtype
from ...nn.mask import additive_mask
from ...nn.quantize import Int8Linear, refuse_quantized
from ...nn.tensor_inputs import check_mask
from .inspectable import Inspectable
from .outputs import BodyOutput, ModelOutput
from .pretrained_io import PretrainedIO
from .pruning import PruningMixin

# Fields of outputs -> the attributes of `BodyOutput` that fill them.
BODY_FIELDS = {
    "last_hidden_state": "last_hidden_state",
    "pooler_output": "pooled",
    "past_key_values": "past_key_values",
    "mems": "past_key_values",
    "hidden_states": "hidden_states",
    "attentions": "attentions",
    "cross_attentions": "cross_attentions",
    "global_attentions": "global_attentions",
}


class PreTrainedModel(PruningMixin, Inspectable, PretrainedIO):
    """A model of any architecture, body or body with head."""

    config_class: ClassVar[type[PretrainedConfig]]
    base_model_prefix: ClassVar[str]
    keymap: ClassVar[KeyMap]

    _accepted: ClassVar[frozenset[str] | None] = None  # the names that forward takes; None for any

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        parameters = inspect.signature(cls.forward).parameters.values()
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        cls._accepted = None if takes_any else frozenset(parameter.name for parameter in parameters)

    def __init__(self, config: PretrainedConfig):
        super().__init__()
        if not isinstance(config, self.config_class):
            raise ConfigError(f"{type(self).__name__} takes a {self.config_class.__name__}, got {config!r:.80}")
        config.validate()
        self.config = copy.deepcopy(config)  # later changes of the caller's object do not affect the model
        self.adapter: Any = None  # a LoraConfig while the model has adapters: see lora.py

    def post_init(self) -> None:
        """Finish the constructor: initialise the weights of the head, prune and tie as configured."""
        body = self.base_model
        if body is not self:
            self.config = body.config
        for child in self.children():
            if child is not body and not any(parameter.is_meta for parameter in child.parameters()):
                child.apply(self._init_weights)
        if body is self:
            self.prune_as_configured()
            if self.config.gradient_checkpointing:
                self.gradient_checkpointing_enable()
        self.tie_weights()
        self.record_new_weights()

    init_weights = post_init  # the name that the tutorials' own classes call

    def fix_config(self) -> None:
        """Body and head have one config, and what shaped them cannot be assigned any more."""
        body = getattr(self.base_model, "config", None)
        if body is not self.config and body == self.config:  # a class that does not call `post_init`
            self.config = body
        self.config.mark_as_built()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.config.mark_as_built()  # copies of a config are free, that of a copied model is not

    def _init_weights(self, module: nn.Module) -> None:
        """Initialise the parameters of one module, as BERT and most others do."""
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data.normal_(0.0, self.config.initializer_range)
        if isinstance(module, (nn.Linear, nn.LayerNorm)) and module.bias is not None:
            module.bias.data.zero_()
        if isinstance(module, (nn.LayerNorm, nn.RMSNorm)):
            module.weight.data.fill_(1.0)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            module.weight.data[module.padding_idx].zero_()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._accepted is not None and not kwargs.keys() <= self._accepted:
            known = [*inspect.signature(self.forward).parameters, *getattr(self.base_model, "extra_inputs", ())]
            refuse_unknown(kwargs, known, type(self).__name__)
        return super().__call__(*args, **kwargs)

    @property
    def base_model(self) -> nn.Module:
        """The body without its head."""
        return getattr(self, self.base_model_prefix, self)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights: that of the products, where the rest of the model has another."""
        return reduced_dtype(self) or self.stream_dtype

    @property
    def stream_dtype(self) -> torch.dtype:
        """The type of the hidden states, norms and softmax."""
        return next(p.dtype for p in self.parameters() if p.is_floating_point())

    @property
    def decoding_body(self) -> Any:
        """The body that decodes token by token in generation."""
        return self.base_model

    @property
    def layers(self) -> Sequence[nn.Module]:
        """All layers, from the input to the output."""
        return self.base_model.encoder.layer

    def layer(self, index: int) -> nn.Module:
        layers = self.layers
        if not 0 <= index < len(layers):
            raise InputError(f"there are layers 0 to {len(layers) - 1}, got {index}")
        return layers[index]

    # -- inputs and outputs -------------------------------------------------------------------------------------

    def as_output(
        self, kind: type[ModelOutput], body: BodyOutput, return_dict: bool | None, **values: Any
    ) -> ModelOutput | tuple:
        """The return value of a forward: `values`, and the other fields of `kind` from the body's output."""
        for field in fields(kind):
            if field.name not in values and field.name in BODY_FIELDS:
                values[field.name] = getattr(body, BODY_FIELDS[field.name])
        return kind(**values).as_returned(self.config.return_dict if return_dict is None else return_dict)

    def get_extended_attention_mask(
        self, attention_mask: Tensor, input_shape: Sequence[int], device: torch.device | None = None
    ) -> Tensor:
        """The additive mask for direct calls of layers: 0 where visible, the type's lowest number where masked."""
        batch, length = input_shape
        check_mask(attention_mask, batch, length)
        device = device or attention_mask.device
        mask = additive_mask(attention_mask, length, 0, self.config.is_decoder, self.stream_dtype, device)
        if mask is None:
            mask = torch.zeros(batch, 1, 1, length, dtype=self.stream_dtype, device=device)
        return mask

    # -- embeddings --------------------------------------------------------------------------------------------

    def get_input_embeddings(self) -> nn.Embedding:
        return self.base_model.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.base_model.embeddings.word_embeddings = value

    def get_output_embeddings(self) -> nn.Linear | None:
        """The layer that scores the vocabulary, in models that have one."""
        return None

    def tied_names(self) -> dict[str, str]:
        """Second names of tied parameters -> their first names."""
        return {}

    def tie_weights(self) -> None:
        """Make every second name refer to the same parameter as the first."""
        for alias, name in self.tied_names().items():
            owner, _, leaf = alias.rpartition(".")
            layer = self.get_submodule(name.rpartition(".")[0])
            if leaf == "weight" and isinstance(layer, Int8Linear):
                self.set_submodule(owner, layer)
            else:
                setattr(self.get_submodule(owner), leaf, self.get_parameter(name))

    def resize_token_embeddings(self, new_num_tokens: int | None = None) -> nn.Embedding:
        """Resize the vocabulary: old rows stay, new ones are initialised."""
        old = self.get_input_embeddings()
        if new_num_tokens is None or new_num_tokens == old.num_embeddings:
            return old
        refuse_quantized(self, "resized")
        if new_num_tokens < 1:
            raise InputError(f"a vocabulary has at least one token, got {new_num_tokens}")
        padding = old.padding_idx if old.padding_idx is not None and old.padding_idx < new_num_tokens else None
        new = nn.Embedding(new_num_tokens, old.embedding_dim, padding_idx=padding).to(old.weight)
        self._init_weights(new)
        shared = min(new_num_tokens, old.num_embeddings)
        new.weight.data[:shared] = old.weight.data[:shared]
        new.weight.requires_grad_(old.weight.requires_grad)
        self.set_input_embeddings(new)
        self._resize_output(new_num_tokens, shared)
        self.config.record_change(vocab_size=new_num_tokens)
        self.tie_weights()
        return new

    def _resize_output(self, size: int, shared: int) -> None:
        """Resize the output layer, in models that have one."""

    # -- checkpointing, counting -------------------------------------------------------------------------------

    def gradient_checkpointing_enable(self, enabled: bool = True) -> None:
        """Trade time for memory in training: keep only the layers' inputs and compute the rest again."""
        self.base_model.encoder.gradient_checkpointing = enabled

    def gradient_checkpointing_disable(self) -> None:
        self.gradient_checkpointing_enable(False)

    @property
    def is_gradient_checkpointing(self) -> bool:
        return self.base_model.encoder.gradient_checkpointing

    def num_parameters(self, only_trainable: bool = False) -> int:
        counted = sum(p.numel() for p in self.parameters() if p.requires_grad or not only_trainable)
        tied, named = self.tied_names(), self.named_modules()
        rounded = {each for name, each in named if isinstance(each, Int8Linear) and f"{name}.weight" not in tied}
        return counted + sum(0 if only_trainable else each.in_features * each.out_features for each in rounded)
