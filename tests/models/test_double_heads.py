"""GPT and GPT-2 with two heads: the next word, and which of several texts fits best."""

import pytest
import torch

import glassformer
from glassformer import InputError

from .architectures import GPT2, OPENAI_GPT, tokens

KINDS = [(GPT2, "GPT2DoubleHeadsModel"), (OPENAI_GPT, "OpenAIGPTDoubleHeadsModel")]


@pytest.fixture(params=KINDS, ids=lambda kind: kind[1])
def kind(request):
    torch.manual_seed(0)
    architecture, name = request.param
    return architecture, getattr(glassformer, name), name


@pytest.fixture
def batch():
    """B choices T, the last text shorter than the others."""
    torch.manual_seed(1)
    ids = tokens(6, 7).view(2, 3, 7)
    mask = torch.ones_like(ids)
    mask[1, 2, 5:] = 0
    labels = ids.masked_fill(mask == 0, -100)
    ends = mask.sum(-1) - 1
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "mc_token_ids": ends,
        "labels": labels,
        "mc_labels": torch.tensor([2, 0]),
    }


def as_flat(inputs):
    """The same for transformers, which wants masks and positions flat."""
    return {**inputs, "attention_mask": inputs["attention_mask"].flatten(0, 1)}


@torch.no_grad()
@pytest.mark.parametrize("activation", [None, "tanh"])
def test_equals_transformers(kind, batch, tmp_path, activation):
    architecture, ours_class, name = kind
    model = ours_class(architecture.tiny(summary_activation=activation)).double().eval()
    model.save_pretrained(tmp_path)
    reference = architecture.reference.load(name, tmp_path)
    ours = model(**batch, **architecture.call)
    theirs = reference(**as_flat(batch), **architecture.call)
    assert list(ours) == list(theirs)
    assert ours.mc_logits.shape == (2, 3)
    for key in ("mc_loss", "mc_logits"):
        torch.testing.assert_close(ours[key], theirs[key].to(ours[key].dtype), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(ours.loss, theirs.loss.to(ours.loss.dtype), rtol=1e-6, atol=1e-6)
    seen = batch["attention_mask"].bool()
    torch.testing.assert_close(ours.logits[seen], theirs.logits[seen], rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_reads_files_of_transformers(kind, batch, tmp_path):
    architecture, ours_class, name = kind
    reference = architecture.reference.save_new(name, architecture.tiny(), tmp_path)
    model = ours_class.from_pretrained(tmp_path)
    assert not model.load_report.initialised and not model.load_report.unused
    ours, theirs = model(**batch), reference(**as_flat(batch))
    torch.testing.assert_close(ours.mc_logits, theirs.mc_logits, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_without_token_ids_the_last_word_stands_for_a_text(kind, batch):
    architecture, ours_class, _ = kind
    model = ours_class(architecture.tiny()).eval()
    named = model(batch["input_ids"], attention_mask=batch["attention_mask"], mc_token_ids=batch["mc_token_ids"])
    plain = model(batch["input_ids"], attention_mask=batch["attention_mask"])
    assert torch.equal(named.mc_logits, plain.mc_logits)


def test_wrong_token_ids_are_refused(kind, batch):
    architecture, ours_class, _ = kind
    model = ours_class(architecture.tiny()).eval()
    with pytest.raises(InputError, match="names padding in text 5"):
        model(**{**batch, "mc_token_ids": torch.full((2, 3), 6)})
    with pytest.raises(InputError, match="from 0 to 6"):
        model(**{**batch, "mc_token_ids": torch.full((2, 3), 7)})
    with pytest.raises(InputError, match="B choices T"):
        model(batch["input_ids"][0])
    small = model(**{**batch, "mc_token_ids": batch["mc_token_ids"].to(torch.uint8)})  # not a mask of tokens
    assert torch.equal(small.mc_logits, model(**batch).mc_logits)


@pytest.mark.parametrize("wrong", [5, "x", [1], torch.ones(2, 3, 7).to_sparse(), torch.ones(2, 3, 7, device="meta")])
@pytest.mark.parametrize("name", ["input_ids", "attention_mask", "position_ids", "labels", "mc_token_ids"])
def test_arguments_that_do_not_fit_are_named(kind, batch, name, wrong):
    architecture, ours_class, _ = kind
    model = ours_class(architecture.tiny()).eval()
    with pytest.raises(InputError, match=f"{name}|the index of a token"):
        model(**{**batch, name: wrong})


def test_both_heads_learn(kind, batch):
    architecture, ours_class, _ = kind
    model = ours_class(architecture.tiny()).train()
    out = model(**batch)
    (out.loss + out.mc_loss).backward()
    for learnt in (model.lm_head, model.multiple_choice_head.summary, model.transformer.layers[0].intermediate.dense):
        assert bool(learnt.weight.grad.any())
