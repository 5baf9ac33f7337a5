"""T5 beside transformers, whose norms and softmax are computed in float32 whatever the type of the model."""

from __future__ import annotations

import pytest
import torch

import glassformer
from glassformer import T5Config, T5EncoderModel, T5ForConditionalGeneration, T5Model
from glassformer.models.t5 import distance_buckets

from .architectures import tokens
from .encoder_decoders import T5, tiny_t5

CLASSES = [T5ForConditionalGeneration, T5Model, T5EncoderModel]


@pytest.fixture(params=list(T5.variants))
def config(request) -> T5Config:
    torch.manual_seed(0)
    return tiny_t5(**T5.variants[request.param])


@pytest.fixture
def batch():
    torch.manual_seed(1)
    mask = torch.ones(2, 30).long()
    mask[1, 14:] = 0
    return {"input_ids": tokens(2, 30) * mask, "attention_mask": mask}


@pytest.fixture
def exact_norm(monkeypatch):
    """transformers with its norm in the type of the model."""
    module = pytest.importorskip("transformers.models.t5.modeling_t5")

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))

    monkeypatch.setattr(module.T5LayerNorm, "forward", forward)
    return __import__("transformers")


def inputs_for(kind, batch):
    target = tokens(2, 6)
    if kind is T5EncoderModel:
        return batch
    if kind is T5Model:
        return {**batch, "decoder_input_ids": target}
    return {**batch, "labels": target.masked_fill(torch.tensor([[0] * 6, [0, 0, 0, 1, 1, 1]]).bool(), -100)}


@torch.no_grad()
@pytest.mark.parametrize("kind", CLASSES)
def test_equals_transformers(config, kind, batch, exact_norm, tmp_path):
    model = kind(config).double().eval()
    model.save_pretrained(tmp_path)
    reference, info = getattr(exact_norm, kind.__name__).from_pretrained(
        tmp_path, dtype=torch.float64, output_loading_info=True
    )
    assert not info["missing_keys"] and not info["unexpected_keys"]
    reference.eval()
    given = inputs_for(kind, batch)
    ours, theirs = model(**given, output_hidden_states=True), reference(**given, output_hidden_states=True)
    assert list(ours) == list(theirs)
    seen = batch["attention_mask"].bool()
    states = "hidden_states" if kind is T5EncoderModel else "encoder_hidden_states"
    for a, b in zip(ours[states], theirs[states], strict=True):
        torch.testing.assert_close(a[seen], b[seen], rtol=1e-10, atol=1e-10)
    if kind is T5ForConditionalGeneration:
        torch.testing.assert_close(ours.loss, theirs.loss.double(), rtol=1e-6, atol=1e-6)
        said = given["labels"] >= 0
        torch.testing.assert_close(ours.logits[said], theirs.logits[said], rtol=1e-10, atol=1e-10)
    if kind is T5Model:
        torch.testing.assert_close(ours.last_hidden_state, theirs.last_hidden_state, rtol=1e-10, atol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("kind", CLASSES)
def test_reads_files_of_transformers(config, kind, batch, tmp_path):
    transformers = pytest.importorskip("transformers")
    reference = getattr(transformers, kind.__name__)(transformers.T5Config(**config.to_diff_dict())).eval()
    reference.save_pretrained(tmp_path)
    model = kind.from_pretrained(tmp_path)
    assert not model.load_report.initialised and not model.load_report.unused
    given = inputs_for(kind, batch)
    key = {T5ForConditionalGeneration: "loss", T5Model: "last_hidden_state", T5EncoderModel: "last_hidden_state"}[kind]
    ours, theirs = model(**given)[key], reference(**given)[key]
    seen = batch["attention_mask"].bool() if kind is T5EncoderModel else torch.ones(ours.shape[:2]).bool()
    torch.testing.assert_close(
        ours[seen] if ours.dim() else ours, theirs[seen] if ours.dim() else theirs, rtol=1e-5, atol=1e-5
    )
    if kind is not T5EncoderModel:
        assert type(glassformer.AutoModel.from_pretrained(tmp_path)) is T5Model


@torch.no_grad()
@pytest.mark.parametrize("settings", [{}, {"num_beams": 3}], ids=["greedy", "beams"])
def test_writes_what_transformers_writes(batch, settings, tmp_path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    model = T5ForConditionalGeneration(tiny_t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False)).eval()
    model.save_pretrained(tmp_path)
    reference = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path).eval()
    wanted = reference.generate(**batch, max_new_tokens=20, **settings)
    assert model.generate(**batch, max_new_tokens=20, **settings).tolist() == wanted.tolist()


@pytest.mark.parametrize("both_ways", [True, False])
def test_buckets_are_those_of_the_original(both_ways):
    module = pytest.importorskip("transformers.models.t5.modeling_t5")
    distances = torch.arange(-300, 300)
    for buckets, longest in ((32, 128), (8, 10), (12, 300)):
        expected = module.T5Attention._relative_position_bucket(-distances, both_ways, buckets, longest)
        assert torch.equal(distance_buckets(distances, buckets, longest, both_ways), expected)


def test_the_feed_forward_is_named_by_its_activation():
    assert (tiny_t5(feed_forward_proj="gated-gelu").hidden_act, tiny_t5().hidden_act) == ("gelu_new", "relu")
    with pytest.raises(glassformer.ConfigError, match="an activation, or gated-ACTIVATION"):
        tiny_t5(feed_forward_proj="gated-reluu")
