"""Models equal the recorded outputs of the original library."""

from __future__ import annotations

import pytest

from ..conftest import SHARED
from .golden import Case

KINDS = ("bert_*", "gpt2_*", "transfo_xl_*", "gen_*")
CASES = sorted(path.name for kind in KINDS for path in (SHARED / "golden").glob(kind)) or ["absent"]


@pytest.mark.parametrize("name", CASES)
def test_case(shared, name):
    case = Case(shared / "golden" / name)
    compared = 0
    for call, prefix, result in case.run():
        for path in call["expect"]:
            away, fair, size = case.difference(call, prefix, result, path)
            strict = 1e-4 if call.get("method") == "generate" else 1e-5 * max(1.0, size)
            assert away <= min(fair, strict), f"{path} is {away} away"
            compared += 1
        if "keys" in call:
            assert list(result.keys()) == call["keys"]
    assert compared
