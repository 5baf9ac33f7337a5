"""Inputs of models: what does not fit ends in one line, padding without a mask is reported, losses are finite."""

from __future__ import annotations

import numpy
import pytest
import torch

import glassformer
from glassformer import ArgumentError, InputError
from glassformer.nn.cache import Cache
from glassformer.nn.loss import label_loss, span_loss

from .architectures import ARCHITECTURES, tiny_bert, tiny_gpt2, tokens


@pytest.fixture
def bert():
    return glassformer.BertModel(tiny_bert()).eval()


@pytest.fixture
def gpt2():
    return glassformer.GPT2LMHeadModel(tiny_gpt2()).eval()


IDS = torch.tensor([[5, 6, 7], [8, 9, 10]])


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (IDS.tolist(), "must be a tensor, got list; a tokenizer gives them with return_tensors='pt'"),
        (numpy.array(IDS), "must be a tensor, got ndarray"),
        (IDS.float(), "must be whole numbers, got torch.float32"),
        (IDS.bool(), "must be whole numbers, got torch.bool"),
        (IDS.to_sparse(), r"must be a dense tensor, got a tensor that is torch.sparse_coo: input_ids.to_dense\(\)"),
        (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "must be a dense tensor"),
        (IDS.to("meta"), "is on the device meta and the model on cpu"),
        (IDS[0], r"must have the shape B T, got \[3\]"),
        (IDS[:, :0], "the batch is empty"),
    ],
    ids=str,
)
def test_ids_that_are_no_ids(bert, ids, message):
    with pytest.raises(InputError, match=f"input_ids .*{message}|{message}"):
        bert(ids)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.int8, torch.uint8])
def test_whole_numbers_of_any_size_are_ids(bert, dtype):
    assert bert(IDS.to(dtype)).last_hidden_state.equal(bert(IDS).last_hidden_state)
    types = torch.zeros_like(IDS)
    assert bert(IDS, token_type_ids=types.to(dtype)).last_hidden_state.equal(bert(IDS).last_hidden_state)
    assert bert.embeddings(IDS.to(dtype)).equal(bert.embeddings(IDS))


def test_vectors_in_another_dtype_are_refused_where_they_would_be_rounded(bert):
    vectors = bert.embeddings.word_embeddings(IDS).detach()
    with pytest.raises(InputError, match=r"inputs_embeds have .*float64 .* inputs_embeds.to\(model.dtype\)"):
        bert(inputs_embeds=vectors.double())
    assert bert(inputs_embeds=vectors.bfloat16()).last_hidden_state.dtype == torch.float32


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("attention_mask", [[1, 1, 1]], "attention_mask must be a tensor"),
        ("attention_mask", torch.ones(2, 3, dtype=torch.complex64), "attention_mask must be numbers"),
        ("position_ids", torch.tensor(1), r"position_ids must have shape \[2, 3\], got \[\]"),
        ("token_type_ids", torch.zeros(2, 3), "token_type_ids must be whole numbers"),
        ("head_mask", 1, "head_mask must be a tensor, got int"),
        ("head_mask", torch.full((4,), torch.nan), r"head_mask must be finite, got nan at \[0, 0, 0, 0, 0\]"),
        ("output_attentions", "yes", "output_attentions must be True, False or None, got 'yes'"),
        ("return_dict", "no", "return_dict must be True, False or None, got 'no'"),
    ],
)
def test_other_arguments_that_do_not_fit(bert, name, value, message):
    with pytest.raises(InputError, match=message):
        bert(IDS, **{name: value})


def test_too_many_and_doubled_arguments_are_errors_of_ours(bert):
    with pytest.raises(ArgumentError, match="BertModel takes 13 arguments, got 20"):
        bert(*[None] * 20)
    with pytest.raises(ArgumentError, match="BertModel got two values for input_ids"):
        bert(IDS, input_ids=IDS)


def test_keys_and_values_that_do_not_fit(gpt2):
    past = gpt2(IDS, use_cache=True).past_key_values
    changed = {
        r"past_key_values\[0\]\[0\] must have the shape \[2, 4, 3, 12\], got \[1, 4, 3, 12\]": [
            tuple(each[:1] for each in layer) for layer in past
        ],
        r"past_key_values\[0\] must be keys and values that an earlier call returned": [layer[:1] for layer in past],
        r"past_key_values\[0\]\[1\] must have the shape": [(keys, values[:, :, :2]) for keys, values in past],
        r"past_key_values must hold as many tokens in each layer, got \[3, 3, 2\]": [
            *past[:2],
            tuple(each[:, :, :2] for each in past[2]),
        ],
        r"past_key_values\[0\]\[0\] .*float64": [tuple(each.double() for each in layer) for layer in past],
        "past_key_values must hold 3 layers, got 2": past[:2],
        "past_key_values are the ones an earlier call returned": "all of them",
    }
    for message, wrong in changed.items():
        with pytest.raises(InputError, match=message):
            gpt2(IDS[:, :1], past_key_values=wrong)
    cache = Cache(layers=3, capacity=4)
    gpt2(IDS, past_key_values=cache)
    with pytest.raises(InputError, match="past_key_values"):
        gpt2(IDS[:1, :1], past_key_values=cache)
    with pytest.raises(InputError, match="5 columns are more than the cache's capacity of 4"):
        gpt2(IDS[:, :2], past_key_values=cache)
    assert cache.length == 3 and gpt2(IDS[:, :1], past_key_values=cache).logits.shape == (2, 1, 60)


def test_direct_calls_of_parts_are_checked_too(bert):
    x = torch.randn(2, 3, 48)
    for part in (bert.encoder, bert.encoder.layer[0], bert.encoder.layer[0].attention):
        for wrong in (x[0], x[..., :-1], x.long(), x.double(), x.tolist(), x[:0]):
            with pytest.raises(InputError, match="hidden_states"):
                part(wrong)
        with pytest.raises(InputError, match=r"attention_mask must fit the shape \[2, 4, 3, 3\], got \[2, 1, 1, 5\]"):
            part(x, torch.zeros(2, 1, 1, 5))
        with pytest.raises(InputError, match="get_extended_attention_mask"):
            part(x, torch.ones(2, 1, 1, 3).bool())
        with pytest.raises(InputError, match="head_mask"):
            part(x, head_mask=torch.ones(7, 7))
    with pytest.raises(InputError, match=r"id 70 at .* is not between 0 and 59"):
        bert.embeddings(torch.tensor([[70]]))
    with pytest.raises(InputError, match="position_ids: position 99 at"):
        bert.embeddings(IDS, position_ids=torch.tensor([[99, 1, 2]]))


@pytest.mark.parametrize("kind", ["Bert", "Longformer", "TransfoXL"])
def test_one_number_masks_no_head(kind):
    model = next(each for each in ARCHITECTURES if each.body.__name__ == f"{kind}Model")
    layer = model.body(model.tiny()).eval().encoder.layer[0]
    with pytest.raises(InputError, match="head_mask must hold a value for each head, got one number"):
        layer(torch.zeros(1, 6, 48), head_mask=torch.tensor(True))


def test_the_mask_that_finds_global_tokens_is_checked_first():
    model = next(each for each in ARCHITECTURES if each.model_type == "longformer")
    model = glassformer.LongformerForSequenceClassification(model.tiny()).eval()
    for mask in ([[1, 1, 1]], torch.ones(2, 3).to_sparse(), torch.ones(2, 3).to("meta")):
        with pytest.raises(InputError, match=r"attention_mask (must be|is on)"):
            model(IDS, attention_mask=mask)


def test_generation_checks_all_its_tensors(gpt2):
    for name, value in {
        "attention_mask": [[1]],
        "token_type_ids": 0,
        "encoder_attention_mask": torch.ones(2, 3),
        "encoder_hidden_states": "source",
    }.items():
        with pytest.raises(InputError, match=name):
            gpt2.generate(IDS, max_new_tokens=1, **{name: value})
    with pytest.raises(InputError, match="input_ids must be whole numbers"):
        gpt2.generate(IDS.float(), max_new_tokens=1)


def test_padding_without_a_mask_is_reported_once(bert, gpt2, caplog):
    padded = torch.tensor([[5, 6, 7], [8, 9, 0]])
    bert(padded, attention_mask=torch.ones_like(padded))
    bert(IDS)
    assert not caplog.records
    bert(padded)
    bert(padded)
    (message,) = caplog.messages
    assert message.startswith("input_ids have padding (token 0) at an end, which is read as words: ")
    caplog.clear()
    gpt2(padded.flip(1))
    assert len(caplog.messages) == 1


def test_padding_that_is_the_end_of_texts_too_is_reported_where_there_are_two(caplog):
    model = glassformer.GPT2LMHeadModel(tiny_gpt2(pad_token_id=1)).eval()
    model(torch.tensor([[5, 6, 7, 1], [1, 5, 6, 7]]))
    assert not caplog.records
    model(torch.tensor([[5, 6, 7, 8], [5, 6, 1, 1]]))
    assert len(caplog.messages) == 1


def test_a_loss_without_any_label_is_zero_and_never_nan():
    logits = torch.randn(1, 4, 2, requires_grad=True)
    outside = torch.tensor([9])
    loss = span_loss(logits[..., 0], logits[..., 1], outside, outside)
    loss.backward()
    assert loss.item() == 0.0 and not logits.grad.any()
    inside = torch.tensor([2])
    half = span_loss(logits[..., 0], logits[..., 1], inside, outside)
    assert torch.allclose(half, torch.nn.functional.cross_entropy(logits[..., 0], inside) / 2)
    nothing = label_loss(logits[0], torch.full((4,), -100))
    nothing.backward()
    assert nothing.item() == 0.0


@pytest.mark.parametrize("kind", [glassformer.BertForQuestionAnswering, glassformer.DistilBertForQuestionAnswering])
def test_one_text_whose_answer_is_outside_of_it(kind):
    tiny = (
        tiny_bert()
        if kind is glassformer.BertForQuestionAnswering
        else glassformer.DistilBertConfig(vocab_size=60, dim=48, n_layers=1, n_heads=4, hidden_dim=72)
    )
    model = kind(tiny)
    loss = model(tokens(1, 5), start_positions=torch.tensor([7]), end_positions=torch.tensor([8])).loss
    loss.backward()
    assert loss.item() == 0.0
    assert all(not parameter.grad.any() for parameter in model.parameters() if parameter.grad is not None)


def test_a_text_of_one_token_has_no_next_word(gpt2):
    assert gpt2(IDS[:, :1], labels=IDS[:, :1]).loss.item() == 0.0


def test_a_chain_without_labels():
    model = glassformer.BertForTokenClassification(tiny_bert(num_labels=3, crf=True))
    assert model(IDS, labels=torch.full_like(IDS, -100)).loss.item() == 0.0


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.tensor([1.7, 0.0]), "labels must be whole numbers"),
        ([0, 1], "labels must be a tensor"),
        (torch.tensor([0, 2]), "label 2 at place 1 is not between 0 and 1"),
        (torch.tensor([0]), "2 labels are needed, got 1"),
    ],
    ids=str,
)
def test_labels_that_do_not_fit(labels, message):
    model = glassformer.BertForNextSentencePrediction(tiny_bert()).eval()
    with pytest.raises(InputError, match=message):
        model(IDS, labels=labels)


def test_numbers_that_are_no_labels():
    config = tiny_bert(num_labels=1)
    with pytest.raises(InputError, match=r"labels must be finite, got nan at \[1\]"):
        glassformer.BertForSequenceClassification(config)(IDS, labels=torch.tensor([0.5, torch.nan]))
    with pytest.raises(InputError, match=r"multi-label classification takes labels from 0 to 1, got 3.0"):
        glassformer.BertForSequenceClassification(tiny_bert())(IDS, labels=torch.tensor([[0.0, 3.0], [1.0, 0.0]]))
