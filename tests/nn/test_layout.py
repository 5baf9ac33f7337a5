"""The stream: packing and unpacking are inverse, and padding is left out."""

from __future__ import annotations

import shutil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer import InputError
from glassformer.nn.layout import Layout, paired_runs
from glassformer.nn.mask import make_layout
from glassformer.nn.tensor_inputs import check_ids

spans = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 7)), min_size=1, max_size=6)


def mask_of(spans: list[tuple[int, int]], width: int = 13) -> torch.Tensor:
    mask = torch.zeros(len(spans), width, dtype=torch.long)
    for row, (start, size) in enumerate(spans):
        mask[row, start : start + size] = 1
    return mask


@settings(max_examples=60, deadline=None)
@given(spans)
def test_pack_and_unpack_are_inverse(spans):
    mask = mask_of(spans)
    layout = Layout.of(mask)
    x = torch.arange(mask.numel() * 2).view(*mask.shape, 2) + 1.0
    rows = layout.pack(x)
    assert len(rows) == layout.rows == int(mask.sum())
    assert torch.equal(layout.unpack(rows), x * mask[..., None])
    assert torch.equal(layout.unpack(rows, fill=-1), torch.where(mask[..., None].bool(), x, -1.0))
    assert torch.equal(layout.first(rows), torch.stack([x[i][row.nonzero()[0, 0]] for i, row in enumerate(mask)]))
    assert torch.equal(layout.columns(x.device), layout.pack(torch.arange(mask.shape[1]).expand(mask.shape)))
    for run in layout.runs:
        for i, member in enumerate(run.members):
            here = rows[run.start + i * run.length :][: run.length]
            assert torch.equal(here, x[member, run.column : run.column + run.length])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_paired_runs_hold_the_same_sequences(data):
    queries = data.draw(spans)
    keys = data.draw(
        st.lists(st.tuples(st.integers(0, 6), st.integers(1, 7)), min_size=len(queries), max_size=len(queries))
    )
    layouts = [Layout.of(mask_of(part)) for part in (queries, keys)]
    met = []
    for here, there in paired_runs(*layouts):
        assert here.members == there.members
        assert here.count == there.count
        met += here.members
    assert sorted(met) == list(range(len(queries)))


def test_unpacking_survives_the_compiler():
    """The default compiler may write into the tensor that rows are copied into."""
    if shutil.which("g++") is None:
        pytest.skip("the default compiler of torch needs g++")
    layout = Layout.of(torch.tensor([[1, 1, 1], [1, 0, 0]]))
    rows = torch.tensor([[21.0], [11.0], [12.0], [13.0]])
    compiled = torch.compile(lambda x: layout.unpack(x * 1.0))
    assert torch.equal(compiled(rows), layout.unpack(rows))


def test_one_run_when_nothing_is_padded():
    layout = Layout.of(torch.ones(4, 6))
    assert layout.index is None
    assert len(layout.runs) == 1


def test_equal_lengths_share_a_run():
    layout = Layout.of(mask_of([(0, 3), (0, 5), (0, 3), (0, 3)]))
    assert [(run.length, run.members) for run in layout.runs] == [(3, (0, 2, 3)), (5, (1,))]


def test_holes_and_keep_padding_keep_every_position():
    cpu = {"dtype": torch.float32, "device": torch.device("cpu")}
    holes = torch.tensor([[1, 0, 1]])
    assert Layout.of(holes) is None
    layout = make_layout(1, 3, holes, **cpu)
    assert layout.rows == 3
    assert layout.mask.flatten().tolist() == [0, torch.finfo(torch.float32).min, 0]
    assert make_layout(1, 3, torch.tensor([[1, 1, 0]]), keep_padding=True, **cpu).rows == 3


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        (torch.tensor([[1, 1], [0, 0]]), "hides every position of sequence 1"),
        (torch.tensor([[1, 1, 1]]), r"shape \[2, 2\] or \[2, 2, 2\], got \[1, 3\]"),
        (torch.tensor([[1.0, 1.0], [1.0, 0.5]]), r"got 0.5 at \[1, 1\]"),
        (torch.tensor([[1, 1], [1, -10000]]), r"got -10000 at \[1, 1\]"),
    ],
)
def test_wrong_masks_are_refused(mask, says):
    with pytest.raises(InputError, match=says):
        make_layout(2, 2, mask, dtype=torch.float32, device=torch.device("cpu"))


def test_ids_out_of_range_are_named():
    with pytest.raises(InputError, match=r"id 99 at \[1, 0\] is not between 0 and 9"):
        check_ids(torch.tensor([[1, 2], [99, 3]]), 10, "id")
    with pytest.raises(InputError, match=r"id -1 at \[0, 1\]"):
        check_ids(torch.tensor([[1, -1]]), 10, "id")
    with pytest.raises(InputError, match=r"whole numbers, got torch\.float32"):
        check_ids(torch.tensor([[1.0]]), 10, "id")
