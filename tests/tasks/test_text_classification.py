"""text-classification: transformers' answers, one, several and a number; losses equal those of the models."""

from __future__ import annotations

import pytest
import torch

import glassformer
from glassformer import InputError, pipeline
from glassformer.tasks.metrics import correlation

from .conftest import TEXTS, close, theirs

KIND = glassformer.BertForSequenceClassification
LABELS = {"id2label": {0: "NEGATIVE", 1: "NEUTRAL", 2: "POSITIVE"}}
GRADES = {"id2label": {0: "1", 1: "2", 2: "4"}}
PAIRS = [{"text": TEXTS[0], "text_pair": TEXTS[1]}, {"text": TEXTS[2], "text_pair": TEXTS[3]}]


@pytest.fixture
def pipes(checkpoint):
    def make(task="text-classification", fields=LABELS, **options):
        folder = checkpoint(KIND, **fields)
        return pipeline(task, model=folder, **options), theirs("text-classification", folder, **options)

    return make


@pytest.mark.parametrize("options", [{}, {"top_k": 1}, {"top_k": 2}, {"top_k": None}, {"function_to_apply": "none"}])
@pytest.mark.parametrize(
    "given", [TEXTS[0], TEXTS, TEXTS[:1], PAIRS[0], PAIRS], ids=["text", "texts", "one", "pair", "pairs"]
)
def test_answers_are_those_of_transformers(pipes, given, options):
    ours, reference = pipes("sentiment-analysis")
    close(ours(given, **options), reference(given, **options))


@pytest.mark.parametrize("options", [{"top_k": None}, {"top_k": 2}, {"function_to_apply": "sigmoid"}])
def test_options_of_the_pipeline(pipes, options):
    ours, reference = pipes(**options)
    close(ours(TEXTS[0]), reference(TEXTS[0]))
    close(ours(TEXTS), reference(TEXTS))


@pytest.mark.parametrize(
    "fields",
    [
        {"num_labels": 1},
        {"num_labels": 1, "problem_type": "regression"},
        {**LABELS, "problem_type": "multi_label_classification"},
        {**LABELS, "problem_type": "regression"},
    ],
)
def test_other_problems(pipes, fields):
    ours, reference = pipes(fields=fields)
    close(ours(TEXTS, top_k=None), reference(TEXTS, top_k=None))


def test_a_pair_may_be_a_tuple(pipes):
    ours, _ = pipes()
    assert ours((TEXTS[0], TEXTS[1])) == ours(PAIRS[0])
    assert ours([(TEXTS[0], TEXTS[1])]) == [ours(PAIRS[0])]


def test_long_texts_are_refused_or_their_truncation_is_reported(pipes):
    ours, reference = pipes()
    long = "the cat sat on the mat . " * 8
    with pytest.raises(InputError, match="a text has 58 tokens and the model takes 40; pass truncation=True"):
        ours(long)
    (answer,) = ours(long, truncation=True)
    assert answer.pop("truncated") is True
    close([answer], reference(long, truncation=True))
    assert "truncated" not in ours("the cat", truncation=True)[0]
    assert ours("cat " * 38)  # with [CLS] and [SEP] exactly as long as the model
    with pytest.raises(InputError, match="a text has 41 tokens and the model takes 40"):
        ours("cat " * 39)
    with pytest.raises(InputError, match="58 tokens and the model takes 8"):
        ours(long, max_length=8)
    assert ours(long, truncation=True, max_length=8)[0]["score"] == ours("the cat sat on the mat")[0]["score"]


@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        (LABELS, ["NEGATIVE", 2, "1"]),
        ({"num_labels": 1}, [0.5, "2.5", 1]),
        ({**LABELS, "problem_type": "multi_label_classification"}, [["NEGATIVE"], [], [1, 2]]),
    ],
)
def test_the_loss_is_the_models_own(checkpoint, fields, labels):
    task = glassformer.TextClassification.from_pretrained(checkpoint(KIND, **fields))
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, labels, strict=False)]
    batch = task.collate([example for row in rows for example in task.encode(task.read(row))])
    expected = task.model(**batch.inputs, **batch.labels).loss
    summed = task.loss(task.model, batch)
    torch.testing.assert_close(summed / batch.targets_count, expected)
    torch.testing.assert_close(task.loss(task.model, batch, reduction="mean"), expected)
    alone = [task.collate(task.encode(row)) for row in rows]
    torch.testing.assert_close(sum(task.loss(task.model, each) for each in alone), summed)
    assert sum(each.targets_count for each in alone) == batch.targets_count


@pytest.mark.parametrize(
    ("fields", "label", "message"),
    [
        (LABELS, "POSITIV", "label 'POSITIV' is not one of NEGATIVE, NEUTRAL, POSITIVE, did you mean 'POSITIVE'"),
        (LABELS, 3, "label 3 is not one of"),
        (GRADES, 0, "label 0 is not one of 1, 2, 4"),  # and not the first of them
        (GRADES, "3", "label '3' is not one of 1, 2, 4"),
        (LABELS, ["POSITIVE"], "chooses one label, got list .*problem_type='multi_label_classification'"),
        ({"num_labels": 1}, "much", "label must be a finite number, got str 'much'"),
        ({"num_labels": 1}, "nan", "label must be a finite number, got str 'nan'"),
        ({**LABELS, "problem_type": "regression"}, [1, 2], "label must be 3 finite numbers"),
        ({**LABELS, "problem_type": "multi_label_classification"}, "POSITIVE", "holds them in a list"),
    ],
)
def test_wrong_labels(checkpoint, fields, label, message):
    task = glassformer.TextClassification.from_pretrained(checkpoint(KIND, **fields))
    with pytest.raises(InputError, match=message):
        task.encode({"text": "a", "label": label})


def test_invalid_labels_are_refused(checkpoint):
    task = glassformer.TextClassification.from_pretrained(checkpoint(KIND, **LABELS))
    with pytest.raises(InputError, match="text-classification is trained on rows with label"):
        task.loss(task.model, task.collate(task.encode({"text": "a"})))
    with pytest.raises(InputError, match="reduction must be one of 'sum', 'mean', got 'none'"):
        task.loss(task.model, task.collate(task.encode({"text": "a", "label": 1})), reduction="none")
    features = glassformer.FeatureExtraction(task.model, task.tokenizer)
    with pytest.raises(InputError, match="feature-extraction is not trained"):
        features.loss(task.model, features.collate(features.encode({"text": "a"})))


def test_a_model_trained_on_numbers_answers_with_them(checkpoint, tmp_path):
    task = glassformer.TextClassification.from_pretrained(checkpoint(KIND, num_labels=1))
    batch = task.collate(task.encode({"text": "the cat", "label": 4.5}))
    task.loss(task.model, batch)
    assert task.model.config.problem_type is None  # evaluation does not set it
    task.loss(task.model.train(), batch).backward()
    task.model.save_pretrained(tmp_path)
    pipe = pipeline("text-classification", model=tmp_path, tokenizer=task.tokenizer)
    with torch.no_grad():
        expected = pipe.model(**pipe.tokenizer("the cat", return_tensors="pt")).logits.item()
    assert pipe("the cat")[0]["score"] == pytest.approx(expected, abs=1e-6)


def test_a_model_trained_on_several_labels_by_hand_answers_with_them(checkpoint, tmp_path):
    folder = checkpoint(KIND, **LABELS)
    model, tokenizer = KIND.from_pretrained(folder), glassformer.AutoTokenizer.from_pretrained(folder)
    batch, labels = tokenizer("the cat", return_tensors="pt"), torch.tensor([[1.0, 0.0, 1.0]])
    expected = model(**batch, labels=labels).logits.sigmoid()[0]
    assert model.config.problem_type is None  # evaluation does not set it
    model.train()(**batch, labels=labels).loss.backward()
    model.save_pretrained(tmp_path)
    answer = pipeline("text-classification", model=tmp_path, tokenizer=tokenizer, top_k=None)(["the cat"])[0]
    assert sorted(each["score"] for each in answer) == pytest.approx(sorted(expected.tolist()), abs=1e-6)


def test_evaluation(checkpoint):
    task = glassformer.TextClassification.from_pretrained(checkpoint(KIND, **LABELS))
    rows = [{"text": text, "label": i % 3} for i, text in enumerate(TEXTS)]
    from glassformer.tasks.inference import answers

    predicted = list(answers(task, rows, finish=task.predict))
    assert predicted == [task.label_ids[each["label"]] for each in answers(task, rows)]
    found = task.compute_metrics(predicted, [task.reference(row) for row in rows])
    assert tuple(found) == task.metric_names
    assert found["accuracy"] == sum(a == i % 3 for i, a in enumerate(predicted)) / len(rows)


def test_gpt2_without_a_padding_token(tmp_path):
    from ..models.architectures import tiny_gpt2
    from .conftest import VOCAB, save

    torch.manual_seed(0)
    model = glassformer.GPT2ForSequenceClassification(tiny_gpt2(vocab_size=len(VOCAB), pad_token_id=None)).eval()
    pipe = pipeline(model=save(tmp_path / "gpt2", model))
    texts = ["the cat", "the dog", "the cat sat", "so good !"]
    close(pipe(texts, top_k=None), [pipe(text, top_k=None) for text in texts])


def test_several_numbers_are_evaluated_one_by_one(checkpoint):
    several = {**LABELS, "problem_type": "regression"}
    task = glassformer.TextClassification.from_pretrained(checkpoint(KIND, **several))
    mine = [[1.0, 2.0, 5.0], [2.0, 1.0, 5.5], [3.0, 4.0, 5.1]]
    right = [[1.0, 3.0, 0.0], [2.0, 2.0, 1.0], [3.0, 1.0, 2.0]]
    each = [correlation(*columns) for columns in zip(zip(*mine, strict=True), zip(*right, strict=True), strict=True)]
    found = task.compute_metrics(mine, right)
    assert found == {name: pytest.approx(sum(one[name] for one in each) / 3) for name in ("pearson", "spearman")}
