"""The encoders that are measured, with one signature: padded ids and mask in, hidden states out.

All load the same weights: a checkpoint folder that glassformer wrote. A name is an engine and, after a space, what it
computes in; float32 if nothing is named. Ours run on prepared weights, as pipelines and `glass embed` do.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from workers import BEFORE

Encode = Callable[[np.ndarray, np.ndarray], np.ndarray]  # ids B T, mask B T -> B T C

NAMES = ("glassformer", "transformers", "onnxruntime", "ctranslate2")
FEWER_BITS = (
    *("glassformer bfloat16", "glassformer int8", "onnxruntime int8", "ctranslate2 int8"),
    *("openvino", "openvino bfloat16", "openvino int8", "openvino static int8"),
)
FEATURES = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")


def processor_features() -> str:
    """Those that decide which kernels the engines choose."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    return " ".join(name for name in FEATURES if name in flags) or "unknown"


def load(name: str, folder: Path, threads: int) -> Encode:
    """One engine with the weights of `folder`."""
    kind, _, precision = name.partition(" ")
    return {
        "glassformer": load_glassformer,
        BEFORE: load_glassformer,
        "transformers": load_transformers,
        "onnxruntime": load_onnxruntime,
        "ctranslate2": load_ctranslate2,
        "openvino": load_openvino,
    }[kind](folder, threads, precision or "float32")


def load_glassformer(folder: Path, threads: int, precision: str) -> Encode:
    import torch

    from glassformer import AutoModel
    from glassformer.nn.prepared import prepared

    torch.set_num_threads(threads)
    with torch.inference_mode():
        return torch_encoder(prepared(AutoModel.from_pretrained(folder, dtype=precision)))


def load_openvino(folder: Path, threads: int, precision: str) -> Encode:
    """The same graph in OpenVINO. Its int8 is that of weights with rows quantized at run time, or static by nncf."""
    import openvino

    exported = exported_onnx(folder)
    core = openvino.Core()
    read = core.read_model(exported)
    hint = {"float32": "f32", "bfloat16": "bf16"}.get(precision, "f32")
    if precision == "int8":
        import nncf

        read = nncf.compress_weights(read, mode=nncf.CompressWeightsMode.INT8_SYM)
    elif precision == "static int8":
        read = statically_quantized(read, folder)
    settings = {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    if precision == "int8":
        settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 64
    compiled = core.compile_model(read, "CPU", settings)

    def encode(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return compiled([ids, mask])[0]

    return encode


def statically_quantized(read, folder: Path):
    """By ranges that nncf observes on rows of the kind that are measured; made once and kept."""
    import nncf
    import openvino
    from encode import natural_batches

    kept = folder / "static.xml"
    if not kept.exists():
        rows = [{"input_ids": ids, "attention_mask": mask} for ids, mask in natural_batches(4, seed=1)]
        read = nncf.quantize(read, nncf.Dataset(rows), model_type=nncf.ModelType.TRANSFORMER, subset_size=len(rows))
        openvino.save_model(read, kept, compress_to_fp16=False)
    return openvino.Core().read_model(kept)


def load_transformers(folder: Path, threads: int, precision: str) -> Encode:
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


def exported_onnx(folder: Path) -> Path:
    exported = folder / "model.onnx"
    if not exported.exists():
        export_onnx(folder, exported)
    return exported


def load_onnxruntime(folder: Path, threads: int, precision: str) -> Encode:
    """transformers' BERT, exported once and optimised by onnxruntime itself; int8 is its dynamic quantization."""
    import onnxruntime

    exported = exported_onnx(folder)
    if precision == "int8":
        from onnxruntime.quantization import QuantType, quantize_dynamic

        rounded = folder / "model.int8.onnx"
        if not rounded.exists():
            quantize_dynamic(exported, rounded, per_channel=True, weight_type=QuantType.QInt8)
        exported = rounded
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


def load_ctranslate2(folder: Path, threads: int, precision: str) -> Encode:
    import ctranslate2

    converted = folder / "ctranslate2"
    if not converted.exists():
        convert_to_ctranslate2(folder, converted)
    encoder = ctranslate2.Encoder(str(converted), device="cpu", intra_threads=threads, compute_type=precision)

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
