"""The mean of checkpoints as the model of the end."""

from __future__ import annotations

import pytest
import torch

from glassformer import BertForSequenceClassification, InputError, Trainer, TrainSettings, add_lora

from .small import ROWS, classifier, weights


def settings(folder, **others):
    values = {"max_steps": 6, "save_steps": 2, "save_total_limit": 3, "learning_rate": 1e-2, "report": False}
    return TrainSettings(output_dir=str(folder), device="cpu", **{**values, **others})


def test_the_model_of_the_end_is_the_mean_of_the_newest(tmp_path):
    run = tmp_path / "run"
    task = classifier(tmp_path / "vocab")
    result = Trainer(task, ROWS, ROWS, settings(run, average_checkpoints=2, eval_steps=2)).train()
    stored = [BertForSequenceClassification.from_pretrained(run / f"checkpoint-{step}").state_dict() for step in (4, 6)]
    final = BertForSequenceClassification.from_pretrained(run).state_dict()
    for name, tensor in weights(task).items():
        torch.testing.assert_close(tensor, (stored[0][name] + stored[1][name]) / 2)
        assert torch.equal(final[name], tensor)
    assert any(not torch.equal(stored[0][name], stored[1][name]) for name in final)
    alone = Trainer(task, ROWS, ROWS, settings(tmp_path / "other")).evaluate()
    assert result.metrics == pytest.approx(alone)


def test_what_cannot_be_averaged_is_reported(tmp_path):
    with pytest.raises(
        InputError, match="average_checkpoints 4 needs as many checkpoints, and save_total_limit keeps 3"
    ):
        settings(tmp_path, average_checkpoints=4)
    with pytest.raises(InputError, match="two models for the end"):
        settings(tmp_path, average_checkpoints=2, load_best_model_at_end=True)
    few = settings(tmp_path / "run", average_checkpoints=3, save_steps=6)
    with pytest.raises(InputError, match="needs as many checkpoints, and 6 steps with save_steps 6 give 1"):
        Trainer(classifier(tmp_path / "vocab"), ROWS, None, few)
    adapted = classifier(tmp_path / "vocab")
    add_lora(adapted.model)
    with pytest.raises(InputError, match="average_checkpoints is for full models, and this run trains an adapter"):
        Trainer(adapted, ROWS, None, settings(tmp_path / "run", average_checkpoints=2))


def test_a_run_that_stops_early_has_the_mean_of_what_it_has(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(Trainer, "evaluate", lambda self: {"loss": 1.0, "accuracy": 0.5})
    patient = {"average_checkpoints": 3, "eval_steps": 1, "early_stopping_patience": 1}
    task = classifier(tmp_path / "vocab")
    assert Trainer(task, ROWS, ROWS, settings(tmp_path / "run", **patient)).train().step == 2
    assert "the mean of 3 checkpoints was requested, and that of 2 is taken" in caplog.text
    stored = [BertForSequenceClassification.from_pretrained(tmp_path / f"run/checkpoint-{step}") for step in (1, 2)]
    for name, tensor in weights(task).items():
        torch.testing.assert_close(tensor, sum(each.state_dict()[name] for each in stored) / 2)
