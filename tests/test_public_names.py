"""The public names: lazy at run time, explicit for type checkers, and the same in both."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import glassformer
from glassformer.name_suggestions import INSTEAD


def test_stub_names_what_can_be_imported():
    tree = ast.parse(Path(glassformer.__file__).with_suffix(".pyi").read_text())
    stub = {
        (alias.name, node.module)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    assert stub == set(glassformer._HOME_OF.items()), "python scripts/write_stub.py"


PUBLIC = glassformer._HOME_OF


@pytest.mark.parametrize(
    "name, hint",
    [
        ("BertModl", ", did you mean 'BertModel'?"),
        ("bertmodel", ", did you mean 'BertModel'?"),
        ("text_classification", ", did you mean 'TextClassification'?"),
        ("BrtForMaskedLM", ", did you mean 'BertForMaskedLM'?"),
        ("TrainingArguments", ": TrainSettings has most of its fields, by the same names"),
        ("DataCollatorWithPadding", ": a task collates its rows itself, and tokenizer(texts, padding=True) pads"),
        ("DataCollatorForTokenClassification", ": a task collates its rows itself, and tokenizer(texts, padding=True)"),
        ("TFBertModel", ": models are torch modules here, use 'BertModel'"),
        ("FlaxGPT2LMHeadModel", ": models are torch modules here, use 'GPT2LMHeadModel'"),
        ("TextClassificationPipeline", ": pipeline('text-classification') makes it"),
        ("GPT2ForMaskedLM", ": there are GPT2Config, GPT2DoubleHeadsModel, GPT2ForQuestionAnswering, GPT2For"),
        ("LlamaForCausalLM", ": the architectures are albert, bert, "),
        ("SentenceTransformer", ": SentenceEncoder reads the same folders, with encode and similarity"),
        ("load_dataset", ": read_rows reads the rows of a file, a folder or a data set of a hub"),
    ],
)
def test_an_unknown_name_suggests_what_to_use(name, hint):
    with pytest.raises(AttributeError) as error:
        getattr(glassformer, name)
    assert str(error.value).startswith(f"glassformer has no {name!r}{hint}")
    with pytest.raises(ImportError) as error:
        exec(f"from glassformer import {name}")
    assert str(error.value).startswith(f"glassformer has no {name!r}{hint}")
    assert not hasattr(glassformer, name)


def test_a_name_like_no_other_suggests_nothing():
    with pytest.raises(AttributeError, match=r"^glassformer has no 'qqq'$"):
        _ = glassformer.qqq
    assert not hasattr(glassformer, "__wrapped__")


def test_modules_are_imported_as_from_any_package():
    script = "from glassformer import cli, registry; print(cli.__name__, registry.__name__)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["glassformer.cli", "glassformer.registry"]


def test_suggestions_name_what_exists():
    assert not INSTEAD.keys() & set(PUBLIC)
    named = {word for hint in INSTEAD.values() for word in re.findall(r"[\w.]+", hint)}
    classes = {word for word in named if re.fullmatch(r"(?:[A-Z]+[a-z]\w*){2,}|[a-z]+_\w+", word)}
    options = {"mask_whole_words", "early_stopping_patience"}
    assert classes - options <= set(PUBLIC)
    assert "early_stopping_patience" in inspect.signature(glassformer.TrainSettings).parameters
    assert "mask_whole_words" in inspect.getsource(glassformer.MaskedLanguageModeling)
