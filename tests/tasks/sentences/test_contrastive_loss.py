"""Contrastive training of vectors: the numbers of sentence-transformers, and texts that come together."""

from __future__ import annotations

import pytest
import torch

import glassformer
from glassformer import LoraConfig, add_lora
from glassformer.errors import InputError
from glassformer.nn.contrastive_loss import ranking_loss, same_texts
from glassformer.train.train_settings import TrainSettings
from glassformer.train.trainer import Trainer

from ...train.small import NO_DROPOUT, bert, tokenizer

PAIRS = [
    {"text": "the cat sat", "text_pair": "the cat is on the mat"},
    {"text": "a good film", "text_pair": "it is very good !"},
    {"text": "john smith", "text_pair": "who lives in new york"},
]
NEGATIVES = ["so bad", "music", "the dog was in the park"]
TRIPLETS = [{**row, "negative": other} for row, other in zip(PAIRS, NEGATIVES, strict=True)]


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    glassformer.BertModel(bert(initializer_range=0.3, **NO_DROPOUT)).save_pretrained(tmp_path / "model")
    tokenizer(tmp_path / "model").save_pretrained(tmp_path / "model")
    return tmp_path


def task_of(folder, **options) -> glassformer.SentenceSimilarity:
    return glassformer.SentenceSimilarity.from_pretrained(folder / "model", **options)


def loss_of(task, rows) -> torch.Tensor:
    batch = task.collate([example for row in rows for example in task.training_examples(row, (0,))])
    assert batch.targets_count == len(rows)
    return task.loss(task.trainable, batch, "mean")


def theirs(folder, loss: str, columns: list[list[str]], **arguments) -> float:
    library = pytest.importorskip("sentence_transformers")
    if not hasattr(library, loss):
        from sentence_transformers import losses as library_losses
    else:
        library_losses = library
    modules = library.models if hasattr(library, "models") else library.sentence_transformer.modules
    body = modules.Transformer(str(folder / "model"))
    model = library.SentenceTransformer(modules=[body, modules.Pooling(16, "mean")], device="cpu")
    tokenize = getattr(model, "preprocess", None) or model.tokenize
    return float(getattr(library_losses, loss)(model, **arguments)([tokenize(texts) for texts in columns], None))


@pytest.mark.parametrize("rows", [PAIRS, TRIPLETS], ids=["pairs", "triplets"])
def test_ranking_is_that_of_sentence_transformers(folder, rows):
    names = [name for name in ("text", "text_pair", "negative") if name in rows[0]]
    right = theirs(folder, "MultipleNegativesRankingLoss", [[row[name] for row in rows] for name in names], scale=15.0)
    mine = loss_of(task_of(folder, objective="ranking", scale=15.0), rows)
    assert float(mine) == pytest.approx(right, abs=1e-5)


def test_triplets_are_those_of_sentence_transformers(folder):
    columns = [[row[name] for row in TRIPLETS] for name in ("text", "text_pair", "negative")]
    right = theirs(folder, "TripletLoss", columns, triplet_margin=4.0)
    mine = loss_of(task_of(folder, objective="triplet", margin=4.0), TRIPLETS)
    assert float(mine) == pytest.approx(right, abs=1e-5)


def test_several_negatives(folder):
    rows = [{**row, "negative": NEGATIVES[:2]} for row in PAIRS]
    task = task_of(folder, objective="ranking")
    assert loss_of(task, rows) > loss_of(task, TRIPLETS[:1]) - 10  # it has more to choose from
    encoder = task.encoder
    anchors, positives = (torch.tensor(encoder.encode([row[name] for row in rows])) for name in ("text", "text_pair"))
    others = torch.tensor(encoder.encode([text for row in rows for text in row["negative"]]))
    same = torch.eye(3, 9, dtype=torch.bool)
    assert torch.allclose(loss_of(task, rows), ranking_loss(anchors, positives, others, 20.0, same) / 3, atol=1e-5)


def test_the_right_text_does_not_compete_with_itself():
    same = same_texts([(1, 2), (3,), (1, 2)], [(1, 2), (3,), (1, 2), (3,)])
    assert same.tolist() == [[True, False, True, False], [False, True, False, True], [True, False, True, False]]
    torch.manual_seed(0)
    anchors, positives = torch.randn(3, 4), torch.randn(3, 4)
    positives[2] = positives[0]
    found = ranking_loss(anchors[:1], positives[:1], positives[1:], 20.0, torch.tensor([[True, False, True]]))
    alone = ranking_loss(anchors[:1], positives[:1], positives[1:2], 20.0, torch.tensor([[True, False]]))
    assert torch.allclose(found, alone)


def test_vectors_come_together_and_are_written_as_sentence_bert(folder):
    task = task_of(folder, objective="ranking")
    how = TrainSettings(output_dir=str(folder / "run"), max_steps=30, learning_rate=5e-3, report=False)
    eval_rows = [{**row, "score": 1.0} for row in PAIRS] + [
        {"text": PAIRS[0]["text"], "text_pair": PAIRS[1]["text_pair"], "score": 0.0}
    ]
    before = float(loss_of(task, PAIRS))
    result = Trainer(task, PAIRS, eval_rows, how).train()
    assert float(loss_of(task, PAIRS)) < before / 4 and result.metrics["spearman"] > 0.7
    library = pytest.importorskip("sentence_transformers")
    model = library.SentenceTransformer(str(folder / "run"), device="cpu")
    texts = [row["text"] for row in PAIRS]
    assert torch.allclose(torch.tensor(model.encode(texts)), torch.tensor(task.encoder.encode(texts)), atol=1e-5)


def test_errors_are_reported(folder):
    with pytest.raises(InputError, match="objective must be one of 'score', 'ranking', 'triplet', got 'rank'"):
        task_of(folder, objective="rank")
    with pytest.raises(InputError, match="scale must be a number above 0, got 0"):
        task_of(folder, scale=0)
    task = task_of(folder, objective="triplet")
    with pytest.raises(InputError, match="the row has 0 negatives"):
        loss_of(task, PAIRS)
    with pytest.raises(InputError, match="negative must be a text or a list of texts, got"):
        loss_of(task, [{**PAIRS[0], "negative": [3]}])
    loss = task_of(folder)  # a forgotten score is no wish for a contrast
    with pytest.raises(InputError, match="sentence-similarity is trained on rows with score"):
        loss.loss(loss.trainable, loss.collate(loss.encode(loss.read(PAIRS[0]))))
    with pytest.raises(InputError, match="is trained on rows with score; objective='ranking' needs only pairs"):
        loss.training_examples(PAIRS[0], (0, 0, 0))


def test_what_a_row_means_is_not_guessed(folder, caplog):
    several = {"text": "so good", "text_pair": ["very good", "a good film"]}
    how = TrainSettings(output_dir=str(folder / "run"), max_steps=1)
    for objective in ("ranking", "triplet"):
        task = task_of(folder, objective=objective)
        with pytest.raises(InputError, match="a contrast has one text_pair, and others in negative; got"):
            task.training_examples(several, (0,))
        assert len(task.encode(task.read(several))) == 3  # to be compared, after training
        with pytest.raises(InputError, match="row 1: it has other target columns than row 0, of score, neg"):
            Trainer(task, [TRIPLETS[0], {**PAIRS[1], "score": 0.5}], None, how)
    assert "were cut" not in caplog.text
    task, long = task_of(folder, objective="ranking", truncation=True), {**PAIRS[0], "negative": "music " * 90}
    Trainer(task, [long, {**PAIRS[1], "negative": "so good"}], None, how)
    assert "1 of 2 training rows were cut to fit the model" in caplog.text


def test_a_score_that_is_no_number_is_reported(folder):
    with pytest.raises(InputError, match="score must be a finite number, got str 'much'"):
        task_of(folder).training_examples({**PAIRS[0], "score": "much"}, (0, 0, 0))


def test_scores_may_have_another_scale(folder, caplog):
    rows = [{**row, "score": score} for row, score in zip(PAIRS, (0.2, 0.9, 0.5), strict=True)]
    fives = [{**row, "score": 5 * row["score"]} for row in rows]
    assert torch.allclose(loss_of(task_of(folder), rows), loss_of(task_of(folder, full_score=5.0), fives))
    assert "full_score" not in caplog.text
    assert not torch.allclose(loss_of(task_of(folder), rows), loss_of(task_of(folder), fives))
    message = "a score of 4.5 is above full_score 1.0, and no cosine reaches it; if scores end at 5, pass full_score=5"
    assert caplog.text.count(message) == 1


def test_vectors_with_an_adapter_resume_bit_for_bit(folder):
    def trainer(name: str) -> Trainer:
        torch.manual_seed(1)
        task = task_of(folder, objective="ranking")
        add_lora(task.model, LoraConfig(r=2))
        how = {"max_steps": 4, "save_steps": 2, "learning_rate": 1e-2, "report": False}
        return Trainer(task, PAIRS, None, TrainSettings(output_dir=str(folder / name), **how))

    whole = trainer("whole")
    before = float(loss_of(whole.task, PAIRS))
    whole.train()
    broken = trainer("broken")
    broken.train(resume=folder / "whole/checkpoint-2")
    mine, right = broken.model.state_dict(), whole.model.state_dict()
    assert all(torch.equal(mine[name], right[name]) for name in right) and float(loss_of(whole.task, PAIRS)) < before
    again = glassformer.SentenceSimilarity.from_pretrained(folder / "whole", objective="ranking")
    assert torch.allclose(loss_of(again, PAIRS), loss_of(whole.task, PAIRS), atol=1e-5)
