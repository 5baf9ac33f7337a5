"""Performers of performer-pytorch: every option, files both ways, gradients, caches, and what is refused."""

from __future__ import annotations

import pytest
import torch

import glassformer
from glassformer import PerformerConfig, PerformerForCausalLM, PerformerForMaskedLM, PerformerModel
from glassformer.checkpoints.weights import open_weights

from .architectures import tokens
from .performer_reference import library_model

SHAPE = {"num_tokens": 60, "max_seq_len": 64, "dim": 48, "depth": 2, "heads": 4, "dim_head": 12, "nb_features": 24}
LOCAL = {"local_attn_heads": 2, "local_window_size": 8}
OPTIONS = {
    "softmax": {},
    "generalized": {"generalized_attention": True},
    "local": LOCAL,
    "local in one layer": {**LOCAL, "local_attn_heads": (0, 4)},
    "learned positions": {"rotary_position_emb": False},
    "axial positions": {"rotary_position_emb": False, "axial_position_emb": True, "axial_position_shape": (4, 16)},
    "reversible": {"reversible": True, "ff_glu": True},
    "rezero": {"use_rezero": True, "qkv_bias": True, "attn_out_bias": True},
    "scalenorm": {"use_scalenorm": True, "tie_embed": True},
    "all at once": {**LOCAL, "reversible": True, "use_scalenorm": True, "qkv_bias": True, "ff_mult": 2},
}
NOT_IN_WEIGHTS = ("generalized_attention", "local_attn_heads", "local_window_size")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def pair(causal: bool, **options):
    """A model of the library with large random weights, and ours with the same."""
    theirs = library_model(**SHAPE, **options, causal=causal).double().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(0, 0.3) if parameter.dim() else parameter.fill_(0.7)
    told = {name: options[name] for name in NOT_IN_WEIGHTS if name in options}
    if "local_attn_heads" in options and not causal:
        told["shift_local_queries"] = True
    kind = PerformerForCausalLM if causal else PerformerForMaskedLM
    weights = theirs.state_dict()
    return theirs, kind.from_performer_pytorch(weights, causal=causal, dtype=torch.float64, **told)


def run(theirs, ids):
    return theirs(ids, mask=torch.ones_like(ids).bool())  # without a mask, local heads see its padding


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("options", OPTIONS)
def test_every_option_computes_the_same_and_files_go_both_ways(options, causal, tmp_path):
    theirs, ours = pair(causal, **OPTIONS[options])
    ids = tokens(2, 37)
    with torch.no_grad():
        want = run(theirs, ids)
        torch.testing.assert_close(ours(ids).logits, want, rtol=1e-10, atol=1e-10)
        explicit = ours(ids, output_attentions=True)
        torch.testing.assert_close(explicit.logits, want, rtol=1e-10, atol=1e-10)
        assert [each.shape for each in explicit.attentions] == [(2, 4, 37, 37)] * 2
        single = ours.float()(ids).logits
        torch.testing.assert_close(single, run(theirs.float(), ids), rtol=1e-5, atol=1e-5 * want.abs().max().item())
    ours.save_pretrained(tmp_path)
    weights = open_weights(tmp_path)
    theirs.load_state_dict({name: weights.read(name) for name in weights})  # strict
    again = type(ours).from_pretrained(tmp_path)
    assert not again.load_report.initialised and not again.load_report.unused
    with torch.no_grad():
        assert torch.equal(type(ours).from_pretrained(tmp_path)(ids).logits, again(ids).logits)
        torch.testing.assert_close(again(ids).logits, single)


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
def test_gradients_equal_those_of_the_library(causal):
    """Also those of the softmax kernel, which leave out what the largest product depends on."""
    theirs, ours = pair(causal, **LOCAL)
    ids = tokens(2, 21)
    up = torch.randn(2, 21, 60, dtype=torch.float64)
    (run(theirs, ids) * up).sum().backward()
    (ours(ids).logits * up).sum().backward()
    wanted = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    for name, parameter in ours.named_parameters():
        place = ours.keymap.place(name, prefixed=True).name
        torch.testing.assert_close(parameter.grad, wanted[place], rtol=1e-8, atol=1e-8)


@torch.no_grad()
@pytest.mark.parametrize("options", ["generalized", "local"])
def test_a_cache_continues_a_causal_text(options):
    given = {**OPTIONS[options], "generalized_attention": True}
    _, ours = pair(True, **given)
    ids = tokens(2, 30)
    whole = ours(ids).logits
    past = ours(ids[:, :11], use_cache=True).past_key_values
    for part in (slice(11, 12), slice(12, 25), slice(25, 30)):
        out = ours(ids[:, part], past_key_values=past, use_cache=True)
        torch.testing.assert_close(out.logits, whole[:, part], rtol=1e-10, atol=1e-10)
        past = out.past_key_values
    one, other = (ours.generate(ids[:1, :5], max_new_tokens=20, use_cache=each) for each in (True, False))
    assert torch.equal(one, other)


@torch.no_grad()
def test_the_epsilon_of_softmax_is_relative_to_the_whole_text():
    """As in the library: a later word changes what earlier ones compute, if little. A cache does not know it yet."""
    theirs, ours = pair(True)
    ids = tokens(1, 30)
    change = (ours(ids).logits[:, :10] - ours(ids[:, :10]).logits).abs().max()
    assert 0 < change < 1
    torch.testing.assert_close(ours(ids[:, :10]).logits, run(theirs, ids[:, :10]), rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_a_performer_without_words_reads_vectors(tmp_path):
    theirs = pytest.importorskip("performer_pytorch").Performer(48, 2, 4, 12, nb_features=24).eval()
    torch.save(theirs.state_dict(), tmp_path / "performer.pt")
    ours = PerformerModel.from_performer_pytorch(tmp_path / "performer.pt")
    x = torch.randn(2, 19, 48)
    torch.testing.assert_close(ours(inputs_embeds=x).last_hidden_state, theirs(x), rtol=1e-5, atol=1e-5)
    with pytest.raises(glassformer.InputError, match="input_ids"):
        ours(tokens(1, 4))


def test_features_are_redrawn_when_the_library_redraws_them():
    theirs = library_model(**SHAPE, feature_redraw_interval=3).train()
    theirs.performer.proj_updater.feature_redraw_interval = 3
    ours = PerformerForMaskedLM.from_performer_pytorch(theirs.state_dict(), feature_redraw_interval=3).train()
    ids, redrawn = tokens(1, 5), ([], [])
    layers = (
        ours.performer.encoder.layer[1].attention.self.features,
        theirs.performer.net.layers[1][0].fn.fast_attention,
    )
    for _ in range(9):
        for model, layer, changes in zip((ours, theirs), layers, redrawn, strict=True):
            before = layer.projection_matrix.clone()
            model(ids)
            changes.append(not torch.equal(before, layer.projection_matrix))
    assert redrawn[0] == redrawn[1]
    assert sum(redrawn[0]) == 2
    ours.fix_projection_matrices_()
    before = layers[0].projection_matrix.clone()
    for _ in range(9):
        ours(ids)
    assert torch.equal(before, layers[0].projection_matrix)


def test_what_cannot_be_computed_or_told_is_refused(caplog):
    weights = library_model(**SHAPE, **LOCAL).state_dict()
    read = PerformerForMaskedLM.from_performer_pytorch
    with pytest.raises(glassformer.ConfigError, match="shift_local_queries must be given"):
        read(weights, **LOCAL)
    with pytest.raises(glassformer.ConfigError, match="the Performer has local heads"):
        read(weights)
    read(weights, **LOCAL, causal=True)
    assert "PerformerForMaskedLM with causal=True sees only the words before" in caplog.text
    with pytest.raises(glassformer.ArgumentError, match="did you mean 'local_attn_heads'"):
        read(weights, local_attention_heads=2)
    with pytest.raises(glassformer.CheckpointError, match="no Performer in the weights"):
        read({"linear.weight": torch.zeros(2, 2)})
    with pytest.raises(glassformer.CheckpointError, match="is it checkpoint"):
        read({"state_dict": weights})
    with pytest.raises(glassformer.CheckpointError, match="got int"):
        read(3)
    for name in ("cross_attend", "no_projection", "shift_tokens"):
        with pytest.raises(glassformer.ConfigError, match=f"{name}=True is not computed"):
            PerformerModel(PerformerConfig(**{**SHAPE, name: True}))
    for fields, complaint in (
        ({"local_attn_heads": [1]}, "each of 2 layers"),
        ({"local_attn_heads": 5}, "at most 4"),
        ({"local_attn_heads": -1}, "a count of heads"),
        ({"dim": 50}, "a multiple of heads"),
        ({"rotary_position_emb": False, "axial_position_emb": True, "axial_position_shape": [3, 5]}, "multiply to"),
    ):
        with pytest.raises(glassformer.ConfigError, match=complaint):
            PerformerConfig(**{**SHAPE, **fields})
