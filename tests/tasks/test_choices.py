"""next-sentence, multiple-choice and zero-shot-classification: answers by hand and by transformers, losses."""

from __future__ import annotations

import pytest
import torch

import glassformer
from glassformer import InputError, MultipleChoice, NextSentence, pipeline
from glassformer.tasks.inference import answers

from .conftest import TEXTS, close, theirs

NEXT, CHOICE = glassformer.BertForNextSentencePrediction, glassformer.BertForMultipleChoice
ENTAILMENT = {"id2label": {0: "contradiction", 1: "neutral", 2: "entailment"}}

# --- next-sentence ----------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_next_sentence_by_hand(checkpoint):
    folder = checkpoint(NEXT)
    pipe = pipeline("next-sentence", model=folder)
    model, tokenizer = NEXT.from_pretrained(folder), glassformer.BertTokenizer.from_pretrained(folder)
    for first, second in [(TEXTS[0], TEXTS[1]), (TEXTS[2], TEXTS[3])]:
        scores = model(**tokenizer(first, second, return_tensors="pt")).logits.softmax(-1)[0]
        expected = {"label": ("IsNext", "NotNext")[scores.argmax()], "score": scores.max().item()}
        for answer in (
            pipe(first, second),
            pipe((first, second)),
            pipe(text=first, text_pair=second),
            pipe([{"text": first, "text_pair": second}])[0],
        ):
            close(answer, expected)


def test_next_sentence_needs_two_texts(checkpoint):
    pipe = pipeline(model=checkpoint(NEXT))
    with pytest.raises(InputError, match="next-sentence needs text_pair; the row has text"):
        pipe("the cat")
    with pytest.raises(InputError, match="a text has 63 tokens and the model takes 40"):
        pipe("the cat " * 15, "the cat " * 15)
    assert pipe("the cat " * 15, "the cat " * 15, truncation=True)["truncated"] is True


def test_targets_of_next_sentence(checkpoint):
    task = NextSentence.from_pretrained(checkpoint(NEXT))
    rows = [
        {"text": TEXTS[0], "text_pair": TEXTS[1], "label": "NotNext"},
        {"text": TEXTS[2], "text_pair": TEXTS[3], "label": "0"},
    ]
    batch = task.collate([example for row in rows for example in task.encode(task.read(row))])
    assert (batch.labels["labels"].tolist(), batch.targets_count) == ([1, 0], 2)
    expected = task.model(**batch.inputs, **batch.labels).loss
    torch.testing.assert_close(task.loss(task.model, batch) / 2, expected)
    predicted = list(answers(task, rows, finish=task.predict))
    assert tuple(task.compute_metrics(predicted, [task.reference(row) for row in rows])) == task.metric_names
    with pytest.raises(InputError, match="label must be 0 or 'IsNext'"):
        task.encode({"text": "a", "text_pair": "b", "label": "perhaps"})


# --- multiple-choice --------------------------------------------------------------------------------------------------

ROWS = [
    {"prompt": "the cat sat on", "choices": ["the mat .", "politics", "it is so very good today !"], "label": 2},
    {"prompt": "today is", "choices": ["bad", "good"], "label": "bad"},
]


@torch.no_grad()
def test_multiple_choice_by_hand(checkpoint):
    folder = checkpoint(CHOICE)
    pipe = pipeline("multiple-choice", model=folder)
    model, tokenizer = CHOICE.from_pretrained(folder), glassformer.BertTokenizer.from_pretrained(folder)
    expected = []
    for row in ROWS:
        count = len(row["choices"])
        batch = tokenizer([row["prompt"]] * count, row["choices"], padding=True, return_tensors="pt")
        scores = model(**{name: tensor[None] for name, tensor in batch.items()}).logits.softmax(-1)[0]
        best = int(scores.argmax())
        expected.append(
            {"answer": row["choices"][best], "index": best, "score": scores[best].item(), "scores": scores.tolist()}
        )
    plain = [{name: row[name] for name in ("prompt", "choices")} for row in ROWS]
    close(pipe(plain), expected)
    close(pipe(**plain[0]), expected[0])
    close(pipe(plain[0]["prompt"], plain[0]["choices"]), expected[0])
    close(pipe(tuple(plain[0].values())), expected[0])
    by_column = {name: [row[name] for row in plain] for name in plain[0]}
    close(pipe(**by_column), expected)
    close(pipe(prompt=[plain[0]["prompt"]] * 2, choices=plain[0]["choices"]), [expected[0]] * 2)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "a", "choices": []}, "choices must be a list of one text or more, got list"),
        ({"prompt": "a", "choices": "b"}, "choices must be a list of one text or more, got str"),
        ({"prompt": "a"}, "multiple-choice needs choices; the row has prompt"),
        ({"prompt": "a", "choices": ["b", "c"], "label": 2}, "one of the 2 choices or its number from 0, got 2"),
    ],
)
def test_wrong_rows_of_multiple_choice(checkpoint, row, message):
    task = MultipleChoice.from_pretrained(checkpoint(CHOICE))
    with pytest.raises(InputError, match=message):
        task.encode(task.read(row))


def test_no_choices_are_refused(checkpoint):
    with pytest.raises(InputError, match="choices must be a list of one text or more, got list"):
        pipeline(model=checkpoint(CHOICE))("a", [])


def test_targets_of_multiple_choice(checkpoint):
    task = MultipleChoice.from_pretrained(checkpoint(CHOICE))
    alone = [task.collate(task.encode(task.read(row))) for row in ROWS]
    expected = sum(
        task.model(**{name: tensor.transpose(0, 1) for name, tensor in batch.inputs.items()}, labels=right).loss
        for batch, right in zip(alone, torch.tensor([[2], [0]]), strict=True)
    )
    batch = task.collate([example for row in ROWS for example in task.encode(task.read(row))])
    assert batch.targets_count == 2
    torch.testing.assert_close(task.loss(task.model, batch), expected)
    torch.testing.assert_close(sum(task.loss(task.model, each) for each in alone), expected)
    predicted = list(answers(task, ROWS, finish=task.predict))
    right = [task.reference(row) for row in ROWS]
    assert right == [2, 0]
    assert task.compute_metrics([2, 1], right) == {"accuracy": 0.5}
    assert len(predicted) == 2
    with pytest.raises(InputError, match="the examples of a row must be adjacent"):
        task.collate(batch.examples[::-1])


def test_a_truncated_prompt_is_reported(checkpoint):
    pipe = pipeline(model=checkpoint(CHOICE))
    row = {"prompt": "the cat " * 20, "choices": ["sat", "sat on"]}
    with pytest.raises(InputError, match="pass truncation=True"):
        pipe(row)
    assert pipe(row, truncation="only_first")["truncated"] is True


# --- zero-shot-classification -----------------------------------------------------------------------------------------

SEQUENCE = glassformer.BertForSequenceClassification
TOPICS = ["sports", "music", "politics"]


@pytest.mark.parametrize(
    "options",
    [
        {"candidate_labels": TOPICS},
        {"candidate_labels": "sports, music"},
        {"candidate_labels": ["sports"]},
        {"candidate_labels": TOPICS, "multi_label": True},
        {"candidate_labels": TOPICS, "hypothesis_template": "it is {} !"},
    ],
)
@pytest.mark.parametrize("labels", [ENTAILMENT, {"id2label": {0: "entailment", 1: "neutral", 2: "contradiction"}}])
@pytest.mark.parametrize("given", [TEXTS[1], TEXTS[:3], TEXTS[:1]])
def test_zero_shot_is_that_of_transformers(checkpoint, given, labels, options):
    folder = checkpoint(SEQUENCE, **labels)
    ours, reference = (make("zero-shot-classification", folder) for make in (pipeline, theirs))
    close(ours(given, **options), reference(given, **options))


def test_the_labels_may_come_second(checkpoint):
    pipe = pipeline("zero-shot-classification", model=checkpoint(SEQUENCE, **ENTAILMENT), candidate_labels=TOPICS)
    assert pipe(TEXTS[0]) == pipe(TEXTS[0], TOPICS) == pipe(sequences=TEXTS[0])


def test_a_long_text_is_truncated_and_that_is_reported(checkpoint):
    folder = checkpoint(SEQUENCE, **ENTAILMENT)
    ours, reference = (make("zero-shot-classification", folder) for make in (pipeline, theirs))
    long = "the cat sat on the mat . " * 10
    answer = ours(long, TOPICS)
    assert answer.pop("truncated") is True
    close(answer, reference(long, TOPICS))
    with pytest.raises(InputError, match="pass truncation=True"):
        ours(long, TOPICS, truncation=False)


def test_a_named_contradiction_counts(checkpoint):
    """transformers takes label 0 for it, whatever that is."""
    folder = checkpoint(SEQUENCE, id2label={0: "neutral", 1: "entailment", 2: "contradiction"})
    pipe = pipeline("zero-shot-classification", model=folder)
    with torch.no_grad():
        encoded = pipe.tokenizer(TEXTS[0], "This example is sports.", return_tensors="pt")
        expected = pipe.model(**encoded).logits[0, [2, 1]].softmax(-1)[1].item()
    assert pipe(TEXTS[0], ["sports"])["scores"] == [pytest.approx(expected, abs=1e-5)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs candidate_labels, the labels to choose from: candidate_labels='sports,politics'"),
        ({"candidate_labels": []}, "candidate_labels must be a list of one text or more"),
        ({"candidate_labels": ","}, "candidate_labels must be"),
        ({"candidate_labels": 3}, "candidate_labels must be"),
        ({"candidate_labels": TOPICS, "hypothesis_template": "nothing"}, "must hold {} where the label goes"),
        ({"candidate_labels": TOPICS, "hypothesis_template": "{a}"}, "must hold {} where the label goes"),
        ({"candidate_labels": TOPICS, "hypothesis_template": 3}, "must hold {} where the label goes"),
    ],
)
def test_wrong_options(checkpoint, options, message):
    with pytest.raises(InputError, match=message):
        pipeline("zero-shot-classification", model=checkpoint(SEQUENCE, **ENTAILMENT))("a", **options)


def test_a_model_without_entailment_is_refused_when_the_pipeline_is_made(checkpoint):
    with pytest.raises(InputError, match="must begin with 'entail', and they are LABEL_0, LABEL_1"):
        pipeline("zero-shot-classification", model=checkpoint(SEQUENCE))


def test_an_untrained_head_is_trained_with_pairs(checkpoint):
    folder = checkpoint(glassformer.BertModel, **ENTAILMENT)
    with pytest.raises(InputError, match="train the model with text-classification on rows with text, text_pair"):
        pipeline("zero-shot-classification", model=folder)
