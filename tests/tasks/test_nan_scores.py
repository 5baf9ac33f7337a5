"""No task answers from scores that are NaN: the error names the layer in which they begin."""

from __future__ import annotations

import pytest
import torch

import glassformer
from glassformer import NotFiniteError, pipeline
from glassformer.tasks import inference
from glassformer.train.evaluation import evaluate

CONTEXT = {"question": "where is the cat ?", "context": "the cat sat on the mat in the park ."}
TASKS = {
    "text-classification": (glassformer.BertForSequenceClassification, "the cat"),
    "zero-shot-classification": (glassformer.BertForSequenceClassification, "the cat"),
    "token-classification": (glassformer.BertForTokenClassification, "the cat"),
    "question-answering": (glassformer.BertForQuestionAnswering, CONTEXT),
    "fill-mask": (glassformer.BertForMaskedLM, "the [MASK] ."),
    "next-sentence-prediction": (glassformer.BertForNextSentencePrediction, {"text": "the cat", "text_pair": "sat"}),
    "multiple-choice": (glassformer.BertForMultipleChoice, {"prompt": "the cat", "choices": ["sat", "so good"]}),
    "feature-extraction": (glassformer.BertModel, "the cat"),
    "sentence-similarity": (glassformer.BertModel, {"source_sentence": "the cat", "sentences": ["a dog"]}),
}


def broken(checkpoint, kind, **fields):
    """A model with a NaN in its second layer, and its tokenizer."""
    folder = checkpoint(kind, **fields)
    model = kind.from_pretrained(folder)
    with torch.no_grad():
        model.layers[1].intermediate.dense.bias[2] = torch.nan
    return model, glassformer.AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("in_parallel", (False, True))
def test_every_pipeline_names_the_layer(checkpoint, monkeypatch, name, in_parallel):
    kind, row = TASKS[name]
    fields = {"id2label": {0: "entailment", 1: "contradiction"}} if name == "zero-shot-classification" else {}
    options = {"candidate_labels": ["cat", "dog"]} if fields else {}
    if in_parallel:
        monkeypatch.setattr(inference, "PREPARED_FROM", 0)  # on prepared weights, which have no hooks
    pipe = pipeline(name, *broken(checkpoint, kind, **fields), **options)
    with pytest.raises(NotFiniteError, match=r"begin in .*layer\.1\.intermediate\.dense, whose bias is not finite"):
        pipe(row)


def test_evaluation_names_it_too(checkpoint):
    task = glassformer.TextClassification(*broken(checkpoint, glassformer.BertForSequenceClassification))
    rows = [{"text": "the cat", "label": "LABEL_0"}]
    with pytest.raises(NotFiniteError, match=r"layer\.1\.intermediate\.dense"):
        evaluate(task, rows)
