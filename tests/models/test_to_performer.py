"""`attention="performer"` in BERT, RoBERTa and GPT-2: converted, saved, loaded, cached, pruned, looked at, trained."""

from __future__ import annotations

import copy
import json
from itertools import pairwise

import pytest
import torch

import glassformer
from glassformer import to_performer
from glassformer.explain.pages.bertviz_views import scale_of, score_bias_of
from glassformer.nn.prepared import prepared
from glassformer.nn.scoped_hooks import HookScope

from .architectures import tiny_bert, tiny_gpt2, tokens

PERFORMER = {"attention": "performer", "nb_features": 24}
LENGTHS = (23, 9, 1, 14)


@pytest.fixture
def batch() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()
    return {"input_ids": tokens(*mask.shape) * mask, "attention_mask": mask}


def assert_close(a, b, tolerance=1e-10):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.fixture(params=["bert", "bert-generalized", "gpt2", "gpt2-scaled"])
def model(request):
    torch.manual_seed(0)
    fields = {**PERFORMER, "generalized_attention": "generalized" in request.param}
    if request.param.startswith("bert"):
        return glassformer.BertModel(tiny_bert(**fields)).double().eval()
    fields["scale_attn_by_inverse_layer_idx"] = request.param == "gpt2-scaled"
    return glassformer.GPT2Model(tiny_gpt2(**fields)).double().eval()


@torch.no_grad()
def test_padding_looking_saving_and_head_masks_change_nothing(model, batch, tmp_path):
    out = model(**batch, output_attentions=True)
    assert_close(model(**batch).last_hidden_state, out.last_hidden_state)
    for row, length in enumerate(LENGTHS):
        alone = model(batch["input_ids"][row : row + 1, :length])
        assert_close(alone.last_hidden_state[0], out.last_hidden_state[row, :length])
    with model.capture(attention={1: [0, 2]}) as seen:
        model(**batch)
    assert_close(seen.attention[1], out.attentions[1][:, [0, 2]])
    observed = []
    with HookScope() as scope:  # what the views show: the softmax of products and a bias
        scope.observers.append(lambda module, inputs: observed.append(inputs))
        model(batch["input_ids"][:1])
    q, k = (observed[1].layout.heads(x)[0] for x in (observed[1].q, observed[1].k))
    shown = (q @ k.mT + score_bias_of(observed[1])) * scale_of(observed[1])
    assert_close(shown.softmax(-1), out.attentions[1][0])
    assert_close(observed[1].weights([3, 1], range(5, 12)), out.attentions[1][:1, [3, 1], 5:12])
    mask = torch.ones(3, 4)
    mask[1, 2] = 0
    masked = model(**batch, head_mask=mask).last_hidden_state
    assert_close(masked, model(**batch, head_mask=mask, output_attentions=True).last_hidden_state)
    pruned = copy.deepcopy(model)
    pruned.prune_heads({1: [2]})
    assert_close(pruned(**batch).last_hidden_state, masked)
    pruned.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path, dtype=torch.float64)
    assert_close(again(**batch).last_hidden_state, masked)
    assert torch.equal(
        again.encoder.layer[2].attention.self.features.projection_matrix,
        model.encoder.layer[2].attention.self.features.projection_matrix,
    )
    model = model.float()
    assert prepared(model) is not model
    assert_close(prepared(model)(**batch).last_hidden_state, out.last_hidden_state.float(), 1e-5)


@torch.no_grad()
@pytest.mark.parametrize("settings", [{}, {"num_beams": 3, "num_return_sequences": 2}], ids=["greedy", "beams"])
def test_cached_equals_uncached(batch, settings):
    torch.manual_seed(0)
    model = glassformer.GPT2LMHeadModel(tiny_gpt2(**PERFORMER)).double().eval()
    ids = batch["input_ids"][:1]
    whole = model(ids).logits
    past = model(ids[:, :8], use_cache=True).past_key_values
    middle = model(ids[:, 8:15], past_key_values=past, use_cache=True)
    assert_close(middle.logits, whole[:, 8:15])
    last = model(ids[:, 15:], past_key_values=middle.past_key_values)
    assert_close(last.logits, whole[:, 15:])
    settings = {"max_new_tokens": 6, "pad_token_id": 0, "eos_token_id": 1, **settings}
    cached, read_again = (model.generate(**batch, **settings, use_cache=each) for each in (True, False))
    assert torch.equal(cached, read_again)


def test_a_trained_bert_is_converted_in_one_call(batch, tmp_path, caplog):
    torch.manual_seed(0)
    bert = glassformer.BertForSequenceClassification(tiny_bert(initializer_range=0.1, num_labels=3)).eval()
    bert.save_pretrained(tmp_path / "bert")
    assert "attention" not in json.loads((tmp_path / "bert/config.json").read_text())
    bert = glassformer.BertForSequenceClassification.from_pretrained(tmp_path / "bert")
    errors = []
    for count in (16, 4096):
        converted = to_performer(bert, nb_features=count)
        assert not converted.untrained and not converted.training and converted.config.num_labels == 3
        with torch.no_grad():
            errors.append((converted(**batch).logits - bert(**batch).logits).abs().max().item())
    assert errors[1] < 0.02 and errors[1] < errors[0] / 4
    converted.save_pretrained(tmp_path / "performer")
    again = glassformer.AutoModelForSequenceClassification.from_pretrained(tmp_path / "performer")
    with torch.no_grad():
        assert torch.equal(again(**batch).logits, copy.deepcopy(converted)(**batch).logits)
    drawn = glassformer.BertForSequenceClassification.from_pretrained(tmp_path / "bert", attention="performer")
    assert not drawn.untrained and "drawn anew" in caplog.text
    with pytest.raises(glassformer.InputError, match="no linear attention"):
        to_performer(glassformer.DistilBertModel(glassformer.DistilBertConfig(dim=8, n_layers=1, n_heads=2)))
    with pytest.raises(glassformer.ArgumentError, match="did you mean 'nb_features'"):
        to_performer(bert, n_features=8)
    with pytest.raises(glassformer.ConfigError, match="relative_key"):
        glassformer.BertModel(tiny_bert(attention="performer", position_embedding_type="relative_key"))


def test_training_reaches_every_weight_and_redraws(batch):
    torch.manual_seed(0)
    model = glassformer.BertForMaskedLM(tiny_bert(**PERFORMER, feature_redraw_interval=2)).train()
    matrices, losses = [], []
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    for _ in range(30):
        loss = model(**batch, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        matrices.append(model.bert.encoder.layer[0].attention.self.features.projection_matrix.clone())
    assert losses[-1] < losses[0] - 1
    assert [torch.equal(a, b) for a, b in pairwise(matrices[:4])] == [True, False, True]
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.bert.encoder.parameters())


def test_dropout_drops_keys_and_keeps_the_mean(batch):
    torch.manual_seed(0)
    config = tiny_bert(**PERFORMER, attention_probs_dropout_prob=0.5, hidden_dropout_prob=0.0, num_hidden_layers=1)
    model = glassformer.BertModel(config).train()
    layer = model.encoder.layer[0].attention.self
    x = torch.randn(1, 20, 48)
    with torch.no_grad():
        noisy = torch.stack([layer(x)[0] for _ in range(2000)])
        steady = layer.eval()(x)[0]
    assert noisy.std(0).mean() > 0.3
    torch.testing.assert_close(noisy.mean(0), steady, rtol=0, atol=0.2)


def test_cross_attention_stays_that_of_softmax():
    torch.manual_seed(0)
    config = tiny_bert(**PERFORMER, is_decoder=True, add_cross_attention=True)
    model = glassformer.BertModel(config).eval()
    assert model.encoder.layer[0].crossattention.self.features is None
    source = torch.randn(2, 5, 48)
    out = model(tokens(2, 7), encoder_hidden_states=source, output_attentions=True)
    assert out.cross_attentions[0].shape == (2, 4, 7, 5)
