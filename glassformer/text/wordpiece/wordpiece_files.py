"""Reading BERT vocabularies (vocab.txt, tokenizer.json) and building the Rust engine from one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import CheckpointError, TokenizerError, shown
from ...json_fields import JsonFields, is_boolean, is_integer, is_list, is_string
from ..base.settings import read_token_id
from ..base.settings import read_vocabulary as read_ids
from ..base.tokenizer_files import VocabularyFile, read_fields

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from ..bert_tokenizer import BertTokenizer
    from ..tokenizer import PreTrainedTokenizer


def read_vocabulary(path: Path) -> VocabularyFile:
    """Read a vocab.txt, a tokenizer.json, or the one that a folder has."""
    if path.is_dir():
        text = path / "vocab.txt"
        path = text if text.is_file() else path / "tokenizer.json"
    if not path.is_file():
        raise TokenizerError(f"vocabulary file {str(path)!r} does not exist")
    return read_engine_file(path) if path.suffix == ".json" else read_lines(path)


def read_lines(path: Path) -> VocabularyFile:
    """One token in each line, its id the number of the line; of a token that comes twice, the last one counts."""
    vocab = {line: index for index, line in enumerate(text_lines(path))}
    if not vocab:
        raise TokenizerError(f"{path} is empty")
    return VocabularyFile(vocab, str(path))


def text_lines(path: Path) -> list[str]:
    """The lines of a file; what is not UTF-8 is named by its line."""
    from ...checkpoints.files import open_regular

    try:
        with open_regular(path) as file, io.TextIOWrapper(file, encoding="utf-8") as lines:
            return [line.rstrip("\n") for line in lines]
    except UnicodeDecodeError:
        for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise TokenizerError(f"{path}, line {number}: not UTF-8 ({error.reason})") from None
        raise
    except CheckpointError as error:
        raise TokenizerError(str(error)) from None


def read_engine_file(path: Path) -> VocabularyFile:
    """The vocabulary of a tokenizer.json, if it describes a BERT tokenizer."""
    parsed = read_fields(path)
    model, normalizer = parsed.section("model"), parsed.section("normalizer")
    kind = model.read("type", is_string, "WordPiece" if "max_input_chars_per_word" in model.values else None)
    if kind != "WordPiece" or model.values.get("continuing_subword_prefix", "##") != "##":
        described = f"a {kind}" if kind else "no"
        raise TokenizerError(f"{path} describes {described} tokenizer, a BertTokenizer reads WordPiece with '##'")
    vocab = read_ids(model.values.get("vocab"), path)
    changes = normalizer.read("type", is_string)
    splitter = parsed.section("pre_tokenizer").read("type", is_string)
    if (changes, splitter) != ("BertNormalizer", "BertPreTokenizer") or not normalizer.read("clean_text", is_boolean):
        raise TokenizerError(
            f"{path} uses {changes} and {splitter}; a BertTokenizer does what BertNormalizer (with "
            "clean_text) and BertPreTokenizer describe"
        )
    settings = {
        "do_lower_case": normalizer.read("lowercase", is_boolean),
        "strip_accents": normalizer.read("strip_accents", is_boolean),
        "tokenize_chinese_chars": normalizer.read("handle_chinese_chars", is_boolean),
        "max_input_chars_per_word": model.read("max_input_chars_per_word", is_integer()),
    }
    return VocabularyFile(vocab, str(path), read_added_tokens(parsed, path), settings)


def read_added_tokens(parsed: JsonFields, path: Path) -> dict[int, Any]:
    """The tokens that a tokenizer.json looks for in texts, by id."""
    added = {}
    for token in parsed.read("added_tokens", is_list, ()):
        if not isinstance(token, dict) or "id" not in token:
            raise TokenizerError(f"{path}: an added token must have an id and content, got {shown(token)}")
        added[read_token_id(token["id"], path)] = token
    return added


def engine_for(tokenizer: BertTokenizer, vocab: dict[str, int]) -> Tokenizer:
    """The Rust engine for text that holds no special token."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    engine = Tokenizer(
        WordPiece(
            vocab,
            unk_token=tokenizer.unk_token,
            max_input_chars_per_word=tokenizer.max_input_chars_per_word,
        )
    )
    engine.normalizer = BertNormalizer(
        clean_text=True,
        handle_chinese_chars=tokenizer.tokenize_chinese_chars,
        strip_accents=tokenizer.strip_accents,
        lowercase=tokenizer.do_lower_case,
    )
    engine.pre_tokenizer = BertPreTokenizer()
    return engine


def engine_text(tokenizer: BertTokenizer) -> str:
    """The text of a tokenizer.json, for other programs: with special tokens, template and decoder."""
    from tokenizers.decoders import WordPiece
    from tokenizers.processors import TemplateProcessing

    engine = engine_for(tokenizer, tokenizer.vocab)
    put_added_tokens(engine, tokenizer)
    cls, sep = tokenizer.cls_token, tokenizer.sep_token
    if cls is not None and sep is not None:
        engine.post_processor = TemplateProcessing(
            single=[f"{cls}:0", "$A:0", f"{sep}:0"],
            pair=[f"{cls}:0", "$A:0", f"{sep}:0", "$B:1", f"{sep}:1"],
            special_tokens=[(cls, tokenizer.cls_token_id), (sep, tokenizer.sep_token_id)],
        )
    engine.decoder = WordPiece(prefix="##")
    return engine.to_str(pretty=True)


def put_added_tokens(engine: Tokenizer, tokenizer: PreTrainedTokenizer) -> None:
    """Register a tokenizer's added tokens with an engine."""
    from tokenizers import AddedToken

    for _, token in tokenizer.added_tokens_decoder.items():
        made = AddedToken(
            token.content,
            single_word=token.single_word,
            lstrip=token.lstrip,
            rstrip=token.rstrip,
            normalized=not token.is_exact,
            special=token.special,
        )
        (engine.add_special_tokens if token.special else engine.add_tokens)([made])
