"""An explorer of tiny models in a real browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from glassformer import (
    BertForMaskedLM,
    BertModel,
    BertTokenizer,
    RNNConfig,
    RNNForSeq2SeqLM,
    Subject,
    TransformerForSeq2SeqLM,
)
from glassformer.serve.explorer import Explorer

from ..generate.tiny_gpt2 import write_tiny_gpt2
from ..models.architectures import tiny_bert
from ..models.encoder_decoders import tiny_transformer
from ..tasks.conftest import save
from ..tasks.tiny import VOCAB
from .explorer_page import opened

HOSTILE = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>", "\u202e", "🙂", "שלום"]
TEXT = f"the cat sat on the mat {' '.join(HOSTILE)} 北京"


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    model = BertForMaskedLM(tiny_bert(vocab_size=len(VOCAB) + len(HOSTILE), max_position_embeddings=64)).eval()
    return save(tmp_path_factory.mktemp("bert"), model)


@pytest.fixture(scope="session")
def gpt_folder(tmp_path_factory) -> Path:
    return write_tiny_gpt2(tmp_path_factory.mktemp("gpt2"))


@pytest.fixture(scope="session")
def hostile_subject(bert_folder) -> Subject:
    """A BERT whose vocabulary holds hostile tokens, so that they reach the page unsplit."""
    subject = Subject.load(bert_folder)
    subject.tokenizer.add_tokens(HOSTILE)
    return subject


def running(explorer: Explorer) -> Iterator[tuple[Explorer, str]]:
    server = explorer.serve()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield explorer, server.address
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def explorer(hostile_subject) -> Iterator[tuple[Explorer, str]]:
    torch.manual_seed(1)
    other = Subject(BertModel(tiny_bert(vocab_size=hostile_subject.model.config.vocab_size)), hostile_subject.tokenizer)
    yield from running(Explorer([hostile_subject, other], TEXT))


@pytest.fixture
def page(chromium, explorer) -> Iterator:
    yield from opened(chromium, explorer[1])


@pytest.fixture(scope="session")
def generator(gpt_folder) -> Iterator[tuple[Explorer, str]]:
    yield from running(Explorer([Subject.load(gpt_folder)], "Once upon a time"))


TARGET = {"vocab_size": len(VOCAB), "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2}


def write_translator(folder: Path, model) -> Path:
    model.save_pretrained(folder)
    BertTokenizer(vocab={word: i for i, word in enumerate(VOCAB)}).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def translator(tmp_path_factory) -> Iterator[tuple[Explorer, str]]:
    """An encoder-decoder, which has three kinds of attention."""
    torch.manual_seed(0)
    model = TransformerForSeq2SeqLM(tiny_transformer(**TARGET))
    folder = write_translator(tmp_path_factory.mktemp("translator"), model)
    yield from running(Explorer([Subject.load(folder)], "the cat sat on the mat", "so good"))


@pytest.fixture(scope="session")
def recurrent_folder(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    model = RNNForSeq2SeqLM(RNNConfig(**TARGET, hidden_size=16, num_hidden_layers=2))
    return write_translator(tmp_path_factory.mktemp("recurrent"), model)


@pytest.fixture(scope="session")
def recurrent(recurrent_folder) -> Iterator[tuple[Explorer, str]]:
    """A recurrent translator, with one head of cross-attention."""
    yield from running(Explorer([Subject.load(recurrent_folder)], "the cat sat on the mat", "so good"))
