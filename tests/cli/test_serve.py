"""glass serve: what it needs, and how it is called; tests/serve/service tests what it serves."""

from __future__ import annotations

import importlib.util
import socket

import pytest

from glassformer.cli.main import main
from glassformer.errors import InputError
from glassformer.serve.service.served_model import model_names
from glassformer.serve.service.settings import ServiceSettings

from ..generate.tiny_gpt2 import write_tiny_gpt2


def test_a_missing_extra_is_named(monkeypatch, capsys):
    original = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "uvicorn" else original(name))
    assert main(["serve", "x"]) == 1
    assert "glass serve needs uvicorn: pip install 'glassformer[serve]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name at least one model"),
        (["x", "--port", "70000"], "--port must be between 0 and 65535"),
        (["x", "y", "z", "--task", "fill-mask", "--task", "fill-mask"], "once for each of the 3 models, got 2"),
        (["a/x", "b/x"], "two models are called x"),
        (["x", "--max-queue", "0"], "max_queue must be a whole number of at least 1"),
        (["x", "--request-seconds", "nan"], "request_seconds must be above 0"),
    ],
)
def test_wrong_use(arguments, message, capsys):
    assert main(["serve", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_a_port_in_use_is_reported_before_models_are_loaded(tmp_path, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["serve", str(tmp_path), "--port", str(taken.getsockname()[1])]) == 1
        assert "cannot be used" in capsys.readouterr().err


def test_an_untrained_head_is_not_served(tmp_path, capsys):
    assert main(["serve", str(write_tiny_gpt2(tmp_path)), "--task", "text-classification", "--port", "0"]) == 1
    assert "text-classification" in capsys.readouterr().err


def test_names_of_models():
    assert model_names(["a/minilm", "b=c/d", "./e/"]) == {"minilm": "a/minilm", "b": "c/d", "e": "./e/"}


def test_settings_are_checked():
    with pytest.raises(InputError, match="api_key must be ASCII"):
        ServiceSettings(api_key="ü")
