"""A running service of tiny models: a sentence encoder, a classifier, a reranker, BERT's other tasks and a GPT-2."""

from __future__ import annotations

import contextlib
import io
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer import (
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    BertTokenizer,
    SentenceEncoder,
)
from glassformer.serve.service.metrics import Metrics
from glassformer.serve.service.served_model import load_models
from glassformer.serve.service.server import listen, make_server
from glassformer.serve.service.service import Service
from glassformer.serve.service.settings import ServiceSettings

from ...generate.tiny_gpt2 import write_tiny_gpt2
from ...models.architectures import tiny_bert
from ...tasks.conftest import save
from ...tasks.tiny import VOCAB

try:
    import httpx2 as httpx  # as newer releases of huggingface_hub and openai use it
except ImportError:
    import httpx

TASKS = {"minilm": None, "sst2": None, "reranker": None, "ner": None, "fill": None, "gpt2": None}


def write_models(folder: Path) -> dict[str, str]:
    """Folders by name."""
    torch.manual_seed(0)
    size = {"vocab_size": len(VOCAB), "max_position_embeddings": 64}
    tokenizer = BertTokenizer(vocab={word: i for i, word in enumerate(VOCAB)})
    SentenceEncoder(BertModel(tiny_bert(**size)), tokenizer, prompts={"query": "so "}).save_pretrained(
        folder / "minilm"
    )
    save(folder / "sst2", BertForSequenceClassification(tiny_bert(**size, num_labels=3)))
    save(folder / "reranker", BertForSequenceClassification(tiny_bert(**size, num_labels=1)))
    save(folder / "ner", BertForTokenClassification(tiny_bert(**size, num_labels=3)))
    save(folder / "fill", BertForMaskedLM(tiny_bert(**size)))
    write_tiny_gpt2(folder / "gpt2")
    return {name: str(folder / name) for name in TASKS}


class Running:
    """A service on a port of its own."""

    def __init__(self, folders: dict[str, str], **settings: Any) -> None:
        self.log = io.StringIO()
        self.settings = ServiceSettings(**settings)
        metrics = Metrics(self.log)
        self.service = Service(load_models(folders, [], metrics, self.settings), self.settings, metrics)
        self.socket = listen("127.0.0.1", 0)
        self.port = self.socket.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.server = make_server(self.service)
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],), daemon=True)
        self.client = httpx.Client(base_url=self.address, timeout=30)

    def start(self) -> None:
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(30)
        self.client.close()
        assert not self.thread.is_alive()

    def post(self, path: str, body: Any, **more: Any) -> Any:
        """The answer to a request that must succeed."""
        response = self.client.post(path, json=body, **more)
        assert response.status_code == 200, response.text
        return response.json()

    def refused(self, path: str, body: Any) -> tuple[int, Any]:
        """The status of a request that must fail, and its error."""
        response = self.client.post(path, json=body)
        assert response.status_code >= 400
        return response.status_code, response.json()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    def pipe(self, name: str) -> Any:
        return self.service.models[name].pipe


@contextlib.contextmanager
def running(folders: dict[str, str], **settings: Any) -> Iterator[Running]:
    found = Running(folders, **settings)
    found.start()
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> dict[str, str]:
    return write_models(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def service(folders) -> Iterator[Running]:
    with running(folders) as found:
        yield found
