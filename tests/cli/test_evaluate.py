"""glass evaluate: metrics, classes, confusions and the worst rows, in the terminal, as JSON and as a page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer.cli.main import main

from ..models.architectures import tiny_bert
from ..tasks.conftest import save
from ..tasks.tiny import VOCAB
from ..train.small import ROWS, TAGGED

LONG = {"text": "the cat " * 60, "label": "bad"}


def make(folder: Path, kind: str, **fields) -> Path:
    torch.manual_seed(0)
    model = getattr(glassformer, f"BertFor{kind}")(tiny_bert(vocab_size=len(VOCAB), **fields)).eval()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return save(folder, model)


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "classifier", "SequenceClassification", id2label={0: "bad", 1: "good"})
    names = ("bad", "good")
    write("dev.jsonl", [{"text": row["text"], "label": names[row["label"]]} for row in ROWS])
    return tmp_path


def write(name: str, rows: list[dict]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(capsys, *arguments: object, code: int = 0) -> tuple[str, str]:
    found = main(["evaluate", *map(str, arguments)])
    shown = capsys.readouterr()
    assert found == code, shown.err
    return shown.out, shown.err


def test_classes_confusions_and_worst_rows_are_shown(here, capsys):
    call = ("text-classification", "classifier", "--data", "dev.jsonl")
    found = json.loads(run(capsys, *call, "--json")[0])
    out, _ = run(capsys, *call, "--page", "page.html")
    lines = [line.split() for line in out.splitlines()]
    assert ["accuracy", f"{found['accuracy']:.4f}"] in lines and ["rows", "10"] in lines
    assert "f1 is that of 'good', the label with the number 1" in out
    for each in found["classes"]:
        figures = [f"{each[name]:.4f}" for name in ("precision", "recall", "f1")]
        assert [each["name"], *figures, str(each["support"])] in lines
    (bad, good) = found["confusion"]["counts"]
    assert ["bad", *map(str, bad)] in lines and ["good", *map(str, good)] in lines and sum(bad + good) == 10
    assert found["f1"] == found["classes"][1]["f1"] and good[1] / sum(good) == found["classes"][1]["recall"]
    assert len(found["worst"]) == 5 and [row["loss"] for row in found["worst"]] == sorted(
        (row["loss"] for row in found["worst"]), reverse=True
    )
    for row in found["worst"]:
        assert row["place"] == f"dev.jsonl, line {row['row'] + 1}" and row["text"] == ROWS[row["row"]]["text"]
        assert re.search(f"^{row['place']} +{row['loss']:.4f} ", out, re.MULTILINE)
    assert out.endswith("wrote page.html\n")
    page = Path("page.html").read_text()
    assert "<title>Evaluation of classifier</title>" in page and "dev.jsonl, line" in page


def test_the_number_of_worst_rows(here, capsys):
    call = ("text-classification", "classifier", "--data", "dev.jsonl")
    assert len(json.loads(run(capsys, *call, "--json", "--worst", 99)[0])["worst"]) == 10
    assert "highest loss" not in run(capsys, *call, "--worst", 0)[0]
    assert "worst must be" in run(capsys, *call, "--worst", -1, code=1)[1]


def test_a_page_that_cannot_be_written_is_refused_first(here, capsys):
    call = ("text-classification", "absent", "--data", "dev.jsonl", "--page", "no/such/page.html")
    assert "--page no/such/page.html: name a page" in run(capsys, *call, code=1)[1]


def test_entities_are_measured_by_type(here, capsys):
    names = dict(enumerate(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]))
    make(here / "tagger", "TokenClassification", id2label=names, label2id={name: i for i, name in names.items()})
    write("tagged.jsonl", TAGGED)
    out, _ = run(capsys, "ner", "tagger", "--data", "tagged.jsonl")
    assert "f1 is that of all entities together" in out and "words by right class" in out
    found = json.loads(run(capsys, "ner", "tagger", "--data", "tagged.jsonl", "--json")[0])
    assert {each["name"]: each["support"] for each in found["classes"]} == {"LOC": 4, "PER": 2}
    assert sum(map(sum, found["confusion"]["counts"])) == sum(len(row["tokens"]) for row in TAGGED)


def test_many_labels_are_shown_as_a_list_of_confusions(here, capsys):
    names = {i: f"topic {i}" for i in range(12)}
    make(here / "topics", "SequenceClassification", id2label=names, label2id={name: i for i, name in names.items()})
    write("topics.jsonl", [{"text": row["text"], "label": f"topic {i}"} for i, row in enumerate(ROWS)])
    out, _ = run(capsys, "text-classification", "topics", "--data", "topics.jsonl")
    assert "the most frequent confusions, in rows; --page and --json have the whole matrix" in out
    assert "f1 is the mean over the labels that occur (" in out


def test_questions_without_an_answer(here, capsys):
    make(here / "reader", "QuestionAnswering")
    context = "john smith lives in london . the cat sat on the mat ."
    rows = [
        {"question": "who ?", "context": context, "answers": {"text": ["john smith"], "answer_start": [0]}},
        {"question": "what ?", "context": context, "answers": {"text": [], "answer_start": []}},
    ]
    write("questions.jsonl", rows)
    out, _ = run(capsys, "question-answering", "reader", "--data", "questions.jsonl")
    for name in ("HasAns_exact", "HasAns_f1", "NoAns_exact", "NoAns_f1", "best_exact", "best_exact_thresh", "best_f1"):
        assert f"\n{name} " in out
    assert "(no answer)" in out and "f1 is the mean over the questions" in out
    write("questions.jsonl", rows[:1])
    assert "HasAns" not in run(capsys, "question-answering", "reader", "--data", "questions.jsonl")[0]


def test_one_line_says_what_was_cut(here, capsys):
    write("long.jsonl", [LONG, {"text": "so good", "label": "good"}])
    call = ("text-classification", "classifier", "--data", "long.jsonl")
    assert "--option truncation=true" in run(capsys, *call, code=1)[1]
    out, err = run(capsys, *call, "--truncation", "--json")
    assert err == "glass: note: 1 of 2 evaluation rows were cut to fit the model\n"
    assert json.loads(out)["truncated"] == 1
    assert run(capsys, *call, "--option", "truncation=true", "--json") == (out, err)
