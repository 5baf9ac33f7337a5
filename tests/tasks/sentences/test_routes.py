"""Encoders with a way of their own for queries and for documents, beside those of sentence-transformers."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

import glassformer
from glassformer import ConfigError, SentenceEncoder
from glassformer.tasks.sentences.sentence_similarity import SentenceSimilarity

from ..conftest import TEXTS


@pytest.fixture
def library():
    return pytest.importorskip("sentence_transformers")


@pytest.fixture
def asymmetric(checkpoint, library, tmp_path):
    """One model, and for each side a layer of its own."""
    from sentence_transformers import models

    torch.manual_seed(1)
    routes = {"query": [models.Dense(48, 20)], "document": [models.Dense(48, 20), models.Normalize()]}
    steps = [models.Transformer(str(checkpoint(glassformer.BertModel))), models.Pooling(48), models.Router(routes)]
    return save(library, steps, tmp_path / "asymmetric")


@pytest.fixture
def two_towers(checkpoint, library, tmp_path):
    """A model for each side."""
    from sentence_transformers import models

    folder, sides = checkpoint(glassformer.BertModel), []
    for seed, pooling in ((1, "mean"), (2, "cls")):
        torch.manual_seed(seed)
        tower = tmp_path / f"tower {seed}"
        shutil.copytree(folder, tower)
        glassformer.BertModel(glassformer.BertConfig.from_pretrained(folder)).save_pretrained(tower)
        sides.append([models.Transformer(str(tower)), models.Pooling(48, pooling)])
    return save(library, [models.Router.for_query_document(*sides)], tmp_path / "towers")


def save(library, steps, folder):
    made = library.SentenceTransformer(modules=steps, device="cpu")
    made.save(str(folder))
    return folder, made


@pytest.fixture(params=["asymmetric", "two_towers"])
def routed(request):
    return request.getfixturevalue(request.param)


def assert_equal(ours, theirs):
    torch.testing.assert_close(torch.as_tensor(ours), torch.as_tensor(theirs), rtol=0, atol=1e-5)


def test_each_side_equals_sentence_transformers(routed):
    folder, reference = routed
    encoder = SentenceEncoder.from_pretrained(folder)
    assert_equal(encoder.encode_query(TEXTS), reference.encode_query(TEXTS))
    assert_equal(encoder.encode_document(TEXTS), reference.encode_document(TEXTS))
    assert_equal(encoder.encode(TEXTS), reference.encode(TEXTS))  # the default route
    assert not torch.allclose(
        torch.as_tensor(encoder.encode_query(TEXTS)), torch.as_tensor(encoder.encode_document(TEXTS))
    )
    hits = encoder.search(TEXTS[:1], TEXTS, top_k=1)[0]
    expected = reference.similarity(reference.encode_query(TEXTS[:1]), reference.encode_document(TEXTS))[0]
    assert hits[0]["corpus_id"] == int(expected.argmax())
    assert abs(hits[0]["score"] - float(expected.max())) < 1e-5


def test_what_we_save_is_read_back_by_both(routed, library, tmp_path):
    folder, reference = routed
    SentenceEncoder.from_pretrained(folder).save_pretrained(tmp_path / "ours")
    for again in (
        SentenceEncoder.from_pretrained(tmp_path / "ours"),
        library.SentenceTransformer(str(tmp_path / "ours")),
    ):
        assert_equal(again.encode_query(TEXTS), reference.encode_query(TEXTS))
        assert_equal(again.encode_document(TEXTS), reference.encode_document(TEXTS))
        assert_equal(again.encode(TEXTS), reference.encode(TEXTS))


def test_routes_share_their_modules(asymmetric, two_towers):
    shared, apart = (SentenceEncoder.from_pretrained(folder) for folder, _ in (asymmetric, two_towers))
    assert shared.routes["query"].model is shared.routes["document"].model is shared.model
    assert apart.routes["query"].model is not apart.routes["document"].model
    assert apart.model is apart.routes["document"].model


@pytest.mark.parametrize("objective", ["score", "ranking", "triplet"])
def test_both_sides_learn(routed, objective):
    task = SentenceSimilarity(SentenceEncoder.from_pretrained(routed[0]), objective=objective)
    rows = [{"text": TEXTS[0], "text_pair": TEXTS[1]}, {"text": TEXTS[1], "text_pair": TEXTS[2]}]
    for row in rows:
        row |= {"score": 0.5} if objective == "score" else {"negative": TEXTS[3]} if objective == "triplet" else {}
    batch = task.collate([example for row in rows for example in task.training_examples(row, (0,))])
    task.loss_of(task.outputs(task.trainable, batch), batch).backward()
    for side in ("query", "document"):
        route = task.encoder.routes[side]
        assert bool(route.model.get_input_embeddings().weight.grad.any())
        assert all(bool(parameter.grad.any()) for step in route.steps for parameter in step.parameters())


def test_the_pipeline_compares_a_query_with_documents(routed):
    folder, reference = routed
    pipe = glassformer.pipeline("sentence-similarity", model=folder)
    expected = reference.similarity(reference.encode_query(TEXTS[:1]), reference.encode_document(TEXTS[1:3]))
    assert_equal(pipe(source_sentence=TEXTS[0], sentences=TEXTS[1:3]), expected[0])


def test_the_older_form_is_read_too(asymmetric):
    folder, reference = asymmetric
    router = folder / "2_Router"
    (router / "router_config.json").rename(router / "config.json")
    modules = json.loads((folder / "modules.json").read_text())
    modules[2]["type"] = "sentence_transformers.models.Asym"
    (folder / "modules.json").write_text(json.dumps(modules))
    assert_equal(SentenceEncoder.from_pretrained(folder).encode_query(TEXTS), reference.encode_query(TEXTS))


def test_wrong_routers_are_refused(asymmetric):
    folder, _ = asymmetric
    path = folder / "2_Router" / "router_config.json"
    good = json.loads(path.read_text())
    for change, message in (
        ({"structure": {}}, "lists no routes"),
        ({"structure": {"query": ["nowhere"]}}, "must map every route"),
        ({"types": []}, "must map every route"),
        ({"types": {"../../outside": "Dense"}, "structure": {"query": ["../../outside"]}}, "outside the folder"),
        ({"types": {"query_0_Dense": "x.LSTM"}, "structure": {"query": ["query_0_Dense"]}}, "LSTM is not supported"),
    ):
        path.write_text(json.dumps({**good, **change}))
        with pytest.raises(ConfigError, match=message):
            SentenceEncoder.from_pretrained(folder)
    path.unlink()
    with pytest.raises(ConfigError, match="which lists the routes"):
        SentenceEncoder.from_pretrained(folder)
