"""Span corruption: what T5 reads and writes, and that nothing is lost between the two."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from glassformer.data.spans import corrupt_spans, restore_spans
from glassformer.errors import InputError

SENTINELS = list(range(999, 899, -1))


@pytest.mark.parametrize("length", [2, 3, 7, 50, 512])
def test_input_and_target_make_the_text(length):
    ids = np.random.default_rng(length).integers(10, 800, size=length)
    shares = []
    for seed in range(50):
        hidden, target = corrupt_spans(ids, np.random.default_rng(seed), sentinels=SENTINELS, end_id=1)
        assert restore_spans(hidden.tolist(), target.tolist(), SENTINELS, 1) == ids.tolist()
        used = [token for token in hidden.tolist() if token >= 900]
        assert used == SENTINELS[: len(used)] and hidden[-1] == target[-1] == 1
        assert [token for token in target.tolist() if token >= 900] == SENTINELS[: len(used) + 1]
        text = hidden.tolist()
        assert all(not (a >= 900 and b >= 900) for a, b in itertools.pairwise(text))
        shares.append((len(target) - len(used) - 2) / length)
    if length == 512:
        assert np.mean(shares) == pytest.approx(0.15, abs=0.005)
        assert len(used) == round(round(0.15 * 512) / 3)


def test_another_seed_hides_other_spans():
    ids = np.arange(10, 110)
    made = {str(corrupt_spans(ids, np.random.default_rng(s), sentinels=SENTINELS, end_id=1)[0]) for s in range(5)}
    assert len(made) == 5


def test_what_cannot_be_corrupted_is_refused():
    generator = np.random.default_rng(0)
    with pytest.raises(InputError, match="at least two tokens, got 1"):
        corrupt_spans(np.array([5]), generator, sentinels=SENTINELS, end_id=1)
    with pytest.raises(InputError, match="5 spans need 6 sentinels, got 3"):
        corrupt_spans(np.arange(100), generator, sentinels=SENTINELS[:3], end_id=1)
    with pytest.raises(InputError, match="what sentinel 999 hides"):
        restore_spans([999], [998, 5], SENTINELS, 1)
