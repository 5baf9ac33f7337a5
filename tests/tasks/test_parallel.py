"""Batches side by side: the same bits in the same order, and nothing left behind in the process."""

from __future__ import annotations

import threading

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import glassformer
from glassformer import FeatureExtraction, TextClassification, TextGeneration
from glassformer.nn.linear import Linear
from glassformer.tasks import inference
from glassformer.tasks.parallel import parallel_map

from .test_inference import texts

CORES, THREADS = 6, 3


@pytest.fixture(autouse=True)
def _cores():
    before = torch.get_num_threads()
    torch.set_num_threads(CORES)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def task(checkpoint) -> FeatureExtraction:
    return FeatureExtraction.from_pretrained(checkpoint(glassformer.BertModel), return_tensors=True)


@pytest.fixture
def readers(monkeypatch) -> list[int]:
    """The thread that read each batch, and that none of them waits for a large look-ahead."""
    seen = []
    plain = inference.run
    monkeypatch.setattr(inference, "run", lambda *given: seen.append(threading.get_ident()) or plain(*given))
    monkeypatch.setattr(inference, "PREPARED_FROM", 0)
    return seen


def vectors(task, rows) -> list[torch.Tensor]:
    return list(inference.answers(task, rows, budget=40))


def plainly(task, rows, monkeypatch) -> list[torch.Tensor]:
    with monkeypatch.context() as patch:
        patch.setattr(inference, "PREPARED_FROM", float("inf"))
        return vectors(task, rows)


def test_results_have_the_order_of_the_items():
    meeting = threading.Barrier(THREADS)  # opens only when all are at work

    def work(item):
        meeting.wait(timeout=60)
        return item, threading.get_ident(), torch.get_num_threads()

    found = list(parallel_map(work, range(2 * THREADS)))
    assert [item for item, _, _ in found] == list(range(2 * THREADS))
    cores = {thread: count for _, thread, count in found}
    assert threading.get_ident() not in cores
    assert list(cores.values()) == [CORES // THREADS] * THREADS


def test_threads_that_begin_later_have_all_cores_again():
    list(parallel_map(str, range(9)))
    later = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert [*later, torch.get_num_threads()] == [CORES, CORES]


def test_callers_at_once_share_the_threads_and_change_nothing_for_others():
    seen, fresh, going = [], [], threading.Event()

    def work(item):
        threading.Event().wait(0.005)
        return item, threading.get_ident()

    def call():
        seen.append(list(parallel_map(work, range(40))))

    def look():
        while not going.is_set():
            one = threading.Thread(target=lambda: fresh.append(torch.get_num_threads()))
            one.start()
            one.join()

    list(parallel_map(work, range(9)))  # the workers are there
    callers, looker = [threading.Thread(target=call) for _ in range(4)], threading.Thread(target=look)
    for thread in (*callers, looker):
        thread.start()
    for thread in callers:
        thread.join()
    going.set()
    looker.join()
    assert [[item for item, _ in found] for found in seen] == [list(range(40))] * 4
    assert len({thread for found in seen for _, thread in found}) <= THREADS
    assert set(fresh) == {CORES}


def test_work_inside_of_work_waits_for_nobody():
    inner = list(parallel_map(lambda _: list(parallel_map(abs, range(-9, 0))), range(9)))
    assert inner == [list(range(9, 0, -1))] * 9


def test_a_fault_ends_the_work():
    done = []

    def work(item):
        done.append(item)
        if item == 0:
            raise OSError("gone")
        threading.Event().wait(0.01)

    with pytest.raises(OSError, match="gone"):
        list(parallel_map(work, range(1000)))
    found = parallel_map(work, range(1, 1000))
    next(found)
    found.close()  # as a fault of who reads them does
    assert len(done) < 500
    assert torch.get_num_threads() == CORES


@pytest.mark.parametrize(
    "binding",
    [
        lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        lambda: torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
        lambda: FlopCounterMode(display=False),
        lambda: torch.device("cpu"),
    ],
    ids=["autocast", "profiler", "mode of operators", "mode of functions"],
)
def test_what_holds_for_one_thread_keeps_the_work_there(binding):
    with binding():
        assert set(parallel_map(lambda _: threading.get_ident(), range(9))) == {threading.get_ident()}
    assert threading.get_ident() not in set(parallel_map(lambda _: threading.get_ident(), range(9)))


def test_one_core_and_few_batches_need_no_threads():
    assert set(parallel_map(lambda _: threading.get_ident(), range(THREADS - 1))) == {threading.get_ident()}
    torch.set_num_threads(1)
    assert set(parallel_map(lambda _: threading.get_ident(), range(9))) == {threading.get_ident()}


# --- in the stream of answers -----------------------------------------------------------------------------------------


def test_the_same_bits_as_one_after_the_other(task, readers, monkeypatch):
    rows = texts(60)
    fast = vectors(task, rows)
    assert len(set(readers) - {threading.get_ident()}) > 1
    monkeypatch.setattr(inference, "parallel_map", map)
    one_by_one = vectors(task, rows)
    assert all(map(torch.equal, fast, one_by_one))
    plain = plainly(task, rows, monkeypatch)
    for a, b in zip(fast, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6)  # without packed weights


def test_weights_are_prepared_for_many_tokens(task, monkeypatch):
    def packed(model):
        return [module.packed is not None for module in model.modules() if isinstance(module, Linear)]

    seen = []
    forward = FeatureExtraction.forward
    monkeypatch.setattr(
        FeatureExtraction,
        "forward",
        lambda self, batch: seen.append(packed(self.model)) or forward(self, batch),
    )
    stream = inference.answers(task, texts(60), budget=40)
    next(stream)
    assert not any(map(any, seen))  # for few tokens it does not pay
    monkeypatch.setattr(inference, "PREPARED_FROM", 0)
    list(stream)
    assert any(seen[-1])
    assert not any(packed(task.model))


def test_weights_that_change_between_answers_count(task, readers, monkeypatch):
    rows = texts(60)
    stream = inference.answers(task, rows, budget=40)
    next(stream)
    for parameter in task.model.encoder.parameters():
        parameter.data.mul_(1.5)  # unseen by torch's own count of changes
    changed = list(stream)[-1]
    expected = plainly(task, rows, monkeypatch)[-1]
    torch.testing.assert_close(changed, expected, rtol=0, atol=1e-5)


def test_a_hook_sees_batches_one_after_the_other(task, readers):
    task.model.encoder.layer[0].register_forward_hook(lambda *_: None)
    vectors(task, texts(60))
    assert set(readers) == {threading.get_ident()}


def test_random_sampling_runs_batches_in_sequence(task, readers):
    config = glassformer.GPT2Config(
        vocab_size=len(task.tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    writer = TextGeneration(glassformer.GPT2LMHeadModel(config), task.tokenizer, max_new_tokens=2, do_sample=True)
    list(inference.answers(writer, texts(30), budget=40))
    assert len(readers) >= THREADS
    assert set(readers) == {threading.get_ident()}


def test_a_model_in_training_stays_in_training_after_an_error(checkpoint, readers, monkeypatch):
    task = TextClassification.from_pretrained(checkpoint(glassformer.BertForSequenceClassification))
    task.model.train()
    modes = []

    def forward(self, batch):
        modes.append(self.model.training)
        raise OSError("gone")

    monkeypatch.setattr(TextClassification, "forward", forward)
    with pytest.raises(OSError, match="gone"):
        list(inference.answers(task, texts(60), budget=40))
    assert not any(modes)
    assert task.model.training
