"""feature-extraction: transformers' vectors, of tiny models and of a real one."""

from __future__ import annotations

import logging

import pytest
import torch

import glassformer
from glassformer import InputError, pipeline

from .conftest import TEXTS, close, theirs


@pytest.mark.parametrize("given", [TEXTS[0], TEXTS, TEXTS[:1]])
def test_vectors_are_those_of_transformers(checkpoint, given):
    folder = checkpoint(glassformer.BertModel)
    close(pipeline("feature-extraction", model=folder)(given), theirs("feature-extraction", folder)(given))


def test_tensors(checkpoint):
    pipe = pipeline(model=checkpoint(glassformer.BertModel))
    found = pipe("the cat", return_tensors=True)
    assert found.shape == (1, 4, 48)
    assert not found.is_inference()
    torch.testing.assert_close(found, torch.tensor(pipe("the cat")))
    assert torch.equal(pipe("the cat", return_tensors="pt"), found)
    assert (pipe("the cat", return_tensors="np") == found.numpy()).all()


def test_a_head_does_not_stand_in_the_way(checkpoint):
    folder = checkpoint(glassformer.BertForMaskedLM)
    expected = pipeline("feature-extraction", model=folder)("the cat")  # without a trained pooler, which nobody reads
    model = glassformer.BertForMaskedLM.from_pretrained(folder)
    close(pipeline("feature-extraction", model=model)("the cat"), expected)


def test_long_texts(checkpoint, caplog):
    folder = checkpoint(glassformer.BertModel)
    pipe = pipeline("feature-extraction", model=folder)
    long = "the cat sat . " * 12
    with pytest.raises(InputError, match="a text has 50 tokens and the model takes 40"):
        pipe(long)
    with caplog.at_level(logging.WARNING, "glassformer"):
        found = pipe([long, long], tokenize_kwargs={"truncation": True})
    close(found[0], theirs("feature-extraction", folder)(long, truncation=True))
    assert [record.message for record in caplog.records] == [
        "a text is longer than 40 tokens and is truncated, and so may be others after it"
    ]


def test_a_real_model(minilm):
    texts = ["The weather is lovely today.", "naïve café — 東京 2024"]
    ours = pipeline("feature-extraction", model=minilm)(texts)
    close(ours, theirs("feature-extraction", minilm)(texts))


def test_gpt2(tmp_path):
    from ..models.architectures import tiny_gpt2
    from .conftest import save
    from .tiny import VOCAB

    torch.manual_seed(0)
    folder = save(tmp_path / "gpt2", glassformer.GPT2Model(tiny_gpt2(vocab_size=len(VOCAB))).eval())
    close(pipeline(model=folder)(TEXTS), theirs("feature-extraction", folder)(TEXTS))
