"""Vocabularies that a line is missing in: reported by the size of the model and by the usual ids."""

from __future__ import annotations

import json
import warnings

import pytest

import glassformer
from glassformer.text.base.vocabulary_checks import warn_if_shifted

from ..models.architectures import tiny_bert

WORDS = ["[PAD]", *(f"[unused{i}]" for i in range(1, 100)), "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]


@pytest.fixture
def folder(tmp_path):
    def write(words, size):
        (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": size}))
        return tmp_path

    return write


def messages(path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        glassformer.BertTokenizer.from_pretrained(path)
    return [str(each.message) for each in caught]


def test_a_complete_vocabulary_is_quiet(folder):
    assert messages(folder(WORDS, len(WORDS))) == []
    assert messages(folder(WORDS, 112)) == []  # rounded up to a multiple of eight
    assert messages(folder(WORDS, 2000)) == []  # a task reports that it belongs to another model


def test_a_line_that_is_missing_at_the_end_is_found_by_the_size(folder):
    (message,) = messages(folder(WORDS[:-2] + WORDS[-1:], len(WORDS)))
    assert message.startswith("the tokenizer has 106 tokens and the model 107: if lines of the vocabulary are missing")


def test_a_line_that_is_missing_in_front_is_found_by_the_usual_ids(folder):
    words = WORDS[:50] + WORDS[51:] + ["d"]  # as long as before
    (message,) = messages(folder(words, len(words)))
    assert message.startswith("the ids [UNK] 99, [CLS] 100, [SEP] 101, [MASK] 102 are below the usual 100, 101, 102")


def test_a_vocabulary_of_one_size_that_only_looks_rounded():
    class Chinese:
        unk_token = cls_token = sep_token = mask_token = None

        def __len__(self):
            return 21127

    with pytest.warns(UserWarning, match="the tokenizer has 21127 tokens and the model 21128"):
        warn_if_shifted(Chinese(), 21128)


def test_a_task_reports_it_too(tmp_path):
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] a b".split()
    tokenizer = glassformer.BertTokenizer(vocab={word: i for i, word in enumerate(words)})
    model = glassformer.BertForSequenceClassification(tiny_bert(vocab_size=11))
    with pytest.warns(UserWarning, match="the tokenizer has 7 tokens and the model 11"):
        glassformer.TextClassification(model, tokenizer)


def test_a_config_that_cannot_be_read_does_not_matter_here(folder):
    path = folder(WORDS, 0)
    (path / "config.json").write_text("{")
    assert messages(path) == []
