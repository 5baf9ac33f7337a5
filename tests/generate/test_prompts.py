"""Prompts to ids: prefixes, control tokens, and special tokens that are only text."""

from __future__ import annotations

import pytest

from glassformer import BertTokenizer, GPT2Tokenizer, InputError
from glassformer.generate.prompts import encode_prompt


@pytest.fixture
def tokenizer(tiny_tokenizer) -> GPT2Tokenizer:
    tokenizer = GPT2Tokenizer(vocab=tiny_tokenizer.vocab, merges=list(tiny_tokenizer.merges.ranks))
    tokenizer.add_special_tokens({"additional_special_tokens": ["<joy>", "<|sad|>"]})
    tokenizer.add_tokens(["[calm]", "anger"])
    return tokenizer


@pytest.mark.parametrize(
    ("label", "token"),
    [("joy", "<joy>"), ("sad", "<|sad|>"), ("calm", "[calm]"), ("anger", "anger"), ("<joy>", "<joy>")],
)
def test_control_token_of_a_label(tokenizer, label, token):
    rest = tokenizer.encode("Once")
    assert encode_prompt(tokenizer, "Once", label=label) == [tokenizer.convert_tokens_to_ids(token), *rest]


def test_a_label_without_a_token_lists_the_control_tokens(tokenizer):
    with pytest.raises(InputError, match=r"for the label 'jay'.*; its control tokens are <joy>, <\|sad\|>, \[calm"):
        encode_prompt(tokenizer, "Once", label="jay")
    plain = BertTokenizer(vocab={t: i for i, t in enumerate("[PAD] [UNK] [CLS] [SEP] [MASK] a".split())})
    with pytest.raises(InputError, match="the label 'joy'; it has no control tokens"):
        encode_prompt(plain, "a", label="joy")


def test_prefix_and_prompt_are_tokenized_together(tokenizer):
    assert encode_prompt(tokenizer, "pon a", prefix="Once u") == tokenizer.encode("Once upon a")
    assert encode_prompt(tokenizer, "pon", prefix="u", label="joy")[0] == tokenizer.convert_tokens_to_ids("<joy>")


def test_no_special_tokens_are_added():
    tokenizer = BertTokenizer(vocab={t: i for i, t in enumerate("[PAD] [UNK] [CLS] [SEP] [MASK] a b".split())})
    assert encode_prompt(tokenizer, "a b") == [5, 6]


def test_special_tokens_in_a_prompt_can_be_text(tokenizer):
    joy = tokenizer.convert_tokens_to_ids("<joy>")
    assert joy in encode_prompt(tokenizer, "a <joy>")
    split = encode_prompt(tokenizer, "a <joy>", split_special_tokens=True)
    assert joy not in split
    assert tokenizer.decode(split, clean_up_tokenization_spaces=False) == "a <joy>"
    both = encode_prompt(tokenizer, "pon <joy>", prefix="<joy>Once u", split_special_tokens=True)
    assert both.count(joy) == 1
    assert both == [joy, *tokenizer.encode("Once upon <joy>", split_special_tokens=True)]


@pytest.mark.parametrize("wrong", [{"prompt": None}, {"prompt": ["a"]}, {"prompt": "a", "label": 3}])
def test_other_types_are_refused(tokenizer, wrong):
    with pytest.raises(InputError, match="must be a string"):
        encode_prompt(tokenizer, **wrong)
