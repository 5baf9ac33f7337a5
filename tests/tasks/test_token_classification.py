"""token-classification: transformers' entities under every strategy, schemes it does not know, windows, losses."""

from __future__ import annotations

import pytest
import torch

import glassformer
from glassformer import InputError, TokenClassification, pipeline
from glassformer.tasks.inference import answers
from glassformer.tasks.token_classification import without_overlaps

from .conftest import TEXTS, close, theirs

KIND = glassformer.BertForTokenClassification
BIO = {"id2label": dict(enumerate(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]))}
BMES = {"id2label": dict(enumerate(["O", "B-PER", "M-PER", "E-PER", "S-PER"]))}
ENGLISH = [text for text in TEXTS if text.isascii()]
LONG = "John Smith lives in New York , and playing on the mat is unaffable . it was unaffable in London ! " * 3


@pytest.mark.parametrize("strategy", ["none", "simple", "first", "average", "max"])
@pytest.mark.parametrize("given", [ENGLISH[3], ENGLISH, ENGLISH[:1], "zebra unaffable's zebra"])
def test_entities_are_those_of_transformers(checkpoint, given, strategy):
    folder = checkpoint(KIND, **BIO)
    options = {"aggregation_strategy": strategy, "ignore_labels": []}
    close(pipeline("ner", model=folder, **options)(given), theirs("ner", folder, **options)(given))
    ours, reference = pipeline(model=folder), theirs("ner", folder)
    close(ours(given, aggregation_strategy=strategy), reference(given, aggregation_strategy=strategy))


def test_chinese_words_stand_without_spaces(checkpoint):
    folder = checkpoint(KIND)
    options = {"aggregation_strategy": "simple"}
    ours, reference = (make("ner", folder, **options)(TEXTS[4]) for make in (pipeline, theirs))
    assert any(len(entity["word"]) > 1 for entity in ours)
    assert all(entity["word"] == TEXTS[4][entity["start"] : entity["end"]] for entity in ours)
    close(ours, [{**entity, "word": entity["word"].replace(" ", "")} for entity in reference])


@pytest.mark.parametrize("strategy", ["none", "simple", "first"])
def test_a_text_given_as_words(checkpoint, strategy):
    folder = checkpoint(KIND, **BIO)
    words = ["John", "Smith", "unaffable", "cat"]
    options = {"aggregation_strategy": strategy, "ignore_labels": [], "is_split_into_words": True}
    ours, reference = pipeline("ner", model=folder), theirs("ner", folder)
    close(ours(words, **options), reference(words, **options)[0])
    close(ours([words, words[:2]], **options), reference([words, words[:2]], **options))
    assert ours({"tokens": words}, aggregation_strategy=strategy, ignore_labels=[]) == ours(words, **options)
    tight = ours(words, **options, delimiter="")
    assert tight[-1]["end"] == len("".join(words))


def test_words_are_those_given(checkpoint):
    """Not split again at punctuation, as transformers does: what is given as one word gets one label."""
    pipe = pipeline("ner", model=checkpoint(KIND, **BIO), ignore_labels=[], is_split_into_words=True)
    words = ["Smith's", "New-York"]
    spans = {(entity["start"], entity["end"]) for entity in pipe(words, aggregation_strategy="first")}
    assert spans <= {(0, 7), (8, 16), (0, 16)}


@pytest.mark.parametrize("strategy", ["simple", "first", "average", "max"])
@pytest.mark.parametrize("stride", [0, 5, 20])
def test_windows_over_a_long_text_are_those_of_transformers(checkpoint, strategy, stride):
    folder = checkpoint(KIND, **BIO)
    options = {"aggregation_strategy": strategy, "stride": stride, "ignore_labels": []}
    ours = pipeline("ner", model=folder)(LONG, **options)
    assert {entity.pop("window") for entity in ours} >= {0, 1}
    close(ours, theirs("ner", folder, aggregation_strategy=strategy)(LONG, **options))


def test_a_long_text_is_read_to_its_end_by_default(checkpoint):
    pipe = pipeline("ner", model=checkpoint(KIND, **BIO))
    tokens = pipe(LONG, ignore_labels=[])
    ids = pipe.tokenizer(LONG, add_special_tokens=False, verbose=False)["input_ids"]
    assert len(ids) > 60
    assert [token["index"] for token in tokens] == list(range(1, len(ids) + 1))
    assert [pipe.tokenizer.convert_tokens_to_ids(token["word"]) for token in tokens] == ids
    assert {token["window"] for token in tokens} == {0, 1, 2}


def test_what_two_windows_found_at_one_place():
    def found(start, end, score):
        return {"start": start, "end": end, "score": score}

    sure, unsure, long, next_to_it = found(0, 3, 0.9), found(0, 3, 0.5), found(1, 5, 0.1), found(5, 6, 0.2)
    assert without_overlaps([unsure, sure]) == [sure]
    assert without_overlaps([sure, unsure]) == [sure]
    assert without_overlaps([sure, long]) == [long]
    assert without_overlaps([next_to_it, long]) == [long, next_to_it]


def test_the_letters_of_chinese_files(checkpoint):
    pipe = pipeline("ner", model=checkpoint(KIND, **BMES), aggregation_strategy="simple")
    tags = dict(zip("北京我爱天安门", "B-PER E-PER S-PER S-PER B-PER M-PER E-PER".split(), strict=True))
    ids = {pipe.tokenizer.convert_tokens_to_ids(letter): pipe.worker.label_ids[tag] for letter, tag in tags.items()}
    known = torch.zeros(60 + len(ids) * 10, 5)
    for token, label in ids.items():
        known[token, label] = 9.0

    def forward(batch):
        return [known[row[:length]] for row, length in zip(batch.inputs["input_ids"], batch.lengths, strict=True)]

    pipe.worker.forward = forward
    found = pipe("北京我爱天安门")
    assert [(entity["entity_group"], entity["word"]) for entity in found] == [
        ("PER", "北京"),
        ("PER", "我"),
        ("PER", "爱"),
        ("PER", "天安门"),
    ]


# --- training and evaluation ------------------------------------------------------------------------------------------

ROWS = [
    {"tokens": ["John", "unaffable", "lives"], "tags": ["B-PER", "I-PER", "O"]},
    {"tokens": ["the", "cat"], "tags": ["O", "O"]},
]


def test_the_loss_is_the_models_own(checkpoint):
    task = TokenClassification.from_pretrained(checkpoint(KIND, **BIO))
    batch = task.collate([example for row in ROWS for example in task.encode(task.read(row))])
    assert batch.labels["labels"].tolist() == [[-100, 1, 2, -100, -100, 0, -100], [-100, 0, 0, *[-100] * 4]]
    assert batch.targets_count == 5
    expected = task.model(**batch.inputs, **batch.labels).loss
    torch.testing.assert_close(task.loss(task.model, batch, reduction="mean"), expected)
    alone = sum(task.loss(task.model, task.collate(task.encode(row))) for row in ROWS)
    torch.testing.assert_close(alone, task.loss(task.model, batch))


@pytest.mark.parametrize("stride", [0, 3, 17, None])
def test_every_word_of_a_long_text_is_a_target_once(checkpoint, stride, caplog):
    task = TokenClassification.from_pretrained(checkpoint(KIND, **BIO), stride=stride)
    words = LONG.split()
    tags = [task.model.config.id2label[i % 5] for i in range(len(words))]
    caplog.clear()
    examples = task.training_examples({"tokens": words, "tags": tags}, (0, 0, 0))
    assert len(examples) > 1 and not caplog.text  # nothing is cut
    targets = [label for example in examples for label in example.labels["labels"] if label != -100]
    assert targets == [task.label_ids[tag] for tag in tags]


def test_evaluation(checkpoint):
    task = TokenClassification.from_pretrained(checkpoint(KIND, **BIO))
    long = {"tokens": LONG.split(), "tags": ["O"] * len(LONG.split())}
    predicted = list(answers(task, [*ROWS, long], finish=task.predict))
    assert [len(tags) for tags in predicted] == [3, 2, len(long["tags"])]
    first = pipeline(model=task.model, tokenizer=task.tokenizer, ignore_labels=[])
    assert predicted[1] == [token["entity"] for token in first("the cat")]
    assert predicted[0][1] == first({"tokens": ROWS[0]["tokens"]})[1]["entity"]  # by the first of three tokens
    found = task.compute_metrics(predicted, [task.reference(row) for row in [*ROWS, long]])
    assert tuple(found) == task.metric_names


def test_a_word_in_two_windows_is_predicted_with_the_most_context(checkpoint):
    task = TokenClassification.from_pretrained(checkpoint(KIND, **BIO), stride=20)
    row = task.read({"tokens": ["cat"] * 50})  # windows of 38 tokens: 0 to 37 and 18 to 49
    examples = task.encode(row)
    assert [example.encoded.spans[0] for example in examples] == [(0, 38), (18, 50)]
    outputs = [torch.eye(5)[torch.full((len(example),), label)] for label, example in enumerate(examples, start=1)]
    tags = task.predict(row, examples, outputs)
    assert tags == ["B-PER"] * 28 + ["I-PER"] * 22


def test_tags_may_be_numbers(checkpoint):
    """As files of data sets have them; a label is called by its name, whatever the type."""
    names = dict(enumerate("01234"))
    task = TokenClassification.from_pretrained(checkpoint(KIND, id2label=names, num_labels=5))
    row = {"tokens": ["john", "sat"], "tags": [3, 0]}
    assert [label for label in task.encode(task.read(row))[0].labels["labels"] if label != -100] == [3, 0]
    assert task.reference(row) == ["3", "0"]
    task = TokenClassification.from_pretrained(checkpoint(KIND, **BIO))  # or by its number
    assert [label for label in task.encode(task.read(row))[0].labels["labels"] if label != -100] == [3, 0]
    assert task.reference(row) == [task.model.config.id2label[3], "O"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"tokens": ["a"], "tags": ["B-PERS"]}, "tag 'B-PERS' is not one of O, B-PER, .*, did you mean 'B-PER'"),
        ({"tokens": ["a"], "tags": ["O", "O"]}, "tags need as many tokens, got 2 and 1"),
        ({"text": "a", "tags": ["O"]}, "tags need as many tokens, got 1 and 0"),
        ({"tags": ["O"]}, "needs either text or tokens; the row has tags"),
        ({"text": "a", "tokens": ["a"]}, "needs either text or tokens; the row has text, tokens"),
        ({"tokens": "a"}, "tokens must be a list of one text or more, got str 'a'"),
        (["a", "b"], "pass is_split_into_words=True"),
    ],
)
def test_wrong_rows(checkpoint, row, message):
    task = TokenClassification.from_pretrained(checkpoint(KIND, **BIO))
    with pytest.raises(InputError, match=message):
        task.encode(task.read(row))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aggregation_strategy": "some"}, "aggregation_strategy must be one of 'none', 'simple'"),
        ({"ignore_labels": "O"}, "ignore_labels must be a list of labels, got 'O'"),
        ({"stride": 39}, "stride must be smaller than the 38 tokens"),
        ({"stride": -1}, "stride must be a whole number"),
        ({"is_split_into_words": 1}, "is_split_into_words must be one of True, False"),
    ],
)
def test_wrong_options(checkpoint, options, message):
    with pytest.raises(InputError, match=message):
        pipeline("ner", model=checkpoint(KIND, **BIO))(LONG, **options)
