"""Every kernel of the linear layer gives the same numbers."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from glassformer.nn.linear import MAX_TRANSPOSED_ROWS, Linear, has_onednn


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(48, 96), (96, 48), (8, 16_387)])
@pytest.mark.parametrize("rows", [1, 2, MAX_TRANSPOSED_ROWS, MAX_TRANSPOSED_ROWS + 1, 40])
def test_few_rows_equal_the_plain_product(rows, shape, dtype, bias):
    torch.manual_seed(0)
    linear = Linear(*shape, bias=bias).to(dtype)
    x = torch.randn(rows, shape[0], dtype=dtype)
    plain = F.linear(x, linear.weight, linear.bias)
    near = {torch.float32: 2e-6, torch.float64: 1e-14, torch.bfloat16: 3e-2}[dtype]
    with torch.no_grad():
        torch.testing.assert_close(linear(x), plain, rtol=0, atol=near)
        columns = x.t().contiguous().t()  # the same rows, standing otherwise in memory
        torch.testing.assert_close(linear(columns), plain, rtol=0, atol=near)
        torch.testing.assert_close(linear(x[None]), plain[None], rtol=0, atol=near)


def test_without_onednn_the_numbers_are_the_same(monkeypatch):
    linear, x = Linear(48, 96), torch.randn(1, 48)
    with torch.no_grad():
        usual = linear(x)
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
        torch.testing.assert_close(linear(x), usual, rtol=0, atol=1e-6)


def test_gradients_use_the_plain_product():
    linear = Linear(8, 4)
    linear(torch.randn(3, 8)).sum().backward()
    assert linear.weight.grad is not None


@pytest.mark.skipif(not has_onednn(), reason="this torch has no oneDNN")
@pytest.mark.parametrize("kept, found_again", [(None, 0), ("1024", 100)])
def test_few_onednn_kernels_are_cached_by_default(kept, found_again):
    """A hundred numbers of rows, twice: oneDNN's log shows which kernels come from its cache."""
    told = {"ONEDNN_VERBOSE": "profile_create", **({} if kept is None else {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": kept})}
    bare_environment = {name: x for name, x in os.environ.items() if not name.startswith("ONEDNN")}
    script = """
import torch
from glassformer.nn.linear import Linear
layer = Linear(32, 32)
with torch.no_grad():
    for rows in [*range(5, 105)] * 2:
        layer(torch.zeros(rows, 32))
"""
    command = [sys.executable, "-c", script]
    shown = subprocess.run(command, env={**bare_environment, **told}, capture_output=True, text=True, check=True)
    assert shown.stdout.count("create:cache_hit,cpu,inner_product") == found_again


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc counts what is in use")
def test_lengths_seen_once_are_forgotten():
    """What is in use does not grow with the number of different lengths, as in a service that runs for days."""
    script = """
import ctypes, torch
from glassformer.nn.linear import Linear
layer = Linear(256, 1024)
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "abcdefghij"]
libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info
def use(lengths):
    with torch.no_grad():
        for rows in lengths:
            layer(torch.zeros(rows, 256))
    return libc.mallinfo2().h
first = use(range(5, 105))
print(use(range(105, 405)) - first)
"""
    environment = {name: value for name, value in os.environ.items() if "CACHE_CAPACITY" not in name}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert int(run.stdout) < 8 << 20  # with every kernel kept it grows by 100 MB


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the threshold is glibc's")
def test_memory_of_a_step_is_kept_for_the_next():
    script = (
        "import resource, torch\n"
        "import glassformer.nn.linear\n"
        "faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "for step in range(24):\n"
        "    before = faults()\n"
        "    blocks = [torch.ones(3 << 19) for _ in range(5)]\n"  # 6 MiB each
        "    del blocks\n"
        "print(faults() - before)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 1000  # pages; all of them are 7,680
