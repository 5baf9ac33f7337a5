"""Encoder-decoders of two models, beside those of transformers."""

import copy
import logging

import pytest
import torch

import glassformer
from glassformer import (
    BertConfig,
    BertLMHeadModel,
    BertModel,
    EncoderDecoderConfig,
    EncoderDecoderModel,
    GPT2LMHeadModel,
    InputError,
)

from .architectures import tiny_bert, tiny_gpt2, tokens
from .encoder_decoders import OF_TWO

VARIANTS = ["BERT2BERT", "tied", "BERT2GPT, projected", "BERT2RoBERTa"]


@pytest.fixture
def batch():
    torch.manual_seed(1)
    mask = torch.ones(2, 7).long()
    mask[1, 4:] = 0
    labels = tokens(2, 5)
    labels[1, 3:] = -100
    return {"input_ids": tokens(2, 7) * mask, "attention_mask": mask, "labels": labels}


def tiny(variant: str) -> EncoderDecoderModel:
    torch.manual_seed(0)
    return EncoderDecoderModel(OF_TWO.tiny(**OF_TWO.variants[variant])).double().eval()


@torch.no_grad()
@pytest.mark.parametrize("variant", ["BERT2BERT", "BERT2GPT, projected", "BERT2RoBERTa"])
def test_equals_transformers(variant, batch, tmp_path):
    transformers = pytest.importorskip("transformers")
    model = tiny(variant)
    model.save_pretrained(tmp_path)
    reference, info = transformers.EncoderDecoderModel.from_pretrained(
        tmp_path, dtype=torch.float64, output_loading_info=True
    )
    assert not info["missing_keys"] and not info["unexpected_keys"]
    reference.eval()
    wanted = {"output_hidden_states": True, "use_cache": False}
    ours, theirs = model(**batch, **wanted), reference(**batch, **wanted)
    torch.testing.assert_close(ours.loss, theirs.loss.double(), rtol=1e-6, atol=1e-6)
    seen, said = batch["attention_mask"].bool(), batch["labels"] >= 0
    torch.testing.assert_close(ours.logits[said], theirs.logits[said], rtol=1e-10, atol=1e-10)
    for a, b in zip(ours.encoder_hidden_states, theirs.encoder_hidden_states, strict=True):
        torch.testing.assert_close(a[seen], b[seen], rtol=1e-10, atol=1e-10)
    source = {name: batch[name] for name in ("input_ids", "attention_mask")}
    settings = {"max_new_tokens": 8, "num_beams": 3, "decoder_start_token_id": 1, "pad_token_id": 0, "eos_token_id": 2}
    written, wanted_ids = model.generate(**source, **settings), reference.generate(**source, **settings)
    assert written.tolist() == wanted_ids.tolist()


@torch.no_grad()
@pytest.mark.parametrize("decoder", ["bert", "gpt2"])
def test_reads_files_of_transformers(decoder, batch, tmp_path):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    own = tiny_bert() if decoder == "bert" else tiny_gpt2(hidden_size=32)
    parts = [getattr(transformers, type(config).__name__)(**config.to_diff_dict()) for config in (tiny_bert(), own)]
    tokens_of = {"pad_token_id": 0, "decoder_start_token_id": 1}
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(*parts, **tokens_of)
    reference = transformers.EncoderDecoderModel(config).eval()
    reference.save_pretrained(tmp_path)
    model = glassformer.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert type(model) is EncoderDecoderModel
    assert not model.load_report.initialised and not model.load_report.unused and not model.untrained
    said = batch["labels"] >= 0
    torch.testing.assert_close(model(**batch).logits[said], reference(**batch).logits[said], rtol=1e-5, atol=1e-5)


def test_two_checkpoints_become_one_model(batch, tmp_path, caplog):
    torch.manual_seed(0)
    BertModel(tiny_bert()).save_pretrained(tmp_path / "encoder")
    GPT2LMHeadModel(tiny_gpt2()).save_pretrained(tmp_path / "decoder")
    with caplog.at_level(logging.WARNING, logger="glassformer"):
        model = EncoderDecoderModel.from_encoder_decoder_pretrained(
            tmp_path / "encoder", tmp_path / "decoder", encoder_hidden_dropout_prob=0.0, pad_token_id=0
        )
    assert "no trained" in caplog.text and "crossattention" in caplog.text
    assert model.config.decoder.add_cross_attention and model.config.encoder.hidden_dropout_prob == 0.0
    lacking = [f"decoder.transformer.encoder.layer.{i}.crossattention" for i in range(3)]
    assert model.load_report.initialised == lacking == model.untrained
    model.config.decoder_start_token_id = 1
    assert model.generate(batch["input_ids"], max_new_tokens=3).shape[1] <= 4

    model.save_pretrained(tmp_path / "both")
    again = EncoderDecoderModel.from_pretrained(tmp_path / "both")
    assert again.untrained == lacking  # they are saved as what they are
    loss = again.train()(**batch).loss
    loss.backward()
    torch.optim.SGD(again.parameters(), lr=0.1).step()
    assert not again.untrained


def test_models_that_are_there_become_one(batch):
    encoder = BertModel(tiny_bert()).eval()
    decoder = BertLMHeadModel(tiny_bert(is_decoder=True, add_cross_attention=True)).eval()
    model = EncoderDecoderModel(encoder=encoder, decoder=decoder)
    assert model.encoder is encoder and model.config.decoder is decoder.config
    assert EncoderDecoderModel.from_encoder_decoder_pretrained(encoder_model=encoder, decoder_model=decoder)
    with pytest.raises(InputError, match="is no decoder: set is_decoder=True"):
        EncoderDecoderModel(encoder=encoder, decoder=BertLMHeadModel(tiny_bert(is_decoder=True)))
    with pytest.raises(InputError, match="a body without a head"):
        EncoderDecoderModel(encoder=decoder, decoder=decoder)
    with pytest.raises(glassformer.ArgumentError, match="a config, or an encoder and a decoder"):
        EncoderDecoderModel()
    with pytest.raises(glassformer.ConfigError, match="encoder must be the configuration of a model, got None"):
        EncoderDecoderConfig(decoder=tiny_bert())


def test_tied_parts_have_one_set_of_weights(batch, tmp_path):
    model = tiny("tied")
    assert model.encoder.embeddings.word_embeddings.weight is model.decoder.bert.embeddings.word_embeddings.weight
    layers = (model.encoder.encoder.layer[1], model.decoder.bert.encoder.layer[1])
    assert layers[0].attention.self.query.weight is layers[1].attention.self.query.weight
    apart = tiny("BERT2BERT")
    assert model.num_parameters() < apart.num_parameters()
    assert apart.encoder.embeddings.word_embeddings.weight is not apart.decoder.get_input_embeddings().weight

    model.save_pretrained(tmp_path)
    again = EncoderDecoderModel.from_pretrained(tmp_path, dtype=torch.float64)
    assert again.num_parameters() == model.num_parameters()
    assert torch.equal(again(**batch).logits, copy.deepcopy(model)(**batch).logits) or torch.allclose(
        again(**batch).logits, model(**batch).logits, atol=1e-12
    )


def test_the_config_survives_a_round_trip(tmp_path):
    config = EncoderDecoderConfig.from_encoder_decoder_configs(BertConfig(), BertConfig(hidden_size=96), pad_token_id=3)
    config.save_pretrained(tmp_path)
    again = glassformer.AutoConfig.from_pretrained(tmp_path)
    assert again == config and again.decoder.hidden_size == 96 and again.vocab_size == 30522
    with pytest.raises(glassformer.ConfigError, match="cross_attention_hidden_size = 64"):
        EncoderDecoderConfig.from_dict(
            {**config.to_dict(), "decoder": {**config.decoder.to_dict(), "cross_attention_hidden_size": 64}}
        )


@torch.no_grad()
def test_the_head_mask_of_the_decoder_is_that_of_its_cross_attention_too(batch):
    model = tiny("BERT2BERT")
    mask = torch.ones(2, 4)
    mask[0, 1] = 0
    out = model(**batch, decoder_head_mask=mask, output_attentions=True)
    assert not out.decoder_attentions[0][:, 1].any() and not out.cross_attentions[0][:, 1].any()
    apart = model(**batch, decoder_head_mask=mask, cross_attn_head_mask=torch.ones(2, 4), output_attentions=True)
    assert not apart.decoder_attentions[0][:, 1].any() and apart.cross_attentions[0][:, 1].any()
