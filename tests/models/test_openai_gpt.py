"""The first GPT: its config under both sets of names, its files, its heads, and what its original has not."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

import glassformer
from glassformer import OpenAIGPTConfig, OpenAIGPTForSequenceClassification, OpenAIGPTLMHeadModel, OpenAIGPTModel
from glassformer.nn.cache import Cache

from ..parity.test_transformers4 import old_library
from .architectures import tiny_openai_gpt, tokens

PUBLISHED = {  # the config.json of the published model
    "afn": "gelu",
    "architectures": ["OpenAIGPTLMHeadModel"],
    "attn_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "model_type": "openai-gpt",
    "n_ctx": 512,
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 512,
    "n_special": 0,
    "predict_special_tokens": True,
    "resid_pdrop": 0.1,
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    "vocab_size": 40478,
}


@pytest.fixture
def model() -> OpenAIGPTLMHeadModel:
    torch.manual_seed(0)
    return OpenAIGPTLMHeadModel(tiny_openai_gpt()).eval()


# -- config ---------------------------------------------------------------------------------------------------------


def test_every_field_of_the_published_config_can_be_read(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED))
    config = glassformer.AutoConfig.from_pretrained(tmp_path)
    assert isinstance(config, OpenAIGPTConfig)
    for name, value in PUBLISHED.items():
        assert getattr(config, name) == value, name
    assert (config.hidden_size, config.intermediate_size, config.layer_norm_eps) == (768, 3072, 1e-5)
    config.save_pretrained(tmp_path / "again")
    assert PUBLISHED.items() <= json.loads((tmp_path / "again/config.json").read_text()).items()
    assert OpenAIGPTConfig(n_embd=48, n_head=6).hidden_size == 48


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"afn": "gelu_new"}, "hidden_act must be one of gelu, relu, silu, swish; got 'gelu_new'"),
        ({"n_embd": 50, "n_head": 4}, "multiple of num_attention_heads, got 50 and 4"),
        ({"add_cross_attention": True}, "has no cross-attention"),
    ],
)
def test_unsupported_settings_are_refused(fields, message):
    with pytest.raises(glassformer.ConfigError, match=message):
        OpenAIGPTConfig(**fields)
    with pytest.raises(glassformer.ArgumentError, match="no field 'intermediate_size'"):
        OpenAIGPTConfig(intermediate_size=100)


@torch.no_grad()
@pytest.mark.parametrize("word", ["gelu", "relu", "silu", "swish"])
def test_names_of_activations_as_in_the_original(word, tmp_path):
    """Its "gelu" is the tanh form."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = OpenAIGPTModel(tiny_openai_gpt(afn=word)).double().eval()
    model.save_pretrained(tmp_path)
    reference = transformers.OpenAIGPTModel.from_pretrained(tmp_path, dtype=torch.float64).eval()
    ids = tokens(2, 7)
    types = tokens(2, 7)  # looked up among the words
    for given in ({"input_ids": ids}, {"input_ids": ids, "token_type_ids": types}):
        torch.testing.assert_close(model(**given)[0], reference(**given)[0], rtol=1e-10, atol=1e-10)


# -- files ----------------------------------------------------------------------------------------------------------


def test_files_have_the_original_names_and_shapes(model, tmp_path):
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    layer = model.transformer.encoder.layer[1]
    inner = layer.attention.self
    fused = torch.cat([inner.query.weight, inner.key.weight, inner.value.weight]).T
    assert torch.equal(tensors["transformer.h.1.attn.c_attn.weight"], fused)
    assert torch.equal(tensors["transformer.h.1.ln_1.bias"], layer.attention.output.LayerNorm.bias)
    assert torch.equal(tensors["transformer.h.1.mlp.c_proj.weight"], layer.output.dense.weight.T)
    assert tensors["transformer.tokens_embed.weight"].shape == (60, 48)
    assert len(tensors) == 2 + 3 * 12

    tensors["transformer.h.0.attn.bias"] = torch.ones(1, 1, 40, 40)
    tensors["transformer.position_ids"] = torch.arange(40)
    tensors["lm_head.weight"] = tensors["transformer.tokens_embed.weight"].clone()
    bare = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    for given in (tensors, bare):
        save_file(given, tmp_path / "model.safetensors", {"format": "pt"})
        for kind, before in ((OpenAIGPTLMHeadModel, ""), (OpenAIGPTModel, "transformer.")):
            again = kind.from_pretrained(tmp_path)
            assert not again.load_report.initialised
            assert len(again.load_report.leftovers) == 2
            for name, value in again.state_dict().items():
                assert torch.equal(value, model.state_dict()[before + name]), name
    del tensors["transformer.h.2.ln_2.bias"]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(glassformer.WeightsError, match=r"layer\.2\.output\.LayerNorm\.bias: missing"):
        OpenAIGPTModel.from_pretrained(tmp_path)


def test_every_auto_class_loads_it(model, tmp_path, caplog):
    model.save_pretrained(tmp_path)
    assert type(glassformer.AutoModel.from_pretrained(tmp_path)) is OpenAIGPTModel
    assert type(glassformer.AutoModelForCausalLM.from_pretrained(tmp_path)) is OpenAIGPTLMHeadModel
    assert not caplog.records
    judge = glassformer.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert type(judge) is OpenAIGPTForSequenceClassification
    assert judge.load_report.initialised == ["score"]
    assert "must be trained" in caplog.text


def test_an_original_tokenizer_and_a_model_in_one_folder(shared, tmp_path):
    torch.manual_seed(0)
    config = OpenAIGPTConfig(n_embd=12, n_layer=1, n_head=2)
    OpenAIGPTLMHeadModel(config).save_pretrained(tmp_path)
    glassformer.OpenAIGPTTokenizer.from_pretrained(shared / "vocab/openai-gpt").save_pretrained(tmp_path)
    tokenizer = glassformer.AutoTokenizer.from_pretrained(tmp_path)
    model = glassformer.AutoModelForCausalLM.from_pretrained(tmp_path)
    batch = tokenizer("what a wonderful world", return_tensors="pt")
    assert model(**batch).logits.shape == (1, batch["input_ids"].shape[1], 40478)


# -- calls ----------------------------------------------------------------------------------------------------------


def test_arguments_and_outputs_have_the_original_order(model):
    ids = tokens(2, 6)
    mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
    types = tokens(2, 6)
    named = model(input_ids=ids, attention_mask=mask, token_type_ids=types)
    assert torch.equal(model(ids, mask, types).logits, named.logits)
    assert list(named) == ["logits"]
    assert list(model(ids, labels=ids, output_attentions=True)) == ["loss", "logits", "attentions"]
    states = model.transformer(ids, mask, output_hidden_states=True, return_dict=False)
    assert len(states) == 2
    assert torch.equal(states[1][-1], states[0])


def test_labels_are_shifted_inside(model):
    ids = tokens(2, 7)
    out = model(ids, labels=ids)
    by_hand = torch.nn.functional.cross_entropy(out.logits[:, :-1].reshape(-1, 60), ids[:, 1:].reshape(-1))
    assert torch.allclose(out.loss, by_hand)
    assert torch.allclose(model.word_logits(model.transformer(ids)[0][:, -1]), out.logits[:, -1], atol=1e-5)


@torch.no_grad()
def test_a_cache_on_request(model):
    """The original has none."""
    ids = tokens(2, 7)
    whole = model(ids).logits
    past = model(ids[:, :4], use_cache=True).past_key_values
    assert past[0][0].shape == (2, 4, 4, 12)
    assert torch.allclose(model(ids[:, 4:], past_key_values=past).logits, whole[:, 4:], atol=1e-5)
    cache = Cache(layers=3, capacity=7)
    for start, end in ((0, 3), (3, 4), (4, 7)):
        out = model(ids[:, start:end], past_key_values=cache)
        assert torch.allclose(out.logits, whole[:, start:end], atol=1e-5)
    assert cache.length == 7


def test_generation_equals_the_reference(model, tmp_path):
    transformers = pytest.importorskip("transformers")
    model.save_pretrained(tmp_path)
    reference = transformers.OpenAIGPTLMHeadModel.from_pretrained(tmp_path).eval()
    ids = tokens(2, 5)
    for settings in ({"num_beams": 1}, {"num_beams": 3}):
        ours = model.generate(ids, max_new_tokens=12, do_sample=False, **settings)
        theirs = reference.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False, **settings
        )
        assert torch.equal(ours, theirs)


def test_a_text_is_classified_by_its_last_token():
    torch.manual_seed(0)
    model = OpenAIGPTForSequenceClassification(tiny_openai_gpt(num_labels=3)).eval()
    ids = tokens(2, 6)
    ids[1, 4:] = 0
    alone = torch.cat([model(ids[:1]).logits, model(ids[1:, :4]).logits])
    assert torch.allclose(model(ids).logits, alone, atol=1e-5)
    assert torch.allclose(model(ids, (ids != 0).long()).logits, alone, atol=1e-5)
    labels = torch.tensor([2, 0])
    loss = torch.nn.functional.cross_entropy(alone, labels)
    assert torch.allclose(model(ids, labels=labels).loss, loss, atol=1e-5)
    without = OpenAIGPTForSequenceClassification(tiny_openai_gpt(pad_token_id=None)).eval()
    with pytest.raises(glassformer.InputError, match="pad_token_id or an attention_mask"):
        without(ids)


@pytest.mark.parametrize("tied", [True, False])
def test_resizing_the_vocabulary(tied):
    torch.manual_seed(0)
    model = OpenAIGPTLMHeadModel(tiny_openai_gpt(tie_word_embeddings=tied)).eval()
    ids = tokens(1, 5)
    before = model(ids).logits
    model.resize_token_embeddings(64)
    assert (model.lm_head.weight is model.get_input_embeddings().weight) == tied
    after = model(ids).logits
    assert after.shape[-1] == 64
    assert torch.allclose(after[..., :60], before, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("kind", [OpenAIGPTModel, OpenAIGPTLMHeadModel, OpenAIGPTForSequenceClassification])
def test_head_masks_and_pruning_equal_the_old_library(kind, tmp_path):
    torch.manual_seed(0)
    model = kind(tiny_openai_gpt()).eval()
    ids = tokens(2, 7)
    mask = (torch.arange(7) < torch.tensor([[7], [4]])).long()
    batch = {"input_ids": ids * mask, "attention_mask": mask}
    model.prune_heads({0: [1]})
    pruned = {0: [1]}
    with pytest.raises(glassformer.InputError, match="3 or 4 heads"):
        model(**batch, head_mask=torch.ones(3, 4))
    model.prune_heads({1: [2], 2: [3]})
    pruned |= {1: [2], 2: [3]}
    batch["head_mask"] = torch.tensor([[1.0, 0.0, 0.5], [0.25, 1.0, 1.0], [0.0, 1.0, 1.0]])
    model.save_pretrained(tmp_path / "ours")
    theirs, saved = old_library(kind.__name__, tmp_path / "ours", batch, tmp_path)
    again = kind.from_pretrained(saved)
    assert again.config.pruned_heads == pruned
    for result in (model(**batch), again(**batch)):
        for name, value in result.items():
            seen = mask.bool() if value.shape[:2] == mask.shape else slice(None)
            torch.testing.assert_close(value[seen], theirs[name][seen], rtol=1e-5, atol=1e-5)
