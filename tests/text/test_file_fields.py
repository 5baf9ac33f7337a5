"""Fields of tokenizer files with values of a wrong type: the error names the file, the field and the value."""

from __future__ import annotations

import json

import pytest

from glassformer.errors import TokenizerError
from glassformer.text import AlbertTokenizer, AutoTokenizer, BertTokenizer, DebertaV2Tokenizer, OpenAIGPTTokenizer

from ..campaigns.tokenizer_files import sentencepiece_folder

CONFIG, SPECIAL, ADDED, ENGINE = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "tokenizer.json",
)

WRONG = [
    (CONFIG, "do_lower_case", "yes", "tokenizer_config.json: do_lower_case must be true or false, got 'yes'"),
    (CONFIG, "strip_accents", 1, "tokenizer_config.json: strip_accents must be true or false, got 1"),
    (CONFIG, "do_basic_tokenize", [], r"do_basic_tokenize must be true or false, got \[\]"),
    (CONFIG, "never_split", 5, "never_split must be a list of words, got 5"),
    (CONFIG, "max_input_chars_per_word", "9", "max_input_chars_per_word must be an integer from 1 to .*, got '9'"),
    (CONFIG, "model_max_length", -1, "model_max_length must be an integer from 1 to .*, got -1"),
    (CONFIG, "model_max_length", [512], r"model_max_length must be an integer from 1 to .*, got \[512\]"),
    (CONFIG, "additional_special_tokens", "[MASK]", r"must be a list of tokens, got '\[MASK\]'"),
    (CONFIG, "extra_special_tokens", 3, "extra_special_tokens must be an object with named values, got 3"),
    (CONFIG, "added_tokens_decoder", [], r"added_tokens_decoder must be an object with named values, got \[\]"),
    (CONFIG, "added_tokens_decoder", {"1": {"content": "x", "lstrip": "no"}}, "lstrip must be true or false, got 'no'"),
    (CONFIG, "added_tokens_decoder", {"9" * 5000: "x"}, "an id must be a whole number below"),
    (SPECIAL, "mask_token", {"content": 5}, "a token must be a string that is not empty"),
    (SPECIAL, "mask_token", "\ud800", "a token must be a string of whole characters"),
    (ADDED, "Q7", 2**40, "added_tokens.json: an id must be a whole number below 16777216, got 1099511627776"),
    (ADDED, "Q7", "²", "an id must be a whole number"),
    (ENGINE, "model", [], r"tokenizer.json: model must be an object with named values, got \[\]"),
    (ENGINE, "model", {"type": []}, r"tokenizer.json: model.type must be a string, got \[\]"),
    (ENGINE, "normalizer", "BertNormalizer", "normalizer must be an object with named values, got 'BertNormalizer'"),
    (ENGINE, "pre_tokenizer", [1], r"pre_tokenizer must be an object with named values, got \[1\]"),
    (ENGINE, "added_tokens", 7, "added_tokens must be a list, got 7"),
]


@pytest.fixture
def saved(small, tmp_path):
    small.save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


@pytest.mark.parametrize(("file", "field", "value", "message"), WRONG, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("kind", [BertTokenizer, AutoTokenizer])
def test_a_wrong_type_is_an_error_that_names_file_and_field(kind, saved, file, field, value, message):
    path = saved / file
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), field: value}))
    with pytest.raises(TokenizerError, match=message) as caught:
        kind.from_pretrained(saved)
    assert len(str(caught.value).splitlines()) == 1 and len(str(caught.value)) < 400


@pytest.mark.parametrize(("field", "value"), [(field, value) for file, field, value, _ in WRONG[:9]])
def test_a_call_has_the_same_check(small, field, value):
    with pytest.raises(TokenizerError, match=field):
        BertTokenizer(vocab=small.vocab, **{field: value})


@pytest.mark.parametrize("vocab", [{"[UNK]": "x"}, {"[UNK]": -1}, {"[UNK]": 0, 5: 1}, {"a": 0, "b": 0}, [], 7])
def test_a_vocabulary_has_tokens_with_different_ids(vocab):
    with pytest.raises(TokenizerError):
        BertTokenizer(vocab=vocab)


def test_a_null_stands_for_the_default_and_unknown_keys_are_kept(saved, small):
    path = saved / CONFIG
    values = {"padding_side": None, "never_split": None, "clean_up_tokenization_spaces": None, "later": {"\ud800": [1]}}
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    made = AutoTokenizer.from_pretrained(saved)
    assert made.padding_side == "right" and made.clean_up_tokenization_spaces is True
    assert made("the fox")["input_ids"] == small("the fox")["input_ids"]
    made.save_pretrained(saved)
    assert json.loads(path.read_text())["later"] == {"\ud800": [1]}
    assert AutoTokenizer.from_pretrained(saved).init_kwargs == made.init_kwargs


def test_an_unknown_token_that_was_added_later_is_found(tmp_path):
    """The engine knows no added tokens, so texts with unknown letters are read by the readable algorithm."""
    made = OpenAIGPTTokenizer(vocab={"a": 0, "a</w>": 1}, merges=[], added_tokens={2: "<unk>"})
    assert made("a b aa")["input_ids"] == [1, 2, 0, 1]


def test_words_unknown_to_a_bert_tokenizer_have_the_id_of_a_token_that_was_added_later(tmp_path):
    made = BertTokenizer(vocab={"a": 0, "##b": 1}, added_tokens={2: "[UNK]"}, **dict.fromkeys(WITHOUT))
    made.save_pretrained(tmp_path)
    for each in (made, BertTokenizer.from_pretrained(tmp_path)):
        assert each(["ab ü x", "a"])["input_ids"] == [[0, 1, 2, 2], [0]]
        assert each._reference_pieces("ab ü x", False).ids == [0, 1, 2, 2]


WITHOUT = ("cls_token", "sep_token", "pad_token", "mask_token")


@pytest.mark.parametrize(
    ("kind", "file", "place", "value", "message"),
    [
        (DebertaV2Tokenizer, CONFIG, ("added_tokens_decoder", "1"), [1], r"a token must be a string .*, got \[1\]"),
        (DebertaV2Tokenizer, CONFIG, ("added_tokens_decoder", "1", "content"), {}, "a token must be a string"),
        (AlbertTokenizer, ENGINE, ("added_tokens", 1, "content"), {"a": 1}, "a token must be a string"),
        (AlbertTokenizer, ENGINE, ("model", "vocab", 7, 1), 10**400, "entry 7 of the vocabulary: the score must be"),
        (AlbertTokenizer, ENGINE, ("model", "vocab", 7, 1), float("nan"), "the score must be a number, got nan"),
    ],
)
def test_files_of_sentencepiece_vocabularies(tmp_path, kind, file, place, value, message):
    kind.from_pretrained(sentencepiece_folder(kind, tmp_path, "unigram")).save_pretrained(tmp_path / "saved")
    path = tmp_path / "saved" / file
    changed = owner = json.loads(path.read_text())
    for key in place[:-1]:
        owner = owner[key]
    owner[place[-1]] = value
    path.write_text(json.dumps(changed))
    (tmp_path / "saved" / kind.vocab_files_names["vocab_file"]).unlink()
    with pytest.raises(TokenizerError, match=message):
        kind.from_pretrained(tmp_path / "saved")


def test_special_tokens_may_hold_spaces(tmp_path):
    vocab = {"[UNK]": 0, "[PAD]": 1, "[MASK]": 2, "end of text": 3, "a b": 4, "x": 5}
    made = BertTokenizer(vocab=vocab, sep_token="end of text", cls_token="a b")
    made.save_pretrained(tmp_path)
    assert BertTokenizer.from_pretrained(tmp_path)("x")["input_ids"] == made("x")["input_ids"] == [4, 5, 3]
