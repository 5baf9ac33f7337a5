"""The readable road and the engine must be the same road; and the table of exceptions must be complete."""

from __future__ import annotations

import random
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer
from glassformer.text.engine.engine_exceptions import engine_may_differ
from glassformer.text.wordpiece.wordpiece import BasicTokenizer, lower, strip_accents

SETTINGS = [
    ("uncased", {}),
    ("cased", {"do_lower_case": False}),
    ("cased", {"do_lower_case": False, "strip_accents": True}),
    ("chinese", {"strip_accents": False, "tokenize_chinese_chars": False}),
]
POOLS = [
    range(128),
    range(0x250),
    range(0x300, 0x370),
    range(0x370, 0x600),
    range(0x900, 0xE00),
    range(0x1100, 0x1200),
    range(0x1E00, 0x2100),
    range(0x3000, 0x3100),
    range(0x4E00, 0x9FFF),
    range(0xAC00, 0xD7A3),
    range(0xF900, 0x10000),
    range(0x1F300, 0x1FA00),
    range(0x20000, 0x2FA20),
    range(0x110000),
]


def assert_engine_equals_fallback(tokenizer, texts):
    texts = [text for text in texts if tokenizer._engine_agrees(text, False)]
    for text, fast in zip(texts, tokenizer._encode_plain(texts, False), strict=True):
        slow = tokenizer._reference_pieces(text, False)
        assert (fast.ids, fast.offsets, fast.words) == (slow.ids, slow.offsets, slow.words), ascii(text)
    return len(texts)


@pytest.mark.parametrize("name, options", SETTINGS)
def test_random_text(published, name, options):
    random_ = random.Random(5)
    texts = []
    for _ in range(3000):
        first, second = random_.choice(POOLS), random_.choice(POOLS)
        pools = (first, first, second, range(0x300, 0x340), range(32, 40))
        texts.append("".join(chr(random_.choice(random_.choice(pools))) for _ in range(random_.randrange(1, 16))))
    assert assert_engine_equals_fallback(published(name, **options), texts) > 2000


@pytest.fixture(scope="module")
def uncased(published):
    return published("uncased")


@given(st.text())
@settings(max_examples=300, deadline=None)
def test_any_text(uncased, text):
    assert_engine_equals_fallback(uncased, [text])
    encoded = uncased(text, return_offsets_mapping=True)
    assert all(0 <= a <= b <= len(text) for a, b in encoded.offset_mapping)
    uncased.explain(text)  # compares the two by itself


def test_table_of_exceptions(published):
    """One character of each 16 is compared here; the script that makes the table compares all."""
    tokenizer = published("cased", do_lower_case=False, strip_accents=True)
    texts = []
    for point in range(7, 0x30000, 16):
        char = chr(point)
        if unicodedata.category(char) not in ("Cn", "Cs", "Co") and not engine_may_differ(char):
            texts.append(f"{char} a{char}b ab{char} 中{char}中 e\u0301{char} .{char}.")
    assert assert_engine_equals_fallback(tokenizer, texts) > 5000


@pytest.mark.parametrize("char", ["\U0002b820", "\ud800", "\u0378", "\u2e43", "\u1734"])
def test_known_exceptions(uncased, char):
    assert engine_may_differ(char)
    assert not uncased._engine_agrees(f"a{char}b", False)


def test_characters_of_note(uncased):
    basic = BasicTokenizer()
    assert basic.words_of_tokenizer("ΟΔΟΣ") == ["οδοσ"]  # no final sigma
    assert basic.tokenize("ΟΔΟΣ") == ["οδος"]  # as the original class does on its own
    assert basic.tokenize("İx") == ["ix"]
    assert basic.tokenize("a\u2028b\x1cc\u200dd\x00e") == ["a", "bcde"]
    assert basic.tokenize("a\U0002b820b\U0002cea1c") == ["a", "\U0002b820", "b", "\U0002cea1", "c"]
    assert basic.tokenize("x\u00a0y\u3000z") == ["x", "y", "z"]
    assert uncased.tokenize("a\ud800b") == ["ab"]
    for length, unknown in ((100, False), (101, True)):
        assert (uncased.tokenize("x" * length) == ["[UNK]"]) == unknown
        uncased.explain("x" * length)  # compares the engine and the fallback by itself


def test_the_two_halves_as_the_tutorial_puts_them_together(uncased):
    text = "Unaffable 北京's CAFÉS, [MASK] xx"
    basic, pieces = glassformer.BasicTokenizer(), glassformer.WordpieceTokenizer(uncased.vocab, uncased.unk_token)
    plain = text.replace("[MASK]", "")
    assert [piece for word in basic.tokenize(plain) for piece in pieces.tokenize(word)] == uncased.tokenize(plain)
    assert pieces.tokenize(" ".join(basic.tokenize(plain))) == uncased.tokenize(plain)
    words = basic.tokenize(text, never_split=uncased.all_special_tokens)
    assert [piece for word in words for piece in pieces.tokenize(word)] == uncased.tokenize(text)
    assert BasicTokenizer(never_split=["CAFÉS,"]).tokenize(text)[5:7] == ["CAFÉS,", "["]
    assert BasicTokenizer(False, None, False, None).tokenize("É北京!") == ["É北京", "!"]


@given(st.text(alphabet=st.characters(min_codepoint=0xC0, max_codepoint=0x3100, exclude_categories=("Cs",))))
@settings(max_examples=200, deadline=None)
def test_accents_are_stripped_as_nfd_says(text):
    expected = "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
    stripped, origins = strip_accents(text, range(len(text)))
    assert stripped == expected
    assert len(origins) == len(stripped)


def test_lower_keeps_origins():
    assert lower("aİB", range(3)) == ("ai\u0307b", [0, 1, 1, 2])


def test_special_token_that_comes_to_light(published):
    """A dropped character inside it does not save a special token from being one, in the original either."""
    assert published("cased", do_lower_case=False).tokenize("[MA\u200dSK] x") == ["[MASK]", "x"]
    assert "[MASK]" not in published("uncased").tokenize("[MA\u200dSK] x")


@pytest.mark.parametrize(
    "part", ["hello world ", "x", "北京", "[MASK]", "[\u200d北 ", "\u0301\u0316", "\ud800", "\U0002b820"]
)
def test_a_very_long_text(uncased, part):
    """Long enough that anything quadratic would never end; how long it takes is not judged here."""
    text = part * (200_000 // len(part))
    encoded = uncased(text, return_offsets_mapping=True)
    few = uncased(part * 300)["input_ids"]
    assert encoded["input_ids"][:250] == few[:250]
    assert encoded["offset_mapping"][-2][1] <= len(text)


@pytest.mark.parametrize("text", ["", " ", "\t\n", "\x00", "\u200d", "\ufeff", "\ud800", "\u0301", "\U000e0041"])
def test_texts_of_nothing(uncased, text):
    assert uncased.tokenize(text) == []
    assert uncased(text)["input_ids"] == [101, 102]


def test_right_to_left(uncased):
    assert uncased.tokenize("שלום \u202bעולם\u202c") == uncased.tokenize("שלום עולם")
