"""Texts for texts with T5: prefixes and settings of the model's files, tasks with languages, sources of any length."""

from __future__ import annotations

import logging
import pickle

import pytest
import torch

import glassformer
from glassformer import InputError, T5Config, T5ForConditionalGeneration, Text2TextGeneration, pipeline, train_tokenizer
from glassformer.tasks.metrics import exact_match, rouge
from glassformer.tasks.task_registry import task_class

TEXT = "translate english to german : the house is small summarize : a long story of a dog and a cat"
PARAMS = {
    "summarization": {"prefix": "summarize : ", "num_beams": 3, "max_length": 7, "min_length": 5},
    "translation_en_to_de": {"prefix": "translate english to german : ", "max_length": 9},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("t5")
    tokenizer = train_tokenizer(iter([TEXT] * 3), "unigram", vocab_size=60, extra_ids=4)
    tokenizer.model_max_length = 12
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "head_width": 8, "num_attention_heads": 4, "num_hidden_layers": 2}
    shape |= {"intermediate_size": 48, "vocab_size": len(tokenizer), "initializer_factor": 2.0}
    model = T5ForConditionalGeneration(T5Config(**shape, task_specific_params=PARAMS))
    for parameter in model.parameters():
        parameter.data += 0.01  # as if it had been trained: a newly initialised model does not answer
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def generated(folder, text, **settings):
    """What the model generates for a text, by hand."""
    tokenizer = glassformer.AutoTokenizer.from_pretrained(folder)
    model = T5ForConditionalGeneration.from_pretrained(folder)
    ids = model.generate(tokenizer(text, return_tensors="pt").input_ids, **settings)
    return tokenizer.decode(ids[0], skip_special_tokens=True).strip()


@pytest.mark.parametrize(("task", "key"), [("summarization", "summary"), ("translation_en_to_de", "translation")])
def test_prefix_and_settings_of_the_files(folder, task, key):
    params = dict(PARAMS[task])
    prefix = params.pop("prefix")
    wanted = generated(folder, prefix + "the house", **params)
    pipe = pipeline(task, model=folder)
    assert pipe("the house")[0][f"{key}_text"] == wanted
    longer = generated(folder, prefix + "the house", **{**params, "max_length": 11})
    assert pipe("the house", max_length=11)[0][f"{key}_text"] == longer != wanted
    assert pipe("the house", prefix="")[0][f"{key}_text"] == generated(folder, "the house", **params)


def test_the_usual_task_of_a_t5_has_no_prefix(folder):
    pipe = pipeline(model=folder, max_new_tokens=6)
    assert pipe.task == "text2text-generation"
    assert pipe("a dog")[0]["generated_text"] == generated(folder, "a dog", max_new_tokens=6)
    texts = ["a dog", "the house is small", "a cat"]
    assert pipe(texts) == [pipe(text)[0] for text in texts]
    predictions, references = ["a dog", "the cat"], ["a dog", "a cat"]
    expected = {**exact_match(predictions, references), **rouge(predictions, references)}
    assert pipe.worker.compute_metrics(predictions, references) == expected
    assert tuple(expected) == Text2TextGeneration.metric_names


def test_a_translation_without_languages_says_which_there_are(folder, caplog):
    pipe = pipeline("translation", model=folder, max_new_tokens=2)
    with caplog.at_level(logging.WARNING, "glassformer"):
        pipe("translate english to german : a dog")
        assert "languages" not in caplog.text
        pipe("a dog")
    assert "languages are meant: name the task translation_en_to_de, or give a prefix" in caplog.text
    with pytest.raises(InputError, match="there is no task 'translation_en_de'"):
        pipeline("translation_en_de", model=folder)


def test_tasks_with_languages_can_be_pickled(folder):
    kind = task_class("translation_en_to_de")
    assert kind is task_class("translation_en_to_de") and kind.name == "translation"
    task = kind.from_pretrained(folder)
    again = pickle.loads(pickle.dumps(task))
    assert type(again) is kind and again.prefix == task.prefix == PARAMS["translation_en_to_de"]["prefix"]


def test_sources_may_be_longer_than_the_tokenizer_says(folder, caplog):
    text = "a dog and a cat " * 6
    pipe = pipeline("text2text-generation", model=folder, max_new_tokens=5)
    with caplog.at_level(logging.WARNING, "glassformer"):
        answer = pipe(text)[0]
    assert answer["generated_text"] == generated(folder, text, max_new_tokens=5)
    assert "the model takes any number, though its tokenizer's files name 12" in caplog.text
    assert pipe(text, truncation=True)[0]["truncated"] is True
