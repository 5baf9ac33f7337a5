"""Long texts in windows: the scores of a text are the mean or the maximum of theirs, or those of the first."""

from __future__ import annotations

import math

import pytest
import torch

import glassformer
from glassformer import InputError, pipeline
from glassformer.cli.main import main
from glassformer.tasks.pipeline import Pipeline
from glassformer.train.batches import Batches
from glassformer.train.evaluation import evaluate

from .conftest import TEXTS

KIND = glassformer.BertForSequenceClassification
LABELS = {"id2label": {0: "NEGATIVE", 1: "NEUTRAL", 2: "POSITIVE"}}
LONG = "the cat sat on the mat in the park and was good . john smith lives in new york , the film is bad !"
SHORT = "so good !"


@pytest.fixture
def task(checkpoint):
    def make(fields=LABELS, **options):
        folder = checkpoint(KIND, max_position_embeddings=10, **fields)
        return pipeline("text-classification", model=folder, **options).worker

    return make


def logits_of(task, texts: list[str]) -> torch.Tensor:
    with torch.no_grad():
        return torch.cat([task.model(**task.tokenizer(text, return_tensors="pt")).logits for text in texts])


def windows_by_hand(task, text: str, stride: int) -> list[str]:
    """The texts of windows of 8 tokens beside the two special ones."""
    words = task.tokenizer.tokenize(text)
    starts = range(0, max(len(words) - stride, 1), 8 - stride)
    return [task.tokenizer.convert_tokens_to_string(words[start : start + 8]) for start in starts]


@pytest.mark.parametrize("stride", [0, 3])
@pytest.mark.parametrize(
    "fields", [LABELS, {**LABELS, "problem_type": "multi_label_classification"}, {"num_labels": 1}]
)
@pytest.mark.parametrize("kind", ["mean", "max", "first"])
def test_answers(task, kind, fields, stride):
    made = task(fields, windows=kind, doc_stride=stride, top_k=None)
    parts = windows_by_hand(made, LONG, stride)
    assert len(parts) > 2
    scores = made.scores(logits_of(made, parts))
    combined = {"mean": scores.mean(0), "max": scores.amax(0), "first": scores[0]}[kind]
    long, short = ({each["label"]: each for each in answers} for answers in pipe_answers(made, [LONG, SHORT]))
    for number, label in made.model.config.id2label.items():
        assert long[label]["score"] == pytest.approx(float(combined[number]), abs=1e-6)
        assert (long[label]["windows"], long[label]["combined"]) == (len(parts), kind)
        assert set(short[label]) == {"label", "score"}


def pipe_answers(task, texts: list[str]) -> list:
    return list(Pipeline(task)(texts))


@pytest.mark.parametrize("kind", ["mean", "max", "first"])
def test_evaluation_counts_every_text_once(task, kind):
    rows = [{"text": LONG, "label": 2}, {"text": SHORT, "label": 0}, {"text": f"{SHORT} {LONG}", "label": 1}]
    made = task(windows=kind)
    losses, right = [], 0
    for row in rows:
        logits = logits_of(made, windows_by_hand(made, row["text"], 0))
        logits = logits[:1] if kind == "first" else logits
        scores = logits.softmax(-1)
        right += int((scores.amax(0) if kind == "max" else scores.mean(0)).argmax()) == row["label"]
        losses.append(-logits.log_softmax(-1)[:, row["label"]].mean())
    for batch_size in (1, 3):
        metrics = evaluate(made, rows, batch_size=batch_size)
        assert math.isclose(metrics["loss"], float(sum(losses) / 3), rel_tol=1e-5)
        assert math.isclose(metrics["accuracy"], right / 3) and metrics["rows"] == 3


def test_training_reads_no_windows(task):
    rows = [{"text": LONG, "label": 2}]
    with pytest.raises(InputError, match="the model takes 10"):
        Batches(task(windows="mean"), rows, max_tokens=100)
    with pytest.raises(InputError, match=r"which is then reported; answers and evaluation .* windows='mean'"):
        pipe_answers(task(), [LONG])
    made = task(windows="mean", truncation=True)
    assert Batches(made, rows, max_tokens=100).lengths == [10]
    assert Batches(made, rows, max_tokens=100, training=False).lengths[0] > 20
    assert "truncated" not in pipe_answers(made, [LONG])[0]


def test_shell(checkpoint, tmp_path, capsys):
    folder = checkpoint(KIND, max_position_embeddings=10, **LABELS)
    arguments = ["predict", "text-classification", str(folder), LONG, "--json"]
    assert main([*arguments, "--option", "windows=max"]) == 0
    assert '"combined": "max"' in capsys.readouterr().out


def test_refusals(task):
    with pytest.raises(InputError, match="windows must be one of"):
        task(windows="median")
    with pytest.raises(InputError, match="doc_stride is for windows"):
        task(doc_stride=2)
    with pytest.raises(InputError, match="stride must be smaller"):
        pipe_answers(task(windows="mean", doc_stride=8), [LONG])
    assert pipe_answers(task(windows="mean"), TEXTS[:1])
