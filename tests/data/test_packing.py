"""Cutting documents into pieces: every token is predicted once, and none is padded or lost."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.data.document_corpus import document_of_lines
from glassformer.data.packing import pack, split_into_blocks
from glassformer.errors import InputError


@pytest.mark.parametrize("context, overlap", [(1, 0), (4, 0), (7, 0), (4, 3), (8, 5), (64, 10)])
def test_every_token_is_predicted_exactly_once(context, overlap):
    sizes = np.random.default_rng(context).integers(1, 40, size=30)
    bounds = np.concatenate(([0], np.cumsum(sizes)))
    seen = np.zeros(bounds[-1], int)
    for first, last, document, known in pack(bounds, context, overlap).tolist():
        assert bounds[document] <= first < last < bounds[document + 1] and last - first <= context
        assert known == (0 if first == bounds[document] else overlap)
        seen[first + known + 1 : last + 1] += 1
    expected = np.ones(bounds[-1], int)
    expected[bounds[:-1]] = 0  # nothing comes before the first token of a document
    assert (seen == expected).all()


def test_chopped_pieces_are_the_documents():
    bounds = np.array([0, 5, 5, 6, 16])
    pieces = split_into_blocks(bounds, 4).tolist()
    assert [token for first, last, *_ in pieces for token in range(first, last)] == list(range(16))
    assert all(bounds[document] <= first and last <= bounds[document + 1] for first, last, document, _ in pieces)


def test_what_cannot_be_cut_is_refused():
    with pytest.raises(InputError, match="larger than overlap, got 4 and 4"):
        pack(np.array([0, 9]), 4, 4)
    with pytest.raises(InputError, match="at least one token, got 0"):
        split_into_blocks(np.array([0, 9]), 0)


def test_rows_make_documents():
    rows = ["a", "b", " ", "", "c", ""]
    assert document_of_lines(rows, "row") == [0, 1, 2, 3, 4, 5]
    assert document_of_lines(rows, "blank") == [0, 0, -1, -1, 1, -1]
    assert document_of_lines(["a", "b", "c"], "file", files=["x", "x", "y"]) == [0, 0, 1]
    assert document_of_lines(["= A =", "x", "= = B = =", "= C ="], "blank", start=r"^= [^=]") == [0, 0, 0, 1]
    with pytest.raises(InputError, match="documents must be one of row, blank, file, all, got str 'line'"):
        document_of_lines(rows, "line")
    with pytest.raises(InputError, match="document_start must be a regular expression"):
        document_of_lines(rows, "row", start="(")
