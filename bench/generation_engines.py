"""The generators that are measured, with one signature: prompts in, new tokens out. All load the same weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from workers import BEFORE

# prompts, number of new tokens, beams -> new tokens of each prompt
Generate = Callable[[list[list[int]], int, int], list[list[int]]]

NAMES = ("glassformer", "transformers", "ctranslate2", "glassformer int8", "ctranslate2 int8")


def load(name: str, folder: Path, threads: int) -> Generate:
    kind, _, precision = name.partition(" ")
    precision = precision or "float32"
    return {
        "glassformer": load_glassformer,
        BEFORE: load_glassformer,
        "transformers": load_transformers,
        "ctranslate2": load_ctranslate2,
    }[kind](folder, threads, precision)


def load_glassformer(folder: Path, threads: int, precision: str) -> Generate:
    import torch

    from glassformer import GPT2LMHeadModel, quantize

    torch.set_num_threads(threads)
    model = GPT2LMHeadModel.from_pretrained(folder)
    if precision == "int8":
        quantize(model)
    return torch_generator(model)


def load_transformers(folder: Path, threads: int, precision: str) -> Generate:
    import torch
    from transformers import GPT2LMHeadModel

    torch.set_num_threads(threads)
    model = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="sdpa").eval()
    model.generation_config.eos_token_id = None
    return torch_generator(model)


def torch_generator(model) -> Generate:
    import torch

    def generate(prompts: list[list[int]], count: int, beams: int) -> list[list[int]]:
        longest = max(map(len, prompts))  # left-padded, as transformers needs it
        ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        out = model.generate(
            input_ids=ids, attention_mask=mask, max_new_tokens=count, num_beams=beams, do_sample=False, pad_token_id=0
        )
        return out[:, longest:].tolist()

    return generate


def load_ctranslate2(folder: Path, threads: int, precision: str) -> Generate:
    import ctranslate2

    converted = folder / "ctranslate2"
    if not converted.exists():
        convert_to_ctranslate2(folder, converted)
    generator = ctranslate2.Generator(str(converted), device="cpu", intra_threads=threads, compute_type=precision)

    def generate(prompts: list[list[int]], count: int, beams: int) -> list[list[int]]:
        results = generator.generate_batch(
            [[f"[{token}]" for token in prompt] for prompt in prompts],
            max_length=count,
            min_length=count,
            beam_size=beams,
            sampling_topk=1,
            include_prompt_in_result=False,
        )
        return [result.sequences_ids[0] for result in results]

    return generate


def convert_to_ctranslate2(folder: Path, converted: Path) -> None:
    """Fill ctranslate2's own description of a decoder with our weights."""
    from ctranslate2.converters import utils
    from ctranslate2.specs import common_spec, transformer_spec

    from glassformer import GPT2LMHeadModel

    model = GPT2LMHeadModel.from_pretrained(folder)
    config = model.config
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(
        config.num_hidden_layers,
        config.num_attention_heads,
        pre_norm=True,
        activation=common_spec.Activation.GELUTanh,
    )
    decoder = spec.decoder
    decoder.scale_embeddings = False

    def array(tensor) -> np.ndarray:
        return tensor.detach().numpy()

    def linear(spec, module) -> None:
        spec.weight, spec.bias = array(module.weight), array(module.bias)

    def norm(spec, module) -> None:
        spec.gamma, spec.beta = array(module.weight), array(module.bias)

    body = model.transformer
    decoder.embeddings.weight = array(body.embeddings.word_embeddings.weight)
    decoder.position_encodings.encodings = array(body.embeddings.position_embeddings.weight)
    decoder.projection.weight = array(model.lm_head.weight)
    norm(decoder.layer_norm, body.encoder.LayerNorm)
    for part, layer in zip(decoder.layer, body.encoder.layer, strict=True):
        fused = [common_spec.LinearSpec() for _ in range(3)]
        for one, name in zip(fused, ("query", "key", "value"), strict=True):
            linear(one, getattr(layer.attention.self, name))
        utils.fuse_linear(part.self_attention.linear[0], fused)
        linear(part.self_attention.linear[1], layer.attention.output.dense)
        norm(part.self_attention.layer_norm, layer.attention.LayerNorm)
        linear(part.ffn.linear_0, layer.intermediate.dense)
        linear(part.ffn.linear_1, layer.output.dense)
        norm(part.ffn.layer_norm, layer.intermediate.LayerNorm)
    spec.register_vocabulary([f"[{i}]" for i in range(config.vocab_size)])
    spec.config.bos_token = spec.config.eos_token = f"[{config.vocab_size - 1}]"
    spec.config.unk_token = "[0]"
    spec.config.layer_norm_epsilon = config.layer_norm_eps
    spec.validate()
    converted.mkdir()
    spec.save(str(converted))
