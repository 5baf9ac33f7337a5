"""A step: accumulation equals the full batch, what is not finite stops before the update."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F

from glassformer.errors import TrainingError
from glassformer.tasks.batch import Batch
from glassformer.tasks.objectives import Objective
from glassformer.tasks.task import Task
from glassformer.train.distributed import ProcessGroup
from glassformer.train.step import take_step

from .small import MASKED, NO_DROPOUT, ROWS, TEXTS, classifier, filler, same, weights, writer


def batch_of(task: Task, rows: list[dict], start: int = 0) -> Batch:
    examples = []
    for number, row in enumerate(rows, start):
        for example in task.encode(task.read(row)):
            example.row = number
            examples.append(example)
    return task.collate(examples)


class Keeping(torch.optim.SGD):
    """An optimizer that keeps the gradients it was given."""

    def step(self, closure=None):
        self.seen = [p.grad.clone() for group in self.param_groups for p in group["params"] if p.grad is not None]


@pytest.mark.parametrize("make, rows", [(classifier, ROWS), (filler, MASKED), (writer, TEXTS)])
@pytest.mark.parametrize("cuts", [(1,), (2, 3), (1, 4)])
def test_accumulation_equals_the_full_batch(tmp_path, make, rows, cuts):
    task = make(tmp_path, **({} if make is writer else NO_DROPOUT))
    model = task.model.double().eval()
    whole, parts = (Keeping(model.parameters(), lr=1.0) for _ in range(2))
    one = take_step(task, model, [batch_of(task, rows)], whole)
    bounds = [0, *cuts, len(rows)]
    batches = [batch_of(task, rows[a:b], a) for a, b in itertools.pairwise(bounds)]
    many = take_step(task, model, batches, parts)
    assert many.loss == pytest.approx(one.loss, abs=1e-12)
    assert (many.targets, many.tokens) == (one.targets, one.tokens)
    assert all((a - b).abs().max() < 1e-12 for a, b in zip(whole.seen, parts.seen, strict=True))
    assert many.grad_norm == pytest.approx(one.grad_norm, abs=1e-12)


def test_the_loss_of_next_words_is_the_plain_one(tmp_path):
    task = writer(tmp_path)
    model = task.model.double().eval()
    batch = batch_of(task, TEXTS)
    logits = model(**batch.inputs).logits[:, :-1]
    words = batch.inputs["input_ids"].masked_fill(batch.inputs["attention_mask"] == 0, -100)[:, 1:]
    plain = F.cross_entropy(logits.flatten(0, 1), words.flatten(), reduction="sum")
    assert float(task.loss(model, batch).detach()) == pytest.approx(float(plain.detach()), abs=1e-10)
    assert batch.targets_count == int((words != -100).sum())


@pytest.mark.parametrize("make, rows", [(filler, MASKED), (writer, TEXTS)])
def test_words_are_scored_only_where_there_is_a_label(tmp_path, make, rows):
    task = make(tmp_path)
    batch, counted = batch_of(task, rows), []
    scores = task.model.word_logits
    task.model.word_logits = lambda rows: counted.append(len(rows)) or scores(rows)
    task.loss(task.model, batch)
    assert counted == [batch.targets_count]


def test_the_gradient_is_clipped(tmp_path):
    task = classifier(tmp_path, **NO_DROPOUT)
    optimizer = Keeping(task.model.parameters(), lr=1.0)
    free = take_step(task, task.model, [batch_of(task, ROWS)], optimizer)
    clipped = take_step(task, task.model, [batch_of(task, ROWS)], optimizer, clip=free.grad_norm / 4)
    assert clipped.grad_norm == pytest.approx(free.grad_norm)  # reported before clipping
    norm = torch.stack([gradient.norm() for gradient in optimizer.seen]).norm()
    assert float(norm) == pytest.approx(free.grad_norm / 4, rel=1e-4)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_stops_before_the_update(tmp_path, bad):
    task = classifier(tmp_path, **NO_DROPOUT)
    music = task.tokenizer.convert_tokens_to_ids("music")
    task.model.get_input_embeddings().weight.data[music] = bad  # only the row "music" reads it
    optimizer = torch.optim.SGD(task.model.parameters(), lr=1.0)
    before = weights(task)
    batches = [batch_of(task, ROWS[:6]), batch_of(task, ROWS[6:], 6)]
    with pytest.raises(TrainingError, match=r"the loss is nan, .* not changed. It comes from line 7$"):
        take_step(task, task.model, batches, optimizer, name_row="line {}".format)
    after = weights(task)
    assert all(torch.equal(before[name].nan_to_num(), after[name].nan_to_num()) for name in before)


@pytest.mark.parametrize("precision", [None, torch.float16])
def test_a_gradient_that_is_not_finite_stops_before_the_update(tmp_path, precision):
    task = classifier(tmp_path, **NO_DROPOUT)

    def objectives(model, batch):
        ((name, (total, count)),) = type(task).objectives(task, model, batch).items()
        total = total + sum(torch.sqrt(total * 0) for example in batch.examples if example.row == 3)  # 0, slope inf
        return {name: Objective(total, count)}

    task.objectives = objectives
    before = weights(task)
    optimizer = torch.optim.SGD(task.model.parameters(), lr=1.0)
    scaler = torch.amp.GradScaler("cpu", enabled=precision is not None)  # seeks a scale first, and there is none
    with pytest.raises(TrainingError, match=r"gradient is not finite .* It comes from row 3$"):
        for _ in range(40):
            take_step(task, task.model, [batch_of(task, ROWS)], optimizer, precision=precision, scaler=scaler)
    assert same(weights(task), before)


def test_fp16_overflow_is_answered_by_the_scaler(tmp_path):
    task = classifier(tmp_path, **NO_DROPOUT)
    before = weights(task)
    optimizer = torch.optim.SGD(task.model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120)
    arguments = {"precision": torch.float16, "scaler": scaler, "clip": 1.0}
    result = take_step(task, task.model, [batch_of(task, ROWS)], optimizer, **arguments)
    assert not result.updated and same(weights(task), before)
    for _ in range(120):
        result = take_step(task, task.model, [batch_of(task, ROWS)], optimizer, **arguments)
        if result.updated:
            break
    assert result.updated and not same(weights(task), before)


class Other(ProcessGroup):
    """What a rank hears when another one has read all rows."""

    def sum(self, values):
        return [value + 1.0 for value in values]

    def sum_gradients(self, parameters):
        for each in parameters:
            each.grad = torch.ones_like(each)


def test_a_rank_without_rows_takes_the_step_of_the_others_in_fp16(tmp_path):
    task = classifier(tmp_path)
    optimizer = torch.optim.SGD(task.model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    before = weights(task)["classifier.bias"]
    result = take_step(
        task, task.model, [], optimizer, precision=torch.float16, scaler=scaler, process_group=Other(size=2)
    )
    assert result.updated
    assert torch.allclose(before - weights(task)["classifier.bias"], torch.full_like(before, 0.1 / 4))


def test_bf16_is_near_float32(tmp_path):
    task = classifier(tmp_path, **NO_DROPOUT)
    results = []
    for precision in (None, torch.bfloat16):
        model = copy.deepcopy(task.model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        results.append(take_step(task, model, [batch_of(task, ROWS)], optimizer, precision=precision).loss)
    assert results[0] != results[1] and results[1] == pytest.approx(results[0], rel=0.02)


def test_a_step_without_targets_changes_nothing(tmp_path):
    task = classifier(tmp_path)
    before = weights(task)
    batch = batch_of(task, [{"text": "so bad"}])
    result = take_step(task, task.model, [batch], torch.optim.SGD(task.model.parameters(), lr=1.0))
    assert not result.updated and result.targets == 0 and same(weights(task), before)


def test_padding_is_counted(tmp_path):
    task = classifier(tmp_path)
    batch = batch_of(task, [ROWS[0], ROWS[7]])
    result = take_step(task, task.model, [batch], torch.optim.SGD(task.model.parameters(), lr=1.0))
    assert (result.tokens, result.positions) == (8 + 3, 16)
