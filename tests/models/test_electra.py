"""ELECTRA: its embeddings, its heads, and which half of a pair loads where."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import glassformer
from glassformer import ElectraForMaskedLM, ElectraForPreTraining, ElectraModel, InputError

from .architectures import tiny_electra, tokens

IDS = torch.tensor([[2, 7, 9, 3]])


def test_word_vectors_are_projected_where_they_are_narrower(tmp_path):
    narrow, wide = ElectraModel(tiny_electra()), ElectraModel(tiny_electra(embedding_size=48))
    assert narrow.embeddings.projection.weight.shape == (48, 20)
    assert not hasattr(wide.embeddings, "projection") and narrow.embeddings(IDS).shape == (1, 4, 48)
    for model, names in ((narrow, {"embeddings_project.weight", "embeddings_project.bias"}), (wide, set())):
        model.save_pretrained(tmp_path)
        files = load_file(tmp_path / "model.safetensors")
        assert {name for name in files if "project" in name} == names
        assert not ElectraModel.from_pretrained(tmp_path).load_report.initialised
    assert narrow(IDS).keys() == {"last_hidden_state"}


@torch.no_grad()
def test_heads_by_hand():
    torch.manual_seed(0)
    model = ElectraForPreTraining(tiny_electra(hidden_act="relu")).double().eval()
    head, states = model.discriminator_predictions, model.electra(IDS).last_hidden_state
    logits = head.dense_prediction(F.relu(head.dense(states))).squeeze(-1)
    labels = torch.tensor([[0, 1, 1, 0]])
    out = model(IDS, labels=labels)
    torch.testing.assert_close(out.logits, logits)
    torch.testing.assert_close(out.loss, F.binary_cross_entropy_with_logits(logits, labels.double()))
    without_first = model(IDS, labels=torch.tensor([[-100, 1, 1, 0]])).loss
    torch.testing.assert_close(without_first, F.binary_cross_entropy_with_logits(logits[:, 1:], labels[:, 1:].double()))
    with pytest.raises(InputError, match="label 2 at place 0 is not between 0 and 1"):
        model(IDS, labels=labels + 2)
    words = ElectraForMaskedLM(tiny_electra(hidden_act="relu")).double().eval()  # its head has a GELU all the same
    inner, states = words.generator_predictions, words.electra(IDS).last_hidden_state
    narrow = inner.LayerNorm(F.gelu(inner.dense(states)))
    expected = narrow @ words.get_input_embeddings().weight.T + words.generator_lm_head.bias
    torch.testing.assert_close(words(IDS).logits, expected)
    classifier = glassformer.ElectraForSequenceClassification(tiny_electra()).double().eval()
    head, first = classifier.classifier, classifier.electra(IDS).last_hidden_state[:, 0]
    torch.testing.assert_close(classifier(IDS).logits, head.out_proj(F.gelu(head.dense(first))))


@torch.no_grad()
def test_padding_is_not_judged():
    torch.manual_seed(0)
    model = ElectraForPreTraining(tiny_electra()).double().eval()
    ids, mask = torch.cat((IDS, IDS)), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    labels = torch.tensor([[0, 1, 0, 0], [1, 1, -100, -100]])
    alone = [model(ids[:1], labels=labels[:1]).loss * 4, model(ids[1:, :2], labels=labels[1:, :2]).loss * 2]
    torch.testing.assert_close(model(ids, attention_mask=mask, labels=labels).loss, sum(alone) / 6)


@pytest.mark.parametrize("tied", [True, False])
def test_resizing_the_vocabulary(tied):
    torch.manual_seed(0)
    model = ElectraForMaskedLM(tiny_electra(tie_word_embeddings=tied)).eval()
    model.generator_lm_head.bias.data.normal_()
    before = model(IDS).logits
    for size in (64, 55):
        model.resize_token_embeddings(size)
        assert (model.generator_lm_head.weight is model.get_input_embeddings().weight) == tied
        assert torch.allclose(model(IDS).logits[..., :55], before[..., :55], atol=1e-5)


def test_every_auto_class_loads_it(tmp_path):
    torch.manual_seed(0)
    ElectraForPreTraining(tiny_electra()).save_pretrained(tmp_path)
    for auto, head in (
        ("Model", "Model"),
        ("ModelForPreTraining", "ForPreTraining"),
        ("ModelForMaskedLM", "ForMaskedLM"),
        ("ModelForCausalLM", "ForCausalLM"),
        ("ModelForSequenceClassification", "ForSequenceClassification"),
        ("ModelForMultipleChoice", "ForMultipleChoice"),
        ("ModelForTokenClassification", "ForTokenClassification"),
        ("ModelForQuestionAnswering", "ForQuestionAnswering"),
    ):
        model = getattr(glassformer, f"Auto{auto}").from_pretrained(tmp_path)
        assert type(model).__name__ == f"Electra{head}"


@torch.no_grad()
def test_it_writes_as_a_decoder():
    torch.manual_seed(0)
    writer = glassformer.ElectraForCausalLM(tiny_electra(is_decoder=True)).double().eval()
    ids = tokens(1, 3)
    found = writer.generate(ids, max_new_tokens=4, eos_token_id=None, do_sample=False)
    for _ in range(4):
        ids = torch.cat((ids, writer(ids).logits[:, -1:].argmax(-1)), 1)
    assert torch.equal(found, ids)
