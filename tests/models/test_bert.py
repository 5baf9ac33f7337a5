"""BERT as the tutorials use it: names, calls, outputs, losses and what goes wrong."""

from __future__ import annotations

import copy
import math
from collections import Counter, OrderedDict

import pytest
import torch
from torch import nn

import glassformer
from glassformer import BertConfig, BertForMaskedLM, BertForPreTraining, BertModel, InputError

from .architectures import tiny_bert, tokens


@pytest.fixture
def model() -> BertModel:
    torch.manual_seed(0)
    return BertModel(tiny_bert()).eval()


@pytest.fixture
def ids() -> torch.Tensor:
    torch.manual_seed(1)
    return tokens(2, 7)


# -- the module tree --------------------------------------------------------------------------------------------


def test_tree_of_bert_base():
    model = BertModel.without_weights(BertConfig())
    kinds = Counter(type(module).__name__ for module in model.modules())
    assert (kinds["Dropout"], kinds["LayerNorm"], kinds["Linear"], kinds["GELUActivation"]) == (37, 25, 73, 12)
    assert kinds["BertLayer"] == kinds["BertSelfAttention"] == kinds["BertSelfOutput"] == 12
    names = dict(model.named_parameters())
    assert len(names) == 199
    total = sum(p.numel() for p in names.values())
    assert total == 109_482_240
    shares = [
        sum(p.numel() for name, p in names.items() if part in name) / total
        for part in ("embedding", "encode", "pooler")
    ]
    assert shares == pytest.approx([0.21772649152958506, 0.776879099295009, 0.005394409175405983], abs=0)
    assert names["encoder.layer.0.attention.self.query.weight"].shape == (768, 768)
    text = str(model)
    assert "(word_embeddings): Embedding(30522, 768, padding_idx=0)" in text
    assert "(LayerNorm): LayerNorm((768,), eps=1e-12, elementwise_affine=True" in text
    assert "(intermediate_act_fn): GELUActivation()" in text
    assert "(activation): Tanh()" in text


def test_bert_large_has_its_published_size():
    large = BertModel.without_weights(
        BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    )
    assert large.num_parameters() == 335_141_888


def test_attributes_of_attention(model):
    inner = model.encoder.layer[0].attention.self
    assert (inner.num_attention_heads, inner.attention_head_size, inner.all_head_size) == (4, 12, 48)
    assert inner.position_embedding_type == "absolute"
    assert model.encoder.layer[0].attention.pruned_heads == set()
    relative = BertModel(tiny_bert(position_embedding_type="relative_key"))
    assert relative.encoder.layer[1].attention.self.distance_embedding.weight.shape == (79, 12)


def test_buffers_of_the_embeddings(model, ids, tmp_path):
    assert model.embeddings.position_ids.tolist() == [list(range(40))]
    assert model.embeddings.token_type_ids.tolist() == [[0] * 40]
    assert not [name for name in model.state_dict() if name.endswith("_ids")]
    model.save_pretrained(tmp_path)
    for kind in (BertModel, glassformer.BertForSequenceClassification):
        loaded = kind.from_pretrained(tmp_path)
        for name in ("position_ids", "token_type_ids"):
            assert torch.equal(getattr(loaded.base_model.embeddings, name), getattr(model.embeddings, name))
    other = BertModel(tiny_bert()).eval()
    other.load_state_dict(model.state_dict() | {"embeddings.position_ids": model.embeddings.position_ids})
    assert torch.equal(other(ids)[0], model(ids)[0])


def test_parts_are_built_from_a_config(model, ids):
    """Every class of the tutorial, imported by name and put together as it prints them, gives the model's numbers."""
    config = tiny_bert()
    states, layer = model.embeddings(ids), model.encoder.layer[0]
    for name, part, inputs in (
        ("BertEmbeddings", model.embeddings, (ids,)),
        ("BertEncoder", model.encoder, (states,)),
        ("BertLayer", layer, (states,)),
        ("BertAttention", layer.attention, (states,)),
        ("BertSelfAttention", layer.attention.self, (states,)),
        ("BertSelfOutput", layer.attention.output, (states, states)),
        ("BertIntermediate", layer.intermediate, (states,)),
        ("BertOutput", layer.output, (layer.intermediate(states), states)),
        ("BertPooler", model.pooler, (states,)),
    ):
        made = getattr(glassformer, name)(config).eval()
        assert type(part) is type(made)
        made.load_state_dict(part.state_dict())
        assert torch.equal(made(*inputs)[0], part(*inputs)[0]), name
    heads = BertForPreTraining(config).cls
    assert type(heads) is glassformer.BertPreTrainingHeads
    assert type(heads.predictions) is glassformer.BertLMPredictionHead
    assert type(heads.predictions.transform) is glassformer.BertPredictionHeadTransform
    assert glassformer.BertOnlyMLMHead(config)(states).shape == (2, 7, config.vocab_size)
    assert glassformer.BertOnlyNSPHead(config)(states[:, 0]).shape == (2, 2)


def test_a_layer_is_computed_by_hand_as_the_tutorial_does(model, ids):
    states, layer = model.embeddings(ids), model.encoder.layer[0]
    inner = layer.attention.self
    q, k, v = (inner.transpose_for_scores(part(states)) for part in (inner.query, inner.key, inner.value))
    assert q.shape == (2, inner.num_attention_heads, 7, inner.attention_head_size)
    weights = (q @ k.transpose(-1, -2) / math.sqrt(inner.attention_head_size)).softmax(-1)
    context = (weights @ v).permute(0, 2, 1, 3).reshape(2, 7, inner.all_head_size)
    attended = layer.attention.output(context, states)
    chunked = glassformer.apply_chunking_to_forward(layer.feed_forward_chunk, 3, layer.seq_len_dim, attended)
    torch.testing.assert_close(chunked, layer(states)[0], rtol=1e-5, atol=1e-6)


# -- outputs ----------------------------------------------------------------------------------------------------


def test_outputs_are_dictionary_object_and_tuple(model, ids):
    out = model(ids, output_hidden_states=True, output_attentions=True)
    assert isinstance(out, OrderedDict)
    assert list(out.keys()) == ["last_hidden_state", "pooler_output", "hidden_states", "attentions"]
    assert out[0] is out["last_hidden_state"] is out.last_hidden_state
    assert out[1] is out.pooler_output
    assert out[:2] == (out[0], out[1])
    assert len(out) == 4
    assert "attentions" in out
    assert out.cross_attentions is None
    assert len(out.hidden_states) == 4
    assert torch.equal(out[0], out[2][-1])
    assert torch.equal(out[1], model.pooler(out[0]))
    assert torch.equal(out[2][0], model.embeddings(ids, torch.zeros_like(ids)))
    plain = model(ids, output_hidden_states=True, return_dict=False)
    assert type(plain) is tuple
    assert torch.allclose(plain[2][1], out.hidden_states[1], atol=1e-6)
    with pytest.raises(TypeError):
        del out["attentions"]
    out["pooler_output"] = None
    assert out.pooler_output is None
    assert "pooler_output" not in out
    assert len(out.to_tuple()) == 3
    out.pooler_output = 5
    assert list(out.keys())[:2] == ["last_hidden_state", "pooler_output"]
    for remove in (out.popitem, out.clear):
        with pytest.raises(TypeError):
            remove()
    with pytest.raises(AttributeError):
        out["nothing"] = 1
    rebuilt = type(out)((name, value) for name, value in out.items())  # as torch gathers outputs of several devices
    assert list(rebuilt.keys()) == list(out.keys())


def test_output_prints_as_in_the_tutorials(ids):
    head = glassformer.BertForSequenceClassification(tiny_bert()).eval()
    with torch.no_grad():
        text = str(head(ids))
    assert text.startswith("SequenceClassifierOutput(loss=None, logits=tensor([[")
    assert text.endswith("hidden_states=None, attentions=None)")


def test_output_copies_and_pickles(model, ids):
    import pickle

    out = model(ids)
    for again in (copy.copy(out), pickle.loads(pickle.dumps(out))):
        assert list(again.keys()) == list(out.keys())
        assert torch.equal(again[0], out[0])


def test_the_config_determines_the_outputs(ids):
    model = BertModel(tiny_bert(output_attentions=True, output_hidden_states=True, return_dict=False)).eval()
    assert [type(part) for part in model(ids)] == [torch.Tensor, torch.Tensor, tuple, tuple]
    assert len(model(ids, output_attentions=False)) == 3


def test_arguments_by_position_and_by_name(model, ids):
    mask, types = torch.ones_like(ids), torch.ones_like(ids)
    positions = torch.arange(7).flip(0)[None]
    by_position = model(ids, mask, types, positions)
    by_name = model(position_ids=positions, token_type_ids=types, input_ids=ids)
    assert torch.equal(by_position[0], by_name[0])
    assert not torch.equal(by_position[0], model(ids)[0])
    embedded = model(inputs_embeds=model.get_input_embeddings()(ids))
    assert torch.allclose(embedded[0], model(ids)[0], atol=1e-6)


# -- direct calls -----------------------------------------------------------------------------------------------


@torch.no_grad()
def test_layers_called_directly(model, ids):
    out = model(ids, output_hidden_states=True, output_attentions=True)
    x, layer = out.hidden_states[0], model.encoder.layer[0]
    assert torch.allclose(layer(x)[0], out.hidden_states[1], atol=1e-6)
    context, weights = layer.attention.self(x, output_attentions=True)
    assert torch.allclose(weights, out.attentions[0], atol=1e-6)
    assert type(layer.attention.self(x)) is tuple
    attended = layer.attention.output(context, x)
    assert torch.allclose(attended, layer.attention(x)[0], atol=1e-6)
    assert torch.allclose(layer.output(layer.intermediate(attended), attended), out.hidden_states[1], atol=1e-6)
    assert torch.allclose(model.encoder(x)[0], out[0], atol=1e-5)
    first = model.pooler.activation(model.pooler.dense(out["last_hidden_state"][0, 0, :]))
    assert torch.allclose(first, out["pooler_output"][0], atol=1e-6)


@torch.no_grad()
def test_attention_from_scratch_as_in_the_tutorial(model, ids):
    out = model(ids, output_hidden_states=True, output_attentions=True)
    inner, x, size = model.encoder.layer[0].attention.self, out.hidden_states[0][0], 12
    query = x @ inner.query.weight.T[:, :size] + inner.query.bias[:size]
    key = x @ inner.key.weight.T[:, :size] + inner.key.bias[:size]
    scores = torch.softmax(query @ key.T / math.sqrt(size), dim=-1)
    assert torch.allclose(scores, out.attentions[0][0, 0], atol=1e-6)


@torch.no_grad()
def test_extended_masks_apply_in_direct_calls(model, ids):
    mask = torch.tensor([[1, 1, 1, 1, 0, 0, 0], [1] * 7])
    extended = model.get_extended_attention_mask(mask, ids.shape)
    assert extended.shape == (2, 1, 1, 7)
    assert (extended[0, 0, 0, :4] == 0).all()
    assert (extended[0, 0, 0, 4:] <= -10000).all()
    out = model(ids, mask, output_hidden_states=True)
    direct = model.encoder.layer[0](model.embeddings(ids), extended)[0]
    assert torch.allclose(direct[mask.bool()], out.hidden_states[1][mask.bool()], atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_chunks_do_not_change_numbers(model, ids, chunk):
    chunked = BertModel(tiny_bert(chunk_size_feed_forward=chunk)).eval()
    chunked.load_state_dict(model.state_dict())
    mask = torch.tensor([[1, 1, 1, 1, 0, 0, 0], [1] * 7])
    assert torch.allclose(chunked(ids, mask)[0], model(ids, mask)[0], atol=1e-6)
    x = model.embeddings(ids)
    assert torch.allclose(chunked.encoder.layer[0](x)[0], model.encoder.layer[0](x)[0], atol=1e-6)


# -- embeddings, tying, resizing --------------------------------------------------------------------------------


def test_decoder_is_tied_and_starts_at_zero_bias():
    model = BertForPreTraining(tiny_bert())
    head = model.cls.predictions
    assert head.decoder.weight is model.bert.embeddings.word_embeddings.weight
    assert head.decoder.bias is head.bias
    assert not head.bias.any()
    assert model.get_output_embeddings() is head.decoder
    apart = BertForMaskedLM(tiny_bert(tie_word_embeddings=False))
    assert apart.cls.predictions.decoder.weight is not apart.get_input_embeddings().weight


@pytest.mark.parametrize("tied", [True, False])
def test_resizing(tmp_path, tied):
    model = BertForMaskedLM(tiny_bert(tie_word_embeddings=tied)).eval()
    before = model.get_input_embeddings().weight.detach().clone()
    for size in (70, 50):
        model.resize_token_embeddings(size)
        assert model.config.vocab_size == size
        assert torch.equal(model.get_input_embeddings().weight[:50], before[:50])
        assert model(torch.tensor([[size - 1]])).logits.shape == (1, 1, size)
        assert (model.cls.predictions.decoder.weight is model.get_input_embeddings().weight) == tied
        assert model.cls.predictions.decoder.bias is model.cls.predictions.bias
        model.save_pretrained(tmp_path)
        again = BertForMaskedLM.from_pretrained(tmp_path)
        for name, value in model.state_dict().items():
            assert torch.equal(value, again.state_dict()[name]), name
        # One row alone goes through a kernel whose last bit depends on where the weights lie in memory.
        assert torch.allclose(again(torch.tensor([[3]])).logits, model(torch.tensor([[3]])).logits, atol=1e-5)


def test_setting_embeddings(model, ids):
    new = nn.Embedding(60, 48)
    model.set_input_embeddings(new)
    assert model.get_input_embeddings() is new
    assert torch.equal(model(ids)[0], model(inputs_embeds=new(ids))[0])


# -- heads ------------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_masked_words_bit_for_bit(ids):
    torch.manual_seed(0)
    mlm = BertForMaskedLM(tiny_bert()).eval()
    mask = torch.tensor([[1, 1, 1, 1, 0, 0, 0], [1] * 7])
    for given in ({}, {"attention_mask": mask}):
        out = mlm(ids, **given, labels=ids.masked_fill(mask == 0, -100), output_hidden_states=True)
        assert list(out.keys()) == ["loss", "logits", "hidden_states"]
        assert torch.equal(mlm.cls(out["hidden_states"][-1]), out["logits"])
        transformed = mlm.cls.predictions.transform(out.hidden_states[-1])
        assert torch.equal(mlm.cls.predictions.decoder(transformed), out.logits)


def test_labels_on_padding_are_ignored_and_reported(ids, caplog):
    mlm = BertForMaskedLM(tiny_bert()).eval()
    mask = torch.tensor([[1, 1, 1, 1, 0, 0, 0], [1] * 7])
    clean = mlm(ids, mask, labels=ids.masked_fill(mask == 0, -100)).loss
    assert not caplog.records
    assert torch.equal(mlm(ids, mask, labels=ids).loss, clean)
    assert "3 labels of padded positions are ignored" in caplog.text


def test_losses_of_the_classifier(ids):
    one = glassformer.BertForSequenceClassification(tiny_bert(num_labels=1)).eval()
    out = one(ids, labels=torch.tensor([0.5, 2.0]))
    assert torch.allclose(out.loss, ((out.logits[:, 0] - torch.tensor([0.5, 2.0])) ** 2).mean())
    many = glassformer.BertForSequenceClassification(tiny_bert(num_labels=3)).eval()
    out = many(ids, labels=torch.tensor([[1.0, 0, 0], [1.0, 0, 1.0]]))
    assert torch.allclose(out.loss, nn.BCEWithLogitsLoss()(out.logits, torch.tensor([[1.0, 0, 0], [1.0, 0, 1.0]])))
    with pytest.raises(InputError, match="label 3 at place 1 is not between 0 and 2"):
        many(ids, labels=torch.tensor([0, 3]))


def test_answers_are_never_in_the_padding(ids):
    model = glassformer.BertForQuestionAnswering(tiny_bert()).eval()
    mask = torch.tensor([[1, 1, 0, 0, 0, 0, 0], [1] * 7])
    out = model(ids, mask)
    assert (out.start_logits[0, 2:] == torch.finfo(torch.float32).min).all()
    assert out.end_logits[0].softmax(-1)[:2].sum().item() == pytest.approx(1.0)


def test_multiple_choice():
    torch.manual_seed(0)
    model = glassformer.BertForMultipleChoice(tiny_bert()).eval()
    out = model(tokens(6, 5).view(2, 3, 5), labels=torch.tensor([0, 2]))
    assert out.logits.shape == (2, 3)
    assert out.loss.requires_grad
    with pytest.raises(InputError, match="B choices T"):
        model(tokens(2, 5))
    for mask in (torch.ones(2, 3, 5).to_sparse(), torch.ones(3, 5).to_sparse(), [[1]], "x"):
        with pytest.raises(InputError, match="attention_mask must be a"):
            model(tokens(6, 5).view(2, 3, 5), attention_mask=mask)


# -- decoder ----------------------------------------------------------------------------------------------------


@torch.no_grad()
def test_decoder_sees_only_the_past(ids):
    torch.manual_seed(0)
    model = BertModel(tiny_bert(is_decoder=True)).eval()
    changed = ids.clone()
    changed[:, 4:] = 9
    assert torch.allclose(model(ids)[0][:, :4], model(changed)[0][:, :4], atol=1e-6)
    weights = model(ids, output_attentions=True).attentions[0]
    assert not weights.triu(1).any()


def test_cross_attention_needs_a_decoder(model, ids):
    with pytest.raises(glassformer.ConfigError, match="set is_decoder=True"):
        BertModel(tiny_bert(add_cross_attention=True))
    with pytest.raises(InputError, match="are for decoders"):
        model(ids, encoder_hidden_states=torch.zeros(2, 3, 48))
    decoder = BertModel(tiny_bert(is_decoder=True))
    with pytest.raises(InputError, match="add_cross_attention=True"):
        decoder(ids, encoder_hidden_states=torch.zeros(2, 3, 48))


# -- what goes wrong --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"input_ids": torch.tensor([[3, 60]])}, ValueError, r"id 60 at \[0, 1\] is not between 0 and 59"),
        ({"input_ids": torch.tensor([[3, -1]])}, ValueError, "id -1"),
        ({"input_ids": torch.zeros(1, 41).long()}, ValueError, "41 positions are more than max_position_embeddings 40"),
        ({"input_ids": torch.zeros(0, 4).long()}, ValueError, "the batch is empty"),
        ({"input_ids": torch.zeros(2, 0).long()}, ValueError, "the batch is empty"),
        ({"input_ids": torch.tensor([3, 4])}, ValueError, "must have the shape B T, got"),
        ({"input_ids": torch.tensor([[3.0]])}, ValueError, "must be whole numbers"),
        ({}, ValueError, "either input_ids or inputs_embeds"),
        ({"input_ids": torch.tensor([[3]]), "inputs_embeds": torch.zeros(1, 1, 48)}, ValueError, "not both"),
        ({"input_ids": torch.tensor([[3]]), "token_type_ids": torch.tensor([[2]])}, ValueError, "type 2"),
        ({"input_ids": torch.tensor([[3]]), "token_type_ids": torch.tensor([[0, 0]])}, ValueError, "token_type_ids"),
        ({"input_ids": torch.tensor([[3]]), "position_ids": torch.tensor([[40]])}, ValueError, "position 40"),
        ({"input_ids": torch.tensor([[3]]), "head_mask": torch.ones(2, 4)}, ValueError, "3 layers of 4 heads"),
        ({"input_ids": torch.tensor([[3]]), "head_mask": torch.ones(5)}, ValueError, "3 layers of 4 heads"),
        ({"input_ids": [[3, 4]]}, ValueError, "must be a tensor, got list"),
        ({"input_ids": {"input_ids": torch.tensor([[3]])}}, ValueError, r"model\(\*\*batch\)"),
        ({"input_ids": torch.tensor([[3]]), "attention_mask": [[1]]}, ValueError, "attention_mask must be a tensor"),
        ({"inputs_embeds": torch.zeros(1, 2, 47)}, ValueError, "47 columns, not 48"),
        ({"input_ids": torch.tensor([[3]]), "atention_mask": None}, TypeError, "did you mean 'attention_mask'"),
    ],
)
def test_bad_input(model, given, error, says):
    with pytest.raises(error, match=says):
        model(**given)


def test_places_in_errors_are_those_of_the_batch(model):
    ids = torch.tensor([[3, 4, 0], [3, 4, 99]])
    with pytest.raises(InputError, match=r"id 99 at \[1, 2\]"):
        model(ids, attention_mask=torch.tensor([[1, 1, 0], [1, 1, 1]]))


def test_wrong_sources_and_caches():
    decoder = BertModel(tiny_bert(is_decoder=True, add_cross_attention=True)).eval()
    for wrong in (torch.zeros(3, 4, 48), torch.zeros(1, 4, 48), torch.zeros(2, 4, 47), torch.zeros(2, 48)):
        with pytest.raises(InputError, match=r"encoder_hidden_states must have the shape \[2, positions, 48\]"):
            decoder(tokens(2, 3), encoder_hidden_states=wrong)
    with pytest.raises(InputError, match="encoder_attention_mask must have shape"):
        decoder(tokens(2, 3), encoder_hidden_states=torch.zeros(2, 4, 48), encoder_attention_mask=torch.ones(2, 5))
    past = decoder(tokens(2, 3)).past_key_values
    for wrong in (past[:1], decoder(tokens(1, 3)).past_key_values, 3):
        with pytest.raises(InputError, match="past_key_values"):
            decoder(tokens(2, 1), past_key_values=wrong)


def test_wrong_labels(ids):
    classifier = glassformer.BertForSequenceClassification(tiny_bert()).eval()
    with pytest.raises(InputError, match="2 labels are needed, got 3"):
        classifier(ids, labels=torch.tensor([0, 1, 0]))
    with pytest.raises(InputError, match="labels must be a tensor, got list"):
        classifier(ids, labels=[0, 1])
    assert torch.equal(
        classifier(ids, labels=torch.tensor([0, 1], dtype=torch.int32)).loss,
        classifier(ids, labels=torch.tensor([0, 1])).loss,
    )
    number = glassformer.BertForSequenceClassification(tiny_bert(num_labels=1)).eval()
    with pytest.raises(InputError, match="2 numbers are needed as labels, got 3"):
        number(ids, labels=torch.tensor([0.0, 1.0, 2.0]))


def test_wrong_pruning(model):
    for wrong in ({1: 2}, [0, 1], {0: ["a"]}):
        with pytest.raises(InputError, match=r"\{layer: \[heads\]\}"):
            model.prune_heads(wrong)
    with pytest.raises(InputError, match="layers 0 to 2, got 7"):
        model.prune_heads({7: [0]})


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="hidden_size must be a multiple of num_attention_heads, got 10 and 3"):
        BertModel(BertConfig(hidden_size=10, num_attention_heads=3))


def test_freezing_and_counting(model):
    assert glassformer.count_parameters(model) == sum(p.numel() for p in model.parameters())
    frozen = glassformer.freeze(model, "embeddings", "encoder.layer.0")
    assert glassformer.count_parameters(model, trainable=True) == glassformer.count_parameters(model) - frozen
    assert not model.encoder.layer[0].output.dense.weight.requires_grad
    assert model.encoder.layer[1].output.dense.weight.requires_grad
    glassformer.freeze(model, frozen=False)
    assert glassformer.count_parameters(model, trainable=True) == glassformer.count_parameters(model)
    with pytest.raises(InputError, match="no part 'encodr', did you mean 'encoder'"):
        glassformer.freeze(model, "encodr")


def test_the_callers_config_is_not_changed(ids):
    config = tiny_bert()
    first, second = BertModel(config).eval(), BertModel(config).eval()
    first.prune_heads({0: [1]})
    assert config.pruned_heads == second.config.pruned_heads == {}
    config.chunk_size_feed_forward = 2
    assert first.config.chunk_size_feed_forward == 0
