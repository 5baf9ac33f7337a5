"""`patched` changes outputs as head masks and other inputs do."""

from __future__ import annotations

import pytest
import torch

import glassformer

from ..models.architectures import tokens
from .assertions import assert_close


@torch.no_grad()
def test_heads_switched_off_or_scaled_equal_a_head_mask(architecture, batch):
    model = architecture.body(architecture.tiny()).double().eval()
    mask = torch.ones(3, 4, dtype=torch.float64)
    mask[0, 1], mask[2, 3], mask[2, 0] = 0.0, 0.0, 0.25
    wanted = model(**batch, head_mask=mask).last_hidden_state
    with model.patched(heads={0: [1], 2: {3: 0.0, 0: 0.25}}):
        assert_close(model(**batch).last_hidden_state, wanted)
    assert not torch.allclose(model(**batch).last_hidden_state, wanted)


@torch.no_grad()
def test_a_skipped_layer_returns_its_input(architecture, batch):
    model = architecture.body(architecture.tiny()).double().eval()
    with model.patched(skip=[1]), model.capture(hidden=True) as captured:
        model(**batch)
    assert torch.equal(captured.hidden[1], captured.hidden[2])


@torch.no_grad()
def test_patching_a_layer_from_another_text_gives_the_outputs_of_that_text(architecture, batch):
    """Patching all vectors of one layer from another text gives the outputs of that text."""
    model = architecture.body(architecture.tiny()).double().eval()
    other = {**batch, "input_ids": tokens(*batch["input_ids"].shape)}
    real = batch["attention_mask"].bool()
    wanted, captured = model.run_with_cache(**other)
    with model.patched({"encoder.layer.1": captured["encoder.layer.1"]}):
        patched = model(**batch)
    assert_close(patched.last_hidden_state[real], wanted.last_hidden_state[real])
    with model.patched({"encoder.layer.*.attention.output": lambda x: x * 1.0}):
        assert torch.equal(model(**batch).last_hidden_state, model(**batch).last_hidden_state)
    wrong = {"encoder.layer.0": torch.zeros(1, 2, 3)}
    with pytest.raises(glassformer.InputError, match="returns the shape"), model.patched(wrong):
        model(**batch)
    with pytest.raises(glassformer.InputError, match="inputs_embeds"), model.patched({"embeddings": abs}):
        pass
    with pytest.raises(glassformer.InputError, match="is a NoneType, and a tensor is needed"):  # noqa: SIM117
        with model.patched({"encoder.layer.0": lambda x: None}):
            model(**batch)
    with pytest.raises(glassformer.InputError, match="heads are named by layer"), model.patched(heads=[0]):
        pass


@torch.no_grad()
def test_patching_encoder_decoders(seq2seq, batch):
    target = {"decoder_input_ids": tokens(4, 6)}
    first = seq2seq.encoder.layer_count
    mask, crossing = torch.ones(first, 4), torch.ones(seq2seq.decoding_body.layer_count, 4)
    mask[0, 1], crossing[1, 2] = 0, 0
    wanted = seq2seq(**batch, **target, head_mask=mask, cross_attn_head_mask=crossing).logits
    with seq2seq.patched(heads={0: [1]}, cross_heads={first + 1: [2]}):
        assert_close(seq2seq(**batch, **target).logits, wanted)
    with seq2seq.patched(skip=[first]), seq2seq.capture(hidden=[first, first + 1]) as captured:
        seq2seq(**batch, **target)
    assert torch.equal(captured.hidden[first], captured.hidden[first + 1])
