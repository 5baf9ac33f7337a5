"""Reading BPE vocabularies (vocab.json with merges.txt, tokenizer.json) and building the Rust engine from one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import TokenizerError, shown
from ...json_fields import JsonFields, is_list, is_string, json_text
from ..base.settings import read_token, read_vocabulary
from ..base.tokenizer_files import ENGINE, read_fields, read_json
from ..wordpiece.wordpiece_files import VocabularyFile, put_added_tokens, read_added_tokens, text_lines
from .bpe import SYMBOLS, Pair

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from .bpe_tokenizer import BpeTokenizer

HEADER = "#version"


@dataclass(frozen=True, slots=True)
class BpeFile(VocabularyFile):
    """What the files of a BPE vocabulary say: the tokens, and which pairs are joined in which order."""

    merges: Sequence[Pair] = field(default_factory=tuple)
    drops_unknown: bool = False  # symbols that the vocabulary lacks are left out, and not read as the unknown token


def read_pair(vocab: Path, merges: Path) -> BpeFile:
    """A vocabulary from its two files."""
    for path in (vocab, merges):
        if not path.is_file():
            raise TokenizerError(f"vocabulary file {str(path)!r} does not exist")
    return BpeFile(read_vocabulary(read_json(vocab), vocab), str(vocab), merges=read_merges(merges))


def read_merges(path: Path) -> list[Pair]:
    """One pair in each line, the most important first."""
    pairs: list[Pair] = []
    for number, line in enumerate(text_lines(path), start=1):
        if not line.strip() or (number == 1 and line.startswith(HEADER)):
            continue
        pairs.append(pair_of(line, f"{path}, line {number}"))
    return pairs


def pair_of(value: Any, where: str) -> Pair:
    """A pair as files write it: two symbols with a space between them, or a list of two."""
    parts = value.split() if isinstance(value, str) else value
    if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, str) and part for part in parts):
        raise TokenizerError(f"{where}: a merge must be two symbols, got {shown(value)}")
    return read_token(parts[0], where), read_token(parts[1], where)


def read_engine_file(path: Path, suffix: str) -> tuple[BpeFile, JsonFields]:
    """The vocabulary of a tokenizer.json that describes a BPE tokenizer, and all that the file says."""
    parsed = read_fields(path)
    model = parsed.section("model")
    kind = model.read("type", is_string, "BPE" if "merges" in model.values else None)
    if kind != "BPE":
        raise TokenizerError(f"{path} describes a {kind} tokenizer, not one with byte-pair encoding")
    wanted = {"dropout": None, "continuing_subword_prefix": "", "end_of_word_suffix": suffix, "ignore_merges": False}
    for name, value in wanted.items():
        if (model.values.get(name) or value) != value:
            raise TokenizerError(f"{path}: {name} is {shown(model.values[name])}, this tokenizer knows only {value!r}")
    if suffix and not model.values.get("end_of_word_suffix"):
        raise TokenizerError(f"{path} marks no ends of words, this tokenizer marks them with {suffix!r}")
    listed = model.read("merges", is_list, ())
    merges = [pair_of(pair, f"{path}, merge {number}") for number, pair in enumerate(listed)]
    vocab, added = read_vocabulary(model.values.get("vocab"), path), read_added_tokens(parsed, path)
    drops = "unk_token" in model.values and model.read("unk_token", is_string) is None
    return BpeFile(vocab, str(path), added, {}, merges, drops), parsed


def fits_engine(tokenizer: BpeTokenizer) -> bool:
    """Whether the engine would do with this vocabulary what the original does."""
    vocab = tokenizer.vocab
    known = all(a in vocab and b in vocab and a + b in vocab for a, b in tokenizer.merges.ranks)
    needs_unknown = not tokenizer._has_every_symbol and tokenizer.unk_token is not None
    has_unknown = not needs_unknown or tokenizer.unk_token in vocab  # the engine knows no added tokens
    return known and has_unknown and tokenizer.merges.in_order()


def has_every_byte(vocab: Mapping[str, int]) -> bool:
    return all(symbol in vocab for symbol in SYMBOLS)


def engine_for(tokenizer: BpeTokenizer) -> Tokenizer:
    """The Rust engine with vocabulary and merges; how it cuts texts is for the kind of tokenizer to say."""
    from tokenizers import Tokenizer
    from tokenizers.models import BPE

    has_unknown = not tokenizer._has_every_symbol and not tokenizer._drops_unknown
    unknown = {"unk_token": tokenizer.unk_token} if has_unknown else {}
    suffix = tokenizer.end_of_word
    return Tokenizer(BPE(tokenizer.vocab, tokenizer.merges.pairs, end_of_word_suffix=suffix, fuse_unk=False, **unknown))


def engine_text(tokenizer: BpeTokenizer) -> str:
    """The text of a tokenizer.json, for other programs: with special tokens, template and decoder."""
    engine = tokenizer._build_engine()
    put_added_tokens(engine, tokenizer)
    tokenizer._finish_engine(engine)
    parsed = json.loads(engine.to_str())
    # Older programs read only this form of merges.
    parsed["model"]["merges"] = [" ".join(pair) for pair in tokenizer.merges.pairs]
    return json_text(parsed)


def vocabulary_files(tokenizer: BpeTokenizer) -> dict[str, str]:
    """vocab.json, merges.txt and, if the engine can hold the vocabulary, tokenizer.json.

    Unknown symbols that are left out although there is an unknown token are known to tokenizer.json alone.
    """
    if tokenizer._fits_engine and tokenizer._drops_unknown and tokenizer.unk_token is not None:
        return {ENGINE: engine_text(tokenizer)}
    ordered = dict(sorted(tokenizer.vocab.items(), key=lambda item: item[1]))
    lines = [f"{HEADER}: 0.2", *(f"{a} {b}" for a, b in tokenizer.merges.pairs)]
    files = {"vocab.json": json.dumps(ordered, ensure_ascii=False) + "\n", "merges.txt": "\n".join(lines) + "\n"}
    return files | ({ENGINE: engine_text(tokenizer)} if tokenizer._fits_engine else {})
