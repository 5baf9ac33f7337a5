"""The same tasks on other architectures: what holds for BERT holds for them."""

from __future__ import annotations

import pytest
import torch

import glassformer
from glassformer import pipeline
from glassformer.registry import head_of

from ..models.architectures import ARCHITECTURES
from ..models.references import Transformers
from .conftest import TEXTS, close, save, theirs
from .tiny import VOCAB

HEADS = {
    "sequence-classification": ("text-classification", TEXTS),
    "token-classification": ("token-classification", TEXTS),
    "masked-lm": ("fill-mask", ["the [MASK] sat .", "so [MASK] !"]),
    "body": ("feature-extraction", TEXTS),
}
CASES = [
    (architecture, kind)
    for architecture in ARCHITECTURES
    for kind in (architecture.body, *architecture.heads)
    if head_of(kind) in HEADS and isinstance(architecture.reference, Transformers)
]


@pytest.mark.parametrize(("architecture", "kind"), CASES, ids=[kind.__name__ for _, kind in CASES])
def test_answers_are_those_of_transformers(architecture, kind, tmp_path):
    torch.manual_seed(0)
    model = kind(architecture.tiny(vocab_size=len(VOCAB))).eval()
    task, given = HEADS[head_of(kind)]
    folder = save(tmp_path / "model", model)
    pipe = pipeline(model=folder)
    assert pipe.task == task
    close(pipe(given), theirs(task, folder)(given))


def test_an_answer_of_distilbert(tmp_path):
    torch.manual_seed(0)
    tiny = next(each.tiny for each in ARCHITECTURES if each.model_type == "distilbert")
    model = glassformer.DistilBertForQuestionAnswering(tiny(vocab_size=len(VOCAB))).eval()
    pipe = pipeline(model=save(tmp_path / "model", model))
    context = "John Smith lives in London . the cat sat on the mat ."
    found = pipe("who sat ?", context)
    with torch.no_grad():
        batch = pipe.tokenizer("who sat ?", context, return_tensors="pt")
        out = model(input_ids=batch["input_ids"])
    inside = [place for place, sequence in enumerate(batch.sequence_ids()) if sequence in (1,) or place == 0]
    starts, ends = (logits[0, inside].softmax(-1) for logits in (out.start_logits, out.end_logits))
    assert found["score"] == pytest.approx(float(torch.outer(starts[1:], ends[1:]).triu().max()), abs=1e-5)


def test_a_tokenizer_with_token_types_that_the_model_lacks(tmp_path):
    torch.manual_seed(0)
    tiny = next(each.tiny for each in ARCHITECTURES if each.model_type == "distilbert")
    model = glassformer.DistilBertForSequenceClassification(tiny(vocab_size=len(VOCAB))).eval()
    folder = save(tmp_path / "model", model)
    bert = glassformer.BertTokenizer.from_pretrained(folder)
    assert "token_type_ids" in bert("a")
    close(pipeline(model=folder, tokenizer=bert)(TEXTS), pipeline(model=folder)(TEXTS))
