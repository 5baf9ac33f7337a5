"""T5 beside transformers, whose norms and softmax are computed in float32 whatever the type of the model."""

from __future__ import annotations

import pytest
import torch

import glassformer
from glassformer import (
    InputError,
    LoraConfig,
    T5Config,
    T5EncoderModel,
    T5ForConditionalGeneration,
    T5ForQuestionAnswering,
    T5ForSequenceClassification,
    T5ForTokenClassification,
    T5Model,
    add_lora,
    merge_lora,
)
from glassformer.models.t5 import distance_buckets

from .architectures import tokens
from .encoder_decoders import T5, tiny_t5

ENCODERS = [T5EncoderModel, T5ForTokenClassification]
CLASSES = [T5ForConditionalGeneration, T5Model, *ENCODERS, T5ForSequenceClassification, T5ForQuestionAnswering]


@pytest.fixture(params=list(T5.variants))
def config(request) -> T5Config:
    torch.manual_seed(0)
    return tiny_t5(**T5.variants[request.param])


@pytest.fixture
def batch():
    torch.manual_seed(1)
    mask = torch.ones(2, 30).long()
    mask[1, 14:] = 0
    ids = tokens(2, 30).clamp(min=3)
    ids[0, 29] = ids[1, 13] = ids[0, 5] = ids[1, 3] = 2  # the ends of two texts each
    return {"input_ids": ids * mask, "attention_mask": mask}


@pytest.fixture
def exact_norm(monkeypatch):
    """transformers with its norm in the type of the model."""
    module = pytest.importorskip("transformers.models.t5.modeling_t5")

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))

    monkeypatch.setattr(module.T5LayerNorm, "forward", forward)
    return __import__("transformers")


POSITIONS = ("start_positions", "end_positions")


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def inputs_for(kind, batch):
    target = tokens(2, 6)
    hidden = batch["attention_mask"] == 0
    return (
        batch
        | {
            T5EncoderModel: {},
            T5Model: {"decoder_input_ids": target},
            T5ForConditionalGeneration: {
                "labels": target.masked_fill(torch.tensor([[0] * 6, [0, 0, 0, 1, 1, 1]]).bool(), -100)
            },
            T5ForSequenceClassification: {"labels": torch.tensor([1, 0])},
            T5ForTokenClassification: {"labels": (batch["input_ids"] % 2).masked_fill(hidden, -100)},
            T5ForQuestionAnswering: {"start_positions": torch.tensor([3, 2]), "end_positions": torch.tensor([4, 99])},
        }[kind]
    )


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
    unlabelled = {name: value for name, value in given.items() if name not in ("labels", *POSITIONS)}
    for inputs in (given, unlabelled) if kind is not T5ForConditionalGeneration else (given,):
        ours, theirs = model(**inputs, output_hidden_states=True), reference(**inputs, output_hidden_states=True)
        assert list(ours) == list(theirs)
        seen = batch["attention_mask"].bool()
        states = "hidden_states" if kind in ENCODERS else "encoder_hidden_states"
        for a, b in zip(ours[states], theirs[states], strict=True):
            close(a[seen], b[seen])
        for name in {"logits", "start_logits", "end_logits", "last_hidden_state"} & set(ours):
            a, b = ours[name], theirs[name]
            if kind is T5ForConditionalGeneration:
                said = given["labels"] >= 0
                a, b = a[said], b[said]
            elif a.shape[:2] == seen.shape:
                a, b = a[seen], b[seen]
            close(a, b)
        if "loss" in ours:  # the reference sums some losses in float32
            torch.testing.assert_close(ours.loss, theirs.loss.double(), rtol=1e-6, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("kind", CLASSES)
def test_reads_files_of_transformers(config, kind, batch, tmp_path):
    transformers = pytest.importorskip("transformers")
    reference = getattr(transformers, kind.__name__)(transformers.T5Config(**config.to_diff_dict())).eval()
    reference.save_pretrained(tmp_path)
    model = kind.from_pretrained(tmp_path)
    assert not model.load_report.initialised and not model.load_report.unused
    given = inputs_for(kind, batch)
    key = "last_hidden_state" if kind in (T5EncoderModel, T5Model) else "loss"
    ours, theirs = model(**given)[key], reference(**given)[key]
    seen = batch["attention_mask"].bool() if kind is T5EncoderModel else ...
    torch.testing.assert_close(ours[seen], theirs[seen], rtol=1e-5, atol=1e-5)
    again = {
        T5ForSequenceClassification: glassformer.AutoModelForSequenceClassification,
        T5ForTokenClassification: glassformer.AutoModelForTokenClassification,
        T5ForQuestionAnswering: glassformer.AutoModelForQuestionAnswering,
        T5ForConditionalGeneration: glassformer.AutoModelForPreTraining,
    }.get(kind, kind)
    assert type(again.from_pretrained(tmp_path)) is kind
    if kind not in ENCODERS:
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
    written = model.generate(**batch, max_new_tokens=20, **settings)
    # Its beams fill what is behind the end with ends, where the padding's id is 0.
    assert [until_end(row) for row in written.tolist()] == [until_end(row) for row in wanted.tolist()]
    assert len({len(until_end(row)) for row in written.tolist()}) == 2


def until_end(ids):
    return ids[: ids.index(2)] if 2 in ids else ids


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


@torch.no_grad()
@pytest.mark.parametrize("kind", CLASSES[3:])
def test_heads_do_not_see_padding_on_either_side(config, kind, batch):
    model = kind(config).double().eval()
    name = "start_logits" if kind is T5ForQuestionAnswering else "logits"
    ids, mask = batch["input_ids"], batch["attention_mask"]
    together = model(**batch)[name]
    left = model(ids.roll(16, 1)[1:], attention_mask=mask.roll(16, 1)[1:])[name][0]
    alone = model(ids[1:, :14])[name][0]
    if kind is not T5ForSequenceClassification:
        together, left = together[:, :14], left[16:]
    close(together[1], alone)
    close(left, alone)


def test_a_text_without_an_end_cannot_be_classified(batch):
    model = T5ForSequenceClassification(tiny_t5()).eval()
    with pytest.raises(InputError, match=r"text 1 has no end: the token 2 \(eos_token_id\) is not in its input_ids"):
        model(torch.tensor([[5, 2], [5, 6]]))
    with pytest.raises(InputError, match=r"as long as input_ids, .* got \[1, 3\] and \[1, 2\]"):
        model(torch.tensor([[5, 2]]), decoder_input_ids=torch.tensor([[5, 6, 2]]))
    with pytest.raises(InputError, match="give input_ids, which the decoder reads too"):
        T5ForQuestionAnswering(tiny_t5()).eval()(inputs_embeds=torch.zeros(1, 2, 32))


@torch.no_grad()
@pytest.mark.parametrize("wrong", [{"input_ids": [1]}, True, [[5, 2]], torch.tensor([[5, 2]]).to_sparse()], ids=str)
def test_what_the_decoder_reads_too_is_checked_first(wrong):
    model = T5ForSequenceClassification(tiny_t5()).eval()
    with pytest.raises(InputError, match="attention_mask must be a"):
        model(torch.tensor([[5, 2]]), attention_mask=wrong)
    with pytest.raises(InputError, match="input_ids must be a"):
        model(wrong)
    known = {"encoder_outputs": (torch.zeros(1, 2, 32),), "decoder_input_ids": torch.tensor([[0, 5]])}
    with pytest.raises(InputError, match="input_ids must be a"):
        model(wrong, **known)


@pytest.mark.parametrize("kind", CLASSES)
def test_heads_are_pruned_and_adapted(config, kind, batch, tmp_path):
    model, given = kind(config).double().eval(), inputs_for(kind, batch)
    value = next(name for name in ("logits", "start_logits", "last_hidden_state") if name in model(**given))
    count = len(model.layers)
    model.prune_heads({0: [1], count - 1: [0, 2]})
    model.save_pretrained(tmp_path)
    wanted = model(**given)[value]
    close(kind.from_pretrained(tmp_path, dtype=torch.float64).eval()(**given)[value], wanted)
    add_lora(model, LoraConfig(target_modules=["query", "value"]))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            weight.data.normal_()
    adapted = model.eval()(**given)[value]
    assert not torch.allclose(adapted, wanted)
    merge_lora(model)
    torch.testing.assert_close(model.eval()(**given)[value], adapted, rtol=1e-8, atol=1e-8)
    model = kind.from_pretrained(tmp_path).train()
    model.gradient_checkpointing_enable()
    model(**given)[value].sum().backward()
    assert all(layer.attention.self.query.weight.grad is not None for layer in model.layers)
