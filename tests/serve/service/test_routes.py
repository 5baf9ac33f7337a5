"""Every route, against what the pipelines answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch

TEXTS = ["the cat sat on the mat", "so good", "a"]


def near(given, expected):
    torch.testing.assert_close(torch.tensor(given), torch.tensor(np.asarray(expected)).float(), atol=1e-6, rtol=0)


def test_embed(service):
    encode = service.pipe("minilm").encode
    near(service.post("/embed", {"inputs": TEXTS}), encode(TEXTS, normalize_embeddings=True))
    near(service.post("/embed", {"inputs": TEXTS[0], "normalize": False}), [encode(TEXTS[0])])
    near(service.post("/embed", {"inputs": TEXTS, "dimensions": 5, "normalize": False}), encode(TEXTS)[:, :5])
    near(
        service.post("/embed", {"inputs": TEXTS, "prompt_name": "query", "normalize": False}),
        encode(TEXTS, prompt_name="query"),
    )
    assert service.post("/embed", {"inputs": []}) == []


def test_a_text_that_is_too_long_is_refused_or_reported(service):
    long = "so " * 100
    status, error = service.refused("/embed", {"inputs": ["so", long]})
    assert (status, error["field"]) == (422, "inputs[1]")
    assert "102 tokens" in error["error"]
    response = service.client.post("/embed", json={"inputs": ["so", long], "truncate": True})
    assert (response.status_code, response.headers["x-truncated-inputs"]) == (200, "1")
    answer = service.post("/tasks/text-classification", {"model": "sst2", "inputs": long, "truncation": True})
    assert answer[0]["truncated"] is True


def test_predict(service):
    pipe = service.pipe("sst2")
    expected = pipe(TEXTS, top_k=None)
    found = service.post("/predict", {"model": "sst2", "inputs": [[each] for each in TEXTS]})
    assert [[one["label"] for one in each] for each in found] == [[one["label"] for one in each] for each in expected]
    near([[one["score"] for one in each] for each in found], [[one["score"] for one in each] for each in expected])
    single = service.post("/predict", {"model": "sst2", "inputs": TEXTS[0]})
    assert_alike(single, found[0])
    pair = service.post("/predict", {"model": "sst2", "inputs": TEXTS[:2], "raw_scores": True})
    (expected,) = pipe([tuple(TEXTS[:2])], top_k=None, function_to_apply="none")
    near([each["score"] for each in pair], [each["score"] for each in expected])


def test_rerank_by_a_classifier_and_by_vectors(service):
    body = {"query": "the cat", "texts": TEXTS, "return_text": True}
    expected = [each["score"] for each in service.pipe("reranker")([("the cat", text) for text in TEXTS])]
    found = service.post("/rerank", {**body, "model": "reranker"})
    assert [each["index"] for each in found] == sorted(range(3), key=lambda i: -expected[i])
    assert all(each["text"] == TEXTS[each["index"]] for each in found)
    near([each["score"] for each in sorted(found, key=lambda each: each["index"])], expected)
    by_vectors = service.post("/rerank", {**body, "model": "minilm"})
    expected = service.pipe("minilm")(source_sentence="the cat", sentences=TEXTS)
    near([each["score"] for each in sorted(by_vectors, key=lambda each: each["index"])], expected)
    assert service.post("/rerank", {"query": "the cat", "texts": []}) == []
    assert service.refused("/rerank", {**body, "model": "sst2"})[0] == 422


def test_similarity(service):
    inputs = {"source_sentence": "the cat", "sentences": TEXTS}
    near(service.post("/similarity", {"inputs": inputs}), service.pipe("minilm")(**inputs))
    assert service.post("/similarity", {"inputs": {**inputs, "sentences": []}}) == []


def test_tokenize(service):
    (tokens,) = service.post("/tokenize", {"inputs": "so good [MASK]"})
    tokenizer = service.pipe("minilm").tokenizer
    assert [each["id"] for each in tokens] == tokenizer.encode("so good [MASK]", split_special_tokens=True)
    assert tokens[0] == {"id": 2, "text": "[CLS]", "special": True, "start": None, "stop": None}
    assert (tokens[1]["text"], tokens[1]["start"], tokens[1]["stop"]) == ("so", 0, 2)
    plain = service.post("/tokenize", {"inputs": ["so"], "add_special_tokens": False})
    assert [each["text"] for each in plain[0]] == ["so"]


@pytest.mark.parametrize(
    ("model", "task", "arguments"),
    [
        ("sst2", "text-classification", {"inputs": TEXTS, "top_k": 2}),
        ("sst2", "sentiment-analysis", {"inputs": TEXTS[0]}),
        ("sst2", "text-classification", {"text": TEXTS[0], "text_pair": TEXTS[1]}),
        ("ner", "token-classification", {"inputs": TEXTS, "aggregation_strategy": "simple"}),
        ("fill", "fill-mask", {"inputs": "the [MASK] sat", "top_k": 2}),
        ("minilm", "sentence-similarity", {"source_sentence": TEXTS[0], "sentences": TEXTS}),
        ("gpt2", "text-generation", {"inputs": ["Once upon", "She"], "max_new_tokens": 7}),
        ("gpt2", "text-generation", {"inputs": "Once", "max_new_tokens": 7, "num_beams": 3}),
        ("gpt2", "text-generation", {"inputs": "Once", "max_new_tokens": 7, "do_sample": True, "seed": 3}),
    ],
)
def test_tasks_answer_as_their_pipelines_do(service, model, task, arguments):
    found = service.post(f"/tasks/{task}", {"model": model, **arguments})
    assert_alike(found, service.pipe(model)(**arguments))


def assert_alike(found, expected):
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert_alike(found[name], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_alike(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-6)
    else:
        assert found == expected


def test_a_task_needs_a_model_that_does_it(service):
    status, error = service.refused("/tasks/question-answering", {"inputs": "so"})
    assert status == 404 and "sst2 (text-classification)" in error["error"]
    status, error = service.refused("/tasks/text-classification", {"inputs": "so", "model": "gpt2"})
    assert (status, error["field"]) == (422, "model")
    status, error = service.refused("/tasks/text-clasification", {"inputs": "so"})
    assert status == 422 and "did you mean 'text-classification'" in error["error"]
    status, error = service.refused("/embed", {"inputs": "so", "model": "none"})
    assert (status, error["field"]) == (404, "model")


def test_special_tokens_in_texts_stay_text(service):
    """Who sends a text cannot end it, mask it or separate it."""
    pipe = service.pipe("sst2")
    hostile = "so [SEP] good [MASK]"
    (found,) = service.post("/tasks/text-classification", {"model": "sst2", "inputs": hostile})
    assert_alike([found], pipe(hostile, split_special_tokens=True))
    assert found["score"] != pytest.approx(pipe(hostile)[0]["score"], abs=1e-4)


def test_status_routes(service):
    assert service.client.get("/health").json() == {"status": "ok"}
    info = service.client.get("/info").json()
    assert (info["model_id"], info["max_input_length"], len(info["models"])) == ("minilm", 64, 6)
    assert service.client.get("/nothing").json()["error"].startswith("there is no such path")
    assert service.client.get("/embed").status_code == 405
    figures = service.client.get("/metrics").text
    assert 'glass_requests_total{route="/health",status="200"}' in figures


def test_the_documentation_needs_no_network(service):
    page = service.client.get("/docs").text
    assert "/v1/completions" in page and "minilm" in page and "http://" not in page.replace("http://HOST", "")
    schema = service.client.get("/openapi.json").json()
    assert schema["openapi"].startswith("3.")
    body = schema["paths"]["/embed"]["post"]["requestBody"]["content"]["application/json"]
    assert body["schema"]["$ref"].rpartition("/")[2] in schema["components"]["schemas"]
    assert service.post("/embed", body["example"])


def test_every_example_of_the_documentation_is_answered(service):
    models = {"minilm": "minilm", "gpt2": "gpt2"}
    for path, operations in service.client.get("/openapi.json").json()["paths"].items():
        content = operations.get("post", {}).get("requestBody", {}).get("content")
        if content is not None:
            example = content["application/json"]["example"]
            task, model = ("text-classification", "sst2")
            assert example.get("model") in (None, *models)
            service.post(path.format(task=task, model=model), example)
