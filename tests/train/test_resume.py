"""Going on: bit for bit from every step, after kills at any moment, with the last checkpoint always whole."""

from __future__ import annotations

import copy
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer
from glassformer import LoraConfig, add_lora
from glassformer.checkpoints import files
from glassformer.errors import CheckpointError, DamagedFileError, InputError
from glassformer.train import checkpoint, randomness
from glassformer.train.recipes.check_resume import check_resume
from glassformer.train.recipes.recipe import make_recipe
from glassformer.train.reporting.run_log import read_log
from glassformer.train.run_folder import RunFolder
from glassformer.train.train_settings import TrainSettings
from glassformer.train.trainer import Trainer

from .small import ROWS, TEXTS, classifier, same, weights, writer

ROOT = Path(__file__).resolve().parents[2]


def settings(folder: Path, **others) -> TrainSettings:
    values = {
        "output_dir": str(folder),
        "tokens_per_batch": 16,
        "gradient_accumulation_steps": 2,
        "num_train_epochs": 3,
        "learning_rate": 1e-2,
        "warmup_steps": 2,
        "save_steps": 1,
        "save_total_limit": None,
        "logging_steps": 2,
        "report": False,
    }
    return TrainSettings(**{**values, **others})


@pytest.mark.parametrize("make, rows", [(classifier, ROWS), (writer, TEXTS)])
def test_every_step_resumes_bit_for_bit(tmp_path, make, rows):
    """Dropout, accumulation, mid-epoch, schedule: all in the weights."""
    whole = make(tmp_path / "vocabulary")
    trainer = Trainer(whole, rows, rows[:4], settings(tmp_path / "whole"))
    result = trainer.train()
    found = checkpoint.checkpoints_in(tmp_path / "whole")
    assert list(found) == list(range(1, trainer.total + 1)) and trainer.total >= 6
    assert result.step == trainer.total and result.stopped_by is None
    assert len(trainer.batches.plan(0)) > 1  # so that some stand in the middle of an epoch
    for step, folder in found.items():
        task = make(tmp_path / "vocabulary", seed=99) if make is classifier else make(tmp_path / "vocabulary")
        torch.manual_seed(step)
        again = Trainer(task, rows, rows[:4], settings(tmp_path / f"again-{step}"))
        assert again.train(resume=folder).metrics == result.metrics
        assert same(weights(task), weights(whole)), step
        mine, right = again.optimizer.state_dict()["state"], trainer.optimizer.state_dict()["state"]
        assert all(torch.equal(mine[i][key], right[i][key]) for i in right for key in right[i]), step


def test_a_checkpoint_is_an_ordinary_one(tmp_path):
    task = classifier(tmp_path / "vocabulary")
    Trainer(task, ROWS, None, settings(tmp_path / "run", max_steps=2)).train()
    folder = tmp_path / "run" / "checkpoint-2"
    loaded = glassformer.AutoModelForSequenceClassification.from_pretrained(folder)
    assert same(dict(loaded.state_dict()), weights(task))
    assert same(
        dict(glassformer.AutoModelForSequenceClassification.from_pretrained(tmp_path / "run").state_dict()),
        weights(task),
    )
    assert glassformer.pipeline("text-classification", model=str(folder))("so bad")


def test_a_seed_is_for_all_generators():
    def numbers():
        return random.random(), np.random.randn(), torch.randn(3).tolist()

    glassformer.set_seed(5)
    first = numbers()
    assert all(a != b for a, b in zip(numbers(), first, strict=True))
    glassformer.set_seed(5)
    assert numbers() == first
    with pytest.raises(glassformer.InputError, match="seed must be an integer, got '5'"):
        glassformer.set_seed("5")


def test_random_states_are_restored(tmp_path):
    randomness.set_seed(3)
    random.gauss(0, 1), np.random.randn(), torch.randn(3)
    stored = json.loads(json.dumps(randomness.random_state()))
    numbers = random.gauss(0, 1), random.random(), np.random.randn(), torch.randn(5).tolist()
    randomness.set_seed(4)
    randomness.load_random_state(stored)
    assert (random.gauss(0, 1), random.random(), np.random.randn(), torch.randn(5).tolist()) == numbers


def test_only_the_newest_and_the_best_are_kept(tmp_path):
    run = tmp_path / "run"
    for step in (2, 4, 6, 8, 10):
        (run / f"checkpoint-{step}").mkdir(parents=True)
        (run / f"checkpoint-{step}" / checkpoint.VALUES).write_text("{}")
    checkpoint.remove_old_checkpoints(run, 10, keep=2, best=4)
    assert list(checkpoint.checkpoints_in(run)) == [4, 8, 10]
    checkpoint.remove_old_checkpoints(run, 10, keep=None, best=None)
    assert sorted(path.name for path in run.iterdir()) == ["checkpoint-10", "checkpoint-4", "checkpoint-8"]


def test_a_run_resumed_from_an_earlier_step_keeps_its_own_checkpoints(tmp_path, caplog):
    def trainer(steps: int) -> Trainer:
        how = settings(tmp_path / "run", max_steps=steps, save_total_limit=1 if steps == 3 else None)
        return Trainer(classifier(tmp_path / "vocabulary"), ROWS, None, how)

    trainer(6).train()
    trainer(3).train(resume=tmp_path / "run/checkpoint-2")
    assert "this run will remove checkpoint-3, checkpoint-4, checkpoint-5, checkpoint-6, of later steps" in caplog.text
    assert list(checkpoint.checkpoints_in(tmp_path / "run")) == [3]


def test_a_full_disk_leaves_the_previous_checkpoint(tmp_path, monkeypatch):
    task = classifier(tmp_path / "vocabulary")
    trainer = Trainer(task, ROWS, None, settings(tmp_path / "run", save_total_limit=1))
    Trainer(task, ROWS, None, settings(tmp_path / "run", max_steps=1)).train()
    before = {path.name: path.read_bytes() for path in (tmp_path / "run" / "checkpoint-1").iterdir()}
    trainer.initialise(True)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    trainer.progress.step = 2
    with pytest.raises(CheckpointError, match="no space left on device; older checkpoints are intact"):
        trainer.save()
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in (tmp_path / "run" / "checkpoint-1").iterdir()} == before
    assert not [path.name for path in (tmp_path / "run").iterdir() if "tmp" in path.name or path.name == "checkpoint-2"]


def test_files_of_killed_runs_are_removed(tmp_path):
    run = tmp_path / "run"
    dead = subprocess.Popen([sys.executable, "-c", "pass"])
    dead.wait()
    stale = run / f".checkpoint-3.{dead.pid}-0011aabb.glassformer-tmp"
    used = run / f".checkpoint-3.{os.getppid()}-0011aabb.glassformer-tmp"
    for folder in (stale, used, run / "checkpoint-7"):  # the last is no checkpoint: it was never finished
        folder.mkdir(parents=True)
    checkpoint.remove_leftovers(run)
    assert not stale.exists() and used.exists()
    assert checkpoint.checkpoints_in(run) == {}


def test_other_rows_or_another_run_are_refused(tmp_path):
    task = classifier(tmp_path / "vocabulary")
    Trainer(task, ROWS, None, settings(tmp_path / "run", max_steps=2)).train()
    with pytest.raises(InputError, match=r"the last of step 2; train\(resume=True\) resumes it"):
        Trainer(task, ROWS, None, settings(tmp_path / "run")).train()
    with pytest.raises(InputError, match="was reading 10 rows, in an order that these 9 do not have"):
        Trainer(task, ROWS[1:], None, settings(tmp_path / "run")).train(resume=True)
    with pytest.raises(InputError, match="was training text-classification, and this is text-generation"):
        Trainer(writer(tmp_path / "vocabulary"), TEXTS, None, settings(tmp_path / "run")).train(resume=True)
    with pytest.raises(InputError, match="is no checkpoint of a training run"):
        Trainer(task, ROWS, None, settings(tmp_path / "other")).train(resume=tmp_path)


def test_a_damaged_checkpoint_names_the_one_before_it(tmp_path):
    def trainer() -> Trainer:
        return Trainer(classifier(tmp_path / "vocabulary"), ROWS, None, settings(tmp_path / "run", max_steps=3))

    trainer().train()
    values = tmp_path / "run/checkpoint-3/training_state.json"
    known = json.loads(values.read_text())
    values.write_text(json.dumps({name: known[name] for name in known if name != "settings"}))
    with pytest.raises(DamagedFileError, match=r"lacks settings; without .*checkpoint-3 the run .* .*checkpoint-2$"):
        trainer().train(resume=True)
    values.write_text(json.dumps(known))
    file = tmp_path / "run/checkpoint-3/model.safetensors"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(DamagedFileError, match=r"is truncated.*; without .*checkpoint-3 the run resumes from"):
        trainer().train(resume=True)
    shutil.rmtree(tmp_path / "run/checkpoint-3")
    assert trainer().train(resume=True).step == 3


def test_a_checkpoint_of_another_shape_or_kind_is_refused(tmp_path):
    folder = tmp_path / "run" / "checkpoint-2"
    Trainer(classifier(tmp_path), ROWS, None, settings(tmp_path / "run", max_steps=2)).train()
    wider = Trainer(classifier(tmp_path, num_labels=3), ROWS, None, settings(tmp_path / "other"))
    with pytest.raises(InputError, match=r"such as classifier.weight: \[2, 16\] in the checkpoint and \[3, 16\] in"):
        wider.train(resume=folder)
    adapted = classifier(tmp_path)
    add_lora(adapted.model)
    with pytest.raises(InputError, match="was training the full model, and this run trains an adapter"):
        Trainer(adapted, ROWS, None, settings(tmp_path / "other")).train(resume=folder)


def test_one_run_in_one_folder(tmp_path):
    def trainer(name: str) -> Trainer:
        return Trainer(classifier(tmp_path), ROWS, None, settings(tmp_path / name, max_steps=2))

    (tmp_path / "run").mkdir()
    with RunFolder(tmp_path / "run"), pytest.raises(InputError, match="another process is training in"):
        trainer("run").train()
    trainer("run").train()
    classifier(tmp_path).model.save_pretrained(tmp_path / "model")
    before = (tmp_path / "model/model.safetensors").read_bytes()
    for resume in (False, True):
        with pytest.raises(InputError, match=r"holds a model, model.safetensors, which the run would overwrite"):
            trainer("model").train(resume=resume)
    assert (tmp_path / "model/model.safetensors").read_bytes() == before


def test_a_folder_that_is_removed_while_a_run_trains_is_reported_and_made_anew(tmp_path, caplog):
    trainer = Trainer(classifier(tmp_path), ROWS, None, settings(tmp_path / "run", max_steps=4))
    learn = trainer.train_step

    def remove(rows):
        if trainer.progress.step == 2:
            shutil.rmtree(tmp_path / "run")
        return learn(rows)

    trainer.train_step = remove
    assert trainer.train().stopped_by is None
    (message,) = [each for each in caplog.messages if "was removed" in each]
    assert message.startswith(f"{tmp_path / 'run'} was removed while the run was training, with its log")
    assert list(checkpoint.checkpoints_in(tmp_path / "run")) == [3, 4]
    assert glassformer.AutoModelForSequenceClassification.from_pretrained(tmp_path / "run")


def test_a_folder_that_another_run_has_made_anew_is_left_to_it(tmp_path):
    trainer = Trainer(classifier(tmp_path), ROWS, None, settings(tmp_path / "run", max_steps=4, logging_steps=100))
    learn, other = trainer.train_step, RunFolder(tmp_path / "run")

    def replace(rows):
        if trainer.progress.step == 2:
            shutil.rmtree(tmp_path / "run")
            other.__enter__()
        return learn(rows)

    trainer.train_step = replace
    with pytest.raises(InputError, match="another process is training in"):
        trainer.train()
    other.__exit__()
    assert not any((tmp_path / "run").iterdir())


def test_a_closed_terminal_saves_however_often_it_is_reported(tmp_path):
    trainer = Trainer(classifier(tmp_path), ROWS, None, settings(tmp_path / "run", max_steps=4, save_steps=100))
    learn, before = trainer.train_step, signal.getsignal(signal.SIGHUP)

    def hang_up(rows):
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
        return learn(rows)

    trainer.train_step = hang_up
    assert trainer.train().stopped_by == "SIGHUP"
    assert list(checkpoint.checkpoints_in(tmp_path / "run")) == [1]
    assert signal.getsignal(signal.SIGHUP) is before


def test_a_run_below_nohup_goes_on_when_the_terminal_is_closed(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        trainer = Trainer(classifier(tmp_path), ROWS, None, settings(tmp_path / "run", max_steps=2))
        learn = trainer.train_step
        trainer.train_step = lambda rows: [os.kill(os.getpid(), signal.SIGHUP), learn(rows)][1]
        assert trainer.train().stopped_by is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_rows_that_have_changed_are_reported(tmp_path, caplog):
    task = classifier(tmp_path / "vocabulary")
    Trainer(task, ROWS, None, settings(tmp_path / "run", max_steps=2)).train()
    Trainer(task, ROWS, None, settings(tmp_path / "run", max_steps=3)).train(resume=True)
    assert "some of the rows have changed" not in caplog.text
    turned = [{**row, "label": 1 - row["label"]} for row in ROWS]  # as long as they were
    Trainer(task, turned, None, settings(tmp_path / "run", max_steps=4)).train(resume=True)
    assert "some of the rows have changed since the checkpoint" in caplog.text


def test_other_settings_are_reported(tmp_path, caplog):
    task = classifier(tmp_path / "vocabulary")
    Trainer(task, ROWS, None, settings(tmp_path / "run", max_steps=2)).train()
    Trainer(task, ROWS, None, settings(tmp_path / "run", max_steps=3, weight_decay=0.5)).train(resume=True)
    assert "max_steps 3 (was 2), weight_decay 0.5 (was 0.01)" in caplog.text


@pytest.mark.parametrize(
    "damage",
    [
        lambda values: values["data"].pop("step"),
        lambda values: values["data"].pop("fingerprint"),
        lambda values: values["random"][0].pop("numpy"),
        lambda values: values["random"][0]["numpy"][1].pop(),
        lambda values: values["random"][0]["python"][1].__setitem__(3, "x"),
        lambda values: values["random"].__setitem__(0, None),
        lambda values: values.update(step="three"),
        lambda values: values.update(best=[1]),
        lambda values: values.update(metrics=7),
    ],
)
def test_a_damaged_state_is_a_damaged_file(tmp_path, damage):
    task = classifier(tmp_path / "vocabulary")
    Trainer(task, ROWS, None, settings(tmp_path / "run", max_steps=1)).train()
    path = tmp_path / "run" / "checkpoint-1" / "training_state.json"
    values = json.loads(path.read_text())
    damage(values)
    path.write_text(json.dumps(values))
    with pytest.raises(DamagedFileError, match=r"training_state\.json"):
        Trainer(task, ROWS, None, settings(tmp_path / "run", max_steps=2)).train(resume=True)


def test_another_config_is_reported(tmp_path, caplog):
    task = classifier(tmp_path / "vocabulary")
    Trainer(task, ROWS, None, settings(tmp_path / "run", max_steps=2)).train()
    Trainer(classifier(tmp_path / "vocabulary"), ROWS, None, settings(tmp_path / "run", max_steps=3)).train(resume=True)
    assert "config." not in caplog.text
    other = classifier(tmp_path / "vocabulary")
    config = copy.deepcopy(other.model.config)
    config.hidden_dropout_prob, config.hidden_act, config.layer_norm_eps = 0.5, "relu", 1e-5
    other.model = type(other.model)(config)
    Trainer(other, ROWS, None, settings(tmp_path / "run", max_steps=4)).train(resume=True)
    for change in ("hidden_dropout_prob 0.5 (was 0.1)", "hidden_act 'relu' (was 'gelu')", "layer_norm_eps 1e-05 (was"):
        assert f"config.{change}" in caplog.text


def test_another_learning_rate_is_used_and_other_options_are_reported(tmp_path, caplog):
    first = settings(tmp_path / "run", max_steps=4, logging_steps=1)
    Trainer(classifier(tmp_path / "vocabulary"), ROWS, None, first).train()
    slower = settings(tmp_path / "on", max_steps=4, logging_steps=1, learning_rate=1e-3)
    task = classifier(tmp_path / "vocabulary").with_options(truncation=True)
    Trainer(task, ROWS, None, slower).train(resume=tmp_path / "run" / "checkpoint-2")
    rates = [
        {line["step"]: line["learning_rate"] for line in read_log(tmp_path / run / "log.jsonl") if "loss" in line}
        for run in ("run", "on")
    ]
    assert [rates[1][step] for step in (3, 4)] == pytest.approx([rates[0][step] / 10 for step in (3, 4)])
    assert "learning_rate 0.001 (was 0.01), options.truncation 'True' (was 'False')" in caplog.text


SCRIPT = """
import sys, torch
torch.set_num_threads(1)
from pathlib import Path
from tests.train.small import ROWS, classifier
from tests.train.test_resume import settings
from glassformer.train.trainer import Trainer
folder = Path(sys.argv[1])
trainer = Trainer(classifier(folder / "vocabulary"), ROWS, ROWS[:3], settings(folder / "run", **eval(sys.argv[2])))
print("ready", flush=True)
print("ended:", trainer.train(resume=True).stopped_by, flush=True)
"""


def start(folder: Path, **others) -> subprocess.Popen:
    arguments = [sys.executable, "-c", SCRIPT, str(folder), repr(others)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(arguments, cwd=ROOT, env=environment, text=True, **quiet)
    assert process.stdout.readline() == "ready\n"
    return process


def unfinished(run: Path, writer: int) -> list[Path]:
    """What the process is writing at this moment, and has not yet renamed."""
    return list(run.glob(f".*{writer}-*tmp"))


def wait_for_a_save(run: Path, writer: int) -> None:
    """Until the process is in the middle of a save: what a sleep of any length may miss."""
    end = time.monotonic() + 30
    while not unfinished(run, writer):
        assert time.monotonic() < end, "nothing was saved"


def test_the_best_so_far_must_be_there(tmp_path, monkeypatch):
    monkeypatch.setattr(Trainer, "evaluate", lambda self: {"loss": self.progress.step, "accuracy": 0.5})
    how = {"max_steps": 4, "save_steps": 2, "eval_steps": 1, "load_best_model_at_end": True}
    Trainer(classifier(tmp_path), ROWS, ROWS[:3], settings(tmp_path / "run", **how)).train()
    elsewhere = Trainer(classifier(tmp_path), ROWS, ROWS[:3], settings(tmp_path / "other", **how))
    with pytest.raises(InputError, match=r"checkpoint-1, the best so far, is not in .*other: copy it from .*run$"):
        elsewhere.train(resume=tmp_path / "run/checkpoint-2")


@pytest.mark.parametrize(
    "end", [{"load_best_model_at_end": True, "eval_steps": 1}, {"average_checkpoints": 2, "eval_steps": 100}]
)
def test_a_proof_is_not_about_the_model_that_is_chosen_at_the_end(tmp_path, end):
    checkpoint.write_model(tmp_path / "model", classifier(tmp_path / "vocabulary"))
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    rows = {"train": str(tmp_path / "rows.jsonl"), "eval": str(tmp_path / "rows.jsonl")}
    train = {"output_dir": str(tmp_path / "run"), "tokens_per_batch": 24, "learning_rate": 0.3, **end}
    recipe = {"task": "text-classification", "model": str(tmp_path / "model"), "data": rows, "train": train}
    assert check_resume(make_recipe(recipe)).differing == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_kills_at_any_moment_lose_nothing(tmp_path):
    """kill -9 again and again, in steps and in saves; what is left ends with the weights of a run left alone."""
    many = {"num_train_epochs": 8, "save_total_limit": 2}
    whole = classifier(tmp_path / "vocabulary")
    Trainer(whole, ROWS, ROWS[:3], settings(tmp_path / "whole", **{**many, "save_steps": 1000})).train()
    draw = random.Random(5)
    torn = 0
    for kill in range(20):
        child = os.fork()
        if child == 0:
            try:
                task = classifier(tmp_path / "vocabulary")
                Trainer(task, ROWS, ROWS[:3], settings(tmp_path / "run", **many)).train(resume=True)
            finally:
                os._exit(0)
        if kill < 10:  # first, for later kills may come after the last save
            wait_for_a_save(tmp_path / "run", child)
        else:
            time.sleep(draw.uniform(0.1, 0.4))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        torn += bool(unfinished(tmp_path / "run", child))
        for folder in checkpoint.checkpoints_in(tmp_path / "run").values():
            checkpoint.read_checkpoint(folder)
            glassformer.AutoModelForSequenceClassification.from_pretrained(folder)
    task = classifier(tmp_path / "vocabulary")
    Trainer(task, ROWS, ROWS[:3], settings(tmp_path / "run", **many)).train(resume=True)
    assert torn, "no run was killed while it saved"
    assert same(weights(task), weights(whole))
    assert not list((tmp_path / "run").glob(".*"))


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_saves_and_ends(tmp_path, name):
    constant = {"lr_scheduler_type": "constant", "warmup_steps": 0, "save_steps": 100_000, "eval_steps": 100_000}
    process = start(tmp_path, max_steps=100_000, **constant)
    time.sleep(1)
    process.send_signal(getattr(signal, name))
    out, _ = process.communicate(timeout=300)
    assert out == f"ended: {name}\n" and process.returncode == 0
    ((step, folder),) = checkpoint.checkpoints_in(tmp_path / "run").items()
    alone = classifier(tmp_path / "vocabulary")
    Trainer(alone, ROWS, None, settings(tmp_path / "alone", max_steps=step, **constant)).train()
    stored = glassformer.AutoModelForSequenceClassification.from_pretrained(folder)
    assert same(dict(stored.state_dict()), weights(alone))


BEST, MEAN = {"load_best_model_at_end": True}, {"average_checkpoints": 3}


@pytest.mark.parametrize("at, buffer, end", [(4, None, BEST), (6, None, BEST), (3, 4, BEST), (5, None, MEAN)])
def test_an_interrupted_run_ends_like_an_uninterrupted_one(tmp_path, monkeypatch, at, buffer, end):
    """The best model or the average at the end does not depend on when the signal came."""
    monkeypatch.setattr(Trainer, "evaluate", lambda self: {"loss": abs(self.progress.step - 4), "accuracy": 0.5})
    options = {"max_steps": 6, "save_steps": 2, "eval_steps": 2, "save_total_limit": 3, "metric_for_best_model": "loss"}
    if buffer is not None:
        options |= {"eval_steps": None, "save_steps": None}  # after each epoch, which is streamed

    def trainer(name: str) -> Trainer:
        how = settings(tmp_path / name, gradient_accumulation_steps=1, tokens_per_batch=64, **{**options, **end})
        return Trainer(classifier(tmp_path / "vocabulary"), ROWS, ROWS[:3], how, buffer=buffer)

    whole, broken, again = trainer("whole"), trainer("run"), trainer("run")
    right = whole.train()
    learn = broken.train_step

    def signalled(rows):
        if broken.progress.step + 1 == at:
            os.kill(os.getpid(), signal.SIGTERM)
        return learn(rows)

    broken.train_step = signalled
    assert (broken.train().stopped_by, broken.progress.step) == ("SIGTERM", at)
    result = again.train(resume=True)
    assert (result.best, result.metrics) == (right.best, right.metrics)
    assert again.progress.waited == whole.progress.waited
    assert same(weights(again.task), weights(whole.task))
    assert list(checkpoint.checkpoints_in(tmp_path / "run")) == list(checkpoint.checkpoints_in(tmp_path / "whole"))


class PowerCut(Exception):
    pass


@pytest.mark.parametrize("every_step", [False, True], ids=["one", "each"])
@pytest.mark.parametrize("at, buffer, end", [(4, None, BEST), (6, None, BEST), (3, 4, BEST), (5, None, MEAN)])
def test_a_checkpoint_by_the_clock_resumes_bit_for_bit(tmp_path, monkeypatch, at, buffer, end, every_step):
    """It is saved between those that are due, within an epoch, and leaves no trace at the end of the run."""
    monkeypatch.setattr(Trainer, "evaluate", lambda self: {"loss": abs(self.progress.step - 4), "accuracy": 0.5})
    options = {"max_steps": 6, "save_steps": 3, "eval_steps": 2, "save_total_limit": 3, "metric_for_best_model": "loss"}
    if end is MEAN:
        options["save_steps"] = 2

    def trainer(name: str, **others) -> Trainer:
        values = {**options, **end, "logging_steps": 4, **others}
        how = settings(tmp_path / name, gradient_accumulation_steps=1, tokens_per_batch=64, **values)
        return Trainer(classifier(tmp_path / "vocabulary"), ROWS, ROWS[:3], how, buffer=buffer)

    whole, again = trainer("whole", save_minutes=None), trainer("run")
    broken = trainer("run", save_minutes=1e-9 if every_step else 10)
    right = whole.train()
    learn = broken.train_step

    def cut_off(rows):
        if broken.progress.step + 1 == at and not every_step:
            broken.saved_at -= 600.0  # ten minutes ago
        if broken.progress.step == at:
            raise PowerCut
        return learn(rows)

    broken.train_step = cut_off
    if at < 6:
        with pytest.raises(PowerCut):
            broken.train()
    else:
        broken.train()
    newest = list(checkpoint.checkpoints_in(tmp_path / "run"))[-1]
    assert newest == at or at % 2 == 0  # after an evaluation the clock waits for the next step
    result = again.train(resume=True)
    assert (result.best, result.metrics) == (right.best, right.metrics)
    assert again.progress.waited == whole.progress.waited
    assert same(weights(again.task), weights(whole.task))
    assert list(checkpoint.checkpoints_in(tmp_path / "run")) == list(checkpoint.checkpoints_in(tmp_path / "whole"))
    logs = [read_log(tmp_path / name / "log.jsonl") for name in ("run", "whole")]
    for lines in logs:
        for line in lines:
            line.pop("tokens_per_second", None)
    assert logs[0] == logs[1]


def test_a_run_with_an_adapter_resumes_bit_for_bit(tmp_path):
    def trainer(name: str) -> Trainer:
        task = classifier(tmp_path / "vocabulary", seed=5)
        add_lora(task.model, LoraConfig(r=2, lora_dropout=0.1, modules_to_save=["classifier"]))
        return Trainer(task, ROWS, None, settings(tmp_path / name, max_steps=4, save_steps=2, freeze_layers=0))

    whole = trainer("whole")
    before = weights(whole.task)
    whole.train()
    after = weights(whole.task)
    changed = {name for name in after if not torch.equal(after[name], before[name])}
    assert changed and all("lora_" in name or name.startswith("classifier") for name in changed)
    assert not (tmp_path / "whole/checkpoint-2/model.safetensors").exists()
    broken = trainer("broken")
    broken.train(resume=tmp_path / "whole/checkpoint-2")
    assert same(weights(broken.task), after)
