"""Transformer-XL's tokenizer: words by the rules of Moses, and a pickle that is read without being run.

Beside the original: tests/parity/test_transfo_xl.py.
"""

from __future__ import annotations

import collections
import os
import pickle

import pytest
import torch

import glassformer
from glassformer import TransfoXLTokenizer
from glassformer.text import transfo_xl_vocabulary
from glassformer.text.transfo_xl_vocabulary import Interpreter

WORDS = ["<eos>", "<unk>", "the", "cat", ",", ".", "'s", "@-@", "@,@", "5", "000", "well", "known", "It"]


def tokenizer_of(**settings) -> TransfoXLTokenizer:
    return TransfoXLTokenizer(vocab={word: number for number, word in enumerate(WORDS)}, **settings)


def test_words_and_text():
    tokenizer = tokenizer_of()
    text = "It's the well-known cat, 5,000."
    words = ["It", "'s", "the", "well", "@-@", "known", "cat", ",", "5", "@,@", "000", "."]
    assert tokenizer.tokenize(text) == words
    assert tokenizer.tokenize("the cat", add_eos=True) == ["the", "cat", "<eos>"]
    assert tokenizer.tokenize("the cat", add_double_eos=True) == ["<S>", "the", "cat", "<S>"]
    assert tokenizer("the dog <eos> the")["input_ids"] == [2, 1, 0, 2]
    assert [*tokenizer(text)] == ["input_ids"]
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    assert [text[a:b] for a, b in offsets] == [
        "It",
        "'s",
        "the",
        "well",
        "-",
        "known",
        "cat",
        ",",
        "5",
        ",",
        "000",
        ".",
    ]
    assert tokenizer_of(lower_case=True).tokenize("The CAT") == ["the", "cat"]
    assert tokenizer_of(delimiter="").tokenize("5.") == ["5", "."]


def test_lines_of_a_file(tmp_path):
    (tmp_path / "text.txt").write_text("the cat\nIt's\n")
    tokenizer = tokenizer_of()
    lines = tokenizer.encode_file(tmp_path / "text.txt")
    assert [line.tolist() for line in lines] == [[2, 3, 0], [13, 6, 0]]
    assert torch.equal(tokenizer.encode_file(tmp_path / "text.txt", ordered=True), torch.cat(lines))
    with pytest.raises(glassformer.InputError, match="encode_file reads a text file"):
        tokenizer.encode_file(tmp_path / "none.txt")


@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
def test_a_pickle_is_read_and_not_run(protocol, tmp_path):
    class Hostile:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    words = collections.OrderedDict((word, number) for number, word in enumerate(WORDS))
    counter = collections.Counter({"the": 3, "cat": 1})
    state = {"counter": counter, "rules": Hostile(), "idx2sym": WORDS, "sym2idx": words, "min_freq": 0, "none": None}
    (tmp_path / "vocab.pkl").write_bytes(pickle.dumps(state, protocol))
    tokenizer = TransfoXLTokenizer.from_pretrained(tmp_path)
    assert tokenizer.get_vocab() == {word: number for number, word in enumerate(WORDS)}
    assert not (tmp_path / "made").exists()
    tokenizer.save_pretrained(tmp_path / "saved")
    assert sorted(path.name for path in (tmp_path / "saved").glob("vocab*")) == ["vocab.txt"]
    assert TransfoXLTokenizer.from_pretrained(tmp_path / "saved").get_vocab() == tokenizer.get_vocab()
    read = Interpreter().read(pickle.dumps([(1, "a"), {"b": [2.5, True]}, {3}], protocol))
    assert read[0] == (1, "a") and read[1] == {"b": [2.5, True if protocol > 1 else 1]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "truncated or damaged"),
        (pickle.dumps({"idx2sym": WORDS})[:-9], "truncated or damaged"),
        (pickle.dumps([1]), "holds no list of words"),
        (pickle.dumps({"idx2sym": ["a", 3]}), "holds no list of words"),
        (pickle.dumps({"idx2sym": ["<unk>", "a", "a"]}), "two ids to the same word"),
        (pickle.dumps({"idx2sym": ["a", "b"]}), "no token for unknown words"),
        (b"(" * 1000 + b".", "nested in a way"),
        (b"\x80\x04\x97.", "no vocabulary needs"),
    ],
)
def test_damaged_pickles_are_refused(content, message, tmp_path):
    (tmp_path / "vocab.pkl").write_bytes(content)
    with pytest.raises(glassformer.TokenizerError, match=message):
        TransfoXLTokenizer.from_pretrained(tmp_path)


PAIRS = b"ccollections\nOrderedDict\n](("
DOUBLED = b")" + b"2\x86" * 60  # a tuple of two that are one, sixty times: 2 ** 60 empty tuples, if one looks into it
HOSTILE = {
    "a key that is nested in itself": b"\x80\x02" + PAIRS + DOUBLED + b"K\x01tea\x85R.",
    "a key of a million levels": b"\x80\x02" + PAIRS + b")" + b"\x85" * 200_000 + b"K\x01tea\x85R.",
    "a name that is nested in itself": b"\x80\x04" + DOUBLED + b"\x8c\x01a\x93.",
    "a table that is copied again and again": b"\x80\x02}q\x00("
    + b"".join(b"X\x06\x00\x00\x00%06dK\x01" % number for number in range(9_000))
    + b"u0"
    + b"ccollections\nOrderedDict\nh\x00\x85R0" * 5_000
    + b".",
    "a number without end": b"\x80\x02\x8b\x00\x00\x10\x00" + b"\x7f" * 2**20 + b".",
    "instructions that do nothing": b"\x80\x02" + b"}0" * 300_000 + b".",
}


ENDLESS = ("a table that is copied again and again", "instructions that do nothing")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_end_soon(name, tmp_path, monkeypatch):
    monkeypatch.setattr(transfo_xl_vocabulary, "STEP_LIMIT", 500_000)
    (tmp_path / "vocab.pkl").write_bytes(HOSTILE[name])
    reason = "takes more than 500,000 steps" if name in ENDLESS else "truncated or damaged|holds no list of words"
    with pytest.raises(glassformer.TokenizerError, match=reason):
        TransfoXLTokenizer.from_pretrained(tmp_path)


def test_refusals(tmp_path):
    with pytest.raises(glassformer.TokenizerError, match="language must be 'en'"):
        tokenizer_of(language="fr")
    with pytest.raises(glassformer.TokenizerError, match="without gaps"):
        TransfoXLTokenizer(vocab={"<unk>": 0, "a": 2})
    with pytest.raises(glassformer.TokenizerError, match="needs a vocabulary"):
        TransfoXLTokenizer()
    (tmp_path / "vocab.bin").write_bytes(b"")
    with pytest.raises(glassformer.TokenizerError, match=r"vocab\.bin is not read"):
        TransfoXLTokenizer.from_pretrained(tmp_path)
    with pytest.raises(glassformer.TokenizerError, match="a word in each line"):
        TransfoXLTokenizer(vocab={"<unk>": 0, "a b": 1}).save_pretrained(tmp_path / "out")
