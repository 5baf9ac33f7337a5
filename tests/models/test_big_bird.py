"""BigBird in blocks: beside transformers, in evaluation and in training, and what it makes of short texts."""

from __future__ import annotations

import logging

import pytest
import torch

import glassformer
from glassformer import BigBirdConfig, BigBirdModel
from glassformer.models.big_bird import RandomBlocks, random_block_table

from .architectures import tiny_big_bird, tokens

LENGTH = 37  # 19 blocks of two, the last one shorter; up to 14 tokens are read with full attention


def model_of(**fields) -> BigBirdModel:
    torch.manual_seed(0)
    fields |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.3, "attention_type": "block_sparse"}
    model = BigBirdModel(tiny_big_bird(**fields)).double().eval()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def reference_of(model: glassformer.PreTrainedModel, folder) -> torch.nn.Module:
    transformers = pytest.importorskip("transformers")
    model.save_pretrained(folder)
    kind = getattr(transformers, type(model).__name__)
    return kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").double().eval()


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize(
    "fields", [{}, {"num_random_blocks": 2}, {"use_bias": False, "rescale_embeddings": True}], ids=str
)
def test_blocks_equal_those_of_transformers(fields, is_training, tmp_path):
    """With gradients. In training blocks are drawn, and no weight is dropped."""
    model = model_of(**fields)
    theirs = reference_of(model, tmp_path).train(is_training)
    model.train(is_training)
    ids = tokens(2, LENGTH)
    for kind in (model, theirs):
        out = kind(ids)
        (out.last_hidden_state * torch.linspace(-1, 1, 48)).sum().backward()
        torch.testing.assert_close(out.last_hidden_state, model(ids).last_hidden_state, rtol=1e-10, atol=1e-10)
    ours = dict(model.named_parameters())
    for name, parameter in theirs.named_parameters():
        if "pooler" not in name:
            torch.testing.assert_close(ours[name].grad, parameter.grad, rtol=1e-9, atol=1e-10, msg=name)
    model.train()
    drawn = model(ids).last_hidden_state
    assert not torch.allclose(drawn, model.eval()(ids).last_hidden_state)


@pytest.mark.parametrize("length", [40, 1024])
def test_random_blocks_equal_those_of_transformers(length):
    transformers = pytest.importorskip("transformers")
    config = transformers.BigBirdConfig(
        hidden_size=12,
        num_attention_heads=3,
        block_size=length // 16,
        num_random_blocks=3,
        max_position_embeddings=2048,
    )
    if length == 40:
        config.block_size = 2
    theirs = transformers.models.big_bird.modeling_big_bird.BigBirdBlockSparseAttention(config, seed=5).train()
    seen = []
    theirs._create_rand_mask_from_inputs = lambda from_mask, to_mask, blocks, *rest: seen.append(blocks) or (1 / 0)
    mask = torch.ones(1, length)
    masks = transformers.BigBirdModel.create_masks_for_block_sparse_attn(mask, config.block_size)
    with pytest.raises(ZeroDivisionError):
        theirs(torch.randn(1, length, 12), *masks[1:], masks[0], masks[0])
    ours = random_block_table(RandomBlocks(config.block_size, 3, 3, 5, 2048), length)
    assert torch.equal(ours[:, 1:-1], seen[0][0])


@torch.no_grad()
def test_every_text_is_decided_by_itself(caplog):
    """A short text is read in full, a long one in blocks, whatever is beside it and was before; said once."""
    model = model_of()
    long, short = tokens(1, LENGTH), tokens(1, 9)
    alone = model(long).last_hidden_state
    mask = (torch.arange(LENGTH) < torch.tensor([LENGTH, 9, 20])[:, None]).long()
    batch = torch.cat((long, torch.cat((short, long[:, 9:]), 1), long)) * mask
    with caplog.at_level(logging.WARNING):
        together = model(batch, attention_mask=mask).last_hidden_state
        full = model(short).last_hidden_state
    assert sum("up to 14 tokens are read with full attention" in each.message for each in caplog.records) == 1
    torch.testing.assert_close(together[:1], alone)
    torch.testing.assert_close(together[1:2, :9], full)
    torch.testing.assert_close(together[2:, :20], model(long[:, :20]).last_hidden_state)
    torch.testing.assert_close(model(long).last_hidden_state, alone)  # blocks again
    model.set_attention_type("original_full")
    torch.testing.assert_close(model(short).last_hidden_state, full)
    assert not torch.allclose(model(long).last_hidden_state, alone)


@torch.no_grad()
def test_weights_are_those_of_blocks():
    model = model_of(num_random_blocks=0)
    with model.capture({1: [2]}) as captured:
        model(tokens(1, LENGTH))
    block = torch.arange(LENGTH) // 2
    far = (block[:, None] - block).abs() > 1
    far &= (block != 0) & (block != 18) & (block != 0)[:, None] & (block != 18)[:, None]
    assert torch.equal(captured.attention[1][0, 0] == 0, far)
    torch.testing.assert_close(captured.attention[1].sum(-1), torch.ones(1, 1, LENGTH).double())


@torch.no_grad()
def test_pruned_heads_keep_their_blocks():
    model = model_of().train()
    ids, mask = tokens(1, LENGTH), torch.ones(3, 4)
    mask[1, 0] = 0
    masked = model(ids, head_mask=mask).last_hidden_state
    model.prune_heads({1: [0]})
    torch.testing.assert_close(model(ids).last_hidden_state, masked)


@torch.no_grad()
def test_no_answer_begins_in_the_question(tmp_path):
    torch.manual_seed(0)
    model = glassformer.BigBirdForQuestionAnswering(tiny_big_bird(sep_token_id=59)).double().eval()
    ids = tokens(2, 12)
    ids[0, 4] = ids[1, 6] = ids[:, -1] = 59
    theirs = reference_of(model, tmp_path)
    labels = {"start_positions": torch.tensor([5, 7]), "end_positions": torch.tensor([6, 9])}
    ours, wanted = model(ids, **labels), theirs(ids, **labels)
    for name in ("loss", "start_logits", "end_logits"):
        torch.testing.assert_close(ours[name], wanted[name], rtol=1e-6 if name == "loss" else 1e-10, atol=1e-10)
    assert (ours.start_logits[0, 1:5] < -1e5).all()
    assert ours.start_logits[0, 0] > -1e5
    with pytest.raises(glassformer.InputError, match="question_lengths must have the shape"):
        model(ids, question_lengths=torch.tensor([5, 7]))
    with pytest.raises(glassformer.InputError, match="question_lengths must be a tensor, got list"):
        model(ids, question_lengths=[])


def test_configs_that_make_no_sense_are_refused():
    for fields, message in (({"attention_type": "sparse"}, "original_full"), ({"block_size": 0}, "block_size")):
        with pytest.raises(glassformer.ConfigError, match=message):
            BigBirdConfig(**fields)
