"""Equality with recorded outputs of the original tokenizer, and with the tutorials."""

from __future__ import annotations

import json
import re

import pytest

from glassformer.text import AlbertTokenizer, BertTokenizer, GPT2Tokenizer, RobertaTokenizer
from glassformer.text.wordpiece.spacing import join_word_pieces

from ..conftest import SHARED

KINDS = {kind.__name__: kind for kind in (AlbertTokenizer, BertTokenizer, GPT2Tokenizer, RobertaTokenizer)}
CASES = [
    path
    for start in ("albert", "bert", "gpt2", "roberta")
    for path in sorted((SHARED / "golden" / "tokenizers").glob(f"{start}*.json"))
]
BESIDE_CHINESE = re.compile(r" ?([\u3400-\u9fff\uf900-\ufaff]) ?")


def without_chinese_spaces(text):
    return [BESIDE_CHINESE.sub(r"\1", each) for each in ([text] if isinstance(text, str) else text)]


@pytest.mark.parametrize("path", CASES or [None], ids=lambda path: path.stem if path else "none")
def test_recorded_cases(path, shared):
    recorded = json.loads(path.read_text(encoding="utf-8"))
    kind = KINDS[recorded["class"]]
    tokenizer = kind.from_pretrained(path.parent / recorded["vocab"], **recorded["init"])
    for group, entries in recorded["groups"].items():
        for entry in entries:
            text = entry["text"]
            if group == "tokenize":
                assert tokenizer.tokenize(text) == entry["tokens"], text
                continue
            encoded = tokenizer(
                text,
                entry.get("text_pair"),
                return_token_type_ids=True,
                return_attention_mask=True,
                **entry.get("kwargs", {}),
            )
            for key in ("input_ids", "token_type_ids", "attention_mask"):
                assert encoded[key] == entry.get(key, encoded[key]), (text, key)
            back = tokenizer.decode if isinstance(text, str) else tokenizer.batch_decode
            for key, skip in (("decoded", False), ("decoded_no_special", True)):
                if key in entry:
                    ours = back(encoded["input_ids"], skip_special_tokens=skip)
                    assert without_chinese_spaces(ours) == without_chinese_spaces(entry[key]), text
            if "tokens" in entry and isinstance(text, str):
                assert tokenizer.convert_ids_to_tokens(encoded["input_ids"]) == entry["tokens"]


@pytest.mark.parametrize("name", ["bert-bge", "gpt-2"])
def test_vectors_of_llama_cpp(shared, published, gpt2, name):
    tokenizer = gpt2 if name == "gpt-2" else published("uncased")
    base = shared / "vocab" / "llama-cpp-vectors" / f"ggml-vocab-{name}.gguf"
    texts = base.with_suffix(".gguf.inp").read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
    expected = base.with_suffix(".gguf.out").read_text().split("\n")
    assert len(texts) == len(expected) == 47
    for text, ids in zip(texts, expected, strict=True):
        assert tokenizer.encode(text, add_special_tokens=False) == list(map(int, ids.split())), text


def test_ids_in_the_tutorials(published):
    tokenizer = published("uncased")
    encoded = tokenizer("I like natural language progressing!")
    assert str(encoded) == (
        "{'input_ids': [101, 1045, 2066, 3019, 2653, 27673, 999, 102], "
        "'token_type_ids': [0, 0, 0, 0, 0, 0, 0, 0], 'attention_mask': [1, 1, 1, 1, 1, 1, 1, 1]}"
    )
    assert tokenizer.encode("The [MASK] sat")[2] == 103
    assert tokenizer.all_special_ids == [100, 102, 0, 101, 103]
    assert tokenizer.decode([101, 2651, 2003, 2025, 2008, 2919, 102]) == "[CLS] today is not that bad [SEP]"
    assert tokenizer.unk_token_id not in tokenizer.encode("2023 progressing unaffable well-known B2B qwpeoriutzlk")


def test_chinese_decodes_without_spaces(published):
    tokenizer = published("chinese")
    for text in ("春天来了，花开了。", "我有3个苹果！", "《红楼梦》（上）"):
        assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=True) == text
    assert tokenizer.decode(tokenizer.encode("我用python写代码")) == "[CLS] 我用 python 写代码 [SEP]"
    assert join_word_pieces(list("他说：“你好”。"), ()) == "他说：“你好”。"
    english = "“ quoted ” — text …"
    assert published("uncased").convert_tokens_to_string(english.split()) == english
