"""GPT-2: its config under both sets of names, its files, its heads."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

import glassformer
from glassformer import GPT2Config, GPT2ForSequenceClassification, GPT2LMHeadModel, GPT2Model

from .architectures import tiny_gpt2, tokens

CHINESE = {  # the config.json that the tutorial prints
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "gradient_checkpointing": False,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2",
    "n_ctx": 1024,
    "n_embd": 768,
    "n_head": 12,
    "n_inner": None,
    "n_layer": 12,
    "n_positions": 1024,
    "output_past": True,
    "resid_pdrop": 0.1,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 320}},
    "tokenizer_class": "BertTokenizer",
    "vocab_size": 21128,
}


def test_every_field_of_the_printed_config_can_be_read(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CHINESE))
    config = glassformer.AutoConfig.from_pretrained(tmp_path)
    for name, value in CHINESE.items():
        assert getattr(config, name) == value, name
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (768, 12, 12)
    config.save_pretrained(tmp_path / "again")
    assert CHINESE.items() <= json.loads((tmp_path / "again/config.json").read_text()).items()


def test_both_sets_of_names():
    config = GPT2Config(n_embd=48, n_layer=2, num_attention_heads=4)
    assert config.hidden_size == config.n_embd == 48
    config.n_head = 6
    assert config.num_attention_heads == 6
    with pytest.raises(glassformer.ArgumentError, match="'hidden_size' twice"):
        GPT2Config(n_embd=48, hidden_size=48)
    with pytest.raises(glassformer.ArgumentError, match="no field 'n_embed'"):
        GPT2Config(n_embed=48)


def test_files_have_the_original_names_and_shapes(tmp_path):
    torch.manual_seed(0)
    model = GPT2LMHeadModel(tiny_gpt2())
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    assert tensors["transformer.h.1.attn.c_attn.weight"].shape == (48, 144)
    attention = model.transformer.encoder.layer[1].attention.self
    fused = torch.cat([attention.query.weight, attention.key.weight, attention.value.weight]).T
    assert torch.equal(tensors["transformer.h.1.attn.c_attn.weight"], fused)
    assert not any("lm_head" in name for name in tensors)

    tensors["transformer.h.0.attn.bias"] = torch.ones(1, 1, 40, 40)
    tensors["transformer.h.0.attn.masked_bias"] = torch.tensor(-1e4)
    tensors["lm_head.weight"] = tensors["transformer.wte.weight"].clone()
    bare = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    for given in (tensors, bare):
        save_file(given, tmp_path / "model.safetensors", {"format": "pt"})
        for kind in (GPT2LMHeadModel, GPT2Model):
            again = kind.from_pretrained(tmp_path)
            assert not again.load_report.initialised
            for name, value in again.state_dict().items():
                assert torch.equal(
                    value, model.state_dict()[name if kind is GPT2LMHeadModel else f"transformer.{name}"]
                )
    del tensors["transformer.h.2.mlp.c_fc.bias"]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(glassformer.WeightsError, match=r"layer\.2\.intermediate\.dense\.bias: missing"):
        GPT2Model.from_pretrained(tmp_path)


def test_labels_are_shifted_inside():
    torch.manual_seed(0)
    model = GPT2LMHeadModel(tiny_gpt2()).eval()
    ids = tokens(2, 7)
    out = model(ids, labels=ids)
    by_hand = torch.nn.functional.cross_entropy(out.logits[:, :-1].reshape(-1, 60), ids[:, 1:].reshape(-1))
    assert torch.allclose(out.loss, by_hand)
    assert out.past_key_values[0][0].shape == (2, 4, 7, 12)


def test_a_text_is_classified_by_its_last_token():
    torch.manual_seed(0)
    model = GPT2ForSequenceClassification(tiny_gpt2(num_labels=3)).eval()
    ids = tokens(2, 6)
    ids[1, 4:] = 0
    alone = torch.cat([model(ids[:1]).logits, model(ids[1:, :4]).logits])
    assert torch.allclose(model(ids).logits, alone, atol=1e-5)
    assert torch.allclose(model(ids, attention_mask=(ids != 0).long()).logits, alone, atol=1e-5)
    without = GPT2ForSequenceClassification(tiny_gpt2(pad_token_id=None)).eval()
    with pytest.raises(glassformer.InputError, match="pad_token_id or an attention_mask"):
        without(ids)


def test_cross_attention_round_trip(tmp_path):
    torch.manual_seed(0)
    model = GPT2Model(tiny_gpt2(add_cross_attention=True)).eval()
    model.save_pretrained(tmp_path)
    again = GPT2Model.from_pretrained(tmp_path)
    given = {"input_ids": tokens(2, 5), "encoder_hidden_states": torch.randn(2, 4, 48)}
    assert torch.equal(model(**given)[0], again(**given)[0])
    plain = GPT2Model.from_pretrained(tmp_path, add_cross_attention=False)
    assert len(plain.load_report.unused) == 3 * 8
