"""sentence-similarity: the task over the encoder, and the real MiniLM with its published figure."""

from __future__ import annotations

import pytest
import torch

import glassformer
from glassformer import InputError, SentenceEncoder, SentenceSimilarity, pipeline
from glassformer.tasks.inference import answers
from glassformer.tasks.sentences.pooling import Dense, Pooling

from ..conftest import TEXTS, close

SENTENCES = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]


@pytest.fixture
def folder(checkpoint, tmp_path):
    body = checkpoint(glassformer.BertModel)
    torch.manual_seed(0)
    encoder = SentenceEncoder(
        glassformer.BertModel.from_pretrained(body),
        glassformer.BertTokenizer.from_pretrained(body),
        [Pooling("mean"), Dense(48, 20)],
    )
    encoder.save_pretrained(tmp_path / "sbert")
    return tmp_path / "sbert"


def test_the_ways_to_ask(folder):
    pipe = pipeline(model=folder)
    assert pipe.task == "sentence-similarity"
    vectors = pipe.encode(TEXTS)
    expected = pipe.similarity(vectors, vectors)
    a, b, c = TEXTS[:3]
    close(pipe(a, b), expected[0, 1].item())
    close(pipe((a, b)), expected[0, 1].item())
    close(pipe([(a, b), (b, c)]), [expected[0, 1].item(), expected[1, 2].item()])
    close(pipe(text=[a, b], text_pair=[b, c]), [expected[0, 1].item(), expected[1, 2].item()])
    close(pipe(source_sentence=a, sentences=[b, c]), expected[0, 1:3].tolist())
    close(pipe({"source_sentence": a, "sentences": [b, c]}), expected[0, 1:3].tolist())
    close(pipe(a, [b, c]), expected[0, 1:3].tolist())
    close(list(pipe(pair for pair in [(a, b), (b, c)])), [expected[0, 1].item(), expected[1, 2].item()])
    close(pipe(a, b, similarity="dot"), float(vectors[0] @ vectors[1]))
    assert pipe.search(a, TEXTS, top_k=1)[0]["corpus_id"] == 0


def test_truncation_is_reported(folder, caplog):
    pipe = pipeline(model=folder)
    long = "cat " * 600
    pipe(TEXTS[0], TEXTS[1])
    assert "is truncated" not in caplog.text
    pipe(TEXTS[0], long)
    assert "a text is longer than" in caplog.text and "and is truncated" in caplog.text
    with pytest.raises(InputError, match="tokens and the model takes"):
        pipe(TEXTS[0], long, truncation=False)


def test_a_loaded_encoder_or_model(folder, checkpoint):
    encoder = SentenceEncoder.from_pretrained(folder)
    expected = pipeline(model=folder)(TEXTS[0], TEXTS[1])
    close(pipeline(model=encoder)(TEXTS[0], TEXTS[1]), expected)
    model = glassformer.BertModel.from_pretrained(checkpoint(glassformer.BertModel))
    pipe = pipeline("sentence-similarity", model=model)
    assert pipe.encoder.steps[0].modes == ("mean",)
    assert pipe(TEXTS[0], TEXTS[0]) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"text": "a"}, "sentence-similarity needs text_pair"),
        (("a", 3), "text_pair must be a text or a list of texts, got int 3"),
        (("a", []), "text_pair must be a text or a list of texts, got list"),
        ({"source_sentence": 3, "sentences": ["b"]}, "text must be a text, got int 3"),
    ],
)
def test_wrong_rows(folder, given, message):
    with pytest.raises(InputError, match=message):
        pipeline(model=folder)(given)


def test_a_wrong_measure(folder):
    with pytest.raises(InputError, match="similarity must be one of cosine"):
        pipeline(model=folder, similarity="cosmic")


def test_the_loss_and_its_count(folder):
    task = SentenceSimilarity.from_pretrained(folder)
    rows = [
        {"text": TEXTS[0], "text_pair": TEXTS[1], "score": 0.25},
        {"text": TEXTS[2], "text_pair": [TEXTS[3], TEXTS[5]], "score": [1, "0"]},
    ]
    batch = task.collate([example for row in rows for example in task.encode(task.read(row))])
    assert batch.targets_count == 3
    with torch.no_grad():
        found = [
            task.encoder.similarity(*(task.encoder.encode(TEXTS[i]) for i in pair)) for pair in ((0, 1), (2, 3), (2, 5))
        ]
    expected = sum((float(score) - right) ** 2 for score, right in zip(found, (0.25, 1, 0), strict=True))
    loss = task.loss(task.trainable, batch)
    assert loss.item() == pytest.approx(expected, abs=1e-5)
    loss.backward()
    assert task.encoder.steps[1].linear.weight.grad.abs().sum() > 0
    assert task.model.get_input_embeddings().weight.grad.abs().sum() > 0
    predicted = list(answers(task, rows, finish=task.predict))
    assert [task.reference(row) for row in rows] == [0.25, 1.0]
    assert task.compute_metrics(predicted, [0.25, 1.0]).keys() == set(task.metric_names)


def test_the_real_model_is_that_of_sentence_transformers(minilm):
    library = pytest.importorskip("sentence_transformers")
    reference = library.SentenceTransformer(str(minilm), device="cpu")
    pipe = pipeline(model=minilm)
    assert pipe.task == "sentence-similarity"
    ours, theirs = pipe.encode(SENTENCES), reference.encode(SENTENCES)
    assert abs(ours - theirs).max() < 1e-5
    assert abs(pipe.similarity(ours, ours) - reference.similarity(theirs, theirs)).max() < 1e-5
    assert pipe.encoder.max_seq_length == reference.max_seq_length == 256
    long = "The weather is lovely today. " * 80
    assert abs(pipe.encode(long) - reference.encode(long)).max() < 1e-5


def test_the_published_figure(minilm, shared):
    task = SentenceSimilarity.from_pretrained(minilm)
    rows = glassformer.read_rows(
        shared / "data/stsb/stsb-en-test.csv", columns={"text": 0, "text_pair": 1, "score": 2}, header=False
    )
    predicted = list(answers(task, rows, finish=task.predict))
    right = [task.reference(task.read(row)) for row in rows]
    assert len(predicted) == 1379
    assert round(task.compute_metrics(predicted, right)["spearman"], 4) == 0.8203
