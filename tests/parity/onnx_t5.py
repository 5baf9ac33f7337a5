"""A T5 out of an ONNX file: its int8 weights, dequantised, as a checkpoint folder of Hugging Face, and its graph with
these weights in float32, so that onnxruntime computes what they say without quantising activations as well.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import save_file

PARTS = ("encoder", "decoder")
LAYER = re.compile(r".*?(?P<name>block\.\d+/layer\.\d+/\w+/\w+|lm_head)/MatMul_quant")
CONFIG = {
    "architectures": ["T5ForConditionalGeneration"],
    "model_type": "t5",
    "d_kv": 64,
    "feed_forward_proj": "gated-gelu",
    "layer_norm_epsilon": 1e-6,
    "tie_word_embeddings": False,
    "vocab_size": 32128,
    "decoder_start_token_id": 0,
    "pad_token_id": 0,
    "eos_token_id": 1,
}


def dequantised(tensors: dict[str, np.ndarray], name: str) -> np.ndarray:
    """A weight in float32, as DequantizeLinear and the integer products of the graph read it."""
    zero, scale = tensors[f"{name}_zero_point"].astype(np.int32), tensors[f"{name}_scale"]
    return (tensors[f"{name}_quantized"].astype(np.int32) - zero).astype(np.float32) * scale


def extract(source: Path, folder: Path) -> None:
    """Write the checkpoint folder, and encoder.onnx and decoder.onnx in float32 beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    weights: dict[str, np.ndarray] = {}
    for part in PARTS:
        model = onnx.load(source / f"{part}.onnx")
        tensors = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
        for name, value in tensors.items():
            if name.endswith("layer_norm.weight"):
                weights[re.sub(r"^(enc|m\.decoder)\.", f"{part}.", name)] = value
        words = "enc.embed_tokens.weight" if part == "encoder" else "m.shared.weight"
        table = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        weights["shared.weight"] = dequantised(tensors, words)
        weights[f"{part}.{table}"] = dequantised(tensors, f"{words.split('.')[0]}.{table}".replace("m.", "m.decoder."))
        for layer, weight in to_float32(model, tensors).items():
            weights["lm_head.weight" if layer == "lm_head" else f"{part}.{layer}.weight"] = weight.T
        onnx.save(model, folder / f"{part}.onnx")
    query, wide = weights["encoder.block.0.layer.0.SelfAttention.q.weight"], "layer.1.DenseReluDense.wi_0.weight"
    buckets, heads = weights[f"encoder.{table}"].shape
    shape = {
        "d_model": query.shape[1],
        "d_ff": len(weights[f"encoder.block.0.{wide}"]),
        "num_layers": sum(name.startswith("encoder") and name.endswith(wide) for name in weights),
        "num_heads": heads,
        "relative_attention_num_buckets": buckets,
    }
    (folder / "config.json").write_text(json.dumps({**CONFIG, **shape}))
    save_file(
        {name: torch.from_numpy(np.array(value, order="C")) for name, value in weights.items()},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    shutil.copy(source / "tokenizer.json", folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "T5Tokenizer"}))


def to_float32(model: onnx.ModelProto, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Make every integer product of a graph one of float32; the weights of the products, by their layer."""
    graph, found = model.graph, {}
    maker = {output: node for node in graph.node for output in node.output}
    users: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    for node in list(graph.node):
        if node.op_type != "MatMulInteger":
            continue
        name = node.input[1].removesuffix("_quantized")
        weight = found[LAYER.fullmatch(node.name)["name"].replace("/", ".")] = dequantised(tensors, name)
        graph.initializer.append(
            helper.make_tensor(f"{name}_float", TensorProto.FLOAT, weight.shape, weight.tobytes(), raw=True)
        )
        (cast,) = users[node.output[0]]
        (scaled,) = users[cast.output[0]]  # the last step of the integer product
        product = helper.make_node("MatMul", [maker[node.input[0]].input[0], f"{name}_float"], list(scaled.output))
        place = list(graph.node).index(scaled)
        graph.node.remove(scaled)
        graph.node.insert(place, product)
    return found
