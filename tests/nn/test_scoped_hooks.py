"""What one thread or asyncio task captures and patches is not met by others that run the same model."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import glassformer
from glassformer.models.base.evaluation_mode import evaluation_mode
from glassformer.nn.prepared import prepared
from glassformer.tasks import parallel

from ..models.architectures import tiny_bert, tokens


@pytest.fixture
def model():
    torch.manual_seed(0)
    return glassformer.BertModel(tiny_bert()).eval()


def run(model, ids) -> torch.Tensor:
    with torch.inference_mode():
        return model(ids).last_hidden_state


def run_loop(main):
    """What a coroutine returns, in a thread of its own: the tests of pages leave a loop running in this one."""
    return parallel.in_new_thread(lambda: asyncio.run(main()))


@pytest.mark.parametrize(
    "patch", ({"heads": {0: [1]}}, {"skip": [1]}, {"modules": {"encoder.layer.1.output": torch.zeros(1, 7, 48)}})
)
def test_a_patch_of_one_thread_is_not_met_by_another(model, patch):
    ids = tokens(1, 7)
    plain = run(model, ids)
    with ThreadPoolExecutor(1) as other, model.patched(**patch):
        assert not torch.equal(run(model, ids), plain)
        assert torch.equal(other.submit(run, model, ids).result(), plain)


def test_a_capture_is_not_filled_by_another_thread(model):
    mine, theirs = tokens(1, 7), tokens(2, 4)
    with ThreadPoolExecutor(1) as other, model.capture(True, hidden=True, modules="*.dense") as captured:
        run(model, mine)
        before = {name: captured[name].clone() for name in captured}
        hidden = {i: states.clone() for i, states in captured.hidden.items()}
        other.submit(run, model, theirs).result()
    assert before and all(torch.equal(captured[name], value) for name, value in before.items())
    assert all(torch.equal(captured.hidden[i], states) for i, states in hidden.items())


def test_a_model_that_another_thread_observes_still_runs_on_prepared_weights(model):
    def is_prepared():
        with torch.no_grad():
            return prepared(model) is not model

    with ThreadPoolExecutor(1) as other, model.patched(skip=[0]), model.capture(True):
        assert not is_prepared()
        assert other.submit(is_prepared).result()


def test_asyncio_tasks_do_not_meet_each_others_patches(model):
    ids = tokens(1, 7)
    plain = run(model, ids)
    with model.patched(skip=[0]):
        patched = run(model, ids)

    async def one(is_patched: bool) -> torch.Tensor:
        if not is_patched:
            await asyncio.sleep(0)
            return run(model, ids)
        with model.patched(skip=[0]):
            await asyncio.sleep(0.01)  # the others run now
            return await asyncio.to_thread(run, model, ids)  # a thread that this task starts is part of it

    async def together():
        return await asyncio.gather(*(one(i % 2 == 0) for i in range(6)))

    for i, out in enumerate(run_loop(together)):
        assert torch.equal(out, patched if i % 2 == 0 else plain)


def test_a_task_that_outlives_a_capture_no_longer_fills_it(model):
    async def later():
        await asyncio.sleep(0.01)
        return run(model, tokens(1, 5))

    async def both():
        with model.capture(True) as captured:
            task = asyncio.create_task(later())
        await task
        return captured

    assert not run_loop(both).attention


def test_scopes_can_close_in_any_order_and_in_another_context(model):
    one, two = model.capture(True), model.capture(True)
    first, second = one.__enter__(), two.__enter__()
    one.__exit__(None, None, None)
    run(model, tokens(1, 5))
    assert not first.attention and second.attention
    with ThreadPoolExecutor(1) as other:
        other.submit(two.__exit__, None, None, None).result()
    second.attention.clear()
    run(model, tokens(1, 5))
    assert not second.attention
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_evaluation_mode_ends_with_the_last_thread(model):
    model.train()
    model.embeddings.eval()
    first_is_out, second_is_in = threading.Event(), threading.Event()

    def second():
        with evaluation_mode(model):
            second_is_in.set()
            first_is_out.wait(10)
            return model.training

    with ThreadPoolExecutor(1) as other:
        with evaluation_mode(model):
            result = other.submit(second)
            second_is_in.wait(10)
        first_is_out.set()
        assert result.result() is False
    assert model.training and model.encoder.training
    assert not model.embeddings.training  # as it was


def test_workers_leave_the_thread_count_of_new_threads_alone():
    own, default = torch.get_num_threads(), parallel.in_new_thread(torch.get_num_threads)
    parallel._pools.pop(6, None)
    try:
        torch.set_num_threads(6)  # of this thread, and of new ones
        parallel.in_new_thread(lambda: torch.set_num_threads(2))  # of new ones only
        assert list(parallel.parallel_map(abs, range(6))) == list(range(6))
        assert torch.get_num_threads() == 6
        assert parallel.in_new_thread(torch.get_num_threads) == 2
    finally:
        torch.set_num_threads(default)
        torch.set_num_threads(own)
