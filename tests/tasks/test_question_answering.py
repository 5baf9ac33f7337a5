"""question-answering: the recorded answers of transformers 4, windows, no answer, losses."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer import InputError, QuestionAnswering, pipeline
from glassformer.tasks.inference import answers

from .conftest import close, save
from .tiny import SHAPE, fill

KIND = glassformer.BertForQuestionAnswering
RECORDED = json.loads(Path(__file__).with_name("question_answering.json").read_text(encoding="utf-8"))["cases"]
CONTEXT = "John Smith lives in London . the cat sat on the mat ."
LONG = "the cat sat on the mat . " * 10 + CONTEXT


@pytest.fixture
def folder(tmp_path):
    return save(tmp_path / "squad", fill(KIND(glassformer.BertConfig(**SHAPE))))


@pytest.mark.parametrize("case", RECORDED, ids=range(len(RECORDED)))
def test_answers_are_those_of_transformers_4(folder, case):
    ours = pipeline("question-answering", model=folder)(**case["call"])
    is_long = len(case["call"]["context"]) > 150
    for each in ours if isinstance(ours, list) else [ours]:
        assert (each.pop("windows", 1) > 1) == is_long
    close(ours, case["answer"])


def test_the_ways_to_ask(folder):
    pipe = pipeline(model=folder)
    row = {"question": "who sat ?", "context": CONTEXT}
    expected = pipe(**row)
    assert pipe(row) == pipe([row]) == pipe((row["question"], CONTEXT)) == expected
    assert pipe(row["question"], CONTEXT) == expected
    assert pipe([row, row]) == [expected] * 2
    assert list(pipe(row for _ in range(2))) == [expected] * 2
    assert CONTEXT[expected["start"] : expected["end"]] == expected["answer"]


def test_the_windows_cover_the_context(folder):
    task = QuestionAnswering.from_pretrained(folder)
    examples = task.encode(task.read({"question": "who sat ?", "context": LONG}))
    assert len(examples) > 3
    covered = [place for example in examples for place in range(*example.encoded.spans[1])]
    assert sorted(set(covered)) == list(range(len(task.tokenizer.tokenize(LONG))))
    assert all(len(example) <= 40 for example in examples)


def test_a_long_question_is_refused_or_its_truncation_is_reported(folder):
    pipe = pipeline(model=folder)
    question = "who sat on the mat " * 10
    with pytest.raises(InputError, match="the question has 50 tokens, and a window of 40 leaves no space"):
        pipe(question, CONTEXT)
    answer = pipe(question, CONTEXT, max_question_len=3)
    assert answer.pop("truncated") is True
    assert answer == pipe("who sat on", CONTEXT)
    assert "truncated" not in pipe("who sat", CONTEXT, max_question_len=3)


def test_a_question_that_leaves_little_space_is_answered(folder):
    answer = pipeline(model=folder)("who sat on the mat " * 6, CONTEXT)
    assert answer["windows"] > 2
    assert answer["answer"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "", "context": "a"}, "question is empty"),
        ({"question": "a", "context": ""}, "context is empty"),
        ({"question": "a", "context": " \n"}, "has no tokens to read"),
        ({"question": "a"}, "question-answering needs context; the row has question"),
        ({"question": "a", "context": ["b"]}, "context must be a text, got list"),
    ],
)
def test_wrong_rows(folder, row, message):
    with pytest.raises(InputError, match=message):
        pipeline(model=folder)(row)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_k": 0}, "top_k must be"),
        ({"top_k": None}, "top_k must be"),
        ({"max_answer_len": 0}, "max_answer_len must be"),
        (
            {"doc_stride": 39, "max_seq_len": 40},
            "doc_stride must be less than the 35 tokens of a window's context, got 39",
        ),
        ({"handle_impossible_answer": "yes"}, "handle_impossible_answer must be one of True, False"),
    ],
)
def test_wrong_options(folder, options, message):
    with pytest.raises(InputError, match=message):
        pipeline(model=folder)("who ?", LONG, **options)


def test_fewer_answers_than_requested(folder):
    found = pipeline(model=folder)("who ?", "the cat", top_k=50)
    assert [each["answer"] for each in sorted(found, key=lambda each: (each["start"], each["end"]))] == [
        "the",
        "the cat",
        "cat",
    ]


# --- training and evaluation ------------------------------------------------------------------------------------------


def answered(text: str, start: int | None = None, **more) -> dict:
    start = LONG.index(text) if start is None else start
    return {"question": "who ?", "context": LONG, "answers": {"text": [text], "answer_start": [start]}, **more}


ROWS = [answered("John Smith"), answered("London"), answered("the cat sat", 25), answered("", is_impossible=True)]


def test_positions_stand_where_the_answer_stands(folder):
    task = QuestionAnswering.from_pretrained(folder)
    for row in ROWS[:3]:
        wanted = row["answers"]["text"][0]
        examples = task.encode(task.read(row))
        held = [example for example in examples if example.labels["start_positions"]]
        assert 0 < len(held) < len(examples)
        for example in held:
            offsets = example.encoded.offsets()
            first, last = example.labels["start_positions"], example.labels["end_positions"]
            assert LONG[offsets[first][0] : offsets[last][1]] == wanted
        for example in examples:
            if not example.labels["start_positions"]:
                assert example.labels["end_positions"] == 0
    assert {example.labels["end_positions"] for example in task.encode(task.read(ROWS[3]))} == {0}


def test_the_loss_is_the_models_own(folder):
    task = QuestionAnswering.from_pretrained(folder)
    examples = [example for row in ROWS for example in task.encode(task.read(row))]
    alone = [task.collate([example]) for example in examples]  # without padding, which the original lets compete
    expected = sum(task.model(**each.inputs, **each.labels).loss for each in alone)
    batch = task.collate(examples)
    assert batch.targets_count == len(examples) > 10
    torch.testing.assert_close(task.loss(task.model, batch), expected)


def test_answers_that_are_not_quoted(folder):
    task = QuestionAnswering.from_pretrained(folder)
    found = task.encode(task.read(answered("London", -1)))
    right = [each.labels for each in task.encode(task.read(ROWS[1]))]
    assert [each.labels for each in found] == right
    for slipped in (LONG.find("London") - 2, LONG.find("London") + 1):
        assert [each.labels for each in task.encode(task.read(answered("London", slipped)))] == right
    for wrong in (answered("London", 3), answered("Paris", -1)):
        with pytest.raises(InputError, match=r"the answer '\w+' is not at"):
            task.encode(task.read(wrong))


@pytest.mark.parametrize(
    ("answers", "got"),
    [
        ("John Smith", "str 'John Smith'"),  # what a table holds
        ([{"text": "John Smith", "answer_start": 0}], "list "),
        ({"text": ["John Smith"]}, "dict "),
        ({"text": "John Smith", "answer_start": 0}, "dict "),
        ({"text": ["John Smith"], "answer_start": ["0"]}, "dict "),
        ({"answer": ["John Smith"]}, "dict "),
    ],
)
def test_answers_of_another_form_are_reported(folder, answers, got):
    task = QuestionAnswering.from_pretrained(folder)
    with pytest.raises(InputError, match=rf"answers must be .*, got {got}"):
        task.read({"question": "who ?", "context": CONTEXT, "answers": answers})
    with pytest.raises(InputError, match="is_impossible must be true or false, got str 'False'"):
        task.read({"question": "who ?", "context": CONTEXT, "is_impossible": "False"})


def test_questions_that_always_count_as_wrong_are_reported(folder, caplog):
    task = QuestionAnswering.from_pretrained(folder)
    assert [task.reference(row) for row in ROWS[:3]] and "no answer" not in caplog.text
    assert [task.reference(row) for row in ROWS[3:] * 2] == [[], []]
    assert caplog.text.count("all such count as wrong; pass handle_impossible_answer=True") == 1


def test_evaluation(folder):
    task = QuestionAnswering.from_pretrained(folder, handle_impossible_answer=True)
    predicted = list(answers(task, ROWS, finish=task.predict))
    assert [each.answer for each in predicted] == [each["answer"] for each in answers(task, ROWS)]
    assert [task.reference(row) for row in ROWS] == [["John Smith"], ["London"], ["the cat sat"], []]
    found = task.compute_metrics(predicted, [task.reference(row) for row in ROWS])
    without = task.compute_metrics(predicted[:3], [task.reference(row) for row in ROWS[:3]])
    assert without.keys() == set(task.metric_names)
    assert (found["HasAns_total"], found["NoAns_total"]) == (3, 1)
    assert found["exact_match"] == (3 * found["HasAns_exact"] + found["NoAns_exact"]) / 4 <= found["best_exact"]


def test_the_odds_say_when_no_answer_is_given(folder):
    sure, unsure = (QuestionAnswering.from_pretrained(folder, handle_impossible_answer=each) for each in (False, True))
    for row in [*ROWS[:2], {"question": "a ?", "context": "the cat"}]:
        (first,), (second,) = (list(answers(task, [row], finish=task.predict)) for task in (sure, unsure))
        best, *others = next(answers(unsure.with_options(top_k=10**6), [row]))
        null = next(each for each in [best, *others] if not each["answer"])
        span = next(each for each in [best, *others] if each["answer"])
        assert first.answer == first.span == second.span == span["answer"]
        assert math.exp(second.no_answer_odds) == pytest.approx(null["score"] / span["score"], rel=1e-5)
        assert (second.answer == "") == (second.no_answer_odds > 0)


def test_real_questions_fit_their_contexts(folder, shared):
    """Every answer of a real file is found again at its tokens."""
    tokenizer = glassformer.BertTokenizer.from_pretrained(shared / "vocab/bert-base-chinese")
    task = QuestionAnswering(KIND(glassformer.BertConfig(**{**SHAPE, "max_position_embeddings": 512})), tokenizer)
    rows = 0
    for row in glassformer.read_rows(shared / "data/xquad/xquad.zh.json"):
        row = task.read(row)
        wanted = row["answers"]["text"][0]
        for example in task.encode(row):
            first, last = example.labels["start_positions"], example.labels["end_positions"]
            if first:
                offsets = example.encoded.offsets()
                assert wanted in row["context"][offsets[first][0] : offsets[last][1]]
                rows += 1
                break
    assert rows >= 1180
