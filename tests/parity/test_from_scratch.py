"""The classes that the tutorials write from scratch: ours take their weights and give their numbers, and theirs stand
on our parts when only the import line is changed."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import glassformer

TUTORIALS = ("000", "001")
# What the tutorials call the parts of a layer -> what they are called here.
NAMES = (
    (r"(masked_)?self_attn\.", "attention."),
    (r"(cross|enc_dec)_attn\.", "crossattention."),
    (r"W_[qQ]\.", "self.query."),
    (r"W_[kK]\.", "self.key."),
    (r"W_[vV]\.", "self.value."),
    (r"W_[oO]\.", "output.dense."),
    (r"(ffn\.fc1|ff\.0)\.", "intermediate.dense."),
    (r"(ffn\.fc2|ff\.3)\.", "output.dense."),
    (r"norm1\.", "attention.LayerNorm."),
    (r"norm3\.", "LayerNorm."),
    (r"(decoder_layers\.\d+\.)norm2\.", r"\1crossattention.LayerNorm."),
    (r"norm2\.", "LayerNorm."),
    (r"(en|de)coder_layers\.", r"\1coder.layer."),
    (r"src_embedding\.", "encoder.embeddings.word_embeddings."),
    (r"tgt_embedding\.", "decoder.embeddings.word_embeddings."),
)


@pytest.fixture(autouse=True)
def exactly():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def tutorial(shared, number: str, **ours: type) -> dict:
    """What a tutorial's blocks with classes define, with `ours` in the places of theirs, as an import puts them."""
    text = next((shared / "seeds").glob(f"{number}_*.txt")).read_text(encoding="utf-8", errors="replace")
    space = {"torch": torch, "nn": nn, "F": F, "math": math, "np": np}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        if block.lstrip().startswith(("class ", "import torch\nimport torch.nn")) and "transformers" not in block:
            exec(block, space)
            space.update(ours)
    return space


def translated(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights of a tutorial's class by our names."""
    found = {}
    for name, tensor in state.items():
        for theirs, mine in NAMES:
            name = re.sub(theirs, mine, name)
        found[name] = tensor
    return {name: tensor for name, tensor in found.items() if not name.endswith(".pe")}


def assert_close(theirs, ours):
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("number", TUTORIALS)
def test_attention_of_many_heads(shared, number):
    theirs = tutorial(shared, number)["MultiHeadAttention"](16, 4, 0.1).eval()
    ours = glassformer.MultiHeadAttention(16, 4, 0.1).eval()
    ours.load_state_dict(translated(theirs.state_dict()))
    q, k, v, mask = torch.randn(2, 3, 16), torch.randn(2, 5, 16), torch.randn(2, 5, 16), torch.ones(2, 1, 3, 5)
    mask[1, ..., 2:] = 0
    assert_close(theirs(q, k, v), ours(q, k, v))
    assert_close(theirs(q, k, v, mask), ours(q, k, v, mask))


@pytest.mark.parametrize("method", [None, "dot", "general"])
def test_attention_of_recurrent_models(shared, method):
    name, choice = ("BahdanauAttention", {}) if method is None else ("LuongAttention", {"method": method})
    theirs, ours = tutorial(shared, "001")[name](8, **choice), getattr(glassformer, name)(8, **choice)
    ours.load_state_dict(theirs.state_dict())
    query, keys, values = torch.randn(2, 8), torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    assert_close(theirs(query, keys, values), ours(query, keys, values))


def test_positions_and_scaled_attention(shared):
    theirs = tutorial(shared, "001")
    assert torch.equal(theirs["PositionalEncoding"](16).pe, glassformer.PositionalEncoding(16).pe)
    q, k, v, past = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 5, 8), torch.randn(2, 4, 5, 3), torch.ones(5, 5).tril()
    given = (q, k, v, past)
    assert_close(
        theirs["ScaledDotProductAttention"]().eval()(*given), glassformer.ScaledDotProductAttention().eval()(*given)
    )


@pytest.mark.parametrize("number", TUTORIALS)
def test_the_full_model(shared, number):
    layers = {"000": {"num_encoder_layers": 2, "num_decoder_layers": 2, "num_heads": 4, "max_seq_len": 20}}
    shape = layers.get(number, {"n_layers": 2, "n_heads": 4, "max_len": 20}) | {"d_model": 16, "d_ff": 32}
    theirs, ours = tutorial(shared, number)["Transformer"](30, 40, **shape), glassformer.Transformer(30, 40, **shape)
    ours.load_state_dict(theirs.state_dict())  # under the tutorial's names
    assert_equal_weights(ours.state_dict(), translated(theirs.state_dict()))
    theirs.eval(), ours.eval()
    src, tgt = torch.tensor([[5, 6, 7, 8], [9, 3, 0, 0]]), torch.tensor([[1, 11, 12], [1, 13, 0]])
    masks = ours.make_src_mask(src), ours.make_tgt_mask(tgt)
    if number == "000":  # this one makes no masks itself
        assert_close(theirs(src, tgt, *masks), ours(src, tgt, *masks))
        return
    assert_close((theirs.make_src_mask(src), theirs.make_tgt_mask(tgt)), masks)
    assert_close(theirs(src, tgt), ours(src, tgt))
    memory = ours.encode(src, masks[0])
    assert_close(theirs.encode(src, masks[0]), memory)
    assert_close(theirs.decode(tgt, memory, *masks), ours.decode(tgt, memory, *masks))


def assert_equal_weights(found, expected):
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("number", TUTORIALS)
def test_our_weights_load_into_theirs(shared, number):
    ours = glassformer.Transformer(30, 40, d_model=16, n_heads=4, n_layers=2, d_ff=32, max_len=20).eval()
    layers = {"num_encoder_layers": 2, "num_decoder_layers": 2, "max_seq_len": 20}
    sizes = layers if number == "000" else {"n_layers": 2, "max_len": 20}
    theirs = tutorial(shared, number)["Transformer"](30, 40, 16, 4, d_ff=32, **sizes).eval()
    theirs.load_state_dict(ours.tutorial_state_dict({"000": "W_q", "001": "W_Q"}[number]))
    src, tgt = torch.tensor([[5, 6, 7, 8], [9, 3, 0, 0]]), torch.tensor([[1, 11, 12], [1, 13, 0]])
    masks = (ours.make_src_mask(src), ours.make_tgt_mask(tgt))
    assert_close(theirs(src, tgt, *masks) if number == "000" else theirs(src, tgt), ours(src, tgt, *masks))


@pytest.mark.parametrize("number", TUTORIALS)
def test_parts_answer_under_the_names_of_their_parts(shared, number):
    """Every module of a tutorial's model has the same name in ours, and leads to weights of the same shape."""
    theirs = tutorial(shared, number)["Transformer"](30, 40, 16, 4).eval()
    ours = glassformer.Transformer(30, 40, d_model=16, n_heads=4)
    ours.load_state_dict(theirs.state_dict())
    for name, tensor in theirs.state_dict().items():
        *path, leaf = name.split(".")
        found = ours
        for part in path:
            found = found[int(part)] if part.isdigit() else getattr(found, part)
        assert torch.allclose(getattr(found, leaf), tensor, atol=1e-6), name


@pytest.mark.parametrize("number", TUTORIALS)
def test_their_layers_stand_on_our_parts(shared, number):
    """`from glassformer import MultiHeadAttention, ...` in the place of the classes above it."""
    parts = {
        name: getattr(glassformer, name)
        for name in ("MultiHeadAttention", "ScaledDotProductAttention", "PositionwiseFeedForward", "PositionalEncoding")
    }
    space = tutorial(shared, number, **parts)
    prefix = "Transformer" if number == "001" else ""
    model = space["Transformer"](30, 40, 16, 4, 2)
    assert isinstance(model, space["Transformer"])
    assert type(model.encoder_layers[0]) is space[f"{prefix}EncoderLayer"]
    assert type(model.encoder_layers[0].self_attn) is glassformer.MultiHeadAttention
    src, tgt = torch.tensor([[5, 6, 7, 8], [9, 3, 0, 0]]), torch.tensor([[1, 11, 12], [1, 13, 0]])
    assert model(src, tgt).shape == (2, 3, 40)
    layers = {f"{prefix}{half}Layer": getattr(glassformer, f"{prefix}{half}Layer") for half in ("Encoder", "Decoder")}
    model = tutorial(shared, number, **layers)["Transformer"](30, 40, 16, 4, 2)
    assert type(model.decoder_layers[0]) is glassformer.DecoderLayer
    assert model(src, tgt).shape == (2, 3, 40)
