"""What stands before a prompt: prefixes, control tokens, and special tokens that are only text."""

from __future__ import annotations

import pytest

from glassformer import BertTokenizer, GPT2Tokenizer, InputError
from glassformer.generate.conditioning import condition


@pytest.fixture
def tokenizer(tiny_tokenizer) -> GPT2Tokenizer:
    made = GPT2Tokenizer(vocab=tiny_tokenizer.vocab, merges=list(tiny_tokenizer.merges.ranks))
    made.add_special_tokens({"additional_special_tokens": ["<joy>", "<|sad|>"]})
    made.add_tokens(["[calm]", "anger"])
    return made


@pytest.mark.parametrize(
    ("label", "token"),
    [("joy", "<joy>"), ("sad", "<|sad|>"), ("calm", "[calm]"), ("anger", "anger"), ("<joy>", "<joy>")],
)
def test_a_label_finds_its_token(tokenizer, label, token):
    rest = tokenizer.encode("Once")
    assert condition(tokenizer, "Once", label=label) == [tokenizer.convert_tokens_to_ids(token), *rest]


def test_a_label_without_a_token_lists_those_there_are(tokenizer):
    with pytest.raises(InputError, match=r"for the label 'jay'.*; its control tokens are <joy>, <\|sad\|>, \[calm"):
        condition(tokenizer, "Once", label="jay")
    plain = BertTokenizer(vocab={t: i for i, t in enumerate("[PAD] [UNK] [CLS] [SEP] [MASK] a".split())})
    with pytest.raises(InputError, match="the label 'joy'; it has no control tokens"):
        condition(plain, "a", label="joy")


def test_a_prefix_is_read_together_with_the_prompt(tokenizer):
    assert condition(tokenizer, "pon a", prefix="Once u") == tokenizer.encode("Once upon a")
    assert condition(tokenizer, "pon", prefix="u", label="joy")[0] == tokenizer.convert_tokens_to_ids("<joy>")


def test_no_token_says_that_nothing_follows():
    tokenizer = BertTokenizer(vocab={t: i for i, t in enumerate("[PAD] [UNK] [CLS] [SEP] [MASK] a b".split())})
    assert condition(tokenizer, "a b") == [5, 6]


def test_special_tokens_in_a_prompt_can_stay_text(tokenizer):
    joy = tokenizer.convert_tokens_to_ids("<joy>")
    assert joy in condition(tokenizer, "a <joy>")
    split = condition(tokenizer, "a <joy>", split_special_tokens=True)
    assert joy not in split
    assert tokenizer.decode(split, clean_up_tokenization_spaces=False) == "a <joy>"
    both = condition(tokenizer, "pon <joy>", prefix="<joy>Once u", split_special_tokens=True)
    assert both.count(joy) == 1
    assert both == [joy, *tokenizer.encode("Once upon <joy>", split_special_tokens=True)]


@pytest.mark.parametrize("wrong", [{"prompt": None}, {"prompt": ["a"]}, {"prompt": "a", "label": 3}])
def test_what_is_no_text_is_refused(tokenizer, wrong):
    with pytest.raises(InputError, match="must be a string"):
        condition(tokenizer, **wrong)
