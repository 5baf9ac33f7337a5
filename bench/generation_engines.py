"""The engines for generation behind one call, from prompts to new tokens. All load the same checkpoint folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from workers import BEFORE

# prompts, number of new tokens, number of beams -> the new tokens of each prompt
Generate = Callable[[list[list[int]], int, int], list[list[int]]]

NAMES = ("glassformer", "transformers", "ctranslate2", "glassformer int8", "ctranslate2 int8")
PEERS = ("transformers", "ctranslate2", "ctranslate2 int8", "llama.cpp Q8_0", "llama.cpp Q4_0")
FEWER_BITS = ("glassformer bfloat16", "glassformer int4", "llama.cpp", "llama.cpp Q8_0", "llama.cpp Q4_0")
READ_T5 = ("glassformer", BEFORE, "transformers")  # the others are given no T5 here


def load(name: str, folder: Path, threads: int) -> Generate:
    kind, _, precision = name.partition(" ")
    precision = precision or "float32"
    return {
        "glassformer": load_glassformer,
        BEFORE: load_glassformer,
        "transformers": load_transformers,
        "ctranslate2": load_ctranslate2,
        "llama.cpp": load_llama,
    }[kind](folder, threads, precision)


def load_glassformer(folder: Path, threads: int, precision: str) -> Generate:
    import torch

    from glassformer import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    torch.set_num_threads(threads)
    is_pair = AutoConfig.from_pretrained(folder).is_encoder_decoder
    kind = AutoModelForSeq2SeqLM if is_pair else AutoModelForCausalLM
    return with_torch(kind.from_pretrained(folder, dtype=precision))


def load_transformers(folder: Path, threads: int, precision: str) -> Generate:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    torch.set_num_threads(threads)
    is_pair = AutoConfig.from_pretrained(folder).is_encoder_decoder
    kind = AutoModelForSeq2SeqLM if is_pair else AutoModelForCausalLM
    model = kind.from_pretrained(folder, attn_implementation="sdpa").eval()
    model.generation_config.eos_token_id = None
    return with_torch(model)


def with_torch(model) -> Generate:
    import torch

    def generate(prompts: list[list[int]], count: int, beams: int) -> list[list[int]]:
        longest = max(map(len, prompts))  # padded on the left, as transformers needs it
        ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        out = model.generate(
            input_ids=ids, attention_mask=mask, max_new_tokens=count, num_beams=beams, do_sample=False, pad_token_id=0
        )
        return out[:, 1 if model.config.is_encoder_decoder else longest :].tolist()  # behind the start, or the prompt

    return generate


def load_llama(folder: Path, threads: int, precision: str) -> Generate:
    """llama.cpp, one prompt after the other, greedy: it has no beams in its Python interface."""
    from llama_cpp import Llama

    kind = "F32" if precision == "float32" else precision
    written = folder / f"gpt2-{kind}.gguf"
    if not written.exists():
        write_gguf(folder, written, kind)
    llama = Llama(str(written), n_ctx=512, n_threads=threads, n_threads_batch=threads, verbose=False)

    def generate(prompts: list[list[int]], count: int, beams: int) -> list[list[int]]:
        if beams > 1:
            raise ValueError("llama.cpp has no beam search")
        continued = []
        for prompt in prompts:
            llama.reset()
            made = llama.generate(prompt, temp=0.0, top_k=1, repeat_penalty=1.0)
            continued.append([token for token, _ in zip(made, range(count), strict=False)])
        return continued

    return generate


def write_gguf(folder: Path, path: Path, kind: str) -> None:
    """Our weights under llama.cpp's names; norms, biases and positions stay float32, as its own converter has it."""
    import gguf

    from glassformer import GPT2LMHeadModel

    model = GPT2LMHeadModel.from_pretrained(folder)
    config, body = model.config, model.transformer
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(4 * config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_layer_norm_eps(config.layer_norm_eps)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"[{i}]" for i in range(config.vocab_size)])
    writer.add_token_merges(["[ 0"])
    quantization = gguf.GGMLQuantizationType[kind]

    def add(name: str, *tensors, rounded: bool = True) -> None:
        values = np.concatenate([tensor.detach().numpy() for tensor in tensors])
        if rounded and kind != "F32":
            writer.add_tensor(name, gguf.quants.quantize(values, quantization), raw_dtype=quantization)
        else:
            writer.add_tensor(name, values)

    def linear(name: str, *modules) -> None:
        add(f"{name}.weight", *(module.weight for module in modules))
        add(f"{name}.bias", *(module.bias for module in modules), rounded=False)

    def norm(name: str, module) -> None:
        add(f"{name}.weight", module.weight, rounded=False)
        add(f"{name}.bias", module.bias, rounded=False)

    add("token_embd.weight", body.embeddings.word_embeddings.weight)
    add("position_embd.weight", body.embeddings.position_embeddings.weight, rounded=False)
    norm("output_norm", body.encoder.LayerNorm)
    for number, layer in enumerate(body.encoder.layer):
        inner = layer.attention.self
        norm(f"blk.{number}.attn_norm", layer.attention.LayerNorm)
        linear(f"blk.{number}.attn_qkv", inner.query, inner.key, inner.value)
        linear(f"blk.{number}.attn_output", layer.attention.output.dense)
        norm(f"blk.{number}.ffn_norm", layer.intermediate.LayerNorm)
        linear(f"blk.{number}.ffn_up", layer.intermediate.dense)
        linear(f"blk.{number}.ffn_down", layer.output.dense)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


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
