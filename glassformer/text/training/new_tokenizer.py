"""A new tokenizer from plain text: pieces of words, pieces of bytes, characters, or whole words.

Characters and words need no tokenizer of their own. Characters are byte-pair encoding whose only merges put the bytes
of one character together; whole words are WordPiece without pieces, on text that is cut at spaces alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from os import PathLike
from typing import Any

from ...errors import InputError, nearest, suggests
from ..base.encoding_options import check_whole_number
from ..bert_tokenizer import BertTokenizer
from ..bpe.bpe import SYMBOLS
from ..gpt2_tokenizer import END, GPT2Tokenizer
from ..sentencepiece.charsmap_writer import nfkc_charsmap
from ..sentencepiece.model_file import CONTROL, NORMAL, UNKNOWN, Normalization, Piece, SentencePieceModel
from ..t5_tokenizer import T5Tokenizer, sentinel
from ..tokenizer import PreTrainedTokenizer
from ..wordpiece.wordpiece import NOT_SPACE
from .trained_vocabulary import Coverage, Vocabulary
from .training_text import read_lines
from .vocabulary_training import make_vocabulary, visible

TOKENIZER_KINDS = ("wordpiece", "bpe", "unigram", "characters", "words")
UNKNOWN_WORD, LINE_END = "<unk>", "<eos>"


@suggests
def train_tokenizer(
    files_or_texts: str | PathLike[str] | Iterable[str | PathLike[str]],
    kind: str = "wordpiece",
    vocab_size: int | None = None,
    min_frequency: int | None = None,
    lowercase: bool | None = None,
    limit_alphabet: int | None = None,
    extra_ids: int | None = None,
) -> PreTrainedTokenizer:
    """Make a tokenizer from text files or from an iterator of strings, as `train_vocabulary` takes them.

    wordpiece   a BertTokenizer, 30,000 tokens by default; it keeps every character for which there is room, or the
                `limit_alphabet` most frequent ones
    bpe         a GPT2Tokenizer, 30,000 tokens by default
    unigram     a T5Tokenizer, 30,000 tokens by default and `extra_ids` sentinels; text is read in the normal form NFKC
    characters  a GPT2Tokenizer in which every character that occurs `min_frequency` times is a token; the others are
                spelt in bytes, so that no text is unknown
    words       a BertTokenizer that cuts at spaces alone: the `vocab_size` most frequent words, or all; <eos> and
                <unk> are two of them

    >>> words = train_tokenizer(iter(["the cat sat on the mat"]), "words")
    >>> words.convert_ids_to_tokens(words.encode("the dog sat <eos>", add_special_tokens=False))
    ['the', '<unk>', 'sat', '<eos>']

    Characters (or words) of the text that have no token are logged.

    Args:
        files_or_texts: Text files, or an iterator of strings.
        kind: wordpiece, bpe, unigram, characters or words.
        vocab_size: The maximum number of tokens; None: 30,000 of wordpiece, bpe and unigram, all words.
        min_frequency: How often a piece, a character or a word must occur to become a token; None: 2 for pieces,
            else 1.
        lowercase: For wordpiece: whether upper and lower case are the same; None: they are.
        limit_alphabet: For wordpiece: keep only this many of the most frequent characters; None: as many as
            there is room for.
        extra_ids: For unigram: how many sentinels, <extra_id_0> and so on, follow behind the vocabulary; None:
            none, but 100 for a task that needs them.
    """
    made, coverage = make_tokenizer(
        files_or_texts, kind, vocab_size, min_frequency, lowercase, limit_alphabet, extra_ids or 0
    )
    coverage.warn()
    return made


def make_tokenizer(
    files_or_texts: Any,
    kind: str,
    vocab_size: int | None,
    min_frequency: int | None,
    lowercase: bool | None,
    limit_alphabet: int | None,
    extra_ids: int = 0,
) -> tuple[PreTrainedTokenizer, Coverage]:
    """The tokenizer of `train_tokenizer`, and how much of the text it covers."""
    if kind not in TOKENIZER_KINDS:
        hint = nearest(str(kind), TOKENIZER_KINDS)
        raise InputError(f"a new tokenizer is one of {', '.join(TOKENIZER_KINDS)}, got {kind!r}{hint}")
    check_whole_number("vocab_size", vocab_size, 1)
    check_whole_number("min_frequency", min_frequency, 0)
    if kind != "wordpiece" and lowercase is not None:
        raise InputError(f"lowercase is for wordpiece; a tokenizer of {kind} keeps every text as it is")
    if kind != "wordpiece" and limit_alphabet is not None:
        raise InputError(f"limit_alphabet is for wordpiece, not for {kind}")
    check_whole_number("extra_ids", extra_ids, 0)
    if kind != "unigram" and extra_ids:
        raise InputError(f"extra_ids, the sentinels of a T5Tokenizer, are for unigram, not for {kind}")
    if kind == "characters" and vocab_size is not None:
        raise InputError("vocab_size is not for characters, which are as many as the text has; give min_frequency")
    size = vocab_size or 30000
    if kind == "wordpiece":
        lower = lowercase is not False
        made = make_vocabulary(files_or_texts, kind, size, min_frequency, lower, limit_alphabet=limit_alphabet)
        return BertTokenizer(vocab=made.vocab, do_lower_case=lower), made.coverage
    if kind == "bpe":
        made = make_vocabulary(files_or_texts, kind, size, min_frequency)
        merges = json.loads(made.engine.to_str())["model"]["merges"]
        pairs = [(first, second) for first, second in (p.split(" ") if isinstance(p, str) else p for p in merges)]
        return GPT2Tokenizer(vocab=made.vocab, merges=pairs, clean_up_tokenization_spaces=False), made.coverage
    if kind == "unigram":
        made = make_vocabulary(files_or_texts, kind, size, min_frequency)
        return unigram_tokenizer(made, extra_ids), made.coverage
    lines = read_lines(files_or_texts)
    if kind == "characters":
        return character_tokenizer(lines, min_frequency or 1)
    return word_tokenizer(lines, vocab_size, min_frequency or 1)


def unigram_tokenizer(vocabulary: Vocabulary, extra_ids: int = 0) -> T5Tokenizer:
    """The tokenizer of a trained Unigram vocabulary, with its normal form written as rules of SentencePiece."""
    trained = json.loads(vocabulary.engine.to_str())["model"]
    special = [token for token, score in trained["vocab"] if score == 0.0]
    unknown = trained["vocab"][trained["unk_id"]][0]
    kinds = dict.fromkeys(special, CONTROL) | {unknown: UNKNOWN}
    model = SentencePieceModel(
        tuple(Piece(token, score, kinds.get(token, NORMAL)) for token, score in trained["vocab"]),
        normalization=Normalization(nfkc_charsmap(vocabulary.lowercase), name="nfkc"),
        where="the trained vocabulary",
    )
    eos, pad = ("</s>" if "</s>" in special else None), ("<pad>" if "<pad>" in special else None)
    return T5Tokenizer(
        vocab=model,
        extra_ids=extra_ids,
        unk_token=unknown,
        eos_token=eos,
        pad_token=pad,
        additional_special_tokens=[
            *(token for token in special if token not in (unknown, eos, pad)),
            *(sentinel(number) for number in range(extra_ids)),
        ],
        clean_up_tokenization_spaces=False,
    )


def character_tokenizer(lines: Iterable[str], frequency: int) -> tuple[GPT2Tokenizer, Coverage]:
    """Every character a token. A merge begins with the first byte of a character and so never joins two of them."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line)
    if not counts:
        raise InputError("the text to train on is empty")
    tokens = [*SYMBOLS]
    merges = []
    kept = {char for char, count in counts.items() if count >= frequency or char.isascii()}
    for char in sorted(char for char in kept if not char.isascii()):
        joined, *rest = (SYMBOLS[byte] for byte in char.encode())
        for symbol in rest:
            merges.append((joined, symbol))
            joined += symbol
            tokens.append(joined)
    vocab = {token: number for number, token in enumerate(dict.fromkeys([*tokens, END]))}
    made = GPT2Tokenizer(vocab=vocab, merges=list(dict.fromkeys(merges)), clean_up_tokenization_spaces=False)
    return made, Coverage.of(visible(counts), kept, spelt=True)


def word_tokenizer(lines: Iterable[str], size: int | None, frequency: int) -> tuple[BertTokenizer, Coverage]:
    """Words by frequency, the most frequent first, and of equals in the order of the alphabet."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(NOT_SPACE.findall(line))
    own = (LINE_END, UNKNOWN_WORD)
    words = [word for word, count in counts.items() if count >= frequency and word not in own]
    words.sort(key=lambda word: (-counts[word], word))
    if not words:
        raise InputError(f"the text has no word that occurs {frequency} times")
    kept = [*own, *words][:size]
    made = BertTokenizer(
        vocab={word: number for number, word in enumerate(kept)},
        do_lower_case=False,
        do_basic_tokenize=False,
        unk_token=UNKNOWN_WORD,
        eos_token=LINE_END,
        sep_token=None,
        pad_token=None,
        cls_token=None,
        mask_token=None,
        clean_up_tokenization_spaces=False,
        max_input_chars_per_word=max(100, *map(len, kept)),
    )
    return made, Coverage.of(counts, set(kept), "words")
