"""New tokenizers from text: pieces, bytes, characters and whole words, in folders that read back the same."""

from __future__ import annotations

import pytest

import glassformer
from glassformer.errors import InputError

TEXTS = ["the cat sat on the mat\n", "the dog 爱 the café\n", "a cat <unk> a cat\n"] * 3


@pytest.mark.parametrize(
    "kind, settings, name",
    [
        ("wordpiece", {"vocab_size": 60}, "BertTokenizer"),
        ("bpe", {"vocab_size": 280}, "GPT2Tokenizer"),
        ("characters", {}, "GPT2Tokenizer"),
        ("words", {}, "BertTokenizer"),
    ],
)
def test_a_new_tokenizer_reads_back_the_same(tmp_path, kind, settings, name):
    made = glassformer.train_tokenizer(iter(TEXTS), kind, **settings)
    assert type(made).__name__ == name
    made.save_pretrained(tmp_path)
    again = glassformer.AutoTokenizer.from_pretrained(tmp_path)
    assert again.get_vocab() == made.get_vocab() and again.special_tokens_map == made.special_tokens_map
    text = "the cat 爱 the hat"
    assert again.encode(text, add_special_tokens=False) == made.encode(text, add_special_tokens=False)


def test_every_character_is_one_token_and_no_text_is_unknown():
    made = glassformer.train_tokenizer(iter(["the café 爱\n"]), "characters")
    assert len(made) == 256 + 3 + 1  # é has one byte more, 爱 two
    for text in ("a café", "爱爱\n", "the"):
        assert len(made.encode(text)) == len(text) and made.decode(made.encode(text)) == text
    assert len(made.encode("京")) == 3 and made.decode(made.encode("京")) == "京"


@pytest.mark.parametrize("kind", ["bpe", "characters"])
def test_bytes_give_back_every_text_as_it_was(tmp_path, kind):
    glassformer.train_tokenizer(iter(TEXTS), kind).save_pretrained(tmp_path)
    again = glassformer.AutoTokenizer.from_pretrained(tmp_path)
    for text in ("do n't sit on the mat .", " the  cat , a dog !\n"):
        assert again.decode(again.encode(text)) == text


def test_words_are_cut_at_spaces_alone_and_counted_as_usual():
    made = glassformer.train_tokenizer(iter(TEXTS), "words")
    assert list(made.vocab)[:4] == ["<eos>", "<unk>", "the", "cat"]
    assert made.tokenize("The cat, the cat <unk> <eos>") == ["<unk>", "<unk>", "the", "cat", "<unk>", "<eos>"]
    assert made("the  cat", add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"] == [(0, 3), (5, 8)]
    assert len(made) == 2 + len(set(" ".join(TEXTS).split()) - {"<unk>"})
    assert len(glassformer.train_tokenizer(iter(TEXTS), "words", vocab_size=4)) == 4
    assert "dog" not in glassformer.train_tokenizer(iter(TEXTS), "words", min_frequency=4).vocab


def test_what_has_no_special_tokens_adds_none():
    made = glassformer.train_tokenizer(["a b b"], "words")
    assert made("b a")["input_ids"] == made("b a", add_special_tokens=False)["input_ids"] == made.encode("b a")
    assert made.decode(made.encode("b", "a")) == "b a"


def test_settings_that_nobody_reads_are_refused():
    for kind, settings, message in (
        ("letters", {}, "one of wordpiece, bpe, unigram, characters, words, got 'letters'"),
        ("words", {"lowercase": True}, "lowercase is for wordpiece"),
        ("characters", {"vocab_size": 9}, "vocab_size is not for characters"),
    ):
        with pytest.raises(InputError, match=message):
            glassformer.train_tokenizer(iter(TEXTS), kind, **settings)
