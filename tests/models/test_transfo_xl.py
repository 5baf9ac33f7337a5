"""Transformer-XL: its memory is the same however a text is cut, padded or batched; the adaptive softmax; refusals.

Beside the original: tests/parity/test_transfo_xl.py.
"""

from __future__ import annotations

import itertools

import pytest
import torch

import glassformer
from glassformer import TransfoXLConfig, TransfoXLForSequenceClassification, TransfoXLLMHeadModel, TransfoXLModel
from glassformer.generate.model_runner import CachedRunner, UncachedRunner
from glassformer.models import transfo_xl_layers
from glassformer.nn.prepared import prepared

from .architectures import tiny_transfo_xl, tokens

LENGTHS = (9, 4, 1, 7)
MEMORY = {"mem_len": 8, "same_length": True}


def model_of(kind=TransfoXLModel, **fields):
    torch.manual_seed(0)
    return kind(tiny_transfo_xl(**{**MEMORY, **fields})).double().eval()


def assert_close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("fields", [{}, {"same_length": False, "untie_r": False}, {"pre_lnorm": True}], ids=str)
def test_a_padded_text_has_the_memory_that_it_has_alone(left, fields):
    model, ids = model_of(**fields), tokens(4, 9)
    mask = (torch.arange(9) < torch.tensor(LENGTHS)[:, None]).long()
    padded = ids * mask
    if left:
        mask = mask.flip(1)
        padded = torch.stack([row.roll(9 - length) for row, length in zip(padded, LENGTHS, strict=True)])
    first = model(padded, attention_mask=mask, output_attentions=True)
    again = model(padded, attention_mask=mask, mems=first.mems, output_attentions=True)
    for row, length in enumerate(LENGTHS):
        alone = model(ids[row : row + 1, :length], output_attentions=True)
        after = model(ids[row : row + 1, :length], mems=alone.mems, output_attentions=True)
        real = mask[row].bool()
        for batched, single in ((first, alone), (again, after)):
            assert_close(batched.last_hidden_state[row, real], single.last_hidden_state[0])
            for a, b in zip(batched.mems, single.mems, strict=True):
                assert_close(a[:, row], b[:, 0])
            keys = torch.cat((torch.ones(8).bool(), real))
            for a, b in zip(batched.attentions, single.attentions, strict=True):
                assert_close(a[row][:, real][..., keys], b[0])
                assert not a[row][..., ~keys].any()


@torch.no_grad()
def test_what_is_remembered_longer_than_the_past_is_empty():
    """A shorter text of a batch, behind a past that is shorter than the memory, remembers zeros before it."""
    model, ids = model_of(), tokens(2, 5)
    past = [torch.randn(2, 2, 48).double() for _ in range(3)]
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 0, 0, 0]])
    mems = model(ids, attention_mask=mask, mems=past).mems
    alone = model(ids[1:, :1], mems=[each[:, 1:] for each in past]).mems
    assert len(mems[0]) == 7 and len(alone[0]) == 3
    for a, b, before in zip(mems, alone, past, strict=True):
        assert_close(a[-3:, 1], b[:, 0])
        assert_close(b[:2], before[:, 1:])
        assert not a[:-3, 1].any()


@torch.no_grad()
@pytest.mark.parametrize("cuts", [(0, 3, 20), (0, 1, 2, 11, 20)], ids=str)
def test_parts_compute_what_the_whole_text_does(cuts):
    model, ids = model_of(), tokens(2, 20)
    whole, mems, parts = model(ids), None, []
    for begin, end in itertools.pairwise(cuts):
        out = model(ids[:, begin:end], mems=mems)
        mems = out.mems
        parts.append(out.last_hidden_state)
    assert_close(torch.cat(parts, 1), whole.last_hidden_state)
    for a, b in zip(mems, whole.mems, strict=True):
        assert_close(a, b)


@pytest.mark.parametrize("fields", [{}, {"same_length": False}, {"same_length": False, "mem_len": 0}], ids=str)
def test_blocks_of_queries_compute_what_all_at_once_do(fields, monkeypatch):
    model, ids = model_of(**fields), tokens(3, 11)
    mask = (torch.arange(11) < torch.tensor([11, 8, 9])[:, None]).long()
    results = []
    for size in (512, 4):
        monkeypatch.setattr(transfo_xl_layers, "QUERIES", size)
        model.zero_grad()
        out = model(ids, attention_mask=mask).last_hidden_state
        out.square().sum().backward()
        results.append((out, [each.grad for each in model.parameters()]))
    (whole, gradients), (blocks, others) = results
    assert_close(whole, blocks)
    for a, b in zip(gradients, others, strict=True):
        assert_close(a, b)


@torch.no_grad()
def test_generation_with_a_cache_equals_reading_again():
    model = model_of(TransfoXLLMHeadModel)
    prompts = [tokens(1, length)[0].tolist() for length in (3, 14, 8)]
    runners = [kind(model, 30) for kind in (CachedRunner, UncachedRunner)]
    logits = [runner.prefill(prompts, branches=2) for runner in runners]
    for step in range(12):
        assert_close(*logits)
        words = torch.randint(0, 60, (3, 2))
        parents = torch.tensor([[0, 0], [1, 0], [1, 1]]) if step % 3 == 1 else None
        logits = [runner.decode_step(words, parents) for runner in runners]
        if step == 7:
            for runner in runners:
                runner.select(torch.tensor([2, 0, 0]))
            words, logits = words[[2, 0, 0]], [each[[2, 0, 0]] for each in logits]


@torch.no_grad()
def test_words_are_generated_behind_a_memory_whatever_use_cache_says():
    model = model_of(TransfoXLLMHeadModel, same_length=False)
    settings = {"max_new_tokens": 12, "eos_token_id": None, "pad_token_id": 0}
    ids = tokens(2, 5)
    found = model.generate(ids, **settings)
    assert torch.equal(found, model.generate(ids, **settings, use_cache=False))
    out = model(ids)
    for place in range(5, 17):  # as the original generates: each word behind what was remembered
        assert torch.equal(out.prediction_scores[:, -1].argmax(-1), found[:, place])
        out = model(found[:, place : place + 1], mems=out.mems)


@torch.no_grad()
def test_prepared_weights_compute_the_same():
    model, ids = model_of().float(), tokens(2, 6)
    out = model(ids)
    ours, twins = (each(ids, mems=out.mems) for each in (model, prepared(model)))
    torch.testing.assert_close(ours.last_hidden_state, twins.last_hidden_state, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_longer_memory_in_a_call_and_from_now_on():
    model, ids = model_of(), tokens(1, 30)
    longer = model(ids, mem_len=16)
    assert len(longer.mems[0]) == 16 and len(model(ids).mems[0]) == 8
    model.reset_memory_length(16)
    assert_close(model(ids).last_hidden_state, longer.last_hidden_state)
    assert model.config.mem_len == 8 and len(model.init_mems(2)) == 3
    assert model(ids, use_mems=False).mems is None
    model.reset_memory_length(0)
    assert model(ids).mems is None and model.init_mems(1) is None
    with pytest.raises(glassformer.InputError, match="at least 0; got -1"):
        model.reset_memory_length(-1)


@pytest.mark.parametrize("fields", [{}, {"div_val": 1}, {"cutoffs": [], "div_val": 1, "embedding_size": 16}], ids=str)
def test_losses_of_words_are_those_of_all_scores(fields):
    model, rows = model_of(TransfoXLLMHeadModel, **fields), torch.randn(60, 48).double()
    words = torch.arange(60)
    scores = model.word_logits(rows)
    assert_close(scores.exp().sum(-1), torch.ones(60).double())
    assert_close(model.word_losses(rows, words), -scores[words, words])
    with torch.no_grad():
        small = glassformer.quantize(model.float())
        assert (small.word_logits(rows.float()).exp().sum(-1) - 1).abs().max() < 1e-4


@torch.no_grad()
@pytest.mark.parametrize(("layer", "fields"), [(-1, {}), (1, {}), (-1, {"div_val": 1}), (-1, {"cutoffs": []})], ids=str)
def test_resizing(layer, fields, tmp_path):
    model, ids = model_of(TransfoXLLMHeadModel, **fields), tokens(2, 6, 36)
    before = model.transformer(ids).last_hidden_state
    for size in (64, 57):
        model.resize_token_embeddings(size, **({} if layer == -1 else {"layer": layer}))
        assert model(ids).prediction_scores.shape[-1] == size == model.config.vocab_size
        assert model.config.cutoffs == (fields.get("cutoffs", [20, 40]) if layer == -1 else [20, size - 20])
        assert_close(model.transformer(ids).last_hidden_state, before)
        assert model.crit.out_layers[-1].weight is model.transformer.embeddings.word_embeddings.emb_layers[-1].weight
        model.save_pretrained(tmp_path)
        again = TransfoXLLMHeadModel.from_pretrained(tmp_path).double()
        assert torch.equal(again(ids).prediction_scores, again(ids, labels=None).prediction_scores)
        torch.testing.assert_close(again(ids).prediction_scores, model(ids).prediction_scores, rtol=1e-5, atol=1e-5)
    with pytest.raises(glassformer.InputError, match="at least"):
        model.resize_token_embeddings(0)


@torch.no_grad()
def test_the_original_draws_its_losses_from_one_text_at_a_time():
    """Labels count once each, wherever padding is; a text without any label adds nothing."""
    model, ids = model_of(TransfoXLLMHeadModel), tokens(3, 7)
    mask = (torch.arange(7) < torch.tensor([7, 4, 2])[:, None]).long()
    labels = ids.masked_fill(mask == 0, -100)
    out = model(ids * mask, attention_mask=mask, labels=labels)
    alone = [model(ids[i : i + 1, :n], labels=ids[i : i + 1, :n]).losses for i, n in enumerate((7, 4, 2))]
    assert_close(out.loss, torch.cat([each.flatten() for each in alone]).mean())
    assert_close(out.losses.sum(), sum(each.sum() for each in alone))
    assert out.losses.shape == (3, 6) and int((out.losses != 0).sum()) == 10
    nothing = model(ids, labels=torch.full_like(ids, -100))
    assert nothing.loss == 0 and not nothing.losses.any()


def test_refusals():
    model, ids = model_of(TransfoXLLMHeadModel), tokens(2, 4)
    with pytest.raises(glassformer.InputError, match="not keys and values: give mems"):
        model.transformer.encode(ids, past_key_values=())
    with pytest.raises(glassformer.InputError, match=r"3 tensors of the shape positions x 2 x 48.*got 1"):
        model(ids, mems=[torch.zeros(3, 2, 48).double()])
    with pytest.raises(glassformer.InputError, match="mems are tensors"):
        model(ids, mems="all")
    with pytest.raises(glassformer.InputError, match="a text of one token has no next word"):
        model(ids[:, :1], labels=ids[:, :1])
    with pytest.raises(glassformer.InputError, match="is not between 0 and 59"):
        model(ids, labels=ids + 60)
    with pytest.raises(glassformer.ConfigError, match="sample_softmax=5"):
        TransfoXLLMHeadModel(tiny_transfo_xl(sample_softmax=5))
    for fields, message in {
        "attn_type must be 0": {"attn_type": 1},
        "cutoffs must rise": {"cutoffs": [30, 20]},
        "cutoffs must be less than vocab_size 60": {"cutoffs": [60]},
        "tie_projs must say it for 3 clusters": {"tie_projs": [True]},
        "d_embed 48 is too small for 3 clusters": {"div_val": 10},
        "would not see itself": {"same_length": True},
        "is causal by itself": {"is_decoder": True},
    }.items():
        with pytest.raises(glassformer.ConfigError, match=fields):
            tiny_transfo_xl(**message)
    assert TransfoXLConfig(vocab_size=30_000).cutoffs == [20_000]


@torch.no_grad()
def test_views_see_the_weights_between_the_words():
    model, ids = model_of(TransfoXLForSequenceClassification, num_labels=3).eval(), tokens(1, 6)
    attentions = model(ids, output_attentions=True).attentions
    with glassformer.capture(model, attention=True) as captured:
        model(ids)
    for layer, weights in enumerate(attentions):
        assert_close(captured.attention[layer], weights[..., 8:])
