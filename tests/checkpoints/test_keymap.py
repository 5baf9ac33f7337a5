"""Key tables on made-up files: read into a model and written back, bit for bit, from the same row."""

from __future__ import annotations

import tempfile
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

from glassformer.checkpoints.keymap import KeyMap, Row
from glassformer.checkpoints.load import load_weights
from glassformer.checkpoints.weights import open_weights
from glassformer.errors import WeightsError

HEADS = SimpleNamespace(num_attention_heads=3)
QKV = tuple(f"encoder.layer.{{i}}.{name}.*" for name in ("query", "key", "value"))


def model_of(shapes, config=HEADS):
    """A module tree with weights of these names and shapes, as hollow as a model is before a load."""
    root = nn.Module()
    root.config = config
    for name, shape in shapes.items():
        *path, leaf = name.split(".")
        module = root
        for step in path:
            if not hasattr(module, step):
                module.add_module(step, nn.Module())
            module = getattr(module, step)
        module.register_parameter(leaf, nn.Parameter(torch.empty(shape, device="meta")))
    return root


def table(*rows):
    return KeyMap("base.", ("h", "emb", "other"), rows)


def load(keymap, file, shapes, config=HEADS):
    with tempfile.TemporaryDirectory() as folder:
        save_file(file, f"{folder}/model.safetensors")
        model = model_of(shapes, config)
        report = load_weights(model, open_weights(folder), keymap, prefixed=False, tied={})
    return dict(model.state_dict()), report


def round_trip(keymap, file, ours, config=HEADS):
    """The file gives exactly `ours`, and these give exactly the file."""
    loaded, report = load(keymap, file, {name: tensor.shape for name, tensor in ours.items()}, config)
    assert not report.unused
    assert loaded.keys() == ours.keys() and all(torch.equal(loaded[name], ours[name]) for name in ours)
    written = keymap.to_file(loaded, prefixed=False, config=config)
    assert written.keys() == file.keys() and all(torch.equal(written[name], file[name]) for name in file)


def test_several_running_numbers():
    keymap = table(Row("h.{i}.inner.{j}.at{i}.*", "encoder.group.{i}.layer.{j}.dense.*"))
    file = {f"h.{i}.inner.{j}.at{i}.bias": torch.full((2,), 10.0 * i + j) for i in (0, 12) for j in (3, 4)}
    round_trip(keymap, file, {f"encoder.group.{i}.layer.{j}.dense.bias": file[f"h.{i}.inner.{j}.at{i}.bias"]
                              for i in (0, 12) for j in (3, 4)})  # fmt: skip
    assert list(keymap.to_ours("h.1.inner.2.at3.bias", prefixed=False)) == ["h.1.inner.2.at3.bias"]


@given(st.permutations(range(4)), st.lists(st.integers(1, 4), min_size=4, max_size=4))
@settings(max_examples=25, deadline=None)
def test_a_permutation_of_any_rank(permutation, shape):
    keymap = table(Row("h.kernel.*", "encoder.conv.*", transpose=tuple(permutation)))
    kernel, bias = torch.randn(shape), torch.randn(3)
    ours = {"encoder.conv.weight": kernel.permute(permutation).contiguous(), "encoder.conv.bias": bias}
    round_trip(keymap, {"h.kernel.weight": kernel, "h.kernel.bias": bias}, ours)


def test_transpose_reverses_all_dimensions():
    kernel = torch.randn(2, 3, 4)
    keymap = table(Row("h.k.weight", "encoder.k.weight", transpose=True))
    round_trip(keymap, {"h.k.weight": kernel}, {"encoder.k.weight": kernel.permute(2, 1, 0).contiguous()})


def test_heads_that_the_file_keeps_as_a_dimension():
    """XLNet: `hidden heads size` in the file, `(heads size) hidden` here."""
    keymap = table(
        Row("h.{i}.q", "encoder.{i}.query.weight", transpose=(1, 2, 0), merge=0, heads="num_attention_heads")
    )
    q = torch.randn(5, 3, 2)
    round_trip(keymap, {"h.0.q": q}, {"encoder.0.query.weight": torch.einsum("chd->hdc", q).reshape(6, 5)})


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_heads_interleaved_in_a_fused_tensor(heads, size, width):
    """GPT-NeoX and BLOOM: each head's query, key and value stand together."""
    keymap = table(Row("h.{i}.qkv.*", QKV, interleaved=True, heads="num_attention_heads"))
    parts = torch.randn(3, heads, size, width)
    biases = torch.randn(3, heads, size)
    file = {
        "h.0.qkv.weight": parts.transpose(0, 1).reshape(-1, width).contiguous(),
        "h.0.qkv.bias": biases.transpose(0, 1).reshape(-1).contiguous(),
    }
    ours = {QKV[i].format(i=0).replace("*", "weight"): parts[i].reshape(-1, width) for i in range(3)}
    ours |= {QKV[i].format(i=0).replace("*", "bias"): biases[i].reshape(-1) for i in range(3)}
    round_trip(keymap, file, ours, SimpleNamespace(num_attention_heads=heads))


@given(st.lists(st.integers(1, 4), min_size=3, max_size=3), st.booleans(), st.integers(0, 1))
@settings(max_examples=25, deadline=None)
def test_fused_parts_of_unequal_sizes(sizes, transpose, dim):
    rows = [size * 3 for size in sizes]
    names = [name.format(i=7).replace("*", "weight") for name in QKV]
    ours = {name: torch.randn((row, 4) if dim == 0 else (4, row)) for name, row in zip(names, rows, strict=True)}
    whole = torch.cat(list(ours.values()), dim)
    file = {"h.7.qkv.weight": whole.T.contiguous() if transpose else whole}
    round_trip(table(Row("h.{i}.qkv.*", QKV, transpose=transpose, dim=dim)), file, ours)


@pytest.mark.parametrize("shares, dim", [((), 0), ((1, 3), 0), ((3, 1), 1)])
def test_one_of_ours_in_several_pieces(shares, dim):
    keymap = table(Row(("h.up.weight", "h.gate.weight"), "encoder.dense.weight", shares=shares, dim=dim))
    whole = torch.randn(8, 8)
    first, second = (4, 4) if not shares else (2 * shares[0], 2 * shares[1])
    up, gate = (piece.contiguous() for piece in whole.split([first, second], dim))
    round_trip(keymap, {"h.up.weight": up, "h.gate.weight": gate}, {"encoder.dense.weight": whole})
    with pytest.raises(WeightsError, match=r"encoder\.dense\.weight: missing, as the file lacks h\.gate\.weight"):
        load(keymap, {"h.up.weight": up}, {"encoder.dense.weight": (8, 8)})


def test_two_names_of_the_file_for_one_of_ours():
    row = Row("emb.weight", "embeddings.weight", same_in_file=("other.weight",))
    once, always = table(row), table(Row(row.theirs, row.ours, same_in_file=row.same_in_file, write_copies=True))
    values, shapes = torch.randn(3, 2), {"embeddings.weight": (3, 2)}
    for names in (["emb.weight"], ["other.weight"], ["emb.weight", "other.weight"]):
        loaded, report = load(once, {name: values.clone() for name in names}, shapes)
        assert torch.equal(loaded["embeddings.weight"], values) and not report.unused
    assert list(once.to_file(loaded, prefixed=False)) == ["emb.weight"]
    round_trip(always, {"emb.weight": values, "other.weight": values.clone()}, {"embeddings.weight": values})
    with pytest.raises(WeightsError, match=r"other\.weight: differs from emb\.weight, which it repeats"):
        load(once, {"emb.weight": values, "other.weight": values + 1}, shapes)


def test_one_name_of_the_file_for_two_of_ours():
    keymap = table(Row("emb.weight", "encoder.emb.weight", same_in_model=("decoder.emb.weight",)))
    values = torch.randn(3, 2)
    round_trip(keymap, {"emb.weight": values}, {"encoder.emb.weight": values, "decoder.emb.weight": values})
    with pytest.raises(ValueError, match=r"decoder\.emb\.weight differs"):
        keymap.to_file({"encoder.emb.weight": values, "decoder.emb.weight": values + 1}, prefixed=False)


def test_misshapen_tensors_are_reported_for_every_part():
    keymap = table(Row("h.{i}.qkv.*", QKV, interleaved=True, heads="num_attention_heads"))
    shapes = {name.format(i=0).replace("*", "weight"): (6, 4) for name in QKV}
    for wrong in ((17, 4), (6, 4), (18, 5), (18,)):
        with pytest.raises(WeightsError, match="3 weights") as caught:
            load(keymap, {"h.0.qkv.weight": torch.zeros(wrong)}, shapes)
        assert f"query.weight: shape {list(wrong)} in the file, [6, 4] in the model" in str(caught.value)


def test_an_undeclared_second_name_is_a_fault():
    file = {"emb.weight": torch.zeros(2), "base.emb.weight": torch.zeros(2)}
    with pytest.raises(WeightsError, match="stands in the file twice"):
        load(table(Row("emb.weight", "embeddings.weight")), file, {"embeddings.weight": (2,)})


def test_parts_without_their_siblings_are_not_written():
    with pytest.raises(ValueError, match=r"only some parts of h\.0\.qkv\.weight"):
        table(Row("h.{i}.qkv.*", QKV)).to_file({"encoder.layer.0.query.weight": torch.zeros(2, 2)}, prefixed=False)


def test_a_row_that_cannot_be_read_both_ways_is_refused():
    for row, reason in [
        (("h.{i}.a", "encoder.a"), "same running numbers"),
        ((("h.a", "h.b"), ("encoder.a", "encoder.b")), "fuses or splits"),
    ]:
        with pytest.raises(ValueError, match=reason):
            Row(*row)
    with pytest.raises(ValueError, match="counts the heads"):
        Row("h.a", ("encoder.a", "encoder.b"), interleaved=True)
    keymap = table(Row("h.{i}.qkv.*", QKV, interleaved=True, heads="num_attention_heads"))
    with pytest.raises(ValueError, match="needs the config's num_attention_heads"):
        keymap.to_file({n.format(i=0).replace("*", "bias"): torch.zeros(3) for n in QKV}, prefixed=False)
