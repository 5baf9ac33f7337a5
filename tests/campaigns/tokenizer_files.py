"""Every file of a tokenizer's folder with other contents: it loads and encodes, or an error of ours reports it."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from glassformer import registry
from glassformer.errors import GlassformerError
from glassformer.text import AutoTokenizer
from glassformer.text.sentencepiece.charsmap_writer import compile_rules
from glassformer.text.sentencepiece.model_file import (
    BPE,
    CONTROL,
    UNIGRAM,
    UNKNOWN,
    USER_DEFINED,
    Normalization,
    Piece,
    SentencePieceModel,
    write_model,
)
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
    for name in sorted({path.rpartition(".")[2] for path in registry.TOKENIZERS.values()}):
        for way, made in enumerate(tokenizers(registry.import_class(f"text.{registry.TOKENIZERS[name]}"), folder)):
            made.add_tokens(["Q7"])
            kept = folder / f"{name}-{way}"
            made.save_pretrained(kept)
            if way == 1:  # by its tokenizer.json alone
                for file in type(made).vocab_files_names.values():
                    (kept / file).unlink()
            (kept / "config.json").write_text(json.dumps({"model_type": "bert"}))  # tokenizer_config.json says more
            originals.append((kept, type(made), encoded(AutoTokenizer.from_pretrained(kept))))
    while True:
        original, kind, expected = rng.choice(originals)
        copy = folder / "changed"
        name = rng.choice(sorted(path.name for path in original.iterdir()))
        way, harmless, description = change(rng, original / name)
        reader = rng.choice((AutoTokenizer, kind))
        run = partial(load, original, copy, name, way, reader, expected if harmless else None)
        yield Case(f"{original.name}, {name}: {description}", run, (GlassformerError,))


def tokenizers(kind: type[PreTrainedTokenizer], folder: Path) -> Iterator[PreTrainedTokenizer]:
    """Small tokenizers of a kind: one that is saved with its vocabulary, and one that may be saved without it."""
    files = set(kind.vocab_files_names)
    if files == {"vocab_file"} and issubclass(kind, registry.import_class("text.bert_tokenizer.BertTokenizer")):
        words = "[PAD] [UNK] [CLS] [SEP] [MASK] <unk> <sep> <pad> <cls> <mask> <s> </s>".split()
        words += "low ##er new ! 北 京 under a ##a [ ] mask".split()
        made = [kind(vocab=numbered(words), model_max_length=64)] * 2
    elif kind.__name__ == "TransfoXLTokenizer":
        made = [kind(vocab=numbered("<eos> <unk> <formula> low lower new ! , @,@ a".split()))]
    elif kind.__name__ == "OpenAIGPTTokenizer":
        ends = [("l", "o"), ("lo", "w</w>"), ("e", "r</w>")]
        letters = [*"lowernus!", *(letter + "</w>" for letter in "lowernus!"), *map("".join, ends), "<unk>"]
        made = [kind(vocab=numbered(letters), merges=ends)] * 2
    elif files == {"vocab_file", "merges_file"}:
        merges = [("l", "o"), ("lo", "w"), ("e", "r"), ("Ġ", "low")]
        symbols = [*"lowernus!Ġ<>|k", *map("".join, merges), "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"]
        made = [kind(vocab=numbered(symbols + special), merges=merges)] * 2
    else:
        made = [kind.from_pretrained(sentencepiece_folder(kind, folder, way)) for way in (UNIGRAM, UNIGRAM, BPE)]
    yield from made


def numbered(tokens: list[str]) -> dict[str, int]:
    return {token: index for index, token in enumerate(dict.fromkeys(tokens))}


def sentencepiece_folder(kind: type[PreTrainedTokenizer], folder: Path, algorithm: str) -> Path:
    """A folder with a model file of a few pieces, some of them in the places of the special tokens."""
    special = {
        "AlbertTokenizer": "<pad> <unk> [CLS] [SEP] [MASK]",
        "DebertaV2Tokenizer": "[PAD] [CLS] [SEP] [UNK]",
        "T5Tokenizer": "<pad> </s> <unk>",
        "XLNetTokenizer": "<unk> <s> </s> <cls> <sep> <pad> <mask> <eod> <eop>",
        "CamembertTokenizer": "<unk> <s> </s>",
        "XLMRobertaTokenizer": "<unk> <s> </s>",
    }.get(kind.__name__, "<unk> <s> </s> <pad> [CLS] [SEP] [MASK]")
    unknown = ("<unk>", "[UNK]")
    pieces = [Piece(each, 0.0, UNKNOWN if each in unknown else CONTROL) for each in special.split()]
    texts = [
        "\u2581",
        "l",
        "o",
        "w",
        "e",
        "r",
        "n",
        "s",
        "lo",
        "low",
        "er",
        "\u2581low",
        "\u2581new",
        "北",
        "京",
        "ü",
        "a",
        "1",
        "aa",
    ]
    pieces += [Piece(text, -1.0 - number) for number, text in enumerate(texts)] + [Piece(".", 0.0, USER_DEFINED)]
    rules = compile_rules({"Ü": "ü", "U\u0308": "ü", "ﬁ": "fi", "\u3000": " "})
    model = SentencePieceModel(tuple(pieces), algorithm, Normalization(rules, name="few"))
    place = folder / f"made-{kind.__name__}-{algorithm}"
    place.mkdir(exist_ok=True)
    (place / kind.vocab_files_names["vocab_file"]).write_bytes(write_model(model))
    return place


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
