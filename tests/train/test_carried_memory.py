"""Language models with a memory: blocks in order, exact when accumulated, resumed bit for bit, evaluated whole."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer.errors import InputError
from glassformer.tasks.generation.text_generation import TextGeneration
from glassformer.train import checkpoint
from glassformer.train.batches import Batches
from glassformer.train.evaluation import evaluate
from glassformer.train.train_settings import TrainSettings
from glassformer.train.trainer import Trainer

from ..models.architectures import tiny_transfo_xl
from ..tasks.tiny import VOCAB
from .small import ROWS, same, tokenizer, weights, writer

LINES = [{"text": row["text"]} for row in ROWS] * 3
WHOLE = {"documents": "file", "line_end": " ."}
STILL = {"hidden_dropout_prob": 0.0}


def reader(folder: Path, fields: dict | None = None, **options) -> TextGeneration:
    torch.manual_seed(0)
    shape = {"vocab_size": len(VOCAB), "cutoffs": [10, 20], "mem_len": 6, "same_length": True, **(fields or {})}
    model = glassformer.TransfoXLLMHeadModel(tiny_transfo_xl(**shape))
    return TextGeneration(model, tokenizer(folder), **{**WHOLE, "context": 5, **options})


def settings(folder: Path, **others) -> TrainSettings:
    values = {"output_dir": str(folder), "learning_rate": 1e-2, "save_steps": 1, "save_total_limit": None}
    rows = {"per_device_train_batch_size": 4, "num_train_epochs": 2, "logging_steps": 2, "report": False}
    return TrainSettings(**{**values, **rows, **others})


def test_every_row_of_a_batch_reads_on_where_it_was(tmp_path):
    batches = Batches(reader(tmp_path), LINES, max_tokens=20, batches_per_step=2)
    steps = batches.plan(0)
    assert steps == batches.plan(1) and sorted(itertools.chain(*itertools.chain(*steps))) == [*range(len(batches.rows))]
    lanes = len(steps[0][0]) + len(steps[0][1])
    assert lanes == 8
    for before, after in itertools.pairwise(steps):
        for first, second in zip(before, after, strict=False):
            assert second == [number + 1 for number in first][: len(second)]


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("context", [1, 5, 100])
def test_evaluation_reads_every_document_whole(tmp_path, rows, context):
    """The loss of blocks is that of the documents in one pass, however many of them share a batch."""
    files = [{"text": text} for text in (" . ".join(row["text"] for row in ROWS), "the cat", ROWS[3]["text"])]
    task = reader(tmp_path, documents="row", line_end="", context=context)
    task.model.double().eval()
    total, count = 0.0, 0
    for row in files:
        ids = torch.tensor([task.tokenizer(row["text"], add_special_tokens=False)["input_ids"]])
        losses = task.model(ids, labels=ids).losses
        total, count = total + float(losses.sum()), count + losses.numel()
    for _ in range(2):
        metrics = evaluate(task, files, batch_size=rows)
        assert math.isclose(metrics["loss"], total / count, rel_tol=1e-9)
    assert not task.memory.kept[False]
    longer = evaluate(task.with_options(memory=50), files)["loss"]
    task.model.reset_memory_length(50)
    assert math.isclose(longer, evaluate(task, files)["loss"], rel_tol=1e-9)
    assert longer != metrics["loss"] or context == 100


def test_training_is_exact_under_accumulation(tmp_path):
    found = []
    for number, (rows, accumulation) in enumerate(((4, 1), (2, 2), (1, 4))):
        task = reader(tmp_path / "vocabulary", STILL)
        task.model.double()
        sizes = {"per_device_train_batch_size": rows, "gradient_accumulation_steps": accumulation}
        Trainer(task, LINES, None, settings(tmp_path / str(number), **sizes)).train()
        found.append(weights(task))
    for other in found[1:]:
        assert all(torch.allclose(found[0][name], other[name], rtol=1e-9, atol=1e-12) for name in other)


def test_blocks_are_trained_behind_their_memory(tmp_path):
    """The first two steps by hand: the second one reads what the first has left, computed with the weights before."""
    task = reader(tmp_path / "vocabulary", STILL)
    model = task.model.train()
    batches = Batches(task, LINES, max_tokens=20)
    (first,), (second,), *_ = (list(map(batches.collate, step)) for step in batches.plan(0))
    assert all(example.follows is not None for example in second.examples)
    task.outputs(model, first)
    mems = model(first.inputs["input_ids"]).mems
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.01 * torch.randn_like(parameter)
    got = task.outputs(model, second)
    want = model(second.inputs["input_ids"], mems=mems).prediction_scores
    labels = second.labels["labels"]
    seen = labels != -100
    want = -want[seen].gather(1, labels[seen][:, None]).sum()
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-4)
    assert abs(float(got) - float(task.outputs(model, second))) > 1e-3  # its memory was taken: it begins anew


def test_every_step_resumes_bit_for_bit(tmp_path):
    whole = reader(tmp_path / "vocabulary")
    trainer = Trainer(whole, LINES, LINES[:4], settings(tmp_path / "whole", eval_steps=2))
    result = trainer.train()
    found = checkpoint.checkpoints_in(tmp_path / "whole")
    assert result.step > 6 and len(found) == result.step
    for step in (1, 2, result.step // 2, result.step // 2 + 1):
        task = reader(tmp_path / "vocabulary")
        folder = tmp_path / f"from-{step}"
        Trainer(task, LINES, LINES[:4], settings(folder, eval_steps=2)).train(resume=found[step])
        assert same(weights(whole), weights(task)), step
        assert task.memory.kept[True].keys() == whole.memory.kept[True].keys()


def test_what_a_block_remembers_changes_what_is_learnt(tmp_path):
    losses = []
    for fields in ({}, {"mem_len": 0, "same_length": False}):
        task = reader(tmp_path / "vocabulary", {**STILL, **fields})
        Trainer(task, LINES, None, settings(tmp_path / str(len(losses)), max_steps=12)).train()
        losses.append(evaluate(task, LINES)["loss"])
    assert losses[0] != losses[1]


def test_refusals(tmp_path):
    with pytest.raises(InputError, match="overlap is for models without a memory"):
        reader(tmp_path, overlap=2)
    with pytest.raises(InputError, match="sampled_words is for a softmax over all words"):
        reader(tmp_path, sampled_words=10)
    with pytest.raises(InputError, match=r"memory is for models that have one.*not a GPT2LMHeadModel"):
        TextGeneration(writer(tmp_path).model, tokenizer(tmp_path), memory=4)
    with pytest.raises(InputError, match="overlap is for models without a memory"):
        reader(tmp_path).with_options(overlap=1)
    with pytest.raises(InputError, match="leave the buffer out"):
        Trainer(reader(tmp_path), LINES, None, settings(tmp_path / "run", max_steps=2), buffer=5)
    assert reader(tmp_path, context=None).default_context == 6
    assert not reader(tmp_path).supports_distillation


def test_label_smoothing_reads_all_scores(tmp_path):
    task = reader(tmp_path)
    row = task.training_examples(task.prepare_rows(LINES)[0], (0,))
    batch = task.collate(row)
    plain = task.loss_of(task.outputs(task.model.eval(), batch), batch)
    task.label_smoothing = 0.5
    scores = task.outputs(task.model, batch)
    assert scores.shape == (len(row[0]), len(VOCAB))
    assert task.loss_of(scores, batch) > plain
