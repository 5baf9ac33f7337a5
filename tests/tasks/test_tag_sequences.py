"""Tags that are decoded together: training, saving, answers, windows, constraints, and what is refused."""

from __future__ import annotations

import itertools
import json

import pytest
import torch

import glassformer
from glassformer import InputError, TokenClassification, pipeline
from glassformer.explain.subject import Subject
from glassformer.models.base.tag_schemes import first_break
from glassformer.nn.crf import best_paths, crf_losses, marginals
from glassformer.tasks.inference import answers
from glassformer.train.distill import Distillation, DistillSettings
from glassformer.train.evaluation import evaluate
from glassformer.train.recipes.build_trainer import build_trainer
from glassformer.train.recipes.recipe import make_recipe
from glassformer.train.train_settings import TrainSettings
from glassformer.train.trainer import Trainer

from .conftest import theirs

KIND = glassformer.BertForTokenClassification
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
BIO = {"id2label": dict(enumerate(TAGS))}
LONG = "John Smith lives in New York , and playing on the mat is unaffable . it was unaffable in London ! " * 3
ROWS = [
    {"tokens": ["John", "unaffable", "lives"], "tags": ["B-PER", "I-PER", "O"]},
    {"tokens": ["the", "cat"], "tags": ["O", "O"]},
    {"tokens": ["New", "York", "unaffable", "is", "good"], "tags": ["B-LOC", "I-LOC", "B-PER", "O", "O"]},
    {"tokens": LONG.split(), "tags": (["B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC"] * 20)[: len(LONG.split())]},
]


@pytest.fixture
def folder(checkpoint):
    """A model whose transitions say something; `checkpoint` makes all weights random."""
    return checkpoint(KIND, **BIO, crf=True)


@pytest.fixture
def plain(checkpoint):
    return checkpoint(KIND, "plain", **BIO)


def settings(path, **others):
    values = {"tokens_per_batch": 30, "num_train_epochs": 2, "learning_rate": 1e-2, "save_steps": 1, "report": False}
    return TrainSettings(**{**values, "output_dir": str(path), "save_total_limit": None, **others})


def total(task, rows):
    return task.loss(task.model, task.collate([example for row in rows for example in task.encode(task.read(row))]))


# --- training ---------------------------------------------------------------------------------------------------------


def test_the_loss_of_a_batch_is_that_of_its_rows(folder):
    task = TokenClassification.from_pretrained(folder)
    batch = task.collate([example for row in ROWS for example in task.encode(task.read(row))])
    (name, objective), *others = task.objectives(task.model, batch).items()
    assert name == "loss" and not others and objective.count == sum(len(row["tags"]) for row in ROWS)
    assert len(batch.examples) > len(ROWS)  # one of them has several windows, and still is one chain
    torch.testing.assert_close(objective.total, sum(total(task, [row]) for row in ROWS))
    short = ROWS[:3]
    one_window = task.collate([example for row in short for example in task.encode(task.read(row))])
    expected = task.model(**one_window.inputs, **one_window.labels).loss
    torch.testing.assert_close(task.loss(task.model, one_window, reduction="mean"), expected)


def test_the_windows_of_a_row_are_one_chain_of_the_loss(folder):
    task = TokenClassification.from_pretrained(folder)
    batch = task.collate(task.encode(task.read(ROWS[3])))
    counted = batch.labels["labels"] != -100
    logits, labels = task.model(**batch.inputs).logits[counted], batch.labels["labels"][counted]
    assert len(batch.examples) == 3 and len(labels) == len(ROWS[3]["tags"])
    (expected,) = crf_losses(logits, labels, [len(labels)], task.model.path_scores(), task.allowed_paths)
    torch.testing.assert_close(task.loss(task.model, batch), expected)


def test_the_loss_is_the_probability_of_the_tags_among_all_allowed(folder):
    task = TokenClassification.from_pretrained(folder)
    row = task.read(ROWS[0])
    (example,) = task.encode(row)
    logits = task.model(**task.collate([example]).inputs).logits[0].double()
    positions = [position for position, label in enumerate(example.labels["labels"]) if label != -100]
    crf = task.model.crf.double()
    scores = {}
    for path in itertools.product(range(5), repeat=3):
        if first_break([TAGS[label] for label in path], TAGS) is None:
            steps = [crf.transitions[pair] for pair in itertools.pairwise(path)]
            ends = [crf.start_transitions[path[0]], crf.end_transitions[path[-1]]]
            emissions = [logits[position, label] for position, label in zip(positions, path, strict=True)]
            scores[path] = torch.stack([*steps, *ends, *emissions]).sum()
    expected = torch.stack(list(scores.values())).logsumexp(0) - scores[1, 2, 0]
    assert len(scores) < 5**3
    torch.testing.assert_close(total(task, [row]).double(), expected, rtol=1e-5, atol=1e-5)


def test_training_saving_resuming_and_answering(plain, tmp_path):
    def trainer(name, seed=0):
        torch.manual_seed(seed)
        task = TokenClassification.from_pretrained(plain, crf=True)
        return Trainer(task, ROWS, ROWS[:3], settings(tmp_path / name))

    whole = trainer("whole")
    result = whole.train()
    after = whole.model.state_dict()
    assert after["crf.transitions"].abs().max() > 0 and result.metrics["loss"] > 0
    for step in (1, whole.total // 2):
        again = trainer("again", seed=step)
        again.train(resume=tmp_path / f"whole/checkpoint-{step}")
        assert all(torch.equal(again.model.state_dict()[name], after[name]) for name in after)
        assert again.metrics == whole.metrics
        tmp_path.joinpath("again").rename(tmp_path / f"again-{step}")
    saved = TokenClassification.from_pretrained(tmp_path / "whole")
    assert evaluate(saved, ROWS[:3]) == pytest.approx(result.metrics, rel=1e-6)
    mine, theirs = (pipeline("ner", model=each)(LONG) for each in (tmp_path / "whole", saved.model))
    assert mine == theirs


def test_accumulation_gives_the_gradient_of_one_batch(folder, tmp_path):
    found = []
    for name, sizes in {"one": (10_000, 1), "four": (1, 4)}.items():
        torch.manual_seed(0)
        task = TokenClassification.from_pretrained(
            folder, model_arguments={"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        )
        options = {"tokens_per_batch": sizes[0], "gradient_accumulation_steps": sizes[1], "max_steps": 1}
        trainer = Trainer(task, ROWS, None, settings(tmp_path / name, **options))
        step = trainer.train_step(next(trainer.batches))
        found.append((step.loss, step.grad_norm))
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_a_recipe_with_the_option(plain, tmp_path, caplog):
    rows = [*ROWS[:3], {"tokens": ["so", "bad"], "tags": ["O", "I-PER"]}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    train = {"output_dir": str(tmp_path / "run"), "max_steps": 2, "report": False}
    values = {"task": "ner", "model": str(plain), "options": {"crf": True}, "train": train}
    values["data"] = {"train": str(tmp_path / "rows.jsonl")}
    trainer = build_trainer(make_recipe(values))
    assert "in 1 of 4 rows the tags break their scheme" in caplog.text and "rows.jsonl, line 4" in caplog.text
    assert "I-PER after O" in caplog.text and "crf='unconstrained'" in caplog.text
    trainer.train()
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["crf"] == "constrained"
    assert TokenClassification.from_pretrained(tmp_path / "run").decodes_together
    caplog.clear()
    build_trainer(make_recipe({**values, "options": {"crf": "unconstrained"}}))
    assert "break their scheme" not in caplog.text


def test_rows_whose_tags_break_the_scheme_have_a_finite_loss(folder):
    task = TokenClassification.from_pretrained(folder)
    broken = {"tokens": ["so", "bad"], "tags": ["O", "I-PER"]}
    loss = total(task, [broken, ROWS[1]])
    free = total(TokenClassification.from_pretrained(folder, crf="unconstrained"), [broken])
    torch.testing.assert_close(loss, free + total(task, [ROWS[1]]))


# --- answers ----------------------------------------------------------------------------------------------------------


def test_answers_are_the_best_sequence_with_marginal_probabilities(folder):
    pipe = pipeline("ner", model=folder, ignore_labels=[])
    task, text = pipe.worker, "John Smith unaffable in New York"
    (example,) = task.encode(task.read(text))
    words = example.encoded.words()
    firsts = [p for p, word in enumerate(words) if word is not None and word != words[p - 1]]
    with torch.no_grad():
        emissions = task.model(**task.collate([example]).inputs).logits[0][firsts]
        scores = task.model.path_scores().within(task.allowed_paths)
    best, probabilities = (each(emissions, [6], scores) for each in (best_paths, marginals))
    found = pipe(text)
    assert [entity["entity"] for entity in found] == [TAGS[label] for label in best]
    assert [entity["score"] for entity in found] == pytest.approx(
        [float(row[label]) for row, label in zip(probabilities, best, strict=True)]
    )
    assert [text[entity["start"] : entity["end"]] for entity in found] == text.split()
    assert found[2]["word"] == "unaffable" and found[3]["index"] == 6  # after two more tokens of that word
    assert list(found[0]) == ["entity", "score", "index", "word", "start", "end"]
    assert task.predict({"text": text}, [example], task.forward(task.collate([example]))) == [
        entity["entity"] for entity in found
    ]


def test_it_is_not_the_answer_without_transitions(folder):
    joint = pipeline("ner", model=folder, ignore_labels=[])(LONG)
    single = pipeline("ner", model=folder, ignore_labels=[], crf=False, aggregation_strategy="first")(LONG)
    assert [entity["entity"] for entity in joint] != [entity["entity_group"] for entity in single]


def test_a_batch_is_answered_like_its_rows(folder):
    pipe = pipeline("ner", model=folder, aggregation_strategy="simple")
    texts = ["John Smith unaffable in New York", LONG, "so good !", "the cat"]
    together = pipe(texts)
    for text, found in zip(texts, together, strict=True):
        alone = pipe(text)
        assert [{**each, "score": 0} for each in alone] == [{**each, "score": 0} for each in found]
        assert [each["score"] for each in alone] == pytest.approx([each["score"] for each in found], abs=1e-6)
    assert pipe("") == []


@pytest.mark.parametrize("stride", [0, 5, 20])
def test_windows_are_one_chain(folder, stride):
    task = TokenClassification.from_pretrained(folder, stride=stride)
    (tags,) = answers(task, [ROWS[3]], finish=task.predict)
    assert len(tags) == len(ROWS[3]["tokens"]) and first_break(tags, TAGS) is None
    pipe = pipeline("ner", model=folder, stride=stride, ignore_labels=[], is_split_into_words=True)
    found = pipe(ROWS[3]["tokens"])
    assert [entity["entity"] for entity in found] == tags
    assert {entity["window"] for entity in found} >= {0, 1}
    text = " ".join(ROWS[3]["tokens"])
    assert [text[entity["start"] : entity["end"]] for entity in found] == ROWS[3]["tokens"]
    grouped = pipe(ROWS[3]["tokens"], aggregation_strategy="simple", ignore_labels=["O"])
    assert all({"window", "entity_group"} <= entity.keys() for entity in grouped)


def test_a_word_without_a_token_keeps_its_place(folder):
    task = TokenClassification.from_pretrained(folder)
    (tags,) = answers(task, [{"tokens": ["John", "\u200b", "Smith"], "tags": ["O"] * 3}], finish=task.predict)
    assert len(tags) == 3 and first_break(tags, TAGS) is None


@pytest.mark.parametrize("kind", ["plain", "unconstrained"])
def test_constrained_decoding_of_a_model_that_was_not(checkpoint, kind):
    options = {} if kind == "plain" else {"crf": kind}
    folder = checkpoint(KIND, **BIO, **options)
    rows = [{"tokens": words.split()} for words in itertools.islice(texts(), 30)]
    tasks = [TokenClassification.from_pretrained(folder, **each) for each in ({}, {"constrained_decoding": True})]
    without, constrained = (list(answers(task, rows, finish=task.predict)) for task in tasks)
    assert any(first_break(tags, TAGS) for tags in without)
    assert not any(first_break(tags, TAGS) for tags in constrained)
    if kind == "plain":
        task = tasks[1]
        (example,) = task.encode(task.read(rows[0]))
        logits = task.forward(task.collate([example]))
        found = task.decode([example], logits, len(rows[0]["tokens"]))
        assert torch.allclose(found.probabilities.sum(1), torch.ones(len(rows[0]["tokens"])))
        assert (found.probabilities[0, [2, 4]] == 0).all()  # no text begins inside of an entity


def texts():
    words = "john smith lives in london the cat sat on mat so good".split()
    generator = torch.Generator().manual_seed(0)
    while True:
        yield " ".join(words[int(i)] for i in torch.randint(len(words), (8,), generator=generator))


def test_transformers_reads_the_folder_as_a_plain_classifier(folder):
    text = "John Smith lives in New York"
    reference = theirs("ner", folder, aggregation_strategy="first", ignore_labels=[])(text)
    ours = pipeline("ner", model=folder, crf=False, aggregation_strategy="first", ignore_labels=[])(text)
    assert [(each["entity_group"], each["start"]) for each in ours] == [
        (each["entity_group"], each["start"]) for each in reference
    ]


def test_pages_say_that_they_show_single_tokens(folder, plain, caplog):
    Subject.load(plain)
    assert "conditional random field" not in caplog.text
    Subject.load(folder)
    assert "the scores shown are those of each token before it is applied" in caplog.text


# --- what is refused --------------------------------------------------------------------------------------------------


def test_an_untrained_one_does_not_answer(plain):
    with pytest.raises(InputError, match="has no trained crf, so token-classification would answer at random"):
        pipeline("ner", model=plain, crf=True)


def test_one_of_another_library_is_not_passed_over(folder):
    config = json.loads((folder / "config.json").read_text())
    del config["crf"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="has the weights of a conditional random field, and its config"):
        pipeline("ner", model=folder)
    assert not pipeline("ner", model=folder, crf=False).worker.decodes_together
    assert pipeline("ner", model=folder, crf="unconstrained").worker.decodes_together


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"crf": False}, "crf is False, and that of the model is 'constrained': give it where the model is loaded"),
        ({"crf": "unconstrained"}, "crf is 'unconstrained', and that of the model is 'constrained'"),
        ({"crf": "yes"}, "crf must be one of None, True, False, 'constrained', 'unconstrained', got 'yes'"),
        ({"constrained_decoding": 1}, "constrained_decoding must be one of True, False"),
        ({"aggregation_strategy": "max"}, "aggregation_strategy 'max' combines all tokens of a word"),
    ],
)
def test_wrong_options(folder, options, message):
    pipe = pipeline("ner", model=folder)
    with pytest.raises(InputError, match=message):
        pipe("John", **options)
    assert pipe("John", crf=True) == pipe("John")


def test_labels_without_a_scheme(checkpoint):
    with pytest.raises(
        InputError, match="constrained_decoding needs tags of a scheme such as BIO or BMES, and the labels"
    ):
        pipeline("ner", model=checkpoint(KIND), constrained_decoding=True)


def test_losses_of_single_labels_are_refused(folder, plain, tmp_path):
    task = TokenClassification.from_pretrained(folder)
    for setting in ({"label_smoothing_factor": 0.1}, {"class_weights": True}):
        with pytest.raises(InputError, match="token-classification with a conditional random field does not"):
            Trainer(task, ROWS, None, settings(tmp_path / "run", **setting))
    simple = TokenClassification.from_pretrained(plain)
    with pytest.raises(InputError, match="token-classification with a conditional random field does not choose"):
        Distillation(task, simple.model, DistillSettings(teacher="given"))
    with pytest.raises(InputError, match="this one has a conditional random field over sequences"):
        Distillation(simple, task.model, DistillSettings(teacher="given"))
