"""Training vocabularies."""

from __future__ import annotations

import pytest

from glassformer.errors import ArgumentError, InputError, TokenizerError
from glassformer.text import BertTokenizer, train_vocabulary
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
    with pytest.raises(InputError, match="too small"):
        train_vocabulary(corpus, vocab_size=10)
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
