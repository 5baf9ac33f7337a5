"""Evaluation: a run encodes each row once, and the model reads it once in each evaluation."""

from __future__ import annotations

import pytest

from glassformer import Trainer, TrainSettings
from glassformer.train.evaluation import evaluate

from .small import MASKED, ROWS, classifier, filler


@pytest.mark.parametrize(("make", "rows"), [(classifier, ROWS), (filler, MASKED)])
def test_rows_are_encoded_once_and_evaluation_runs_the_model_once(tmp_path, monkeypatch, make, rows):
    task, encoded, passes = make(tmp_path), [], []
    name = "encode_at_once" if hasattr(task, "encode_at_once") else "encode"
    encode = getattr(type(task), name)
    monkeypatch.setattr(type(task), name, lambda self, row: encoded.append(row) or encode(self, row))
    settings = TrainSettings(output_dir=str(tmp_path / "run"), num_train_epochs=3, report=False)
    trainer = Trainer(task, rows, rows[:5], settings)
    trainer.train()  # which evaluates after each epoch
    assert len(encoded) == len(rows) + 5
    task.model.base_model.embeddings.register_forward_hook(lambda *_: passes.append(1))
    trainer.evaluate()
    assert len(passes) == trainer.eval_batches.count_steps(1)


def test_rows_that_are_cut_are_reported_once_for_training_and_once_for_evaluation(tmp_path, caplog):
    task = classifier(tmp_path).with_options(truncation=True, max_length=5)
    settings = TrainSettings(output_dir=str(tmp_path / "run"), num_train_epochs=2, report=False)
    long = [number for number, row in enumerate(ROWS) if len(row["text"].split()) > 3]
    Trainer(task, ROWS, ROWS[:5], settings).train()  # which evaluates after each epoch
    evaluate(task, ROWS[:5])
    assert [record.getMessage() for record in caplog.records if "cut" in record.getMessage()] == [
        f"{len(long)} of 10 training rows were cut to fit the model",
        f"{sum(number < 5 for number in long)} of 5 evaluation rows were cut to fit the model",
    ]
