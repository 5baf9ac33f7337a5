"""Padding, truncation, offsets, words and pairs of the BPE tokenizers, against live transformers."""

from __future__ import annotations

import itertools

import pytest

from glassformer.errors import ArgumentError, InputError, TokenizerError
from glassformer.text import GPT2Tokenizer, RobertaTokenizer

LONG = "The quick brown fox's naïve\n\n  cousin<|endoftext|> jumped over 北京 and 🎉, didn't it?"
SHORT = " one two three four five"
TEXTS = [(LONG, None), (SHORT, None), ("", None), (LONG, SHORT), (SHORT, LONG), ("", LONG), (LONG, LONG)]
TEXTS += [([LONG, SHORT, ""], None), ([LONG, SHORT, ""], [SHORT, LONG, LONG])]


@pytest.fixture(scope="module")
def transformers():
    transformers = pytest.importorskip("transformers", minversion="5", reason="compared with transformers 5")
    transformers.logging.set_verbosity_error()
    return transformers


@pytest.fixture(scope="module")
def peer(transformers, shared):
    return transformers.GPT2Tokenizer.from_pretrained(shared / "vocab" / "gpt2", pad_token="<|endoftext|>")


@pytest.mark.parametrize("truncation", [True, "only_first", "only_second", False])
@pytest.mark.parametrize("side", ["right", "left"])
def test_every_mode_against_transformers(peer, shared, truncation, side):
    ours = GPT2Tokenizer.from_pretrained(
        shared / "vocab" / "gpt2", pad_token="<|endoftext|>", truncation_side=side, padding_side=side
    )
    peer.truncation_side = peer.padding_side = side
    compared = 0
    modes = itertools.product(TEXTS, (8, 20), (0, 1), (False, True), (False, True, "max_length"), (None, 4))
    for (text, pair), length, stride, overflow, padding, multiple in modes:
        options = {
            "truncation": truncation,
            "max_length": length,
            "stride": stride if overflow else 0,
            "return_overflowing_tokens": overflow,
            "padding": padding,
            "pad_to_multiple_of": multiple,
            "return_token_type_ids": True,
            "return_offsets_mapping": True,
            "return_special_tokens_mask": True,
        }
        try:
            theirs = dict(peer(text, pair, **options))
        except BaseException as error:  # the engine's panics are not Exceptions
            if isinstance(error, KeyboardInterrupt):
                raise
            with pytest.raises(InputError):
                ours(text, pair, **options)
            continue
        assert dict(ours(text, pair, **options)) == theirs, options
        compared += 1
    assert compared > 100


SAMPLES = [LONG, SHORT, "", " ", "  two  spaces ", "世", "a\n b", "x\u00a0y", "<s>a</s>", "e\u0301 👩\u200d💻", "\x00"]


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("kind", [GPT2Tokenizer, RobertaTokenizer])
def test_offsets_against_transformers(transformers, shared, kind, prefix):
    folder = shared / "vocab" / {"GPT2Tokenizer": "gpt2", "RobertaTokenizer": "roberta-base"}[kind.__name__]
    ours = kind.from_pretrained(folder, add_prefix_space=prefix)
    theirs = getattr(transformers, kind.__name__).from_pretrained(folder, add_prefix_space=prefix)
    compared = 0
    for text in SAMPLES:
        a, b = ours(text, return_offsets_mapping=True), theirs(text, return_offsets_mapping=True)
        if prefix and a["input_ids"] != b["input_ids"]:
            continue  # the original puts one space before a text, the engine before each stretch that has none
        assert dict(a) == dict(b), text
        assert a.word_ids() == b.word_ids(), text
        compared += 1
    assert compared >= (5 if prefix else len(SAMPLES))


def test_words(shared, roberta, gpt2, transformers):
    """A space is thought before each word, whether or not the tokenizer puts one before texts."""
    words = ["Hello", "naïve", "<|endoftext|>", "", "x"]
    assert gpt2(words, is_split_into_words=True).tokens() == [
        *("ĠHello", "ĠnaÃ¯ve", "Ġ", "<|endoftext|>", "Ġ", "Ġx"),
    ]
    ours = roberta(["Hello", " naïve", "<mask>", "x"], is_split_into_words=True, return_offsets_mapping=True)
    assert ours.tokens() == ["<s>", "ĠHello", "ĠnaÃ¯ve", "<mask>", "Ġx", "</s>"]
    assert ours.word_ids() == [None, 0, 1, 2, 3, None]
    assert ours["offset_mapping"] == [(0, 0), (0, 5), (1, 6), (0, 6), (0, 1), (0, 0)]
    peer = transformers.RobertaTokenizer.from_pretrained(shared / "vocab" / "roberta-base", add_prefix_space=True)
    plain = ["Hello", "naïve", "x", "北京"]
    theirs = peer(plain, is_split_into_words=True, return_offsets_mapping=True)
    assert dict(roberta(plain, is_split_into_words=True, return_offsets_mapping=True)) == dict(theirs)


def test_keys_and_templates(gpt2, roberta, openai_gpt, shared):
    assert list(gpt2("a b")) == list(openai_gpt("a b")) == list(roberta("a b")) == ["input_ids", "attention_mask"]
    assert gpt2("a", "b", return_token_type_ids=True)["token_type_ids"] == [0, 1]
    assert roberta("a", "b").tokens() == ["<s>", "a", "</s>", "</s>", "b", "</s>"]
    assert roberta("a", "b", return_token_type_ids=True)["token_type_ids"] == [0] * 6
    assert roberta("a", "b").sequence_ids() == [None, 0, None, None, 1, None]
    assert roberta.encode("Hello <mask> world") == [0, 31414, 50264, 232, 2]
    bos = GPT2Tokenizer.from_pretrained(shared / "vocab" / "gpt2", add_bos_token=True)
    assert bos("a", "b").tokens() == ["<|endoftext|>", "a", "<|endoftext|>", "b"]
    assert bos.encode("a", add_special_tokens=False) == gpt2.encode("a")
    assert bos.num_special_tokens_to_add(pair=True) == 2
    bos.bos_token = None
    with pytest.raises(TokenizerError, match="bos_token is None"):
        bos("a")


def test_padding_needs_a_token(shared):
    made = GPT2Tokenizer.from_pretrained(shared / "vocab" / "gpt2")
    with pytest.raises(InputError, match=r"tokenizer\.pad_token = tokenizer\.eos_token"):
        made(["a", "b c"], padding=True)
    made.pad_token = made.eos_token
    assert made(["a", "b c"], padding=True)["attention_mask"] == [[1, 0], [1, 1]]
    assert made.pad_token_id == 50256
    made.add_special_tokens({"pad_token": "[PAD]"})
    assert made(["a", "b c"], padding=True)["input_ids"][0][1] == 50257 == len(made) - 1


def test_added_tokens_keep_the_spaces_around_them(shared):
    made = GPT2Tokenizer.from_pretrained(shared / "vocab" / "gpt2")
    made.add_tokens(["newtok"])
    assert made.tokenize("a newtok b") == ["a", "Ġ", "newtok", "Ġb"]
    ids = made.encode("a newtok b")
    text = made.decode(ids, spaces_between_special_tokens=False, clean_up_tokenization_spaces=False)
    assert text == "a newtok b"


def test_openai_gpt(openai_gpt):
    assert openai_gpt.tokenize("Bachelorettes, CAFÉ!") == ["bachel", "ore", "ttes</w>", ",</w>", "cafe</w>", "!</w>"]
    encoded = openai_gpt("Bachelorettes 北京", return_offsets_mapping=True)
    assert encoded["input_ids"][-2:] == [openai_gpt.unk_token_id] * 2
    assert openai_gpt.tokenize("北") == ["北</w>"]
    assert encoded["offset_mapping"] == [(0, 6), (6, 9), (9, 13), (14, 15), (15, 16)]
    assert openai_gpt.encode("<unk>") == [0]
    assert openai_gpt.decode(openai_gpt.encode("Hello, World! It's fine.")) == "hello, world! it's fine."
    with pytest.raises(TokenizerError, match="needs an unk_token"):
        openai_gpt.unk_token = None


def test_misspelt_settings_are_named(shared):
    with pytest.raises(ArgumentError, match="did you mean 'add_prefix_space'"):
        GPT2Tokenizer.from_pretrained(shared / "vocab" / "gpt2", add_prefixspace=True)
    with pytest.raises(TokenizerError, match=r"no '\[PAD\]' \(pad_token\)"):
        GPT2Tokenizer.from_pretrained(shared / "vocab" / "gpt2", pad_token="[PAD]")
