"""Equality within rounding, for float64."""

from __future__ import annotations

import torch


def assert_close(a, b, tolerance=1e-10):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
