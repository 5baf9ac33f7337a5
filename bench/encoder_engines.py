"""The encoders that are measured, with one signature: padded ids and mask in, hidden states out.

All load the same weights: a checkpoint folder that glassformer wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from workers import BEFORE

Encode = Callable[[np.ndarray, np.ndarray], np.ndarray]  # ids B T, mask B T -> B T C

NAMES = ("glassformer", "transformers", "onnxruntime", "ctranslate2")


def load(name: str, folder: Path, threads: int) -> Encode:
    """One engine with the weights of `folder`, in float32."""
    return {
        "glassformer": load_glassformer,
        BEFORE: load_glassformer,
        "transformers": load_transformers,
        "onnxruntime": load_onnxruntime,
        "ctranslate2": load_ctranslate2,
    }[name](folder, threads)


def load_glassformer(folder: Path, threads: int) -> Encode:
    import torch

    from glassformer import AutoModel

    torch.set_num_threads(threads)
    return torch_encoder(AutoModel.from_pretrained(folder))


def load_transformers(folder: Path, threads: int) -> Encode:
    import torch
    from transformers import AutoModel

    torch.set_num_threads(threads)
    return torch_encoder(AutoModel.from_pretrained(folder).eval())  # with the fastest attention that it has


def torch_encoder(model) -> Encode:
    import torch

    def encode(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            out = model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask))
        return out.last_hidden_state.numpy()

    return encode


def load_onnxruntime(folder: Path, threads: int) -> Encode:
    """transformers' BERT, exported once and optimised by onnxruntime itself."""
    import onnxruntime

    exported = folder / "model.onnx"
    if not exported.exists():
        export_onnx(folder, exported)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(exported), options, providers=["CPUExecutionProvider"])

    def encode(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return session.run(None, {"input_ids": ids, "attention_mask": mask})[0]

    return encode


def export_onnx(folder: Path, exported: Path) -> None:
    import torch
    from transformers import BertModel

    class Body(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    ids = torch.ones(2, 8, dtype=torch.long)
    axes = {0: "batch", 1: "length"}
    torch.onnx.export(
        Body(),
        (ids, ids),
        str(exported),
        input_names=["input_ids", "attention_mask"],
        output_names=["hidden"],
        dynamic_axes={"input_ids": axes, "attention_mask": axes, "hidden": axes},
        opset_version=17,
        dynamo=False,
    )


def load_ctranslate2(folder: Path, threads: int) -> Encode:
    import ctranslate2

    converted = folder / "ctranslate2"
    if not converted.exists():
        convert_to_ctranslate2(folder, converted)
    encoder = ctranslate2.Encoder(str(converted), device="cpu", intra_threads=threads, compute_type="float32")

    def encode(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        rows = [row[: int(row_mask.sum())].tolist() for row, row_mask in zip(ids, mask, strict=True)]
        return np.array(encoder.forward_batch(rows).last_hidden_state)

    return encode


def convert_to_ctranslate2(folder: Path, converted: Path) -> None:
    """Fill ctranslate2's own description of an encoder with our weights."""
    from ctranslate2.converters import utils
    from ctranslate2.specs import common_spec, transformer_spec

    from glassformer import BertModel

    model = BertModel.from_pretrained(folder)
    encoder = transformer_spec.TransformerEncoderSpec(
        model.config.num_hidden_layers,
        model.config.num_attention_heads,
        pre_norm=False,
        activation=common_spec.Activation.GELU,
        layernorm_embedding=True,
        num_source_embeddings=2,
        embeddings_merge=common_spec.EmbeddingsMerge.ADD,
    )
    encoder.scale_embeddings = False

    def array(tensor) -> np.ndarray:
        return tensor.detach().numpy()

    def linear(spec, module) -> None:
        spec.weight, spec.bias = array(module.weight), array(module.bias)

    def norm(spec, module) -> None:
        spec.gamma, spec.beta = array(module.weight), array(module.bias)

    embeddings = model.embeddings
    encoder.embeddings[0].weight = array(embeddings.word_embeddings.weight)
    encoder.embeddings[1].weight = array(embeddings.token_type_embeddings.weight)
    encoder.position_encodings.encodings = array(embeddings.position_embeddings.weight)
    norm(encoder.layernorm_embedding, embeddings.LayerNorm)
    for spec, layer in zip(encoder.layer, model.encoder.layer, strict=True):
        parts = [common_spec.LinearSpec() for _ in range(3)]
        for part, module in zip(parts, ("query", "key", "value"), strict=True):
            linear(part, getattr(layer.attention.self, module))
        utils.fuse_linear(spec.self_attention.linear[0], parts)
        linear(spec.self_attention.linear[1], layer.attention.output.dense)
        norm(spec.self_attention.layer_norm, layer.attention.output.LayerNorm)
        linear(spec.ffn.linear_0, layer.intermediate.dense)
        linear(spec.ffn.linear_1, layer.output.dense)
        norm(spec.ffn.layer_norm, layer.output.LayerNorm)
    encoder_model = transformer_spec.TransformerEncoderModelSpec(
        encoder, pooling_layer=True, pooling_activation=common_spec.Activation.Tanh
    )
    linear(encoder_model.pooler_dense, model.pooler.dense)
    encoder_model.register_vocabulary([f"[{i}]" for i in range(model.config.vocab_size)])
    encoder_model.config.unk_token = "[0]"
    encoder_model.config.layer_norm_epsilon = model.config.layer_norm_eps
    encoder_model.validate()
    converted.mkdir()
    encoder_model.save(str(converted))
    json.loads((converted / "config.json").read_text())
