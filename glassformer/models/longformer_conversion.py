"""A BERT or RoBERTa made long: the same weights as a Longformer, with positions for long texts."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import ConfigError, InputError
from ..registry import ARCHITECTURES, BODY, head_of, import_class
from ..text.auto_tokenizer import AutoTokenizer
from ..text.tokenizer import PreTrainedTokenizer
from .auto import AUTO_CLASSES, AutoConfig
from .base.pretrained_model import PreTrainedModel
from .longformer import LongformerConfig

log = logging.getLogger("glassformer")

SOURCES = ("bert", "roberta", "xlm-roberta", "camembert")
SHARED = """vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act
    hidden_dropout_prob attention_probs_dropout_prob type_vocab_size initializer_range layer_norm_eps
    chunk_size_feed_forward bos_token_id eos_token_id id2label label2id problem_type crf tie_word_embeddings
    tokenizer_class""".split()
GLOBAL = {f"attention.self.{part}.": f"attention.self.{part}_global." for part in ("query", "key", "value")}
# Names of a BERT's heads -> those of a Longformer, by head. What it classifies texts by is its pooler.
OF_BERT = {
    "masked-lm": {
        "cls.predictions.transform.dense.": "lm_head.dense.",
        "cls.predictions.transform.LayerNorm.": "lm_head.layer_norm.",
        "cls.predictions.bias": "lm_head.bias",
        "cls.predictions.decoder.": "lm_head.decoder.",
    },
    "sequence-classification": {"bert.pooler.dense.": "classifier.dense.", "classifier.": "classifier.out_proj."},
}


def to_longformer(
    model: PreTrainedModel | str | Path,
    max_length: int = 4096,
    attention_window: int | list[int] = 512,
    save_to: str | Path | None = None,
) -> PreTrainedModel:
    """A BERT or RoBERTa (a model, or a folder or hub name) as a Longformer that reads up to `max_length` tokens.

    The vectors of positions are repeated until there are enough of them, and global tokens begin with the projections
    of all others. A text that fits into the old model and into half the window gets the same numbers; for longer ones,
    train it further. The head is kept. With `save_to`, it is written into a folder, with the tokenizer if a folder was
    given.

    >>> long = to_longformer("./roberta-base/", max_length=4096, save_to="./roberta-long/")      # doctest: +SKIP
    """
    tokenizer = None
    if not isinstance(model, PreTrainedModel):
        tokenizer = AutoTokenizer.from_pretrained(model)
        model = load_with_head(model)
    config = model.config
    if config.model_type not in SOURCES:
        raise InputError(
            f"a {type(model).__name__} cannot be made long: it takes models of the type {', '.join(SOURCES)}"
        )
    if config.is_decoder or config.position_embedding_type != "absolute":
        raise ConfigError("only encoders with absolute positions can be made long")
    if not isinstance(max_length, int) or max_length < 1:
        raise InputError(f"max_length must be a number of tokens from 1 on, got {max_length!r}")
    head = head_of(type(model)) or BODY
    kind = import_class(f"models.{class_for(head, type(model).__name__)}")
    long = kind(config_of(model, max_length, attention_window, tokenizer))
    long.load_state_dict(weights_of(model, long, head))
    long = long.to(model.dtype).train(model.training)
    if save_to is not None:
        long.save_pretrained(save_to)
        if tokenizer is not None:
            tokenizer.model_max_length = max_length
            tokenizer.save_pretrained(save_to)
    return long


def load_with_head(name_or_path: str | Path) -> PreTrainedModel:
    """The model of a folder, with the head that its config names."""
    names = AutoConfig.from_pretrained(name_or_path).architectures or []
    head = next((found for name in names if (found := head_of(name))), BODY)
    return AUTO_CLASSES[head].from_pretrained(name_or_path)


def class_for(head: str, name: str) -> str:
    known = ARCHITECTURES["longformer"].classes
    if head not in known:
        raise InputError(f"a Longformer has no head like that of {name}; it has {', '.join(sorted(known))}")
    return known[head]


def config_of(
    model: PreTrainedModel, max_length: int, window: int | list[int], tokenizer: PreTrainedTokenizer | None
) -> LongformerConfig:
    """The shape of the long model."""
    config = model.config
    if config.pruned_heads:
        raise ConfigError("a model with pruned heads cannot be made long: prune the long one")
    fields: dict[str, Any] = {name: getattr(config, name) for name in SHARED}
    padding = config.pad_token_id or 0
    separator = tokenizer.sep_token_id if tokenizer is not None else None
    if separator is None and config.model_type != "bert":
        separator = config.eos_token_id
    return LongformerConfig(
        **fields,
        attention_window=window,
        max_position_embeddings=max_length + padding + 1,
        pad_token_id=padding,
        sep_token_id=separator,
    )


def weights_of(model: PreTrainedModel, long: PreTrainedModel, head: str) -> dict[str, Tensor]:
    """The weights of the long model, by its names."""
    prefix = model.base_model_prefix + "." if head != BODY else ""
    own = long.base_model_prefix + "." if head != BODY else ""
    is_bert = model.config.model_type == "bert"
    if is_bert and head in ("masked-lm", "pre-training") and model.config.hidden_act != "gelu":
        raise ConfigError(
            f"hidden_act is {model.config.hidden_act!r}: the words of a Longformer are scored with 'gelu'"
        )
    renamed = OF_BERT.get("masked-lm" if head == "pre-training" else head, {}) if is_bert else {}
    weights: dict[str, Tensor] = {}
    for name, value in model.state_dict().items():
        found = next((new + name.removeprefix(old) for old, new in renamed.items() if name.startswith(old)), None)
        found = found or (own + name.removeprefix(prefix) if prefix and name.startswith(prefix) else name)
        weights[found] = value
        for local, for_all in GLOBAL.items():
            if local in found:
                weights[found.replace(local, for_all)] = value.clone()
    positions = f"{own}embeddings.position_embeddings.weight"
    weights[positions] = repeated_positions(weights[positions], model, long)
    wanted = long.state_dict()
    missing = sorted(wanted.keys() - weights.keys())
    if missing:
        raise InputError(f"{type(model).__name__} has no weights for {', '.join(missing)} of a {type(long).__name__}")
    left_out = sorted(weights.keys() - wanted.keys())
    if left_out:
        log.warning("left out, because a %s has no such weights: %s", type(long).__name__, ", ".join(left_out))
    return {name: weights[name].to(wanted[name].dtype) for name in wanted}


def repeated_positions(table: Tensor, model: PreTrainedModel, long: PreTrainedModel) -> Tensor:
    """The vectors of positions, repeated; rows before the first position are those of padding."""
    old_first = getattr(model.base_model.embeddings, "first_position", 0)
    embeddings = long.base_model.embeddings
    first, count = embeddings.first_position, embeddings.position_embeddings.num_embeddings
    places = torch.arange(count - first) % (len(table) - old_first)
    repeated = table.new_zeros(count, table.shape[1])
    repeated[first:] = table[old_first:][places]
    repeated[: min(first, old_first)] = table[: min(first, old_first)]
    return repeated
