"""Longformer: its global tokens, its windows, and the weights that an observer sees."""

from __future__ import annotations

import pytest
import torch

import glassformer
from glassformer import LongformerConfig, LongformerModel

from .architectures import tiny_longformer, tokens

MASK = (torch.arange(14) < torch.tensor([14, 9, 6])[:, None]).long()
GLOBAL = torch.zeros(3, 14).long().index_put((torch.tensor([0, 0, 1]), torch.tensor([0, 7, 3])), torch.tensor(1))


@pytest.fixture
def model() -> LongformerModel:
    torch.manual_seed(0)
    model = LongformerModel(tiny_longformer()).double().eval()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


@pytest.fixture
def batch() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    return {"input_ids": tokens(3, 14) * MASK, "attention_mask": MASK, "global_attention_mask": GLOBAL}


@torch.no_grad()
def test_seen_weights_times_values_are_the_outputs(model, batch):
    """Also of global tokens, whose weights and values are made by projections of their own."""
    name = "encoder.layer.1.attention.self"
    with model.capture({1: True}, queries=True, modules=[name, f"{name}.value_global"]) as captured:
        model(**batch)
    weights, is_global = captured.attention[1], GLOBAL.bool()
    of_globals = captured[f"{name}.value_global"].unflatten(-1, (4, -1)).transpose(1, 2)
    for values, rows in ((captured.values[1], MASK.bool() & ~is_global), (of_globals, is_global)):
        y = (weights @ values).transpose(1, 2).flatten(2)
        torch.testing.assert_close(y[rows], captured[name][rows])
    distance = (torch.arange(14)[:, None] - torch.arange(14)).abs()
    hidden = (distance > 4)[None] & ~is_global[:, None] & ~is_global[:, :, None]
    assert not weights.transpose(0, 1)[:, hidden].any()
    assert (weights.sum(-1).transpose(1, 2)[MASK.bool()] - 1).abs().max() < 1e-12


@torch.no_grad()
def test_weights_of_some_queries_are_computed_alone(model, batch):
    found = []

    def keep(module, inputs):
        found.append((inputs.weights([2, 0]), inputs.weights([2, 0], range(6, 9)), inputs.pattern.size))

    from glassformer.nn.scoped_hooks import HookScope

    with HookScope() as scope:
        scope.observers.append(keep)
        model(**batch)
    assert [size for *_, size in found] == [2, 4, 2]
    for everything, some, _ in found:
        torch.testing.assert_close(some, everything[:, :, 6:9])


def test_few_and_many_global_tokens_are_computed_alike(model, batch, monkeypatch):
    """For few of them, the projections of keys and values are folded into the queries."""
    results = []
    for is_plain in (True, False):
        monkeypatch.setattr(type(model.layer(0).attention.self), "has_plain_projections", lambda self, p=is_plain: p)
        model.zero_grad()
        out = model(**batch).last_hidden_state
        (out[MASK.bool()] * torch.linspace(-1, 1, 48)).sum().backward()
        results.append(
            (
                out.detach(),
                {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None},
            )
        )
    (a, of_a), (b, of_b) = results
    torch.testing.assert_close(a, b)
    assert of_a.keys() == of_b.keys() and any("key_global" in name for name in of_a)
    for name, gradient in of_a.items():
        torch.testing.assert_close(gradient, of_b[name], rtol=1e-9, atol=1e-11)
    assert of_a["encoder.layer.1.attention.self.value_global.weight"].any()


@torch.no_grad()
def test_heads_choose_global_tokens(batch):
    def given(model, chosen):
        seen = []
        model.longformer.pack_extras = lambda extras, layout: seen.append(extras["global_attention_mask"])
        model(**batch)
        assert torch.equal(seen[0], torch.tensor(chosen))

    del batch["global_attention_mask"]
    batch["input_ids"], batch["attention_mask"] = tokens(2, 6), torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]])
    given(glassformer.LongformerForSequenceClassification(tiny_longformer()), [[1, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]])
    asking = glassformer.LongformerForQuestionAnswering(tiny_longformer())
    with pytest.raises(glassformer.InputError, match="text 0 has no separator"):
        asking(**batch)
    batch["input_ids"][0, 2], batch["input_ids"][1, 3] = 49, 49
    given(asking, [[1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0]])
    choosing = glassformer.LongformerForMultipleChoice(tiny_longformer())
    batch = {name: value[None] for name, value in batch.items()}
    given(choosing, [[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 1]])


@torch.no_grad()
def test_padding_that_is_computed_changes_nothing(model, batch):
    """As in a loss of spans, which has the scores of padded positions too."""
    padded, packed = model.encode(**batch, keep_padding=True), model.encode(**batch)
    real = MASK.bool()
    torch.testing.assert_close(padded.last_hidden_state[real], packed.last_hidden_state[real])
    assert padded.last_hidden_state[~real].any()


@torch.no_grad()
def test_every_second_token_of_a_window(batch):
    torch.manual_seed(0)
    model = LongformerModel(tiny_longformer(attention_dilation=[1, 2, 3])).double().eval()
    with model.capture({2: [0]}) as captured:
        model(batch["input_ids"][:1])
    distance = (torch.arange(14)[:, None] - torch.arange(14)).abs()
    assert torch.equal(captured.attention[2][0, 0] > 0, (distance % 3 == 0) & (distance <= 6))


def test_configs_that_make_no_sense_are_refused():
    for fields, message in (
        ({"attention_window": 3}, "even number"),
        ({"attention_window": [4, 4]}, "a list of 2, for 12 layers"),
        ({"attention_dilation": 0}, "from 1 on"),
        ({"is_decoder": True}, "only encodes"),
    ):
        with pytest.raises(glassformer.ConfigError, match=message):
            LongformerConfig(**fields)
    with pytest.raises(glassformer.InputError, match=r"shape \[1, 5\], got \[1, 4\]"):
        LongformerModel(tiny_longformer())(tokens(1, 5), global_attention_mask=torch.ones(1, 4))
    with pytest.raises(glassformer.InputError, match="takes 1"):
        LongformerModel(tiny_longformer())(tokens(1, 5), global_attention_mask=torch.full((1, 5), 2))
