"""The runner of the campaigns, and a few cases of each campaign."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from glassformer.registry import ARCHITECTURES

from .__main__ import Campaign, failure_of, modules
from .case import Case
from .config_files import made
from .tensors import all_calls

FEW = 6


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.NAME)
def test_a_few_cases_of_each_campaign(module, tmp_path):
    campaign = Campaign(module, 0, tmp_path)
    few = getattr(module, "FEW", FEW)  # some campaigns have cases of several seconds
    for _ in range(few):
        if not campaign.try_next():
            pytest.skip("see the reason above")
    campaign.close()
    assert campaign.tried == few and campaign.failed == 0


def test_every_registered_model_is_called_with_tensors_that_do_not_fit():
    called = {name.split()[0] for name, _, _ in all_calls()}
    classes = {path.rpartition(".")[2] for each in ARCHITECTURES.values() for path in each.classes.values()}
    assert classes <= called


def test_configs_of_every_registered_architecture_are_damaged(tmp_path):
    assert {*ARCHITECTURES} <= {*made(tmp_path)}


def fails(error):
    def run():
        raise error

    return run


@pytest.mark.parametrize("forked", (False, True))
def test_a_case_passes_when_it_returns_or_raises_an_accepted_error(forked):
    assert failure_of(Case("returns", lambda: None, forked=forked)) == ""
    assert failure_of(Case("accepted", fails(ValueError("why")), (ValueError,), forked=forked)) == ""
    assert "KeyError: 'x'" in failure_of(Case("another", fails(KeyError("x")), (ValueError,), forked=forked))
    assert "without a message" in failure_of(Case("silent", fails(ValueError("")), (ValueError,), forked=forked))


def test_an_exception_that_python_only_prints_is_a_failure():
    class Careless:
        def __del__(self):
            raise RuntimeError("in passing")

    assert "in passing" in failure_of(Case("careless", Careless))


def test_a_process_that_dies_or_hangs_or_fills_the_memory_is_a_failure():
    assert "SIGKILL" in failure_of(Case("dies", lambda: os.kill(os.getpid(), signal.SIGKILL), forked=True))
    assert "exited with 3" in failure_of(Case("leaves", lambda: os._exit(3), forked=True))
    assert "not done" in failure_of(Case("hangs", lambda: time.sleep(60), forked=True, seconds=0.1))
    assert "MemoryError" in failure_of(Case("eats", lambda: bytearray(2**28), forked=True, megabytes=100))


def test_a_case_is_found_again_by_seed_and_number(tmp_path):
    class Module:
        NAME = "numbers"

        @staticmethod
        def cases(rng: random.Random, folder):
            while True:
                number = rng.random()
                yield Case(str(number), lambda: None)

    seen = [
        case.description for _, (_, _, case) in zip(range(5), Campaign(Module, 7, tmp_path)._numbered, strict=False)
    ]
    assert Campaign(Module, 7, tmp_path).case(3).description == seen[3]
    assert Campaign(Module, 8, tmp_path).case(3).description != seen[3]
