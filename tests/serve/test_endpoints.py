"""The responses of the explorer's endpoints are the model's own numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from glassformer import (
    BertForNextSentencePrediction,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    Subject,
    pipeline,
)
from glassformer.explain.analysis.attribution import attribute
from glassformer.explain.analysis.head_measures import MEASURES
from glassformer.explain.analysis.interventions import Intervention, intervene
from glassformer.explain.analysis.logit_lens import predict

from ..models.architectures import tiny_bert
from ..tasks.conftest import save
from ..tasks.tiny import VOCAB
from .conftest import HOSTILE, TEXT
from .test_local_server import post


def post_json(explorer, name: str, **fields):
    code, _, body = post(explorer[1], name, fields)
    assert code == 200, body
    return json.loads(body)


def post_numbers(explorer, name: str, **fields) -> np.ndarray:
    code, _, body = post(explorer[1], name, fields)
    assert code == 200, body
    return np.frombuffer(body, "<f4")


@pytest.fixture(scope="module")
def read(explorer) -> dict:
    return post_json(explorer, "read", text=TEXT)


def test_tokens_are_not_split(read):
    assert set(HOSTILE) <= set(read["tokens"])
    assert read["special"] == [token in ("[CLS]", "[SEP]", "[UNK]") for token in read["tokens"]]


@torch.no_grad()
def test_heads_equal_the_model(explorer, read, hostile_subject):
    model = hostile_subject.model
    out = model.base_model(torch.tensor([read["ids"]]), output_attentions=True)
    count = len(read["ids"])
    for layer, head in ((0, 0), (1, 3), (2, 1)):
        weights = post_numbers(explorer, "head", reading=read["reading"], layer=layer, head=head).reshape(count, count)
        np.testing.assert_allclose(weights, out.attentions[layer][0, head].numpy(), atol=1e-6)
        np.testing.assert_allclose(weights.sum(1), 1, atol=1e-5)
    for what in ("mean", "rollout"):
        flow = post_numbers(explorer, "flow", reading=read["reading"], layer=2, what=what).reshape(count, count)
        np.testing.assert_allclose(flow.sum(1), 1, atol=1e-5)
    mean = post_numbers(explorer, "flow", reading=read["reading"], layer=1, what="mean").reshape(count, count)
    np.testing.assert_allclose(mean, out.attentions[1][0].mean(0).numpy(), atol=1e-6)


def test_the_overview_has_every_head(explorer, read):
    assert [(each["layer"], each["head"]) for each in read["parts"]["all"]["heads"]] == [
        (i, j) for i in range(3) for j in range(4)
    ]
    assert all(list(each["measures"]) == list(MEASURES) for each in read["parts"]["all"]["heads"])
    _, _, body = post(explorer[1], "thumbs", {"reading": read["reading"]})
    assert len(body) == 12 * read["parts"]["all"]["thumb"]["rows"] * read["parts"]["all"]["thumb"]["columns"]
    head = post_numbers(explorer, "head", reading=read["reading"], layer=2, head=3)
    assert np.array_equal(np.frombuffer(body, "u1")[-len(head) :], np.round(head * 255).astype("u1"))


def test_thumbnails_of_long_texts_saturate_at_smaller_weights(explorer):
    read = post_json(explorer, "read", text="the cat " * 20)
    count = len(read["ids"])
    assert count > 24
    _, _, body = post(explorer[1], "thumbs", {"reading": read["reading"]})
    head = post_numbers(explorer, "head", reading=read["reading"], layer=0, head=0)
    pictures = np.frombuffer(body, "u1")[: count * count]  # not smaller than the text
    assert np.array_equal(pictures, np.minimum(np.round(head * 255 * count / 24), 255).astype("u1"))


def test_cross_attention_has_no_distance_measure(translator):
    read = post_json(translator, "read", text="the cat sat", pair="so good")
    names = {name: list(part["heads"][0]["measures"]) for name, part in read["parts"].items()}
    assert names["encoder"] == names["decoder"] == list(MEASURES)
    assert names["cross"] == ["entropy", "first", "separator", "largest"]


def test_queries_and_keys_give_the_weights(explorer, read):
    layer, row = read["parts"]["all"]["layers"]["1"], 4
    found = post_numbers(explorer, "neuron", reading=read["reading"], layer=1, head=2, row=row).astype("f8")
    count, size = len(read["ids"]), layer["vectors"]["size"]
    query, keys, rest = (
        found[:size],
        found[size : size + count * size].reshape(count, size),
        found[size + count * size :],
    )
    scores = (keys @ query + rest[:count]) * layer["vectors"]["scale"]
    weights = np.exp(scores - scores.max())
    np.testing.assert_allclose(weights / weights.sum(), rest[count:], atol=1e-6)


@torch.no_grad()
def test_predictions_equal_the_model(explorer, read, hostile_subject):
    logits = hostile_subject.model(torch.tensor([read["ids"]])).logits[0, 3]
    guesses = post_json(explorer, "predict", reading=read["reading"], position=3, count=5)["guesses"]
    best = logits.softmax(-1).topk(5)
    assert [guess["id"] for guess in guesses] == best.indices.tolist()
    assert [guess["probability"] for guess in guesses] == pytest.approx(best.values.tolist(), abs=1e-6)
    few = post_json(explorer, "predict", reading=read["reading"], position=3, top_k=2, temperature=0.5)["guesses"]
    assert [guess["narrowed"] > 0 for guess in few][:4] == [True, True, False, False]
    masked = post_json(explorer, "read", text=TEXT, mask=3)
    assert masked["tokens"][3] == "[MASK]"
    lens = post_json(explorer, "lens", reading=read["reading"], positions=[3])["layers"]
    assert len(lens) == 4
    assert lens[-1][0][0]["id"] == guesses[0]["id"]


@torch.no_grad()
def test_interventions(explorer, read, hostile_subject):
    effect = post_json(explorer, "change", reading=read["reading"], heads={"0": {"1": 0.0}}, position=3)
    mask = torch.ones(3, 4)
    mask[0, 1] = 0
    logits = hostile_subject.model(torch.tensor([read["ids"]]), head_mask=mask).logits[0, 3]
    assert effect["after"][0]["probability"] == pytest.approx(logits.softmax(-1).max().item(), abs=1e-5)
    assert effect["divergence"] > 0
    assert len(effect["moved"]) == len(read["ids"])
    nothing = post_json(explorer, "change", reading=read["reading"], position=3)
    assert nothing["divergence"] == pytest.approx(0, abs=1e-9)
    patched = post_json(explorer, "change", reading=read["reading"], source=TEXT, layer=1, position=3)
    assert patched["divergence"] == pytest.approx(0, abs=1e-9)  # its own vectors change nothing
    other = post_json(
        explorer, "change", reading=read["reading"], source="the dog", layer=1, here=3, there=2, position=3
    )
    assert other["divergence"] > 0


@torch.no_grad()
def test_switching_off_cross_attention_heads(translator):
    explorer, _ = translator
    subject = explorer.subjects[0]
    reading = subject.read("the cat sat", "so good")
    effect = intervene(reading, Intervention(cross_heads={2: {1: 0.0}}), position=1)
    mask = torch.ones(3, 4)
    mask[0, 1] = 0
    ids, words = torch.tensor([reading.source.ids]), torch.tensor([reading.ids])
    logits = subject.model(ids, decoder_input_ids=words, cross_attn_head_mask=mask).logits[0, 1]
    assert effect.after[0].probability == pytest.approx(logits.softmax(-1).max().item(), abs=1e-5)
    assert effect.divergence > 0


@pytest.mark.parametrize("method", ["saliency", "input-x-gradient", "integrated-gradients", "occlusion"])
def test_attribution(explorer, read, method):
    found = post_json(explorer, "attribute", reading=read["reading"], method=method, position=3)
    assert found["hidden"] == "[MASK]"
    assert len(found["scores"]) == len(read["ids"])
    assert found["target"].startswith("log-probability of")
    if method == "integrated-gradients":
        assert abs(found["gap"]) < 0.1 * max(1.0, abs(found["value"]))


def test_compare(explorer, read):
    same = post_json(explorer, "compare", first=read["reading"], second=read["reading"])
    assert [row[i] for i, row in enumerate(same["cka"])] == pytest.approx([1.0] * 4)
    other = post_json(explorer, "read", text=TEXT, model=1)
    table = post_json(explorer, "compare", first=read["reading"], second=other["reading"])["cka"]
    assert all(0 <= value < 1 for row in table for value in row)
    short = post_json(explorer, "read", text="the cat")
    assert post_json(explorer, "compare", first=read["reading"], second=short["reading"])["cka"] is None


def test_anatomy_counts_every_parameter(explorer, hostile_subject):
    tree = post_json(explorer, "anatomy")
    assert tree["parameters"] == hostile_subject.model.num_parameters()


def test_generation_reports_every_step(generator):
    found = post_json(generator, "generate", text="Once upon", steps=6)
    assert len(found["steps"]) == len(found["tokens"]) - found["start"]
    assert all(step["others"][0][0] == step["chosen"] for step in found["steps"])  # greedy takes the likeliest
    samples = [
        post_json(generator, "generate", text="Once upon", steps=6, sample=True, seed=seed) for seed in (1, 1, 2)
    ]
    assert samples[0] == samples[1]
    assert samples[0] != samples[2]


def test_old_readings_are_discarded(explorer):
    numbers_of = [post_json(explorer, "read", text=f"the cat {'the ' * i}")["reading"] for i in range(7)]
    code, _, body = post(explorer[1], "predict", {"reading": numbers_of[0]})
    assert code == 400
    assert b"read it again" in body


def test_attribution_reaches_the_source_of_an_encoder_decoder(translator):
    """The scores of occlusion are the change of the answer when a word is hidden."""
    read = post_json(translator, "read", text="the cat", pair="so good film")
    assert list(read["parts"]) == ["encoder", "decoder", "cross"]
    fields = {"reading": read["reading"], "position": 1, "target": 7}
    subject = translator[0].subjects[0]
    model, source, target = subject.model, read["parts"]["encoder"]["left"]["ids"], read["ids"]

    def answer(source=source, target=target):
        with torch.no_grad():
            scores = model(torch.tensor([source]), decoder_input_ids=torch.tensor([target])).logits[0, 1]
        return scores.log_softmax(-1)[7].item()

    found = post_json(translator, "attribute", method="occlusion", **fields)
    assert found["tokens"] == ["[CLS]", "the", "cat", "[SEP]", *read["tokens"]]
    assert found["source"] == 4
    assert found["value"] == pytest.approx(answer(), abs=1e-5)
    mask = subject.tokenizer.mask_token_id
    hidden = [source[0], mask, *source[2:]], [target[0], mask, *target[2:]]
    assert found["scores"][1] == pytest.approx(answer() - answer(source=hidden[0]), abs=1e-5)
    assert found["scores"][5] == pytest.approx(answer() - answer(target=hidden[1]), abs=1e-5)
    assert found["scores"][0] == found["scores"][3] == 0  # special tokens stay
    summed = post_json(translator, "attribute", method="integrated-gradients", **fields)
    assert abs(summed["gap"]) < 0.1
    assert summed["scores"][6:] == pytest.approx([0, 0], abs=1e-6)  # what comes after the place is not seen
    assert all(value > 0 for value in post_json(translator, "attribute", method="saliency", **fields)["scores"][:6])
    code, _, body = post(translator[1], "attribute", {**fields, "method": "saliency", "target": 10**6})
    assert (code, b"there are answers 0 to" in body) == (400, True)


def test_rollout_follows_source_and_target(translator):
    read = post_json(translator, "read", text="the cat sat", pair="so good")
    fields = {"reading": read["reading"], "what": "rollout"}
    reading = translator[0].kept[read["reading"]].reading
    weights = {
        (kind, layer): reading.weights(layer, kind=kind).mean(0)
        for kind, layers in (("attention", range(5)), ("crossattention", range(2, 5)))
        for layer in layers
    }
    size, long = len(reading.source.ids), len(reading.ids)
    flow = torch.eye(size + long)  # one graph of all tokens, the source's first
    for layer in range(5):
        step = torch.eye(size + long)
        here = slice(0, size) if layer < 2 else slice(size, None)
        step[here, here] = (step[here, here] + weights["attention", layer]) / 2
        flow = step @ flow
        if layer >= 2:
            step = torch.eye(size + long)
            step[size:, size:] /= 2
            step[size:, :size] = weights["crossattention", layer] / 2
            flow = step @ flow
        if layer in (0, 1):
            assert post_numbers(translator, "flow", **fields, part="encoder", layer=layer) == pytest.approx(
                flow[:size, :size].flatten().tolist(), abs=1e-6
            )
    for part, wanted in (("decoder", flow[size:, size:]), ("cross", flow[size:, :size])):
        found = post_numbers(translator, "flow", **fields, part=part, layer=4)
        assert found == pytest.approx(wanted.flatten().tolist(), abs=1e-6)
    assert flow.sum(-1).tolist() == pytest.approx([1.0] * (size + long))


def test_patched_positions_are_those_of_the_layer(translator):
    read = post_json(translator, "read", text="the cat sat on the mat", pair="so good")
    fields = {"reading": read["reading"], "source": "the dog sat on the mat", "layer": 0}
    assert (
        post_json(translator, "change", **fields, here=6, there=6)["divergence"] >= 0
    )  # the encoder read eight tokens
    code, _, body = post(translator[1], "change", {**fields, "here": 9, "there": 0})
    assert (code, b"positions 0 to 7" in body) == (400, True)


def test_requests_that_a_recurrent_translator_does_not_support_are_refused(recurrent):
    read = post_json(recurrent, "read", text="the cat", pair="so good")
    assert list(read["parts"]) == ["cross"]
    fields = {"reading": read["reading"], "layer": 0}
    for name, more, message in (
        ("neuron", {"head": 0, "row": 0}, b"do not come from queries and keys"),
        ("flow", {"what": "rollout"}, b"has no layers of it"),
        ("head", {"head": 1}, b"has one head, 0, got [1]"),
    ):
        code, _, body = post(recurrent[1], name, {**fields, **more})
        assert (code, message in body) == (400, True), body


def test_the_start_token_of_a_target_is_no_word(translator):
    found = post_json(translator, "generate", text="the cat", steps=3)
    assert found["pieces"][0] == ""
    assert not found["pieces"][1].startswith(" ")  # no word stands before the first one
    assert len(found["pieces"]) == len(found["tokens"])


@pytest.mark.parametrize("factor", [float("nan"), "inf", 1e300])
def test_large_factors_are_refused(explorer, factor):
    number = post_json(explorer, "read", text=TEXT)["reading"]
    code, _, body = post(explorer[1], "change", {"reading": number, "heads": {"0": {"0": factor}}})
    assert (code, b"at most 1000" in body) == (400, True)


def test_a_patch_of_one_token_names_both(explorer):
    fields = {"reading": post_json(explorer, "read", text=TEXT)["reading"], "source": "the dog", "layer": 1, "here": 2}
    code, _, body = post(explorer[1], "change", fields)
    assert (code, b"name both tokens" in body) == (400, True)
    post_json(explorer, "change", **fields, there=1)


@pytest.mark.parametrize(
    "fields", [{"num_labels": 1}, {"num_labels": 3, "problem_type": "multi_label_classification"}, {"num_labels": 3}]
)
def test_labels_are_scored_as_the_task_does(fields, tmp_path):
    torch.manual_seed(0)
    folder = save(tmp_path, BertForSequenceClassification(tiny_bert(vocab_size=len(VOCAB), **fields)))
    answer = pipeline("text-classification", model=folder, top_k=None)("the cat")[0]
    guesses = predict(Subject.load(folder).read("the cat"))
    assert [guess.text for guess in guesses] == [each["label"] for each in answer]
    assert [guess.probability for guess in guesses] == pytest.approx([each["score"] for each in answer], abs=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("kind", [BertForTokenClassification, BertForNextSentencePrediction, BertForQuestionAnswering])
def test_heads_of_other_tasks(kind, tmp_path, caplog):
    """Labels of tokens, and whether a text follows; a head without predictions supports everything else."""
    torch.manual_seed(0)
    subject = Subject.load(save(tmp_path, kind(tiny_bert(vocab_size=len(VOCAB), num_labels=4))))
    assert not caplog.records  # no weights had to be initialised
    reading = subject.read("the cat", "so good")
    guesses = predict(reading, 2)
    logits = subject.model(**subject.inputs(reading))[0].squeeze(0)
    if kind is BertForQuestionAnswering:
        assert (subject.kind, guesses) == ("none", [])
        assert attribute(reading, "saliency", 2).word == ""
        return
    scores = logits[2] if kind is BertForTokenClassification else logits
    assert guesses[0].probability == pytest.approx(scores.softmax(-1).max().item(), abs=1e-5)
    assert guesses[0].text == (
        f"LABEL_{scores.argmax()}" if len(scores) == 4 else ("IsNext", "NotNext")[scores.argmax()]
    )
    assert attribute(reading, "occlusion", 2).value == pytest.approx(scores.max().item(), abs=1e-5)
    assert intervene(reading, Intervention(skip=[0]), 2).divergence > 0


@torch.no_grad()
def test_the_attribution_of_a_vector_is_its_projection(hostile_subject):
    """After a LayerNorm the length of vectors hardly depends on the text."""
    torch.manual_seed(0)
    subject = Subject(
        BertModel(tiny_bert(vocab_size=hostile_subject.model.config.vocab_size)), hostile_subject.tokenizer
    )
    reading = subject.read("the cat sat")
    found = attribute(reading, "occlusion", 1)
    hidden = subject.reading_of([i if place != 2 else 4 for place, i in enumerate(reading.ids)], reading.segments)
    moved = 1 - F.cosine_similarity(reading.hidden[-1][1], subject.run(hidden).hidden[-1][1], dim=0)
    assert found.scores[2] == pytest.approx(moved.item() * found.value, abs=1e-4)
    assert found.value == pytest.approx(reading.hidden[-1][1].norm().item(), abs=1e-4)
    assert found.scores[2] > 0.01
