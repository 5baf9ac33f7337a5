"""A tiny checkpoint for the tests of generated text."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer import GPT2LMHeadModel, GPT2Tokenizer

from .tiny_gpt2 import write_tiny_gpt2


@pytest.fixture(scope="session")
def gpt2_folder(tmp_path_factory) -> Path:
    return write_tiny_gpt2(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="session")
def tiny_model(gpt2_folder) -> GPT2LMHeadModel:
    return GPT2LMHeadModel.from_pretrained(gpt2_folder)


@pytest.fixture(scope="session")
def tiny_tokenizer(gpt2_folder) -> GPT2Tokenizer:
    return GPT2Tokenizer.from_pretrained(gpt2_folder)
