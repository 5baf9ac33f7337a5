"""Training vocabularies."""

from __future__ import annotations

import pytest

from glassformer.errors import ArgumentError, InputError, TokenizerError
from glassformer.text import BertTokenizer, train_vocabulary
from glassformer.text.training.trained_vocabulary import Coverage
from glassformer.text.training.vocabulary_training import SPECIAL

SIZE = {"wordpiece": 330, "bpe": 330, "unigram": 70}

TEXTS = ["The unaffable fox jumped over the café, twice.", "Foxes jump; the fox jumped. 北京欢迎你"] * 20


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_the_same_text_gives_the_same_vocabulary(corpus, kind):
    sources = (corpus, [str(corpus)], iter(TEXTS))
    made = [train_vocabulary(source, kind=kind, vocab_size=SIZE[kind]).tokens for source in sources]
    assert made[0] == made[1]
    again = [train_vocabulary(iter(TEXTS), kind=kind, vocab_size=SIZE[kind]).tokens for _ in range(3)]
    assert made[2] == again[0] == again[1] == again[2]
    special = list(SPECIAL[kind])
    assert made[0][: len(special)] == special


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_saved_and_read_again(corpus, kind, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    made = train_vocabulary(corpus, kind=kind, vocab_size=SIZE[kind])
    text = "the fox jumped."
    assert made.decode(made.encode(text)) == text
    files = made.save(tmp_path / "made")
    assert any(name.endswith("tokenizer.json") for name in files)
    read = tokenizers.Tokenizer.from_file(str(tmp_path / "made" / "tokenizer.json"))
    assert read.encode(text, add_special_tokens=False).ids == made.encode(text)


def test_order(corpus):
    tokens = train_vocabulary(corpus, vocab_size=330).tokens[len(SPECIAL["wordpiece"]) :]
    letters = [token for token in tokens if len(token) == 1]
    inner = [token for token in tokens if token.startswith("##") and len(token) == 3]
    assert tokens[: len(letters) + len(inner)] == sorted(letters) + sorted(inner)


def test_bert(corpus):
    made = BertTokenizer.train(corpus, vocab_size=120, model_max_length=64)
    assert 70 < made.vocab_size <= 120
    assert (made.pad_token_id, made.cls_token_id, made.model_max_length) == (0, 2, 64)
    assert made.tokenize("The FOX jumped café")[:2] == ["the", "fox"]
    assert "北" in made.tokenize("北京")
    assert "é" not in "".join(made.vocab)
    cased = BertTokenizer.train(corpus, vocab_size=150, do_lower_case=False)
    assert "The" in cased.vocab
    assert not cased.do_lower_case


def test_bad_input(tmp_path, corpus):
    with pytest.raises(TokenizerError, match=r"nowhere\.txt' does not exist"):
        train_vocabulary(tmp_path / "nowhere.txt")
    empty = tmp_path / "empty.txt"
    empty.touch()
    with pytest.raises(TokenizerError, match=r"empty\.txt' is empty"):
        train_vocabulary([corpus, empty])
    broken = tmp_path / "broken.txt"
    broken.write_bytes(b"fine\nnot \xff fine\n")
    for kind in ("wordpiece", "bpe", "unigram"):
        with pytest.raises(Exception, match=r"broken\.txt, line 2: not UTF-8") as caught:
            train_vocabulary(broken, kind=kind)
        assert isinstance(caught.value, TokenizerError)
    with pytest.raises(InputError, match="text 1 must be a string, got int 3"):
        train_vocabulary(iter(["a", 3]))
    with pytest.raises(InputError, match="kind must be one of"):
        train_vocabulary(corpus, kind="word")
    with pytest.raises(InputError, match="limit_alphabet is not for kind='bpe'"):
        train_vocabulary(corpus, kind="bpe", limit_alphabet=10)
    with pytest.raises(InputError, match="min_frequency is not for kind='unigram'"):
        train_vocabulary(corpus, kind="unigram", min_frequency=3)
    with pytest.raises(InputError, match="vocab_size 5 is too small: special tokens alone are 5; raise it"):
        train_vocabulary(corpus, vocab_size=5)
    with pytest.raises(InputError, match="raise it or lower limit_alphabet"):
        train_vocabulary(corpus, vocab_size=10, limit_alphabet=20)
    for kind in ("wordpiece", "bpe", "unigram"):
        with pytest.raises(InputError, match="the text to train on is empty, or white space alone"):
            train_vocabulary(iter([" \n"]), kind=kind)
    with pytest.raises(ArgumentError, match="did you mean 'vocab_size'"):
        train_vocabulary(corpus, vocabsize=10)
    with pytest.raises(InputError, match="empty list"):
        train_vocabulary([])
    with pytest.raises(ArgumentError, match="did you mean 'vocab_size'"):
        BertTokenizer.train(corpus, vocabsize=10)


def test_case(corpus):
    kept = train_vocabulary(corpus, kind="bpe", vocab_size=330)
    lowered = train_vocabulary(corpus, kind="bpe", vocab_size=330, lowercase=True)
    assert "The" in kept.decode(kept.encode("The fox"))
    assert lowered.decode(lowered.encode("The fox")) == "the fox"


MANY = "".join(map(chr, range(0x4E00, 0x4E00 + 1500)))  # more characters than BERT's original training kept


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_every_character_of_a_text_is_kept_if_there_is_room(kind, caplog):
    made = train_vocabulary(iter([MANY]), kind=kind, vocab_size=4000)
    assert (made.coverage.share, made.coverage.kinds, made.coverage.left_out) == (1.0, 1500, 0)
    assert made.decode(made.encode(MANY)).replace(" ", "") == MANY
    assert str(made.coverage) == "all 1,500 different characters of the text"
    assert not caplog.records


def test_the_most_frequent_characters_are_kept_where_there_is_no_room_for_all(caplog):
    texts = [MANY, MANY[:3], MANY[:3], "ab ab"]  # 3 * 3 + 1497 + 4 characters of 1502 kinds
    made = train_vocabulary(iter(texts), vocab_size=5 + 3 + 1 + 2)
    assert [token for token in made.tokens if len(token) == 1] == ["a", "b", *MANY[:3]]  # and ##b
    assert (made.coverage.covered, made.coverage.total, made.coverage.left_out) == (13, 1510, 1497)
    shown = "0.86% of the characters of the text; 1,497 of 1,502 different ones are left out"
    assert [each.getMessage() for each in caplog.records] == [f"the vocabulary covers {shown}"]
    limited = train_vocabulary(iter(texts), vocab_size=2000, limit_alphabet=3)
    assert [token for token in limited.tokens if len(token) == 1] == [*MANY[:3]]
    assert limited.coverage.left_out == 1499


def test_nearly_all_is_never_called_all():
    coverage = Coverage.of({"a": 10**6, "b": 1}, {"a"})
    assert str(coverage) == "99.99% of the characters of the text; 1 of 2 different ones are left out"


def test_a_unigram_vocabulary_covers_the_normal_forms_of_characters():
    made = train_vocabulary(iter(["ﬁne Ａ ｶﾞ"] * 30), kind="unigram", vocab_size=30)
    assert made.coverage.left_out == 0


def test_a_unigram_folder_is_read_by_the_auto_tokenizer_and_by_others(corpus, tmp_path):
    from glassformer import AutoTokenizer, T5Tokenizer

    made = train_vocabulary(corpus, kind="unigram", vocab_size=SIZE["unigram"])
    made.save(tmp_path / "made")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "made")
    assert type(tokenizer) is T5Tokenizer and tokenizer.get_vocab() == made.vocab
    texts = [*TEXTS, "", "ｔhe  ﬁx e\u0301 ", "xyz"]
    ids = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
    assert ids[: len(TEXTS)] == [made.encode(text) for text in TEXTS]
    assert tokenizer.decode(tokenizer(TEXTS[0])["input_ids"], skip_special_tokens=True) == TEXTS[0]
    assert tokenizer.tokenize("ﬁ") == tokenizer.tokenize("fi")  # the normal form NFKC
    library = pytest.importorskip("sentencepiece", reason="the sentencepiece package is not installed")
    other = library.SentencePieceProcessor(model_file=str(tmp_path / "made" / "spiece.model"))
    assert [other.encode(text) for text in texts] == ids


def test_a_unigram_vocabulary_can_be_lower_cased_and_have_other_special_tokens(corpus, tmp_path):
    from glassformer import AutoTokenizer

    special = ["[UNK]", "<mask>"]
    made = train_vocabulary(corpus, kind="unigram", vocab_size=70, lowercase=True, special_tokens=special)
    made.save(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.tokenize("THE FOX") == tokenizer.tokenize("the fox")
    assert (tokenizer.unk_token, tokenizer.eos_token) == ("[UNK]", None)
    assert tokenizer.tokenize("the <mask>")[-1] == "<mask>"
