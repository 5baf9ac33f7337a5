"""Every file of a tokenizer's folder with other contents: it loads and encodes, or an error of ours reports it."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from glassformer.errors import GlassformerError
from glassformer.text import AutoTokenizer, BertTokenizer, GPT2Tokenizer, OpenAIGPTTokenizer, RobertaTokenizer
from glassformer.text.tokenizer import PreTrainedTokenizer

from .case import Case
from .json_mutations import damage, hostile, mutate

NAME = "tokenizer files"
TEXTS = ("low lower [MASK] <mask> Q7!", "  Ünder 北京\u200d\n", "lownew er</w>", "", "a" * 120)
NAMES = [
    *("tokenizer_class", "model_max_length", "max_len", "do_lower_case", "do_basic_tokenize", "never_split"),
    *("strip_accents", "tokenize_chinese_chars", "max_input_chars_per_word", "padding_side", "truncation_side"),
    *("clean_up_tokenization_spaces", "added_tokens_decoder", "additional_special_tokens", "extra_special_tokens"),
    *("unk_token", "mask_token", "cls_token", "noi_token", "vocab_file", "merges_file", "errors", "add_prefix_space"),
    *("trim_offsets", "add_bos_token", "model_type", "normalizer", "pre_tokenizer", "post_processor", "added_tokens"),
    *("model", "name_or_path", "vocab", "merges", "kept_settings", "self", "low", "Q7", "Q9"),
]


def cases(rng: random.Random, folder: Path) -> Iterator[Case]:
    originals = []
    for kind, made in tokenizers().items():
        made.add_tokens(["Q7"])
        made.save_pretrained(folder / kind)
        write_config(folder / kind / "config.json", made)
        originals.append((folder / kind, type(made), encoded(AutoTokenizer.from_pretrained(folder / kind))))
    while True:
        original, kind, expected = rng.choice(originals)
        copy = folder / "changed"
        name = rng.choice(sorted(path.name for path in original.iterdir()))
        way, harmless, description = change(rng, original / name)
        reader = rng.choice((AutoTokenizer, kind))
        run = partial(load, original, copy, name, way, reader, expected if harmless else None)
        yield Case(f"{original.name}, {name}: {description}", run, (GlassformerError,))


def tokenizers() -> dict[str, PreTrainedTokenizer]:
    """A small tokenizer of every kind."""
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] low ##er new ! 北 京 under a ##a [ ] mask".split()
    merges = [("l", "o"), ("lo", "w"), ("e", "r"), ("Ġ", "low")]
    symbols = [*"lowernus!Ġ<>|k", *("".join(pair) for pair in merges)]
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"]
    ends = [("l", "o"), ("lo", "w</w>"), ("e", "r</w>")]
    letters = [*"lowernus!", *(letter + "</w>" for letter in "lowernus!"), *("".join(pair) for pair in ends), "<unk>"]

    def numbered(tokens: list[str]) -> dict[str, int]:
        return {token: index for index, token in enumerate(dict.fromkeys(tokens))}

    return {
        "bert": BertTokenizer(vocab=numbered(words), model_max_length=64),
        "gpt2": GPT2Tokenizer(vocab=numbered(symbols + special), merges=merges),
        "roberta": RobertaTokenizer(vocab=numbered(symbols + special), merges=merges),
        "openai-gpt": OpenAIGPTTokenizer(vocab=numbered(letters), merges=ends),
    }


def write_config(path: Path, tokenizer: PreTrainedTokenizer) -> None:
    types = {"BertTokenizer": "bert", "GPT2Tokenizer": "gpt2", "OpenAIGPTTokenizer": "openai-gpt"}
    path.write_text(json.dumps({"model_type": types.get(type(tokenizer).__name__, "roberta")}))


def change(rng: random.Random, path: Path) -> tuple[Callable[[Path], Any], bool, str]:
    """What is done to a file, whether the tokenizer must remain the same, and a description."""
    raw = path.read_bytes()
    kind = rng.random()
    if path.suffix == ".json" and kind < 0.7:
        value, done = mutate(rng, json.loads(raw), NAMES)
        return lambda changed: changed.write_text(json.dumps(value), encoding="utf-8"), False, done
    if path.suffix == ".json" and kind < 0.8 and path.name not in ("vocab.json", "added_tokens.json"):
        value, new = json.loads(raw), hostile(rng)
        text = json.dumps({"a_key_of_later_years": new, **value}, indent=rng.choice((None, 1)))
        new = f"{new!r:.60}".encode("ascii", "backslashreplace").decode()
        return lambda changed: changed.write_text(text, encoding="utf-8"), True, f"a key nobody reads = {new}"
    if kind < 0.85:
        return lambda changed: changed.unlink(), False, "missing"
    if kind < 0.88:
        return lambda changed: (changed.unlink(), changed.mkdir()), False, "a folder"
    cut, done = damage(rng, raw)
    return lambda changed: changed.write_bytes(cut), False, done


def load(original: Path, copy: Path, name: str, way: Callable[[Path], Any], reader: Any, expected: list | None) -> None:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(original, copy)
    way(copy / name)
    tokenizer = reader.from_pretrained(copy)
    repr(tokenizer), len(tokenizer), tokenizer.all_special_ids, tokenizer.max_len_sentences_pair
    ids = encoded(tokenizer)
    if expected is not None:
        assert ids == expected, "another tokenizer"
    tokenizer.save_pretrained(copy / "again")
    again = encoded(type(tokenizer).from_pretrained(copy / "again"))
    assert again == ids, f"saved and read again it gives other ids: {again} instead of {ids}"


def encoded(tokenizer: PreTrainedTokenizer) -> list[Any]:
    """What the texts give: ids, or the error that a text has."""
    found: list[Any] = []
    for text in TEXTS:
        try:
            ids = tokenizer(text)["input_ids"]
            tokenizer(text, text, return_offsets_mapping=True, truncation=True, max_length=12)
            tokenizer.decode(ids), tokenizer.convert_ids_to_tokens(ids)
            found.append(ids)
        except GlassformerError as error:
            found.append(type(error).__name__)
    return found
