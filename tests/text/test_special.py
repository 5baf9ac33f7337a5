"""Special and added tokens."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from glassformer.errors import InputError, TokenizerError
from glassformer.text import AddedToken, BertTokenizer


def test_attributes(small):
    assert small.special_tokens_map == {
        "unk_token": "[UNK]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "mask_token": "[MASK]",
    }
    assert (small.cls_token, small.cls_token_id, small.mask_token_id) == ("[CLS]", 2, 4)
    assert small.bos_token is None
    assert small.bos_token_id is None
    assert len(small) == small.vocab_size == len(small.vocab)
    assert small.convert_ids_to_tokens(4) == small.ids_to_tokens[4] == "[MASK]"
    assert small.convert_tokens_to_ids("fox") == 8
    assert small.convert_tokens_to_ids(["fox", "nowhere"]) == [8, 1]
    assert small.convert_ids_to_tokens([2, 8, 3], skip_special_tokens=True) == ["fox"]
    assert "vocab_size" in repr(small)


def test_inside_text(small):
    assert small.tokenize("a[MASK]b [SEP]") == ["a", "[MASK]", "b", "[SEP]"]
    assert small.tokenize("[MASK]", split_special_tokens=True) == ["[", "mask", "]"]
    assert small("a [MASK]", split_special_tokens=True).tokens() == ["[CLS]", "a", "[", "mask", "]", "[SEP]"]


def test_adding(small):
    size = len(small)
    assert small.add_tokens(["NewTok", "fox", "two words"]) == 2
    assert len(small) == size + 2
    assert small.vocab_size == size
    assert small.tokenize("a NEWTOK, newtokb two words") == ["a", "newtok", ",", "newtok", "b", "two words"]
    assert small.add_special_tokens({"eos_token": "[EOS]", "additional_special_tokens": ["[E1]"]}) == 2
    assert small.eos_token_id == size + 2
    assert small.encode("x [E1][eos]", add_special_tokens=False)[1] == size + 3
    assert small.decode(small.encode("a newtok [E1]"), skip_special_tokens=True) == "a newtok"
    with pytest.raises(TokenizerError, match="not in the vocabulary"):
        small.bos_token = "[BOS]"
    small.bos_token = "[CLS]"
    assert small.bos_token_id == 2
    with pytest.raises(InputError, match="list of tokens"):
        small.add_special_tokens({"additional_special_tokens": "[E2]"})
    with pytest.raises(TokenizerError, match="token 1"):
        small.add_tokens(["ok", ""])


def test_flags_of_added_tokens(small):
    small.add_tokens([AddedToken("key", single_word=True, special=False)])
    assert "key" in small.tokenize("a key b")
    assert "key" not in small.tokenize("monkeys")
    small.add_tokens([AddedToken("<left>", lstrip=True, rstrip=True)])
    assert small("a  <left>  b", return_offsets_mapping=True).offset_mapping[2] == (3, 9)


def test_a_missing_special_token_is_never_unknown(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\na\n")
    with pytest.raises(TokenizerError, match=r"vocab\.txt has no '\[SEP\]' \(sep_token\), '\[MASK\]' \(mask_token\)"):
        BertTokenizer(path)
    made = BertTokenizer(path, sep_token=None, mask_token=None)
    assert made.encode("a", add_special_tokens=False) == [3]
    with pytest.raises(TokenizerError, match="sep_token is None"):
        made("a")
    path.write_text("[PAD]\na\n")
    with pytest.raises(TokenizerError, match=r"\[UNK\]"):
        BertTokenizer(path)


def test_never_split(small, folder):
    made = BertTokenizer.from_pretrained(folder, never_split=["well-known", "NASA"])
    assert made.tokenize("well-known nasa NASA") == ["well-known", "nasa", "nasa"]
    assert made.encode("well-known", add_special_tokens=False) == [made.unk_token_id]
    assert small.tokenize("well-known") == ["well", "-", "known"]
    plain = BertTokenizer.from_pretrained(folder, do_basic_tokenize=False)
    assert plain.tokenize("fox, FOX fox") == ["[UNK]", "[UNK]", "fox"]
    with pytest.raises(TokenizerError, match="list of words"):
        BertTokenizer.from_pretrained(folder, never_split="NASA")


def test_settings_are_fixed(small):
    with pytest.raises(AttributeError):
        small.do_lower_case = False
    small.tokenize("zz")  # the engine is built
    small.unk_token = "x"
    assert small.encode("zz", add_special_tokens=False) == [small.vocab["x"]]
    assert small.explain("zz").tokens == ("x",)
    with pytest.raises(TokenizerError, match="needs an unk_token"):
        small.unk_token = None
    assert small.init_kwargs["do_lower_case"] is True


def test_copies(small):
    small("the fox")
    for made in (pickle.loads(pickle.dumps(small)), copy.deepcopy(small)):
        assert made("the [MASK] fox") == small("the [MASK] fox")


def test_threads(small):
    texts = ["the fox", "one two three four", "[MASK] café"] * 20

    def work(length):
        return small(texts, truncation=True, max_length=length, padding="max_length")["input_ids"]

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(work, [4, 5, 6, 7] * 10))
    assert made == [work(length) for length in [4, 5, 6, 7] * 10]
