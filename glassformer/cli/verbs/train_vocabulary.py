"""`glass train-vocabulary`: a new tokenizer from plain text."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from ...errors import InputError
from ..arguments import command_with
from ..output.terminal import print_json, size

if TYPE_CHECKING:
    from ...text.training.trained_vocabulary import Coverage

REASONS = {  # why there are fewer tokens than requested
    "wordpiece": "no other pair occurs {} times in the text",
    "bpe": "no other pair occurs {} times in the text",
    "unigram": "no other piece is useful for the text",
    "characters": "the text has no others",
    "words": "the text has no others that are frequent enough",
}
FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "spiece.model")


def train_vocabulary(
    files: Positional[Annotated[tuple[Path, ...], arg(metavar="FILE")]],
    /,
    *,
    output: Annotated[Path, arg(metavar="FOLDER")],
    kind: Literal["wordpiece", "bpe", "unigram", "characters", "words"] = "wordpiece",
    vocab_size: Annotated[int | None, arg(metavar="N")] = None,
    min_frequency: Annotated[int | None, arg(metavar="N")] = None,
    limit_alphabet: Annotated[int | None, arg(metavar="N")] = None,
    extra_ids: Annotated[int, arg(metavar="N")] = 0,
    cased: bool = False,
    encoding: Annotated[str | None, arg(metavar="NAME")] = None,
    overwrite: bool = False,
    json: bool = False,
) -> int:
    """Make a new vocabulary from text files: WordPiece, byte-level BPE, Unigram, characters or whole words.

    The same text always gives the same vocabulary. AutoTokenizer reads the folder: as a BertTokenizer (WordPiece and
    words), a GPT2Tokenizer (BPE and characters) or a T5Tokenizer (Unigram).

    examples:
      glass train-vocabulary book.txt --output ./my-tokenizer --vocab-size 8000
      glass train-vocabulary *.txt --output ./my-bpe --kind bpe
      glass tokenize ./my-tokenizer "a text of yours"

    Args:
        files: Text files.
        output: The folder to write; it is created if it does not exist.
        kind: Which kind of vocabulary.
        vocab_size: How many tokens at most, special ones included; 30000 if not given, or (words) all there are.
        min_frequency: How often a pair must occur to become a token (wordpiece, bpe); 2 if not given. Of
            characters and words, how often they must occur themselves.
        limit_alphabet: Keep the N most frequent characters (wordpiece); all for which there is room if not given.
        extra_ids: How many sentinels follow behind the vocabulary (unigram), which span-corruption needs: 100 of T5.
        cased: Keep capitals and accents (wordpiece); the other kinds always do.
        encoding: What the files are written in, such as gbk or utf-16; UTF-8 if not given.
        overwrite: Replace a tokenizer that is in the folder already.
        json: Print JSON.
    """
    from ...text.training.new_tokenizer import make_tokenizer
    from ...text.training.training_text import file_lines
    from ...text.training.vocabulary_training import make_vocabulary

    if not files:
        raise InputError("name at least one text file")
    if extra_ids and kind != "unigram":
        raise InputError(f"--extra-ids is for unigram, whose tokenizer is a T5Tokenizer, not for {kind}")
    if cased and kind != "wordpiece":
        raise InputError(f"--cased is for wordpiece; a {kind} vocabulary keeps capitals anyway")
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file; --output takes a folder")
    existing = [name for name in FILES if (output / name).exists()]
    if existing and not overwrite:
        raise InputError(f"{output} holds {', '.join(existing)} already; to replace it: {command_with('--overwrite')}")

    started = time.perf_counter()
    lines = file_lines(list(files), encoding)
    try:
        if kind == "bpe":
            trained = make_vocabulary(lines, kind, vocab_size or 30000, min_frequency, limit_alphabet=limit_alphabet)
            vocab, coverage = trained.vocab, trained.coverage
            written = trained.save(output)
        else:
            lowercase = False if cased else None
            made, coverage = make_tokenizer(
                lines, kind, vocab_size, min_frequency, lowercase, limit_alphabet, extra_ids
            )
            vocab = made.vocab
            written = made.save_pretrained(output)
    except OSError as error:
        raise InputError(f"{error.filename or output}: {(error.strerror or str(error)).lower()}") from None
    seconds = time.perf_counter() - started

    vocab_size = len(vocab) if vocab_size is None and kind in ("characters", "words") else vocab_size or 30000
    read = sum(file.stat().st_size for file in files)
    if json:
        values = {"kind": kind, "tokens": len(vocab), "requested": vocab_size, "bytes_read": read, "seconds": seconds}
        covered = {name: getattr(coverage, name) for name in ("unit", "share", "kinds", "left_out")}
        print_json({**values, "coverage": covered, "files": list(written)})
        return 0
    print(f"{len(vocab):,} tokens ({kind}) from {size(read)} of text in {seconds:.1f} s")
    if len(vocab) < vocab_size:
        reason = REASONS[kind].format(2 if min_frequency is None else min_frequency)
        print(f"Fewer than the {vocab_size:,} that were requested: {reason}.")
    elif len(vocab) > vocab_size:
        print(f"A {kind} vocabulary cannot have fewer on this text: {vocab_size:,} were requested.")
    print(f"It covers {coverage}." + advice(coverage, kind, limit_alphabet))
    print("Longest: " + ", ".join(sorted(vocab, key=lambda token: (-len(token), token))[:6]))
    for path in written:
        print(f"  {path}")
    return 0


def advice(coverage: Coverage, kind: str, limit_alphabet: int | None) -> str:
    """Which option would cover more of the text."""
    if not coverage.left_out or coverage.are_spelt:
        return ""
    if kind == "wordpiece" and limit_alphabet is not None:
        return " A higher --limit-alphabet covers more."
    return " A larger --vocab-size" + (", or a lower --min-frequency," if kind == "words" else "") + " covers more."
