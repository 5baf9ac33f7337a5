"""Whisper checkpoints as OpenAI published them: one `.pt` file of sizes ("dims") and weights ("model_state_dict")."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ..checkpoints.formats import TensorInfo
from ..checkpoints.torch_file import TorchFile
from ..checkpoints.weights import Weights
from ..errors import ConfigError, DamagedFileError
from ..json_fields import JsonFields, is_integer
from ..text.whisper_languages import LANGUAGES

if TYPE_CHECKING:
    from .whisper import WhisperConfig

SUFFIX = ".pt"
MULTILINGUAL = 51865  # words of the smallest vocabulary for many languages
# What their files call a thing -> what Hugging Face's do.
NAMES = (
    (r"(encoder|decoder)\.blocks\.(\d+)\.attn\.(query|key|value|out)\.", r"\1.layers.\2.self_attn.\3."),
    (r"(encoder|decoder)\.blocks\.(\d+)\.attn_ln\.", r"\1.layers.\2.self_attn_layer_norm."),
    (r"(decoder)\.blocks\.(\d+)\.cross_attn\.(query|key|value|out)\.", r"\1.layers.\2.encoder_attn.\3."),
    (r"(decoder)\.blocks\.(\d+)\.cross_attn_ln\.", r"\1.layers.\2.encoder_attn_layer_norm."),
    (r"(encoder|decoder)\.blocks\.(\d+)\.mlp\.0\.", r"\1.layers.\2.fc1."),
    (r"(encoder|decoder)\.blocks\.(\d+)\.mlp\.2\.", r"\1.layers.\2.fc2."),
    (r"(encoder|decoder)\.blocks\.(\d+)\.mlp_ln\.", r"\1.layers.\2.final_layer_norm."),
    (r"(encoder|decoder)\.positional_embedding$", r"\1.embed_positions.weight"),
    (r"encoder\.ln_post\.", r"encoder.layer_norm."),
    (r"decoder\.ln\.", r"decoder.layer_norm."),
    (r"decoder\.token_embedding\.", r"decoder.embed_tokens."),
)
PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "out_proj"}
DIMS = {
    "n_mels": "num_mel_bins",
    "n_vocab": "vocab_size",
    "n_audio_ctx": "max_source_positions",
    "n_audio_state": "hidden_size",
    "n_audio_head": "num_attention_heads",
    "n_audio_layer": "num_hidden_layers",
    "n_text_ctx": "max_position_embeddings",
    "n_text_head": "decoder_attention_heads",
    "n_text_layer": "num_decoder_layers",
}
# Heads of the cross-attention (layer.head) that follow the sound, for each published size.
ALIGNMENT_HEADS = {
    "tiny.en": "1.0 2.0 2.5 3.0 3.1 3.2 3.3 3.4",
    "tiny": "2.2 3.0 3.2 3.3 3.4 3.5",
    "base.en": "3.3 4.7 5.1 5.5 5.7",
    "base": "3.1 4.2 4.3 4.7 5.1 5.2 5.4 5.6",
    "small.en": "6.6 7.0 7.3 7.8 8.2 8.5 8.7 9.0 9.4 9.8 9.10 10.0 10.1 10.2 10.3 10.6 10.11 11.2 11.4",
    "small": "5.3 5.9 8.0 8.4 8.7 8.8 9.0 9.7 9.9 10.5",
    "medium.en": """11.4 14.1 14.12 14.14 15.4 16.0 16.4 16.9 17.12 17.14 18.7 18.10 18.15 20.0 20.3 20.9 20.14
        21.12""",
    "medium": "13.15 15.4 15.15 16.1 20.0 23.4",
    "large-v1": "9.19 11.2 11.4 11.17 22.7 22.11 22.17 23.2 23.15",
    "large-v2": """10.12 13.17 16.11 16.12 16.13 17.15 17.16 18.4 18.11 18.19 19.11 21.2 21.3 22.3 22.9 22.12 23.5
        23.7 23.13 25.5 26.1 26.12 27.15""",
    "large-v3": "7.0 10.17 12.18 13.12 16.1 17.14 19.11 21.4 24.1 25.6",
    "large-v3-turbo": "2.4 2.11 3.3 3.6 3.11 3.14",
}
# Words that are no speech (signs of music, brackets, ...) and are never written, in both vocabularies.
NON_SPEECH = """1 2 7 8 9 10 14 25 26 27 28 29 31 58 59 60 61 62 63 90 91 92 93 357 366 438 532 685 705 796 930 1058
    1220 1267 1279 1303 1343 1377 1391 1635 1782 1875 2162 2361 2488 3467 4008 4211 4600 4808 5299 5855 6329 7203 9609
    9959 10563 10786 11420 11709 11907 13163 13697 13700 14808 15306 16410 16791 17992 19203 19510 20724 22305 22935
    27007 30109 30420 33409 34949 40283 40493 40549 47282 49146"""
NON_SPEECH_MULTILINGUAL = """1 2 7 8 9 10 14 25 26 27 28 29 31 58 59 60 61 62 63 90 91 92 93 359 503 522 542 873 893
    902 918 922 931 1350 1853 1982 2460 2627 3246 3253 3268 3536 3846 3961 4183 4667 6585 6647 7273 9061 9383 10428
    10929 11938 12033 12331 12562 13793 14157 14635 15265 15618 16553 16604 18362 18956 20075 21675 22520 26130 26161
    26435 28279 29464 31650 32302 32470 36865 42863 47425 49870 50254"""


def openai_file(name_or_path: Any) -> Path | None:
    """The `.pt` file that a path names: itself, or the only one in a folder that has no config.json."""
    if not isinstance(name_or_path, str | os.PathLike) or not os.fspath(name_or_path):
        return None
    path = Path(name_or_path).expanduser()
    if path.is_file() and path.suffix == SUFFIX:
        return path
    if path.is_dir() and not (path / "config.json").exists():
        files = sorted(path.glob(f"*{SUFFIX}"))
        return files[0] if len(files) == 1 else None
    return None


class RenamedFile:
    """A file of weights under the names of Hugging Face's."""

    def __init__(self, file: TorchFile) -> None:
        self.file, self.path, self.size = file, file.path, file.size
        self.metadata: dict[str, str] = {}
        self.names = {renamed(name): name for name in file.infos}
        self.infos: Mapping[str, TensorInfo] = {ours: file.infos[name] for ours, name in self.names.items()}

    def read(self, name: str) -> Tensor:
        return self.file.read(self.names[name])


def renamed(name: str) -> str:
    """One name of OpenAI's files as Hugging Face's have it.

    >>> renamed("decoder.blocks.3.cross_attn.out.bias")
    'decoder.layers.3.encoder_attn.out_proj.bias'
    """
    for pattern, ours in NAMES:
        if re.match(pattern, name):
            name = re.sub(pattern, ours, name)
            return re.sub(r"attn\.(query|key|value|out)\.", lambda found: f"attn.{PROJECTIONS[found[1]]}.", name)
    return name


def open_openai(path: Path, kind: type[WhisperConfig]) -> tuple[WhisperConfig, Weights]:
    """The configuration and the weights of a file."""
    file = TorchFile(path, section="model_state_dict")
    dims = JsonFields(file.about, path, ConfigError).section("dims")
    fields = {ours: dims.read(theirs, is_integer()) for theirs, ours in DIMS.items()}
    missing = [theirs for theirs, ours in DIMS.items() if fields[ours] is None]
    if missing:
        raise DamagedFileError(f"{path}: its dims lack {', '.join(missing)}")
    width = fields["hidden_size"]
    if dims.read("n_text_state", is_integer(), width) != width:
        raise ConfigError(f"{path}: n_text_state must be n_audio_state, {width}")
    end = 50257 if fields["vocab_size"] >= MULTILINGUAL else 50256
    tokens = {"pad_token_id": end, "bos_token_id": end, "eos_token_id": end, "decoder_start_token_id": end + 1}
    config = kind(**fields, intermediate_size=4 * width, **tokens)
    return config, Weights([RenamedFile(file)])  # type: ignore[list-item]


def generation_settings(config: WhisperConfig, name: str) -> dict[str, Any]:
    """What the generation_config.json of such a model says; `name` is that of its file, such as tiny.en."""
    multilingual = config.vocab_size >= MULTILINGUAL
    end = config.eos_token_id
    languages = config.vocab_size - 51765 - multilingual if multilingual else 99
    start = end + 1
    before = start + languages  # the last language
    tokens = {"translate": before + 1, "transcribe": before + 2, "lm": before + 3, "previous": before + 4}
    silent = [int(each) for each in (NON_SPEECH_MULTILINGUAL if multilingual else NON_SPEECH).split()]
    silent += [start, tokens["translate"], tokens["transcribe"], tokens["lm"], tokens["previous"], before + 5]
    settings: dict[str, Any] = {
        "begin_suppress_tokens": [220, end],
        "suppress_tokens": sorted(silent),
        "max_length": config.max_position_embeddings,
        "max_initial_timestamp_index": 50,
        "no_timestamps_token_id": before + 6,
        "is_multilingual": multilingual,
        "prev_sot_token_id": tokens["previous"],
        "alignment_heads": alignment_heads(config, name),
    }
    for each in ("bos", "eos", "pad", "decoder_start"):
        settings[f"{each}_token_id"] = getattr(config, f"{each}_token_id")
    if multilingual:
        settings["lang_to_id"] = {f"<|{code}|>": start + 1 + i for i, code in enumerate(list(LANGUAGES)[:languages])}
        settings["forced_decoder_ids"] = [[1, None], [2, tokens["transcribe"]]]  # the language is found out
        settings["task_to_id"] = {task: tokens[task] for task in ("transcribe", "translate")}
    return settings


def alignment_heads(config: WhisperConfig, name: str) -> list[list[int]]:
    """[layer, head] of the heads that follow the sound: those published for a size, else all of the upper layers."""
    known = ALIGNMENT_HEADS.get({"large": "large-v3", "turbo": "large-v3-turbo"}.get(name, name), "")
    heads = [[int(number) for number in pair.split(".")] for pair in known.split()]
    layers, count = config.decoder_layer_count, config.decoder_heads
    if heads and all(layer < layers and head < count for layer, head in heads):
        return heads
    return [[layer, head] for layer in range(layers // 2, layers) for head in range(count)]
