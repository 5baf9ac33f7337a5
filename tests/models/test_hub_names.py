"""A hub name instead of a folder: tokenizer and model through the real client, a mirror per call, then offline."""

from __future__ import annotations

import socket

import pytest
import torch

import glassformer

from ..checkpoints.hub_server import HubServer
from .architectures import tiny_bert

IDS = torch.tensor([[2, 7, 9, 3]])
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "glass", "##es", "a", "b"]


@pytest.fixture
def files(tmp_path) -> dict[str, bytes]:
    torch.manual_seed(0)
    glassformer.BertForPreTraining(tiny_bert(vocab_size=len(WORDS) + 1)).save_pretrained(tmp_path / "made")
    (tmp_path / "made/vocab.txt").write_text("\n".join(WORDS) + "\n")
    return {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()}


def test_by_name(files, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    local = glassformer.BertModel.from_pretrained(tmp_path / "made")(IDS)[0]
    with HubServer({"org/small": {"main": files}}) as hub, HubServer({}) as lagging:
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody answers there
        model = glassformer.AutoModel.from_pretrained("org/small", endpoint=[lagging.url, hub.url])
        assert torch.equal(model(IDS)[0], local)
        assert model.config.name_or_path == "org/small"
        assert set(hub.fetched()) == {"config.json", "model.safetensors"}
        monkeypatch.setenv("HF_ENDPOINT", hub.url)  # set long after the import
        tokenizer = glassformer.AutoTokenizer.from_pretrained("org/small")
        assert tokenizer("glasses a")["input_ids"] == [2, 5, 6, 7, 3]
        head = glassformer.BertForMaskedLM.from_pretrained("org/small", cache_dir=tmp_path / "other", revision="main")
        assert not head.load_report.initialised

    monkeypatch.setattr(socket, "socket", lambda *a, **k: pytest.fail("a socket was opened"))
    for offline in ({"local_files_only": True}, {}):
        monkeypatch.setenv("HF_HUB_OFFLINE", "0" if offline else "1")
        assert torch.equal(glassformer.BertModel.from_pretrained("org/small", **offline)(IDS)[0], local)
        assert glassformer.BertConfig.from_pretrained("org/small", **offline).vocab_size == len(WORDS) + 1
        assert glassformer.BertTokenizer.from_pretrained("org/small", **offline).vocab_size == len(WORDS)
    with pytest.raises(glassformer.HubError):
        glassformer.BertModel.from_pretrained("org/absent")
