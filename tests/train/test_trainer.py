"""The trainer: it learns, chooses the best, stops early, freezes, and says what is wrong before it starts."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import glassformer
from glassformer.data.file_row import Row
from glassformer.errors import ArgumentError, CheckpointError, DataError, InputError, TrainingError
from glassformer.train import checkpoint
from glassformer.train.batches import Batches
from glassformer.train.evaluation import evaluate
from glassformer.train.reporting.run_log import RunLog, read_log
from glassformer.train.step import StepResult
from glassformer.train.train_settings import TrainSettings
from glassformer.train.trainer import Trainer

from .small import MASKED, NO_DROPOUT, ROWS, TEXTS, bert, classifier, filler, tokenizer, weights, writer


def settings(folder: Path, **others) -> TrainSettings:
    values = {"output_dir": str(folder), "tokens_per_batch": 32, "learning_rate": 1e-2, "num_train_epochs": 2}
    return TrainSettings(**{**values, **others})


def test_a_classifier_trains(tmp_path, capfd):
    task = classifier(tmp_path, **NO_DROPOUT)
    trainer = Trainer(task, ROWS, ROWS, settings(tmp_path / "run", num_train_epochs=15, logging_steps=5))
    before = trainer.evaluate()
    result = trainer.train()
    assert result.metrics["accuracy"] == 1.0 > before["accuracy"]
    assert result.metrics["loss"] < 0.5 * before["loss"] and result.metrics["rows"] == len(ROWS)
    assert trainer.evaluate() == result.metrics
    lines = read_log(tmp_path / "run" / "log.jsonl")
    logged = [line for line in lines if "loss" in line]
    assert [line["step"] for line in logged][:2] == [5, 10] and logged[-1]["loss"] < logged[0]["loss"]
    assert {"learning_rate", "grad_norm", "tokens_per_second", "padding", "epoch"} <= logged[0].keys()
    assert len([line for line in lines if "eval_accuracy" in line]) == 15
    shown = capfd.readouterr().err
    assert f"step 5 of {result.total_steps}" in shown and " left" in shown


def test_the_time_of_an_evaluation_does_not_slow_the_steps(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("glassformer.train.reporting.run_log.time.monotonic", lambda: clock[0])
    log, step = RunLog(tmp_path, 10, writes=True), StepResult(1.0, 1.0, 5, 50, 50)
    clock[0] += 10
    log.count_step(1, step, 0.1)
    clock[0] += 100
    log.add({"step": 1, "eval_loss": 1.0})
    clock[0] += 10
    log.count_step(2, step, 0.1)
    assert log.speed == 100 / 20


@pytest.mark.parametrize("make, rows", [(filler, MASKED), (writer, TEXTS)])
def test_language_models_train(tmp_path, make, rows):
    task = make(tmp_path)
    trainer = Trainer(task, rows, rows, settings(tmp_path / "run", num_train_epochs=12))
    before = trainer.evaluate()
    after = trainer.train().metrics
    assert after["loss"] < 0.8 * before["loss"]
    if make is writer:
        assert after["perplexity"] == pytest.approx(math.exp(after["loss"]))


def test_sentence_vectors_train(tmp_path):
    encoder = glassformer.SentenceEncoder(glassformer.BertModel(bert(**NO_DROPOUT)), tokenizer(tmp_path))
    task = glassformer.SentenceSimilarity(encoder)
    rows = [
        {"text": "so bad", "text_pair": "a good film", "score": 0.0},
        {"text": "music", "text_pair": "it", "score": 1},
    ]
    options = settings(tmp_path / "run", num_train_epochs=20, save_steps=10)
    trainer = Trainer(task, rows, None, options)
    before = trainer.evaluate(rows)
    trainer.train()
    assert trainer.evaluate(rows)["loss"] < 0.5 * before["loss"]
    again = glassformer.SentenceEncoder.from_pretrained(tmp_path / "run" / f"checkpoint-{trainer.total}")
    assert again.encode("so bad").tolist() == pytest.approx(encoder.encode("so bad").tolist(), abs=1e-6)
    other = Trainer(glassformer.SentenceSimilarity(again), rows, None, settings(tmp_path / "on", num_train_epochs=20))
    other.train(resume=tmp_path / "run" / "checkpoint-10")
    assert not checkpoint.differing_weights(other.model, trainer.model)


def test_zero_clips_nothing(tmp_path):
    found = []
    for name, most in (("none", None), ("zero", 0)):
        how = settings(tmp_path / name, max_steps=2, max_grad_norm=most)
        found.append(Trainer(classifier(tmp_path), ROWS, None, how))
        found[-1].train()
    assert not checkpoint.differing_weights(found[0].model, found[1].model)


def test_random_numbers_depend_on_the_seed_alone(tmp_path):
    """Whatever random numbers were used after the trainer was made, as by another one that trained first."""
    first, second = (
        Trainer(classifier(tmp_path), ROWS, None, settings(tmp_path / name, max_steps=2)) for name in ("one", "two")
    )
    first.train()
    second.train()
    assert not checkpoint.differing_weights(first.model, second.model)


def test_the_best_is_kept_and_loaded(tmp_path, monkeypatch):
    task = classifier(tmp_path)
    scores = iter([0.5, 0.9, 0.7, 0.6])
    monkeypatch.setattr(Trainer, "evaluate", lambda self: {"loss": 1.0, "accuracy": next(scores)})
    options = settings(tmp_path / "run", max_steps=4, eval_steps=1, save_steps=1, save_total_limit=1)
    options = TrainSettings(**{**options.to_dict(), "freeze": (), "load_best_model_at_end": True})
    result = Trainer(task, ROWS, ROWS, options).train()
    kept = {"loss": 1.0, "accuracy": 0.9}
    assert result.best == {"step": 2, "name": "accuracy", "value": 0.9, "metrics": kept}
    assert result.metrics == kept  # those of the model that is loaded now
    assert list(checkpoint.checkpoints_in(tmp_path / "run")) == [2, 4]
    best = glassformer.AutoModelForSequenceClassification.from_pretrained(tmp_path / "run" / "checkpoint-2")
    last = glassformer.AutoModelForSequenceClassification.from_pretrained(tmp_path / "run" / "checkpoint-4")
    assert torch.equal(task.model.classifier.weight, best.classifier.weight)
    assert not torch.equal(task.model.classifier.weight, last.classifier.weight)


def test_early_stopping(tmp_path, monkeypatch):
    losses = iter([3.0, 2.0, 2.5, 2.0, 1.0])
    monkeypatch.setattr(Trainer, "evaluate", lambda self: {"loss": next(losses), "accuracy": 0.0})
    patient = {"max_steps": 9, "eval_steps": 1, "early_stopping_patience": 2, "metric_for_best_model": "loss"}
    result = Trainer(classifier(tmp_path), ROWS, ROWS, settings(tmp_path / "run", **patient)).train()
    assert (result.step, result.stopped_by, result.best["step"]) == (4, "early stopping", 2)
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_frozen_parts_stay(tmp_path):
    task = classifier(tmp_path)
    before = weights(task)
    options = settings(tmp_path / "run", freeze_layers=1, freeze=("bert.pooler",), layer_decay=0.5, max_steps=3)
    Trainer(task, ROWS, None, options).train()
    changed = {name for name, tensor in weights(task).items() if not torch.equal(tensor, before[name])}
    assert changed and all(name.startswith(("bert.encoder.layer.1.", "classifier.")) for name in changed)
    with pytest.raises(InputError, match="freeze_layers must be at most 2, got 3"):
        Trainer(classifier(tmp_path), ROWS, None, settings(tmp_path / "other", freeze_layers=3))


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_precision_and_gradient_checkpointing(tmp_path, precision):
    task = classifier(tmp_path, **NO_DROPOUT)
    options = settings(tmp_path / "run", precision=precision, gradient_checkpointing=True, num_train_epochs=10)
    trainer = Trainer(task, ROWS, ROWS, options)
    before = trainer.evaluate()["loss"]
    assert trainer.train().metrics["loss"] < before
    assert task.model.dtype == torch.float32


def test_gradient_checkpointing_changes_no_gradient(tmp_path):
    found = []
    for checkpointing in (False, True):
        task = classifier(tmp_path, **NO_DROPOUT)
        options = settings(tmp_path / f"run-{checkpointing}", gradient_checkpointing=checkpointing, max_steps=3)
        Trainer(task, ROWS, None, options).train()
        found.append(weights(task))
    assert all(torch.allclose(found[0][name], found[1][name], atol=1e-6) for name in found[0])


def test_a_bad_row_is_reported_before_training(tmp_path):
    rows = [*ROWS, Row({"text": "so bad", "label": "7"}, "train.tsv", 12)]
    with pytest.raises(DataError, match=r"train.tsv, line 12: label '7' is not one of"):
        Trainer(classifier(tmp_path), rows, None, settings(tmp_path / "run"))
    with pytest.raises(InputError, match="row 10: text-classification is trained on rows with label"):
        Trainer(classifier(tmp_path), [*ROWS, {"text": "so bad"}], None, settings(tmp_path / "run"))
    with pytest.raises(InputError, match="no rows to train on"):
        Trainer(classifier(tmp_path), [], None, settings(tmp_path / "run"))


def test_evaluation_rows_are_checked_before_training(tmp_path):
    bad = [Row({"text": "so bad", "label": "7"}, "dev.tsv", 3)]
    with pytest.raises(DataError, match=r"dev.tsv, line 3: label '7' is not one of"):
        Trainer(classifier(tmp_path), ROWS, bad, settings(tmp_path / "run"))
    with pytest.raises(InputError, match="there are no rows to evaluate on"):
        Trainer(classifier(tmp_path), ROWS, [], settings(tmp_path / "run"))
    encoder = glassformer.SentenceEncoder(glassformer.BertModel(bert()), tokenizer(tmp_path))
    ranking = glassformer.SentenceSimilarity(encoder, objective="ranking")
    pairs = [{"text": "so bad", "text_pair": "not so good"}]  # enough for training, not for evaluation
    with pytest.raises(InputError, match="row 0: sentence-similarity is evaluated on rows with score"):
        Trainer(ranking, pairs, pairs, settings(tmp_path / "run"))
    for name, value in (("load_best_model_at_end", True), ("early_stopping_patience", 2)):
        with pytest.raises(InputError, match=f"{name} needs evaluation rows"):
            Trainer(classifier(tmp_path), ROWS, None, settings(tmp_path / "run", **{name: value}))
    assert not (tmp_path / "run").exists()


def test_a_label_of_an_empty_text_is_reported(tmp_path, caplog):
    task = classifier(tmp_path)
    Batches(task, ROWS, max_tokens=32)
    assert "empty text" not in caplog.text
    rows = [*ROWS, {"text": "  ", "label": 1}, {"text": "so good", "text_pair": "", "label": 0}]
    Batches(task, rows, max_tokens=32)
    assert "2 of 12 rows have an empty text, the first of them row 10" in caplog.text


def test_a_folder_that_is_a_file_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"output_dir .*file is a file; name a folder"):
        Trainer(classifier(tmp_path), ROWS, None, settings(tmp_path / "file")).train()
    with pytest.raises(CheckpointError, match=r"^'.*run' cannot be a folder"):
        Trainer(classifier(tmp_path), ROWS, None, settings(tmp_path / "file" / "run")).train()


def test_a_missing_device_is_reported(tmp_path):
    for device in ("gpu", "cuda" if not torch.cuda.is_available() else "cuda:99"):
        with pytest.raises(InputError, match=f"device '{device}.*' cannot be used: "):
            Trainer(classifier(tmp_path), ROWS, None, settings(tmp_path / "run", device=device))


def test_a_warm_up_that_never_ends_is_reported(tmp_path, caplog):
    long = {"max_steps": 3, "warmup_steps": 9}
    Trainer(classifier(tmp_path), ROWS, None, settings(tmp_path / "run", **long))
    assert "the warm-up has 9 steps and the run has 3: the learning rate never reaches 0.01" in caplog.text
    with pytest.raises(InputError, match="3 steps are fewer than 9 to warm up and 0 to decay"):
        options = settings(tmp_path / "run", lr_scheduler_type="warmup_stable_decay", **long)
        Trainer(classifier(tmp_path), ROWS, None, options)


def test_weights_that_are_no_numbers_are_not_blamed_on_rows(tmp_path):
    task = classifier(tmp_path)
    task.model.classifier.weight.data[:] = math.nan
    with pytest.raises(TrainingError, match=r"Every row that was read causes it alone, so the weights are at"):
        Trainer(task, ROWS, None, settings(tmp_path / "run", tokens_per_batch=1000)).train()


def test_memory_that_is_not_there(tmp_path, monkeypatch):
    trainer = Trainer(classifier(tmp_path), ROWS, None, settings(tmp_path / "run"))
    why = {"message": "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"}

    def fail(*_, **__):
        raise RuntimeError(why["message"])

    monkeypatch.setattr(trainer.training_task, "objectives", fail)
    with pytest.raises(TrainingError, match="step 1: there is not enough memory; tokens_per_batch is 32: a smaller"):
        trainer.train()
    why["message"] = "something else"
    with pytest.raises(RuntimeError, match="something else"):
        trainer.train()


def test_a_loss_that_is_not_finite_names_step_and_row(tmp_path):
    task = classifier(tmp_path)
    task.model.get_input_embeddings().weight.data[task.tokenizer.convert_tokens_to_ids("music")] = math.nan
    rows = [Row(row, "train.tsv", i + 1) for i, row in enumerate(ROWS)]
    trainer = Trainer(task, rows, None, settings(tmp_path / "run", tokens_per_batch=1, max_steps=20))
    with pytest.raises(TrainingError, match=r"step \d+: the loss is nan, .* It comes from train.tsv, line 8$"):
        trainer.train()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Trainer(model=1, args=2, train_dataset=3), "Trainer has no argument 'model': pass a task"),
        (lambda: TrainSettings(output_dir="r", lerning_rate=3), "TrainSettings has .* did you mean 'learning_rate'"),
        (lambda: TrainSettings(output_dir="r", evaluation_strategy="epoch"), "'evaluation_strategy': eval_steps sets"),
    ],
)
def test_names_of_other_libraries_name_their_replacement(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


def test_settings_are_checked():
    for values, message in (
        ({"learning_rate": -1}, "learning_rate must be a number of at least 0, got -1"),
        ({"num_train_epochs": 0}, "num_train_epochs must be a whole number of at least 1, got 0"),
        ({"lr_scheduler_type": "liner"}, "did you mean 'linear'"),
        ({"lr_scheduler_type": "constant", "warmup_steps": 2}, "'constant_with_warmup' has one"),
        ({"warmup_ratio": 0.1, "warmup_steps": 2}, "both set the length of the warm-up; give one"),
        ({"freeze": ["a", 1]}, "freeze takes names of parts of the model, got"),
        ({"precision": "fp8"}, "precision must be one of 'fp32', 'bf16', 'fp16', got 'fp8'"),
        ({"layer_decay": 2}, "layer_decay must be a number from 0 to 1, got 2"),
        ({"max_grad_norm": math.inf}, "max_grad_norm must be a number"),
        ({"output_dir": ""}, "output_dir must name a folder"),
    ):
        with pytest.raises(InputError, match=message):
            TrainSettings(**{"output_dir": "run", **values})
    with pytest.raises(ArgumentError, match="did you mean 'learning_rate'"):
        TrainSettings.from_dict({"output_dir": "run", "learning_rat": 1e-5})
    again = TrainSettings.from_dict(json.loads(json.dumps(TrainSettings(output_dir="run", freeze=("a",)).to_dict())))
    assert again == TrainSettings(output_dir="run", freeze=("a",)) == TrainSettings(output_dir="run", freeze="a")


def test_a_wrong_metric_is_reported_at_once(tmp_path):
    with pytest.raises(
        InputError, match="metric_for_best_model must be one of accuracy, f1, matthews, loss, got 'bleu'"
    ):
        Trainer(classifier(tmp_path), ROWS, None, settings(tmp_path / "run", metric_for_best_model="bleu"))


# --- batches -----------------------------------------------------------------------------------------------------


def test_batches_keep_to_the_budget_and_read_every_row_once(tmp_path):
    batches = Batches(classifier(tmp_path), ROWS, max_tokens=20, max_rows=3, batches_per_step=2, seed=1)
    for epoch in range(3):
        steps = batches.plan(epoch)
        numbers = [row for step in steps for batch in step for row in batch]
        assert sorted(numbers) == list(range(len(ROWS)))
        assert all(len(step) == 2 for step in steps[:-1])
        for batch in (batch for step in steps for batch in step):
            assert len(batch) <= 3
            assert len(batch) == 1 or sum(batches.lengths[row] for row in batch) <= 20
    assert batches.plan(0) != batches.plan(1) and batches.plan(1) == batches.plan(1)


def test_batches_resume_from_any_position(tmp_path):
    task = classifier(tmp_path)
    batches = Batches(task, ROWS, max_tokens=20, seed=1)
    read = [(batches.state_dict(), next(batches)) for _ in range(3 * len(batches.plan(0)))]
    for i, (place, _) in enumerate(read):
        other = Batches(task, ROWS, max_tokens=20, seed=1)
        other.load_state_dict(json.loads(json.dumps(place)))
        assert [next(other) for _ in read[i:]] == [rows for _, rows in read[i:]]


# --- evaluation --------------------------------------------------------------------------------------------------


def test_evaluation_is_that_of_one_batch(tmp_path):
    task = classifier(tmp_path)
    task.model.train()
    whole = evaluate(task, ROWS, tokens_per_batch=10_000)
    parts = evaluate(task, ROWS, tokens_per_batch=1, batch_size=2)
    assert task.model.training
    assert parts["loss"] == pytest.approx(whole["loss"], abs=1e-6) and parts["accuracy"] == whole["accuracy"]
    batch = task.collate([example for row in ROWS for example in task.encode(task.read(row))])
    with torch.inference_mode():
        logits = task.model.eval()(**batch.inputs).logits
    right = (logits.argmax(-1) == batch.labels["labels"]).float().mean()
    assert whole["accuracy"] == pytest.approx(float(right))
    with pytest.raises(InputError, match="no rows to evaluate on"):
        evaluate(task, [])


def test_the_report_stands_alone(tmp_path):
    run = tmp_path / "run <b>"
    Trainer(classifier(tmp_path), ROWS, ROWS, settings(run, logging_steps=1)).train()
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "<polyline" in page and "learning rate" in page and "eval accuracy" in page
    assert "<td>BertForSequenceClassification, " in page and "<td>text-classification</td>" in page
    first, second = re.findall(r"<h2>(.*?)</h2>", page)[:2]
    assert "■ loss</span>" in first and "■ eval loss</span>" in first and second == "eval accuracy"
    together = page[page.index("■ eval loss") : page.index("<h2>eval accuracy")]
    assert together.count("<polyline") == 2
    assert "run &lt;b&gt;" in page and "run <b>" not in page
    assert "http" not in page.replace("http-equiv", "") and "<script" not in page


# --- label smoothing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make, rows", [(classifier, ROWS), (filler, MASKED), (writer, TEXTS)])
def test_labels_are_smoothed_in_training_alone(tmp_path, make, rows):
    task = make(tmp_path)
    task.model.eval()
    trainer = Trainer(task, rows, rows, settings(tmp_path / "run", label_smoothing_factor=0.2))
    batch = task.collate([example for row in rows for example in task.encode(task.read(row))])
    hard, soft = (float(each.loss(task.model, batch, "mean").detach()) for each in (task, trainer.training_task))
    trainer.training_task.label_smoothing = 1.0
    spread = float(trainer.training_task.loss(task.model, batch, "mean").detach())
    assert hard == pytest.approx(trainer.evaluate()["loss"], abs=1e-5)
    assert soft == pytest.approx(0.8 * hard + 0.2 * spread, abs=1e-5) and abs(soft - hard) > 1e-4


def test_smoothing_is_refused_where_there_are_no_labels(tmp_path):
    task = classifier(tmp_path, num_labels=1)
    rows = [{"text": row["text"], "label": 0.5} for row in ROWS]
    with pytest.raises(InputError, match="label_smoothing_factor is for tasks that choose among labels"):
        Trainer(task, rows, None, settings(tmp_path / "run", label_smoothing_factor=0.1))


def test_rare_labels_count_as_much_as_frequent_ones(tmp_path):
    rows = [{**row, "label": 0 if i else 1} for i, row in enumerate(ROWS)]  # one of ten
    task = classifier(tmp_path, **NO_DROPOUT)
    options = settings(tmp_path / "run", class_weights=True, report=False)
    trainer = Trainer(task, rows, rows, options)
    batch = task.collate([example for row in rows for example in task.encode(row)])
    logits = task.model(**batch.inputs).logits
    weights = torch.tensor([10 / (2 * 9), 10 / 2])
    right = F.cross_entropy(logits, batch.labels["labels"], weights, reduction="sum")
    assert torch.allclose(trainer.training_task.loss(task.model, batch), right)
    assert float(weights[batch.labels["labels"]].sum()) == pytest.approx(10)  # rows weigh 1 on average
    assert not torch.allclose(task.loss(task.model, batch), right)  # evaluation is as it was
    with pytest.raises(InputError, match="class_weights is for tasks that choose among labels, and fill-mask does not"):
        Trainer(filler(tmp_path), MASKED, None, options)


def test_a_run_that_stopped_early_stays_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(Trainer, "evaluate", lambda self: {"loss": 1.0, "accuracy": 0.5})
    options = settings(tmp_path / "run", max_steps=9, eval_steps=1, save_steps=1, early_stopping_patience=2)
    first = Trainer(classifier(tmp_path), ROWS, ROWS, options).train()
    again = Trainer(classifier(tmp_path), ROWS, ROWS, options).train(resume=True)
    assert (first.step, first.stopped_by) == (again.step, again.stopped_by) == (3, "early stopping")


def test_events_for_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    options = settings(tmp_path / "run", max_steps=4, tensorboard=True, logging_steps=1, save_steps=2, report=False)
    Trainer(classifier(tmp_path), ROWS, ROWS[:3], options).train()
    Trainer(classifier(tmp_path), ROWS, ROWS[:3], options).train(resume=tmp_path / "run/checkpoint-2")
    events = EventAccumulator(str(tmp_path / "run/tensorboard")).Reload()
    lines = {line["step"]: line for line in read_log(tmp_path / "run/log.jsonl") if "loss" in line}
    seen = [(event.step, event.value) for event in events.Scalars("loss")]
    assert [step for step, _ in seen] == [1, 2, 3, 4]  # those that were taken again are there once
    assert [value for _, value in seen] == pytest.approx([lines[step]["loss"] for step in (1, 2, 3, 4)])
    assert "eval_accuracy" in events.Tags()["scalars"]


def test_the_bar_shows_loss_rate_and_speed(tmp_path, monkeypatch):
    updates = []
    monkeypatch.setattr(
        "glassformer.train.reporting.run_log.Bar.update", lambda self, step, text: updates.append((step, text))
    )
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    Trainer(classifier(tmp_path), ROWS, None, settings(tmp_path / "run", max_steps=2, report=False)).train()
    assert [step for step, _ in updates] == [1, 2]
    assert re.fullmatch(r"loss \d\.\d{4}, rate [\d.e-]+, [\d,]+ tokens/s, \d+% padding skipped", updates[0][1])


def test_what_other_trainers_take_is_refused_in_one_line(tmp_path):
    task, run = classifier(tmp_path), settings(tmp_path)
    with pytest.raises(InputError, match=r"trains a task, such as TextClassification.*; got a BertForSequenceClass"):
        Trainer(task.model, ROWS, None, run)
    with pytest.raises(InputError, match="Trainer takes TrainSettings as its settings, got a dict"):
        Trainer(task, ROWS, None, {"output_dir": "run"})
    with pytest.raises(ArgumentError, match="Trainer has no argument 'model': pass a task"):
        Trainer(model=task.model, train_dataset=ROWS)
    assert TrainSettings("run", seed=1) == TrainSettings(output_dir="run", seed=1)
