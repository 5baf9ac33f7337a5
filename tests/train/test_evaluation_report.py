"""A report of an evaluation: the loss of each row, the worst rows, the figures of classes, the page."""

from __future__ import annotations

import json
import re

import pytest
import torch

import glassformer
from glassformer import SentenceSimilarity, Trainer, TrainSettings, evaluation_report
from glassformer.train.evaluation import evaluate
from glassformer.train.reporting.evaluation_page import evaluation_page

from .small import MASKED, NO_DROPOUT, ROWS, TAGGED, bert, classifier, filler, tagger, tokenizer, writer

QUESTIONS = [
    {"question": "who ?", "context": "john smith lives in london . " * 8, "answers": {"text": [], "answer_start": []}},
    {"question": "where ?", "context": "the cat sat", "answers": {"text": ["cat"], "answer_start": [4]}},
    {"question": "what ?", "context": "a good film", "answers": {"text": ["a good"], "answer_start": [0]}},
]
SCORED = [
    {"text": "the cat", "text_pair": "a dog", "score": 0.3},
    {"text": "so good", "text_pair": "very good !", "score": 0.9},
]
CHOICES = [
    {"prompt": "the cat", "choices": ["sat", "is playing", "the"], "label": 1},
    {"prompt": "john", "choices": ["lives in new york", "good"], "label": "good"},
    {"prompt": "it is very", "choices": ["good", "park"], "label": 0},
]
PAIRS = [{"source": row["text"], "target": row["text"].split()[-1] + " good"} for row in ROWS[:4]]


def head(name: str, task: str, folder, **options):
    torch.manual_seed(0)
    model = getattr(glassformer, f"BertFor{name}")(bert())
    return getattr(glassformer, task)(model, tokenizer(folder), **options)


def translation(folder):
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 24}
    words = tokenizer(folder)
    config = glassformer.TransformerConfig(
        vocab_size=len(words), max_position_embeddings=40, bos_token_id=2, eos_token_id=3, **shape
    )
    return glassformer.Translation(glassformer.TransformerForSeq2SeqLM(config), words, max_new_tokens=2)


def single_tags(folder):
    names = tagger(folder).model.config.id2label
    torch.manual_seed(0)
    return glassformer.TokenClassification(
        glassformer.BertForTokenClassification(bert(id2label=names)), tokenizer(folder)
    )


TASKS = {
    "labels": (classifier, ROWS),
    "several labels": (
        lambda folder: classifier(folder, problem_type="multi_label_classification"),
        [{**row, "label": [row["label"]]} for row in ROWS],
    ),
    "numbers": (lambda folder: classifier(folder, num_labels=1), ROWS),
    "tags": (single_tags, TAGGED),
    "tags with a field": (tagger, TAGGED),
    "masks": (filler, MASKED),
    "questions": (lambda folder: head("QuestionAnswering", "QuestionAnswering", folder), QUESTIONS),
    "choices": (lambda folder: head("MultipleChoice", "MultipleChoice", folder), CHOICES),
    "similarity": (lambda folder: SentenceSimilarity(glassformer.BertModel(bert()), tokenizer(folder)), SCORED),
    "translation": (translation, PAIRS),
}


@pytest.mark.parametrize("name", TASKS)
def test_the_worst_rows_are_those_that_alone_have_the_highest_loss(tmp_path, name):
    make, rows = TASKS[name]
    task = make(tmp_path)
    report = evaluation_report(task, rows, worst=len(rows), tokens_per_batch=60)
    alone = [evaluate(task, [row])["loss"] for row in rows]
    assert [row.loss for row in report.worst] == pytest.approx(sorted(alone, reverse=True), abs=1e-5)
    assert {row.row: row.loss for row in report.worst} == pytest.approx(dict(enumerate(alone)), abs=1e-5)
    assert report.metrics == evaluate(task, rows, tokens_per_batch=60)
    assert evaluation_report(task, rows, worst=2).worst == report.worst[:2] or len({*alone}) < len(alone)
    assert evaluation_report(task, rows, worst=0).worst == ()
    json.dumps(report.to_dict())


def test_expected_and_predicted_are_readable(tmp_path):
    found = {}
    for name, (make, rows) in TASKS.items():
        report = evaluation_report(make(tmp_path), rows, worst=len(rows))
        found[name] = {row.row: row for row in report.worst}[1]
    assert (found["labels"].expected, found["labels"].text) == ("LABEL_1", "a good film")
    assert found["several labels"].expected == "LABEL_1"
    assert found["numbers"].expected == "1" and float(found["numbers"].predicted)
    assert found["tags"].expected == "no entity" and found["tags"].text == "the unaffable cat"
    assert found["masks"].expected == "good, !"
    assert (found["questions"].expected, found["questions"].text) == ("cat", "where ? | the cat sat")
    assert found["choices"].expected == "good" and found["choices"].predicted in CHOICES[1]["choices"]
    assert found["choices"].text == "john | lives in new york good"
    assert found["similarity"].expected == "0.9"
    assert found["translation"].expected == "film good"
    entities = {row.row: row for row in evaluation_report(tagger(tmp_path), TAGGED).worst}[0]
    assert entities.expected == "PER john smith; LOC london"


def test_the_page_shows_all_and_runs_nothing(tmp_path):
    task = classifier(tmp_path, id2label={0: "bad", 1: "<script>alert(1)</script>"})
    rows = [{**row, "text": row["text"] + " <b>"} for row in ROWS]
    report = evaluation_report(task, rows)
    page = evaluation_page(report, "my model", "dev.tsv")
    assert "<script" not in page and "<b>" not in page and "&lt;script&gt;" in page
    assert "<td>data</td><td>dev.tsv</td>" in page and "<td>rows</td><td>10</td>" in page
    assert "<title>Evaluation of my model</title>" in page and "the label with the number 1" in page
    counts = [int(count) for count in re.findall(r'<td style="background[^>]*>(\d+)</td>', page)]
    assert counts == [count for row in report.breakdown.confusion.counts for count in row] and sum(counts) == 10
    assert all(f"{row.loss:.4f}" in page for row in report.worst)


@pytest.mark.filterwarnings("error")
def test_rows_that_are_cut_are_in_the_report_once(tmp_path, caplog):
    task = translation(tmp_path).with_options(truncation=True)
    rows = [{"source": "a " * 50, "target": "so " * 60}, {"source": "a", "target": "so " * 60}, *PAIRS]
    report = evaluation_report(task, rows)
    assert report.truncated == 2 and "2 rows were cut" in evaluation_page(report, "model", "rows")
    assert [record.getMessage() for record in caplog.records if "cut" in record.getMessage()] == [
        "2 of 6 evaluation rows were cut to fit the model"
    ]
    assert "truncated" not in " ".join(record.getMessage() for record in caplog.records)


def test_tasks_without_predictions_have_metrics_alone(tmp_path):
    report = evaluation_report(writer(tmp_path), [{"text": row["text"]} for row in ROWS])
    assert report.breakdown is None and report.worst == () and report.metrics["perplexity"] > 1


def test_training_is_not_slowed_by_what_it_does_not_show(tmp_path, monkeypatch):
    task = classifier(tmp_path, **NO_DROPOUT)
    monkeypatch.setattr(type(task), "row_losses", lambda *_: pytest.fail("losses of rows were computed"))
    settings = TrainSettings(output_dir=str(tmp_path / "run"), max_steps=2, report=False)
    Trainer(task, ROWS, ROWS[:5], settings).train()
    assert evaluation_report(task, ROWS, worst=0).metrics["rows"] == 10
