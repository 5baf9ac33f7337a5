"""Several processes: two ranks train like one, resume bit for bit, and end when one of them dies or hangs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer.train import checkpoint
from glassformer.train.evaluation import evaluate
from glassformer.train.reporting.run_log import read_log
from glassformer.train.trainer import Trainer

from .small import NO_DROPOUT, ROWS, classifier, same, weights
from .test_resume import settings

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import os, sys, time, torch
torch.set_num_threads(1)
from pathlib import Path
from tests.train.small import ROWS, TAGGED, TEXTS, classifier, tagger, writer
from tests.train.test_resume import settings
from glassformer.train.trainer import Trainer
folder, options, resume = Path(sys.argv[1]), eval(sys.argv[2]), eval(sys.argv[3])
rank, fault = int(os.environ["RANK"]), options.pop("fault", None)
torch.manual_seed(5 + rank)
kinds = {"classifier": (ROWS, classifier), "writer": (TEXTS, writer), "tagger": (TAGGED, tagger)}
rows, make = kinds[options.pop("kind", "classifier")]
task = make(folder / "vocabulary", **options.pop("model", {})).with_options(**options.pop("task", {}))
for parameter in task.model.parameters():
    parameter.data += 0.01 * rank  # ranks start with different weights
trainer = Trainer(task, rows, rows[:5], settings(folder / options.pop("run"), **options))
if fault == "nan":
    task.model.get_input_embeddings().weight.data[task.tokenizer.convert_tokens_to_ids("music")] = float("nan")
elif fault and rank == 1:
    train_step = trainer.train_step
    def faulty(rows):
        if trainer.progress.step == 2:
            time.sleep(1000) if fault == "hangs" else os._exit(9)
        return train_step(rows)
    trainer.train_step = faulty
result = trainer.train(resume=resume)
print(rank, result.step, result.metrics, flush=True)
if trainer.settings.fully_shard:
    os._exit(0)  # all is saved; torch's own end of a process with a split model aborts now and then
"""


def start(folder: Path, resume=False, **options) -> list[subprocess.Popen]:
    """Two ranks, as torchrun starts them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = []
    for rank in (0, 1):
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "WORLD_SIZE": "2",
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
        }
        arguments = [sys.executable, "-c", SCRIPT, str(folder), repr(options), repr(resume)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(arguments, cwd=ROOT, env=environment, text=True, **pipes))
    return started


def finish(started: list[subprocess.Popen]) -> list[str]:
    found = [process.communicate(timeout=300) for process in started]
    assert [process.returncode for process in started] == [0, 0], found
    return [out for out, _ in found]


def stored(folder: Path) -> dict[str, torch.Tensor]:
    return dict(glassformer.AutoModelForSequenceClassification.from_pretrained(folder).state_dict())


def test_two_ranks_train_like_one(tmp_path):
    one = {"gradient_accumulation_steps": 4, "save_steps": 1000}
    task = classifier(tmp_path / "vocabulary", **NO_DROPOUT)
    trainer = Trainer(task, ROWS, ROWS[:5], settings(tmp_path / "one", **one))
    result = trainer.train()
    two = {"gradient_accumulation_steps": 2, "save_steps": 1000, "model": NO_DROPOUT}
    said = finish(start(tmp_path, run="two", **two))
    assert [line.split()[:2] for line in said] == [["0", str(result.step)], ["1", str(result.step)]]
    assert said[0][1:] == said[1][1:]  # both know the metrics of all rows
    found = stored(tmp_path / "two")
    assert all(torch.allclose(found[name], tensor, atol=2e-4) for name, tensor in weights(task).items())
    loaded = glassformer.TextClassification.from_pretrained(tmp_path / "two")
    metrics = eval(said[0].split(maxsplit=2)[2])
    alone = evaluate(loaded, ROWS[:5])
    assert metrics == pytest.approx(alone, abs=1e-6)


def test_two_ranks_resume_bit_for_bit(tmp_path):
    """With dropout, whose random numbers differ by rank."""
    finish(start(tmp_path, run="whole", gradient_accumulation_steps=1, max_steps=5))
    folder = tmp_path / "whole" / "checkpoint-3"
    finish(start(tmp_path, run="again", gradient_accumulation_steps=1, max_steps=5, resume=str(folder)))
    assert same(stored(tmp_path / "again" / "checkpoint-5"), stored(tmp_path / "whole" / "checkpoint-5"))


@pytest.mark.parametrize("fault", ["dies", "hangs"])
def test_a_rank_that_fails_ends_the_job(tmp_path, fault):
    options = {"gradient_accumulation_steps": 1, "max_steps": 5}
    started = start(tmp_path, run="run", fault=fault, rank_timeout=8.0, **options)
    try:
        _, errors = started[0].communicate(timeout=300)
    finally:
        started[1].send_signal(signal.SIGKILL)
        started[1].communicate()
    assert started[0].returncode == 1
    assert "TrainingError: step 3: the other ranks do not answer" in errors
    assert list(checkpoint.checkpoints_in(tmp_path / "run")) == [1, 2]
    if fault == "dies":
        finish(start(tmp_path, run="run", resume=True, **options))
        finish(start(tmp_path, run="whole", **options))
        assert same(stored(tmp_path / "run"), stored(tmp_path / "whole"))


def test_all_ranks_name_the_rows_that_one_of_them_read(tmp_path):
    started = start(tmp_path, run="run", fault="nan", gradient_accumulation_steps=1, tokens_per_batch=1)
    errors = [process.communicate(timeout=300)[1] for process in started]
    assert [process.returncode for process in started] == [1, 1]
    assert all("the loss is nan, and the weights were not changed. It comes from row 7\n" in each for each in errors)


def test_every_rank_knows_how_many_rows_were_cut(tmp_path):
    """Rows of four tokens and more: with [CLS] and [SEP] they are longer than five."""
    started = start(tmp_path, run="run", max_steps=1, task={"truncation": True, "max_length": 5})
    errors = [process.communicate(timeout=300)[1] for process in started]
    words = [len(row["text"].split()) for row in ROWS]
    trained, evaluated = sum(count > 3 for count in words), sum(count > 3 for count in words[:5])
    for each in errors:
        assert [line for line in each.splitlines() if "cut" in line] == [
            f"{trained} of 10 training rows were cut to fit the model",
            f"{evaluated} of 5 evaluation rows were cut to fit the model",
        ]


def stored_writer(folder: Path) -> dict[str, torch.Tensor]:
    return dict(glassformer.AutoModelForCausalLM.from_pretrained(folder).state_dict())


def stored_tagger(folder: Path) -> dict[str, torch.Tensor]:
    return dict(glassformer.AutoModelForTokenClassification.from_pretrained(folder).state_dict())


@pytest.mark.parametrize("kind, read", [("tagger", stored_tagger), ("writer", stored_writer)])
def test_a_sharded_model_trains_like_a_full_one(tmp_path, kind, read):
    """Also a task that calls the body itself, and a last step in which one rank has no rows."""
    same_for_both = {"gradient_accumulation_steps": 1, "max_steps": 6, "save_steps": 1000, "kind": kind}
    model = NO_DROPOUT if kind == "tagger" else {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    whole = finish(start(tmp_path, run="whole", model=model, **same_for_both))
    split = finish(start(tmp_path, run="split", model=model, fully_shard=True, **same_for_both))
    mine, right = read(tmp_path / "split"), read(tmp_path / "whole")
    assert all(torch.allclose(mine[name], right[name], atol=2e-4) for name in right)
    logs = [read_log(tmp_path / run / "log.jsonl") for run in ("split", "whole")]
    norms = [[line["grad_norm"] for line in log if "grad_norm" in line] for log in logs]
    assert norms[0] == pytest.approx(norms[1], rel=1e-3)  # Adam would hide a wrong factor
    errors = [eval(line.split(maxsplit=2)[2]) for line in (*whole, *split)]
    assert all(metrics == pytest.approx(errors[0], abs=1e-4) for metrics in errors)


def test_a_sharded_model_resumes_bit_for_bit(tmp_path):
    options = {"gradient_accumulation_steps": 2, "max_steps": 5, "fully_shard": True}
    finish(start(tmp_path, run="whole", **options))
    folder = tmp_path / "whole" / "checkpoint-3"
    assert sorted(path.name for path in folder.iterdir())[:2] == ["config.json", "model.safetensors"]
    finish(start(tmp_path, run="again", resume=str(folder), **options))
    assert same(stored(tmp_path / "again" / "checkpoint-5"), stored(tmp_path / "whole" / "checkpoint-5"))
    tensors, right = (checkpoint.read_checkpoint(tmp_path / run / "checkpoint-5")[0] for run in ("again", "whole"))
    assert same(tensors, right)


@pytest.mark.parametrize("fault", ["dies", "hangs"])
def test_a_rank_that_fails_ends_the_job_of_a_split_model(tmp_path, fault):
    options = {"gradient_accumulation_steps": 1, "max_steps": 5, "fully_shard": True}
    started = start(tmp_path, run="run", fault=fault, rank_timeout=8.0, **options)
    try:
        _, errors = started[0].communicate(timeout=300)
    finally:
        started[1].send_signal(signal.SIGKILL)
        started[1].communicate()
    assert started[0].returncode == 1
    assert "TrainingError: step 3: the other ranks do not answer" in errors
    assert list(checkpoint.checkpoints_in(tmp_path / "run")) == [1, 2]


def test_a_model_is_split_among_several_ranks_only(tmp_path):
    with pytest.raises(glassformer.InputError, match="start them with torchrun"):
        Trainer(classifier(tmp_path), ROWS, None, settings(tmp_path / "run", fully_shard=True))


def test_two_ranks_check_that_they_resume(tmp_path):
    task = classifier(tmp_path / "model")
    task.model.save_pretrained(tmp_path / "model")
    task.tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    options = ["--model=model", "--data=rows.jsonl", "--output-dir=run", "--tokens-per-batch=24", "--check-resume"]
    call = ["-m", "glassformer.cli.main", "train", "text-classification", *options]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *call]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(launch, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("exact: 6 steps, and 6 with a break after 3") == 1
