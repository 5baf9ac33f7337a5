"""Classes that users write on top of ours: their heads load, draw and run as their own code says."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer import (
    ArgumentError,
    BertForSequenceClassification,
    BertLMHeadModel,
    BertModel,
    BertPreTrainedModel,
    GPT2LMHeadModel,
    GPT2Model,
    InputError,
    WeightsError,
)
from glassformer.models.bert_layers import BertEncoder
from glassformer.tasks.truncation import max_positions
from glassformer.train.optimizer import parameter_groups

from .architectures import tiny_bert, tiny_gpt2, tokens


class Tagger(BertPreTrainedModel):
    """BERT and an LSTM, as many tutorials have it."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.lstm = nn.LSTM(config.hidden_size, 8, batch_first=True)
        self.norm = nn.BatchNorm1d(8)
        self.weigh = nn.Parameter(torch.full((8,), 0.5))
        self.fc = nn.Linear(8, 3)
        self.init_weights()

    def forward(self, input_ids, **others):
        read, _ = self.lstm(self.bert(input_ids, **others).last_hidden_state)
        return self.fc(self.norm(read.transpose(1, 2)).transpose(1, 2) * self.weigh)


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    BertModel(tiny_bert()).save_pretrained(tmp_path)
    return tmp_path


def test_own_heads_are_initialised_by_their_own_code(folder, caplog):
    ids = tokens(2, 5)
    model = Tagger.from_pretrained(folder)
    assert model.load_report.initialised == ["weigh", "lstm", "norm", "fc"]
    assert "must be trained" in caplog.text
    assert model.lstm.weight_ih_l0.abs().mean() > 0.01
    assert torch.equal(model.weigh, torch.full((8,), 0.5))
    assert torch.equal(model.norm.weight, torch.ones(8))
    body = BertModel.from_pretrained(folder, add_pooling_layer=False)
    for name, value in body.state_dict().items():
        assert torch.equal(value, model.bert.state_dict()[name]), name
    mask = torch.tensor([[1, 1, 1, 0, 0], [1] * 5])
    assert model(ids, attention_mask=mask).shape == (2, 5, 3)
    model.save_pretrained(folder / "own")
    again = Tagger.from_pretrained(folder / "own")
    assert again.untrained == again.load_report.initialised == model.untrained == ["weigh", "lstm", "norm", "fc"]
    assert torch.equal(again(ids, attention_mask=mask), model(ids, attention_mask=mask))


def test_a_forward_that_takes_any_name():
    class Passing(BertForSequenceClassification):
        def forward(self, *inputs, **named):
            return super().forward(*inputs, **named)

    model = Passing(tiny_bert()).eval()
    assert model(tokens(1, 4), attention_mask=torch.ones(1, 4)).logits.shape == (1, 2)


def test_weights_that_the_config_has_no_place_for_are_reported(folder, caplog):
    BertModel.from_pretrained(folder, num_hidden_layers=2)
    assert "no place for 16 trained weights of the body: encoder.layer.2" in caplog.text
    caplog.clear()
    BertModel.from_pretrained(folder, add_pooling_layer=False)
    assert not caplog.records


def test_saving_values_that_cannot_be_loaded_is_reported(folder, caplog):
    model = BertModel.from_pretrained(folder)
    model.encoder.layer[0].output.dense.bias.data[0] = float("nan")
    model.save_pretrained(folder)
    assert "NaN or infinite values" in caplog.text
    with pytest.raises(WeightsError, match="NaN"):
        BertModel.from_pretrained(folder)


def test_a_decoder_without_is_decoder_is_reported_once(folder, caplog):
    for make in (lambda: BertLMHeadModel.from_pretrained(folder), lambda: BertLMHeadModel(tiny_bert())):
        assert "cls.predictions" in make().untrained
        assert sum("sees the words it should predict" in each for each in caplog.messages) == 1
        caplog.clear()


class ShiftedModel(GPT2Model):
    """A body whose positions count from 2, as those of RoBERTa do."""

    def positions(self, places, layout, input_ids=None, past=0):
        return places + 2

    @property
    def max_length(self):
        return self.config.max_position_embeddings - 2


class ShiftedLMHeadModel(GPT2LMHeadModel):
    def __init__(self, config):
        super().__init__(config)
        self.transformer = ShiftedModel(self.config)
        self.post_init()


@torch.no_grad()
@pytest.mark.parametrize("settings", [{}, {"num_beams": 3}, {"use_cache": False}], ids=["greedy", "beams", "uncached"])
def test_positions_that_do_not_count_from_zero(settings):
    torch.manual_seed(0)
    plain = GPT2LMHeadModel(tiny_gpt2()).double().eval()
    shifted = ShiftedLMHeadModel(tiny_gpt2(max_position_embeddings=42)).double().eval()
    weights, table = plain.state_dict(), "transformer.embeddings.position_embeddings.weight"
    shifted.load_state_dict({**weights, table: torch.cat((torch.randn(2, 48), weights[table]))})
    ids, mask = tokens(3, 6), torch.tensor([[1] * 6, [1] * 4 + [0] * 2, [0] + [1] * 5])
    assert torch.equal(shifted(ids, attention_mask=mask).logits, plain(ids, attention_mask=mask).logits)
    settings = {"attention_mask": mask, "max_new_tokens": 8, "eos_token_id": 59, **settings}
    assert torch.equal(shifted.generate(ids, **settings), plain.generate(ids, **settings))
    assert max_positions(shifted) == max_positions(plain) == 40
    with pytest.raises(InputError, match="41 positions"):
        shifted(tokens(1, 41))


class NarrowModel(BertModel):
    """A body that adds to its scores by distance (Press et al. 2022), and has neither positions nor a limit of them."""

    def __init__(self, config):
        super().__init__(config)
        del self.embeddings.position_embeddings
        self.embeddings.position_embedding_type = "none"

    max_length = None

    def run_layers(self, x, context):
        length = context.layout.length
        distances = context.layout.distances(length, context.past + length, x.device)
        context.bias = (-torch.tensor([1.0, 0.5, 0.25, 0.1])[:, None, None] * distances[:, None].abs()).to(x.dtype)
        return super().run_layers(x, context)


@torch.no_grad()
def test_a_bias_by_distance(tmp_path):
    """It belongs to heads, so pruning must take the right ones; it goes with padding, a past and any way to attend."""
    torch.manual_seed(0)
    model = NarrowModel(tiny_bert(is_decoder=True)).double().eval()
    assert model.embeddings.position_count is None
    ids, mask = tokens(3, 50), torch.ones(3, 50).long()
    mask[1, 20:], mask[2, 45:] = 0, 0
    whole = model(ids, attention_mask=mask).last_hidden_state
    for row, length in enumerate((50, 20, 45)):
        torch.testing.assert_close(model(ids[row : row + 1, :length]).last_hidden_state[0], whole[row, :length])
    first = model(ids[:, :10], use_cache=True)
    rest = model(ids[:, 10:], attention_mask=mask, past_key_values=first.past_key_values)
    torch.testing.assert_close(rest.last_hidden_state[mask[:, 10:] == 1], whole[:, 10:][mask[:, 10:] == 1])
    kept = torch.tensor([0.0, 1.0, 0.0, 1.0]).expand(3, 4)
    masked = model(ids, attention_mask=mask, head_mask=kept).last_hidden_state
    model.prune_heads({layer: [0, 2] for layer in range(3)})
    assert not torch.allclose(masked[0], whole[0])
    torch.testing.assert_close(model(ids, attention_mask=mask).last_hidden_state[mask == 1], masked[mask == 1])
    with model.capture(True) as seen:
        told = model(ids, attention_mask=mask, output_attentions=True).attentions
    for layer, weights in enumerate(told):
        torch.testing.assert_close(seen.attention[layer], weights)
    model.prune_heads({0: [1], 1: [3]})
    assert [layer.attention.self.heads for layer in model.layers] == [[3], [1], [1, 3]]
    assert model(ids, attention_mask=mask).last_hidden_state.isfinite().all()


class NormedEncoder(BertEncoder):
    """A stack that ends in a normalisation of another kind and name than most."""

    def __init__(self, config):
        super().__init__(config)
        self.norm = nn.RMSNorm(config.hidden_size)

    def finish(self, x):
        return self.norm(x)


class RMSNormModel(BertModel):
    def __init__(self, config):
        super().__init__(config)
        self.encoder = NormedEncoder(self.config)


@torch.no_grad()
def test_the_end_of_a_stack_is_captured_whatever_it_is_called():
    model = RMSNormModel(tiny_bert()).eval()
    with model.capture(hidden=[-1]) as seen:
        out = model(tokens(2, 5), output_hidden_states=True)
    assert torch.equal(seen.hidden[3], out.hidden_states[-1])
    assert torch.equal(seen.hidden[3], out.last_hidden_state)


def test_an_rms_norm_is_initialised_and_does_not_decay():
    model = RMSNormModel(tiny_bert())
    model.encoder.norm.weight.data.fill_(0.3)
    model._init_weights(model.encoder.norm)
    assert torch.equal(model.encoder.norm.weight, torch.ones(48))
    others = next(group for group in parameter_groups(model, 1.0, 0.01) if not group["weight_decay"])
    assert "encoder.norm.weight" in others["names"]


def test_only_a_new_head_is_made_when_it_is_loaded(folder, monkeypatch):
    """The body's weights come from the file: to initialise them first would take longer than to read them."""
    made = []
    monkeypatch.setattr(BertModel, "post_init", lambda body: made.extend(each.is_meta for each in body.parameters()))
    model = BertForSequenceClassification.from_pretrained(folder)
    assert made and all(made)
    assert model.load_report.initialised == ["classifier"]
    assert not any(parameter.is_meta for parameter in model.parameters())


class MarkedModel(BertModel):
    """A body with an input of its own: tokens with a mark are scaled before the first layer."""

    extra_inputs = ("marks",)

    def pack_extras(self, extras, layout):
        return {name: layout.pack(value) for name, value in extras.items()}

    def run_layers(self, x, context):
        if "marks" in context.extras:
            x = x * (1 + context.extras["marks"][:, None])
        return super().run_layers(x, context)


class MarkedForSequenceClassification(BertForSequenceClassification):
    def __init__(self, config):
        super().__init__(config)
        self.bert = MarkedModel(self.config)


@torch.no_grad()
def test_inputs_of_an_architecture_of_its_own_reach_its_layers_through_every_head():
    torch.manual_seed(0)
    model = MarkedForSequenceClassification(tiny_bert()).eval()
    ids, mask = tokens(2, 5), torch.tensor([[1] * 5, [1] * 3 + [0] * 2])
    marks = torch.tensor([[0, 1, 0, 0, 1], [1, 0, 0, 1, 1]])
    plain, marked = (model(ids, attention_mask=mask, **extra).logits for extra in ({}, {"marks": marks}))
    assert not torch.allclose(plain, marked)
    alone = model(ids[1:, :3], marks=marks[1:, :3]).logits
    torch.testing.assert_close(marked[1:], alone)
    assert torch.equal(model(ids, attention_mask=mask, marks=marks * 0).logits, plain)
    with pytest.raises(ArgumentError, match="did you mean 'marks'"):
        model(ids, mark=marks)
    with pytest.raises(ArgumentError, match="marks"):
        BertForSequenceClassification(tiny_bert()).eval()(ids, marks=marks)
