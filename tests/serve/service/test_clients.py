"""The official clients of OpenAI and Hugging Face, unchanged."""

from __future__ import annotations

import numpy as np
import pytest

openai = pytest.importorskip("openai")
from huggingface_hub import InferenceClient  # noqa: E402

TEXTS = ["the cat sat on the mat", "so good"]


@pytest.fixture(scope="module")
def client(service):
    with openai.OpenAI(base_url=service.address + "/v1", api_key="none", max_retries=0) as found:
        yield found


def test_models(client):
    assert [each.id for each in client.models.list()] == ["minilm", "sst2", "reranker", "ner", "fill", "gpt2"]
    assert client.models.retrieve("gpt2").object == "model"
    with pytest.raises(openai.NotFoundError, match="there is no model 'gpt3'"):
        client.models.retrieve("gpt3")


def test_embeddings(client, service):
    expected = service.pipe("minilm").encode(TEXTS, normalize_embeddings=True)
    for more in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}):
        found = client.embeddings.create(model="minilm", input=TEXTS, **more)
        if more.get("encoding_format") != "base64":
            np.testing.assert_allclose([each.embedding for each in found.data], expected, atol=1e-6)
    assert found.usage.prompt_tokens == 12
    few = np.array(client.embeddings.create(model="minilm", input=TEXTS[0], dimensions=4).data[0].embedding)
    np.testing.assert_allclose(few, expected[0][:4] / np.linalg.norm(expected[0][:4]), atol=1e-6)
    with pytest.raises(openai.UnprocessableEntityError) as error:
        client.embeddings.create(model="minilm", input=TEXTS, dimensions=1000)
    assert error.value.body["param"] == "dimensions"


def test_completions(client, service):
    pipe = service.pipe("gpt2")
    for prompt in ("Once upon a time", "She said:"):
        (expected,) = pipe(prompt, max_new_tokens=9, return_full_text=False)
        found = client.completions.create(model="gpt2", prompt=prompt, max_tokens=9, temperature=0)
        assert found.choices[0].text == expected["generated_text"]
        assert found.choices[0].finish_reason == ("length" if found.usage.completion_tokens == 9 else "stop")
    both = client.completions.create(model="gpt2", prompt=["Once", "She"], max_tokens=5, temperature=0)
    assert [each.index for each in both.choices] == [0, 1]
    ids = pipe.tokenizer.encode("Once upon")
    by_ids = client.completions.create(model="gpt2", prompt=ids, max_tokens=5, temperature=0, echo=True)
    assert by_ids.choices[0].text.startswith("Once upon")


def test_sampled_completions_repeat_with_a_seed(client):
    options = {"model": "gpt2", "prompt": "Once", "max_tokens": 12, "n": 3, "seed": 7}
    first, second = (client.completions.create(**options) for _ in range(2))
    texts = [each.text for each in first.choices]
    assert texts == [each.text for each in second.choices] and len({*texts}) == 3
    assert texts != [each.text for each in client.completions.create(**{**options, "seed": 8}).choices]


@pytest.mark.parametrize("more", [{}, {"n": 2}, {"echo": True}, {"logprobs": 2}])
def test_a_stream_adds_up_to_the_whole(client, more):
    options = {"model": "gpt2", "prompt": ["Once upon", "从前"], "max_tokens": 12, "seed": 3, **more}
    whole = client.completions.create(**options)
    texts, reasons, tokens = {}, {}, {}
    for event in client.completions.create(**options, stream=True, stream_options={"include_usage": True}):
        for choice in event.choices:
            texts[choice.index] = texts.get(choice.index, "") + choice.text
            if choice.finish_reason:
                reasons[choice.index] = choice.finish_reason
            if choice.logprobs:
                tokens[choice.index] = tokens.get(choice.index, []) + choice.logprobs.token_logprobs
    assert event.usage == whole.usage
    assert texts == {each.index: each.text for each in whole.choices}
    assert reasons == {each.index: each.finish_reason for each in whole.choices}
    if "logprobs" in more:
        assert tokens == {each.index: pytest.approx(each.logprobs.token_logprobs, abs=1e-5) for each in whole.choices}


def test_stop(client):
    options = {"model": "gpt2", "prompt": "Once upon", "max_tokens": 20, "temperature": 0}
    full = client.completions.create(**options).choices[0].text
    stop = full[len(full) // 2 : len(full) // 2 + 3]
    for found in (
        client.completions.create(**options, stop=stop).choices[0].text,
        "".join(each.choices[0].text for each in client.completions.create(**options, stop=[stop], stream=True)),
    ):
        assert found == full[: full.index(stop)]


def test_log_probabilities(client, service):
    import torch

    prompt = "Once upon a time"
    found = client.completions.create(model="gpt2", prompt=prompt, max_tokens=4, temperature=0, logprobs=3, echo=True)
    scores = found.choices[0].logprobs
    pipe = service.pipe("gpt2")
    ids = torch.tensor([pipe.tokenizer.encode(prompt + found.choices[0].text[len(prompt) :])])
    new = client.completions.create(model="gpt2", prompt=prompt, max_tokens=4, temperature=0).usage.completion_tokens
    if len(scores.tokens) == ids.shape[1]:  # the text has the tokens that were generated
        with torch.no_grad():
            expected = pipe.model(ids).logits.log_softmax(-1)[0, :-1].gather(1, ids[0, 1:, None])[:, 0]
        assert scores.token_logprobs[0] is None
        np.testing.assert_allclose(scores.token_logprobs[1:], expected, atol=1e-5)
    assert len(scores.tokens) == len(pipe.tokenizer.encode(prompt)) + new
    assert "".join(scores.tokens).startswith(prompt)
    assert all(len(each) == 3 for each in scores.top_logprobs[1:])
    only_prompt = client.completions.create(model="gpt2", prompt=prompt, max_tokens=0, logprobs=1, echo=True)
    assert only_prompt.choices[0].text == prompt
    assert only_prompt.choices[0].logprobs.token_logprobs[1:] == pytest.approx(
        scores.token_logprobs[1 : len(pipe.tokenizer.encode(prompt))], abs=1e-5
    )


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"temperature": -1}, "temperature"),
        ({"n": 17}, "n"),
        ({"seed": 2**63}, "seed"),
        ({"top_p": 0}, "top_p"),
        ({"best_of": 3}, "best_of"),
        ({"presence_penalty": 1}, "presence_penalty"),
        ({"prompt": [10**6]}, "prompt"),
        ({"prompt": "so " * 200}, "prompt"),
        ({"stop": [""]}, "stop"),
        ({"n": 2, "temperature": 0}, "n"),
    ],
)
def test_a_wrong_field_is_named(client, more, field):
    with pytest.raises(openai.UnprocessableEntityError) as error:
        client.completions.create(**{"model": "gpt2", "prompt": "Once", **more})
    assert error.value.body["param"] == field, error.value.body


def test_hugging_face_client(service, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.is_offline_mode", lambda: False)  # it is on in tests

    def at(name: str) -> InferenceClient:
        return InferenceClient(model=f"{service.address}/models/{name}")

    vectors = InferenceClient(model=service.address).feature_extraction("so good")
    np.testing.assert_allclose(
        vectors, [service.pipe("minilm").encode("so good", normalize_embeddings=True)], atol=1e-6
    )
    scores = at("minilm").sentence_similarity("so good", TEXTS)
    assert scores == pytest.approx(service.pipe("minilm")("so good", TEXTS), abs=1e-6)
    best = at("sst2").text_classification("so good")
    assert [each.label for each in best] == [each["label"] for each in service.pipe("sst2")("so good", top_k=3)]
    assert at("fill").fill_mask("the [MASK] sat")[0].token_str == service.pipe("fill")("the [MASK] sat")[0]["token_str"]
    assert isinstance(at("ner").token_classification("the cat"), list)
    text = at("gpt2").text_generation("Once upon", max_new_tokens=6, do_sample=False)
    assert text == service.pipe("gpt2")("Once upon", max_new_tokens=6)[0]["generated_text"]
