"""Whisper's tokenizer beside transformers', and OpenAI's vocabularies."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import pytest

from glassformer import AutoTokenizer, InputError, TokenizerError, WhisperTokenizer
from glassformer.text.bpe.bpe import bytes_of
from glassformer.text.whisper_english import NUMBER_WORDS, normalize_english
from glassformer.text.whisper_languages import LANGUAGES, language_code

VOCABULARY = Path("../shared/vocab/gpt2")
TEXTS = ["Hello world, it's 12 o'clock.", "Guten Tag, schöne Grüße!", "你好，世界", "  a   b\n\nc é 😀 ", ""]
TALK = (
    "<|startofprev|> Before that.<|startoftranscript|><|0.00|> Hello<|1.50|><|1.50|> world<|3.00|><|3.00|> un"
    "<|0.00|> and<|2.00|><|2.00|> done<|2.40|><|endoftext|>"
)
OPTIONS = [
    {},
    {"skip_special_tokens": True},
    {"decode_with_timestamps": True},
    {"decode_with_timestamps": True, "skip_special_tokens": True},
    {"output_offsets": True},
    {"output_offsets": True, "skip_special_tokens": True, "time_precision": 0.01},
    {"basic_normalize": True, "skip_special_tokens": True},
]


@pytest.fixture(scope="module")
def english() -> WhisperTokenizer:
    if not VOCABULARY.is_dir():
        pytest.skip(f"{VOCABULARY} is not there")
    return WhisperTokenizer.from_pretrained(VOCABULARY)


def small(**settings) -> WhisperTokenizer:
    """A few words behind the bytes."""
    from glassformer.text.bpe.bpe import SYMBOLS

    vocab = {symbol: number for number, symbol in enumerate(SYMBOLS)} | {"Ġt": 256, "he": 257, "Ġthe": 258}
    return WhisperTokenizer(vocab=vocab, merges=[("Ġ", "t"), ("h", "e"), ("Ġt", "he")], **settings)


def test_own_tokens_stand_behind_the_words_of_gpt2(english):
    assert (len(english), english.timestamp_begin, english.eos_token_id) == (51864, 50363, 50256)
    assert english("hi").input_ids == [50257, 50362, 5303, 50256]
    assert english.timestamp_ids()[:2] == [50363, 50364] and len(english.timestamp_ids()) == 1501


def test_ids_and_texts_equal_transformers(english, tmp_path):
    transformers = pytest.importorskip("transformers")
    for ours in (english, small(language="german", task="translate")):
        ours.save_pretrained(tmp_path)
        theirs, again = transformers.WhisperTokenizer.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
        assert type(again) is WhisperTokenizer and len(again) == len(ours) == len(theirs)
        for text in TEXTS:
            assert ours(text).input_ids == theirs(text).input_ids == again(text).input_ids
        talk = ours.encode(TALK, add_special_tokens=False)
        assert talk == theirs.encode(TALK, add_special_tokens=False)
        for options in OPTIONS:
            assert ours.decode(talk, **options) == theirs.decode(talk, **options), options
            assert ours.batch_decode([talk], **options) == [theirs.decode(talk, **options)]
        assert ours.get_prompt_ids(" Mr. Quilter").tolist() == theirs.get_prompt_ids(" Mr. Quilter").tolist()
        given = {"language": "french", "task": "transcribe", "no_timestamps": False}
        assert ours.get_decoder_prompt_ids(**given) == theirs.get_decoder_prompt_ids(**given)
        assert ours.prefix_tokens == theirs.prefix_tokens
        ours.set_prefix_tokens(predict_timestamps=False)
        ours.language = ours.task = None


def test_tiktoken_files_give_the_same_merges(tmp_path):
    ours = small()
    words = [f"{base64.b64encode(bytes_of([token])).decode()} {rank}" for token, rank in ours.vocab.items()]
    (tmp_path / "gpt2.tiktoken").write_text("\n".join(words) + "\n= 259\n")
    read = WhisperTokenizer.from_pretrained(tmp_path / "gpt2.tiktoken", num_languages=100)
    assert list(read.merges.pairs) == list(ours.merges.pairs)
    assert read.encode(" the end", add_special_tokens=False) == ours.encode(" the end", add_special_tokens=False)
    assert read.convert_tokens_to_ids(["<|endoftext|>", "<|startoftranscript|>", "<|yue|>"]) == [260, 261, 361]
    for line, message in (("YQ==", "a token in base 64 and its rank"), ("YQ== 300", "ranks must count")):
        (tmp_path / "bad.tiktoken").write_text("\n".join([*words, line]))
        with pytest.raises(TokenizerError, match=message):
            WhisperTokenizer.from_pretrained(tmp_path / "bad.tiktoken")


def test_languages():
    assert len(LANGUAGES) == 100 and language_code("Castilian") == "es"
    with pytest.raises(InputError, match="did you mean 'german'"):
        language_code("germann")
    with pytest.raises(InputError, match="no token for the language 'yue'"):
        small(language="cantonese")
    with pytest.raises(InputError, match="task must be 'transcribe' or 'translate'"):
        small(task="write")
    with pytest.raises(InputError, match=r"plain text, and this one has '<\|en\|>'"):
        small().get_prompt_ids("a <|en|> b")


ENGLISH = [
    "Mr. Smith's got twenty-one dollars, uh, and 50 cents! [noise] (sic)",
    "two hundred and five people paid three point five million dollars in nineteen eighty four",
    "It's 1960s music, the 32nd, twenty first and one hundredth; oh, double oh seven",
    "He won't, can't; they're gonna colour it. 5 per cent, ten percent of minus four",
    "$2 and 7 cents, £0.05, 3,000,000 and a half; four and a half million; a thousand and one nights",
    "I've done it, he's been there; St. John's Dr., U.S.A. 3.5 4. 5% Élan",
]


def test_english_is_normalised_as_in_transformers(tmp_path):
    normalizer = pytest.importorskip("transformers.models.whisper.english_normalizer")
    spelling = {"colour": "color", "organise": "organize"}
    theirs = normalizer.EnglishTextNormalizer(spelling)
    draw = random.Random(0)
    words = [*sorted(NUMBER_WORDS), *"cats dog's 5 3.5 $4 100 2nd - a half colour".split(), "and a half", "per cent"]
    texts = [" ".join(draw.choices(words, k=draw.randint(1, 7))) for _ in range(3000)]
    for text in ENGLISH + texts:
        assert normalize_english(text, spelling) == theirs(text), text
    small().save_pretrained(tmp_path)
    (tmp_path / "normalizer.json").write_text(json.dumps(spelling))
    tokenizer = WhisperTokenizer.from_pretrained(tmp_path)
    ids = tokenizer.encode("Colours: the colour, two!", add_special_tokens=False)
    assert tokenizer.decode(ids, normalize=True).strip() == "colours the color 2"
    tokenizer.save_pretrained(tmp_path / "again")
    again = WhisperTokenizer.from_pretrained(tmp_path / "again")
    assert again.english_spelling_normalizer == spelling
