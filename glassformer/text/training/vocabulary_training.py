"""Making a new vocabulary from text: WordPiece, byte-level BPE or Unigram. The Rust trainers count and merge."""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from ...errors import InputError, nearest, refuse_unknown, suggests
from ..base.encoding_options import check_whole_number
from ..engine.engine_exceptions import engine_may_differ
from ..wordpiece.wordpiece import BasicTokenizer
from .trained_vocabulary import Coverage, Vocabulary
from .training_text import read_lines

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from ..bert_tokenizer import BertTokenizer

KINDS = ("wordpiece", "bpe", "unigram")
SPECIAL = {
    "wordpiece": ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    "bpe": ("<|endoftext|>",),
    "unigram": ("<pad>", "</s>", "<unk>"),
}


@suggests
def train_vocabulary(
    files_or_texts: str | PathLike[str] | Iterable[str | PathLike[str]],
    kind: str = "wordpiece",
    vocab_size: int = 30000,
    min_frequency: int | None = None,
    lowercase: bool | None = None,
    special_tokens: Sequence[str] | None = None,
    limit_alphabet: int | None = None,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool | None = None,
) -> Vocabulary:
    """Train a vocabulary on text files (paths) or on an iterator of strings.

    Files are UTF-8; the lines of others are texts: `(row["text"] for row in read_rows(file, encoding="gbk"))`.

    A list counts as paths if it holds `Path` objects, or strings that all name existing files; wrap strings in an
    iterator (`iter(texts)`) to say that they are texts. The same input gives the same vocabulary; special tokens come
    first. None stands for what is usual: WordPiece reads text as BERT does, lower-cased, the others keep the case; a
    pair of pieces must occur twice to be merged. WordPiece keeps every character for which `vocab_size` has room, the
    most frequent ones first, or the `limit_alphabet` most frequent ones. `coverage` of the result says how much of the
    text that is, and what is left out is logged.
    """
    made = make_vocabulary(
        files_or_texts,
        kind,
        vocab_size,
        min_frequency,
        lowercase,
        special_tokens,
        limit_alphabet,
        strip_accents,
        tokenize_chinese_chars,
    )
    made.coverage.warn()
    return made


def make_vocabulary(
    files_or_texts: Any,
    kind: str,
    vocab_size: int,
    min_frequency: int | None = None,
    lowercase: bool | None = None,
    special_tokens: Sequence[str] | None = None,
    limit_alphabet: int | None = None,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool | None = None,
) -> Vocabulary:
    """`train_vocabulary` for callers that report the coverage themselves."""
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}{nearest(str(kind), KINDS)}")
    refuse_unread(
        kind,
        min_frequency=min_frequency,
        limit_alphabet=limit_alphabet,
        strip_accents=strip_accents,
        tokenize_chinese_chars=tokenize_chinese_chars,
    )
    check_whole_number("vocab_size", vocab_size, 1)
    check_whole_number("min_frequency", min_frequency, 0)
    check_whole_number("limit_alphabet", limit_alphabet, 1)
    min_frequency = 2 if min_frequency is None else min_frequency
    lowercase = kind == "wordpiece" if lowercase is None else lowercase
    special = list(SPECIAL[kind] if special_tokens is None else special_tokens)
    lines = read_lines(files_or_texts)
    counts: Counter[str] = Counter()
    if kind == "wordpiece":
        basic = BasicTokenizer(lowercase, (), tokenize_chinese_chars is not False, strip_accents)
        engine, coverage = wordpiece(lines, basic, vocab_size, min_frequency, special, limit_alphabet)
    elif kind == "bpe":
        engine, trainer = bpe(vocab_size, min_frequency, special, lowercase)
        engine.train_from_iterator(counted(lines, counts), trainer)
        coverage = Coverage.of(visible(counts), counts)  # every byte has a token
    else:
        engine, trainer = unigram(vocab_size, special, lowercase)
        lines = counted((line.rstrip("\r\n") for line in lines), counts, engine.normalizer.normalize_str)
        engine.train_from_iterator(lines, trainer)
        make_deterministic(engine, special)
        coverage = Coverage.of(visible(counts), engine.get_vocab())
    made = Vocabulary(kind, engine, coverage, lowercase)
    if not coverage.total:
        raise InputError("the text to train on is empty, or white space alone")
    if len(made) <= len(special):
        raise InputError(
            f"the text gave no tokens beside the {len(special)} special ones; there is too little of it for "
            f"min_frequency {min_frequency}"
        )
    return made


def counted(lines: Iterable[str], counts: Counter[str], normal: Callable[[str], str] = str) -> Iterator[str]:
    """The same lines, while their characters are counted, in their normal form."""
    for line in lines:
        counts.update(normal(line))
        yield line


def visible(counts: Counter[str]) -> Counter[str]:
    """Counts without those of white space."""
    return Counter({char: count for char, count in counts.items() if not char.isspace()})


def refuse_unread(kind: str, **given: Any) -> None:
    """Refuse arguments that this kind of training does not read."""
    read = {"wordpiece": set(given), "bpe": {"min_frequency"}, "unigram": set()}[kind]
    for name, value in given.items():
        if value is not None and name not in read:
            raise InputError(f"{name} is not for kind={kind!r}, got {value!r}")


def wordpiece(
    lines: Iterable[str], basic: BasicTokenizer, size: int, frequency: int, special: list[str], alphabet: int | None
) -> tuple[Tokenizer, Coverage]:
    """Count words as BERT reads them, then let the trainer merge.

    The trainer numbers the pieces `##a` in the order in which it happens to meet them, and breaks ties by number; so
    that the same text always gives the same vocabulary, they are handed to it in a fixed order, as special tokens.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    counts = count_words(lines, basic)
    characters: Counter[str] = Counter()
    for word, count in counts.items():
        for char in word:
            characters[char] += count
    inside = {char for word in counts for char in word[1:]}
    kept = kept_characters(characters, inside, size - len(special), alphabet)
    if not kept and characters:
        raise InputError(f"vocab_size {size} is too small: special tokens alone are {len(special)}; raise it")
    inner = sorted(inside & set(kept))
    least = len(special) + len(kept) + len(inner)
    if size < least:
        raise InputError(
            f"vocab_size {size} is too small: special tokens and single characters alone are {least}; "
            "raise it or lower limit_alphabet"
        )
    first = [*special, *(f"##{char}" for char in inner)]
    trained = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    trained.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=frequency,
        special_tokens=first,
        initial_alphabet=kept,
        limit_alphabet=len(kept),
        show_progress=False,
    )
    trained.train_from_iterator(repeated(counts), trainer)
    vocab = trained.get_vocab()
    merged = sorted(vocab.keys() - {*first, *kept}, key=vocab.__getitem__)
    tokens = dict.fromkeys([*special, *kept, *first[len(special) :], *merged])
    engine = reading_engine({token: index for index, token in enumerate(tokens)}, basic, special)
    return engine, Coverage.of(characters, set(kept))


def kept_characters(characters: Counter[str], inside: set[str], room: int, limit: int | None) -> list[str]:
    """The `limit` most frequent characters, or all that there is room for; one that stands inside of words takes two.

    >>> kept_characters(Counter("aaabbc"), {"b"}, room=3, limit=None)
    ['a', 'b']
    """
    ordered = sorted(characters, key=lambda char: (-characters[char], char))
    if limit is not None:
        return sorted(ordered[:limit])
    kept = []
    for char in ordered:
        taken = 2 if char in inside else 1
        if taken <= room:
            kept.append(char)
            room -= taken
    return sorted(kept)


def count_words(lines: Iterable[str], basic: BasicTokenizer) -> Counter[str]:
    """How often each word occurs; the engine cuts the lines for which it agrees with the original."""
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    normalizer = BertNormalizer(True, basic.tokenize_chinese_chars, basic.strip_accents, basic.do_lower_case)
    splitter = BertPreTokenizer()
    counts: Counter[str] = Counter()
    for line in lines:
        if engine_may_differ(line):
            counts.update(basic.words_of_tokenizer(line))
        else:
            counts.update([word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(line))])
    return counts


def repeated(counts: Counter[str]) -> Iterator[str]:
    """Every word as often as it occurs, in strings of moderate length."""
    for word in sorted(counts):
        left = counts[word]
        while left:
            taken = min(left, 1000)
            yield " ".join([word] * taken)
            left -= taken


def reading_engine(vocab: dict[str, int], basic: BasicTokenizer, special: list[str]) -> Tokenizer:
    """An engine that reads text as BERT does, for a vocabulary."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    engine = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    engine.normalizer = normalizers.BertNormalizer(
        True, basic.tokenize_chinese_chars, basic.strip_accents, basic.do_lower_case
    )
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece(prefix="##")
    engine.add_special_tokens(special)
    return engine


def bpe(size: int, frequency: int, special: list[str], lowercase: bool) -> tuple[Any, Any]:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    engine = Tokenizer(models.BPE())
    if lowercase:
        engine.normalizer = normalizers.Lowercase()
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    return engine, trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=frequency,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )


def unigram(size: int, special: list[str], lowercase: bool) -> tuple[Any, Any]:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    unknown = next((token for token in special if "unk" in token.lower()), None)
    if unknown is None:
        raise InputError(f"a Unigram vocabulary needs an unknown token such as '<unk>' among {special}")
    engine = Tokenizer(models.Unigram())
    engine.normalizer = normalizers.Sequence([normalizers.NFKC(), *([normalizers.Lowercase()] if lowercase else [])])
    engine.pre_tokenizer = pre_tokenizers.Metaspace()
    engine.decoder = decoders.Metaspace()
    return engine, trainers.UnigramTrainer(
        vocab_size=size, special_tokens=special, unk_token=unknown, show_progress=False
    )


def make_deterministic(engine: Tokenizer, special: list[str]) -> None:
    """Give a Unigram model the order and scores that do not depend on chance.

    The trainer keeps characters it would have pruned, at the least score and a hair more for each one, in the order of
    a hash table. Here the same scores are dealt out in the order of the characters; the last digits, which depend on
    the order of summation, are rounded away.
    """
    from tokenizers import models

    model = json.loads(engine.to_str())["model"]
    scores = {token: round(score, 6) for token, score in model["vocab"] if token not in special}
    hair = 1e-4
    least = min(scores.values(), default=0.0)
    band = sorted(t for t, score in scores.items() if len(t) == 1 and score < least + hair * (len(scores) + 1))
    kept = [t for t in band if abs((scores[t] - least) / hair - round((scores[t] - least) / hair)) < 0.05]
    scores |= dict(zip(kept, sorted((scores[t] for t in kept), reverse=True), strict=True))
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    unknown = [token for token, _ in model["vocab"]][model["unk_id"]]
    engine.model = models.Unigram([(token, 0.0) for token in special] + ordered, unk_id=special.index(unknown))


def train_bert(
    cls: type[BertTokenizer],
    files: Any,
    vocab_size: int = 30000,
    min_frequency: int | None = None,
    do_lower_case: bool = True,
    special_tokens: Sequence[str] | None = None,
    limit_alphabet: int | None = None,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
    **settings: Any,
) -> BertTokenizer:
    """Train a WordPiece vocabulary and make the tokenizer that uses it."""
    own = [name for name in inspect.signature(train_bert).parameters if name not in ("cls", "settings")]
    refuse_unknown(settings, [*own, *cls._settings()], f"{cls.__name__}.train")
    made = train_vocabulary(
        files,
        "wordpiece",
        vocab_size,
        min_frequency,
        do_lower_case,
        special_tokens,
        limit_alphabet,
        strip_accents,
        tokenize_chinese_chars,
    )
    return cls(
        vocab=made.vocab,
        do_lower_case=do_lower_case,
        strip_accents=strip_accents,
        tokenize_chinese_chars=tokenize_chinese_chars,
        **settings,
    )
