"""Prepared weights: the same numbers, built once, rebuilt when a parameter changes, safe for many threads."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F

import glassformer
from glassformer.nn import prepared as module
from glassformer.nn.attention import SelfAttention
from glassformer.nn.context import Context
from glassformer.nn.linear import Linear, pack
from glassformer.nn.prepared import prepared, release_prepared_weights


def gpt2(**fields):
    torch.manual_seed(0)
    shape = {"vocab_size": 120, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "n_positions": 96}
    config = glassformer.GPT2Config(**shape, bos_token_id=0, eos_token_id=None, pad_token_id=0, **fields)
    return glassformer.GPT2LMHeadModel(config).eval()


def bert():
    torch.manual_seed(0)
    shape = {"vocab_size": 120, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}
    return glassformer.BertForSequenceClassification(glassformer.BertConfig(**shape, intermediate_size=96)).eval()


def ids(rows=3, length=11):
    return torch.randint(1, 120, (rows, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_packed_weights_equal_the_plain_product(rows):
    linear, x = Linear(48, 96).eval(), torch.randn(rows, 48)
    with torch.no_grad():
        twin = prepared(torch.nn.Sequential(linear).eval())
        torch.testing.assert_close(twin(x), F.linear(x, linear.weight, linear.bias), rtol=0, atol=2e-6)
        assert twin[0].packed is not None
        assert linear.packed is None
        twin[0].packed = pack(linear.weight + 1)
        assert not torch.allclose(twin(x), linear(x))  # it reads the copy


@pytest.mark.parametrize("make", [bert, gpt2])
def test_a_twin_computes_the_same_with_one_product_for_queries_keys_and_values(make):
    model = make()
    with torch.no_grad():
        twin = prepared(model)
        torch.testing.assert_close(twin(ids()).logits, model(ids()).logits, rtol=0, atol=1e-5)
    attentions = [part for part in twin.modules() if isinstance(part, SelfAttention)]
    assert len(attentions) == 3
    assert all(part.fused is not None for part in attentions)
    assert all(part.fused is None for part in model.modules() if isinstance(part, SelfAttention))
    assert {id(p) for p in twin.parameters()} == {id(p) for p in model.parameters()}


@torch.no_grad()
@pytest.mark.parametrize("without", [("query", "key", "value"), ("key",)], ids=["none has a bias", "some have"])
def test_a_twin_of_an_attention_without_biases(without):
    model = bert()
    for layer in model.layers:
        for name in without:
            getattr(layer.attention.self, name).bias = None
    given = ids()
    assert torch.allclose(prepared(model)(given).logits, model(given).logits, atol=1e-5)


def test_a_twin_is_built_once():
    model = gpt2()
    with torch.no_grad():
        assert prepared(model) is prepared(model)
        first = weakref.ref(prepared(model))
        release_prepared_weights(model)
        gc.collect()
        assert first() is None


def set_data(model):
    model.lm_head.weight.data.mul_(1.5)


def step(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.enable_grad():
        model(ids(), labels=ids()).loss.backward()
    optimizer.step()


def load(model):
    model.load_state_dict({name: value + 0.1 for name, value in model.state_dict().items()})


def prune(model):
    model.prune_heads({1: [0, 2]})


def replace(model):
    model.transformer.encoder.layer[0].output.dense.weight = torch.nn.Parameter(
        model.transformer.encoder.layer[0].output.dense.weight.detach() * 2
    )


@pytest.mark.parametrize("change", [step, load, prune, replace, set_data])
def test_a_changed_parameter_takes_effect(change):
    model = gpt2()
    with torch.no_grad():
        before = prepared(model)
        change(model)
        after = prepared(model)
        assert after is not before
        torch.testing.assert_close(after(ids()).logits, model(ids()).logits, rtol=0, atol=1e-5)
        assert not torch.allclose(before(ids()).logits, model(ids()).logits)


def test_a_model_that_cannot_use_prepared_weights_is_returned_unchanged():
    model = gpt2()
    assert prepared(model) is model  # gradients
    with torch.no_grad():
        assert prepared(model.train()) is not None and prepared(model) is model
        model.eval()
        assert prepared(model.double()) is model
        model.float()
        handle = model.lm_head.register_forward_hook(lambda *_: None)
        assert prepared(model) is model
        handle.remove()
        with model.capture(attention=[0]):
            assert prepared(model) is model
        assert prepared(model) is not model


def test_copies_of_a_model_do_not_carry_its_prepared_weights():
    model = gpt2()
    with torch.no_grad():
        prepared(model)
        other = copy.deepcopy(model)
        other.lm_head.weight.mul_(2)
        assert prepared(other) is not prepared(model)
        assert not torch.allclose(prepared(other)(ids()).logits, prepared(model)(ids()).logits)
        pickle.loads(pickle.dumps(model))
    number = len(module._prepared)
    del other
    gc.collect()
    assert len(module._prepared) == number - 1  # they go with their model


def in_eight_threads(function, count=24):
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(lambda _: function(), range(count)))


def test_encoding_in_eight_threads_equals_one_bit_for_bit():
    model = bert()
    mask = torch.ones(4, 9, dtype=torch.long)
    mask[1, 5:] = 0

    @torch.no_grad()
    def encode():
        twin = prepared(model)
        return torch.cat((model(ids(4, 9), attention_mask=mask).logits, twin(ids(4, 9), attention_mask=mask).logits))

    alone = encode()
    release_prepared_weights(model)
    assert all(torch.equal(found, alone) for found in in_eight_threads(encode))


@pytest.mark.parametrize("settings", [{}, {"num_beams": 3}], ids=["greedy", "beams"])
def test_generation_in_eight_threads_equals_one_bit_for_bit(settings):
    model = gpt2()

    def generate():
        wanted = {"max_new_tokens": 40, "return_dict_in_generate": True, "output_scores": True}
        out = model.generate(ids(), attention_mask=torch.ones_like(ids()), **wanted, **settings)
        return out.sequences, torch.stack(out.scores)

    sequences, scores = generate()
    release_prepared_weights(model)
    for found_sequences, found_scores in in_eight_threads(generate):
        assert torch.equal(found_sequences, sequences)
        assert torch.equal(found_scores, scores)


def test_under_autocast_the_model_stays_as_it_is():
    model = gpt2()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert prepared(model) is model


def test_a_twin_calls_forward_directly_and_leaves_hooks_to_the_model():
    model = gpt2()
    with torch.no_grad():
        twin = prepared(model)
        layer, own = twin.transformer.encoder.layer[0], model.transformer.encoder.layer[0]
        assert type(layer).__call__ is type(own).forward
        assert isinstance(layer, type(own)) and type(layer).__name__ == type(own).__name__
        seen = []
        handle = own.register_forward_hook(lambda *_: seen.append("called"))
        assert prepared(model) is model
        prepared(model)(ids())
        handle.remove()
    assert seen == ["called"]


def test_a_forward_of_an_instance_is_kept():
    model = gpt2()
    norm = model.transformer.encoder.LayerNorm
    norm.forward = lambda x: torch.zeros_like(x)
    with torch.no_grad():
        assert torch.equal(prepared(model)(ids()).logits, torch.zeros(3, 11, 120))


@pytest.mark.parametrize("without", [(), ("key",), ("query", "key", "value")])
def test_queries_keys_and_values_without_a_bias(without):
    torch.manual_seed(0)
    attention = SelfAttention(48, 4, 0.0)
    for name in without:
        setattr(attention, name, Linear(48, 48, bias=False))
    attention.eval()
    x = torch.randn(2, 5, 48)
    with torch.no_grad():
        twin = prepared(torch.nn.Sequential(attention).eval())[0]
        context = Context.for_direct_call(attention, x, None, None, None)
        torch.testing.assert_close(twin(x, context), attention(x, context), rtol=0, atol=1e-6)
