"""Byte-pair encoding: the split, the merges, the engine and the fallback, and texts that come back as they were."""

from __future__ import annotations

import copy
import itertools
import pickle
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.errors import InputError, TokenizerError
from glassformer.text import GPT2Tokenizer
from glassformer.text.bpe.bpe import BYTES, SYMBOLS, Merge, Merges, byte_symbols, parts
from glassformer.text.engine.unicode_classes import LETTER_POINTS, NUMBER_POINTS, engine_may_pre_tokenize_differently

from .test_rust_engine import POOLS

ORIGINAL = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
BORDERS = [ord(char) for char in " '\t\n\x1c\x85\xa0\u3000strevmldSLN12.,!"]


def cut(text):
    return [text[start:end] for start, end in parts(text)]


def random_texts(count, seed=3):
    random_ = random.Random(seed)
    pools = [pool for pool in POOLS if pool != range(0x110000)]
    for _ in range(count):
        chosen = (random_.choice(pools), random_.choice(pools), range(32, 64), BORDERS)
        yield "".join(chr(random_.choice(random_.choice(chosen))) for _ in range(random_.randrange(1, 16)))


def test_parts():
    assert cut("They'll say: it's 5km  away\n\n ok ") == [
        *("They", "'ll", " say", ":", " it", "'s", " 5", "km", " ", " away", "\n\n", " ok", " "),
    ]
    assert cut("don'T'rex 'twas") == ["don", "'", "T", "'re", "x", " '", "twas"]
    assert cut("a\u3000b\xa0\xa0c\x1cd") == ["a", "\u3000", "b", "\xa0", "\xa0", "c", "\x1c", "d"]
    assert cut("") == []


def test_parts_are_those_of_the_original_pattern():
    regex = pytest.importorskip("regex")
    pattern = regex.compile(ORIGINAL)
    for text in random_texts(4000):
        assert cut(text) == pattern.findall(text), ascii(text)
    for point in range(5, 0x40000, 11):  # the script that makes the table asks for all
        char = chr(point)
        if not 0xD800 <= point <= 0xDFFF:
            text = f"a{char}b1{char}2 {char}!{char}. \t{char}\t {char}"
            assert cut(text) == pattern.findall(text), hex(point)


def test_letters_and_numbers():
    assert all(map(LETTER_POINTS.__contains__, map(ord, "aZéß中ªʰ\U00020000")))
    assert all(map(NUMBER_POINTS.__contains__, map(ord, "09²½Ⅷ〇")))
    assert not any(ord(char) in LETTER_POINTS or ord(char) in NUMBER_POINTS for char in " _-'\u0301🎉")


def test_bytes_have_symbols_of_their_own():
    assert len(set(SYMBOLS)) == len(BYTES) == 256
    assert byte_symbols()[0x20] == "Ġ"
    assert not any(symbol.isspace() for symbol in SYMBOLS)


def one_by_one(symbols, ranks):
    """The original loop: the best pair, joined everywhere, and again."""
    word = list(symbols)
    while len(word) > 1:
        best = min(itertools.pairwise(word), key=lambda pair: ranks.get(pair, len(ranks)))
        if best not in ranks:
            break
        joined, place = [], 0
        while place < len(word):
            both = tuple(word[place : place + 2]) == best
            joined.append("".join(word[place : place + 1 + both]))
            place += 1 + both
        word = joined
    return word


def test_merges_are_done_as_the_original_does_them():
    random_ = random.Random(1)
    unordered = 0
    for _ in range(4000):
        symbols, pairs = ["a", "b"], []
        for _ in range(random_.randrange(1, 12)):
            pair = random_.choice(symbols), random_.choice(symbols)
            if pair not in pairs:
                pairs.append(pair)
                symbols.append("".join(pair))
        if random_.random() < 0.5:
            random_.shuffle(pairs)
        merges = Merges(pairs)
        unordered += not merges.in_order()
        word = [random_.choice("ab") for _ in range(random_.randrange(1, 20))]
        steps = []
        assert merges.apply(word, steps) == one_by_one(word, merges.ranks), (pairs, word)
        assert sum(step.times for step in steps) == len(word) - len(merges.apply(word))
    assert unordered > 500
    assert Merges([("ab", "a"), ("a", "b")]).apply("abab") == ["ab", "ab"]  # and not "aba", "b"


@pytest.mark.parametrize("name", ["gpt2", "roberta", "openai_gpt"])
def test_engine_and_fallback_agree(request, name):
    tokenizer = request.getfixturevalue(name)
    compared = 0
    for text in random_texts(3000):
        if tokenizer._engine_agrees(text, False):
            fast, slow = (
                tokenizer._engine.encode(text, add_special_tokens=False),
                tokenizer._reference_pieces(text, False),
            )
            assert (fast.ids, fast.offsets, fast.word_ids) == (slow.ids, slow.offsets, slow.words), ascii(text)
            compared += 1
    assert compared > 1500


def test_letters_that_the_engine_does_not_know(gpt2):
    assert engine_may_pre_tokenize_differently("a\U000323b0")
    assert not engine_may_pre_tokenize_differently("naïve 中文 🎉")
    for char in ("\u088f", "\U000323b0", "\U00016ea0"):
        assert cut(f"a{char}b") == [f"a{char}b"]
        assert gpt2(f"a{char}b").word_ids() == [0] * len(gpt2.encode(f"a{char}b"))


def test_table_of_exceptions(gpt2):
    """One character of each 7 is compared here; the script that makes the table compares all."""
    chars = [chr(point) for point in range(3, 0x40000, 7)]
    texts = [f"a{char} 1{char} !{char} \n{char}\n" for char in chars if not engine_may_pre_tokenize_differently(char)]
    assert len(texts) > 30_000
    for text in texts:
        cuts = [place for _, place in gpt2._engine.pre_tokenizer.pre_tokenize_str(text)]
        assert cuts == list(parts(text)), ascii(text)


@given(st.text())
@settings(max_examples=300, deadline=None)
def test_any_text_comes_back(gpt2, text):
    ids = gpt2.encode(text)
    assert gpt2.decode(ids) == text
    assert gpt2.convert_tokens_to_bytes(gpt2.tokenize(text)) == text.encode()
    gpt2.explain(text)  # compares the engine and the fallback by itself


@pytest.mark.parametrize("text", ["", " ", "a\x00b", "\ufeff", "\u0301", "\r\n\t", "<|endoftext|>", " <|endoftext|> "])
def test_texts_of_little(gpt2, roberta, openai_gpt, text):
    assert gpt2.decode(gpt2.encode(text)) == text
    assert roberta.decode(roberta.encode(text), skip_special_tokens=True) == text
    assert openai_gpt.encode("") == openai_gpt.encode(" \x00") == []


def test_decoding_cleans_up_as_the_original_does(shared, gpt2):
    original = GPT2Tokenizer.from_pretrained(shared / "vocab" / "gpt2")
    ids = original.encode("well , it 's != true")
    assert original.decode(ids) == "well, it's!= true"
    assert original.decode(ids, clean_up_tokenization_spaces=False) == gpt2.decode(ids) == "well , it 's != true"


def test_half_characters(gpt2, shared):
    ids = gpt2.encode("世")
    assert len(ids) > 1
    assert gpt2.decode(ids[:1]) == "\ufffd"
    assert gpt2.convert_tokens_to_bytes(gpt2.convert_ids_to_tokens(ids)) == "世".encode()
    strict = GPT2Tokenizer.from_pretrained(shared / "vocab" / "gpt2", errors="strict")
    with pytest.raises(InputError, match="unexpected end of data at byte 0"):
        strict.decode(ids[:1])
    with pytest.raises(TokenizerError, match="errors must be"):
        GPT2Tokenizer.from_pretrained(shared / "vocab" / "gpt2", errors="loudly")


def test_lone_surrogates_are_named(gpt2, roberta, openai_gpt):
    for tokenizer in (gpt2, roberta):
        with pytest.raises(InputError, match=r"position 2: U\+D83D is half of a character"):
            tokenizer("ab\ud83d")
        with pytest.raises(InputError, match="text 1, position 0"):
            tokenizer(["a", "\udc00<mask>"])
        with pytest.raises(InputError, match="half of a character"):
            tokenizer.explain("\ud800")
    assert openai_gpt.tokenize("a\ud800b") == ["ab</w>"]


@pytest.mark.parametrize("part", ["x", "hello", " hello world", "世界", "<|endoftext|>", "\n", "é\u088f", "'s"])
def test_a_million_characters(gpt2, part):
    """Anything quadratic would never end; how long it takes is not judged here."""
    text = part * (1_000_000 // len(part))
    if engine_may_pre_tokenize_differently(part):
        text = text[:100_000]
    encoded = gpt2(text)["input_ids"]
    assert encoded[:40] == gpt2.encode(part * 400)[:40]
    assert gpt2.decode(encoded) == text


def test_a_long_word_by_the_fallback(gpt2):
    word = "abcdefghij" * 20_000
    made = gpt2._reference_pieces(word, False)
    assert made.ids == gpt2.encode(word)
    assert made.offsets[-1][1] == len(word)


def test_unknown_symbols(bpe_folder):
    small = GPT2Tokenizer.from_pretrained(bpe_folder)
    unknown = small.unk_token_id
    assert small.tokenize("lower xlow") == ["low", "er", "Ġ", "x", "low"]
    assert small.encode("lower xlow")[2:4] == [small.vocab["Ġ"], unknown]
    assert small.encode("xy") == [unknown, unknown]
    assert small.explain("xlow").stretches[0].words[0].note == "not in the vocabulary: x"
    without = GPT2Tokenizer.from_pretrained(bpe_folder, unk_token=None)
    assert without.encode(" low") == small.encode(" low")
    with pytest.warns(UserWarning, match="lacks the symbol 'x' and names no unknown token: it is left out"):
        assert without.encode("lxow x") == without.encode("low ")  # the symbols beside it are joined, as in the engine
    assert without("lxow", return_offsets_mapping=True)["offset_mapping"] == [(0, 4)]
    part = without.explain("lxow").stretches[0].words[0]
    assert (part.tokens, part.note) == (("low",), "not in the vocabulary, left out: x")
    small.unk_token = "!"
    assert small.encode("lowx") == [small.vocab["low"], small.vocab["!"]]


def test_merges_out_of_order_use_the_fallback(bpe_folder):
    (bpe_folder / "merges.txt").write_text("lo w\nl o\n", encoding="utf-8")
    made = GPT2Tokenizer.from_pretrained(bpe_folder)
    assert not made._engine_agrees("low", False)
    assert made.tokenize("low") == ["low"]


def test_explanation(gpt2, openai_gpt):
    explained = gpt2.explain("Hello naïve<|endoftext|>")
    hello, naive = explained.stretches[0].words
    assert hello.merges[0] == Merge("l", "l", 41, 1)
    assert [m.rank for m in hello.merges] == [41, 439, 10853, 15240]
    assert (hello.tokens, hello.ids, hello.offsets) == (("Hello",), (15496,), ((0, 5),))
    assert bytes(naive.bytes).decode() == naive.source == " naïve"
    assert explained.stretches[1].special_id == 50256
    report = str(explained)
    assert "H + ello (rank 15240) -> Hello" in report
    assert "20 6E 61 C3 AF 76 65" in report
    word = openai_gpt.explain("Bachelorettes 北").stretches[0].words[0]
    assert (word.bytes, word.tokens) == (None, ("bachel", "ore", "ttes</w>"))
    assert explained.to_dict()["stretches"][0]["words"][0]["merges"][0] == ["l", "l", 41, 1]
    long = str(gpt2.explain("abc" * 300 + "\n"))
    assert all(len(line) <= 80 for line in long.splitlines())
    assert "times" in long
    assert "(none)" in str(gpt2.explain(""))
    with pytest.raises(InputError, match="must be a string"):
        gpt2.explain(5)


def test_explanation_with_a_space_before(shared, roberta):
    for kind, name in ((GPT2Tokenizer, "gpt2"), (type(roberta), "roberta-base")):
        made = kind.from_pretrained(shared / "vocab" / name, add_prefix_space=True)
        for text in ("Hello <mask> world", "", " ", "世", "<mask>", "  x<|endoftext|>y"):
            assert list(made.explain(text).ids) == made.encode(text, add_special_tokens=False)


def test_copies(gpt2):
    gpt2("warm")
    for made in (pickle.loads(pickle.dumps(gpt2)), copy.deepcopy(gpt2)):
        assert made("the <|endoftext|> fox\u088f") == gpt2("the <|endoftext|> fox\u088f")
