"""A teacher: the loss of the paper's formula, exact under accumulation, and a student that comes to agree with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import glassformer
from glassformer.errors import InputError
from glassformer.train.distill import Distillation, DistillSettings, paired_layers
from glassformer.train.recipes.recipe_text import toml
from glassformer.train.trainer import Trainer

from ..tasks.tiny import VOCAB
from .small import MASKED, NO_DROPOUT, ROWS, TEXTS, bert, classifier, filler, tokenizer, writer
from .test_resume import settings

NO_WRITER_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
TAGGED = [
    {"tokens": ["john", "lives", "in", "london"], "tags": ["PER", "O", "O", "LOC"]},
    {"tokens": ["the", "cat", "sat"], "tags": ["O", "O", "O"]},
]
ASKED = [
    {"question": "who is it", "context": "john lives in london", "answers": {"text": ["john"], "answer_start": [0]}},
    {
        "question": "what is it",
        "context": "it is a good film",
        "answers": {"text": ["a good film"], "answer_start": [6]},
    },
]


def tagger(folder: Path, **fields):
    names = {0: "O", 1: "PER", 2: "LOC"}
    labels = {"id2label": names, "label2id": {name: i for i, name in names.items()}}
    return glassformer.TokenClassification(
        glassformer.BertForTokenClassification(bert(**labels, **fields)), tokenizer(folder)
    )


def answerer(folder: Path, **fields):
    return glassformer.QuestionAnswering(glassformer.BertForQuestionAnswering(bert(**fields)), tokenizer(folder))


def batch_of(task, rows):
    return task.collate([example for row in rows for example in task.encode(task.read(row))])


KINDS = [(classifier, ROWS[:4]), (tagger, TAGGED), (answerer, ASKED), (filler, MASKED), (writer, TEXTS)]


@pytest.mark.parametrize("make, rows", KINDS)
def test_the_loss_is_the_papers(tmp_path, make, rows):
    none = NO_WRITER_DROPOUT if make is writer else NO_DROPOUT
    student, teacher = make(tmp_path, **none), make(tmp_path, initializer_range=0.5, **none)
    torch.manual_seed(1)
    for parameter in teacher.model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    batch = batch_of(student, rows)
    taught = Distillation(student, teacher.model, DistillSettings(teacher="t", temperature=3.0, alpha=0.25))
    mine, wanted = (task.target_logits(task.outputs(task.model, batch), batch) for task in (student, teacher))
    p, q = (wanted / 3).softmax(-1), (mine / 3).softmax(-1)
    parts = torch.where(p > 0, p * (p.log() - q.log()), 0.0).nan_to_num().sum(-1)
    soft = parts.sum() * 9 / (len(mine) / batch.targets_count)
    hard = student.loss(student.model, batch)
    found = taught.loss(student.model, batch)
    assert torch.allclose(found, 0.75 * hard + 0.25 * soft, rtol=1e-4)
    assert torch.allclose(taught.loss(student.model, batch, "mean") * batch.targets_count, found)
    found.backward()
    assert all(parameter.grad is None for parameter in teacher.model.parameters())
    surer = Distillation(student, teacher.model, DistillSettings(teacher="t", temperature=0.5))
    assert surer.loss(student.model, batch).isfinite()
    alone = Distillation(student, teacher.model, DistillSettings(teacher="t", alpha=0.0))
    assert torch.allclose(alone.loss(student.model, batch), hard)


def test_hidden_states(tmp_path):
    student, teacher = (
        classifier(tmp_path, **NO_DROPOUT),
        classifier(tmp_path, seed=3, num_hidden_layers=4, **NO_DROPOUT),
    )
    taught = Distillation(student, teacher.model, DistillSettings(teacher="t", alpha=0.0, hidden=2.0))
    assert taught.pairs == [(0, 1), (1, 3)]
    batch = batch_of(student, ROWS[:5])
    states = [task.model(**batch.inputs, output_hidden_states=True).hidden_states for task in (student, teacher)]
    right = torch.zeros(())
    for row, length in enumerate(batch.lengths):
        for mine, theirs in ((1, 2), (2, 4)):
            right += F.mse_loss(states[0][mine][row, :length], states[1][theirs][row, :length]) / 2
    hard = student.loss(student.model, batch)
    assert torch.allclose(taught.loss(student.model, batch), hard + 2.0 * right, rtol=1e-5)
    apart = sum(taught.loss(student.model, batch_of(student, [row])) for row in ROWS[:5])
    assert torch.allclose(apart, hard + 2.0 * right, rtol=1e-5)  # however the rows are cut into batches
    with pytest.raises(InputError, match="the teacher has 2 layers, fewer than the student's 4"):
        paired_layers(teacher.model, student.model)
    with pytest.raises(InputError, match="equally wide, got 16 and 32"):
        paired_layers(student.model, classifier(tmp_path, hidden_size=32).model)


def test_what_cannot_be_distilled_is_reported(tmp_path):
    task, other = classifier(tmp_path), classifier(tmp_path, num_labels=3)
    taught = Distillation(task, other.model, DistillSettings(teacher="t"))
    with pytest.raises(InputError, match="scores 3 labels and the student 2"):
        taught.loss(task.model, batch_of(task, ROWS[:2]))
    number = classifier(tmp_path, num_labels=1)
    with pytest.raises(InputError, match="text-classification does not choose among labels"):
        Distillation(number, number.model, DistillSettings(teacher="t"))
    with pytest.raises(InputError, match="alpha must be a number from 0 to 1, got 2"):
        DistillSettings(teacher="t", alpha=2)


def test_a_student_comes_to_agree_with_its_teacher(tmp_path):
    teacher = classifier(tmp_path, seed=4, initializer_range=0.4)
    student = classifier(tmp_path, seed=5)
    rows = [{"text": " ".join(VOCAB[5 + (i * 7 + j) % 30] for j in range(4)), "label": 0} for i in range(20)]
    batch = batch_of(student, rows)

    def apart() -> float:
        with torch.no_grad():
            p, q = (task.model.eval()(**batch.inputs).logits.softmax(-1) for task in (teacher, student))
        return float((p - q).abs().mean())

    before = apart()
    how = settings(tmp_path / "run", max_steps=60, save_steps=1000, learning_rate=5e-3, tokens_per_batch=200)
    distill = DistillSettings(teacher="t", alpha=1.0)  # the labels, which are all 0, do not count
    Trainer(student, rows, None, how, teacher=teacher.model, distill=distill).train()
    assert apart() < before / 3


def test_a_recipe_names_the_teacher(tmp_path, monkeypatch, capsys):
    from glassformer.cli.main import main

    monkeypatch.chdir(tmp_path)
    for name, seed in (("teacher", 1), ("student", 2)):
        task = classifier(tmp_path / name, seed=seed)
        task.model.save_pretrained(name)
        task.tokenizer.save_pretrained(name)
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    call = ["train", "text-classification", "--model=student", "--data=rows.jsonl", "--output-dir=run", "--max-steps=2"]
    assert main([*call, "--distill.teacher=teacher", "--distill.temperature=4", "--print-config"]) == 0
    printed = toml.loads(capsys.readouterr().out)["distill"]
    assert (printed["teacher"], printed["temperature"]) == ("teacher", 4)
    assert main([*call, "--distill.teacher=teacher"]) == 0
    assert main([*call, "--distill.temprature=4"]) == 1
    assert "did you mean 'temperature'" in capsys.readouterr().err
    assert main([*call, "--distill.temperature=4"]) == 1
    assert "needs distill.teacher" in capsys.readouterr().err
