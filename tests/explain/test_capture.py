"""`capture` changes no result, gives what is requested, and computes nothing else."""

from __future__ import annotations

import pytest
import torch

import glassformer
from glassformer.nn import attention_weights as attention_module

from ..models.architectures import WINDOWED, Architecture, tiny_bert, tiny_gpt2, tokens
from .assertions import assert_close


def skip_windows(architecture: Architecture) -> None:
    if architecture.model_type in WINDOWED:
        pytest.skip("outputs have the weights of a window, not B H T S: see test_longformer.py")


def models_of(architecture: Architecture):
    for kind in (architecture.body, *architecture.heads):
        yield kind(architecture.tiny()).double().eval()


@torch.no_grad()
def test_capture_does_not_change_a_bit_of_the_outputs(architecture, batch):
    for model in models_of(architecture):
        plain = model(**batch, **architecture.call_of(type(model)))
        with model.capture(True, queries=True, hidden=True):
            observed = model(**batch, **architecture.call_of(type(model)))
        for a, b in zip(plain.to_tuple(), observed.to_tuple(), strict=True):
            assert torch.equal(a, b)


@torch.no_grad()
def test_captured_weights_and_states_equal_the_outputs(architecture, batch):
    skip_windows(architecture)
    for model in models_of(architecture):
        wanted = {"output_attentions": True, "output_hidden_states": True}
        expected = model(**batch, **wanted, **architecture.call_of(type(model)))
        with model.capture({0: [2, 0], -1: True}, queries=True, hidden=[0, 2, -1]) as captured:
            model(**batch, **architecture.call_of(type(model)))
        assert list(captured.attention) == [0, 2]
        assert_close(captured.attention[0], expected.attentions[0][:, [2, 0]])
        assert_close(captured.attention[2], expected.attentions[2])
        assert list(captured.hidden) == [0, 2, 3]
        for place, states in captured.hidden.items():
            assert_close(states, expected.hidden_states[place])


@torch.no_grad()
def test_queries_and_keys_give_the_weights(architecture, batch):
    if not architecture.plain_scores:
        pytest.skip(f"{architecture.model_type} adds to the products of queries and keys")
    model = architecture.body(architecture.tiny()).double().eval()
    ids = batch["input_ids"][:1]
    with model.capture([1], queries=True) as captured:
        model(ids)
    scores = captured.queries[1] @ captured.keys[1].transpose(-1, -2) / captured.queries[1].shape[-1] ** 0.5
    if model.is_decoder:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -1e300)
    assert_close(scores.softmax(-1), captured.attention[1])
    assert captured.values[1].shape == captured.keys[1].shape


@torch.no_grad()
def test_only_requested_heads_are_computed(architecture, batch, monkeypatch):
    if not architecture.plain_scores:
        pytest.skip(f"{architecture.model_type} computes scores that may differ from head to head")
    model = architecture.body(architecture.tiny()).eval()
    shapes, explicit = [], attention_module.explicit_attention_weights

    def recorded(q, *rest):
        shapes.append(tuple(q.shape))
        return explicit(q, *rest)

    monkeypatch.setattr(attention_module, "explicit_attention_weights", recorded)
    with model.capture({1: [3]}):
        model(batch["input_ids"])
    assert [shape[:3] for shape in shapes] == [(4, 1, 9)]
    model(batch["input_ids"])
    assert len(shapes) == 1


@torch.no_grad()
def test_modules_by_name(architecture, batch):
    model = architecture.body(architecture.tiny()).double().eval()
    out, captured = model.run_with_cache(**batch, **architecture.call_of(type(model)))
    name = "encoder.layer.1.attention.self.value"  # queries may be turned by their positions
    real = batch["attention_mask"].bool()
    values = captured[name]
    assert values.shape == (*real.shape, 48)
    assert_close(values[real], captured.values[1].transpose(1, 2).flatten(2)[real])
    assert not values[~real].any()
    assert_close(captured["encoder.layer.1.attention.self.weights"], captured.attention[1])
    assert_close(captured["encoder"], out[0])
    assert_close(captured["embeddings"], captured.hidden[0])
    assert name in captured
    with model.capture(modules=["encoder.layer.*.output.dense"]) as few:
        model(**batch)
    assert sorted(few) == [f"encoder.layer.{i}.output.dense" for i in range(3)]
    with pytest.raises(KeyError, match="was not captured"):
        few[name]


@torch.no_grad()
def test_capture_removes_its_hooks(architecture, batch):
    model = architecture.body(architecture.tiny()).eval()
    with pytest.raises(ZeroDivisionError), model.capture(True, hidden=True, modules=["*"]) as captured:
        raise ZeroDivisionError
    model(**batch)
    assert not captured.attention
    assert not list(captured)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    with model.capture([0]) as outer, model.capture({0: [1]}) as inner:
        model(**batch)
    assert torch.equal(outer.attention[0][:, 1:2], inner.attention[0])


@torch.no_grad()
def test_pruned_heads_keep_their_numbers(architecture, batch):
    skip_windows(architecture)
    model = architecture.body(architecture.tiny()).double().eval()
    model.prune_heads({0: [1]})
    expected = model(**batch, output_attentions=True).attentions[0]
    with model.capture({0: [2, 3]}) as captured:
        model(**batch)
    assert_close(captured.attention[0], expected[:, 1:])
    with pytest.raises(glassformer.InputError, match="head 1 was pruned"), model.capture({0: [1]}):
        pass


@torch.no_grad()
def test_keys_include_those_of_the_cache(architecture, batch):
    if architecture.decoder is None:
        pytest.skip(f"{architecture.model_type} has no decoder")
    model = architecture.decoder(architecture.tiny(**architecture.decoder_fields)).double().eval()
    ids = batch["input_ids"]
    uncached = model(ids, output_attentions=True).attentions[1]
    past = model(ids[:, :5], use_cache=True).past_key_values
    with model.capture({1: [0, 2]}, queries=True) as captured:
        model(ids[:, 5:], past_key_values=past, use_cache=True)
    assert_close(captured.attention[1], uncached[:, [0, 2], 5:])
    assert captured.keys[1].shape[2] == ids.shape[1]
    with model.capture(True) as captured:
        model.generate(ids[:1], max_new_tokens=3, do_sample=False)
    assert captured.attention[0].shape[-1] == ids.shape[1] + 2


@pytest.mark.parametrize("position", ["relative_key", "relative_key_query"])
@torch.no_grad()
def test_relative_positions(position, batch):
    model = glassformer.BertModel(tiny_bert(position_embedding_type=position)).double().eval()
    expected = model(**batch, output_attentions=True).attentions[2]
    with model.capture({2: [3, 1]}) as captured:
        model(**batch)
    assert_close(captured.attention[2], expected[:, [3, 1]])


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
@torch.no_grad()
def test_cross_attention(kind, batch):
    fields = {"is_decoder": True, "add_cross_attention": True}
    if kind == "bert":
        model = glassformer.BertModel(tiny_bert(**fields)).double().eval()
    else:
        model = glassformer.GPT2Model(tiny_gpt2(**fields)).double().eval()
    source = torch.randn(4, 6, 48, dtype=torch.float64)
    mask = (torch.arange(6) < torch.tensor((3, 6, 2, 5))[:, None]).long()
    given = {**batch, "encoder_hidden_states": source, "encoder_attention_mask": mask}
    expected = model(**given, output_attentions=True)
    with model.capture([0], cross={1: [2]}, modules=["encoder.layer.1.crossattention.self.key"]) as captured:
        model(**given)
    assert_close(captured.cross[1], expected.cross_attentions[1][:, [2]])
    assert_close(captured["encoder.layer.1.crossattention.self.weights"], captured.cross[1])
    assert captured["encoder.layer.1.crossattention.self.key"].shape == (4, 6, 48)
    with pytest.raises(glassformer.InputError, match="no layer has a crossattention"):
        plain = glassformer.BertModel(tiny_bert())
        with plain.capture(cross=True):
            pass


@torch.no_grad()
def test_captured_weights_include_the_head_mask(architecture, batch):
    skip_windows(architecture)
    model = architecture.body(architecture.tiny()).double().eval()
    mask = torch.rand(3, 4)
    expected = model(**batch, head_mask=mask, output_attentions=True).attentions[1]
    with model.capture({1: [3, 0]}) as captured:
        model(**batch, head_mask=mask)
    assert_close(captured.attention[1], expected[:, [3, 0]])


def test_wrong_requests_are_reported(batch):
    model = glassformer.BertForMaskedLM(tiny_bert(chunk_size_feed_forward=2)).eval()
    for arguments, message in (
        ({"attention": [3]}, "layers 0 to 2, got 3"),
        ({"attention": {0: [4]}}, "heads 0 to 3, got 4"),
        ({"hidden": [4]}, "numbered 0 to 3, got 4"),
        ({"modules": ["encoder.layer.0.attention.self.querry"]}, "did you mean 'encoder.layer.0.attention.self.query'"),
        ({"modules": ["encoder.layer.0.intermediate"]}, "chunk_size_feed_forward=0"),
        ({"attention": "all"}, "layers are whole numbers, got 'all'"),
        ({"attention": {0.5: [1]}}, "layers are whole numbers, got 0.5"),
        ({"queries": True}, "queries are those of attention"),
        ({"hidden": ["last"]}, "hidden states are numbered 0 to 3, got 'last'"),
    ):
        with pytest.raises(glassformer.InputError, match=message), model.capture(**arguments):
            pass
    assert not any(part._forward_hooks for part in model.modules())
    with model.capture(modules=["bert.encoder.layer.0.attention", "cls.predictions.transform"]) as captured:
        model(batch["input_ids"])
    assert sorted(captured) == ["cls.predictions.transform", "encoder.layer.0.attention"]
    with model.capture(hidden=-1, modules="encoder.layer.0.attention") as captured:  # a single one needs no list
        model(batch["input_ids"])
    assert (list(captured.hidden), list(captured), len(captured)) == ([3], ["encoder.layer.0.attention"], 1)


@torch.no_grad()
def test_layers_of_encoder_decoders_are_numbered_consecutively(seq2seq, batch):
    target = {"decoder_input_ids": tokens(4, 6)}
    first = seq2seq.encoder.layer_count
    expected = seq2seq(**batch, **target, output_attentions=True, output_hidden_states=True)
    plain = seq2seq(**batch, **target)
    with seq2seq.capture(
        {0: [2], first: [1, 3]}, cross={first + 1: [0]}, queries=True, hidden=[0, first, -1]
    ) as captured:
        out = seq2seq(**batch, **target)
    assert torch.equal(out.logits, plain.logits)
    assert_close(captured.attention[0], expected.encoder_attentions[0][:, [2]])
    assert_close(captured.attention[first], expected.decoder_attentions[0][:, [1, 3]])
    assert_close(captured.cross[first + 1], expected.cross_attentions[1][:, [0]])
    assert_close(captured.hidden[0], expected.encoder_hidden_states[0])
    assert_close(captured.hidden[first], expected.decoder_hidden_states[0])
    assert_close(captured.hidden[len(seq2seq.layers)], expected.decoder_hidden_states[-1])
    _, cache = seq2seq.run_with_cache(**batch, **target)
    layer, width = captured.names[first + 1], seq2seq.layer(first + 1).attention.self.all_head_size
    assert_close(cache[f"{layer}.crossattention.self.weights"], expected.cross_attentions[1])
    assert cache[f"{layer}.crossattention.self.key"].shape == (4, 9, width)
    assert cache[f"{layer}.attention.self.key"].shape == (4, 6, width)
