"""DeBERTa: what of its attention, its heads and its files the contract does not know."""

from __future__ import annotations

import json
import logging

import pytest
import torch
from safetensors.torch import load_file, save_file

import glassformer
from glassformer import DebertaForMaskedLM, DebertaModel, DebertaV2ForMaskedLM, DebertaV2Model
from glassformer.models.deberta_v2 import log_buckets
from glassformer.nn.position import scores_by_distance

from .architectures import DEBERTA_V2, tiny_deberta, tokens


def tiny(**fields):
    return tiny_deberta("DebertaV2", **fields)


def test_scores_by_distance_are_those_of_the_distances():
    queries, keys = 3, 5
    scores = torch.randn(2, queries, queries + keys)
    found = scores_by_distance(scores, keys)
    assert found.shape == (2, queries, keys) and found.data_ptr() != 0
    assert found.untyped_storage().data_ptr() == scores.untyped_storage().data_ptr()  # a view
    for i in range(queries):
        for j in range(keys):
            assert torch.equal(found[:, i, j], scores[:, i, queries - 1 - (i - j)])


def test_scores_by_hand():
    """Content to position and position to content, pair by pair, as the paper writes them."""
    torch.manual_seed(0)
    model = DebertaV2Model(tiny(conv_kernel_size=0)).double().eval()
    ids, encoder = tokens(1, 7), model.encoder
    attention = encoder.layer[0].attention.self
    x = model.embeddings(ids)[0]
    table = encoder.LayerNorm(encoder.rel_embeddings.weight)
    buckets = log_buckets(torch.arange(-6, 7), 4, 40)
    q, k = (part(x).view(7, 4, 12) for part in (attention.query, attention.key))
    pos_q, pos_k = (part(table).view(8, 4, 12) for part in (attention.query, attention.key))
    scores = torch.empty(4, 7, 7, dtype=torch.float64)
    for i in range(7):
        for j in range(7):
            row = int((buckets[i - j + 6] + 4).clamp(0, 7))
            scores[:, i, j] = ((q[i] * k[j]) + (q[i] * pos_k[row]) + (k[j] * pos_q[row])).sum(-1)
    weights = model(ids, output_attentions=True).attentions[0][0]
    assert torch.allclose(weights, (scores / 6).softmax(-1), atol=1e-10)


def test_buckets_are_those_of_transformers():
    reference = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2").make_log_bucket_position
    for count, farthest in ((256, 512), (4, 40), (32, 64), (256, 128), (10, 1000)):
        distances = torch.arange(1 - farthest, farthest)
        assert torch.equal(log_buckets(distances, count, farthest), reference(distances, count, farthest).long())


@pytest.mark.parametrize("kind", ["Deberta", "DebertaV2"])
@pytest.mark.parametrize("side", ["right", "left", "holes"])
def test_gradients_equal_those_of_transformers(kind, side, tmp_path):
    torch.manual_seed(0)
    ours = getattr(glassformer, f"{kind}ForQuestionAnswering")(
        tiny_deberta(kind, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    ).double()
    ours.save_pretrained(tmp_path)
    theirs = DEBERTA_V2.reference.load(f"{kind}ForQuestionAnswering", tmp_path).train()
    masks = {"right": [[1, 1, 1, 1, 1, 0]], "left": [[0, 0, 1, 1, 1, 1]], "holes": [[1, 0, 1, 1, 0, 1]]}
    mask = torch.tensor([[1] * 6, *masks[side]])
    batch = {"input_ids": tokens(2, 6), "attention_mask": mask, "token_type_ids": tokens(2, 6) % 2}
    batch |= {"start_positions": torch.tensor([2, 3]), "end_positions": torch.tensor([4, 3])}
    for model in (ours, theirs):
        model.train()
        model(**batch).loss.backward()
    gradients = {name: p.grad for name, p in theirs.named_parameters()}
    written = ours.keymap.to_file({n: p.grad for n, p in ours.named_parameters()}, prefixed=True, config=ours.config)
    assert written.keys() == gradients.keys()
    for name, gradient in written.items():
        torch.testing.assert_close(gradient, gradients[name], rtol=1e-10, atol=1e-10, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("kind", ["Deberta", "DebertaV2"])
@pytest.mark.parametrize("tied", [True, False])
def test_the_head_it_was_trained_with(kind, tied, tmp_path):
    torch.manual_seed(0)
    model = getattr(glassformer, f"{kind}ForMaskedLM")(tiny_deberta(kind, legacy=False, tie_word_embeddings=tied))
    model.lm_predictions["lm_head"].bias.data.normal_()
    model.double().eval().save_pretrained(tmp_path)
    names = {name for name in load_file(tmp_path / "model.safetensors") if name.startswith("lm_predictions.")}
    expected = {"bias", "dense.weight", "dense.bias", "LayerNorm.weight", "LayerNorm.bias"}
    assert names == {f"lm_predictions.lm_head.{name}" for name in expected}
    reference = DEBERTA_V2.reference.load(f"{kind}ForMaskedLM", tmp_path)
    ids = tokens(2, 7)
    ours, theirs = model(ids, labels=ids), reference(ids, labels=ids)
    assert torch.allclose(ours.logits, theirs.logits, atol=1e-10) and torch.allclose(ours.loss, theirs.loss)
    again = type(model).from_pretrained(tmp_path, dtype=torch.float64)
    assert not again.load_report.initialised and torch.equal(again(ids).logits, ours.logits)
    assert again.lm_predictions["lm_head"].decoder.weight is again.get_input_embeddings().weight
    again.resize_token_embeddings(64)
    assert torch.allclose(again(ids).logits[..., :60], ours.logits)


def test_narrow_embeddings(tmp_path):
    torch.manual_seed(0)
    model = DebertaV2ForMaskedLM(tiny(embedding_size=20)).double().eval()
    model.save_pretrained(tmp_path)
    reference = DEBERTA_V2.reference.load("DebertaV2ForMaskedLM", tmp_path)
    ids = tokens(2, 7)
    assert torch.allclose(model(ids).logits, reference(ids).logits, atol=1e-10)
    with pytest.raises(glassformer.ConfigError, match="legacy=False needs embedding_size 48"):
        tiny(embedding_size=20, legacy=False)


@torch.no_grad()
def test_nothing_limits_a_text_without_a_table_of_positions(tmp_path):
    torch.manual_seed(0)
    model = DebertaV2Model(tiny(position_biased_input=False, max_relative_positions=6)).double().eval()
    assert model.max_length is None
    model.save_pretrained(tmp_path)
    ids = tokens(1, 90)
    reference = DEBERTA_V2.reference.load("DebertaV2Model", tmp_path)
    assert torch.allclose(model(ids).last_hidden_state, reference(ids).last_hidden_state, atol=1e-10)
    with pytest.raises(glassformer.InputError, match="41 positions are more than max_position_embeddings 40"):
        DebertaModel(tiny_deberta("Deberta"))(tokens(1, 41))


@torch.no_grad()
def test_token_types_without_a_table_are_not_read():
    model = DebertaV2Model(tiny(type_vocab_size=0)).eval()
    ids = tokens(1, 5)
    out = model(ids, token_type_ids=torch.ones_like(ids))
    assert torch.equal(out.last_hidden_state, model(ids).last_hidden_state)


@torch.no_grad()
def test_pruned_heads_of_a_size_that_heads_do_not_divide(tmp_path):
    """Three heads of four: what is left of a fused tensor cannot be grouped by three."""
    torch.manual_seed(0)
    config = tiny_deberta("Deberta", hidden_size=12, num_attention_heads=3)
    model = DebertaForMaskedLM(config).eval()
    model.prune_heads({0: [1], 2: [0, 2]})
    model.save_pretrained(tmp_path)
    ids = tokens(2, 6)
    assert torch.equal(DebertaForMaskedLM.from_pretrained(tmp_path)(ids).logits, model(ids).logits)


def test_kinds_of_attention_in_files():
    read = glassformer.DebertaConfig.from_dict
    assert read({"pos_att_type": "P2C|c2p"}).pos_att_type == ["p2c", "c2p"]
    assert read({"pos_att_type": "none", "relative_attention": False}).score_terms == 2  # as transformers counts
    assert glassformer.DebertaV2Config.from_dict({"pos_att_type": "none"}).score_terms == 1
    for kind in ("p2p", 5, {}, ["c2p"]):
        with pytest.raises(glassformer.ConfigError, match="pos_att_type takes 'c2p'"):
            read({"pos_att_type": [kind]})
    with pytest.raises(glassformer.ConfigError, match="talking_head = True changes the computation"):
        read({"talking_head": True})
    for key, value in {"attention_head_size": 32, "pooler_hidden_size": 32, "conv_kernel_size": 4}.items():
        with pytest.raises(glassformer.ConfigError, match=key):
            glassformer.DebertaV2Config.from_dict({key: value})


@pytest.mark.parametrize("kind", ["Deberta", "DebertaV2"])
def test_every_auto_class_loads_it(kind, tmp_path):
    getattr(glassformer, f"{kind}ForMaskedLM")(tiny_deberta(kind)).save_pretrained(tmp_path)
    heads = ["PreTraining", "MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering"]
    for head in [*heads, *(["MultipleChoice"] if kind == "DebertaV2" else [])]:
        model = getattr(glassformer, f"AutoModelFor{head}").from_pretrained(tmp_path)
        assert type(model).__name__ == f"{kind}For{head.replace('PreTraining', 'MaskedLM')}"
        if head not in ("PreTraining", "MaskedLM"):
            parts = {"pooler", "classifier"} if head in ("SequenceClassification", "MultipleChoice") else None
            assert parts is None or set(model.load_report.initialised) == parts


def test_published_weights_with_the_trained_head(tmp_path, caplog):
    """Files like those of deberta-v3-base: `lm_predictions`, `mask_predictions`, and no `legacy` in the config."""
    torch.manual_seed(0)
    model = DebertaV2ForMaskedLM(tiny(legacy=False)).eval()
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["legacy"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    weights = load_file(tmp_path / "model.safetensors")
    extra = {"mask_predictions.dense.weight": torch.zeros(2, 2), "deberta.embeddings.position_ids": torch.zeros(1, 40)}
    save_file({**weights, **extra}, tmp_path / "model.safetensors", {"format": "pt"})
    ids = tokens(1, 5)
    with caplog.at_level(logging.INFO, "glassformer"):
        legacy = DebertaV2ForMaskedLM.from_pretrained(tmp_path)
    assert legacy.load_report.initialised == ["cls"]
    assert "lm_predictions.lm_head.bias" in legacy.load_report.unused
    trained = DebertaV2ForMaskedLM.from_pretrained(tmp_path, legacy=False)
    assert not trained.load_report.initialised and torch.equal(trained(ids).logits, model(ids).logits)
