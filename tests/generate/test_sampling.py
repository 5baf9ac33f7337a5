"""Seeds and generators of sampling."""

from __future__ import annotations

import pytest
import torch

from glassformer.errors import InputError
from glassformer.generate.sampling import make_generators


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1, 10**5000], ids=["large", "small", "long"])
def test_a_seed_has_at_most_64_bits(seed):
    with pytest.raises(InputError, match="at most 64 bits"):
        make_generators([seed], 1, torch.device("cpu"))


@pytest.mark.parametrize("seed", [2**64 - 1, -(2**63), 0])
def test_every_seed_of_64_bits_is_taken(seed):
    assert isinstance(make_generators(seed, 1, torch.device("cpu")), torch.Generator)
