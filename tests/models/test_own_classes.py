"""Classes that users write on top of ours: their heads load, draw and run as their own code says."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer import (
    BertForSequenceClassification,
    BertLMHeadModel,
    BertModel,
    BertPreTrainedModel,
    WeightsError,
)

from .architectures import tiny_bert, tokens


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
