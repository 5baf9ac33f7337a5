"""Lines that make a document: what stands between them, for each kind of tokenizer."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import glassformer
from glassformer import train_tokenizer
from glassformer.data.readers import read_rows
from glassformer.errors import InputError
from glassformer.tasks.task import Task
from glassformer.text.bpe.bpe import SYMBOLS

from ...models.architectures import tiny_bert

WRAPPED = "I have learnt this\nlesson\n\nwell .\n"
CHINESE = "明月几时\n有把酒\n问青天\n"
SHAPE = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 64}


def writer(tokenizer: Any, **options: Any) -> Task:
    model = glassformer.GPT2LMHeadModel(glassformer.GPT2Config(vocab_size=len(tokenizer), **SHAPE))
    return glassformer.TextGeneration(model, tokenizer, **{"documents": "file", **options})


def learnt(task: Task, folder: Path, text: str) -> str:
    """What a task makes of a file with a text."""
    (folder / "book.txt").write_text(text, encoding="utf-8")
    pieces = task.prepare_rows(list(read_rows(folder / "book.txt")))
    return task.tokenizer.decode(pieces.corpus.ids.tolist(), clean_up_tokenization_spaces=False)


@pytest.mark.parametrize("text", [WRAPPED, CHINESE])
@pytest.mark.parametrize("kind", ["characters", "bpe"])
def test_bytes_keep_the_line_breaks_of_a_file(tmp_path, caplog, text, kind):
    tokenizer = train_tokenizer(iter([text]), kind, **({"vocab_size": 270} if kind == "bpe" else {}))
    task = writer(tokenizer)
    assert learnt(task, tmp_path, text) == text
    task.prepare_rows(list(read_rows(tmp_path / "book.txt")))
    notes = [each.getMessage() for each in caplog.records]
    assert notes == [
        "lines of a document are joined by the line break, which the tokenizer keeps; line_end=' ' joins them by a "
        "space, line_end='' by nothing"
    ]


def test_an_explicit_line_end_wins_and_rows_that_are_documents_get_none(tmp_path, caplog):
    task = writer(train_tokenizer(iter([WRAPPED]), "characters"))
    assert learnt(task.with_options(line_end=""), tmp_path, WRAPPED) == WRAPPED.replace("\n", "")
    assert learnt(task.with_options(line_end=" | "), tmp_path, "a\nb\n") == "a | b | "
    assert learnt(task.with_options(documents="row"), tmp_path, "a\nb\n") == "ab"  # two documents
    assert not caplog.records
    assert learnt(task.with_options(documents="row", document_start="^a"), tmp_path, "a\nb\na\n") == "a\nb\na\n"
    assert learnt(task.with_options(documents="blank"), tmp_path, "a\nb\n\nc\n") == "a\nb\nc\n"
    with pytest.raises(InputError, match="line_end must be a text or None, got int 3"):
        task.with_options(line_end=3)


def test_rows_that_hold_their_line_break_get_no_second_one():
    task = writer(train_tokenizer(iter([WRAPPED]), "characters"))
    pieces = task.prepare_rows([{"text": "a\n"}, {"text": "b"}])
    assert task.tokenizer.decode(pieces.corpus.ids.tolist()) == "a\nb\n"


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        (WRAPPED, "I have learnt this lesson well ."),
        (CHINESE, "明月几时有把酒问青天"),
        ("用\nGPT\n\n写 \n诗\n한국\n어\n", "用 GPT 写 诗 한국 어"),
    ],
)
def test_without_tokens_for_line_breaks_spaces_join_lines_but_no_chinese_characters(tmp_path, text, joined):
    tokens = {symbol: number for number, symbol in enumerate(each for each in SYMBOLS if each != SYMBOLS[10])}
    tokenizer = glassformer.GPT2Tokenizer(vocab=tokens, merges=[], unk_token=None, bos_token=None, eos_token=None)
    assert learnt(writer(tokenizer), tmp_path, text) == joined


@pytest.mark.parametrize("kind", ["words", "wordpiece"])
def test_tokenizers_that_separate_lines_anyway_get_nothing(tmp_path, caplog, kind):
    task = writer(train_tokenizer(iter([WRAPPED] * 2), kind))
    assert learnt(task, tmp_path, WRAPPED).lower() == "i have learnt this lesson well ."
    assert not caplog.records


def test_masked_and_pair_training_keep_words_apart_too(tmp_path):
    symbols = {symbol: number for number, symbol in enumerate([*SYMBOLS, "<s>", "</s>", "<pad>", "<unk>", "<mask>"])}
    tokenizer = glassformer.RobertaTokenizer(vocab=symbols, merges=[])
    config = tiny_bert(vocab_size=len(tokenizer), max_position_embeddings=64)
    task = glassformer.MaskedLanguageModeling(glassformer.BertForMaskedLM(config), tokenizer, documents="file")
    assert learnt(task, tmp_path, WRAPPED) == WRAPPED
    pairs = glassformer.PreTraining(glassformer.BertForPreTraining(config), tokenizer, sentences="punctuation")
    for documents in ("file", "row"):
        task = pairs.with_options(documents=documents)
        assert learnt(task, tmp_path, "It rained. We stayed.\n下雨了。我们在家。\n") == (
            "It rained. We stayed. 下雨了。我们在家。"
        )


def test_the_log_names_the_default_once(tmp_path, caplog):
    task = writer(train_tokenizer(iter([WRAPPED]), "characters"))
    with caplog.at_level(logging.WARNING, "glassformer"):
        for _ in range(3):
            learnt(task, tmp_path, WRAPPED)
    assert len(caplog.records) == 1


def test_lines_that_are_texts_though_they_end_within_sentences_are_reported(tmp_path, caplog):
    book = (
        "The keeper climbed the stairs at\ndusk, as he had climbed them every\nevening for thirty years. He did\n" * 4
    )
    tokenizer = train_tokenizer(iter([book]), "characters")
    with caplog.at_level(logging.WARNING, logger="glassformer"):
        learnt(writer(tokenizer, documents="row"), tmp_path, book)
    assert "most end within a sentence; documents='file' joins the lines of a file" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="glassformer"):
        learnt(writer(tokenizer, documents="row"), tmp_path, "Good morning.\nHow are you today, my friend?\n" * 10)
    assert not caplog.records
