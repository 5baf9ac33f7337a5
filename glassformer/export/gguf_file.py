"""BERT and GPT-2 as GGUF files, which llama.cpp and its relatives read.

GGUF has names of its own for tensors, settings and vocabularies; the tables below map ours to them. Matrices are
written as float32, float16, or in blocks of 32 values with one scale each (Q8_0, Q4_0); norms, biases and positions
stay float32.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import DamagedFileError, InputError
from ..models.base.pretrained_model import PreTrainedModel
from ..text.tokenizer import PreTrainedTokenizer
from .packages import require

FILE_TYPES = {"f32": 0, "f16": 1, "q8_0": 7, "q4_0": 2}  # GGUF's numbers of them
LAYER = "encoder.layer.{i}."


class Format(NamedTuple):
    """How one architecture is written."""

    name: str  # of the architecture in GGUF
    tensors: dict[str, str | tuple[str, ...]]  # GGUF's name -> ours, or several of ours that are one matrix there


BERT = Format(
    "bert",
    {
        "token_embd.weight": "embeddings.word_embeddings.weight",
        "position_embd.weight": "embeddings.position_embeddings.weight",
        "token_types.weight": "embeddings.token_type_embeddings.weight",
        "token_embd_norm": "embeddings.LayerNorm",
        "blk.{i}.attn_q": LAYER + "attention.self.query",
        "blk.{i}.attn_k": LAYER + "attention.self.key",
        "blk.{i}.attn_v": LAYER + "attention.self.value",
        "blk.{i}.attn_output": LAYER + "attention.output.dense",
        "blk.{i}.attn_output_norm": LAYER + "attention.output.LayerNorm",
        "blk.{i}.ffn_up": LAYER + "intermediate.dense",
        "blk.{i}.ffn_down": LAYER + "output.dense",
        "blk.{i}.layer_output_norm": LAYER + "output.LayerNorm",
    },
)
GPT2 = Format(
    "gpt2",
    {
        "token_embd.weight": "embeddings.word_embeddings.weight",
        "position_embd.weight": "embeddings.position_embeddings.weight",
        "output_norm": "encoder.LayerNorm",
        "blk.{i}.attn_norm": LAYER + "attention.LayerNorm",
        "blk.{i}.attn_qkv": tuple(LAYER + f"attention.self.{part}" for part in ("query", "key", "value")),
        "blk.{i}.attn_output": LAYER + "attention.output.dense",
        "blk.{i}.ffn_norm": LAYER + "intermediate.LayerNorm",
        "blk.{i}.ffn_up": LAYER + "intermediate.dense",
        "blk.{i}.ffn_down": LAYER + "output.dense",
    },
)
FORMATS = {"bert": BERT, "gpt2": GPT2}
POOLINGS = {"mean": 1, "cls": 2, "lasttoken": 3}
NORMAL, UNKNOWN, CONTROL = 1, 2, 3  # kinds of tokens
WORD_START = "\u2581"  # what marks the start of a word where BERT marks its continuation


def write_gguf(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizer,
    path: Path,
    weights: str = "f16",
    pooling: str | None = None,
    name: str = "",
) -> None:
    """Write a BERT (with the `pooling` of its token vectors) or a GPT-2 into a file."""
    require(("gguf",), "writing GGUF")
    import gguf

    body, config = model.base_model, model.config
    written_as = FORMATS.get(config.model_type)
    if written_as is None:
        raise InputError(f"a {config.model_type} cannot be written as GGUF; these can: {', '.join(FORMATS)}")
    refuse_what_gguf_lacks(model, pooling)
    writer = gguf.GGUFWriter(str(path), written_as.name)
    writer.add_name(name or config.model_type)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size or 4 * config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_layer_norm_eps(config.layer_norm_eps)
    writer.add_file_type(FILE_TYPES[weights])
    if written_as is BERT:
        writer.add_causal_attention(False)
        writer.add_pooling_type(gguf.PoolingType(POOLINGS[pooling] if pooling else 0))
        writer.add_token_type_count(config.type_vocab_size)
    add_vocabulary(writer, tokenizer, written_as, config.vocab_size)
    for tensor_name, values in tensors_of(body, written_as):
        add_tensor(writer, tensor_name, values, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def refuse_what_gguf_lacks(model: PreTrainedModel, pooling: str | None) -> None:
    """Raise if the file could not say how the model computes."""
    config = model.config
    is_bert = config.model_type == "bert"
    expected: dict[str, tuple[Any, ...]] = {
        "hidden_act": ("gelu" if is_bert else "gelu_new",),
        "position_embedding_type": ("absolute",),
        "attention": ("softmax",),
        "is_decoder": (not is_bert,),
        "add_cross_attention": (False,),
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "pruned_heads": ({}, None),
    }
    for field, accepted in expected.items():
        value = getattr(config, field, accepted[0])
        if value not in accepted:
            raise InputError(f"GGUF has no {field} {value!r}, only {accepted[0]!r}")
    if pooling is not None and pooling not in POOLINGS:
        raise InputError(f"GGUF has no pooling {pooling!r}; it has {', '.join(POOLINGS)}")


def tensors_of(body: Any, written_as: Format) -> list[tuple[str, Tensor]]:
    """GGUF's names and the values of all tensors, in the order of the table."""
    found = []
    state = body.state_dict()
    for theirs, ours in written_as.tensors.items():
        sources = (ours,) if isinstance(ours, str) else ours
        for number in range(body.config.num_hidden_layers) if "{i}" in theirs else (0,):
            for ending in ("",) if theirs.endswith(".weight") else (".weight", ".bias"):
                parts = [state[source.format(i=number) + ending] for source in sources]
                found.append((theirs.format(i=number) + ending, torch.cat(parts)))
    return found


def add_tensor(writer: Any, name: str, values: Tensor, weights: str) -> None:
    """Write one tensor; what is not a matrix that is multiplied with keeps its precision."""
    import gguf

    array = values.detach().float().numpy()
    is_matrix = array.ndim == 2 and not re.match(r"position_embd|token_types", name)
    if not is_matrix or weights == "f32":
        writer.add_tensor(name, array)
    elif weights == "f16":
        writer.add_tensor(name, array.astype(np.float16))
    else:
        kind = gguf.GGMLQuantizationType[weights.upper()]
        if array.shape[1] % 32:
            raise InputError(f"{weights} has blocks of 32 values, and {name} has rows of {array.shape[1]}: use f16")
        writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)


def add_vocabulary(writer: Any, tokenizer: PreTrainedTokenizer, written_as: Format, size: int) -> None:
    """The tokens, their kinds, merges, and the ids of special tokens."""
    special = set(tokenizer.all_special_ids)
    known = tokenizer.convert_ids_to_tokens(list(range(min(len(tokenizer), size))))
    tokens = [*known, *(f"[unused of the table {number}]" for number in range(len(known), size))]
    kinds = [CONTROL if number in special or number >= len(known) else NORMAL for number in range(size)]
    if tokenizer.unk_token_id is not None and written_as is BERT:
        kinds[tokenizer.unk_token_id] = UNKNOWN
    if written_as is BERT:
        tokens = [
            token if kind != NORMAL else token[2:] if token.startswith("##") else WORD_START + token
            for token, kind in zip(tokens, kinds, strict=True)
        ]
    writer.add_tokenizer_model("bert" if written_as is BERT else "gpt2")
    writer.add_tokenizer_pre("default" if written_as is BERT else "gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    if written_as is GPT2:
        writer.add_token_merges([" ".join(pair) for pair in tokenizer.merges.pairs])
        writer.add_add_bos_token(False)
    for name in ("bos", "eos", "unk", "sep", "pad", "mask"):
        value = getattr(tokenizer, f"{name}_token_id")
        if name == "bos" and written_as is BERT:  # what llama.cpp puts before a text
            value = tokenizer.cls_token_id
        if value is not None:
            getattr(writer, f"add_{name}_token_id")(value)


class LlamaModel:
    """A GGUF file in llama.cpp."""

    def __init__(self, path: Path, makes_vectors: bool) -> None:
        require(("llama_cpp",), "running GGUF")
        import llama_cpp

        if not path.is_file():
            raise InputError(f"{path} is not a file")
        settings = {"embedding": makes_vectors, "logits_all": not makes_vectors, "n_ctx": 0, "verbose": False}
        try:
            self.model = llama_cpp.Llama(str(path), **settings)
        except ValueError as error:
            raise DamagedFileError(f"{path}: llama.cpp cannot read it: {error}") from None
        self.makes_vectors = makes_vectors
        self.limit = self.model.n_ctx()

    def tokenize(self, text: str) -> list[int]:
        return self.model.tokenize(text.encode(), add_bos=self.makes_vectors)

    def vector(self, text: str) -> Tensor:
        return torch.tensor(self.model.embed(text))

    def logits(self, ids: list[int]) -> Tensor:
        """The scores of the word after each of the ids: T V."""
        self.model.reset()
        self.model.eval(ids)
        return torch.tensor(self.model.scores[: len(ids)])
