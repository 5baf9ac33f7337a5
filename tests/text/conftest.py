"""Vocabularies for the tests: the published ones where they are at hand, and a small one that always is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer.text import AlbertTokenizer, BertTokenizer, GPT2Tokenizer, OpenAIGPTTokenizer, RobertaTokenizer
from glassformer.text.sentencepiece.model_file import (
    CONTROL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Piece,
    SentencePieceModel,
)

SMALL = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the quick brown fox un ##aff ##able jump ##ed , . ! ? a b c ##a ##b ##c "
    "one two three four five six seven 北 京 ， cafe nasa new ##tok e1 well - known [ ] mask x"
).split()


@pytest.fixture(scope="session")
def published(shared):
    """Makes a tokenizer from a published vocabulary: published("uncased", never_split=[...])."""
    return lambda name, **settings: BertTokenizer.from_pretrained(shared / "vocab" / f"bert-base-{name}", **settings)


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with nothing but a small vocab.txt."""
    (tmp_path / "vocab.txt").write_text("\n".join(SMALL) + "\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def small(folder) -> BertTokenizer:
    return BertTokenizer.from_pretrained(folder)


@pytest.fixture(scope="session")
def gpt2(shared) -> GPT2Tokenizer:
    return GPT2Tokenizer.from_pretrained(shared / "vocab" / "gpt2", clean_up_tokenization_spaces=False)


@pytest.fixture(scope="session")
def roberta(shared) -> RobertaTokenizer:
    return RobertaTokenizer.from_pretrained(shared / "vocab" / "roberta-base")


@pytest.fixture(scope="session")
def openai_gpt(shared) -> OpenAIGPTTokenizer:
    return OpenAIGPTTokenizer.from_pretrained(shared / "vocab" / "openai-gpt")


@pytest.fixture
def bpe_folder(tmp_path) -> Path:
    """A folder with a small vocab.json and merges.txt: not even every byte is in it."""
    merges = ["l o", "lo w", "e r", "Ġ low", "Ġ n"]
    tokens = ["l", "o", "w", "e", "r", "n", "Ġ", "!", *(pair.replace(" ", "") for pair in merges), "<|endoftext|>"]
    (tmp_path / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}), encoding="utf-8")
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n", encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="session")
def albert(shared) -> AlbertTokenizer:
    return AlbertTokenizer.from_pretrained(shared / "vocab" / "albert-base-v2")


def small_model(**settings) -> SentencePieceModel:
    """A Unigram model with a few pieces, as a file would describe it."""
    pieces = [
        Piece("<unk>", 0.0, UNKNOWN),
        Piece("<s>", 0.0, CONTROL),
        Piece("</s>", 0.0, CONTROL),
        *(Piece(char, -6.0 - number / 16) for number, char in enumerate("\u2581abcdehlorw,.19")),
        Piece("\u2581hello", -3.0),
        Piece("\u2581wor", -4.5),
        Piece("ld", -4.0),
        Piece("lo", -4.25),
        Piece("ll", -4.25),
        Piece("\u25819,", -4.0),
        Piece("<x>", 0.0, USER_DEFINED),
        Piece("zz", -2.0, UNUSED),
    ]
    return SentencePieceModel(tuple(pieces), **settings)
