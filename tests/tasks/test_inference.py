"""The stream: answers in the order of the rows, batches within their budget, bounded memory, nothing lost."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

import glassformer
from glassformer import InputError, TextClassification, pipeline
from glassformer.tasks import inference, progress

from .conftest import TEXTS, close

KIND = glassformer.BertForSequenceClassification


@pytest.fixture
def task(checkpoint) -> TextClassification:
    return TextClassification.from_pretrained(checkpoint(KIND))


@pytest.fixture
def batches(task, monkeypatch) -> list[list[int]]:
    """The lengths of the inputs of every batch that the model sees."""
    seen = []
    collate = TextClassification.collate

    def noting(self, examples):
        seen.append([len(example) for example in examples])
        return collate(self, examples)

    monkeypatch.setattr(TextClassification, "collate", noting)
    return seen


def texts(count: int) -> list[str]:
    rng = random.Random(0)
    return [" ".join(rng.choices("the cat sat on a mat so good".split(), k=rng.randrange(1, 30))) for _ in range(count)]


def test_answers_have_the_order_of_the_rows(task):
    rows = texts(60)
    many = list(inference.answers(task, rows, budget=100))
    alone = [next(inference.answers(task, [row])) for row in rows]
    close(many, alone)
    assert len({each["score"] for each in many}) > 50


def test_batches_keep_to_their_budget(task, batches):
    rows = texts(60)
    list(inference.answers(task, rows, budget=100))
    assert all(sum(batch) <= 100 for batch in batches)
    assert sum(map(len, batches)) == 60
    assert len(batches) < 20  # and they are filled
    assert all(batch == sorted(batch, reverse=True) for batch in batches)  # like lengths stand together


def test_an_input_larger_than_the_budget_is_a_batch_of_its_own(task, batches):
    list(inference.answers(task, ["the cat sat", "the"], budget=1))
    assert batches == [[5], [3]]


def test_batch_size(task, batches):
    list(inference.answers(task, texts(10), batch_size=3))
    assert sorted(map(len, batches), reverse=True) == [3, 3, 3, 1]


def test_an_endless_source_is_read_little_by_little(task):
    taken = 0

    def endless():
        nonlocal taken
        for taken in itertools.count(1):
            yield TEXTS[taken % len(TEXTS)]

    answers = inference.answers(task, endless(), budget=50)
    for _ in range(3):
        next(answers)
    assert taken < 20  # the first answers come soon
    most = 0
    for count in range(4, 1500):
        next(answers)
        most = max(most, taken - count)
    assert 50 < most < 50 * inference.AHEAD  # every row has more than one token


def test_generators_are_answered_by_generators(checkpoint):
    pipe = pipeline(model=checkpoint(KIND))
    rows = texts(8)
    stream = pipe(row for row in rows)
    assert iter(stream) is stream
    close(list(stream), pipe(rows))
    close(list(pipe(dict.fromkeys(rows).keys())), pipe(rows))
    assert pipe([]) == []


def test_a_data_set_of_torch_is_answered_by_a_generator(checkpoint):
    class Texts(torch.utils.data.Dataset):
        def __len__(self):
            return len(TEXTS)

        def __getitem__(self, number):
            return TEXTS[number % len(TEXTS)]  # has no end of its own

    pipe = pipeline(model=checkpoint(KIND))
    close(list(pipe(Texts())), pipe(TEXTS))


def test_rows_before_a_bad_one_are_answered(task):
    answers = inference.answers(task, ["the cat", "so good", 3, "the dog"])
    assert [next(answers)["label"] for _ in range(2)]
    with pytest.raises(InputError, match="row 2: text-classification reads rows with text, got int 3"):
        next(answers)


def test_a_fault_of_the_source_is_its_own(task):
    def broken():
        yield "the cat"
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(inference.answers(task, broken()))


def test_a_model_in_training_answers_without_dropout_and_stays_in_training(task):
    expected = list(inference.answers(task, TEXTS))
    task.model.train()
    close(list(inference.answers(task, TEXTS)), expected)
    assert task.model.training
    assert all(module.training for module in task.model.modules())


def test_no_gradient_is_kept(task, monkeypatch):
    modes = []
    forward = TextClassification.forward
    monkeypatch.setattr(
        TextClassification,
        "forward",
        lambda self, batch: modes.append(torch.is_inference_mode_enabled()) or forward(self, batch),
    )
    stream = inference.answers(task, TEXTS)
    next(stream)
    assert modes == [True]
    assert not torch.is_inference_mode_enabled()  # and the caller's mode does not change


# --- progress ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """Every look at the clock takes a second."""
    ticks = itertools.count()
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(ticks)))


def test_progress_in_plain_lines(clock, capsys):
    assert list(progress.show_progress(range(15), 15, True, "work")) == list(range(15))
    shown = capsys.readouterr().err.splitlines()
    assert shown == ["work: 2 of 15 rows, 1 rows/s, 0:00:13 left", "work: 12 of 15 rows, 1 rows/s, 0:00:03 left"]


def test_one_row_has_no_speed(clock, capsys, monkeypatch):
    monkeypatch.setattr(progress, "SHOWN_AFTER", 0.0)
    list(progress.show_progress(range(1), 4999, True, "work"))
    assert capsys.readouterr().err == "work: 1 of 4,999 rows\n"


def test_progress_of_resumed_work(clock, capsys):
    list(progress.show_progress(range(3), 100, True, "work", done=97))
    assert capsys.readouterr().err == "work: 99 of 100 rows, 1 rows/s, 0:00:01 left\n"


def test_rows_of_resumed_work_are_numbered_from_its_position(task):
    with pytest.raises(InputError, match="row 41: "):
        list(inference.answers(task, ["so good", None], first=40))


def test_progress_of_an_endless_source(clock, capsys):
    list(progress.show_progress(iter(range(3)), None, True, "work"))
    assert capsys.readouterr().err == "work: 2 rows, 1 rows/s\n"


@pytest.mark.parametrize("show", [None, False])
def test_no_progress_outside_a_terminal_or_when_unwanted(clock, capsys, show):
    assert list(progress.show_progress(range(15), 15, show, "work")) == list(range(15))
    assert capsys.readouterr().err == ""


def test_a_bar_in_a_terminal(clock, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert list(progress.show_progress(range(40), 40, None, "work")) == list(range(40))
    assert "work" in capsys.readouterr().err
    assert list(progress.show_progress(range(1), 1, None, "work")) == [0]
    assert capsys.readouterr().err == ""  # short work shows nothing


def test_progress_stops_with_the_work(monkeypatch):
    ended = []
    monkeypatch.setattr(progress.ProgressLines, "close", lambda self: ended.append(True))
    stream = progress.show_progress(iter(range(9)), 9, True, "work")
    next(stream)
    stream.close()
    assert ended == [True]


def test_labels_play_no_part_in_answers(task):
    rows = [
        "so good",
        {"text": "so good", "label": "nobody knows it"},
        glassformer.Row({"text": "so good", "label": "7"}, "f", 2),
    ]
    first, second, third = inference.answers(task, rows)
    assert first == second == third
