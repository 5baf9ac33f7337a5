"""A new tokenizer of a recipe is trained on all texts that its task reads and writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer import AutoTokenizer, ConfigError
from glassformer.cli.main import main
from glassformer.data.readers import read_rows
from glassformer.tasks.task_registry import TASKS, task_class
from glassformer.train.recipes.build_trainer import texts_of, tokenizers
from glassformer.train.recipes.recipe import make_recipe

# A row of each task, and the words that a vocabulary for it needs.
ROWS = {
    "text-classification": ({"text": "one", "text_pair": "two", "label": "bad"}, "one two"),
    "token-classification": ({"tokens": ["one", "two"], "tags": ["O", "B-PER"]}, "one two"),
    "question-answering": ({"question": "one", "context": "two three", "answers": {}, "id": "x"}, "one two three"),
    "multiple-choice": ({"prompt": "one", "choices": ["two three", "four"], "label": 0}, "one two three four"),
    "next-sentence": ({"text": "one", "text_pair": "two", "label": 1}, "one two"),
    "fill-mask": ({"text": "one [MASK]", "words": ["two"]}, "one two [MASK]"),
    "masked-language-modeling": ({"text": "one two"}, "one two"),
    "pre-training": ({"text": "one two"}, "one two"),
    "permutation-language-modeling": ({"text": "one two"}, "one two"),
    "replaced-token-detection": ({"text": "one two"}, "one two"),
    "text-generation": ({"text": "one two"}, "one two"),
    "translation": ({"source": "one", "target": "two"}, "one two"),
    "summarization": ({"source": "one", "target": "two"}, "one two"),
    "text2text-generation": ({"source": "one", "target": "two"}, "one two"),
    "span-corruption": ({"text": "one two"}, "one two"),
    "sentence-similarity": ({"text": "one", "text_pair": ["two"], "negative": ["three"]}, "one two three"),
    "feature-extraction": ({"text": "one"}, "one"),
    "zero-shot-classification": ({"text": "one"}, "one"),
}
CONLL = "John B-PER\nSmith I-PER\nlives O\n\nMary B-PER\nlives O\n\n" * 3
CHINESE = "张 B-NAME\n三 E-NAME\n在 O\n\n" * 3


def recipe(task: str, **values):
    train = {"output_dir": "run", **values.pop("train", {})}
    return make_recipe({"task": task, "model": "new:bert", "data": {"train": "x.txt"}, "train": train, **values})


def test_every_task_has_a_row_here():
    assert ROWS.keys() == {name for name in TASKS if not {"image", "audio"} & {*task_class(name).columns.inputs}}


@pytest.mark.parametrize("task", ROWS)
def test_all_texts_of_a_row_are_read(task):
    row, words = ROWS[task]
    tokenizer, _ = tokenizers(recipe(task, tokenizer="new:words"), task_class(task), [row])
    assert {*tokenizer.vocab} - {"<unk>", "<eos>"} == {*words.split()}


def test_other_names_of_columns_are_read_too():
    pairs = [{"sentence1": "one", "sentence2": "two", "label": 0}]
    assert list(texts_of(task_class("text-classification"), pairs, ("text", "text_pair"))) == ["one\n", "two\n"]
    hosted = [{"source_sentence": "one", "sentences": ["two", "three"], "score": [0, 1]}]
    assert list(texts_of(task_class("sentence-similarity"), hosted, ("text", "text_pair"))) == ["one\n", "two three\n"]


def test_source_and_target_have_vocabularies_of_their_own_texts():
    row, _ = ROWS["translation"]
    both = recipe("translation", tokenizer="new:words", target_tokenizer="new:words")
    source, more = tokenizers(both, task_class("translation"), [row])
    assert "one" in source.vocab and "two" not in source.vocab
    assert "two" in more["target_tokenizer"].vocab and "one" not in more["target_tokenizer"].vocab


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "characters", "words"])
def test_rows_without_a_text_are_an_error_that_names_their_columns(kind):
    new = recipe("text-classification", tokenizer=f"new:{kind}")
    with pytest.raises(ConfigError, match=r"needs texts in text, text_pair; the rows hold review, label$"):
        tokenizers(new, task_class("text-classification"), [{"review": "so good", "label": 1}])


@pytest.mark.parametrize(
    ("text", "kind", "token"),
    [
        (CONLL, "wordpiece", "john"),
        (CONLL, "words", "Smith"),
        (CHINESE, "wordpiece", "张"),
        (CHINESE, "words", "三"),
        (CHINESE, "characters", "å¼ł"),  # the bytes of 张 in one token
    ],
)
def test_columns_of_a_conll_file_make_a_vocabulary_that_is_trained(tmp_path, monkeypatch, text, kind, token):
    monkeypatch.chdir(tmp_path)
    Path("train.conll").write_text(text, encoding="utf-8")
    columns = {"columns": {"tokens": 0, "tags": 1}}
    rows = list(read_rows("train.conll"))
    new = recipe("token-classification", tokenizer=f"new:{kind}", data={"train": "train.conll", **columns})
    assert token in tokenizers(new, task_class("token-classification"), rows)[0].vocab


def test_a_tagger_is_trained_with_a_new_vocabulary(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("train.conll").write_text(CONLL, encoding="utf-8")
    shape = ["hidden_size=16", "num_hidden_layers=1", "num_attention_heads=2", "intermediate_size=16"]
    arguments = ["--model=new:bert", "--tokenizer=new:wordpiece", "--data=train.conll", "--max-steps=1"]
    arguments += [f"--config.{each}" for each in shape] + ["--vocabulary.vocab_size=60", "--output-dir=run"]
    assert main(["train", "ner", *arguments]) == 0, capsys.readouterr().err
    assert AutoTokenizer.from_pretrained("run").tokenize("John lives") == ["john", "lives"]
