"""T5's heads in the tasks: trained, evaluated, answered and viewed as those of any other architecture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import glassformer
from glassformer import pipeline
from glassformer.cli.main import main
from glassformer.explain.subject import Subject

SHAPE = ["hidden_size=24", "head_width=8", "num_hidden_layers=1", "num_attention_heads=2", "intermediate_size=32"]
RECIPE = ["--model=new:t5", "--vocabulary.vocab_size=40", "--max-steps=12", "--learning-rate=2e-2", "--output-dir=run"]
RECIPE += [f"--config.{field}" for field in SHAPE] + ["--data=rows.jsonl"]
CONTEXT = "the cat sat on the mat and the dog slept"
ROWS = {
    "text-classification": [
        {"text": f"a {word} film", "label": label}
        for label, words in (("good", "fine great"), ("bad", "dull poor"))
        for word in words.split()
    ],
    "token-classification": [
        {"tokens": ["the", animal, "sat"], "tags": ["O", "B-ANIMAL", "O"]} for animal in ("cat", "dog", "cow", "hen")
    ],
    "question-answering": [
        {"question": "who sat ?", "context": CONTEXT, "answers": {"text": ["the cat"], "answer_start": [0]}},
        {"question": "who slept ?", "context": CONTEXT, "answers": {"text": ["the dog"], "answer_start": [27]}},
    ],
}


@pytest.mark.parametrize("task", ROWS)
def test_a_head_learns_its_task(task, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = ROWS[task] * 4
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["train", task, *RECIPE]) == 0
    assert main(["evaluate", task, "run", "--data=rows.jsonl", "--json"]) == 0
    capsys.readouterr()
    pipe = pipeline(model="run")
    assert pipe.task == task and type(pipe.model).__name__.startswith("T5For")
    row = {name: value for name, value in rows[0].items() if name not in ("label", "tags", "answers")}
    if task == "text-classification":
        given = [each["text"] for each in rows[:4]]
        assert pipe(given) == [pipe(text)[0] for text in given]
        assert [answer["label"] for answer in pipe(given)] == ["good", "good", "bad", "bad"]
    elif task == "question-answering":
        answer = pipe(**row)
        assert answer["answer"] == CONTEXT[answer["start"] : answer["end"]]
    else:
        assert [each["entity"] for each in pipe("the cat sat", ignore_labels=[])][1:] != []
    reading = Subject.load("run").read("the cat sat")
    assert (reading.source is None) == (task == "token-classification")
    assert main(["see", "run", "the cat sat", "-o", "page.html"]) == 0
    assert glassformer.AutoConfig.from_pretrained("run").model_type == "t5"
