"""Arguments of other libraries that have no effect here: accepted where they change nothing, else refused."""

from __future__ import annotations

import pytest
import torch

import glassformer
from glassformer import ArgumentError, CheckpointError, HubError

from ..models.architectures import tiny_bert
from .hub_server import HubServer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "glass"]
MODELS, CONFIGS = ("BertModel", "AutoModel"), ("BertConfig", "AutoConfig")
TOKENIZERS = ("BertTokenizer", "AutoTokenizer")
EVERYWHERE = (*MODELS, *CONFIGS, *TOKENIZERS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    glassformer.BertModel(tiny_bert()).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


def load(name, folder, **arguments):
    return getattr(glassformer, name).from_pretrained(folder, **arguments)


@pytest.mark.parametrize("name", EVERYWHERE)
def test_values_that_change_nothing_are_accepted(folder, name):
    for value in (None, False):
        load(name, folder, force_download=value, resume_download=value, trust_remote_code=value)
    load(name, folder, resume_download=True, proxies={}, mirror=None, use_auth_token="secret")
    if name in MODELS:
        for kernel in (None, "sdpa", "eager"):
            model = load(name, folder, low_cpu_mem_usage=True, attn_implementation=kernel, from_tf=False)
            assert not hasattr(model.config, "attn_implementation")
    if name in TOKENIZERS:
        assert load(name, folder, use_fast=False).vocab_size == load(name, folder, use_fast=True).vocab_size == 6


@pytest.mark.parametrize(
    "argument, value, reason",
    [
        ("trust_remote_code", True, "no code is ever loaded"),
        ("force_download", True, "delete it"),
        ("proxies", {"https": "http://127.0.0.1:9"}, "HTTPS_PROXY"),
        ("mirror", "tuna", "endpoint="),
    ],
)
def test_others_are_refused_with_the_reason(folder, argument, value, reason):
    for name in EVERYWHERE:
        with pytest.raises(ArgumentError, match=rf"{name}.from_pretrained: {argument} cannot be .*: .*{reason}"):
            load(name, folder, **{argument: value})


def test_those_of_models_are_theirs(folder):
    for name in MODELS:
        with pytest.raises(ArgumentError, match=r"attn_implementation cannot be 'flash_attention_2': .*fused kernel"):
            load(name, folder, attn_implementation="flash_attention_2")
        with pytest.raises(ArgumentError, match="from_tf cannot be True: weights are read from safetensors"):
            load(name, folder, from_tf=True)
        with pytest.raises(ArgumentError, match="'low_cpu_mem_usge', did you mean 'low_cpu_mem_usage'"):
            load(name, folder, low_cpu_mem_usge=True)
        with pytest.raises(ArgumentError, match="'use_fast'"):
            load(name, folder, use_fast=True)
    for name in TOKENIZERS:
        with pytest.raises(ArgumentError, match="has no argument 'low_cpu_mem_usage'"):
            load(name, folder, low_cpu_mem_usage=True)


def test_only_safetensors(folder, tmp_path):
    assert load("BertModel", folder, use_safetensors=True).load_report.unused == []
    load("BertModel", folder).save_pretrained(tmp_path, safe_serialization=False)
    for name in MODELS:
        assert load(name, tmp_path, use_safetensors=False).load_report.unused == []
        with pytest.raises(CheckpointError, match=r"only as pytorch_model\.bin, and safetensors are required"):
            load(name, tmp_path, use_safetensors=True)


def test_a_repository_without_safetensors_is_refused_before_it_is_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    with HubServer({"org/old": {"main": {"config.json": b"{}", "pytorch_model.bin": b"pickle"}}}) as hub:
        for name in MODELS:
            with pytest.raises(HubError, match=r"lacks model\.safetensors or model\.safetensors\.index\.json"):
                load(name, "org/old", use_safetensors=True, endpoint=hub.url, cache_dir=tmp_path)
        assert hub.fetched() == []


@pytest.mark.parametrize("name", EVERYWHERE)
def test_the_old_name_of_the_token(folder, name, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    with HubServer({"org/private": {"main": files}}, needs_token="secret") as hub:
        load(name, "org/private", use_auth_token="secret", endpoint=hub.url, cache_dir=tmp_path)
        with pytest.raises(HubError, match="401"):
            load(name, "org/private", use_auth_token="wrong", endpoint=hub.url, cache_dir=tmp_path / "other")
    with pytest.raises(ArgumentError, match="token and use_auth_token are the same"):
        load(name, folder, token="one", use_auth_token="other")


@pytest.mark.parametrize("where", [None, "cpu", "auto", torch.device("cpu"), {"": "cpu"}])
def test_one_device(folder, where):
    for name in MODELS:
        model = load(name, folder, device_map=where)
        found = torch.accelerator.is_available() and where == "auto"
        assert model.device.type == (torch.accelerator.current_accelerator().type if found else "cpu")
        assert model(torch.tensor([[2, 5, 3]], device=model.device))[0].isfinite().all()


def test_a_model_goes_where_it_is_sent(folder):
    assert load("BertModel", folder, device_map="meta").device.type == "meta"


@pytest.mark.parametrize(
    "where, reason",
    [
        ("balanced", "never split over devices"),
        ({"embeddings": "cpu", "encoder": "cpu"}, "never split over devices"),
        ("cqu", "'auto' or a device of this machine, got 'cqu'"),
        ("cpu:x", "got 'cpu:x'"),
        ("xpu:7", "got 'xpu:7'"),
        (1.5, "got 1.5"),
    ],
)
def test_devices_that_are_none(folder, where, reason):
    with pytest.raises(ArgumentError, match=reason):
        load("BertModel", folder, device_map=where)
